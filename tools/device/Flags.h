// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Command lines of the tools that run on machines where nothing is installed: `--name value` or
// `--name=value`, and positional arguments.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvq {

class Flags {
public:
  /// `values` are the names that take a value, `switches` those that do not. Throws
  /// std::runtime_error for any other.
  Flags(int argc, char **argv, const std::vector<std::string> &values,
        const std::vector<std::string> &switches);

  bool has(const std::string &name) const { return given.count(name) != 0; }
  std::string text(const std::string &name, const std::string &otherwise) const;
  /// A list with commas.
  std::vector<std::string> list(const std::string &name, const std::string &otherwise) const;
  /// Every value of a flag that may be given more than once.
  std::vector<std::string> all(const std::string &name) const;
  const std::vector<std::string> &positional() const { return rest; }

private:
  std::multimap<std::string, std::string> given;
  std::vector<std::string> rest;
};

std::vector<std::string> splitText(const std::string &text, char separator);
/// A number from `low` up; throws std::runtime_error that names `what`.
int64_t parseNumber(const std::string &what, const std::string &text, int64_t low);

} // namespace kvq
