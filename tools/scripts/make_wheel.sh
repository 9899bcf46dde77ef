#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the wheel of the Python package, checks what is in it, and gives it the tag of the oldest glibc that it runs on.
# Prints its path.
# usage: tools/scripts/make_wheel.sh DIR
#   DIR  where the wheel goes; older wheels of the package there are removed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/scripts/common.sh

[[ $# == 1 && "$1" != -* ]] || die "usage: make_wheel.sh DIR"
need readelf cmake ninja c++
mkdir -p "$1"
out="$(realpath "$1")" scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
python="$(bash tools/scripts/make_venv.sh)"

"$python" -m pip wheel --no-build-isolation --no-deps --disable-pip-version-check -q -w "$scratch" runtime/python \
  >"$scratch/log" 2>&1 || die "building the wheel failed: $(grep -m1 -iE 'error' "$scratch/log" || tail -n1 "$scratch/log")"
wheel="$(echo "$scratch"/kvq_runtime-*.whl)"
[[ "$wheel" == *-py3-none-linux_*.whl ]] || die "expected a wheel for any Python 3 on Linux, got ${wheel##*/}"

# One shared library, of no version of Python, that exports the C interface alone.
python3 -m zipfile -e "$wheel" "$scratch/unpacked"
shared="$(cd "$scratch/unpacked" && find . -name '*.so*')"
[[ "$shared" == ./kvq_runtime/libkvq.so ]] || die "expected kvq_runtime/libkvq.so alone, got: $shared"
library="$scratch/unpacked/kvq_runtime/libkvq.so"
python3 tools/scripts/check_exports.py --max-bytes 400000 "$library" >"$scratch/log" || die "$(head -n1 "$scratch/log")"

glibc="$(newest_glibc "$library")"
"$python" -m wheel tags --remove --platform-tag "manylinux_${glibc//./_}_$(uname -m)" "$wheel" >/dev/null
rm -f "$out"/kvq_runtime-*.whl
mv "$scratch"/kvq_runtime-*.whl "$out"
echo "$out"/kvq_runtime-*.whl
