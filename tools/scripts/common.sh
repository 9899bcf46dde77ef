# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sourced by tools/demo.sh, tools/test.sh and the scripts they call.

# On Debian the versioned tools of LLVM live here; LLVM's own apt repository uses the same prefix.
llvm_bin=/usr/lib/llvm-22/bin

# Where output goes to a person or to a log, colour helps only the former.
if [[ -t 1 && -z "${NO_COLOR:-}" ]]; then
  bold=$'\e[1m' red=$'\e[31m' plain=$'\e[0m'
else
  bold='' red='' plain=''
fi

say() { echo "${bold}== $*${plain}"; }

die() {
  echo "${red}error:${plain} $*" >&2
  exit 1
}

# need TOOL... : stops with one line when a tool is missing.
need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null ||
      die "$tool not found; tools/scripts/setup_debian.sh installs it on Debian 12"
  done
}

# Prints a python3 that can make virtual environments (a pyenv python may lack the module).
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

# newest_glibc FILE... : the newest version of glibc that one of the files asks for, "2.35".
newest_glibc() { readelf --version-info --wide "$@" | grep -oP 'GLIBC_\K[0-9]+(\.[0-9]+)+' | sort -uV | tail -n1; }

# configure PRESET : quiet when it works, the end of CMake's output when not. CMake runs again by itself when a
# CMakeLists.txt changes, so an existing folder is configured anew only to switch presets.
configure() {
  local preset="$1" log
  shift
  log="$(mktemp)"
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    { sed -n '/^CMake Error/,$p' "$log" | head -n 30; } >&2
    rm -f "$log"
    die "cmake --preset $preset failed"
  fi
  rm -f "$log"
}
