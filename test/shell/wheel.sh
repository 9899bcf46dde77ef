#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the wheel of the Python package, installs it into an environment with nothing else, and opens a library there:
# neither PyTorch nor NumPy nor a compiler is needed to load it, and nothing is written.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
source "$root/tools/scripts/common.sh"
failed=0 version="$(sed -n 's/^project(kvq VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")"

fail() {
  printf 'FAILED: %s\n' "$*"
  failed=1
}

wheel="$(bash "$root/tools/scripts/make_wheel.sh" "$scratch")" || exit 1
[[ "${wheel##*/}" =~ ^kvq_runtime-[0-9.]+-py3-none-manylinux_2_[0-9]+_$(uname -m)\.whl$ ]] || fail "the wheel is ${wheel##*/}"

"$(find_python)" -m venv "$scratch/venv" || exit 1
python="$scratch/venv/bin/python"
"$python" -m pip install --disable-pip-version-check --no-index -q "$wheel" || exit 1
"$root/build/bin/kvq-compile" "$root/docs/examples/int2.mlir" --targets cpu -o "$scratch/int2.kvqlib" >/dev/null 2>&1 || exit 1

cat >"$scratch/open.py" <<'TEXT'
import sys
import kvq_runtime as kvq

with kvq.open(sys.argv[1], allow_host_code=True) as library:
    print(library.supports(q_length=4), library.geometry().key_bits, kvq.version())
print(sorted({"torch", "numpy"} & set(sys.modules)))
TEXT
cd "$scratch" || exit 1
output="$(env -i PATH=/nonexistent HOME=/proc TMPDIR=/proc "$python" open.py int2.kvqlib 2>&1)"
[[ "$output" == "[] 2 $version"$'\n[]' ]] || fail "the package prints: $output"
mv venv/lib/python3*/site-packages/kvq_runtime/libkvq.so gone.so
output="$("$python" open.py int2.kvqlib 2>&1)" && fail "the package is imported without its library"
[[ "$output" == *"ImportError: kvq_runtime: cannot load its runtime: "* ]] || fail "without its library: $output"

exit "$failed"
