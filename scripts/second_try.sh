#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the failed tests of a log of `cargo test --no-fail-fast -p kymo-tests` once more, each alone:
#     second_try.sh LOG      (CARGO and KYMO set)
# Tests of the whole pipe race real processes on a machine that does other work too. Up to two that failed get a second
# try; one that passes is named UNSTEADY. More of them, or a suite that ended without naming what failed, is a failure.
# Exits 0 when everything passed at the second try; what it prints is not counted by test.sh.
set -u
log=$1
most=2

# The names that libtest lists at its end.
failed_tests() {
	awk '
		/^failures:$/ { listing = 1 }
		/^test result:/ { listing = 0 }
		listing && /^    [a-z_0-9:]+$/ { print $1 }' "$log" | sort -u
}

tests=$(failed_tests)
count=$(printf '%s' "$tests" | grep -c .)
if [ "$count" = 0 ] || [ "$count" -gt "$most" ]; then
	echo "no second try: $count tests failed by name"
	exit 1
fi
passed=0 failed=0
while read -r test; do
	said=$("$CARGO" test --release -q -p kymo-tests --test pipe -- --exact "$test" --nocapture </dev/null 2>&1)
	printf '%s\n' "$said"
	if grep -q '^test result: ok. 1 passed' <<<"$said"; then
		passed=$((passed + 1))
		echo "UNSTEADY $test: failed above, passed alone at its second try"
	else
		failed=$((failed + 1))
	fi
done <<<"$tests"
echo "$passed of $count at the second try"
[ "$failed" = 0 ]
