#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds kvq and runs every check and test that needs no GPU. See --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
source tools/scripts/common.sh
exec </dev/null

usage() {
  cat <<'TEXT'
usage: tools/test.sh [options]
Installs what is missing (Debian 12), builds everything into build/ and runs, in this order:
  checks     layering, clang-format, licence line, file sizes, generated documentation
  unit       the GoogleTest programs        lit      FileCheck tests of the compiler and its tools
             with every PTX assembled by ptxas, which is found or installed (tools/scripts/find_ptxas.sh)
  python     unittest of the scripts        shell    test/shell/*.sh
  asan       the programs of the runtime and the calibrator under AddressSanitizer and UBSan
  tidy       clang-tidy on the runtime, the calibrator and the files that differ from origin/main
Options:
  --no-install   do not look for missing packages
  --jobs N       parallel jobs (default: number of processors)
  --only SUITE   one of the suites above; may be repeated
  --keep-going   run the tests even if the build fails
Logs lie in build/test-logs/. The last line is `N passed, M failed, K skipped`; the status is 0 when M is 0.
TEXT
}

jobs="$(nproc)" install=1 keep_going=0 only=()
while (($#)); do
  case "$1" in
  --help | -h) usage && exit 0 ;;
  --no-install) install=0 ;;
  --keep-going) keep_going=1 ;;
  --jobs) jobs="${2:?--jobs needs a number}" && shift ;;
  --only) only+=("${2:?--only needs the name of a suite}") && shift ;;
  *) usage >&2 && die "unknown option '$1'" ;;
  esac
  shift
done
for suite in "${only[@]}"; do
  [[ " checks unit lit python shell asan tidy " == *" $suite "* ]] || die "no suite '$suite', see --help"
done
wanted() { ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $1 "* ]]; }

logs="$PWD/build/test-logs"
passed=0 failed=0 skipped=0 failures=()

# finish NAME PASSED FAILED SKIPPED STARTED : adds to the totals and prints one line.
finish() {
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
  local text="$2 passed"
  (($3)) && text+=", ${red}$3 failed${plain}" && failures+=("$1")
  (($4)) && text+=", $4 skipped"
  printf '%-28s %s (%d s)\n' "$1" "$text" $((SECONDS - $5))
}

# run NAME COMMAND... : a test whose exit status is its result; the end of its output is shown when it fails.
run() {
  local name="$1" started=$SECONDS log="$logs/${1//\//-}.log"
  shift
  if "$@" >"$log" 2>&1; then
    finish "$name" 1 0 0 "$started"
  else
    tail -n 40 "$log" | sed 's/^/    /'
    finish "$name" 0 1 0 "$started"
  fi
}

# counted NAME KIND REPORT STATUS STARTED : adds the cases of a runner's report. A runner that failed without a failed
# case in its report (a crash, say) counts as one failure.
counted() {
  local counts
  if ! counts="$(python3 tools/scripts/test_counts.py "$2" "$3" 2>&1)"; then
    echo "    $counts"
    counts="0 1 0"
  fi
  read -r -a counts <<<"$counts"
  (($4 != 0 && counts[1] == 0)) && counts[1]=1
  finish "$1" "${counts[@]}" "$5"
}

# programs BUILD PREFIX : every test that CTest knows in a build folder.
programs() {
  local kind name program status started report list count=0
  list="$(python3 tools/scripts/list_ctest.py "$1")" || list=""
  while IFS=$'\t' read -r kind name program; do
    [[ -n "$name" ]] || continue
    count=$((count + 1)) started=$SECONDS report="$logs/${2//\//-}$name.json"
    if [[ "$kind" != gtest ]]; then
      run "$2$name" ctest --test-dir "$1" --output-on-failure -R "^$name\$"
      continue
    fi
    rm -f "$report"
    timeout 600 "$program" --gtest_output="json:$report" >"$report.log" 2>&1
    status=$?
    ((status)) && tail -n 40 "$report.log" | sed 's/^/    /'
    counted "$2$name" gtest "$report" "$status" "$started"
  done <<<"$list"
  ((count)) || { echo "    CTest knows no test in $1" && finish "${2}programs" 0 1 0 "$SECONDS"; }
}

# build PRESET : configures and builds with ninja's progress; a failure counts as one.
build() {
  local started=$SECONDS
  say "build ($1, $jobs jobs)"
  if (configure "$1") && cmake --build --preset "$1" -j "$jobs"; then
    return 0
  fi
  finish "build-$1" 0 1 0 "$started"
  return 1
}

run_checks() {
  say "checks"
  run layering python3 tools/scripts/check_layering.py
  run format bash tools/scripts/check_format.sh
  run licence-line python3 tools/scripts/check_spdx.py
  run file-sizes python3 tools/scripts/check_sizes.py
  grep -h '^note:' "$logs/file-sizes.log" 2>/dev/null | sed 's/^/    /'
  run docs-generated bash tools/scripts/generate_docs.sh --check
}

# Tests that assemble PTX fail without ptxas, and so does this.
find_ptxas() {
  local started=$SECONDS
  if KVQ_PTXAS="$(bash tools/scripts/find_ptxas.sh)"; then
    export KVQ_PTXAS
  else
    unset KVQ_PTXAS
    finish ptxas 0 1 0 "$started"
  fi
}

run_lit() {
  say "lit"
  local started=$SECONDS report="$logs/lit.xml" status
  rm -f "$report"
  LIT_OPTS="--xunit-xml-output $report -v" cmake --build build --target check-kvq-lit -j "$jobs" \
    >"$logs/lit.log" 2>&1
  status=$?
  ((status)) && tail -n 60 "$logs/lit.log" | sed 's/^/    /'
  counted lit lit "$report" "$status" "$started"
}

run_python() {
  say "python"
  local started=$SECONDS python log="$logs/python.log" status
  if ! python="$(bash tools/scripts/make_venv.sh)"; then
    finish python 0 1 0 "$started"
    return
  fi
  "$python" -W error::SyntaxWarning -m unittest discover -v -s test/python -p 'test_*.py' >"$log" 2>&1
  status=$?
  ((status)) && tail -n 60 "$log" | sed 's/^/    /'
  counted python unittest "$log" "$status" "$started"
}

run_shell() {
  say "shell"
  local script
  for script in test/shell/*.sh; do
    run "${script##*/}" bash "$script"
  done
}

need bash git
((install)) && { bash tools/scripts/setup_debian.sh test || exit 1; }
need cmake ninja python3 "$llvm_bin/clang-format"
mkdir -p "$logs"

wanted checks && run_checks
built=1
if wanted unit || wanted lit || wanted python || wanted shell || wanted tidy; then
  build dev || built=0
fi
if ((built || keep_going)); then
  { wanted unit || wanted lit; } && find_ptxas
  wanted unit && say "unit" && programs build ""
  wanted lit && run_lit
  wanted python && run_python
  wanted shell && run_shell
fi
if wanted asan && build asan; then
  say "asan"
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 programs build/asan asan/
fi
wanted tidy && say "tidy" && run clang-tidy bash tools/scripts/run_clang_tidy.sh --jobs "$jobs"

say "summary after $((SECONDS / 60)) min $((SECONDS % 60)) s"
((${#failures[@]})) && echo "${red}failed:${plain} ${failures[*]}   (logs: build/test-logs/)"
python3 tools/scripts/count_unverified.py
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
