#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs every suite and adds up. Called by `make test` (KYMO, CARGO set; KYMO_STRESS=1 for the long variants).
# Suites that do not measure time run beside each other and beside the compiling of the tests; their outputs are shown
# one after the other. All skips are listed at the end. The last line counts: N passed, N failed, N skipped.
set -u
cd "$(dirname "$0")/.."

passed=0 failed=0 skipped=0
work=$(mktemp -d)
skips=$work/skips
# Suites that run beside others: names, and their processes.
names=() workers=()
trap '[ ${#workers[@]} = 0 ] || kill "${workers[@]}" 2>/dev/null; rm -rf "$work"' EXIT
suites_failed=

# Adds the counts of lines such as "7 passed, 0 failed, 1 skipped" and "test result: ok. 7 passed; 0 failed; 1 ignored"
# in a log, and notes what was skipped: "SKIP NAME: REASON", which no suite counts itself; "skipped NAME: REASON"; and
# tests of Rust that are ignored.
add_up() {
	local log=$1 p f s
	p=$(grep -oE '[0-9]+ passed' "$log" | awk '{n += $1} END {print n + 0}')
	f=$(grep -oE '[0-9]+ failed' "$log" | awk '{n += $1} END {print n + 0}')
	s=$(grep -oE '[0-9]+ (skipped|ignored)' "$log" | awk '{n += $1} END {print n + 0}')
	s=$((s + $(grep -cE '^SKIP' "$log")))
	sed -nE -e 's/^SKIP(PED)?:? +//p' -e 's/^skipped:? +([^:]*:.*)/\1/p' -e 's/^test (.*) \.\.\. ignored, /\1: /p' \
		-e 's/^test (.*) \.\.\. ignored$/\1: ignored, without a reason/p' "$log" >>"$skips"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	[ $((p + f + s)) -gt 0 ]
}

# User and system time of the processes that this shell has waited for, in seconds, into `used`.
measure() {
	times >"$1"
	used=$(awk 'NR == 2 {for (i = 1; i <= 2; i++) {split($i, t, /[ms]/); n += t[1] * 60 + t[2]}} END {printf "%d", n}' "$1")
}

# What a suite came to: name, log, status, seconds, seconds of user and system time.
conclude() {
	local name=$1 log=$2 status=$3 seconds=$4
	if ! add_up "$log"; then
		echo "$name ran no test"
		status=1
	fi
	if [ "$status" != 0 ]; then
		suites_failed="$suites_failed '$name'"
		[ "$(grep -cE '(^|[^0-9])[1-9][0-9]* failed' "$log")" -gt 0 ] || failed=$((failed + 1))
	fi
	printf -- '-- %s: %d s (user and system time: %d s)\n' "$name" "$seconds" "$5"
}

suite() {
	local name=$1 start=$SECONDS status before
	shift
	printf '== %s\n' "$name"
	measure "$work/times"
	before=$used
	"$@" 2>&1 | tee "$work/log"
	status=${PIPESTATUS[0]}
	measure "$work/times"
	conclude "$name" "$work/log" "$status" $((SECONDS - start)) $((used - before))
}

# A suite that goes on while others run.
beside() {
	local name=$1 log=$work/${#names[@]}
	shift
	(
		start=$SECONDS
		# A shell lets what runs in the background ignore Ctrl-C, which tests send.
		env --default-signal=INT,QUIT "$@" >"$log" 2>&1 </dev/null
		status=$?
		measure "$log.times"
		echo "$status $((SECONDS - start)) $used" >"$log.end"
	) &
	names+=("$name") workers+=($!)
}

# Waits for the suites that run beside, and shows what they said.
gather() {
	local number status seconds
	for number in "${!names[@]}"; do
		printf '== %s\n' "${names[number]}"
		wait "${workers[number]}"
		cat "$work/$number"
		read -r status seconds used <"$work/$number.end" || { status=1 seconds=0 used=0; }
		conclude "${names[number]}" "$work/$number" "$status" "$seconds" "$used"
	done
	names=() workers=()
}

# The simulation of sessions goes on for longer, and elsewhere each time; it prints where.
if [ -n "${KYMO_STRESS:-}" ]; then
	export KYMO_SIMULATED_S=${KYMO_SIMULATED_S:-20000000} KYMO_FIRST_SEED=${KYMO_FIRST_SEED:-$(date +%s)}
fi

# A babeltrace2 that reads CTF 2, in a cache: the one foreign check of it.
if [ -z "${KYMO_BT21_ROOT:-}" ] && [ "$(id -u)" = 0 ]; then
	KYMO_BT21_ROOT=$(scripts/babeltrace.sh) && export KYMO_BT21_ROOT
fi

# Formats of the kernel's own events are read where tracefs is mounted: in a namespace of its own, where it is not.
with_tracefs() {
	if [ -e /sys/kernel/tracing/events ] || [ "$(id -u)" != 0 ]; then
		"$@"
	else
		unshare --mount sh -c 'mount -t tracefs nodev /sys/kernel/tracing; exec "$@"' sh "$@"
	fi
}

# Those that passed are not listed, but those that are ignored are.
quietly() {
	set -o pipefail
	"$@" 2>&1 | grep -vE '^test .* \.\.\. ok$|has been running for over 60 seconds$|^$'
}

host_crates() {
	quietly with_tracefs "$CARGO" test --release --no-fail-fast --workspace --exclude kymo-tests --exclude kymotrace
}

# Each test that runs alone has a thread in which it waits until no other test is left (tests/src/turn.rs).
whole_pipe() {
	# Threads that come one after the other share their memory: else each of the 96 keeps what it had for a trace.
	local status
	export MALLOC_ARENA_MAX=2 KYMO_TEST_TIMES=${KYMO_TEST_TIMES:-$work/turns}
	# Not by -p kymo-tests: libraries would have other features than for the rest, and be compiled again.
	"$CARGO" test --release --no-fail-fast --workspace --exclude kymotrace --test pipe -- --nocapture --test-threads 96 2>&1 |
		grep -v 'has been running for over 60 seconds$'
	status=${PIPESTATUS[0]}
	echo 'The longest tests, in seconds:'
	sort -rn "$KYMO_TEST_TIMES" | head -n 20
	awk '{seconds[$2] += $1; tests[$2]++} END {for (how in seconds)
		printf "%d tests %s%s: %d s together\n", tests[how], how, how == "beside" ? " others" : "", seconds[how]}' "$KYMO_TEST_TIMES"
	return "$status"
}

suite 'spec and code together' scripts/lint.sh --quick
suite 'record path' emit/tests/run.sh
beside 'POSIX Trace' emit/posix/tests/run.sh
# It fetches the kernels in which a part of the whole pipe runs, too.
beside 'virtual machines' lab/vmparts/test.sh
beside 'preload helpers' tests/preload/run.sh
beside 'model of the ring' nice -n 19 spec/models/run.sh
# Beside them the tests are compiled, with what time they leave. If that fails, it fails again below.
nice -n 19 "$CARGO" test -q --release --no-run --workspace --exclude kymotrace
gather
suite 'host crates' host_crates
[ -z "${KYMO_STRESS:-}" ] || suite 'defects that the simulation finds' scripts/defects.sh
suite 'whole pipe' whole_pipe
# Its packages (1 GB, of PyPI) take longer than the usual run can give them. Where they are there already, that has a
# small Spark cluster, with a wheel that is not optimized.
if [ -n "${KYMO_STRESS:-}" ]; then
	suite 'Python package' tests/python.sh
else
	suite 'small Spark cluster' env KYMO_PYTHON_SMALL=1 KYMO_PYTHON_PROFILE=demo tests/python.sh
fi
[ -z "${KYMO_STRESS:-}" ] || suite 'a lake in an S3 server' tests/s3.sh
suite 'page of kymo view' tests/page.sh
suite 'page with hostile traces' tests/page_hostile.sh
suite 'page over a lake' tests/page_lake.sh
suite 'Trace Server Protocol' tests/tsp.sh
suite 'examples and installation' tests/install.sh
suite 'commands of the README' tests/readme.py
[ -z "${KYMO_STRESS:-}" ] || suite 'an empty Debian' tests/fresh_root.sh

[ -z "$suites_failed" ] || echo "failed:$suites_failed"
if [ -s "$skips" ]; then
	echo "skipped:"
	sed 's/^/  /' "$skips"
fi
# Each skip that is counted is listed: else a suite words it in a way that nothing here knows.
if [ "$(grep -c '' "$skips")" != $skipped ]; then
	echo "FAILED: $skipped skips were counted, and $(grep -c '' "$skips") are listed"
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ -z "$suites_failed" ]
