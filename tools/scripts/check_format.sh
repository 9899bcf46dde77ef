#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks that clang-format 22 would change nothing in the tracked C and C++ files.
# usage: tools/scripts/check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/scripts/common.sh
need "$llvm_bin/clang-format" git

mode=(--dry-run --Werror)
[[ "${1:-}" == --fix ]] && mode=(-i)
mapfile -t files < <(git ls-files '*.h' '*.c' '*.cpp')
((${#files[@]})) || exit 0
if ! complaints="$("$llvm_bin/clang-format" "${mode[@]}" "${files[@]}" 2>&1)"; then
  grep -oE '^[^ :]+:[0-9]+' <<<"$complaints" | sort -t: -k1,1 -u |
    sed 's/$/: not formatted; tools\/scripts\/check_format.sh --fix rewrites it/'
  exit 1
fi
echo "format: ${#files[@]} files, 0 problems"
