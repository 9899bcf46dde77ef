// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-run/Measure.h"

#include "runtime/reference/QuantizeRow.h"
#include "runtime/reference/convert.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvq {
namespace {

/// All elements of a tensor in f64.
std::vector<double> widen(const TensorView &tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  readElements(tensor, 0, tensor.elements(), values.data());
  return {values.begin(), values.end()};
}

/// [T, H, D] to [H, T, D].
std::vector<double> headsFirst(const std::vector<double> &rows, int64_t tokens, int64_t heads,
                               int64_t dim) {
  std::vector<double> out(rows.size());
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < heads; ++h)
      std::copy_n(&rows[size_t((t * heads + h) * dim)], dim, &out[size_t((h * tokens + t) * dim)]);
  return out;
}

double largestDifference(const std::vector<double> &a, const std::vector<double> &b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::isnan(a[i] - b[i]) ? NAN : std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

std::vector<double> rounded(const std::vector<double> &values, ElementType type) {
  std::vector<double> out;
  for (double value : values)
    out.push_back(roundToElement(type, float(value)));
  return out;
}

/// Rows [Tq, Hq * D] times W_O [Hq * D, hidden].
std::vector<double> project(const std::vector<double> &rows, const Trace &trace,
                            const std::vector<double> &wo) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const int64_t width = trace.queryHeads * trace.headDim;
  std::vector<double> out(size_t(trace.queries() * trace.hidden));
  Eigen::Map<Matrix>(out.data(), trace.queries(), trace.hidden).noalias() =
      Eigen::Map<const Matrix>(rows.data(), trace.queries(), width) *
      Eigen::Map<const Matrix>(wo.data(), width, trace.hidden);
  return out;
}

kvq_element elementOf(ElementType type) { return type == ElementType::f16 ? KVQ_F16 : KVQ_BF16; }

/// The attention of a library, in a layer.
AttentionRule ruleOf(const CacheMethod &method, const Constants &constants, int64_t layer) {
  AttentionRule rule;
  rule.scale = method.attention.scale, rule.causal = method.attention.causal;
  rule.softcap = method.attention.softcap, rule.window = method.attention.window;
  if (const float *sinks = constants.sinks(method, layer))
    rule.sinks.assign(sinks, sinks + method.q_heads);
  return rule;
}

std::string oneLine(std::string text) {
  for (size_t at; (at = text.find('\n')) != std::string::npos;)
    text.replace(at, 1, "; ");
  return text;
}

} // namespace

void SquaredError::add(const std::vector<double> &got, const std::vector<double> &wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    expected += wanted[i] * wanted[i];
  }
}

void SquaredError::add(const SquaredError &other) {
  difference += other.difference;
  expected += other.expected;
}

double SquaredError::relative() const {
  return difference == 0 ? 0 : std::sqrt(difference / expected);
}

void LayerErrors::add(const LayerErrors &other) {
  method.add(other.method);
  kernel.add(other.kernel);
  total.add(other.total);
  rounding.add(other.rounding);
  projectedMethod.add(other.projectedMethod);
  projectedTotal.add(other.projectedTotal);
  lseMethod = std::max(lseMethod, other.lseMethod);
  lseKernel = std::max(lseKernel, other.lseKernel);
}

std::string Runner::open(const std::string &path, const RunOptions &options, Runner &out) {
  Runner runner;
  if (std::string error = FileBytes::read(path, runner.bytes); !error.empty())
    return error;
  const bool cuda = options.target == KVQ_TARGET_CUDA;
  runner.device = cuda ? openCudaDevice() : openHostDevice();
  const kvq_open_options flags = {sizeof flags, cuda ? 0 : KVQ_ALLOW_HOST_CODE,
                                  int32_t(options.threads), options.target};
  kvq_library *library = nullptr;
  const ByteSpan bytes = runner.bytes.span();
  if (kvq_open_memory(bytes.data, bytes.size, &flags, &library) != KVQ_OK)
    return "'" + path + "': " + kvq_last_error();
  runner.library.reset(library);
  std::string error = parseLibrary(bytes, runner.view);
  if (error.empty())
    error = parseMethod(kvq_method_text(library, 0), runner.method);
  for (const SideMethod *side : {&runner.method.key, &runner.method.value})
    if (error.empty())
      error = refuseSide(*side);
  runner.page = options.page ? options.page : runner.method.page;
  if (!error.empty())
    return "'" + path + "': " + error;
  out = std::move(runner);
  return "";
}

std::string Runner::checkTrace(const Trace &trace) const {
  kvq_use use = {};
  use.size = sizeof use;
  use.q_heads = int32_t(trace.queryHeads), use.kv_heads = int32_t(trace.kvHeads);
  use.key_dim = use.value_dim = int32_t(trace.headDim);
  use.key_rows = use.value_rows = use.query_rows = elementOf(trace.element);
  use.page_tokens = int32_t(page);
  use.q_length = 1;
  use.sink = use.recent = -1; // the cache here is one of records alone
  if (kvq_supports(library.get(), &use, nullptr, 0, nullptr) != KVQ_OK)
    return oneLine(kvq_last_error());
  if (method.layers != 1 && size_t(method.layers) != trace.layers.size())
    return "layers: the library has constants of " + std::to_string(method.layers) +
           " layers, the trace has " + std::to_string(trace.layers.size());
  if (trace.tokens > INT32_MAX)
    return "tokens: expected at most " + std::to_string(INT32_MAX) + ", got " +
           std::to_string(trace.tokens);
  return "";
}

std::string Runner::measure(const Trace &trace, size_t index, LayerErrors &out) {
  const TraceLayer &tensors = trace.layers[index];
  const Constants constants(method, view.formats.front().constants.data);
  const int64_t layer = method.layers == 1 ? 0 : int64_t(index);
  LayerCache cache(*device, library.get(), method, trace, page, layer);
  if (std::string error = cache.append(tensors); !error.empty())
    return error;
  AttentionResult kernel;
  if (std::string error = cache.decode(tensors, constants, kernel); !error.empty())
    return error;
  AttentionShape shape;
  shape.qHeads = int(trace.queryHeads), shape.kvHeads = int(trace.kvHeads);
  shape.keyDim = shape.valueDim = int(trace.headDim), shape.queryRows = trace.queries();
  const AttentionRule rule = ruleOf(method, constants, layer);
  const std::vector<double> q = widen(*tensors.q);
  auto rows = [&](const TensorView &tensor) {
    return headsFirst(widen(tensor), trace.tokens, trace.kvHeads, trace.headDim);
  };
  const AttentionResult original =
      exactAttention(shape, rule, trace.tokens, q, rows(*tensors.k), rows(*tensors.v));
  const AttentionResult dequantized =
      exactAttention(shape, rule, trace.tokens, q, cache.dequantize(constants, 'k'),
                     cache.dequantize(constants, 'v'));
  out.layer = tensors.index;
  out.digests = cache.digests();
  out.method.add(dequantized.out, original.out);
  out.kernel.add(kernel.out, dequantized.out);
  out.total.add(kernel.out, original.out);
  out.rounding.add(rounded(dequantized.out, method.attention.rows), dequantized.out);
  out.lseMethod = largestDifference(dequantized.lse, original.lse);
  out.lseKernel = largestDifference(kernel.lse, dequantized.lse);
  const std::vector<double> wo = widen(*tensors.wo), projected = project(original.out, trace, wo);
  out.projectedMethod.add(project(dequantized.out, trace, wo), projected);
  out.projectedTotal.add(project(kernel.out, trace, wo), projected);
  return "";
}

std::string Runner::run(const Trace &trace, Report &out) {
  if (std::string error = checkTrace(trace); !error.empty())
    return error;
  kvq_page_geometry geometry = {};
  geometry.size = sizeof geometry;
  if (kvq_query_page(library.get(), 0, page, &geometry) != KVQ_OK)
    return kvq_last_error();
  Report report;
  report.name = method.name;
  report.page = page, report.bitsPerElement = geometry.bits_per_element;
  report.keyBits = method.key.record.bits, report.valueBits = method.value.record.bits;
  for (size_t i = 0; i < trace.layers.size(); ++i) {
    LayerErrors errors;
    if (std::string error = measure(trace, i, errors); !error.empty())
      return "layer " + std::to_string(trace.layers[i].index) + ": " + error;
    report.layers.push_back(errors);
    report.total.add(errors);
  }
  out = std::move(report);
  return "";
}

} // namespace kvq
