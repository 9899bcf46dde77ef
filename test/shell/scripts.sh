#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The scripts must explain themselves, refuse what they do not know, and work from any directory.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failed=0

# expect STATUS TEXT COMMAND... : the command ends with the status (0 or "error") and prints the text.
expect() {
  local want="$1" text="$2" output status
  shift 2
  output="$("$@" 2>&1 </dev/null)"
  status=$?
  [[ "$want" == error ]] && ((status)) && want=$status
  if [[ "$status" != "$want" || "$output" != *"$text"* ]]; then
    printf 'FAILED: %s\n  expected status %s and "%s", got status %s and:\n%s\n' "$*" "$want" "$text" "$status" "$output"
    failed=1
  fi
}

# with_tools TOOL... : a folder for PATH that holds only these programs.
with_tools() {
  local tool
  rm -rf "$scratch/bin" && mkdir "$scratch/bin"
  for tool in bash env cat sed grep dirname head tail mktemp rm "$@"; do
    ln -s "$(command -v "$tool")" "$scratch/bin/$tool"
  done
}

expect 0 "usage: tools/test.sh" bash "$root/tools/test.sh" --help
expect 0 "usage: tools/demo.sh" bash "$root/tools/demo.sh" --help
expect error "unknown option '--fast'" bash "$root/tools/test.sh" --fast
expect error "unknown option '--fast'" bash "$root/tools/demo.sh" --fast
expect error "no suite 'units'" bash "$root/tools/test.sh" --only units
expect error "expected 'build' or 'test', got 'all'" bash "$root/tools/scripts/setup_debian.sh" all
expect 0 "usage: tools/scripts/fuzz.sh" bash "$root/tools/scripts/fuzz.sh" --help
expect error "no target 'nothing'" bash "$root/tools/scripts/fuzz.sh" --target nothing
expect 0 "usage: tools/release.sh" bash "$root/tools/release.sh" --help
expect error "unknown option '--fast'" bash "$root/tools/release.sh" --fast
expect 0 "Mutation runner" python3 "$root/tools/scripts/mutate.py" --help

# A missing tool is one readable line.
with_tools nproc
expect error "error: cmake not found; tools/scripts/setup_debian.sh installs it" \
  env PATH="$scratch/bin" bash "$root/tools/demo.sh" --no-install
expect error "error: cmake not found; tools/scripts/setup_debian.sh installs it" \
  env PATH="$scratch/bin" bash "$root/tools/release.sh" --no-install
expect error "kvq setup: this system has no dpkg" \
  env PATH="$scratch/bin" bash "$root/tools/scripts/setup_debian.sh" build

# An apt without LLVM 22 is told apart from one without network. The stand-ins answer as the real programs do.
with_tools
stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$scratch/bin/$1" && chmod +x "$scratch/bin/$1"; }
stand_in dpkg-query 'exit 1'
stand_in apt-get 'exit 0'
stand_in apt-cache 'if [[ "$2" == *-22* ]]; then echo "  Candidate: (none)"; else echo "  Candidate: 1.0"; fi'
stand_in sudo 'exec "$@"'
expect error "apt has no libmlir-22-dev: LLVM 22 comes from the security suite of Debian 12" \
  env PATH="$scratch/bin" bash "$root/tools/scripts/setup_debian.sh" build
stand_in apt-get 'echo "E: Could not resolve the archive"; exit 100'
expect error "kvq setup: apt-get update failed: E: Could not resolve the archive" \
  env PATH="$scratch/bin" bash "$root/tools/scripts/setup_debian.sh" build

# A machine that has everything calls apt not at all.
stand_in dpkg-query 'printf installed'
stand_in apt-get 'echo "apt was called" >&2; exit 1'
expect 0 "" env PATH="$scratch/bin" bash "$root/tools/scripts/setup_debian.sh" test

exit "$failed"
