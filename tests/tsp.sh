#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The Trace Server Protocol of kymo view --tsp, asked by the client library of the trace viewers of VS Code and Theia: on
# a trace that is recorded (root and tracefs), and on one that is made, with losses and events of the user.
# KYMO: the command to test. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
kymo=${KYMO:-$PWD/target/release/kymo}
work=$(mktemp -d)
server=
passed=0 failed=0
finish() {
	[ -z "$server" ] || { kill -INT "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
	rm -rf "$work"
}
trap finish EXIT

skip() {
	echo "SKIP the Trace Server Protocol: $1"
	echo "0 passed, 0 failed"
	exit 0
}

command -v node >/dev/null && command -v npm >/dev/null || skip "it needs node 18 and npm"
if [ ! -e tests/tsp/node_modules/.package-lock.json ]; then
	(cd tests/tsp && npm ci --ignore-scripts --no-audit --no-fund) >"$work/npm" 2>&1 || { tail -n 5 "$work/npm"; skip "npm could not get the client library"; }
fi

# Starts a server, and puts its address into `address`.
start() {
	"$kymo" view "$@" --no-open --port 0 >"$work/said" 2>&1 &
	server=$!
	address=
	for _ in $(seq 600); do
		address=$(grep -oE 'http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/' "$work/said" | head -n 1)
		[ -z "$address" ] || return 0
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/said"
	echo "FAILED kymo view printed no address"
	failed=$((failed + 1))
	return 1
}

stop() {
	kill -INT "$server"
	wait "$server" || { echo "FAILED kymo view ended with $? after Ctrl-C"; failed=$((failed + 1)); }
	server=
}

# Checks one trace through the client.
check() { # name directory
	echo "-- $1"
	start "$2" --tsp || return
	node tests/tsp/check.mjs "$address" "$2" >"$work/log" 2>&1
	sed '$d' "$work/log"
	passed=$((passed + $(grep -c '^ok ' "$work/log"))) failed=$((failed + $(grep -c '^FAILED ' "$work/log")))
	tail -n 1 "$work/log" | grep -qE '^[0-9]+ passed, [0-9]+ failed' || { tail -n 3 "$work/log"; failed=$((failed + 1)); }
	stop
}

tests/hostile_trace.py wide "$work/wide" --cpus 4 --threads 40 --records 20000 || { echo "0 passed, 1 failed"; exit 1; }
check "a trace that is made, with losses" "$work/wide"
"$kymo" index "$work/wide" >/dev/null 2>&1 || { echo "FAILED kymo index"; failed=$((failed + 1)); }
check "the same with an index" "$work/wide"

if [ "$(id -u)" = 0 ] && [ -e /sys/kernel/tracing/instances ]; then
	if "$kymo" record -q -o "$work/t" -k 'sched:*' -k 'irq:*' -k syscalls -- sh -c 'for i in 1 2 3; do seq 20000 | sort | tail -n 1; sleep 0.05; done' \
		>"$work/record" 2>&1; then
		check "a recorded trace" "$work/t"
	else
		cat "$work/record"
		failed=$((failed + 1))
	fi
else
	echo "SKIP the Trace Server Protocol on a recorded trace: it needs root and tracefs"
fi

# Without --tsp there is nothing.
if start "$work/wide"; then
	status=$(node -e 'fetch(process.argv[1]).then((response) => console.log(response.status))' "${address}tsp/api/health")
	if [ "$status" = 404 ]; then passed=$((passed + 1)); else echo "FAILED without --tsp the status is $status"; failed=$((failed + 1)); fi
	stop
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
