// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Report.h"

#include "runtime/format/file.h"

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <unistd.h>

namespace kvq {

using Json = nlohmann::ordered_json;

std::string suiteDigest() { return KVQ_SUITE_DIGEST; }

static std::string dump(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

LibraryReport reportLibrary(const LibraryRun &run) {
  bool passed = run.failure.empty() && !run.checks.empty();
  Json checks = Json::array();
  for (const CheckResult &check : run.checks) {
    Json entry = {{"name", check.name}, {"passed", check.failure.empty()}};
    if (!check.failure.empty())
      entry["failure"] = check.failure;
    if (check.error != 0 || check.lse != 0)
      entry.update({{"error", check.error}, {"worst_head", check.worstHead}, {"lse", check.lse}});
    entry["seconds"] = check.seconds;
    checks.push_back(entry);
    passed &= check.failure.empty();
  }
  Json json = {{"name", run.name},      {"digest", run.digest},     {"device", run.device},
               {"passed", passed},      {"complete", run.complete}, {"seconds", run.seconds},
               {"failure", run.failure}};
  const Json manifest = Json::parse(run.manifest, nullptr, /*allow_exceptions=*/false);
  if (manifest.is_object())
    for (const char *key : {"modules", "kernels"})
      if (manifest.contains(key))
        json[key] = manifest[key];
  json["checks"] = checks;
  return {run.name, run.digest, passed, dump(json)};
}

LibraryReport parseLibraryReport(const std::string &line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("digest"))
    throw std::runtime_error("expected the report of a library, got '" + line.substr(0, 60) + "'");
  return {json["name"], json["digest"], json["passed"], dump(json)};
}

std::vector<LibraryReport> readReport(const std::string &path, const std::string &plan) {
  if (access(path.c_str(), F_OK) != 0)
    return {};
  FileBytes bytes;
  if (std::string error = FileBytes::read(path, bytes); !error.empty())
    throw std::runtime_error(error);
  const char *text = static_cast<const char *>(bytes.span().data);
  const Json json = Json::parse(text, text + bytes.span().size, nullptr, false);
  if (!json.is_object() || !json.contains("suite") || !json["libraries"].is_array())
    throw std::runtime_error("'" + path + "': expected a report of gpu-check");
  std::vector<LibraryReport> out;
  if (json["suite"] == suiteDigest() && json["plan"] == plan)
    for (const Json &library : json["libraries"])
      out.push_back(parseLibraryReport(dump(library)));
  return out;
}

void writeReport(const std::string &path, const std::string &plan,
                 const std::vector<LibraryReport> &libraries) {
  Json list = Json::array();
  for (const LibraryReport &library : libraries)
    list.push_back(Json::parse(library.line));
  const Json json = {{"suite", suiteDigest()}, {"plan", plan}, {"libraries", list}};
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::string error = writeFile(path, {{text.data(), text.size()}}); !error.empty())
    throw std::runtime_error(error);
}

} // namespace kvq
