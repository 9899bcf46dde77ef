#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs a command that must end with a status and print one line.
# usage: status.sh STATUS COMMAND...
expected="$1"
shift
output="$("$@" 2>&1)"
status=$?
printf '%s\n' "$output"
((status == expected)) || echo "expected exit status $expected, got $status"
((status == expected && $(wc -l <<<"$output") == 1))
