#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs clang-tidy 22 with the checks of .clang-tidy over sources of build/compile_commands.json.
# usage: tools/scripts/run_clang_tidy.sh [--jobs N] [--all | FILE...]
#   default  the runtime, the calibrator and their tools, and the files that differ from origin/main when they are
#            30 or fewer (a file takes seconds)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/scripts/common.sh

jobs="$(nproc)" all=0 files=()
while (($#)); do
  case "$1" in
  --jobs) jobs="${2:?--jobs needs a number}" && shift ;;
  --all) all=1 ;;
  -*) die "unknown option '$1'" ;;
  *) files+=("$1") ;;
  esac
  shift
done
need "$llvm_bin/clang-tidy" git python3
[[ -f build/compile_commands.json ]] || die "build/compile_commands.json is missing: run cmake --preset dev"

if ((all)); then
  mapfile -t files < <(git ls-files '*.cpp')
elif ((${#files[@]} == 0)); then
  mapfile -t changed < <(git diff --name-only --diff-filter=d origin/main -- '*.cpp' 2>/dev/null || true)
  if ((${#changed[@]} > 30)); then
    echo "${#changed[@]} sources differ from origin/main: only the runtime side is looked at, --all takes them all"
    changed=()
  fi
  mapfile -t files < <({
    git ls-files 'runtime/*.cpp' 'calib/*.cpp' 'tools/kvq-run/*.cpp' 'tools/kvq-calibrate/*.cpp' \
      'tools/kvq-inspect/*.cpp'
    ((${#changed[@]})) && printf '%s\n' "${changed[@]}"
  } | sort -u)
fi

# Only what the build compiles has flags; the rest (a file of a switched-off part) is left out.
mapfile -t files < <(python3 - "${files[@]}" <<'PYTHON'
import json, os, sys
known = {os.path.realpath(os.path.join(e["directory"], e["file"])) for e in json.load(open("build/compile_commands.json"))}
print("\n".join(path for path in sys.argv[1:] if os.path.realpath(path) in known))
PYTHON
)
((${#files[@]})) && [[ -n "${files[0]}" ]] || die "no source to look at"
echo "clang-tidy: ${#files[@]} files"
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$jobs" "$llvm_bin/clang-tidy" -p build --quiet \
    --removed-arg=-fno-gnu-unique \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument
