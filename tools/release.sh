#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds, checks and packs a release. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/scripts/common.sh
exec </dev/null

usage() {
  cat <<'TEXT'
usage: tools/release.sh [options]
Makes kvq-VERSION-linux-ARCH.tar.gz and its .sha256: kvq-compile with LLVM and MLIR inside, the runtime (libkvq.so,
libkvq.a, headers, CMake package, kvq.pc), the examples and docs/linking.md; and the wheel of the Python package. In
this order:
  build    kvq-compile and the runtime, without the shared libraries of LLVM
  stage    install and strip
  check    kvq-compile needs libc, libm, libz and libzstd; libkvq.so needs libc, exports kvq_* and is below 400 KB;
           the staged kvq-compile makes a library for a CPU and sm_90a; test/shell/install.sh passes
  wheel    tools/scripts/make_wheel.sh
  pack     sorted, dated by the commit: the same files give the same archive
Options:
  --build DIR    where to build (default: build/static)
  --out DIR      where the archive goes (default: the build folder)
  --jobs N       parallel jobs (default: number of processors)
  --no-install   do not look for missing packages
TEXT
}

build=build/static out='' jobs="$(nproc)" install=1
while (($#)); do
  case "$1" in
  --help | -h) usage && exit 0 ;;
  --no-install) install=0 ;;
  --build) build="${2:?--build needs a folder}" && shift ;;
  --out) out="${2:?--out needs a folder}" && shift ;;
  --jobs) jobs="${2:?--jobs needs a number}" && shift ;;
  *) usage >&2 && die "unknown option '$1'" ;;
  esac
  shift
done
need bash
((install)) && { bash tools/scripts/setup_debian.sh build || exit 1; }
need cmake ninja git python3 readelf strip tar gzip sha256sum pkg-config cc
out="${out:-$build}"
mkdir -p "$build" "$out"
build="$(realpath "$build")" out="$(realpath "$out")" log="$build/release.log"

# quiet WHAT COMMAND... : output goes to the log; a failure is one line with the first error in it.
quiet() {
  local what="$1" error
  shift
  "$@" >"$log" 2>&1 && return
  error="$(grep -m1 -E 'error: |undefined reference' "$log" || grep -m1 -iE 'error|failed' "$log" || tail -n1 "$log")"
  die "$what failed: $error (log: $log)"
}

# needed FILE : the shared libraries that a program names.
needed() { readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

size() { stat -c %s "$1" | numfmt --to=si; }

say "build ($jobs jobs)"
quiet "configuring" cmake --preset static -B "$build"
quiet "the build" cmake --build "$build" -j "$jobs" --target kvq-compile kvq_runtime kvq_archive

say "stage"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"
name="kvq-$version-linux-$(uname -m)" stage="$build/stage"
rm -rf "$stage"
mkdir -p "$stage/$name/bin" "$stage/$name/share/doc/kvq"
quiet "the installation" cmake --install "$build" --component runtime --strip --prefix "$stage/$name"
strip -o "$stage/$name/bin/kvq-compile" "$build/bin/kvq-compile"
cp -r LICENSE CHANGELOG.md docs/linking.md docs/examples "$stage/$name/share/doc/kvq/"

say "check"
compile="$stage/$name/bin/kvq-compile" runtime="$(echo "$stage/$name"/lib*/libkvq.so)"
allowed='^(lib(c|m|dl|pthread|rt|z|zstd)|ld-linux-[a-z0-9-]+)\.so(\.[0-9]+)*$'
extra="$(needed "$compile" | { grep -vE "$allowed" || true; } | tr '\n' ' ')"
[[ -z "$extra" ]] || die "kvq-compile needs ${extra% }; expected libc, libm, libz and libzstd alone"
[[ "$(readelf --dynamic --wide "$compile")" != *PATH* ]] || die "kvq-compile has a search path for libraries"
[[ "$(ldd "$compile")" != *"not found"* ]] || die "kvq-compile: $(ldd "$compile" | grep -m1 'not found')"
quiet "the check of libkvq.so" python3 tools/scripts/check_exports.py --max-bytes 400000 "$runtime"
quiet "compiling an example" env -i PATH="$PATH" HOME=/nonexistent "$compile" docs/examples/int2.mlir \
  --targets sm_90a,cpu -o "$stage/example.kvqlib"
quiet "the test of the installation" env KVQ_BUILD_DIR="$build" bash test/shell/install.sh

say "wheel"
wheel="$(bash tools/scripts/make_wheel.sh "$out")"

say "pack"
archive="$out/$name.tar.gz"
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -cf - "$name" |
  gzip -9n >"$archive"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")

printf '%-12s %8s  needs %s\n' kvq-compile "$(size "$compile")" "$(needed "$compile" | tr '\n' ' ')" \
  libkvq.so "$(size "$(realpath "$runtime")")" "$(needed "$runtime" | tr '\n' ' ')"
echo "both need glibc $(newest_glibc "$compile" "$runtime") or later; kvq-compile calls cc or ld to link CPU kernels"
echo "$wheel: $(size "$wheel")"
echo "$archive: $(size "$archive"), sha256 $(cut -d' ' -f1 "$archive.sha256"), after $((SECONDS / 60)) min $((SECONDS % 60)) s"
