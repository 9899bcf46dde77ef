#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the runtime, moves it elsewhere, and builds and runs the C example against it: with find_package, with
# pkg-config, and with the archive. The program then runs where there is no compiler and no home to write to.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
build="${KVQ_BUILD_DIR:-$root/build}" # with libkvq and kvq-compile
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
prefix="$scratch/elsewhere" example="$root/docs/examples/c" library="$scratch/int2.kvqlib"
failed=0

fail() {
  printf 'FAILED: %s\n' "$*"
  failed=1
}

# step TEXT COMMAND... : what the rest of the test needs.
step() {
  local text="$1" output
  shift
  output="$("$@" 2>&1 </dev/null)" && return
  printf 'FAILED: %s: %s\n%s\n' "$text" "$*" "$output"
  exit 1
}

# attends COMMAND... : the example runs, and prints the values that it appended.
attends() {
  local output status
  output="$("$@" "$library" 2>&1 </dev/null)"
  status=$?
  [[ $status == 0 && "$output" == *"attention over 100 tokens: -1.00 1.00 1.00 -1.00 ..." ]] ||
    fail "$* ends with status $status and prints: $output"
}

step "install" cmake --install "$build" --component runtime --strip --prefix "$scratch/first"
mv "$scratch/first" "$prefix"
step "compile" "$build/bin/kvq-compile" "$root/docs/examples/int2.mlir" --targets cpu -o "$library"
cd "$scratch" || exit 1

# The header alone, as C and as C++.
echo '#include <kvq/runtime.h>' | tee header.c >header.cpp
warnings=(-Wall -Wextra -pedantic -Werror -fsyntax-only -I"$prefix/include")
step "the header as C99" cc -std=c99 "${warnings[@]}" header.c
step "the header as C++17" c++ -std=c++17 "${warnings[@]}" header.cpp

# find_package.
step "find_package" cmake -S "$example" -B cmake -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
step "build with CMake" cmake --build cmake
attends cmake/attend
attends cmake/attend_static
if cmake -S "$example" -B none -DCMAKE_DISABLE_FIND_PACKAGE_kvq=ON >/dev/null 2>&1; then
  fail "the example is configured without kvq"
fi

# pkg-config.
PKG_CONFIG_PATH="$(dirname "$(find "$prefix" -name kvq.pc)")"
export PKG_CONFIG_PATH
read -r -a flags <<<"$(pkg-config --cflags --libs kvq)"
libdir="$(pkg-config --variable=libdir kvq)"
step "build with pkg-config" cc -std=c99 -Wall -Wextra -pedantic -Werror "$example/attend.c" "${flags[@]}" \
  -Wl,-rpath,"$libdir" -o attend
attends ./attend
[[ "$(ldd ./attend)" == *"$prefix"*libkvq.so* ]] || fail "the example does not use the installed libkvq.so"
[[ "$(ldd cmake/attend_static)" != *libkvq* ]] || fail "the static example needs libkvq.so"

# The archive defines the C interface and nothing else that a program could clash with.
others="$(nm --defined-only --extern-only "$libdir/libkvq.a" | awk 'NF == 3 && $3 !~ /^kvq_/ { print $3 }')"
[[ -z "$others" ]] || fail "libkvq.a also defines $(wc -l <<<"$others") other names: ${others%%$'\n'*} ..."

# No compiler is called and none is missed; nothing is written at home or beside the library. /proc takes no file from
# anybody, root included.
mkdir tools data && cp "$library" data/ && library="$scratch/data/int2.kvqlib"
for tool in nvcc ptxas fatbinary gcc g++ cc c++ clang ld as sh; do
  printf '#!/bin/bash\necho "%s $*" >>"%s"\nexit 1\n' "$tool" "$scratch/called" >"tools/$tool"
  chmod +x "tools/$tool"
done
attends env -i PATH="$scratch/tools" HOME=/proc TMPDIR=/proc XDG_CACHE_HOME=/proc "$scratch/attend"
attends env -i PATH=/nonexistent HOME=/proc TMPDIR=/proc XDG_CACHE_HOME=/proc "$scratch/attend"
[[ ! -e called ]] || fail "the runtime called: $(cat called)"
[[ "$(ls data)" == int2.kvqlib ]] || fail "the runtime wrote beside the library: $(ls data)"

# A file that is no library is one readable line.
echo "no library" >other.kvqlib
output="$(./attend other.kvqlib 2>&1)" && fail "a text file is opened"
[[ "$output" == "attend: kvq_open: KVQ_INVALID_FILE: "* && "$output" != *$'\n'* ]] || fail "a text file gives: $output"

exit "$failed"
