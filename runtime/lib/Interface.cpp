// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C functions. Nothing but them leaves the shared library, and no exception passes them.
#include "kvq/runtime.h"

#include "runtime/lib/Arguments.h"
#include "runtime/lib/Launch.h"
#include "runtime/lib/Pages.h"
#include "runtime/lib/Use.h"

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

/// A question about the format of a layer.
template <typename Body> kvq_status ofLayer(const kvq_library *library, int64_t layer, Body body) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    const Format *format = nullptr;
    int64_t constantLayer = 0;
    if (Status status = formatOf(*library, layer, format, constantLayer); !status.ok())
      return status;
    return body(*format);
  });
}

/// A call that takes one struct of arguments.
template <typename Args, typename Body>
kvq_status call(const kvq_library *library, const Args *args, Body body) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    Args taken;
    if (Status status = takeStruct("args", args, taken); !status.ok())
      return status;
    return body(taken);
  });
}

Status loadFormat(const Format &format) {
  if (!format.codeStatus.ok())
    return format.codeStatus;
  return format.device ? format.device->load() : Status{};
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
                                      "KVQ_DEVICE_ERROR",
                                      "KVQ_OTHER_FORMAT"};
  return status >= KVQ_OK && status <= KVQ_OTHER_FORMAT ? names[status] : "unknown status";
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

int32_t kvq_interface_version(void) { return KVQ_INTERFACE_VERSION; }

kvq_status kvq_load(kvq_library *library, int64_t layer) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    if (layer == -1) {
      for (const Format &format : library->formats)
        if (Status status = loadFormat(format); !status.ok())
          return status;
      return {};
    }
    const Format *format = nullptr;
    int64_t constantLayer = 0;
    if (Status status = formatOf(*library, layer, format, constantLayer); !status.ok())
      return status;
    return loadFormat(*format);
  });
}

kvq_status kvq_query_model(const kvq_library *library, kvq_model *model) {
  return guarded([&] {
    if (!library)
      return nullArgument("library");
    kvq_model have = {};
    have.layers = int32_t(library->layers().size());
    have.formats = int32_t(library->formats.size());
    return giveStruct("model", have, model);
  });
}

kvq_status kvq_query_layer(const kvq_library *library, int64_t layer, int32_t *format) {
  return guarded([&]() -> Status {
    if (!library || !format)
      return nullArgument(library ? "format" : "library");
    const Format *found = nullptr;
    int64_t constantLayer = 0;
    Status status = formatOf(*library, layer, found, constantLayer);
    if (status.code == KVQ_INVALID_ARGUMENT)
      return status;
    *format = status.ok() ? int32_t(found - library->formats.data()) : -1;
    return {};
  });
}

kvq_status kvq_query(const kvq_library *library, int64_t layer, kvq_geometry *geometry) {
  return ofLayer(library, layer, [&](const Format &format) {
    return giveStruct("geometry", geometryOf(*library, format), geometry);
  });
}

kvq_status kvq_query_page(const kvq_library *library, int64_t layer, int64_t page_tokens,
                          kvq_page_geometry *geometry) {
  return ofLayer(library, layer, [&](const Format &format) -> Status {
    RecordLayout layout;
    if (Status status = pageLayout(format, page_tokens, layout); !status.ok())
      return status;
    return giveStruct("geometry", pageGeometryOf(format, layout), geometry);
  });
}

const char *kvq_method_text(const kvq_library *library, int64_t layer) {
  const Format *format = nullptr;
  int64_t constantLayer = 0;
  const bool there = library && formatOf(*library, layer, format, constantLayer).ok();
  return there ? format->methodText.c_str() : nullptr;
}

const char *kvq_manifest_text(const kvq_library *library) {
  return library ? library->manifestText.c_str() : nullptr;
}

kvq_status kvq_supports(const kvq_library *library, const kvq_use *use, kvq_reason *reasons,
                        int32_t capacity, int32_t *count) {
  return guarded([&]() -> Status {
    if (!library || (capacity > 0 && !reasons))
      return nullArgument(library ? "reasons" : "library");
    if (capacity < 0)
      return {KVQ_INVALID_ARGUMENT,
              "capacity: expected 0 or more, got " + std::to_string(capacity)};
    kvq_use taken = {};
    if (use)
      if (Status status = takeStruct("use", use, taken); !status.ok())
        return status;
    const std::vector<kvq_reason> all = reasonsAgainst(*library, taken);
    std::copy_n(all.begin(), std::min(all.size(), size_t(capacity)), reasons);
    if (count)
      *count = int32_t(all.size());
    std::string lines;
    for (const kvq_reason &reason : all)
      lines += (lines.empty() ? "" : "\n") + std::string(reason.text);
    return {all.empty() ? KVQ_OK : KVQ_UNSUPPORTED, lines};
  });
}

kvq_status kvq_append(kvq_library *library, const kvq_token_args *args) {
  return call(library, args, [&](const kvq_token_args &taken) {
    return launchTokens(*library, KernelRole::append, taken);
  });
}

kvq_status kvq_append_window(kvq_library *library, const kvq_token_args *args) {
  return call(library, args, [&](const kvq_token_args &taken) {
    return launchTokens(*library, KernelRole::append_window, taken);
  });
}

kvq_status kvq_dequantize(kvq_library *library, const kvq_token_args *args) {
  return call(library, args, [&](const kvq_token_args &taken) {
    return launchTokens(*library, KernelRole::dequantize, taken);
  });
}

kvq_status kvq_commit(kvq_library *library, const kvq_commit_args *args) {
  return call(library, args,
              [&](const kvq_commit_args &taken) { return launchCommit(*library, taken); });
}

kvq_status kvq_demote(kvq_library *library, const kvq_demote_args *args) {
  return call(library, args,
              [&](const kvq_demote_args &taken) { return launchDemote(*library, taken); });
}

kvq_status kvq_workspace_size(const kvq_library *library, const kvq_decode_args *args,
                              size_t *bytes) {
  return call(library, args, [&](const kvq_decode_args &taken) {
    return bytes ? workspaceSize(*library, taken, *bytes) : nullArgument("bytes");
  });
}

kvq_status kvq_workspace_init(kvq_library *library, void *workspace, size_t bytes,
                              const kvq_execution *execution) {
  return guarded([&]() -> Status {
    if (!library)
      return nullArgument("library");
    return initWorkspace(*library, workspace, bytes, execution ? execution->stream : nullptr);
  });
}

kvq_status kvq_plan(kvq_library *library, const kvq_decode_args *args) {
  return call(library, args,
              [&](const kvq_decode_args &taken) { return launchPlan(*library, taken); });
}

kvq_status kvq_decode(kvq_library *library, const kvq_decode_args *args) {
  return call(library, args,
              [&](const kvq_decode_args &taken) { return launchDecode(*library, taken); });
}

kvq_status kvq_export(kvq_library *library, const kvq_move_args *args, kvq_page_header *header) {
  return call(library, args, [&](const kvq_move_args &taken) {
    return header ? exportPages(*library, taken, *header) : nullArgument("header");
  });
}

kvq_status kvq_import(kvq_library *library, const kvq_move_args *args,
                      const kvq_page_header *header) {
  return call(library, args, [&](const kvq_move_args &taken) {
    return header ? importPages(*library, taken, *header) : nullArgument("header");
  });
}

} // extern "C"
