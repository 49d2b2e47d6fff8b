#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs every suite and adds up. Called by `make test` (KYMO, CARGO set; KYMO_STRESS=1 for the long variants).
# The last line counts: N passed, N failed, N skipped.
set -u
cd "$(dirname "$0")/.."

passed=0 failed=0 skipped=0
log=$(mktemp)
skips=$(mktemp)
trap 'rm -f "$log" "$skips"' EXIT
suites_failed=

# Adds the counts of lines such as "7 passed, 0 failed, 1 skipped" and "test result: ok. 7 passed; 0 failed; 1 ignored".
add_up() {
	local p f s
	p=$(grep -oE '[0-9]+ passed' "$log" | awk '{n += $1} END {print n + 0}')
	f=$(grep -oE '[0-9]+ failed' "$log" | awk '{n += $1} END {print n + 0}')
	s=$(grep -oE '[0-9]+ (skipped|ignored)' "$log" | awk '{n += $1} END {print n + 0}')
	s=$((s + $(grep -cE '^SKIP' "$log")))
	# Those that a suite counts itself begin otherwise.
	grep -E '^(SKIP|skipped: )' "$log" >>"$skips"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	[ $((p + f + s)) -gt 0 ]
}

suite() {
	local name=$1 start=$SECONDS status
	shift
	printf '== %s\n' "$name"
	"$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	if ! add_up; then
		echo "$name ran no test"
		status=1
	fi
	if [ "$status" != 0 ]; then
		suites_failed="$suites_failed '$name'"
		[ "$(grep -cE '(^|[^0-9])[1-9][0-9]* failed' "$log")" -gt 0 ] || failed=$((failed + 1))
	fi
	printf -- '-- %s: %d s\n' "$name" $((SECONDS - start))
}

# The simulation of sessions goes on for longer, and elsewhere each time; it prints where.
if [ -n "${KYMO_STRESS:-}" ]; then
	export KYMO_SIMULATED_S=${KYMO_SIMULATED_S:-20000000} KYMO_FIRST_SEED=${KYMO_FIRST_SEED:-$(date +%s)}
fi

# A babeltrace2 that reads CTF 2, in a cache: the one foreign check of it.
if [ -z "${KYMO_BT21_ROOT:-}" ] && [ "$(id -u)" = 0 ]; then
	KYMO_BT21_ROOT=$(scripts/babeltrace.sh) && export KYMO_BT21_ROOT
fi

suite 'spec and code together' scripts/tidy.sh
suite 'record path' emit/tests/run.sh
suite 'POSIX Trace' emit/posix/tests/run.sh
suite 'model of the ring' spec/models/run.sh
# Formats of the kernel's own events are read where tracefs is mounted: in a namespace of its own, where it is not.
with_tracefs() {
	if [ -e /sys/kernel/tracing/events ] || [ "$(id -u)" != 0 ]; then
		"$@"
	else
		unshare --mount sh -c 'mount -t tracefs nodev /sys/kernel/tracing; exec "$@"' sh "$@"
	fi
}
suite 'host crates' with_tracefs "$CARGO" test -q --release --no-fail-fast --workspace --exclude kymo-tests
[ -z "${KYMO_STRESS:-}" ] || suite 'defects that the simulation finds' scripts/defects.sh
# It fetches the kernels in which a part of the whole pipe runs, too.
suite 'virtual machines' lab/vmparts/test.sh
suite 'whole pipe' "$CARGO" test --release --no-fail-fast -p kymo-tests -- --nocapture
suite 'preload helpers' tests/preload/run.sh
suite 'examples and installation' tests/install.sh
suite 'commands of the README' tests/readme.py
[ -z "${KYMO_STRESS:-}" ] || suite 'an empty Debian' tests/fresh_root.sh

[ -z "$suites_failed" ] || echo "failed:$suites_failed"
if [ -s "$skips" ]; then
	echo "skipped:"
	sed -E 's/^(SKIP(PED)?|skipped:) /  /' "$skips"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ -z "$suites_failed" ]
