// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/library.h"

#include "runtime/format/sha256.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvq {
namespace {

constexpr char kMagic[8] = {'\x89', 'K', 'V', 'Q', 'L', 'I', 'B', '\n'};
constexpr size_t kHeaderBytes = 128, kBlobBytes = 64, kKernelBytes = 192, kAlign = 64;
constexpr size_t kTargetBytes = 16, kLevelBytes = 64, kSymbolBytes = 64;
constexpr uint32_t kMaxEntries = 4096; ///< blobs, and kernels; far above what a library holds
constexpr int64_t kMaxFloats = int64_t(1) << 40;
constexpr int32_t kWarp = 32, kMaxThreads = 1024, kMaxSharedBytes = 1 << 18;
enum BlobKind : uint32_t { methodBlob, manifestBlob, constantsBlob, objectBlob };

size_t roundUp(size_t x) { return (x + kAlign - 1) / kAlign * kAlign; }

/// Appends little-endian fields.
class FieldWriter {
public:
  explicit FieldWriter(std::string &out) : out(out) {}
  void integer(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      out += char(value >> (8 * i));
  }
  void text(const std::string &value, size_t bytes) { out += value, zeros(bytes - value.size()); }
  void digest(const Digest &value) { out.append(value.begin(), value.end()); }
  void zeros(size_t bytes) { out.append(bytes, '\0'); }

private:
  std::string &out;
};

/// Takes little-endian fields; the caller has checked that they lie in the file.
class FieldReader {
public:
  explicit FieldReader(const uint8_t *at) : at(at) {}
  uint64_t integer(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value |= uint64_t(*at++) << (8 * i);
    return value;
  }
  /// False if the text does not end in zero bytes.
  bool text(size_t bytes, std::string &out) {
    const size_t length = ::strnlen(reinterpret_cast<const char *>(at), bytes);
    out.assign(reinterpret_cast<const char *>(at), length);
    at += length;
    return length < bytes && zeros(bytes - length);
  }
  Digest digest() {
    Digest value;
    std::memcpy(value.data(), at, value.size());
    at += value.size();
    return value;
  }
  bool zeros(size_t bytes) {
    bool zero = true;
    for (; bytes; --bytes)
      zero &= *at++ == 0;
    return zero;
  }

private:
  const uint8_t *at;
};

/// What one target has and another has not: roles, and the shape of a block.
std::string checkTarget(const LibraryKernel &kernel) {
  const bool cpu = kernel.target == "cpu";
  if (kernel.role == (cpu ? KernelRole::plan : KernelRole::merge))
    return "expected a role of the target '" + kernel.target + "', got " + roleName(kernel.role);
  if (cpu ? kernel.threads != 0
          : kernel.threads < kWarp || kernel.threads > kMaxThreads || kernel.threads % kWarp)
    return "expected " +
           (cpu ? std::string("no threads of a block on the CPU")
                : "a multiple of " + std::to_string(kWarp) + " threads of a block, at most " +
                      std::to_string(kMaxThreads)) +
           ", got " + std::to_string(kernel.threads);
  const int32_t shared = cpu ? 0 : kMaxSharedBytes;
  if (kernel.shared_bytes < 0 || kernel.shared_bytes > shared)
    return "expected 0 to " + std::to_string(shared) + " bytes of shared memory, got " +
           std::to_string(kernel.shared_bytes);
  return "";
}

std::string checkKernel(const LibraryKernel &kernel, size_t objects) {
  const std::string where = "kernel '" + kernel.symbol + "': ";
  auto tooLong = [&](const char *what, const std::string &text, size_t bytes) {
    return where + "expected a " + what + " of at most " + std::to_string(bytes - 1) +
           " bytes without zero bytes, got " + std::to_string(text.size()) + " bytes";
  };
  auto bad = [](const std::string &text, size_t bytes) {
    return text.size() >= bytes || text.find('\0') != std::string::npos;
  };
  if (bad(kernel.target, kTargetBytes))
    return tooLong("target", kernel.target, kTargetBytes);
  if (bad(kernel.level, kLevelBytes))
    return tooLong("level", kernel.level, kLevelBytes);
  if (bad(kernel.symbol, kSymbolBytes))
    return tooLong("symbol", kernel.symbol, kSymbolBytes);
  if (kernel.symbol.empty())
    return "expected a symbol for each kernel, got an empty one";
  if (uint32_t(kernel.role) >= kKernelRoles)
    return where + "expected a role of 0 to " + std::to_string(kKernelRoles - 1) + ", got " +
           std::to_string(uint32_t(kernel.role));
  if (std::string error = checkTarget(kernel); !error.empty())
    return where + error;
  if (kernel.object >= objects)
    return where + "expected one of " + std::to_string(objects) + " objects, got number " +
           std::to_string(kernel.object);
  for (int64_t floats : {kernel.info.query_floats, kernel.info.partial_floats})
    if (floats < 0 || floats > kMaxFloats)
      return where + "expected workspace sizes of 0 to " + std::to_string(kMaxFloats) +
             " floats, got " + std::to_string(floats);
  return "";
}

struct Blob {
  BlobKind kind;
  ByteSpan bytes;
};

std::vector<Blob> blobsOf(const LibraryContents &contents) {
  auto span = [](const std::string &text) { return ByteSpan{text.data(), text.size()}; };
  std::vector<Blob> blobs = {{methodBlob, span(contents.method)},
                             {manifestBlob, span(contents.manifest)},
                             {constantsBlob, span(contents.constants)}};
  for (const std::string &object : contents.objects)
    blobs.push_back({objectBlob, span(object)});
  return blobs;
}

std::string tableBytes(const std::vector<Blob> &blobs, const std::vector<LibraryKernel> &kernels,
                       size_t &end) {
  std::string tables;
  FieldWriter write(tables);
  end = roundUp(kHeaderBytes + blobs.size() * kBlobBytes + kernels.size() * kKernelBytes);
  for (const Blob &blob : blobs) {
    write.integer(blob.kind, 8);
    write.integer(end, 8);
    write.integer(blob.bytes.size, 8);
    write.zeros(8);
    write.digest(sha256(blob.bytes.data, blob.bytes.size));
    end = roundUp(end + blob.bytes.size);
  }
  for (const LibraryKernel &kernel : kernels) {
    write.integer(uint32_t(kernel.role), 4);
    write.integer(kernel.object, 4);
    write.text(kernel.target, kTargetBytes);
    write.text(kernel.level, kLevelBytes);
    write.text(kernel.symbol, kSymbolBytes);
    write.integer(uint64_t(kernel.info.query_floats), 8);
    write.integer(uint64_t(kernel.info.partial_floats), 8);
    write.integer(uint32_t(kernel.threads), 4);
    write.integer(uint32_t(kernel.shared_bytes), 4);
    write.zeros(16);
  }
  return tables;
}

/// A file's bytes while they are taken apart.
struct Parser {
  ByteSpan file;
  uint32_t blobs = 0, kernels = 0;

  const uint8_t *at(size_t offset) const { return file.bytes() + offset; }
  size_t tablesEnd() const { return kHeaderBytes + blobs * kBlobBytes + kernels * kKernelBytes; }
  bool zeros(size_t begin, size_t end) const { return FieldReader(at(begin)).zeros(end - begin); }

  std::string header();
  std::string blob(uint32_t index, size_t &end, ByteSpan &out) const;
  std::string kernel(uint32_t index, LibraryKernel &out) const;
};

std::string truncated(const std::string &what, uint64_t expected, size_t got) {
  return what + ": expected " + std::to_string(expected) + " bytes, got " + std::to_string(got);
}

std::string readVersions(ByteSpan bytes, uint32_t &version, uint32_t &oldest) {
  if (bytes.size < sizeof kMagic + 8)
    return truncated("the library is cut off", kHeaderBytes, bytes.size);
  if (std::memcmp(bytes.data, kMagic, sizeof kMagic) != 0)
    return "expected a kvq library, got a file that does not begin like one";
  FieldReader read(bytes.bytes() + sizeof kMagic);
  version = uint32_t(read.integer(4));
  oldest = uint32_t(read.integer(4));
  return "";
}

std::string Parser::header() {
  uint32_t version = 0, oldest = 0;
  if (std::string error = readVersions(file, version, oldest); !error.empty())
    return error;
  if (version != kLibraryVersion || oldest > kLibraryVersion)
    return "this kvq reads library format version " + std::to_string(kLibraryVersion) +
           ", the library has version " + std::to_string(version) +
           " and asks for a reader of version " + std::to_string(oldest) + " or later";
  if (file.size < kHeaderBytes)
    return truncated("the library is cut off", kHeaderBytes, file.size);
  FieldReader read(at(sizeof kMagic + 8));
  const uint64_t size = read.integer(8);
  blobs = uint32_t(read.integer(4)), kernels = uint32_t(read.integer(4));
  const bool zero = read.zeros(32);
  const Digest tables = read.digest();
  if (read.digest() != sha256(file.data, kHeaderBytes - 32))
    return "the header of the library is damaged: its digest does not match";
  if (size != file.size)
    return truncated("the library is cut off or has something behind it", size, file.size);
  if (!zero || blobs < objectBlob || blobs > kMaxEntries || kernels > kMaxEntries ||
      tablesEnd() > file.size)
    return "the header of the library contradicts itself: " + std::to_string(blobs) +
           " blobs and " + std::to_string(kernels) + " kernels";
  if (tables != sha256(at(kHeaderBytes), tablesEnd() - kHeaderBytes))
    return "the tables of the library are damaged: their digest does not match";
  return "";
}

std::string Parser::blob(uint32_t index, size_t &end, ByteSpan &out) const {
  const std::string name = "blob " + std::to_string(index);
  FieldReader read(at(kHeaderBytes + index * kBlobBytes));
  const uint64_t kind = read.integer(8), offset = read.integer(8), size = read.integer(8);
  if (kind != std::min<uint64_t>(index, objectBlob) || !read.zeros(8))
    return name + " of the library: expected kind " +
           std::to_string(std::min<uint32_t>(index, objectBlob)) + ", got " + std::to_string(kind);
  if (offset != roundUp(end) || offset > file.size || size > file.size - offset)
    return name + " of the library: expected bytes from " + std::to_string(roundUp(end)) +
           " inside the file of " + std::to_string(file.size) + " bytes, got " +
           std::to_string(size) + " bytes from " + std::to_string(offset);
  if (!zeros(end, offset))
    return name + " of the library: expected zero bytes in front of it";
  out = {at(offset), size_t(size)};
  if (read.digest() != sha256(out.data, out.size))
    return name + " of the library is damaged: its digest does not match";
  end = size_t(offset + size);
  return "";
}

std::string Parser::kernel(uint32_t index, LibraryKernel &out) const {
  FieldReader read(at(kHeaderBytes + blobs * kBlobBytes + index * kKernelBytes));
  out.role = KernelRole(read.integer(4));
  out.object = uint32_t(read.integer(4));
  bool good = read.text(kTargetBytes, out.target);
  good &= read.text(kLevelBytes, out.level);
  good &= read.text(kSymbolBytes, out.symbol);
  out.info.query_floats = int64_t(read.integer(8));
  out.info.partial_floats = int64_t(read.integer(8));
  out.threads = int32_t(read.integer(4));
  out.shared_bytes = int32_t(read.integer(4));
  if (!good || !read.zeros(16))
    return "kernel " + std::to_string(index) +
           " of the library: expected zero bytes behind texts and numbers";
  return checkKernel(out, blobs - objectBlob);
}

} // namespace

const char *roleName(KernelRole role) {
  static const char *const names[] = {"append", "prepare", "decode", "merge", "plan"};
  return names[uint32_t(role)];
}

std::string libraryBytes(const LibraryContents &contents, std::string &out) {
  const std::vector<Blob> blobs = blobsOf(contents);
  if (blobs.size() > kMaxEntries || contents.kernels.size() > kMaxEntries)
    return "expected at most " + std::to_string(kMaxEntries) + " objects and kernels";
  for (const LibraryKernel &kernel : contents.kernels)
    if (std::string error = checkKernel(kernel, contents.objects.size()); !error.empty())
      return error;
  size_t end = 0;
  const std::string tables = tableBytes(blobs, contents.kernels, end);
  std::string bytes(kMagic, sizeof kMagic);
  FieldWriter write(bytes);
  write.integer(kLibraryVersion, 4);
  write.integer(kLibraryVersion, 4);
  write.integer(end, 8);
  write.integer(blobs.size(), 4);
  write.integer(contents.kernels.size(), 4);
  write.zeros(32);
  write.digest(sha256(tables.data(), tables.size()));
  write.digest(sha256(bytes.data(), bytes.size()));
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

std::string parseLibrary(ByteSpan bytes, LibraryView &out) {
  Parser parser{bytes};
  if (std::string error = parser.header(); !error.empty())
    return error;
  LibraryView view;
  view.objects.resize(parser.blobs - objectBlob);
  size_t end = parser.tablesEnd();
  for (uint32_t i = 0; i < parser.blobs; ++i) {
    ByteSpan *const fixed[] = {&view.method, &view.manifest, &view.constants};
    ByteSpan &span = i < objectBlob ? *fixed[i] : view.objects[i - objectBlob];
    if (std::string error = parser.blob(i, end, span); !error.empty())
      return error;
  }
  if (roundUp(end) != bytes.size || !parser.zeros(end, bytes.size))
    return "expected the library to end in zero bytes behind its last blob";
  view.kernels.resize(parser.kernels);
  for (uint32_t i = 0; i < parser.kernels; ++i)
    if (std::string error = parser.kernel(i, view.kernels[i]); !error.empty())
      return error;
  out = std::move(view);
  return "";
}

bool isOtherVersion(ByteSpan bytes) {
  uint32_t version = 0, oldest = 0;
  return readVersions(bytes, version, oldest).empty() &&
         (version != kLibraryVersion || oldest > kLibraryVersion);
}

} // namespace kvq
