# SPDX-License-Identifier: MIT OR Apache-2.0
# survive.sh: the cases of run.sh in which nothing is traced: the helpers are there and must not be felt.

for case in alloc threads fork own_malloc locks churn cxx; do
	compare "victim $case" "$work/$case"
done
compare "static executable" "$work/alloc_static"
compare "ends by a signal" bash -c '(kill -SEGV $BASHPID); echo $?'
compare "out of memory" bash -c 'ulimit -v 400000; exec "$work/alloc"'
compare "out of descriptors" bash -c 'ulimit -n 3; exec "$work/alloc"'
compare "out of processes' stack" bash -c 'ulimit -s 256; exec "$work/locks"'
compare "no helper thread" env KYMO_NO_THREAD=1 "$work/fork"
compare "kymo switched off" env KYMO_DISABLE=1 "$work/threads"
compare "portable ring" env KYMO_RING=portable "$work/fork"
compare "no rseq" env GLIBC_TUNABLES=glibc.pthread.rseq=0 "$work/threads"

# The arena: a dlsym that allocates, behind the helper.
if wanted "allocating dlsym"; then
	if run "$malloc $work/noisy_dlsym.so" "$work/alloc"; then
		passed "allocating dlsym"
	else
		failed "allocating dlsym" "exit code $?"
	fi
fi

have python python3 && compare "python, threads and json" python3 -c '
import json, threading
results = {}
lock = threading.Lock()
def work(n):
    text = json.dumps({str(i): [i] * n for i in range(2000)})
    with lock:
        results[n] = len(json.loads(text))
threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(results.items()))'
have python python3 && compare "python, subprocess and multiprocessing" python3 -c '
import multiprocessing, subprocess
if __name__ == "__main__":
    with multiprocessing.Pool(4) as pool:
        print(sum(pool.map(abs, range(-1000, 0))))
    print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout)'
have gcc gcc as ld && compare "gcc: cc1, as, ld" bash -c '
	gcc -O2 -g -Wall -pthread "$here/locks.c" -o "$work/compiled" && sha256sum <"$work/compiled"'
have g++ g++ && compare "g++" bash -c '
	g++ -std=c++17 -O2 -c "$here/cxx.cc" -o "$work/compiled.o" && sha256sum <"$work/compiled.o"'
have clang clang && compare "clang" bash -c '
	clang -O2 -c "$here/locks.c" -o "$work/compiled.o" && sha256sum <"$work/compiled.o"'
compare "bash, forks and pipes" bash -c '
	for i in $(seq 30); do echo "$i $(echo "$i" | tr 0-9 a-j)"; done | sort -r | head -n 20 | md5sum
	diff <(seq 10) <(seq 11); (exit 7) & wait $!; echo "$?"'
have git git && compare "git log" git -C "$here" log -n 50 --stat --format=%H
have perl perl && compare "perl" perl -e '
	my %h; $h{$_ % 997} .= "x$_" for 1 .. 200000; my $p = fork; exit 3 if !$p; waitpid $p, 0;
	print scalar(keys %h), " ", $? >> 8, " ", length join("", values %h), "\n"'
have gdb gdb && compare "gdb --version" gdb --version
have gdb gdb && compare "gdb runs a program" bash -c '
	gdb -nx -q -batch -ex "set print thread-events off" -ex "handle SIGUSR1 nostop noprint pass" \
		-ex run -ex "print \$_exitcode" "$work/alloc" | grep -v "^.Inferior 1 (process"'
have node node && compare "node" node -e '
	const { Worker } = require("worker_threads");
	const code = "let a = []; for (let i = 0; i < 1e5; i++) a.push({ i }); require(\"worker_threads\").parentPort.postMessage(a.length)";
	let left = 4, sum = 0;
	for (let i = 0; i < 4; i++) new Worker(code, { eval: true }).on("message", (n) => { sum += n; if (!--left) console.log(sum); });'
have cargo cargo && compare "cargo --version" cargo --version
have rustc rustc && compare "rustc" bash -c '
	echo "fn main() { println!(\"{}\", (0..100).map(|i| i * i).sum::<u64>()); }" >"$work/a.rs" &&
	rustc -O -o "$work/a.out" "$work/a.rs" && "$work/a.out"'
have sqlite3 sqlite3 && compare "sqlite3" sqlite3 :memory: '
	with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
	select count(*), sum(i), max(length(hex(i))) from n;'
have xz xz && compare "xz, threads" bash -c 'seq 2000000 | xz -T2 --block-size=1MiB -1 | sha256sum'
have valgrind valgrind && LIMIT=600 compare "valgrind" valgrind -q --error-exitcode=9 "$work/locks"
have valgrind valgrind && LIMIT=600 compare "valgrind, allocations" valgrind -q "$work/own_malloc"
have strace strace && compare "strace" strace -f -o "$work/strace" "$work/locks"

# A server with an allocator of its own and threads, spoken to over loopback; ended by its pid.
redis() {
	local name="redis, $1" preload=$2 port=$((20000 + RANDOM % 20000)) pid tries=0 code=1
	wanted "$name" || return 0
	env LD_PRELOAD="$preload" redis-server --port $port --bind 127.0.0.1 --save '' \
		--appendonly no --dir "$work" --io-threads 2 >"$work/out" 2>"$work/err" &
	pid=$!
	until env LD_PRELOAD="$preload" redis-cli -p $port ping 2>"$work/null" | grep -q PONG; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || break
		sleep 0.1
	done
	timeout -k 5 180 env LD_PRELOAD="$preload" redis-benchmark -p $port -n 10000 -q -t set,get,lpush \
		--threads 2 >"$work/bench" 2>>"$work/err" &&
		[ "$(redis-cli -p $port set k v)" = OK ] && [ "$(redis-cli -p $port get k)" = v ]
	code=$?
	redis-cli -p $port bgsave >"$work/null" 2>&1
	kill -TERM $pid
	wait $pid
	if [ $code -ne 0 ]; then
		failed "$name" "the benchmark or a command failed"
	elif ! grep -q 'bye bye' "$work/out"; then
		failed "$name" "the server did not end as it does"
	else
		passed "$name"
	fi
}
if have redis redis-server redis-cli redis-benchmark; then
	redis malloc "$malloc"
	redis pthread "$pthread"
	redis both "$malloc $pthread"
fi

# Sanitizers. ASan and TSan have wrappers of their own. gcc's are libraries that insist on being first and refuse with a
# message; then there is nothing to compare. clang's are in the executable, before any preload.
sanitized() {
	local name="$1" compiler=$2 sanitizer=$3
	wanted "$name" || return 0
	have "$name" $compiler || return 0
	if ! $compiler -fsanitize=$sanitizer -O1 -g "$here/hold.c" -o "$work/sanitized" -pthread 2>"$work/err"; then
		skipped "$name" "$compiler has no -fsanitize=$sanitizer"
		return 0
	fi
	for kind in malloc pthread; do
		run "$BUILD/libkymo-$kind.so" "$work/sanitized"
		code=$?
		if [ $code -eq 0 ]; then
			passed "$name, $kind"
		elif grep -q 'does not come first in initial library list' "$work/err"; then
			skipped "$name, $kind" "the sanitizer's runtime refuses any preload before itself"
		else
			failed "$name, $kind" "exit code $code"
		fi
	done
}
sanitized "gcc asan" gcc address
sanitized "gcc tsan" gcc thread
sanitized "clang asan" clang address
sanitized "clang tsan" clang thread
