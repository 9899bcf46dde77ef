// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C functions. Nothing but them leaves the shared library, and no exception passes them.
#include "kvq/runtime.h"

#include "runtime/lib/Arguments.h"
#include "runtime/lib/Launch.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace kvq {
namespace {

thread_local std::string lastError;

kvq_status report(Status status) {
  if (!status.ok())
    lastError = std::move(status.message);
  return status.code;
}

/// Runs an entry point that returns a Status.
template <typename Body> kvq_status guarded(Body body) {
  try {
    return report(body());
  } catch (const std::bad_alloc &) {
    lastError.clear(); // a message may need memory too
    return KVQ_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    return report({KVQ_INTERNAL_ERROR, std::string("internal error: ") + error.what()});
  }
}

Status nullArgument(const char *name) {
  return {KVQ_INVALID_ARGUMENT, std::string(name) + ": expected a pointer, got null"};
}

/// `size` of a struct, in any version.
template <typename T> Status checkSize(const char *name, size_t size) {
  if (size >= sizeof(T) && size <= 4096)
    return {};
  return {KVQ_INVALID_ARGUMENT, std::string(name) + ".size: expected " + std::to_string(sizeof(T)) +
                                    " to 4096, got " + std::to_string(size)};
}

/// Copies a caller's struct, which may be of a later version: members it does not know must be
/// zero.
template <typename T> Status takeStruct(const char *name, const T *from, T &out) {
  if (!from)
    return nullArgument(name);
  if (Status status = checkSize<T>(name, from->size); !status.ok())
    return status;
  const char *bytes = reinterpret_cast<const char *>(from);
  if (std::any_of(bytes + sizeof(T), bytes + from->size, [](char c) { return c != 0; }))
    return {KVQ_INVALID_ARGUMENT, std::string(name) + ": expected zero behind byte " +
                                      std::to_string(sizeof(T)) +
                                      ", got members that this version does not know"};
  std::memcpy(&out, from, sizeof(T));
  return {};
}

/// Fills a struct whose `size` the caller has set; members of a later version become zero.
template <typename T> Status giveStruct(const char *name, T value, T *to) {
  if (!to)
    return nullArgument(name);
  const size_t size = to->size;
  if (Status status = checkSize<T>(name, size); !status.ok())
    return status;
  value.size = size;
  std::memcpy(to, &value, sizeof(T));
  std::memset(reinterpret_cast<char *>(to) + sizeof(T), 0, size - sizeof(T));
  return {};
}

Status takeOptions(const kvq_open_options *from, kvq_open_options &out) {
  out = {};
  if (!from)
    return {};
  if (Status status = takeStruct("options", from, out); !status.ok())
    return status;
  Arguments check;
  check.range("options.flags", out.flags, 0, KVQ_ALLOW_HOST_CODE);
  check.range("options.threads", out.threads, 0, 4096);
  check.range("options.target", out.target, KVQ_TARGET_CPU, KVQ_TARGET_CUDA);
  return check.status;
}

template <typename Read>
kvq_status openWith(const kvq_open_options *options, kvq_library **library, Read read) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    *library = nullptr;
    kvq_open_options taken;
    if (Status status = takeOptions(options, taken); !status.ok())
      return status;
    FileBytes bytes;
    if (Status status = read(bytes); !status.ok())
      return status;
    std::unique_ptr<kvq_library> opened;
    if (Status status = openLibrary(std::move(bytes), taken, opened); !status.ok())
      return status;
    *library = opened.release();
    return {};
  });
}

} // namespace
} // namespace kvq

using namespace kvq;

extern "C" {

const char *kvq_status_name(kvq_status status) {
  static const char *const names[] = {"KVQ_OK",
                                      "KVQ_INVALID_ARGUMENT",
                                      "KVQ_IO_ERROR",
                                      "KVQ_INVALID_FILE",
                                      "KVQ_OTHER_VERSION",
                                      "KVQ_UNSUPPORTED",
                                      "KVQ_OUT_OF_MEMORY",
                                      "KVQ_INTERNAL_ERROR",
                                      "KVQ_DEVICE_ERROR"};
  return status >= KVQ_OK && status <= KVQ_DEVICE_ERROR ? names[status] : "unknown status";
}

const char *kvq_last_error(void) { return lastError.c_str(); }

const char *kvq_version(void) { return KVQ_VERSION; }

kvq_status kvq_open(const char *path, const kvq_open_options *options, kvq_library **library) {
  return openWith(options, library, [&](FileBytes &bytes) -> Status {
    if (!path)
      return nullArgument("path");
    const std::string error = FileBytes::read(path, bytes);
    return {error.empty() ? KVQ_OK : KVQ_IO_ERROR, error};
  });
}

kvq_status kvq_open_memory(const void *data, size_t size, const kvq_open_options *options,
                           kvq_library **library) {
  return openWith(options, library, [&](FileBytes &bytes) -> Status {
    if (!data)
      return nullArgument("data");
    const std::string error = FileBytes::copy({data, size}, bytes);
    return {error.empty() ? KVQ_OK : KVQ_OUT_OF_MEMORY, error};
  });
}

void kvq_close(kvq_library *library) { delete library; }

kvq_status kvq_query(const kvq_library *library, kvq_geometry *geometry) {
  return guarded([&] {
    return library ? giveStruct("geometry", geometryOf(library->formats.front()), geometry)
                   : nullArgument("library");
  });
}

kvq_status kvq_query_page(const kvq_library *library, int64_t page_tokens,
                          kvq_page_geometry *geometry) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    RecordLayout layout;
    if (Status status = pageLayout(library->formats.front(), page_tokens, layout); !status.ok())
      return status;
    kvq_page_geometry page = {};
    page.record_bytes = layout.bytes;
    page.head_stride = layout.stride;
    page.page_bytes = layout.stride * library->formats.front().method.kv_heads;
    page.bits_per_element = bitsPerElement(layout);
    return giveStruct("geometry", page, geometry);
  });
}

const char *kvq_method_text(const kvq_library *library) {
  return library ? library->formats.front().methodText.c_str() : nullptr;
}

const char *kvq_manifest_text(const kvq_library *library) {
  return library ? library->manifestText.c_str() : nullptr;
}

kvq_status kvq_supports(const kvq_library *library, const kvq_use *use) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    kvq_use taken = {};
    if (use)
      if (Status status = takeStruct("use", use, taken); !status.ok())
        return status;
    const std::string reasons = refusals(*library, taken);
    return {reasons.empty() ? KVQ_OK : KVQ_UNSUPPORTED, reasons};
  });
}

kvq_status kvq_append(kvq_library *library, const kvq_append_args *args) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    kvq_append_args taken;
    if (Status status = takeStruct("args", args, taken); !status.ok())
      return status;
    return launchAppend(*library, taken);
  });
}

kvq_status kvq_workspace_size(const kvq_library *library, const kvq_decode_args *args,
                              size_t *bytes) {
  return guarded([&]() -> Status {
    if (!library || !bytes)
      return nullArgument(library ? "bytes" : "library");
    kvq_decode_args taken;
    if (Status status = takeStruct("args", args, taken); !status.ok())
      return status;
    return workspaceSize(*library, taken, *bytes);
  });
}

kvq_status kvq_decode(kvq_library *library, const kvq_decode_args *args) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    kvq_decode_args taken;
    if (Status status = takeStruct("args", args, taken); !status.ok())
      return status;
    return launchDecode(*library, taken);
  });
}

} // extern "C"
