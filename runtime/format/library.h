// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library file (.kvqlib), format version 1.
//
//   offset 0   header, 128 bytes
//   ...        blob table, 64 bytes each; kernel table, 192 bytes each; layer table, 8 bytes each
//   ...        blobs, each at a multiple of 64; unused bytes are zero
//
// All integers are little-endian. Header: magic (8 bytes), version u32, oldest version a reader
// needs u32, file bytes u64, blobs u32, kernels u32, formats u32, layers u32, bytes of a blob entry
// u32, of a kernel entry u32, of a layer entry u32, 12 zero bytes, SHA-256 of the tables, SHA-256
// of header bytes 0..95.
//
// Blob: kind u32, flags u32, offset u64, bytes u64, zero u64, SHA-256 of its bytes. Blob 0 is the
// manifest; blobs 1 + 2 f and 2 + 2 f are the method and the constants of format f; the objects
// follow, object 0 first. Kernel: role u32, flags u32, format u32, object u32, target char[16],
// level char[64], symbol char[64], query_floats i64, partial_floats i64, rows u32, threads u32,
// shared_bytes u32, 4 zero bytes; texts are filled up with zero bytes and end in at least one.
// Layer of the model: format i32, -1 for a layer that the library does not quantize; index of the
// layer in the format's constants u32.
//
// Kernels of target "cpu" have an object that is a shared object for the instruction set `level`.
// Kernels of another target, "sm_90a", have a module, and `level` tells which kind: "cubin", or
// "ptx" as text. A library may hold any of them.
//
// Versions. A file tells the oldest reader that understands it. Readers of that version and later
// ones read it: they take what they know and leave out what is flagged optional (bit 0 of flags) or
// stands behind the part of an entry that they know. So a later version may add, without locking
// out readers of this one: blobs of new kinds behind the objects and kernels of new roles, flagged
// optional; fields at the end of entries, or in place of zeros, that may be ignored. What else
// changes, raises the oldest version: then this reader refuses, and names both. In a file of its
// own version a reader accepts nothing unknown. Files older than version 1 are refused.
//
// Errors are one sentence; an empty string is success. No exception leaves these functions, but for
// want of memory.
#pragma once

#include "runtime/format/file.h"

#include <string>
#include <vector>

namespace kvq {

inline constexpr uint32_t kLibraryVersion = 1;
/// The version of the oldest files that this reader reads, and of the oldest reader that reads what
/// the writer writes.
inline constexpr uint32_t kOldestLibraryVersion = 1;

/// The numbers are those of the file, and never change.
enum class KernelRole : uint32_t {
  append,
  prepare,
  decode,
  merge, ///< cpu only
  plan,  ///< not on the cpu
  dequantize,
  append_window,
  demote,
  commit
};
inline constexpr uint32_t kKernelRoles = 9;
const char *roleName(KernelRole role);

/// Workspace of a decode, in floats; kernel_abi.h says what of.
struct WorkspaceFloats {
  int64_t query_floats = 0;
  int64_t partial_floats = 0;
};

/// One kernel: a symbol of an object, and what the launcher must know of it.
struct LibraryKernel {
  KernelRole role = KernelRole::append;
  std::string target = "cpu"; ///< "cpu", or a GPU's name for the assembler, "sm_90a"; at most 15
                              ///< bytes
  std::string level;  ///< cpu: instruction set of the object, "x86-64", "x86-64-v3", "x86-64-v4" or
                      ///< empty for any; else "cubin" or "ptx"; at most 63 bytes
  std::string symbol; ///< at most 63 bytes
  uint32_t object = 0;      ///< index in the objects
  WorkspaceFloats info;     ///< the same in all kernels of a decode that work together
  int32_t threads = 0;      ///< of a block, 32 to 1024 in warps of 32; cpu: 0
  int32_t shared_bytes = 0; ///< dynamic shared memory of a block, at most 2^18; cpu: 0
  int32_t rows = 0;         ///< decode: query rows of a block of rows, 1 to 4096; prepare, merge:
                            ///< likewise, or 0 for any; else 0
  uint32_t format = 0;      ///< index in the formats
};

/// Where a layer of the model finds its format.
struct LibraryLayer {
  int32_t format = -1; ///< index in the formats; -1: the library does not quantize the layer
  uint32_t constant_layer = 0; ///< layer index in the constants of the format; 0 for format -1
};

/// A method and its constants, as the writer takes them.
struct LibraryFormat {
  std::string method;    ///< JSON, methodText()
  std::string constants; ///< bytes; the offsets of CacheMethod::constants lie in it
};

/// What the writer takes.
struct LibraryContents {
  std::string manifest;               ///< JSON for people and tools; the runtime does not read it
  std::vector<LibraryFormat> formats; ///< 1 to 1024
  std::vector<LibraryLayer> layers;   ///< of the model, 1 to 65536
  std::vector<std::string> objects;   ///< bytes of shared objects and GPU modules
  std::vector<LibraryKernel> kernels;
};

struct LibraryFormatView {
  ByteSpan method, constants;
};

/// What the reader gives; the spans lie in the bytes that were parsed. Objects and constants start
/// at a multiple of 64 from the start of the bytes.
struct LibraryView {
  uint32_t version = 0; ///< of the file; may be later than kLibraryVersion
  ByteSpan manifest;
  std::vector<LibraryFormatView> formats; ///< at least one
  std::vector<LibraryLayer> layers;       ///< at least one
  std::vector<ByteSpan> objects;
  std::vector<LibraryKernel> kernels; ///< without those of roles that only a later version knows
};

/// The bytes of a library file; the same contents give the same bytes.
std::string libraryBytes(const LibraryContents &contents, std::string &out);

/// Writes a library; the file is replaced as a whole or not at all.
std::string writeLibrary(const std::string &path, const LibraryContents &contents);

/// Checks bounds, digests and that unused bytes are zero: a change of any byte is an error. Refuses
/// a version that it cannot read with both versions named.
std::string parseLibrary(ByteSpan bytes, LibraryView &out);

/// True if `bytes` is a library of a version that we cannot read (parseLibrary says so too; this is
/// for a status code).
bool isOtherVersion(ByteSpan bytes);

} // namespace kvq
