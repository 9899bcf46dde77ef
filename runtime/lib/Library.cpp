// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Library.h"

#include <algorithm>
#include <utility>

void kvq_library::parallel(kvq_parallel_for callback, void *context, int64_t items, kvq_item_fn fn,
                           void *task) {
  if (items <= 0)
    return;
  if (callback)
    return callback(context, items, fn, task);
  std::call_once(poolOnce, [this] { pool = std::make_unique<kvq::ThreadPool>(threads); });
  pool->run(items, fn, task);
}

namespace kvq {
namespace {

std::string text(ByteSpan span) {
  return span.size ? std::string(static_cast<const char *>(span.data), span.size) : "";
}

kvq_element elementOf(ElementType type) {
  return type == ElementType::f16 ? KVQ_F16 : type == ElementType::bf16 ? KVQ_BF16 : KVQ_F32;
}

const char *nameOf(kvq_element element) {
  static const char *const names[] = {"none", "f16", "bf16", "f32"};
  return element >= 0 && element <= KVQ_F32 ? names[element] : "unknown";
}

Status checkConstants(const CacheMethod &method, size_t bytes) {
  for (const Constant &constant : method.constants) {
    int64_t size = sizeof(float); // parseMethod has bounded the shape, so this cannot overflow
    for (int64_t extent : constant.shape)
      size *= extent;
    if (uint64_t(constant.offset) > bytes || uint64_t(size) > bytes - uint64_t(constant.offset))
      return {KVQ_INVALID_FILE,
              "constant '" + constant.name + "': expected " + std::to_string(size) + " bytes at " +
                  std::to_string(constant.offset) + " in the constants, which have " +
                  std::to_string(bytes) + " bytes"};
  }
  return {};
}

/// The method of a format and where its layers lie.
Status openFormat(const LibraryView &view, size_t index, Format &format) {
  const std::string where =
      view.formats.size() > 1 ? "format " + std::to_string(index) + ": " : std::string();
  format.methodText = text(view.formats[index].method);
  format.constants = view.formats[index].constants;
  if (std::string error = parseMethod(format.methodText, format.method); !error.empty())
    return {KVQ_INVALID_FILE, where + "the method of the library is not valid: " + error};
  if (Status status = checkConstants(format.method, format.constants.size); !status.ok())
    return {status.code, where + status.message};
  for (size_t i = 0; i < view.layers.size(); ++i)
    if (view.layers[i].format == int32_t(index) &&
        view.layers[i].constant_layer >= uint32_t(format.method.layers))
      return {KVQ_INVALID_FILE, where + "layer " + std::to_string(i) +
                                    " of the model: expected constants of one of " +
                                    std::to_string(format.method.layers) + " layers, got number " +
                                    std::to_string(view.layers[i].constant_layer)};
  format.layout = buildRecord(format.method.record());
  return {};
}

Status openHostCode(const LibraryView &view, const std::vector<KernelSet> &sets, bool allowed,
                    Format &format) {
  KernelSet kernels;
  format.codeStatus = chooseKernels(sets, kernels);
  if (format.codeStatus.ok() && !allowed)
    format.codeStatus = {
        KVQ_UNSUPPORTED,
        "the library was opened without KVQ_ALLOW_HOST_CODE, so its kernels are not loaded"};
  return format.codeStatus.ok() ? loadHostCode(view, kernels, format.code) : Status{};
}

/// The caller has named a device, so a library that has nothing for it is an error.
Status openDevice(kvq_library &library, const std::vector<KernelSet> &sets) {
  auto device = std::make_unique<cuda::Device>();
  if (std::all_of(sets.begin(), sets.end(), [](const KernelSet &s) { return s.target == "cpu"; })) {
    const std::string others = listSets(sets, [](const KernelSet &) { return true; });
    return {KVQ_UNSUPPORTED, "the library has no kernels for CUDA devices" +
                                 (others.empty() ? others : ", only for " + others)};
  }
  if (Status status = device->open(); !status.ok())
    return status;
  library.device = std::move(device);
  bool any = false;
  for (size_t i = 0; i < library.formats.size(); ++i) {
    Format &format = library.formats[i];
    format.codeStatus = cuda::DeviceCode::open(*library.device, library.view, uint32_t(i),
                                               setsOf(sets, uint32_t(i)), format.device);
    if (format.codeStatus.code != KVQ_OK && format.codeStatus.code != KVQ_UNSUPPORTED)
      return format.codeStatus;
    any |= format.codeStatus.ok();
  }
  return any ? Status{} : library.formats.front().codeStatus;
}

/// CPU code that cannot run here is a status of the format, which can still be queried.
Status openCode(kvq_library &library, const kvq_open_options &options) {
  std::vector<KernelSet> sets;
  if (Status status = kernelSets(library.view, sets); !status.ok())
    return status;
  if (options.target == KVQ_TARGET_CUDA)
    return openDevice(library, sets);
  for (size_t i = 0; i < library.formats.size(); ++i)
    if (Status status = openHostCode(library.view, setsOf(sets, uint32_t(i)),
                                     options.flags & KVQ_ALLOW_HOST_CODE, library.formats[i]);
        !status.ok())
      return status;
  return {};
}

} // namespace

Status openLibrary(FileBytes bytes, const kvq_open_options &options,
                   std::unique_ptr<kvq_library> &out) {
  auto library = std::make_unique<kvq_library>();
  if (std::string error = parseLibrary(bytes.span(), library->view); !error.empty())
    return {isOtherVersion(bytes.span()) ? KVQ_OTHER_VERSION : KVQ_INVALID_FILE, error};
  library->manifestText = text(library->view.manifest);
  library->formats.resize(library->view.formats.size());
  for (size_t i = 0; i < library->formats.size(); ++i)
    if (Status status = openFormat(library->view, i, library->formats[i]); !status.ok())
      return status;
  library->threads = options.threads;
  if (Status status = openCode(*library, options); !status.ok())
    return status;
  library->bytes = std::move(bytes); // the view stays valid: the bytes do not move in memory
  out = std::move(library);
  return {};
}

Status formatOf(const kvq_library &library, int64_t layer, const Format *&format,
                int64_t &constantLayer) {
  const int64_t layers = int64_t(library.layers().size());
  if (layer < 0 || layer >= layers)
    return {KVQ_INVALID_ARGUMENT, "layer: expected 0 to " + std::to_string(layers - 1) + ", got " +
                                      std::to_string(layer)};
  const LibraryLayer &entry = library.layers()[size_t(layer)];
  if (entry.format < 0)
    return {KVQ_UNSUPPORTED,
            "layer " + std::to_string(layer) + " is one that the library does not quantize"};
  format = &library.formats[size_t(entry.format)];
  constantLayer = entry.constant_layer;
  return {};
}

kvq_geometry geometryOf(const Format &format) {
  const CacheMethod &method = format.method;
  kvq_geometry geometry = {};
  geometry.size = sizeof geometry;
  geometry.q_heads = method.q_heads;
  geometry.kv_heads = method.kv_heads;
  geometry.layers = method.layers;
  geometry.key_dim = method.key.record.dim;
  geometry.value_dim = method.value.record.dim;
  geometry.key_bits = method.key.record.bits;
  geometry.value_bits = method.value.record.bits;
  geometry.key_rows = elementOf(method.key.rows);
  geometry.value_rows = elementOf(method.value.rows);
  geometry.query_rows = elementOf(method.attention.rows);
  geometry.page_tokens = method.page;
  geometry.page_step = format.layout.spec.block;
  geometry.append_step = format.layout.append;
  geometry.query_rotated = !method.attention.rotate_query;
  geometry.output_rotated = !method.attention.unrotate_output;
  geometry.scale = method.attention.scale;
  return geometry;
}

Status pageLayout(const Format &format, int64_t pageTokens, RecordLayout &out) {
  const int64_t step = format.layout.spec.block;
  if (pageTokens < 0 || pageTokens > INT32_MAX || pageTokens % step)
    return {KVQ_INVALID_ARGUMENT, "page_tokens: expected a positive multiple of " +
                                      std::to_string(step) + ", or 0, got " +
                                      std::to_string(pageTokens)};
  RecordSpec spec = format.method.record();
  if (pageTokens)
    spec.page = int(pageTokens);
  out = buildRecord(spec);
  return {};
}

std::string refusals(const kvq_library &library, const kvq_use &use) {
  const Format &format = library.formats.front();
  const kvq_geometry have = geometryOf(format);
  std::string reasons;
  auto add = [&](const std::string &reason) { reasons += (reasons.empty() ? "" : "\n") + reason; };
  auto same = [&](const char *name, int32_t asked, int32_t got) {
    if (asked && asked != got)
      add(std::string(name) + ": the library has " + std::to_string(got) + ", asked for " +
          std::to_string(asked));
  };
  auto sameType = [&](const char *name, kvq_element asked, kvq_element got) {
    if (asked && asked != got)
      add(std::string(name) + ": the library has " + nameOf(got) + ", asked for " + nameOf(asked));
  };
  if (!format.codeStatus.ok())
    add(format.codeStatus.message);
  same("q_heads", use.q_heads, have.q_heads);
  same("kv_heads", use.kv_heads, have.kv_heads);
  same("key_dim", use.key_dim, have.key_dim);
  same("value_dim", use.value_dim, have.value_dim);
  sameType("key_rows", use.key_rows, have.key_rows);
  sameType("value_rows", use.value_rows, have.value_rows);
  sameType("query_rows", use.query_rows, have.query_rows);
  if (use.layers < 0 || use.layers > have.layers)
    add("layers: the library has constants of " + std::to_string(have.layers) + ", asked for " +
        std::to_string(use.layers));
  RecordLayout layout;
  if (Status status = pageLayout(format, use.page_tokens, layout); !status.ok())
    add(status.message);
  if (use.query_length != 0 && use.query_length != 1)
    add("query_length: the library has kernels for 1 query token of a sequence, asked for " +
        std::to_string(use.query_length));
  if (have.append_step != 1)
    add("append: the records are written " + std::to_string(have.append_step) +
        " tokens at once, the kernels append one by one");
  return reasons;
}

} // namespace kvq
