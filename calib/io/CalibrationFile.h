// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The calibration file, docs/calibration-format.md: constants fitted to traces of a model, as
// safetensors. Errors are one sentence; an empty string is success.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvq {

inline constexpr int64_t kCalibrationVersion = 0;

/// One trace the constants were fitted to.
struct CalibrationData {
  std::string text;   ///< id of the text
  std::string digest; ///< SHA-256 of the trace's tensors
  int64_t tokens = 0;
};

struct LayerCalibration {
  int64_t index = 0;          ///< in the model
  std::vector<float> keyMean; ///< [kvHeads, headDim]
};

struct Calibration {
  std::string method = "mean";
  std::string model, modelDigest; ///< name, SHA-256 of the model file
  int64_t kvHeads = 0, headDim = 0;
  std::string rope = "{}"; ///< JSON text
  std::vector<CalibrationData> data;
  std::vector<LayerCalibration> layers; ///< ascending

  int64_t tokens() const;
};

/// Writes the file as a whole or not at all. Refuses what the reader would refuse.
std::string writeCalibration(const std::string &path, const Calibration &calibration);

/// Reads a file of version 0 and checks its metadata, shapes, that all values are finite, and the
/// digest.
std::string readCalibration(const std::string &path, Calibration &out);

} // namespace kvq
