// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-inspect/Table.h"

#include <algorithm>
#include <cstdio>

namespace kvq {

Table::Table(std::vector<std::string> titles) {
  for (std::string &title : titles) {
    right.push_back(title.front() == '>');
    if (right.back())
      title.erase(0, 1);
  }
  rows.push_back(std::move(titles));
}

std::string Table::text() const {
  std::vector<size_t> widths(right.size());
  for (const std::vector<std::string> &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i ? "  " : "") + (right[i] ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string fixedText(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string roughText(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

} // namespace kvq
