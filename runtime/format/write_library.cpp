// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/library_fields.h"

#include <utility>

namespace kvq {
namespace {

using namespace library_file;

struct Blob {
  BlobKind kind;
  ByteSpan bytes;
};

std::vector<Blob> blobsOf(const LibraryContents &contents) {
  auto span = [](const std::string &text) { return ByteSpan{text.data(), text.size()}; };
  std::vector<Blob> blobs = {{manifestBlob, span(contents.manifest)}};
  for (const LibraryFormat &format : contents.formats) {
    blobs.push_back({methodBlob, span(format.method)});
    blobs.push_back({constantsBlob, span(format.constants)});
  }
  for (const std::string &object : contents.objects)
    blobs.push_back({objectBlob, span(object)});
  return blobs;
}

void writeKernel(FieldWriter &write, const LibraryKernel &kernel) {
  write.integer(uint32_t(kernel.role), 4);
  write.integer(0, 4);
  write.integer(kernel.format, 4);
  write.integer(kernel.object, 4);
  write.text(kernel.target, kTargetBytes);
  write.text(kernel.level, kLevelBytes);
  write.text(kernel.symbol, kSymbolBytes);
  write.integer(uint64_t(kernel.info.query_floats), 8);
  write.integer(uint64_t(kernel.info.partial_floats), 8);
  write.integer(uint32_t(kernel.rows), 4);
  write.integer(uint32_t(kernel.threads), 4);
  write.integer(uint32_t(kernel.shared_bytes), 4);
  write.zeros(4);
}

/// `end` becomes the size of the file.
std::string tableBytes(const LibraryContents &contents, const std::vector<Blob> &blobs,
                       size_t &end) {
  std::string tables;
  FieldWriter write(tables);
  end = roundUp(kHeaderBytes + blobs.size() * kBlobBytes + contents.kernels.size() * kKernelBytes +
                contents.layers.size() * kLayerBytes);
  for (const Blob &blob : blobs) {
    write.integer(blob.kind, 4);
    write.integer(0, 4);
    write.integer(end, 8);
    write.integer(blob.bytes.size, 8);
    write.zeros(8);
    write.digest(sha256(blob.bytes.data, blob.bytes.size));
    end = roundUp(end + blob.bytes.size);
  }
  for (const LibraryKernel &kernel : contents.kernels)
    writeKernel(write, kernel);
  for (const LibraryLayer &layer : contents.layers) {
    write.integer(uint32_t(layer.format), 4);
    write.integer(layer.constant_layer, 4);
  }
  return tables;
}

std::string headerBytes(const LibraryContents &contents, size_t blobs, size_t end,
                        const std::string &tables) {
  std::string bytes(kMagic, sizeof kMagic);
  FieldWriter write(bytes);
  write.integer(kLibraryVersion, 4);
  write.integer(kOldestLibraryVersion, 4);
  write.integer(end, 8);
  for (size_t count : {blobs, contents.kernels.size(), contents.formats.size(),
                       contents.layers.size(), kBlobBytes, kKernelBytes, kLayerBytes})
    write.integer(count, 4);
  write.zeros(12);
  write.digest(sha256(tables.data(), tables.size()));
  write.digest(sha256(bytes.data(), bytes.size()));
  return bytes;
}

std::string checkContents(const LibraryContents &contents, size_t blobs) {
  auto count = [](const char *what, size_t got, size_t low, size_t high) -> std::string {
    if (got >= low && got <= high)
      return "";
    return "expected " + std::to_string(low) + " to " + std::to_string(high) + " " + what +
           " in a library, got " + std::to_string(got);
  };
  for (const std::string &error : {count("formats", contents.formats.size(), 1, kMaxFormats),
                                   count("layers", contents.layers.size(), 1, kMaxLayers),
                                   count("blobs", blobs, 1, kMaxEntries),
                                   count("kernels", contents.kernels.size(), 0, kMaxEntries),
                                   checkLayers(contents.layers, contents.formats.size())})
    if (!error.empty())
      return error;
  for (const LibraryKernel &kernel : contents.kernels)
    if (std::string error = checkKernel(kernel, contents.objects.size(), contents.formats.size());
        !error.empty())
      return error;
  return "";
}

} // namespace

std::string libraryBytes(const LibraryContents &contents, std::string &out) {
  const std::vector<Blob> blobs = blobsOf(contents);
  if (std::string error = checkContents(contents, blobs.size()); !error.empty())
    return error;
  size_t end = 0;
  const std::string tables = tableBytes(contents, blobs, end);
  std::string bytes = headerBytes(contents, blobs.size(), end, tables);
  FieldWriter write(bytes);
  bytes += tables;
  for (const Blob &blob : blobs) {
    write.zeros(roundUp(bytes.size()) - bytes.size());
    bytes.append(static_cast<const char *>(blob.bytes.data), blob.bytes.size);
  }
  write.zeros(end - bytes.size());
  out = std::move(bytes);
  return "";
}

std::string writeLibrary(const std::string &path, const LibraryContents &contents) {
  std::string bytes;
  if (std::string error = libraryBytes(contents, bytes); !error.empty())
    return error;
  return writeFile(path, {{bytes.data(), bytes.size()}});
}

} // namespace kvq
