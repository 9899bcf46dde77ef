#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the fuzz targets with clang and libFuzzer and runs each for a time. See --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
source tools/scripts/common.sh

usage() {
  cat <<'TEXT'
usage: tools/scripts/fuzz.sh [options]
Builds build/fuzz (clang++-22, libclang-rt-22-dev, AddressSanitizer and UBSan) and runs each target of test/fuzz from the
committed corpus and what earlier runs found (build/fuzz/corpus). Prints executions, coverage and crashes of each; the
status is 0 when nothing crashed, ran out of memory or hung.
Options:
  --seconds N    time of each target (default 60); the targets run side by side
  --target NAME  one of library_fuzz, safetensors_fuzz; may be repeated (default: all)
  --minimize     write the corpus that covers the same with fewer inputs over test/fuzz/corpus
Logs and crashing inputs lie in build/fuzz/runs.
TEXT
}

all=(library_fuzz safetensors_fuzz)
seconds=60 minimize=0 targets=()
while (($#)); do
  case "$1" in
  --help | -h) usage && exit 0 ;;
  --seconds) seconds="${2:?--seconds needs a number}" && shift ;;
  --target) targets+=("${2:?--target needs a name}") && shift ;;
  --minimize) minimize=1 ;;
  *) usage >&2 && die "unknown option '$1'" ;;
  esac
  shift
done
((${#targets[@]})) || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || die "no target '$target', see --help"
done

need cmake ninja
[[ -x "$llvm_bin/clang++" ]] || die "expected clang++ in $llvm_bin (Debian: clang-22, libclang-rt-22-dev), found none"
log="build/fuzz/build.log"
mkdir -p build/fuzz
{ cmake --preset fuzz && cmake --build --preset fuzz; } >"$log" 2>&1 || { tail -n 20 "$log" && die "the build failed: $log"; }

# Inputs are bytes of files: large enough for a small good one, small enough to be quick.
limit() { [[ "$1" == library_fuzz ]] && echo 16384 || echo 4096; }

fuzz() {
  local runs="build/fuzz/runs/$1" found="build/fuzz/corpus/$1"
  mkdir -p "$runs" "$found"
  "build/fuzz/test-bin/$1" -max_total_time="$seconds" -max_len="$(limit "$1")" -rss_limit_mb=2048 -timeout=20 \
    -print_final_stats=1 -artifact_prefix="$runs/" "$found" "test/fuzz/corpus/$1" >"$runs/log" 2>&1
}

pids=()
for target in "${targets[@]}"; do
  fuzz "$target" &
  pids+=($!)
done
failed=0
for i in "${!targets[@]}"; do
  target="${targets[i]}" verdict="no crash"
  wait "${pids[i]}" || { failed=1 verdict="FAILED"; }
  log="build/fuzz/runs/$target/log"
  count="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  cover="$(grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$log" | tail -n 1)"
  printf '%-18s %s executions in %s s, %s, %s\n' "$target" "${count:-?}" "$seconds" "${cover:-no coverage}" "$verdict"
  [[ "$verdict" == FAILED ]] && tail -n 20 "$log"
done
if ((minimize && !failed)); then
  for target in "${targets[@]}"; do
    small="build/fuzz/corpus/$target.small"
    rm -rf "$small" && mkdir -p "$small"
    "build/fuzz/test-bin/$target" -merge=1 -max_len="$(limit "$target")" "$small" "test/fuzz/corpus/$target" \
      "build/fuzz/corpus/$target" >"build/fuzz/runs/$target/merge.log" 2>&1 || die "the merge failed"
    rm -f "test/fuzz/corpus/$target"/* && cp "$small"/* "test/fuzz/corpus/$target"/
  done
fi
exit "$failed"
