#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes build/venv with what tools/scripts/requirements.txt lists, when that list changed, and prints its python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/scripts/common.sh

venv="$PWD/build/venv" list=tools/scripts/requirements.txt
if [[ ! -x "$venv/bin/python" ]] || ! cmp -s "$list" "$venv/requirements.txt"; then
  python="$(find_python)" || die "no python3 with the venv module; on Debian it is in python3-venv"
  rm -rf "$venv"
  mkdir -p build
  "$python" -m venv "$venv" >&2 || die "$python -m venv failed"
  if [[ -f "$list" ]]; then
    log="$(mktemp)"
    if ! "$venv/bin/pip" install -q --disable-pip-version-check --no-input -r "$list" >"$log" 2>&1; then
      reason="$(grep -m1 -E '^(ERROR|error)' "$log" || tail -n1 "$log")"
      rm -f "$log"
      die "pip could not install $list: $reason"
    fi
    rm -f "$log"
    cp "$list" "$venv/requirements.txt"
  fi
fi
echo "$venv/bin/python"
