#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Prints the path of ptxas: what KVQ_PTXAS names, or that of PATH, of CUDA_HOME or of the toolkit's folder, or the one that
# tools/scripts/requirements-ptxas.txt lists, installed into build/venv if it is not there yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/scripts/common.sh

if [[ -n "${KVQ_PTXAS:-}" ]]; then
  [[ -x "$KVQ_PTXAS" ]] || die "KVQ_PTXAS: expected the path of a program, got '$KVQ_PTXAS'"
  echo "$KVQ_PTXAS"
  exit 0
fi
for found in "$(command -v ptxas || true)" "${CUDA_HOME:-}/bin/ptxas" /usr/local/cuda/bin/ptxas; do
  if [[ -n "$found" && -x "$found" ]]; then
    echo "$found"
    exit 0
  fi
done

python="$(bash tools/scripts/make_venv.sh)" || exit 1
venv="$PWD/build/venv" list=tools/scripts/requirements-ptxas.txt
if ! cmp -s "$list" "$venv/requirements-ptxas.txt"; then
  log="$(mktemp)"
  if ! "$python" -m pip install -q --disable-pip-version-check --no-input --no-deps -r "$list" >"$log" 2>&1; then
    reason="$(grep -m1 -E '^(ERROR|error)' "$log" || tail -n1 "$log")"
    rm -f "$log"
    die "pip could not install $list: $reason"
  fi
  rm -f "$log"
  cp "$list" "$venv/requirements-ptxas.txt"
fi
found="$(find "$venv" -path '*/nvidia/*/bin/ptxas' -type f -perm -u+x -print -quit)"
[[ -n "$found" ]] || die "the package of $list holds no ptxas"
echo "$found"
