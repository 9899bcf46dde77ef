// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/io/Trace.h"
#include "tools/kvq-inspect/Report.h"
#include "tools/kvq-inspect/Table.h"

#include <algorithm>
#include <cmath>

namespace kvq {
namespace {

/// Sums over the tokens of a tensor [T, H, D], for each head and channel.
struct Sums {
  int64_t tokens, heads, dim;
  std::vector<double> values, squares;
  double largest = 0; ///< absolute value

  Sums(const TensorView &tensor)
      : tokens(tensor.shape[0]), heads(tensor.shape[1]), dim(tensor.shape[2]),
        values(size_t(heads * dim)), squares(size_t(heads * dim)) {
    std::vector<float> row(values.size());
    for (int64_t token = 0; token < tokens; ++token) {
      readElements(tensor, token * heads * dim, heads * dim, row.data());
      for (size_t i = 0; i < row.size(); ++i) {
        values[i] += row[i], squares[i] += double(row[i]) * row[i];
        largest = std::max(largest, std::abs(double(row[i])));
      }
    }
  }

  double mean(int64_t head, int64_t channel) const {
    return values[size_t(head * dim + channel)] / double(tokens);
  }
  double rms(int64_t head, int64_t channel) const {
    return std::sqrt(squares[size_t(head * dim + channel)] / double(tokens));
  }
  double rms() const {
    double sum = 0;
    for (double square : squares)
      sum += square;
    return std::sqrt(sum / double(tokens * heads * dim));
  }
  /// Share of the squared mean row in the mean squared row, of heads [first, end); 0 for zeros.
  double bias(int64_t first, int64_t end) const {
    double means = 0, whole = 0;
    for (int64_t head = first; head < end; ++head)
      for (int64_t channel = 0; channel < dim; ++channel) {
        means += mean(head, channel) * mean(head, channel);
        whole += rms(head, channel) * rms(head, channel);
      }
    return whole > 0 ? means / whole : 0;
  }
};

/// The channel that is largest beside the median channel of its head.
Report strongestChannel(const Sums &sums) {
  Report out;
  double largest = -1;
  for (int64_t head = 0; head < sums.heads; ++head) {
    std::vector<double> sizes;
    for (int64_t channel = 0; channel < sums.dim; ++channel)
      sizes.push_back(sums.rms(head, channel));
    std::vector<double> sorted = sizes;
    std::nth_element(sorted.begin(), sorted.begin() + sums.dim / 2, sorted.end());
    const double median = sorted[size_t(sums.dim / 2)];
    const int64_t at = std::max_element(sizes.begin(), sizes.end()) - sizes.begin();
    const double ratio = median > 0 ? sizes[size_t(at)] / median : 0;
    if (ratio <= largest)
      continue;
    largest = ratio;
    out = {{"head", head},
           {"channel", at},
           {"rms", sizes[size_t(at)]},
           {"mean", sums.mean(head, at)},
           {"to_median", ratio}};
  }
  return out;
}

Report layerReport(const TraceLayer &layer) {
  const Sums q(*layer.q), k(*layer.k), v(*layer.v);
  int64_t worst = 0;
  for (int64_t head = 1; head < k.heads; ++head)
    if (k.bias(head, head + 1) > k.bias(worst, worst + 1))
      worst = head;
  return {{"layer", layer.index},
          {"key_bias", k.bias(0, k.heads)},
          {"key_bias_head", {{"head", worst}, {"key_bias", k.bias(worst, worst + 1)}}},
          {"key_rms", k.rms()},
          {"key_max", k.largest},
          {"key_channel", strongestChannel(k)},
          {"value_bias", v.bias(0, v.heads)},
          {"value_rms", v.rms()},
          {"value_max", v.largest},
          {"query_rms", q.rms()}};
}

std::string plain(const Report &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

} // namespace

std::string reportTrace(const std::string &path, Report &out) {
  Trace trace;
  if (std::string error = openTrace(path, trace); !error.empty())
    return error;
  std::vector<Report> layers;
  for (const TraceLayer &layer : trace.layers)
    layers.push_back(layerReport(layer));
  std::stable_sort(layers.begin(), layers.end(), [](const Report &a, const Report &b) {
    return a["key_bias"].get<double>() > b["key_bias"].get<double>();
  });
  out = {{"kind", "trace"},
         {"model", trace.model},
         {"model_sha256", trace.modelDigest},
         {"text", trace.text},
         {"element", elementName(trace.element)},
         {"tokens", trace.tokens},
         {"queries", trace.queries()},
         {"q_heads", trace.queryHeads},
         {"kv_heads", trace.kvHeads},
         {"head_dim", trace.headDim},
         {"hidden", trace.hidden},
         {"rope", Report::parse(trace.rope, nullptr, /*allow_exceptions=*/false)},
         {"sha256", trace.digest},
         {"layers", layers}};
  return "";
}

std::string traceTable(const Report &report) {
  std::string text = plain(report["file"]) + ": trace; the digest matches\n";
  text += "  model   " + plain(report["model"]) + "\n  text    " + plain(report["text"]) +
          "\n  tokens  " + plain(report["tokens"]) + ", queries of the last " +
          plain(report["queries"]) + "\n  heads   " + plain(report["q_heads"]) + " query, " +
          plain(report["kv_heads"]) + " KV, " + plain(report["head_dim"]) + " channels, " +
          plain(report["element"]) + "; hidden " + plain(report["hidden"]) + "\n  rope    " +
          report["rope"].dump() + "\n\n";
  Table table({">rank", ">layer", ">key bias", ">worst head", ">key rms", ">key max",
               ">strongest channel", ">rms to median", ">value bias", ">value rms", ">query rms"});
  int rank = 0;
  auto number = [](const Report &value) { return fixedText(value.get<double>(), 3); };
  for (const Report &layer : report["layers"]) {
    const Report &worst = layer["key_bias_head"], &channel = layer["key_channel"];
    table.add({std::to_string(++rank), plain(layer["layer"]), number(layer["key_bias"]),
               number(worst["key_bias"]) + " (" + plain(worst["head"]) + ")",
               number(layer["key_rms"]), number(layer["key_max"]),
               plain(channel["channel"]) + " of head " + plain(channel["head"]),
               number(channel["to_median"]), number(layer["value_bias"]),
               number(layer["value_rms"]), number(layer["query_rms"])});
  }
  return text + table.text() +
         "\nbias  share of the squared mean row in the mean squared row: what centering takes "
         "off\n";
}

} // namespace kvq
