// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-inspect/Report.h"
#include "tools/kvq-inspect/Table.h"

namespace kvq {
namespace {

std::string plain(const Report &value) {
  return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump();
}

/// "-" for a number that says nothing.
std::string orDash(const Report &value) {
  return value.is_null() || value == 0 ? "-" : plain(value);
}

std::string constantName(const Report &format, const Report &index) {
  return plain(format["constants"][index.get<size_t>()]["name"]);
}

std::string factorText(const Report &format, const Report &factor) {
  if (factor["factor"] != "dense")
    return plain(factor["factor"]) + "<" + plain(factor["order"]) + ">";
  return constantName(format, factor["constant"]) + (factor["inverse"] == true ? "^-1" : "");
}

std::string stepText(const Report &format, const Report &step) {
  if (step["step"] == "clip")
    return "clip " + plain(step["clip"]) + "(" + plain(step["value"]) + ") per " +
           plain(step["scope"]);
  if (step["step"] == "center")
    return "center by " + constantName(format, step["mean"]);
  std::string factors;
  for (const Report &factor : step["factors"])
    factors += (factors.empty() ? "" : " * ") + factorText(format, factor);
  return "rotate by " + factors;
}

std::string sideText(const Report &format, const char *which) {
  const Report &side = format["method"][which];
  const std::string group = side["group"] == 0 ? "whole head" : plain(side["group"]);
  std::string text = plain(side["dim"]) + " channels, " + plain(side["bits"]) + " bits, " +
                     plain(side["form"]) + " form, " + plain(side["parameters"]) +
                     " parameters per " + plain(side["axis"]) + ", group " + group + ", rows " +
                     plain(side["rows"]);
  if (side["outer"] != "none")
    text += ", outer scale per " + plain(side["outer"]);
  for (const Report &step : side["steps"])
    text += "; " + stepText(format, step);
  return text;
}

/// "key value, key value" of an object of plain values.
std::string pairsText(const Report &object) {
  std::string text;
  for (const auto &[key, value] : object.items())
    text += (text.empty() ? "" : ", ") + key + " " + plain(value);
  return text;
}

std::string constantsText(const Report &format) {
  std::string text = plain(format["constants_bytes"]) + " bytes";
  for (const Report &constant : format["constants"]) {
    text += ", " + plain(constant["name"]) + " [";
    for (size_t i = 0; i < constant["shape"].size(); ++i)
      text += (i ? ", " : "") + plain(constant["shape"][i]);
    text += "]";
  }
  return text;
}

/// Empty without high-precision windows.
std::string windowsText(const Report &format) {
  if (format["sink"] == 0 && format["recent"] == 0)
    return "";
  return "\n  windows    first " + plain(format["sink"]) + " and last " + plain(format["recent"]) +
         " tokens in high precision";
}

std::string formatText(const Report &format) {
  const std::string heads =
      plain(format["q_heads"]) + " query, " + plain(format["kv_heads"]) + " KV";
  return "\nformat " + plain(format["format"]) + ": @" + plain(format["cache"]) +
         "\n  heads      " + heads + "; " + plain(format["layers"]) + " layers\n  K          " +
         sideText(format, "key") + "\n  V          " + sideText(format, "value") +
         "\n  attention  " + pairsText(format["method"]["attention"]) + "\n  page       " +
         plain(format["page_tokens"]) + " tokens, " + plain(format["page_bytes"]) +
         " bytes; a record, of one KV head, " + plain(format["record_bytes"]) + " bytes (" +
         plain(format["record_stride"]) + " with padding), " +
         fixedText(format["bits_per_element"].get<double>(), 3) + " bits per element" +
         windowsText(format) + "\n  record id  " + plain(format["record_id"]) + "\n  constants  " +
         constantsText(format) + "\n";
}

std::string layersText(const Report &report) {
  Table table({"layers", ">format", "cache", "layers of its constants"});
  const Report &layers = report["layers"];
  for (size_t first = 0, end; first < layers.size(); first = end) {
    // Layers in a row, with one format and constants in a row, are one line.
    auto follows = [&](size_t i) {
      if (layers[first].is_null() || layers[i].is_null())
        return layers[first].is_null() && layers[i].is_null();
      return layers[i]["format"] == layers[first]["format"] &&
             layers[i]["constant_layer"].get<size_t>() ==
                 layers[first]["constant_layer"].get<size_t>() + i - first;
    };
    for (end = first + 1; end < layers.size() && follows(end);)
      ++end;
    auto range = [&](size_t from) {
      const size_t last = from + end - first - 1;
      return std::to_string(from) + (last > from ? "-" + std::to_string(last) : "");
    };
    const Report &layer = layers[first];
    if (layer.is_null())
      table.add({range(first), "-", "not quantized", ""});
    else
      table.add({range(first), plain(layer["format"]),
                 "@" + plain(report["formats"][layer["format"].get<size_t>()]["cache"]),
                 range(layer["constant_layer"].get<size_t>())});
  }
  return "\n" + table.text();
}

std::string kernelsText(const Report &report) {
  Table table({">format", "role", "target", "level", ">rows", ">threads", ">shared", ">registers",
               ">query floats", ">partial floats", ">object", "symbol"});
  for (const Report &kernel : report["kernels"])
    table.add({plain(kernel["format"]), plain(kernel["role"]), plain(kernel["target"]),
               plain(kernel["level"]), orDash(kernel["rows"]), orDash(kernel["threads"]),
               orDash(kernel["shared_bytes"]), orDash(kernel["registers"]),
               orDash(kernel["query_floats"]), orDash(kernel["partial_floats"]),
               plain(kernel["object"]), plain(kernel["symbol"])});
  return "\n" + table.text();
}

std::string blobsText(const Report &report) {
  Table table({"blob", ">of", ">offset", ">bytes", "sha256"});
  for (const Report &blob : report["blobs"]) {
    const char *of = blob.contains("format") ? "format" : "object";
    table.add({plain(blob["kind"]), blob.contains(of) ? plain(blob[of]) : "", plain(blob["offset"]),
               plain(blob["bytes"]), plain(blob["sha256"])});
  }
  return "\n" + table.text();
}

} // namespace

std::string libraryTable(const Report &report) {
  std::string text = plain(report["file"]) + ": kernel library of format version " +
                     plain(report["version"]) + ", " + plain(report["bytes"]) +
                     " bytes; the digests match\n";
  if (report["compiler"].is_object())
    text += "compiler: " + pairsText(report["compiler"]) + "; C interface " +
            plain(report["interface"]) + "\n";
  text += layersText(report);
  for (const Report &format : report["formats"])
    text += formatText(format);
  return text + kernelsText(report) + blobsText(report);
}

} // namespace kvq
