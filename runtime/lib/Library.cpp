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

/// What codes mean: the method, without its name and what a page or a plan may change, and its
/// constants.
Digest methodDigest(CacheMethod method, const Digest &constants) {
  method.name.clear();
  method.page = 64;
  const std::string text = kvq::methodText(method) + digestText(constants);
  return sha256(text.data(), text.size());
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
  format.methodDigest = methodDigest(format.method, view.formats[index].constantsDigest);
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

kvq_element elementOf(ElementType type) {
  return type == ElementType::f16 ? KVQ_F16 : type == ElementType::bf16 ? KVQ_BF16 : KVQ_F32;
}

kvq_geometry geometryOf(const kvq_library &library, const Format &format) {
  const CacheMethod &method = format.method;
  kvq_geometry geometry = {};
  geometry.size = sizeof geometry;
  geometry.format = int32_t(&format - library.formats.data());
  geometry.q_heads = method.q_heads;
  geometry.kv_heads = method.kv_heads;
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
  geometry.softcap = method.attention.softcap;
  geometry.window = method.attention.window;
  geometry.sinks = method.attention.sinks >= 0;
  geometry.sink = method.sink, geometry.recent = method.recent;
  if (method.windowed())
    geometry.window_rows = elementOf(method.key.storedRows());
  return geometry;
}

kvq_page_geometry pageGeometryOf(const Format &format, const RecordLayout &layout) {
  const CacheMethod &method = format.method;
  kvq_page_geometry page = {};
  page.record_bytes = layout.bytes;
  page.head_stride = layout.stride;
  page.page_bytes = layout.stride * method.kv_heads;
  page.bits_per_element = bitsPerElement(layout);
  if (method.windowed())
    page.window_bytes = layout.spec.page * method.windowRowBytes();
  const Digest record = recordDigest(layout);
  std::copy(record.begin(), record.end(), page.record_id);
  std::copy(format.methodDigest.begin(), format.methodDigest.end(), page.method_id);
  return page;
}

Digest recordDigest(const RecordLayout &layout) {
  const std::string text = recordText(layout, "");
  return sha256(text.data(), text.size());
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

} // namespace kvq
