#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# kymo view with traces that a viewer may choke on (tests/hostile_trace.py), one of LTTng and those of two hosts, in a
# real browser; bookmarks and copies.
# No root is needed. Usage: page_hostile.sh [KIND...]. KYMO: the command to test. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
kymo=${KYMO:-$PWD/target/release/kymo}
work=$(mktemp -d)
server=
passed=0 failed=0
more=() # what else is shown
finish() {
	[ -z "$server" ] || { kill -INT "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
	rm -rf "$work"
}
trap finish EXIT

if [ ! -e view/dist/app.js ] || ! command -v chromium >/dev/null; then
	echo "SKIP hostile traces in a browser: it needs the built page and chromium"
	echo "0 passed, 0 failed"
	exit 0
fi

# Shows a trace to a test: its script, what comes before the address, the trace, what comes behind.
show() { # name trace script before after
	local name=$1 trace=$2 script=$3 before=$4 after=$5 address=
	echo "-- $name"
	: >"$work/said" # else the last address may still be there
	"$kymo" view "$trace" ${more[@]+"${more[@]}"} --no-open --port 0 >"$work/said" 2>&1 &
	server=$!
	for _ in $(seq 600); do
		address=$(grep -oE 'http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/' "$work/said" | head -n 1)
		[ -z "$address" ] || break
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	if [ -z "$address" ]; then
		cat "$work/said"
		echo "FAILED $name: kymo view printed no address"
		failed=$((failed + 1))
		server=
		return
	fi
	if [ -n "${changing:-}" ]; then
		# The index is gone, and somebody still writes.
		rm -f "$trace"/.kymo-index
		head -c 5000 "$trace/kernel_7" >>"$trace/kernel_5"
	fi
	# shellcheck disable=SC2086 # what is not there is no argument
	(cd view && node "$script" $before "$address" ${after/PID/$server}) >"$work/log" 2>&1
	sed '$d' "$work/log"
	passed=$((passed + $(grep -c '^ok ' "$work/log"))) failed=$((failed + $(grep -c '^FAILED ' "$work/log")))
	tail -n 1 "$work/log" | grep -qE '^[0-9]+ passed, [0-9]+ failed' || { tail -n 3 "$work/log"; echo "FAILED $name: no end"; failed=$((failed + 1)); }
	kill -INT "$server" 2>/dev/null
	wait "$server" 2>/dev/null
	server=
}

for kind in ${@:-names onecpu onerecord norecord wide threads}; do
	tests/hostile_trace.py "$kind" "$work/$kind" || { failed=$((failed + 1)); continue; }
	show "$kind" "$work/$kind" test/hostile.mjs "$kind" PID
done
if [ $# = 0 ]; then
	# The last packet of a stream is not whole, as in a trace that is being written.
	truncate -s -700 "$work/wide/kernel_3"
	"$kymo" index "$work/wide" >/dev/null 2>&1
	[ -e "$work/wide/.kymo-index" ] || { echo "FAILED there is no index to take away"; failed=$((failed + 1)); }
	changing=1
	show "an index that vanishes, a trace that is being written" "$work/wide" test/hostile.mjs wide PID
	changing=
	cp -r tests/traces/lttng-kernel "$work/lttng-kernel"
	show "a kernel trace of LTTng" "$work/lttng-kernel" test/lttng.mjs "" ""
	for host in a-host1 b-host2; do
		cp -r tests/traces/lttng-kernel "$work/$host"
		# Another machine: its name, and the boot that its clock is of.
		sed -i "s/kymo-vm/$host/; s/a7718e4b-235f-4c03/0000006${host##*host}-235f-4c03/" "$work/$host/metadata"
	done
	more=("$work/b-host2" --shift b-host2=+20ms)
	show "two hosts" "$work/a-host1" test/hosts.mjs "" ""
	more=()
	mkdir "$work/files"
	tests/hostile_trace.py onecpu "$work/kept" --cpus 2 --threads 20
	show "bookmarks and copies" "$work/kept" test/keep.mjs "" "$work/files"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
