// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/io/Trace.h"

#include "calib/io/Document.h"
#include "runtime/reference/convert.h"

#include <cstring>
#include <utility>

namespace kvq {
namespace {

constexpr int64_t kTraceVersion = 1;
constexpr int64_t kMaxCount = int64_t(1)
                              << 31; ///< of tokens, heads, channels: their products stay in 64 bits

std::string readDocument(const Document &document, Trace &out, std::vector<int64_t> &layers) {
  const int64_t version = document.integer("version", 0, kMaxCount);
  if (document.error().empty() && version != kTraceVersion)
    return "this kvq reads trace version " + std::to_string(kTraceVersion) +
           ", the file has version " + std::to_string(version);
  out.tokens = document.integer("tokens", 1, kMaxCount);
  out.queryStart = document.integer("q_start", 0, kMaxCount);
  layers = document.integers("layers", 0, kMaxCount);
  const std::string dtype = document.text("dtype");
  out.digest = document.text("sha256");
  const Document model = document.object("model"), text = document.object("text");
  out.model = model.text("name");
  out.modelDigest = model.text("sha256");
  out.queryHeads = model.integer("q_heads", 1, kMaxCount);
  out.kvHeads = model.integer("kv_heads", 1, kMaxCount);
  out.headDim = model.integer("head_dim", 1, kMaxCount);
  out.hidden = model.integer("hidden", 1, kMaxCount);
  out.text = text.text("id");
  out.rope = document.object("rope").dump();
  if (!document.error().empty())
    return document.error();
  if (dtype != "bf16" && dtype != "f16")
    return "kvq_trace.dtype: expected bf16 or f16, got '" + dtype + "'";
  out.element = dtype == "bf16" ? ElementType::bf16 : ElementType::f16;
  if (out.queryStart >= out.tokens)
    return "kvq_trace.q_start: expected less than the " + std::to_string(out.tokens) +
           " tokens, got " + std::to_string(out.queryStart);
  if (out.queryHeads % out.kvHeads)
    return "kvq_trace.model.q_heads: expected a multiple of the " + std::to_string(out.kvHeads) +
           " KV heads, got " + std::to_string(out.queryHeads);
  return "";
}

std::string findTensors(Trace &trace, const std::vector<int64_t> &layers) {
  const std::vector<TensorType> type = {trace.element == ElementType::bf16 ? TensorType::bf16
                                                                           : TensorType::f16};
  const int64_t tokens = trace.tokens, kv = trace.kvHeads, dim = trace.headDim,
                heads = trace.queryHeads;
  for (int64_t index : layers) {
    if (!trace.layers.empty() && index <= trace.layers.back().index)
      return "kvq_trace.layers: expected ascending numbers, got " + std::to_string(index) +
             " after " + std::to_string(trace.layers.back().index);
    TraceLayer layer;
    layer.index = index;
    const std::string prefix = "layers." + std::to_string(index) + ".";
    std::string error = trace.file.get(prefix + "q", type, {trace.queries(), heads, dim}, layer.q);
    if (error.empty())
      error = trace.file.get(prefix + "k", type, {tokens, kv, dim}, layer.k);
    if (error.empty())
      error = trace.file.get(prefix + "v", type, {tokens, kv, dim}, layer.v);
    if (error.empty())
      error = trace.file.get(prefix + "wo", type, {heads * dim, trace.hidden}, layer.wo);
    if (!error.empty())
      return error;
    trace.layers.push_back(layer);
  }
  if (trace.layers.empty())
    return "kvq_trace.layers: expected at least one layer, got none";
  return "";
}

std::string checkTrace(Trace &trace) {
  const auto at = trace.file.metadata().find("kvq_trace");
  if (at == trace.file.metadata().end())
    return "expected a trace, got a file without the metadata key 'kvq_trace'";
  std::vector<int64_t> layers;
  const Document document = Document::parse(at->second, "kvq_trace");
  if (std::string error = document.error(); !error.empty())
    return error;
  if (std::string error = readDocument(document, trace, layers); !error.empty())
    return error;
  if (std::string error = findTensors(trace, layers); !error.empty())
    return error;
  const std::string digest = tensorDigest(trace.file.tensors());
  if (digest != trace.digest)
    return "the tensors are damaged: expected SHA-256 " + trace.digest + ", got " + digest;
  return "";
}

} // namespace

std::string openTrace(const std::string &path, Trace &out) {
  Trace trace;
  if (std::string error = Safetensors::open(path, trace.file); !error.empty())
    return error;
  if (std::string error = checkTrace(trace); !error.empty())
    return "'" + path + "': " + error;
  out = std::move(trace); // moving the vector of tensors keeps their addresses
  return "";
}

void readElements(const TensorView &tensor, int64_t first, int64_t count, float *out) {
  const int bytes = tensorBytes(tensor.type);
  const uint8_t *at = tensor.data.bytes() + first * bytes;
  const ElementType type = tensor.type == TensorType::f16    ? ElementType::f16
                           : tensor.type == TensorType::bf16 ? ElementType::bf16
                                                             : ElementType::f32;
  for (int64_t i = 0; i < count; ++i, at += bytes) {
    uint32_t bits = 0;
    std::memcpy(&bits, at,
                size_t(bytes)); // little-endian host, and the data may lie at any address
    out[i] = decodeElement(type, bits);
  }
}

} // namespace kvq
