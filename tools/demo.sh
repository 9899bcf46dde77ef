#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The first-minute demonstration: quantizes a real model's keys and values with five pipelines. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/scripts/common.sh
exec </dev/null

trace=test/data/smollm2-135m.trace.safetensors
pipelines=(int2 hadamard_clip_int2 centered_hadamard_clip_int2 symmetric_int2 int4)

usage() {
  cat <<TEXT
usage: tools/demo.sh [--no-install] [--jobs N]
Installs what is missing (Debian 12), builds the kvq tools into build/, and then, on keys, values and queries that were
recorded from SmolLM2-135M ($trace):
  1. kvq-calibrate measures the mean of every key channel;
  2. kvq-compile turns each pipeline of docs/examples/ (${pipelines[*]})
     into a library of CPU kernels;
  3. kvq-run fills a cache with the recorded tokens, decodes with the compiled kernels and compares.
Prints one table: bits per element and two errors per pipeline. Results stay in build/demo/. A first build takes minutes.
TEXT
}

jobs="$(nproc)" install=1
while (($#)); do
  case "$1" in
  --help | -h) usage && exit 0 ;;
  --no-install) install=0 ;;
  --jobs) jobs="${2:?--jobs needs a number}" && shift ;;
  *) usage >&2 && die "unknown option '$1'" ;;
  esac
  shift
done

((install)) && bash tools/scripts/setup_debian.sh build
need cmake ninja python3
[[ -f "$trace" ]] || die "$trace is missing from this checkout"

say "building the tools ($jobs jobs)"
# A folder configured for tests serves as it is: the flags are the same.
[[ -f build/build.ninja ]] || configure release
cmake --build build -j "$jobs" --target kvq-compile kvq-run kvq-calibrate

results=build/demo
rm -rf "$results"
mkdir -p "$results"

say "calibrating: mean of every key channel"
build/bin/kvq-calibrate --method mean "$trace" -o "$results/calibration.safetensors"

reports=()
for name in "${pipelines[@]}"; do
  say "$name"
  source="docs/examples/$name.mlir" library="$results/$name.kvqlib"
  constants=()
  grep -q 'source(' "$source" && constants=(--calibration "$results/calibration.safetensors")
  echo "kvq-compile $source ${constants[*]:+${constants[*]} }--targets cpu -o $library"
  build/bin/kvq-compile "$source" "${constants[@]}" --targets cpu -o "$library"
  echo "kvq-run $library --trace $trace --json"
  build/bin/kvq-run "$library" --trace "$trace" --json >"$results/$name.json"
  reports+=("$results/$name.json")
done

say "result"
python3 tools/scripts/demo_table.py "${reports[@]}"
echo "libraries and reports: $results/; took $((SECONDS / 60)) min $((SECONDS % 60)) s"
