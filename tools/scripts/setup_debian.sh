#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the Debian packages that kvq needs. Asks dpkg first: a machine that has them all is left alone.
# usage: tools/scripts/setup_debian.sh [build|test]
#   build  what compiling the tools needs        test  that, and what the checks and tests need (default)
set -euo pipefail

build_packages=(g++ cmake ninja-build git pkg-config ccache python3
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools
  libzstd-dev libeigen3-dev libabsl-dev nlohmann-json3-dev)
test_packages=(python3-venv clang-format-22 clang-tidy-22
  libgtest-dev libgmock-dev libbenchmark-dev)

die() {
  echo "kvq setup: $*" >&2
  exit 1
}

case "${1:-test}" in
build) wanted=("${build_packages[@]}") ;;
test) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
*) die "expected 'build' or 'test', got '$1'" ;;
esac

command -v dpkg-query >/dev/null ||
  die "this system has no dpkg: install by hand what ${BASH_SOURCE[0]##*/} lists, then pass --no-install"

# Prints the wanted packages that dpkg does not hold as installed.
missing_packages() {
  local package
  for package in "${wanted[@]}"; do
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] ||
      echo "$package"
  done
}

mapfile -t missing < <(missing_packages)
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "needs root or sudo to install: ${missing[*]}"
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null; }

echo "installing ${#missing[@]} packages: ${missing[*]}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
apt update >"$log" 2>&1 || die "apt-get update failed: $(grep -m1 -E '^(E|W):' "$log" || tail -n1 "$log")"

for package in "${missing[@]}"; do
  candidate="$(LC_ALL=C apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')"
  [[ -n "$candidate" && "$candidate" != "(none)" ]] && continue
  [[ "$package" == *-22* ]] && die "apt has no $package: LLVM 22 comes from the security suite of Debian 12" \
    "(bookworm-security), or on other systems such as Ubuntu 24.04 from LLVM's own apt repository:" \
    "download llvm.sh from apt.llvm.org, run 'bash llvm.sh 22', and run this again"
  die "apt has no $package: kvq is developed on Debian 12; install the package of your system that provides it"
done

apt install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
  die "apt-get install failed: $(grep -m1 -E '^(E|dpkg: error)' "$log" || tail -n1 "$log")"
mapfile -t missing < <(missing_packages)
((${#missing[@]} == 0)) || die "still missing after the installation: ${missing[*]}"
