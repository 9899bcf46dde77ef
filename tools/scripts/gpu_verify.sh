#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks libraries on the machine it runs on, several processes side by side, and with compute-sanitizer where there is one.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/scripts/gpu_verify.sh GPU-CHECK FOLDER LIBRARY... [-- OPTIONS OF GPU-CHECK]

Runs GPU-CHECK over the libraries in PARTS (environment, default 3) processes, which write report-1.json, ... and their
output into FOLDER (merge them with merge_verified.py). Then, where compute-sanitizer is on the PATH, the first library once
more with short sequences under its memcheck and racecheck. Exit status 0 if everything passed.
TEXT
}

if [ $# -lt 3 ]; then
  usage >&2
  exit 2
fi
check=$1 folder=$2
shift 2
libraries=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  libraries+=("$1")
  shift
done
[ $# -eq 0 ] || shift
parts=${PARTS:-3}
[ "$parts" -le ${#libraries[@]} ] || parts=${#libraries[@]}
mkdir -p "$folder"

echo "gpu_verify: ${#libraries[@]} libraries in $parts processes"
processes=()
for part in $(seq "$parts"); do
  "$check" "$@" --part "$part/$parts" --report "$folder/report-$part.json" "${libraries[@]}" >"$folder/check-$part.txt" 2>&1 &
  processes+=($!)
done
failed=0
for process in "${processes[@]}"; do
  wait "$process" || failed=$((failed + 1))
done
cat "$folder"/check-*.txt

sanitizer=$(command -v compute-sanitizer || true)
case " $* " in *" --target cpu "*) sanitizer= ;; esac # it watches GPUs only
if [ -z "$sanitizer" ]; then
  echo "gpu_verify: no compute-sanitizer here"
else
  for tool in memcheck racecheck; do
    echo "gpu_verify: compute-sanitizer $tool"
    "$sanitizer" --target-processes all --error-exitcode 1 --tool "$tool" \
      "$check" "$@" --data random --lengths 0,1,65,200 "${libraries[0]}" >"$folder/$tool.txt" 2>&1 || failed=$((failed + 1))
    tail -n 3 "$folder/$tool.txt"
  done
fi

if [ "$failed" -ne 0 ]; then
  echo "gpu_verify: $failed of the runs failed; see $folder"
  exit 1
fi
echo "gpu_verify: all passed"
