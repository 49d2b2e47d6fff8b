#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# kymo view --lake in a real browser: a lake of several hosts, labels and days whose numbers are known, with names that a
# page might take for markup. No root is needed. Usage: page_lake.sh [SCREENSHOTS]. KYMO: the command to test.
# Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
kymo=${KYMO:-$PWD/target/release/kymo}
work=$(mktemp -d)
server=
finish() {
	[ -z "$server" ] || { kill -TERM "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
	rm -rf "$work"
}
trap finish EXIT

if [ ! -e view/dist/lake.js ] || ! command -v chromium >/dev/null; then
	echo "SKIP a lake in a browser: it needs the built page and chromium"
	echo "0 passed, 0 failed"
	exit 0
fi
if ! "$kymo" lake list /nothing-there 2>&1 | grep -q 'no such directory'; then
	echo "SKIP a lake in a browser: it needs kymo-sql (make sql)"
	echo "0 passed, 0 failed"
	exit 0
fi

odd=$'imx8 "q" \'s\' <img src=x onerror=window.hacked=1>\n\xe2\x80\xae'
add() { # directory label...
	local dir=$1
	shift
	local labels=()
	for label in "$@"; do labels+=(--label "$label"); done
	"$kymo" lake add "$dir" --to "$work/lake" "${labels[@]}" >>"$work/added" 2>&1
}
make_lake() {
	# The first host: 12 days alike. The second: a step of 80 % on the seventh day, a hole, a day with losses.
	tests/lake_traces.py "$work/one" --host rt-1 --release 6.12.1 --first 2026-11-10 --seed 1 --waits 50,52,49,51,50,53,48,50,51,49,52,50
	tests/lake_traces.py "$work/two" --host '<b>rt & "2"</b>' --release 6.12.1-rt --first 2026-11-10 --seed 2 --lost 2:5000 \
		--waits 30,31,30,29,31,30,54,55,0,54,53,55
	# A trace that is taken away after it was added: the longest wait of all is in it.
	tests/lake_traces.py "$work/gone" --host rt-3 --first 2026-11-12 --seed 3 --waits 900
	mkdir "$work/bad" && echo none >"$work/bad/metadata"
	add "$work/one" kernel=6.12 "board=$odd" && add "$work/two" kernel=6.12-rt && add "$work/gone" kernel=6.12
	# It cannot be opened, and is in the lake as a loss.
	add "$work/bad" kernel=6.1
	[ $? = 3 ] && mv "$work/gone" "$work/elsewhere"
}
if ! make_lake; then
	cat "$work/added"
	echo "FAILED the lake could not be made"
	echo "0 passed, 1 failed"
	exit 1
fi
"$kymo" view --lake "$work/lake" --no-open --port 0 >"$work/said" 2>&1 &
server=$!
for _ in $(seq 600); do
	address=$(grep -oE 'http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/' "$work/said" | head -n 1)
	[ -z "$address" ] || break
	kill -0 "$server" 2>/dev/null || break
	sleep 0.1
done
if [ -z "$address" ]; then
	cat "$work/said"
	echo "FAILED kymo view --lake printed no address"
	echo "0 passed, 1 failed"
	exit 1
fi
(cd view && node test/lake.mjs "$address" "$server" "$work/two" "${1:-}")
status=$?
child=$(pgrep -P "$server")
# A shell that was started without SIGINT would not pass it on.
kill -TERM "$server"
wait "$server"
ended=$?
server=
if [ $ended != 0 ] || { [ -n "$child" ] && kill -0 "$child" 2>/dev/null; }; then
	echo "FAILED kymo view ended with $ended after SIGTERM, or kymo-sql still runs"
	echo "0 passed, 1 failed"
	status=1
fi
exit $status
