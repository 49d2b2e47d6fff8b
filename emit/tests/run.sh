#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of the record path: against its pseudocode, under stress, and what its machine code may contain.
# KYMO_STRESS=1: 10^8 records for each ring. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/../.."
make -s -C emit || exit 1
out=build/tests
mkdir -p $out
passed=0 failed=0

check() {
	local name=$1
	shift
	if "$@"; then
		echo "ok $name"
		passed=$((passed + 1))
	else
		echo "FAILED $name: $*"
		failed=$((failed + 1))
	fi
}

compile() { # compiler source flags...
	local compiler=$1 source=$2
	shift 2
	$compiler -std=c11 -g -Wall -Wextra -Werror -Iemit/include "$@" emit/tests/$source.c -o $out/$source-${compiler%% *} \
		build/emit/libkymo.a -pthread
}

# A stream that is open while another thread forks is one of the child's streams too, and the child's exit() moves the
# position of whatever file has the stream's number there.
has_no_streams() {
	! nm -u "$@" | grep -E '\<(fopen|fdopen|freopen|fclose|popen|setmntent|getmntent|f?scanf|__isoc99_fscanf|getc|fgets|getline)\>'
}
check "libkymo has no streams of stdio" has_no_streams build/emit/libkymo.a build/emit/*.so

# What its helper thread allocates would be recorded as the program's.
has_no_heap() {
	! nm -u "$@" | grep -E '\<(malloc|calloc|realloc|reallocarray|free|posix_memalign|aligned_alloc|strn?dup|v?asprintf|(fd)?opendir|scandir|realpath)\>'
}
check "libkymo allocates nothing" has_no_heap build/emit/libkymo.a build/emit/libkymo.so

# The program may change its environment while the helper thread runs; strerror() and the like read it, too.
reads_environment_once() {
	! nm -A -u build/emit/libkymo.a | grep -v ':settings\.o:' |
		grep -E '\<(secure_getenv|getenv|environ|setlocale|strerror|perror|d?c?n?gettext|localtime|localtime_r|mktime|strftime|tzset|system|execl?v?p|posix_spawnp|getaddrinfo|syslog)\>'
}
check "only settings.c reads the environment" reads_environment_once
check "the environment, compiles" compile gcc environment -O2
own_directory=$(mktemp -d)
check "the environment is read once" env KYMO_RUNTIME_DIR="$own_directory" $out/environment-gcc
rm -rf "$own_directory"

check "answers, compiles" compile gcc answers -O2
check "answers" $out/answers-gcc

# The seeds differ from run to run only by what the scheduler does; the programs print what they did.
for compiler in gcc clang; do
	command -v $compiler >/dev/null || { echo "SKIP $compiler is not installed (apt-get install $compiler)"; continue; }
	for level in -O0 -O2; do
		check "sequence, $compiler $level, compiles" compile $compiler sequence $level
		check "sequence, $compiler $level, rseq" $out/sequence-$compiler
		check "sequence, $compiler $level, portable" env KYMO_RING=portable $out/sequence-$compiler
	done
done

check "filter, compiles" compile gcc filter -O2
for ring in rseq portable; do
	check "filter, $ring" env KYMO_RING=$ring $out/filter-gcc host/kymo-filter/tests/vectors.txt
done
check "contexts, compiles" compile gcc context -O2
for ring in rseq portable; do
	check "contexts, $ring" env KYMO_RING=$ring $out/context-gcc
done

check "compact records, compiles" compile gcc compact -O2
if [ "$(uname -m)" = x86_64 ]; then
	for ring in rseq portable; do
		check "compact records, $ring" env KYMO_RING=$ring $out/compact-gcc
	done
else
	echo "SKIP compact records: x86-64 only"
fi

# Call stacks of code that is compiled in each way that matters; x86-64 has tables.
if [ "$(uname -m)" = x86_64 ]; then
	checks="-fsanitize=address,undefined -fno-sanitize-recover=all"
	# shellcheck disable=SC2086 # a list of options
	compile gcc eh_frame -O1 $checks 2>$out/log || {
		echo "SKIP checks of addresses in the reader of .eh_frame: $(head -n 1 $out/log)"
		check "reader of .eh_frame, compiles" compile gcc eh_frame -O1
	}
	check "reader of .eh_frame, wrong tables" $out/eh_frame-gcc
	gcc -O2 -fPIC -shared -DPLUGIN=40 emit/tests/unwind_plugin.c -o $out/unwind_one.so || exit 1
	gcc -O2 -fPIC -shared -DPLUGIN=400 -DPLUGIN_MORE emit/tests/unwind_plugin.c -o $out/unwind_other.so || exit 1
	for flags in "gcc -O2 -fomit-frame-pointer" "gcc -O2 -fno-omit-frame-pointer" "gcc -O0" "gcc -O3" \
		"clang -O2 -fomit-frame-pointer" "clang -O2 -fno-omit-frame-pointer"; do
		command -v ${flags%% *} >/dev/null || continue
		# shellcheck disable=SC2086 # a compiler and its options
		check "call stacks, $flags, compiles" compile ${flags%% *} unwind ${flags#* }
		check "call stacks, $flags" $out/unwind-${flags%% *} $out/unwind_one.so $out/unwind_other.so
	done
	check "call stacks by wrong tables, compiles" compile gcc unwind_wrong -O2
	check "call stacks by wrong tables" $out/unwind_wrong-gcc
else
	echo "SKIP call stacks by tables: not x86-64"
fi
check "full rings, compiles" compile gcc edge -O2
for ring in rseq portable; do
	check "full rings, $ring" env KYMO_RING=$ring $out/edge-gcc
done
check "interrupted writers, compiles" compile gcc interrupted -O2
for ring in rseq portable; do
	check "interrupted writers, $ring" env KYMO_RING=$ring $out/interrupted-gcc
done
check "kept contexts, compiles" compile gcc kept -O2
for ring in rseq portable; do
	check "kept contexts, $ring" env KYMO_RING=$ring $out/kept-gcc
done
check "several sessions, compiles" compile gcc several -O2
for ring in rseq portable; do
	check "several sessions, $ring" env KYMO_RING=$ring $out/several-gcc
done
check "killed writers, compiles" compile gcc killed -O2
kills=200
[ -z "${KYMO_STRESS:-}" ] || kills=10000
for ring in rseq portable; do
	check "killed writers, $ring" env KYMO_RING=$ring $out/killed-gcc $kills
done
check "what filters cost, compiles" compile gcc filter_cost -O2
check "what filters cost" $out/filter_cost-gcc
if [ "$(uname -m)" = x86_64 ]; then
	check "what a record costs, compiles" compile gcc cost -O2
	check "what a record costs, in instructions" emit/tests/cost.sh $out/cost-gcc
fi

# 32 bits: one sentence, and nothing else.
is_refused() { # compiler...
	local source status=0
	for source in '#include <kymo/ffi.h>' '#include <kymo/snapshot.h>\nvoid f(void) { kymo_snapshot("a"); }' \
		'#include <kymo/tracepoint.h>\nKYMO_EVENT(a, b, (u32, c))\nvoid f(void) { if (kymo_trace_enabled(a, b)) kymo_trace(a, b, 1); }'; do
		printf '%b\n' "$source" | "$@" -ffreestanding -fsyntax-only -Wall -Iemit/include -x c - 2>$out/log
		[ "$(grep -c 'error:' $out/log)" = 1 ] && ! grep -q warning: $out/log &&
			grep -q 'kymo: tracepoints need a processor with 64-bit pointers' $out/log || status=1
	done
	[ "$(make -s -C emit CC="$*" OUT="$PWD/$out/none" 2>&1 | grep -c '64-bit pointers')" = 1 ] || status=1
	return $status
}
for compiler in "gcc -m32" "clang --target=i686-linux-gnu" "clang --target=arm-linux-gnueabihf" arm-linux-gnueabihf-gcc arm-none-eabi-gcc; do
	command -v ${compiler%% *} >/dev/null || continue
	[ "$(uname -m)" = x86_64 ] || [ "$compiler" != "gcc -m32" ] || continue
	# shellcheck disable=SC2086 # a compiler and its options
	check "32 bits are refused, $compiler" is_refused $compiler
done
# Where the C library has not registered restartable sequences, libkymo does [ring.md 5.8].
if [ "$(uname -m)" = x86_64 ] && [ "$(KYMO_RING=rseq $out/edge-gcc)" = "full rings hold (rseq)" ]; then
	own="env GLIBC_TUNABLES=glibc.pthread.rseq=0 KYMO_RING=rseq"
	is_own() {
		$own "$@" | tee $out/log && grep -q rseq $out/log
	}
	check "own registration, sequence" is_own $out/sequence-gcc
	check "own registration, full rings" is_own $out/edge-gcc
	check "own registration, contexts" is_own $out/context-gcc
fi
compile gcc stress -O2 || exit 1
if [ "$(uname -m)" = x86_64 ] && [ -n "${own:-}" ]; then
	check "own registration, stress" is_own $out/stress-gcc 1000000 1048576 --move --pace
fi
if command -v musl-gcc >/dev/null; then
	check "musl" emit/tests/musl.sh
else
	echo "SKIP musl: no musl-gcc (apt-get install musl-tools)"
fi

records=4000000 paced=2000000
[ -z "${KYMO_STRESS:-}" ] || records=100000000 paced=100000000
for ring in rseq portable; do
	run="env KYMO_RING=$ring $out/stress-gcc"
	check "stress, $ring, read nearly all" $run $paced 4194304 --pace
	check "stress, $ring, small ring, mostly lost" $run $records 65536
	check "stress, $ring, affinity changes" $run $paced 1048576 --move --pace
	check "stress, $ring, flight recorder" $run $records 262144 --overwrite
	check "stress, $ring, flight recorder, tiny ring, affinity changes" $run $paced 4096 --overwrite --move
done
check "guard: machine code of the record path" emit/tests/guard.sh
# 64-bit Arm counts for itself.
emit/tests/aarch64.sh
elsewhere=$?

echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $elsewhere = 0 ]
