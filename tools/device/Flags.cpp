// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/device/Flags.h"

#include <algorithm>
#include <cstdlib>

namespace kvq {

static bool contains(const std::vector<std::string> &list, const std::string &name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Flags::Flags(int argc, char **argv, const std::vector<std::string> &values,
             const std::vector<std::string> &switches) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.compare(0, 2, "--") != 0) {
      rest.push_back(argument);
      continue;
    }
    const size_t equal = argument.find('=');
    const std::string name = argument.substr(2, equal == std::string::npos ? equal : equal - 2);
    if (contains(switches, name) && equal == std::string::npos) {
      given.emplace(name, "");
    } else if (contains(values, name)) {
      if (equal == std::string::npos && i + 1 == argc)
        throw std::runtime_error("--" + name + ": expected a value, got none");
      given.emplace(name, equal == std::string::npos ? argv[++i] : argument.substr(equal + 1));
    } else {
      throw std::runtime_error("unknown option '" + argument + "'; see --help");
    }
  }
}

std::string Flags::text(const std::string &name, const std::string &otherwise) const {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : found->second;
}

std::vector<std::string> Flags::list(const std::string &name, const std::string &otherwise) const {
  return splitText(text(name, otherwise), ',');
}

std::vector<std::string> Flags::all(const std::string &name) const {
  std::vector<std::string> out;
  for (auto [at, end] = given.equal_range(name); at != end; ++at)
    out.push_back(at->second);
  return out;
}

std::vector<std::string> splitText(const std::string &text, char separator) {
  std::vector<std::string> out;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    if (end > start)
      out.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

int64_t parseNumber(const std::string &what, const std::string &text, int64_t low) {
  char *end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || value < low)
    throw std::runtime_error(what + ": expected a number from " + std::to_string(low) +
                             " up, got '" + text + "'");
  return value;
}

} // namespace kvq
