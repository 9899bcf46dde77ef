// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/solvers/KeyMean.h"

#include <algorithm>

namespace kvq {
namespace {

constexpr int64_t kChunk = 512; ///< tokens widened to f32 at a time

std::string expected(const std::string &what, const std::string &expected, const std::string &got) {
  return what + ": expected " + expected + " as in the first trace, got " + got;
}

std::string layerList(const Trace &trace) {
  std::string text;
  for (const TraceLayer &layer : trace.layers)
    text += (text.empty() ? "" : ", ") + std::to_string(layer.index);
  return text;
}

std::string layerList(const Calibration &calibration) {
  std::string text;
  for (const LayerCalibration &layer : calibration.layers)
    text += (text.empty() ? "" : ", ") + std::to_string(layer.index);
  return text;
}

} // namespace

std::string KeyMeanSolver::checkSame(const Trace &trace) const {
  const Calibration &first = description;
  if (trace.modelDigest != first.modelDigest)
    return expected("model", "'" + first.model + "' " + first.modelDigest,
                    "'" + trace.model + "' " + trace.modelDigest);
  if (layerList(trace) != layerList(first))
    return expected("layers", layerList(first), layerList(trace));
  if (trace.kvHeads != first.kvHeads || trace.headDim != first.headDim)
    return expected(
        "keys", std::to_string(first.kvHeads) + " heads of dim " + std::to_string(first.headDim),
        std::to_string(trace.kvHeads) + " heads of dim " + std::to_string(trace.headDim));
  if (trace.rope != first.rope)
    return expected("rope", first.rope, trace.rope);
  const auto same = [&](const CalibrationData &data) { return data.digest == trace.digest; };
  if (std::any_of(first.data.begin(), first.data.end(), same))
    return "the trace was added already: its tensors have SHA-256 " + trace.digest;
  return "";
}

std::string KeyMeanSolver::add(const Trace &trace) {
  if (observers.empty()) {
    description.method = "mean";
    description.model = trace.model, description.modelDigest = trace.modelDigest;
    description.kvHeads = trace.kvHeads, description.headDim = trace.headDim;
    description.rope = trace.rope;
    for (const TraceLayer &layer : trace.layers) {
      description.layers.push_back({layer.index, {}});
      observers.emplace_back(trace.kvHeads, trace.headDim);
    }
  }
  if (std::string error = checkSame(trace); !error.empty())
    return error;
  const int64_t row = trace.kvHeads * trace.headDim;
  std::vector<float> rows(size_t(std::min(kChunk, trace.tokens) * row));
  // A trace with a bad value must not be half added, so it is observed apart and merged when it is
  // through.
  std::vector<MeanObserver> fresh(observers.size(), MeanObserver(trace.kvHeads, trace.headDim));
  for (size_t i = 0; i < trace.layers.size(); ++i)
    for (int64_t token = 0; token < trace.tokens; token += kChunk) {
      const int64_t count = std::min(kChunk, trace.tokens - token);
      readElements(*trace.layers[i].k, token * row, count * row, rows.data());
      if (std::string error = fresh[i].add(rows.data(), count); !error.empty())
        return "tensor '" + trace.layers[i].k->name + "': " + error;
    }
  for (size_t i = 0; i < observers.size(); ++i)
    if (std::string error = observers[i].merge(fresh[i]); !error.empty())
      return error;
  description.data.push_back({trace.text, trace.digest, trace.tokens});
  return "";
}

Calibration KeyMeanSolver::solve() const {
  Calibration calibration = description;
  for (size_t i = 0; i < observers.size(); ++i)
    calibration.layers[i].keyMean = observers[i].mean();
  return calibration;
}

} // namespace kvq
