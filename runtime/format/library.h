// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library file (.kvqlib), format version 0: unstable, readers take this version only.
//
//   offset 0   header, 128 bytes
//   ...        blob table, 64 bytes each; kernel table, 192 bytes each
//   ...        blobs, each at a multiple of 64; unused bytes are zero
//
// All integers are little-endian. Header: magic (8 bytes), version u32, oldest version a reader
// needs u32, file bytes u64, blobs u32, kernels u32, 32 zero bytes, SHA-256 of both tables, SHA-256
// of header bytes 0..95. Blob: kind u32, zero u32, offset u64, bytes u64, zero u64, SHA-256 of its
// bytes. Blobs 0, 1, 2 are the method, the manifest and the constants; blob 3 + i is object i.
// Kernel: role u32, object u32, target char[16], level char[64], symbol char[64], query_floats
// i64, partial_floats i64, threads u32, shared_bytes u32, 16 zero bytes; texts are filled up with
// zero bytes and end in at least one.
//
// Kernels of target "cpu" have the roles append, prepare, decode and merge, and an object that is a
// shared object for the instruction set `level`. Kernels of another target, "sm_90a", have the
// roles append, plan, prepare and decode; their object is a module, and `level` tells which kind:
// "cubin", or "ptx" as text. A library may hold either kind or both.
//
// Errors are one sentence; an empty string is success. No exception leaves these functions.
#pragma once

#include "kvq/kernel_abi.h"
#include "runtime/format/file.h"

#include <string>
#include <vector>

namespace kvq {

inline constexpr uint32_t kLibraryVersion = 0;

enum class KernelRole : uint32_t { append, prepare, decode, merge, plan };
inline constexpr uint32_t kKernelRoles = 5;
const char *roleName(KernelRole role);

/// One kernel: a symbol of an object, and what the launcher must know of it.
struct LibraryKernel {
  KernelRole role = KernelRole::append;
  std::string target = "cpu"; ///< "cpu", or a GPU's name for the assembler, "sm_90a"; at most 15
                              ///< bytes
  std::string level;  ///< cpu: instruction set of the object, "x86-64", "x86-64-v3", "x86-64-v4" or
                      ///< empty for any; else "cubin" or "ptx"; at most 63 bytes
  std::string symbol; ///< at most 63 bytes
  uint32_t object = 0;               ///< index in the objects
  kvq_cpu_kernel_info info = {0, 0}; ///< the same in all decode kernels of a target and level
  int32_t threads = 0;               ///< of a block, 32 to 1024 in warps of 32; cpu: 0
  int32_t shared_bytes = 0;          ///< dynamic shared memory of a block, at most 2^18; cpu: 0
};

/// What the writer takes.
struct LibraryContents {
  std::string method;               ///< JSON, methodText()
  std::string manifest;             ///< JSON for people and tools; the runtime does not read it
  std::string constants;            ///< bytes; the offsets of CacheMethod::constants lie in it
  std::vector<std::string> objects; ///< bytes of shared objects and GPU modules
  std::vector<LibraryKernel> kernels;
};

/// What the reader gives; the spans lie in the bytes that were parsed. Objects and constants start
/// at a multiple of 64 from the start of the bytes.
struct LibraryView {
  ByteSpan method, manifest, constants;
  std::vector<ByteSpan> objects;
  std::vector<LibraryKernel> kernels;
};

/// The bytes of a library file; the same contents give the same bytes.
std::string libraryBytes(const LibraryContents &contents, std::string &out);

/// Writes a library; the file is replaced as a whole or not at all.
std::string writeLibrary(const std::string &path, const LibraryContents &contents);

/// Checks bounds, digests and that unused bytes are zero: a change of any byte is an error. Refuses
/// another version with both versions named.
std::string parseLibrary(ByteSpan bytes, LibraryView &out);

/// True if `bytes` is a library of another version than ours (parseLibrary says so too; this is for
/// a status code).
bool isOtherVersion(ByteSpan bytes);

} // namespace kvq
