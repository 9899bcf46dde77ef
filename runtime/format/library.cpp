// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/library_fields.h"

#include <algorithm>
#include <utility>

namespace kvq {
namespace {

using namespace library_file;

std::string truncated(const std::string &what, uint64_t expected, size_t got) {
  return what + ": expected " + std::to_string(expected) + " bytes, got " + std::to_string(got);
}

std::string readVersions(ByteSpan bytes, uint32_t &version, uint32_t &oldest) {
  if (bytes.size < sizeof kMagic + 8)
    return truncated("the library is cut off", kHeaderBytes, bytes.size);
  if (std::memcmp(bytes.data, kMagic, sizeof kMagic) != 0)
    return "expected a kvq library, got a file that does not begin like one";
  FieldReader read(bytes.bytes() + sizeof kMagic);
  version = read.u32(), oldest = read.u32();
  return "";
}

bool readable(uint32_t version, uint32_t oldest) {
  return version >= kOldestLibraryVersion && oldest <= kLibraryVersion && oldest <= version;
}

struct Blob {
  uint32_t kind = 0;
  ByteSpan bytes;
  Digest digest = {};
};

/// A file's bytes while they are taken apart.
class Parser {
public:
  explicit Parser(ByteSpan file) : file(file) {}

  std::string run(LibraryView &view);

private:
  const uint8_t *at(size_t offset) const { return file.bytes() + offset; }
  size_t kernelsAt() const { return kHeaderBytes + size_t(blobs) * blobBytes; }
  size_t layersAt() const { return kernelsAt() + size_t(kernels) * kernelBytes; }
  size_t tablesEnd() const { return layersAt() + size_t(layers) * layerBytes; }
  bool zeros(size_t begin, size_t end) const { return FieldReader(at(begin)).zeros(end - begin); }
  /// What stands in unused bytes of a later version's file is not ours to judge.
  bool unused(bool zero) const { return zero || version > kLibraryVersion; }

  std::string header();
  std::string counts() const;
  std::string blob(uint32_t index, size_t &end, Blob &out) const;
  std::string allBlobs(LibraryView &view) const;
  std::string kernel(uint32_t index, std::vector<LibraryKernel> &out) const;
  std::string allLayers(std::vector<LibraryLayer> &out) const;

  ByteSpan file;
  uint32_t version = 0, blobs = 0, kernels = 0, formats = 0, layers = 0;
  uint32_t blobBytes = 0, kernelBytes = 0, layerBytes = 0;
  uint32_t objects = 0; ///< known after the blobs
};

std::string Parser::header() {
  uint32_t oldest = 0;
  if (std::string error = readVersions(file, version, oldest); !error.empty())
    return error;
  if (!readable(version, oldest))
    return "this kvq reads library format version " + std::to_string(kLibraryVersion) +
           ", the library has version " + std::to_string(version) +
           (version < kOldestLibraryVersion
                ? ", which is too old"
                : " and asks for a reader of version " + std::to_string(oldest) + " or later");
  if (file.size < kHeaderBytes)
    return truncated("the library is cut off", kHeaderBytes, file.size);
  FieldReader read(at(sizeof kMagic + 8));
  const uint64_t size = read.integer(8);
  for (uint32_t *field :
       {&blobs, &kernels, &formats, &layers, &blobBytes, &kernelBytes, &layerBytes})
    *field = read.u32();
  const bool zero = unused(read.zeros(12));
  const Digest tables = read.digest();
  if (read.digest() != sha256(file.data, kHeaderBytes - 32))
    return "the header of the library is damaged: its digest does not match";
  if (size != file.size)
    return truncated("the library is cut off or has something behind it", size, file.size);
  if (!zero)
    return "the header of the library: expected zero in its unused bytes";
  if (std::string error = counts(); !error.empty())
    return error;
  if (tables != sha256(at(kHeaderBytes), tablesEnd() - kHeaderBytes))
    return "the tables of the library are damaged: their digest does not match";
  return "";
}

/// Sizes of entries are bounded so that no product overflows.
std::string Parser::counts() const {
  auto entry = [&](uint32_t bytes, size_t known) {
    return bytes == known || (version > kLibraryVersion && bytes > known && bytes <= 4096);
  };
  if (entry(blobBytes, kBlobBytes) && entry(kernelBytes, kKernelBytes) &&
      entry(layerBytes, kLayerBytes) && formats >= 1 && formats <= kMaxFormats && layers >= 1 &&
      layers <= kMaxLayers && kernels <= kMaxEntries && blobs <= kMaxEntries &&
      blobs >= firstObject(formats) && tablesEnd() <= file.size)
    return "";
  return "the header of the library contradicts itself: " + std::to_string(formats) + " formats, " +
         std::to_string(layers) + " layers, " + std::to_string(blobs) + " blobs and " +
         std::to_string(kernels) + " kernels in " + std::to_string(file.size) + " bytes";
}

std::string Parser::blob(uint32_t index, size_t &end, Blob &out) const {
  const std::string name = "blob " + std::to_string(index) + " of the library";
  FieldReader read(at(kHeaderBytes + size_t(index) * blobBytes));
  const uint32_t kind = read.u32(), flags = read.u32();
  const uint64_t offset = read.integer(8), size = read.integer(8);
  const bool unknown = version > kLibraryVersion && kind >= kBlobKinds && (flags & kOptional) &&
                       index >= firstObject(formats);
  if (!unknown && (kind != kindOf(index, formats) || !unused(flags == 0)))
    return name + ": expected kind " + std::to_string(kindOf(index, formats)) + ", got " +
           std::to_string(kind) + " with flags " + std::to_string(flags);
  if (!unused(read.zeros(8)))
    return name + ": expected zero in its unused bytes";
  if (offset != roundUp(end) || offset > file.size || size > file.size - offset)
    return name + ": expected bytes from " + std::to_string(roundUp(end)) + " inside the file of " +
           std::to_string(file.size) + " bytes, got " + std::to_string(size) + " bytes from " +
           std::to_string(offset);
  if (!zeros(end, offset))
    return name + ": expected zero bytes in front of it";
  out = {kind, {at(offset), size_t(size)}, read.digest()};
  if (out.digest != sha256(out.bytes.data, out.bytes.size))
    return name + " is damaged: its digest does not match";
  end = size_t(offset + size);
  return "";
}

std::string Parser::allBlobs(LibraryView &view) const {
  view.formats.resize(formats);
  size_t end = tablesEnd();
  bool unknown = false; // blobs of kinds that we do not know stand behind the objects
  for (uint32_t i = 0; i < blobs; ++i) {
    Blob got;
    if (std::string error = blob(i, end, got); !error.empty())
      return error;
    if (unknown && got.kind == objectBlob)
      return "blob " + std::to_string(i) + " of the library: expected no object behind others";
    unknown |= got.kind >= kBlobKinds;
    if (got.kind == manifestBlob)
      view.manifest = got.bytes;
    else if (got.kind == methodBlob)
      view.formats[(i - 1) / 2].method = got.bytes;
    else if (got.kind == constantsBlob)
      view.formats[(i - 1) / 2].constants = got.bytes,
                             view.formats[(i - 1) / 2].constantsDigest = got.digest;
    else if (got.kind == objectBlob)
      view.objects.push_back(got.bytes);
  }
  if (roundUp(end) != file.size || !zeros(end, file.size))
    return "expected the library to end in zero bytes behind its last blob";
  return "";
}

std::string Parser::kernel(uint32_t index, std::vector<LibraryKernel> &out) const {
  FieldReader read(at(kernelsAt() + size_t(index) * kernelBytes));
  LibraryKernel kernel;
  const uint32_t role = read.u32(), flags = read.u32();
  if (version > kLibraryVersion && role >= kKernelRoles && (flags & kOptional))
    return "";
  kernel.role = KernelRole(role);
  kernel.format = read.u32(), kernel.object = read.u32();
  bool good = unused(flags == 0);
  good &= read.text(kTargetBytes, kernel.target);
  good &= read.text(kLevelBytes, kernel.level);
  good &= read.text(kSymbolBytes, kernel.symbol);
  kernel.info.query_floats = int64_t(read.integer(8));
  kernel.info.partial_floats = int64_t(read.integer(8));
  kernel.rows = int32_t(read.u32());
  kernel.threads = int32_t(read.u32());
  kernel.shared_bytes = int32_t(read.u32());
  if (!good || !unused(read.zeros(4)))
    return "kernel " + std::to_string(index) +
           " of the library: expected zero bytes behind texts and numbers";
  if (std::string error = checkKernel(kernel, objects, formats); !error.empty())
    return error;
  out.push_back(std::move(kernel));
  return "";
}

std::string Parser::allLayers(std::vector<LibraryLayer> &out) const {
  out.resize(layers);
  for (uint32_t i = 0; i < layers; ++i) {
    FieldReader read(at(layersAt() + size_t(i) * layerBytes));
    out[i].format = int32_t(read.u32());
    out[i].constant_layer = read.u32();
  }
  return checkLayers(out, formats);
}

std::string Parser::run(LibraryView &view) {
  if (std::string error = header(); !error.empty())
    return error;
  view.version = version;
  if (std::string error = allBlobs(view); !error.empty())
    return error;
  objects = uint32_t(view.objects.size());
  for (uint32_t i = 0; i < kernels; ++i)
    if (std::string error = kernel(i, view.kernels); !error.empty())
      return error;
  return allLayers(view.layers);
}

} // namespace

std::string parseLibrary(ByteSpan bytes, LibraryView &out) {
  LibraryView view;
  if (std::string error = Parser(bytes).run(view); !error.empty())
    return error;
  out = std::move(view);
  return "";
}

bool isOtherVersion(ByteSpan bytes) {
  uint32_t version = 0, oldest = 0;
  return readVersions(bytes, version, oldest).empty() && !readable(version, oldest);
}

} // namespace kvq
