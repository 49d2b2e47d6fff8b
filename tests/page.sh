#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The page of kymo view: its types, its unit tests, and a real browser that clicks, drags and types through a trace
# that is recorded for it. Usage: page.sh [SCREENSHOTS]. KYMO: the command to test. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
kymo=${KYMO:-$PWD/target/release/kymo}
work=$(mktemp -d)
server=
finish() {
	[ -z "$server" ] || { kill -INT "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
	rm -rf "$work"
}
trap finish EXIT

scripts/page.sh --check || exit 1
if [ ! -e view/dist/app.js ]; then
	echo "0 passed, 0 failed"
	exit 0
fi
if [ "$(id -u)" != 0 ] || [ ! -e /sys/kernel/tracing/instances ] || ! command -v chromium >/dev/null; then
	echo "SKIP the page in a browser: it needs root, tracefs and chromium"
	exit 0
fi
# Threads that wait for one another, and for the disk. The shell tells its number: other shells of the machine have its name.
"$kymo" record -q -o "$work/t" -k 'sched:*' -k 'irq:*' -k syscalls -- sh -c 'echo "shell $$"; for i in 1 2 3; do seq 20000 | sort | tail -n 1; sleep 0.1; done' \
	>"$work/record" 2>&1 || { cat "$work/record"; echo "0 passed, 1 failed"; exit 1; }
# Results of another tool, which are imported on the way.
results=host/kymo-lab/tests/import
"$kymo" view "$work/t" $results/cyclictest-2.4-histogram.txt $results/cyclictest-2.4.json --no-open --port 0 >"$work/said" 2>&1 &
server=$!
for _ in $(seq 600); do
	address=$(grep -oE 'http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/' "$work/said" | head -n 1)
	[ -z "$address" ] || break
	kill -0 "$server" 2>/dev/null || break
	sleep 0.1
done
if [ -z "$address" ]; then
	cat "$work/said"
	echo "FAILED kymo view printed no address"
	echo "0 passed, 1 failed"
	exit 1
fi
shell=$(sed -n 's/^shell //p' "$work/record")
(cd view && node test/browser.mjs "$address" "$shell" "${1:-}")
status=$?
if [ $status = 0 ]; then
	(cd view && node test/parts.mjs "$address" "$shell" "${1:-}")
	status=$?
fi
if [ $status = 0 ]; then
	(cd view && node test/more.mjs "$kymo" "$work/more" "$work/t" "${1:-}")
	status=$?
fi
kill -INT "$server"
wait "$server"
ended=$?
server=
if [ $ended != 0 ]; then
	echo "FAILED kymo view ended with $ended after Ctrl-C"
	echo "0 passed, 1 failed"
	status=1
fi
exit $status
