// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/io/CalibrationFile.h"
#include "calib/io/Trace.h"
#include "tools/kvq-inspect/Report.h"
#include "tools/kvq-inspect/Table.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>

namespace kvq {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

bool isFloat(TensorType type) {
  return type == TensorType::f16 || type == TensorType::bf16 || type == TensorType::f32;
}

bool isRotation(const TensorView &tensor) {
  const std::string suffix = ".rotation";
  const std::vector<int64_t> &shape = tensor.shape;
  return tensor.name.size() > suffix.size() &&
         tensor.name.compare(tensor.name.size() - suffix.size(), suffix.size(), suffix) == 0 &&
         shape.size() >= 2 && shape.back() == shape[shape.size() - 2] && shape.back() > 0;
}

/// Largest |R R^T - I| over all matrices of the tensor; null if a value is not finite.
Report orthogonalityError(const TensorView &tensor) {
  const int64_t dim = tensor.shape.back();
  double largest = 0;
  std::vector<float> values(static_cast<size_t>(dim * dim));
  for (int64_t first = 0; first < tensor.elements(); first += dim * dim) {
    readElements(tensor, first, dim * dim, values.data());
    const Matrix rotation =
        Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
            values.data(), dim, dim)
            .cast<double>();
    const Matrix difference = rotation * rotation.transpose() - Matrix::Identity(dim, dim);
    if (!difference.allFinite())
      return {};
    largest = std::max(largest, difference.cwiseAbs().maxCoeff());
  }
  return largest;
}

Report tensorReport(const TensorView &tensor) {
  Report out = {{"name", tensor.name},
                {"type", tensorTypeName(tensor.type)},
                {"shape", tensor.shape},
                {"bytes", tensor.data.size}};
  const int64_t count = tensor.elements(), piece = 65536;
  double low = INFINITY, high = -INFINITY, squares = 0;
  int64_t finite = 0;
  std::vector<float> values(static_cast<size_t>(piece));
  for (int64_t first = 0; isFloat(tensor.type) && first < count; first += piece) {
    const int64_t some = std::min(piece, count - first);
    readElements(tensor, first, some, values.data());
    for (int64_t i = 0; i < some; ++i) {
      const double value = values[size_t(i)];
      if (!std::isfinite(value))
        continue;
      low = std::min(low, value), high = std::max(high, value);
      squares += value * value, ++finite;
    }
  }
  const bool any = finite > 0;
  out["min"] = any ? Report(low) : Report();
  out["max"] = any ? Report(high) : Report();
  out["rms"] = any ? Report(std::sqrt(squares / double(finite))) : Report();
  out["not_finite"] = isFloat(tensor.type) ? count - finite : 0;
  out["orthogonality_error"] =
      isFloat(tensor.type) && isRotation(tensor) ? orthogonalityError(tensor) : Report();
  return out;
}

std::string plain(const Report &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string rough(const Report &value) {
  return value.is_number() ? roughText(value.get<double>(), 4) : "-";
}

} // namespace

std::string reportCalibration(const std::string &path, const Safetensors &file, Report &out) {
  const Report metadata = Report::parse(file.metadata().at("kvq_calibration"), nullptr,
                                        /*allow_exceptions=*/false);
  if (!metadata.is_object())
    return "'" + path + "': metadata key 'kvq_calibration': expected a JSON object";
  const std::string digest = tensorDigest(file.tensors());
  const std::string stated = metadata.contains("sha256") ? plain(metadata["sha256"]) : "none";
  if (stated != digest)
    return "'" + path + "': SHA-256 of the tensors: the metadata say " + stated +
           ", the bytes have " + digest;
  Report tensors = Report::array();
  for (const TensorView &tensor : file.tensors())
    tensors.push_back(tensorReport(tensor));
  Calibration calibration;
  const std::string refusal = readCalibration(path, calibration);
  out = {{"kind", "calibration"},
         {"metadata", metadata},
         {"refused", refusal.empty() ? Report() : Report(refusal)},
         {"tensors", tensors}};
  return "";
}

std::string calibrationTable(const Report &report) {
  std::string text = plain(report["file"]) + ": calibration; the digest matches\n";
  for (const auto &[key, value] : report["metadata"].items())
    text += "  " + key + std::string(key.size() < 10 ? 10 - key.size() : 0, ' ') + "  " +
            plain(value) + "\n";
  if (!report["refused"].is_null())
    text += "kvq-compile refuses it: " + plain(report["refused"]) + "\n";
  Table table({"tensor", "type", "shape", ">bytes", ">min", ">max", ">rms", ">not finite",
               ">orthogonality error"});
  for (const Report &tensor : report["tensors"])
    table.add({plain(tensor["name"]), plain(tensor["type"]), tensor["shape"].dump(),
               plain(tensor["bytes"]), rough(tensor["min"]), rough(tensor["max"]),
               rough(tensor["rms"]), plain(tensor["not_finite"]),
               rough(tensor["orthogonality_error"])});
  return text + "\n" + table.text();
}

} // namespace kvq
