// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kvq-inspect says of a file: one JSON document, and a table made of it. Functions that take a
// file return one sentence, or an empty string and the document. docs/inspect.md lists the keys.
#pragma once

#include "runtime/format/library.h"
#include "runtime/format/safetensors.h"

#include <nlohmann/json.hpp>

#include <string>

namespace kvq {

/// Keys stay in the order in which they were put in.
using Report = nlohmann::ordered_json;

/// Of a file that parseLibrary has taken; `bytes` are all of it.
std::string reportLibrary(ByteSpan bytes, const LibraryView &view, Report &out);
std::string libraryTable(const Report &report);

/// Of a file with the metadata key of a calibration. Tensors of any names: a calibration that
/// kvq-compile would refuse is told, with the reason, but a digest that does not match is an error.
std::string reportCalibration(const std::string &path, const Safetensors &file, Report &out);
std::string calibrationTable(const Report &report);

/// Of a trace, layers by falling bias of the keys: the share of the squared mean key in the mean
/// squared key, over all heads, 0 to 1.
std::string reportTrace(const std::string &path, Report &out);
std::string traceTable(const Report &report);

} // namespace kvq
