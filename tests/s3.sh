#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# A lake in a real S3 server on loopback: adding, adding twice, labels, reading, shipping; writers that are killed at random moments, a
# server that goes away and comes back. The server (s3s-fs, from crates.io) is built into a cache once, which takes some minutes.
# Usage: tests/s3.sh. KYMO: the command (default: target/release/kymo), beside it kymo-sql. CARGO. KYMO_S3: the server, else it is built.
# KYMO_SEED. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
kymo=${KYMO:-$target/release/kymo}
version=0.14.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kymo/s3s-$version
server=${KYMO_S3:-$cache/bin/s3s-fs}
seed=${KYMO_SEED:-$RANDOM}
kills=${KYMO_KILLS:-20}
passed=0 failed=0

skip() {
	echo "SKIP a lake in an S3 server: $1"
	echo '0 passed, 0 failed'
	exit 0
}

[ -x "$kymo" ] && [ -x "${kymo%/*}/kymo-sql" ] || { echo "FAILED: $kymo and kymo-sql are missing: make build sql"; echo '0 passed, 1 failed'; exit 1; }
if [ ! -x "$server" ]; then
	"${CARGO:-cargo}" install -q --locked --root "$cache" --features binary "s3s-fs@$version" 2>"${TMPDIR:-/tmp}/kymo-s3.log" ||
		skip "the server s3s-fs $version was not built: $(tail -n 1 "${TMPDIR:-/tmp}/kymo-s3.log")"
	rm -f "${TMPDIR:-/tmp}/kymo-s3.log"
fi

# A short name: the server keeps what it knows of an object in a file that is called as the object, in base 64.
work=$(mktemp -d -t k.XXXX)
server_pid=
stop_server() {
	[ -z "$server_pid" ] || { kill "$server_pid" && wait "$server_pid"; } 2>/dev/null
	server_pid=
}
trap 'stop_server; rm -rf "$work"' EXIT
mkdir -p "$work/buckets/fleet"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start_server() {
	"$server" --host 127.0.0.1 --port "$port" --access-key key --secret-key secret "$work/buckets" >"$work/server.log" 2>&1 &
	server_pid=$!
	for _ in $(seq 100); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
		sleep 0.1
	done
	cat "$work/server.log"
	skip "the server does not answer"
}
export AWS_ENDPOINT=http://127.0.0.1:$port AWS_ALLOW_HTTP=true AWS_REGION=us-east-1
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret
lake=s3://fleet/a/lake

check() { # WHAT COMMAND...
	local what=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED a lake in an S3 server, $what (seed $seed)"
		sed 's/^/    /' "$work/out" | tail -n 20
	fi
}

# A trace whose wake-ups take longer by its number.
trace() {
	{
		printf '# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n'
		awk -v late="$1" 'BEGIN { for (i = 0; i < 3000; i++) {
			us = 1795000000000000 + i * 1000; s = int(us / 1000000)
			printf "          <idle>-0       [000] d..2. %d.%06d: sched_waking: comm=motor pid=100 prio=49 target_cpu=000\n", s, us % 1000000
			printf "          <idle>-0       [000] d..2. %d.%06d: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=motor next_pid=100 next_prio=49\n", s, us % 1000000 + 5 + late
			printf "           motor-100     [000] d..2. %d.%06d: sched_switch: prev_comm=motor prev_pid=100 prev_prio=49 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n", s, us % 1000000 + 100 + late
		} }'
	} >"$work/text"
	"$kymo" import "$work/text" -o "$work/trace$1" >"$work/out" 2>&1 || { cat "$work/out"; echo '0 passed, 1 failed'; exit 1; }
}

query() { "$kymo" sql --lake "$lake" "$1" --format csv; }
# All that is there is what an addition has: the query counts as many rows of each trace as the trace itself.
whole() { [ "$(query "SELECT count(*) FROM wakeups" | tail -n 1)" = "$1" ]; }
unfinished() { "$kymo" lake list "$lake" --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["unfinished"]))'; }
objects() { (cd "$work/buckets" && find . -type f ! -path '*/.*' -printf '%P %s\n' | sort); }

trace 1
trace 2
trace 3
rows=$("$kymo" sql "$work/trace1" 'SELECT count(*) FROM wakeups' --format csv | tail -n 1)

start_server
check 'adding' "$kymo" lake add "$work/trace1" --to "$lake" --label board=imx8
check 'rows' whole "$rows"
objects >"$work/before"
check 'adding twice' "$kymo" lake add "$work/trace1" --to "$lake" --label board=imx8
objects >"$work/after"
check 'adding twice changes nothing' cmp "$work/before" "$work/after"
check 'other labels' "$kymo" lake add "$work/trace1" --to "$lake" --label board=other --with-trace
check 'rows of the new labels' test "$(query 'SELECT DISTINCT label_board FROM wakeups' | tail -n 1)" = other
check 'one addition' whole "$rows"
# What can be asked of a copy on disk is the same.
cp -r "$work/buckets/fleet/a/lake" "$work/copy"
of_copy() { "$kymo" sql --lake "$work/copy" 'SELECT host, tid, count(*), sum(duration_ns) FROM wakeups GROUP BY host, tid' --format csv; }
check 'the same answers as of its files in a directory' \
	test "$(query 'SELECT host, tid, count(*), sum(duration_ns) FROM wakeups GROUP BY host, tid')" = "$(of_copy)"
check 'a wrong key is an error' bash -c "! AWS_SECRET_ACCESS_KEY=wrong '$kymo' sql --lake '$lake' 'SELECT count(*) FROM wakeups'"

# A writer that is killed at a moment: the lake reads as before, or with all; the next run completes it.
RANDOM=$seed
ok=0
for number in $(seq "$kills"); do
	rm -rf "$work/buckets/fleet/k"
	lake=s3://fleet/k
	"$kymo" lake add "$work/trace1" --to "$lake" >/dev/null 2>&1
	"$kymo" lake add "$work/trace2" --to "$lake" >/dev/null 2>&1 &
	writer=$!
	sleep "0.$(printf %03d $((RANDOM % 400)))"
	# The verb is the process that starts kymo-sql, or that itself.
	pkill -KILL -P "$writer" 2>/dev/null
	kill -KILL "$writer" 2>/dev/null
	wait "$writer" 2>/dev/null
	if whole "$rows" || whole $((2 * rows)); then
		"$kymo" lake add "$work/trace2" --to "$lake" >"$work/out" 2>&1
		if whole $((2 * rows)) && [ "$(unfinished)" = 0 ]; then
			ok=$((ok + 1))
		else
			echo "kill $number: not whole behind the next run: $(tail -n 1 "$work/out"); unfinished: $(unfinished)"
		fi
	else
		echo "kill $number: the lake has $(query 'SELECT count(*) FROM wakeups' | tail -n 1) rows"
	fi
done
check "killed writers: $ok of $kills" test "$ok" = "$kills"

# A session's chunks go to it over a server that goes away meanwhile.
lake=s3://fleet/s
mkdir -p "$work/s"
for number in 1 2 3; do
	cp -r "$work/trace$number" "$work/s/chunk-000$number"
	echo '{"complete": true}' >"$work/s/chunk-000$number/.kymo.json"
done
echo '{"complete": true}' >"$work/s/.kymo.json"
stop_server
"$kymo" lake ship "$work/s" --to "$lake" >"$work/ship.log" 2>&1 &
shipper=$!
sleep 4
check 'it waits for a server that is away' kill -0 "$shipper"
start_server
for _ in $(seq 120); do
	kill -0 "$shipper" 2>/dev/null || break
	sleep 1
done
if kill -0 "$shipper" 2>/dev/null; then
	kill "$shipper"
	check 'shipping ends when all is there' false
else
	wait "$shipper"
	check 'shipping ends well' test $? = 0
	check 'all chunks are there' whole $((3 * rows))
fi
[ "$failed" = 0 ] || cat "$work/ship.log"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
