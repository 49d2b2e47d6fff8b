# SPDX-License-Identifier: MIT OR Apache-2.0
# traced.sh: the cases of run.sh in which the program is recorded: it must behave the same, nothing may be lost, and its
# trace must be one that can be true (check.py).

# traced NAME CHECKS COMMAND...: CHECKS is a list of words for check.py. What a case records fits into its rings, so that it
# passes on a machine whose collector gets no CPU, too: portable rings are at most 2 MiB here, whatever RING says.
traced() {
	local name="traced $1" checks=$2 plain_code code
	shift 2
	wanted "$name" || return 0
	run "" "$@"
	plain_code=$?
	cp "$work/out" "$work/plain"
	rm -rf "$work/trace"
	# The libraries of $BUILD, not those that record would find. A collector that is held up is not what this is about.
	KYMO_START_WAIT=10000 timeout -k 5 "${LIMIT:-300}" "$KYMO" record -q -o "$work/trace" --ring-size "${RING:-64M}" \
		-u 'libc:*' -u 'pthread:*' -- env LD_PRELOAD="$malloc $pthread" "$@" \
		>"$work/out" 2>"$work/err" </dev/null
	code=$?
	if [ $code -ne $plain_code ]; then
		failed "$name" "exit code $code, untraced $plain_code"
		return 0
	fi
	if [ -z "${OUTPUT_DIFFERS:-}" ] && ! cmp -s "$work/out" "$work/plain"; then
		failed "$name" "its output differs"
		return 0
	fi
	judge "$name" $checks
}

# judge NAME CHECKS...: what is in $work/trace. LOST: records that must be missing, and counted.
judge() {
	local name=$1 lost
	shift
	if ! "$KYMO" read --json "$work/trace" >"$work/records" 2>"$work/err"; then
		failed "$name" "kymo read fails"
		return 0
	fi
	lost=$(sed -nE 's/^\{"lost":([0-9]+),.*/\1/p' "$work/records" | awk '{n += $1} END {print n + 0}')
	if [ "$lost" != "${LOST:-0}" ]; then
		failed "$name" "$lost records were lost, and not ${LOST:-0}: $(grep -m 1 '"lost"' "$work/records")"
	elif ! grep -v '^{"lost"' "$work/records" | python3 "$here/check.py" "$@" >"$work/err" 2>&1; then
		failed "$name" "its trace cannot be true"
	else
		passed "$name ($(wc -l <"$work/records") records)"
	fi
}

traced "alloc" "blocks libc:malloc>=1000 libc:calloc>=10 libc:realloc>=3000 libc:memalign>=50 libc:free>=1100" \
	"$work/alloc"
traced "threads" "blocks exclusion waits libc:malloc>=640000 libc:free>=640000 pthread:mutex_lock>=10000" \
	"$work/threads"
# Not `blocks`: what a forked child does before it has its own rings is in its parent's.
RING=4M traced "fork" "libc:malloc>=10000 pthread:mutex_lock>=100" "$work/fork" unhurried
# The 20 children of a bare clone have no portable ring: their records, 500 each, are lost, and counted.
RING=8M LOST=10000 traced "fork, portable ring" "libc:malloc>=10000" env KYMO_RING=portable "$work/fork" unhurried
traced "locks" "results" "$work/locks"
OUTPUT_DIFFERS=1 traced "hold" "exclusion waits hold_20_ms" "$work/hold"
OUTPUT_DIFFERS=1 traced "stuck" "exclusion stuck" "$work/hold" stuck
traced "c++" "blocks exclusion waits libc:malloc>=8000 libc:memalign>=8000" "$work/cxx"
RING=8M traced "alloc, portable ring" "blocks libc:malloc>=1000" env KYMO_RING=portable "$work/alloc"
RING=8M traced "c++, portable ring" "blocks exclusion waits libc:malloc>=320" env KYMO_RING=portable "$work/cxx" 20
RING=8M traced "c++, no rseq" "blocks exclusion waits libc:malloc>=320" \
	env GLIBC_TUNABLES=glibc.pthread.rseq=0 "$work/cxx" 20
RING=8M traced "locks, portable ring" "results" env KYMO_RING=portable "$work/locks"
traced "alloc, no helper thread" "blocks libc:malloc>=1000" env KYMO_NO_THREAD=1 "$work/alloc"
# Blocks go from thread to thread at once: an order of free and malloc that is not the real one shows.
one_arena=GLIBC_TUNABLES=glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0
traced "churn" "blocks exclusion waits libc:malloc>=120000 pthread:mutex_lock>=120000" \
	env $one_arena "$work/churn"
RING=8M traced "churn, portable ring" "blocks exclusion waits libc:malloc>=16000" \
	env $one_arena KYMO_RING=portable "$work/churn" 4000
traced "own malloc" "libc:memalign>=1 pthread:mutex_lock>=0" "$work/own_malloc"

# The interpreter itself: a wrapper script would fork, and a child's first records stand in its parent's rings.
have python python3 && traced "python" "blocks exclusion waits libc:malloc>=1000" \
	"$(python3 -c 'import sys; print(sys.executable)')" -c '
import json, queue, threading
inbox, outbox = queue.Queue(), queue.Queue()
def work():
    while (n := inbox.get()) is not None:
        outbox.put(len(json.dumps({str(i): [i] * n for i in range(300)})))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [inbox.put(n) for n in range(40)]
print(sum(outbox.get() for _ in range(40)))
[inbox.put(None) for _ in threads]; [t.join() for t in threads]'
have gcc gcc as ld && RING=4M traced "gcc: cc1, as, ld" "libc:malloc>=1000 libc:free>=1000" \
	gcc -O2 "$here/hold.c" -o "$work/compiled" -pthread
have git git && RING=4M traced "git log" "libc:malloc>=100" git -C "$here" log -n 20 --stat --format=%H
have perl perl && traced "perl" "blocks libc:malloc>=100" perl -e 'my %h; $h{$_ % 97} .= "x$_" for 1 .. 20000; print length join("", values %h)'
have node node && RING=128M traced "node" "blocks exclusion waits libc:malloc>=1000 pthread:mutex_lock>=100" node -e '
	console.log([...Array(1e4).keys()].map(String).join("").length);'
have sqlite sqlite3 && traced "sqlite3" "blocks exclusion libc:malloc>=50" sqlite3 :memory: \
	'with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select sum(i), max(hex(i)) from n;'
have strace strace && OUTPUT_DIFFERS=1 traced "strace" "exclusion waits libc:malloc>=2" \
	strace -f -o "$work/strace" "$work/hold"

# A program that runs already; a session that goes again; another one that comes. The program is ended by its pid.
late() {
	local name="traced late, twice" pid code=0
	wanted "$name" || return 0
	env LD_PRELOAD="$malloc $pthread" "$work/endless" >"$work/out" 2>"$work/err" &
	pid=$!
	sleep 1
	for time in 1 2; do
		rm -rf "$work/trace"
		timeout -k 5 180 "$KYMO" record -q --for 3s -p $pid -o "$work/trace" --ring-size 16M \
			-u 'libc:*' -u 'pthread:*' >"$work/out" 2>"$work/err" || code=$?
		if [ $code -ne 0 ]; then
			failed "$name" "record: exit code $code: $(tail -n 3 "$work/err")"
			code=0
		else
			judge "$name" late blocks exclusion "libc:malloc>=100" "pthread:mutex_lock>=100"
		fi
	done
	if ! kill -0 $pid; then
		failed "$name" "the program is gone"
	fi
	kill -TERM $pid
	wait $pid 2>"$work/null"
}
late

# Two sessions on one program, and the option that preloads.
both_sessions() {
	local name="traced by two sessions"
	wanted "$name" || return 0
	rm -rf "$work/trace" "$work/outer"
	KYMO_START_WAIT=10000 KYMO_LIBDIR=$BUILD timeout -k 5 180 "$KYMO" record -q -o "$work/outer" --ring-size 64M -u 'pthread:*' \
		--with malloc --with pthread -- \
		"$KYMO" record -q -o "$work/trace" --ring-size 64M -u 'libc:*' -u 'pthread:*' -- "$work/cxx" \
		>"$work/out" 2>"$work/err"
	code=$?
	if [ $code -ne 0 ]; then
		failed "$name" "exit code $code"
		return 0
	fi
	judge "$name, inner" blocks exclusion "libc:malloc>=8000"
	mv "$work/outer" "$work/trace.outer" && rm -rf "$work/trace" && mv "$work/trace.outer" "$work/trace"
	judge "$name, outer" exclusion "pthread:mutex_lock>=8000"
}
both_sessions
