#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of libkymo-posix: sentences of the standard, for each preset and ring. Last line: N passed, N failed.
# BLESS=1 writes spec/posix-conformance.md anew.
set -u
cd "$(dirname "$0")/../../.."
out=build/posix/tests
mkdir -p $out
passed=0 failed=0
runtime=$(mktemp -d)
trap 'rm -rf "$runtime"' EXIT
export KYMO_RUNTIME_DIR=$runtime

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

library() { make -s -C emit posix PRESET="$1"; }

conformance() { # preset
	gcc -std=c11 -g -O1 -Wall -Wextra -Werror -Wno-unused-function -Ibuild/posix/$1/include -Iemit/include \
		emit/posix/tests/*.c -o $out/conformance-$1 build/posix/$1/libkymo-posix.a -pthread
}

# See emit/tests/run.sh: the exit of a child that another thread forks would move the position of a file.
has_no_streams() {
	! nm -u "$@" | grep -E '\<(fopen|fdopen|freopen|fclose|popen|setmntent|getmntent|f?scanf|__isoc99_fscanf|getc|fgets|getline)\>'
}

for preset in full minimal; do
	check "$preset: the library builds" library $preset
	check "$preset: no streams of stdio" has_no_streams build/posix/$preset/libkymo-posix.a
	check "$preset: the tests build" conformance $preset
	for ring in rseq portable; do
		churn=
		[ "$preset $ring" != 'full rseq' ] || churn=KYMO_CHURN=1
		check "$preset, $ring" env KYMO_RING=$ring $churn timeout 1800 $out/conformance-$preset
	done
done
check "full, without the TSC" env KYMO_CLOCK=monotonic timeout 900 $out/conformance-full

# One event for several streams: what comes between them is let in at a point that only this program has.
several() {
	gcc -std=c11 -O2 -g -Wall -Wextra -Werror -Ibuild/posix/full/include -Iemit/include emit/posix/tests/several/several.c \
		-o $out/several build/posix/full/libkymo-posix.a -pthread
}
check "several streams, compiles" several
for ring in rseq portable; do
	check "several streams, $ring" env KYMO_RING=$ring timeout 300 $out/several
done

# Instructions of posix_trace_event(), with bounds.
cost() {
	gcc -std=c11 -O2 -g -Wall -Wextra -Werror -Ibuild/posix/full/include -Iemit/include emit/posix/tests/cost/cost.c \
		-o $out/cost build/posix/full/libkymo-posix.a -pthread
}
if [ "$(uname -m)" = x86_64 ]; then
	check "what an event costs, compiles" cost
	check "what an event costs, in instructions" emit/tests/cost.sh $out/cost emit/posix/tests/cost/cost.expect
fi

# Races: where plain code writes. What sequences do, a sanitizer cannot see.
tsan() {
	local out=$PWD/build/posix/tsan
	make -s -f emit/posix/Makefile OUT="$out" CFLAGS="-O1 -g -fsanitize=thread" "$out/libkymo-posix.a" &&
		gcc -std=c11 -g -O1 -fsanitize=thread -I"$out/include" -Iemit/include emit/posix/tests/*.c -o build/posix/tests/conformance-tsan \
			"$out/libkymo-posix.a" -pthread
}
check "under ThreadSanitizer, builds" tsan
check "under ThreadSanitizer" env KYMO_RING=portable timeout 900 $out/conformance-tsan lossless blocks shutdown_wakes flush_by_itself \
	until_full_reports log_round_trip

# The complete build without each unit, and a choice that cannot be.
for unit in ONLINE LOG USER_EVENTS FILTER INHERIT RETRIEVAL; do
	config=$runtime/$unit.config
	echo "# CONFIG_KYMO_POSIX_$unit is not set" >"$config"
	check "without $unit: the library builds" make -s -C emit posix CONFIG="$config" OUT="$PWD/build/posix/without_$unit" CFLAGS=-O1
	check "without $unit: the tests build" conformance without_$unit
	check "without $unit" timeout 900 $out/conformance-without_$unit constants prototypes members attr_defaults attr_sizes \
		create_state attr_of_stream log_round_trip closed_for_child
done
# Each type of the kernel's events alone can be left out, and all of them.
for event in CONTEXT_SWITCH SYSTEM_CALL LOCK '.*'; do
	config=$runtime/event.config
	printf '# CONFIG_KYMO_POSIX_EVENT_%s is not set\n' CONTEXT_SWITCH SYSTEM_CALL LOCK | grep -E "EVENT_$event is" >"$config"
	check "without the kernel's events $event: the library builds" make -s -C emit posix CONFIG="$config" OUT="$PWD/build/posix/without_event" \
		CFLAGS='-O1 -Werror'
	check "without the kernel's events $event: the tests build" conformance without_event
	check "without the kernel's events $event" timeout 900 $out/conformance-without_event constants attr_sizes create_state log_round_trip
done
# All 64 subsets of the units: built, linked, and what they can do. Those without what a unit needs are refused.
check "every subset of the units" emit/posix/tests/units.sh
printf 'CONFIG_KYMO_POSIX_FILTER=y\n# CONFIG_KYMO_POSIX_ONLINE is not set\n# CONFIG_KYMO_POSIX_LOG is not set\n' >"$runtime/bad.config"
refused() {
	! make -s -C emit posix CONFIG="$runtime/bad.config" OUT="$runtime/bad" >"$runtime/bad.txt" 2>&1 &&
		grep -q 'KYMO_POSIX_FILTER needs KYMO_POSIX_ONLINE or KYMO_POSIX_LOG' "$runtime/bad.txt"
}
check "a unit without what it needs is refused, with the reason" refused
check "man pages: every function has one, with an example" emit/posix/man/pages.py --check
examples() {
	emit/posix/man/pages.py --examples >"$runtime/examples.c" &&
		gcc -std=c11 -Wall -Wextra -Werror -Iemit/include -fsyntax-only "$runtime/examples.c"
}
check "man pages: the examples compile" examples
rendered() {
	emit/posix/man/pages.py "$runtime/man" &&
		! man --warnings=w -l "$runtime"/man/trace.h.0p "$runtime"/man/posix_trace_create.3 2>&1 >/dev/null | grep .
}
if command -v man >/dev/null; then check "man pages: troff has nothing to say" rendered; else echo "SKIP man pages: no man"; fi

# Without an operating system: on this machine, where signals are the interrupts, under sanitizers.
native=build/posix/target_native
sanitize="-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
target_native() {
	make -s -C emit posix PRESET=target OUT="$PWD/$native" CFLAGS="$sanitize -Werror" &&
		gcc -std=gnu11 -Wall -Wextra -Werror $sanitize -I$native/include -Iemit/include emit/posix/tests/target/native.c \
			$native/libkymo-posix.a -o $native/native
}
check "target, on this machine: builds" target_native
check "target, on this machine: functions" timeout 60 $native/native api
check "target, on this machine: a million events, interrupted" timeout 300 $native/native online 1000000 1
# Every symbol that is not the library's is one that the program brings.
free_of_libraries() { # tool prefix, flags, folder
	make -s -C emit posix PRESET=target OUT="$3" CC="$1gcc" AR="$1ar" CFLAGS="-Os -Werror $2" || return 1
	local left
	left=$("$1nm" "$3/libkymo-posix.a" | awk '$1 == "U" { needed[$2] } NF == 3 { has[$3] } END { for (name in needed)
		if (!(name in has) && name !~ /^kymo_target_/) print name }')
	[ -z "$left" ] || { echo "undefined: $left"; return 1; }
}
linked_alone() { # flags, folder
	make -s -C emit posix PRESET=target OUT="$2" CC=arm-none-eabi-gcc AR=arm-none-eabi-ar CFLAGS="$1 -Werror" &&
		arm-none-eabi-gcc -std=gnu11 $1 -ffreestanding -nostdlib -I"$2/include" -Iemit/include emit/posix/tests/target/alone.c \
			-Wl,--whole-archive "$2/libkymo-posix.a" -o "$2/alone"
}
if command -v arm-none-eabi-gcc >/dev/null; then
	for core in cortex-m3 cortex-m0 cortex-m4; do
		check "target, $core: no symbol of any library" free_of_libraries arm-none-eabi- "-mcpu=$core -mthumb" "$PWD/build/posix/target_$core"
	done
	# A whole program without any library, libgcc among them, whatever the compiler makes of the code.
	for level in O0 O1 Os O2 O3; do
		check "target, cortex-m0 at -$level: links without libgcc" linked_alone "-mcpu=cortex-m0 -mthumb -$level" "$PWD/build/posix/target_m0_$level"
	done
	read -r text data bss < <(arm-none-eabi-size -t build/posix/target_cortex-m3/libkymo-posix.a | awk 'END { print $1, $2, $3 }')
	check "target, cortex-m3: $text bytes of text and $data of data (less than 6 KiB), $bss of bss (less than 12 KiB)" \
		[ $((text + data)) -lt 6144 -a "$bss" -lt 12288 ]
else
	echo "SKIP target on Cortex-M: no arm-none-eabi-gcc (gcc-arm-none-eabi, libnewlib-arm-none-eabi)"
fi

[ -z "${BLESS:-}" ] || $out/conformance-full --list >spec/posix-conformance.md
check "spec/posix-conformance.md is what the tests say" diff <($out/conformance-full --list) spec/posix-conformance.md

echo "$passed passed, $failed failed"
[ $failed = 0 ]
