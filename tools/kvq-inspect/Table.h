// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace kvq {

class Table {
public:
  /// A title that begins with '>' is of a column that is flush right.
  explicit Table(std::vector<std::string> titles);

  /// One text for each column.
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }

  /// Lines with two spaces between columns, and none behind the last.
  std::string text() const;

private:
  std::vector<bool> right;
  std::vector<std::vector<std::string>> rows;
};

/// As printf("%.*f") and printf("%.*g").
std::string fixedText(double value, int digits);
std::string roughText(double value, int digits);

} // namespace kvq
