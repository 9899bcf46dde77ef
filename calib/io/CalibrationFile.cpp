// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/io/CalibrationFile.h"

#include "calib/io/Document.h"
#include "calib/io/Trace.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>

namespace kvq {
namespace {

using Json = nlohmann::json;

constexpr const char *kKey = "kvq_calibration";
constexpr int64_t kMaxCount = int64_t(1) << 31;

std::string meanName(int64_t layer) { return "layers." + std::to_string(layer) + ".k.mean"; }

/// What holds for every calibration, whether it comes from a solver or from a file.
std::string checkValues(const Calibration &calibration) {
  if (calibration.method != "mean")
    return "expected the method 'mean', got '" + calibration.method + "'";
  if (calibration.layers.empty())
    return "expected at least one layer, got none";
  const int64_t dim = calibration.headDim, row = calibration.kvHeads * dim;
  int64_t last = -1;
  for (const LayerCalibration &layer : calibration.layers) {
    const std::string where = "tensor '" + meanName(layer.index) + "': ";
    if (layer.index <= last)
      return "expected ascending layers, got " + std::to_string(layer.index) + " after " +
             std::to_string(last);
    last = layer.index;
    if (int64_t(layer.keyMean.size()) != row)
      return where + "expected " + std::to_string(row) + " values, got " +
             std::to_string(layer.keyMean.size());
    for (int64_t i = 0; i < row; ++i)
      if (!std::isfinite(layer.keyMean[size_t(i)]))
        return where + "head " + std::to_string(i / dim) + ", channel " + std::to_string(i % dim) +
               ": expected a finite value, got " + std::to_string(layer.keyMean[size_t(i)]);
  }
  return "";
}

std::vector<TensorView> tensorsOf(const Calibration &calibration) {
  std::vector<TensorView> tensors;
  for (const LayerCalibration &layer : calibration.layers)
    tensors.push_back({meanName(layer.index),
                       TensorType::f32,
                       {calibration.kvHeads, calibration.headDim},
                       {layer.keyMean.data(), layer.keyMean.size() * sizeof(float)}});
  return tensors;
}

Json documentOf(const Calibration &calibration, const std::string &digest) {
  Json layers = Json::array(), data = Json::array();
  for (const LayerCalibration &layer : calibration.layers)
    layers.push_back(layer.index);
  for (const CalibrationData &entry : calibration.data)
    data.push_back({{"text", entry.text}, {"sha256", entry.digest}, {"tokens", entry.tokens}});
  return {{"version", kCalibrationVersion},
          {"method", calibration.method},
          {"model",
           {{"name", calibration.model},
            {"sha256", calibration.modelDigest},
            {"kv_heads", calibration.kvHeads},
            {"head_dim", calibration.headDim}}},
          {"rope", Json::parse(calibration.rope, nullptr, /*allow_exceptions=*/false)},
          {"layers", layers},
          {"data", data},
          {"tokens", calibration.tokens()},
          {"sha256", digest}};
}

std::string readDocument(const Document &document, Calibration &out, std::string &digest) {
  const int64_t version = document.integer("version", 0, kMaxCount);
  if (document.error().empty() && version != kCalibrationVersion)
    return "this kvq reads calibration version " + std::to_string(kCalibrationVersion) +
           ", the file has version " + std::to_string(version);
  out.method = document.text("method");
  const Document model = document.object("model");
  out.model = model.text("name");
  out.modelDigest = model.text("sha256");
  out.kvHeads = model.integer("kv_heads", 1, kMaxCount);
  out.headDim = model.integer("head_dim", 1, kMaxCount);
  out.rope = document.object("rope").dump();
  for (int64_t index : document.integers("layers", 0, kMaxCount))
    out.layers.push_back({index, {}});
  for (const Document &entry : document.objects("data"))
    out.data.push_back(
        {entry.text("text"), entry.text("sha256"), entry.integer("tokens", 1, INT64_MAX / 4096)});
  const int64_t tokens = document.integer("tokens", 0, INT64_MAX);
  digest = document.text("sha256");
  if (document.error().empty() && tokens != out.tokens())
    return std::string(kKey) + ".tokens: expected the sum of data, " +
           std::to_string(out.tokens()) + ", got " + std::to_string(tokens);
  return document.error();
}

std::string readTensors(const Safetensors &file, Calibration &out) {
  for (LayerCalibration &layer : out.layers) {
    const TensorView *tensor = nullptr;
    if (std::string error =
            file.get(meanName(layer.index), {TensorType::f32}, {out.kvHeads, out.headDim}, tensor);
        !error.empty())
      return error;
    layer.keyMean.resize(size_t(tensor->elements()));
    readElements(*tensor, 0, tensor->elements(), layer.keyMean.data());
  }
  if (file.tensors().size() != out.layers.size())
    return "expected " + std::to_string(out.layers.size()) + " tensors, one for each layer, got " +
           std::to_string(file.tensors().size());
  return checkValues(out);
}

std::string parseCalibration(const Safetensors &file, Calibration &out) {
  const auto at = file.metadata().find(kKey);
  if (at == file.metadata().end())
    return std::string("expected a calibration file, got a file without the metadata key '") +
           kKey + "'";
  const Document document = Document::parse(at->second, kKey);
  if (!document.error().empty())
    return document.error();
  std::string digest;
  if (std::string error = readDocument(document, out, digest); !error.empty())
    return error;
  if (std::string error = readTensors(file, out); !error.empty())
    return error;
  const std::string got = tensorDigest(file.tensors());
  if (got != digest)
    return "the tensors are damaged: expected SHA-256 " + digest + ", got " + got;
  return "";
}

} // namespace

int64_t Calibration::tokens() const {
  int64_t sum = 0;
  for (const CalibrationData &entry : data)
    sum += entry.tokens;
  return sum;
}

std::string writeCalibration(const std::string &path, const Calibration &calibration) {
  if (std::string error = checkValues(calibration); !error.empty())
    return error;
  const std::vector<TensorView> tensors = tensorsOf(calibration);
  const Json document = documentOf(calibration, tensorDigest(tensors));
  if (!document["rope"].is_object())
    return "expected the rope settings as a JSON object, got '" + calibration.rope + "'";
  return writeSafetensors(path, tensors,
                          {{kKey, document.dump(-1, ' ', false, Json::error_handler_t::replace)}});
}

std::string readCalibration(const std::string &path, Calibration &out) {
  Safetensors file;
  if (std::string error = Safetensors::open(path, file); !error.empty())
    return error;
  Calibration calibration;
  if (std::string error = parseCalibration(file, calibration); !error.empty())
    return "'" + path + "': " + error;
  out = std::move(calibration);
  return "";
}

} // namespace kvq
