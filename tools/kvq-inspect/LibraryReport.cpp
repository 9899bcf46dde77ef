// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/library_fields.h"
#include "runtime/format/method.h"
#include "runtime/format/sha256.h"
#include "tools/kvq-inspect/Report.h"

namespace kvq {
namespace {

Report parsed(const std::string &text) {
  return Report::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string textOf(ByteSpan span) { return {static_cast<const char *>(span.data), span.size}; }

std::string digestOf(const std::string &text) {
  return digestText(sha256(text.data(), text.size()));
}

/// A member of a manifest, of which nothing is certain; null if there is none.
Report memberOf(const Report &object, const char *key) {
  return object.is_object() && object.contains(key) ? object[key] : Report();
}

Report layersOf(const LibraryView &view) {
  Report layers = Report::array();
  for (const LibraryLayer &layer : view.layers)
    layers.push_back(layer.format < 0 ? Report()
                                      : Report({{"format", layer.format},
                                                {"constant_layer", layer.constant_layer}}));
  return layers;
}

Report constantsOf(const CacheMethod &method) {
  Report out = Report::array();
  for (const Constant &constant : method.constants)
    out.push_back(
        {{"name", constant.name}, {"shape", constant.shape}, {"offset", constant.offset}});
  return out;
}

std::string formatOf(const LibraryFormatView &view, size_t index, Report &out) {
  const std::string text = textOf(view.method);
  CacheMethod method;
  if (std::string error = parseMethod(text, method); !error.empty())
    return "format " + std::to_string(index) + ": method: " + error;
  const RecordLayout layout = buildRecord(method.record());
  out = {{"format", index},
         {"cache", method.name},
         {"q_heads", method.q_heads},
         {"kv_heads", method.kv_heads},
         {"layers", method.layers},
         {"page_tokens", method.page},
         {"page_bytes", layout.stride * method.kv_heads},
         {"record_bytes", layout.bytes},
         {"record_stride", layout.stride},
         {"bits_per_element", bitsPerElement(layout)},
         {"sink", method.sink},
         {"recent", method.recent},
         {"record_id", digestOf(recordText(layout, ""))},
         {"record", parsed(recordText(layout, method.name))},
         {"constants_bytes", view.constants.size},
         {"constants", constantsOf(method)},
         {"method", parsed(text)}};
  return "";
}

/// What the manifest adds to a kernel of the table; null if it does not have it.
Report manifestKernel(const Report &manifest, const LibraryKernel &kernel) {
  const Report kernels = memberOf(manifest, "kernels");
  for (const Report &entry : kernels)
    if (memberOf(entry, "symbol") == kernel.symbol && memberOf(entry, "target") == kernel.target &&
        memberOf(entry, "format") == kernel.format)
      return entry;
  return {};
}

Report kernelsOf(const LibraryView &view, const Report &manifest) {
  Report out = Report::array();
  for (const LibraryKernel &kernel : view.kernels) {
    const Report more = manifestKernel(manifest, kernel);
    out.push_back({{"format", kernel.format},
                   {"role", roleName(kernel.role)},
                   {"target", kernel.target},
                   {"level", kernel.level},
                   {"symbol", kernel.symbol},
                   {"name", memberOf(more, "name")},
                   {"rows", kernel.rows},
                   {"threads", kernel.threads},
                   {"shared_bytes", kernel.shared_bytes},
                   {"registers", memberOf(more, "registers")},
                   {"query_floats", kernel.info.query_floats},
                   {"partial_floats", kernel.info.partial_floats},
                   {"object", kernel.object}});
  }
  return out;
}

Report blobsOf(ByteSpan bytes, const LibraryView &view) {
  Report out = Report::array();
  auto add = [&](const char *kind, const char *of, size_t index, ByteSpan blob) {
    Report entry = {{"kind", kind}};
    if (*of)
      entry[of] = index;
    entry["offset"] = blob.size ? blob.bytes() - bytes.bytes() : 0;
    entry["bytes"] = blob.size;
    entry["sha256"] = digestText(sha256(blob.data, blob.size));
    out.push_back(entry);
  };
  add("manifest", "", 0, view.manifest);
  for (size_t i = 0; i < view.formats.size(); ++i) {
    add("method", "format", i, view.formats[i].method);
    add("constants", "format", i, view.formats[i].constants);
  }
  for (size_t i = 0; i < view.objects.size(); ++i)
    add("object", "object", i, view.objects[i]);
  return out;
}

} // namespace

std::string reportLibrary(ByteSpan bytes, const LibraryView &view, Report &out) {
  const Report manifest = parsed(textOf(view.manifest));
  Report formats = Report::array();
  for (size_t i = 0; i < view.formats.size(); ++i)
    if (std::string error = formatOf(view.formats[i], i, formats.emplace_back()); !error.empty())
      return error;
  out = {{"kind", "library"},
         {"version", view.version},
         {"bytes", bytes.size},
         {"compiler", memberOf(manifest, "compiler")},
         {"interface", memberOf(manifest, "interface")},
         {"layers", layersOf(view)},
         {"formats", formats},
         {"kernels", kernelsOf(view, manifest)},
         {"blobs", blobsOf(bytes, view)}};
  return "";
}

} // namespace kvq
