#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# libkymo for 64-bit Arm: built by a cross compiler; the machine code of its record path; and the tests of the rings on
# Debian's kernel for it, in QEMU (an emulated processor; QEMU's user mode has no restartable sequences). KYMO_STRESS=1:
# for longer. UPDATE=1 takes new tables of instructions. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/../.."
cross=aarch64-linux-gnu
out=$PWD/build/aarch64
passed=0 failed=0

skip() {
	echo "SKIP 64-bit Arm, $1: $2"
}

result() { # name status
	if [ "$2" = 0 ]; then
		echo "ok 64-bit Arm, $1"
		passed=$((passed + 1))
	else
		echo "FAILED 64-bit Arm, $1${3:+: $3}"
		failed=$((failed + 1))
	fi
}

finish() {
	echo "$passed passed, $failed failed"
	[ $failed = 0 ]
	exit
}

if ! command -v $cross-gcc >/dev/null; then
	skip all "no $cross-gcc (apt-get install gcc-$cross libc6-dev-arm64-cross)"
	finish
fi
mkdir -p "$out"
make -s -C emit CC=$cross-gcc CFLAGS="-O2 -g -Werror" OUT="$out"
status=$?
result "libkymo and the preload helpers compile without a warning" $status
[ $status = 0 ] || finish
emit/tests/guard.sh $cross-gcc
result "machine code of the record path" $?

compile() { # source flags...
	local source=$1
	shift
	$cross-gcc -static -std=c11 -g -Wall -Wextra -Werror -Iemit/include "$@" "emit/tests/$source.c" -o "$out/$source" \
		"$out/libkymo.a" -pthread
}
programs="sequence edge context compact filter interrupted kept several killed stress cost"
status=0
for program in $programs; do compile $program -O2 || status=1; done
$cross-gcc -static -std=c11 -O2 -Wall -Wextra -Werror emit/tests/guest.c -o "$out/init" || status=1
result "tests compile" $status
[ $status = 0 ] || finish

lab/vm arm64 >"$out/kernel" 2>"$out/kernel.log" </dev/null || {
	skip "rings" "no kernel or no QEMU: $(tail -n 1 "$out/kernel.log")"
	finish
}

# What the guest runs: a name, the ring that the output must name (-: none), seconds it may take, environment and command.
names=() rings=()
: >"$out/commands"
guest() {
	names+=("$1") rings+=("$2")
	shift 2
	echo "$*" >>"$out/commands"
}
limit=200 records=600000 paced=40000 compact=20000 kills=40 rounds=400 changed=20000 guest_s=600
if [ -n "${KYMO_STRESS:-}" ]; then
	limit=600 records=10000000 paced=3000000 compact=300000 kills=2000 rounds=20000 changed=400000 guest_s=3600
fi
for ring in rseq portable; do
	own="$limit KYMO_RING=$ring"
	guest "sequence, $ring" $ring "$own /sequence"
	guest "filter, $ring" - "$own /filter /vectors.txt $changed"
	guest "contexts, $ring" $ring "$own /context $rounds"
	guest "compact records, $ring" $ring "$own /compact $compact"
	guest "full rings, $ring" $ring "$own /edge $rounds"
	guest "interrupted writers, $ring" $ring "$own /interrupted"
	guest "kept contexts, $ring" $ring "$own /kept"
	guest "several sessions, $ring" $ring "$own /several"
	guest "killed writers, $ring" $ring "$own /killed $kills"
	guest "stress, $ring, read nearly all, affinity changes" $ring "$own /stress $paced 4194304 --move --pace"
	guest "stress, $ring, small ring, mostly lost" $ring "$own /stress $records 65536"
	guest "stress, $ring, flight recorder" $ring "$own /stress $records 262144 --overwrite"
	guest "stress, $ring, flight recorder, tiny ring, affinity changes" $ring "$own /stress $paced 4096 --overwrite --move"
	guest "what a record costs, $ring" $ring "$own /cost 1"
done
# Where the C library has registered nothing: the portable ring, or libkymo's own registration [ring.md 5.8].
none="$limit GLIBC_TUNABLES=glibc.pthread.rseq=0"
guest "without a registration" portable "$none /edge 20"
guest "own registration, full rings" rseq "$none KYMO_RING=rseq /edge $rounds"
guest "own registration, stress" rseq "$none KYMO_RING=rseq /stress $paced 1048576 --move --pace"
guest "CLOCK_MONOTONIC" portable "$limit KYMO_CLOCK=monotonic /edge 20"

# An archive for the kernel (cpio, newc): names and files, padded to 4 bytes.
number=0
entry() { # name mode file
	local bytes=0 name=$1
	[ -z "${3:-}" ] || bytes=$(stat -c %s "$3")
	number=$((number + 1))
	printf '070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\0' \
		$number "$2" 0 0 1 0 "$bytes" 0 0 0 0 $((${#name} + 1)) 0 "$name"
	head -c $(((4 - (110 + ${#name} + 1) % 4) % 4)) /dev/zero
	[ -z "${3:-}" ] || cat "$3"
	head -c $(((4 - bytes % 4) % 4)) /dev/zero
}
{
	for folder in dev proc sys tmp; do entry $folder $((0040755)); done
	for program in init $programs; do
		$cross-strip "$out/$program" -o "$out/$program.stripped"
		entry "$program" $((0100755)) "$out/$program.stripped"
	done
	entry commands $((0100644)) "$out/commands"
	entry vectors.txt $((0100644)) host/kymo-filter/tests/vectors.txt
	entry 'TRAILER!!!' 0
} >"$out/initramfs"

begin=$SECONDS
timeout --kill-after=5 "$guest_s" lab/vm arm64 -smp 2 -m 768 -serial "file:$out/console" -initrd "$out/initramfs" \
	-append 'console=ttyAMA0 loglevel=7 print-fatal-signals=1 panic=-1 rdinit=/init' </dev/null 2>"$out/qemu.log"
status=$?
tr -d '\r' <"$out/console" >"$out/text"
if ! grep -q '^== end$' "$out/text"; then
	sed 's/^/    /' "$out/qemu.log"
	tail -n 20 "$out/text" | sed 's/^/    /'
	result "the guest runs to its end" 1 "status $status after $((SECONDS - begin)) s; its console is in $out/console"
fi

for at in "${!names[@]}"; do
	sed -n "/^== $at\$/,/^-- $at /p" "$out/text" >"$out/part"
	grep -E '^\[ *[0-9]+\.[0-9]+\] ' "$out/part" >"$out/kernel_said"
	said=$(grep -vE '^(==|--) |^\[ *[0-9]+\.[0-9]+\] |^(rseq|portable) [a-z_0-9]+ [0-9]+$' "$out/part")
	read -r _ _ code seconds < <(tail -n 1 "$out/part")
	[ -z "$said" ] || printf '%s\n' "$said"
	if ! grep -q "^-- $at 0 " "$out/part"; then
		sed 's/^/    /' "$out/kernel_said"
		result "${names[at]}" 1 "status ${code:-none} after ${seconds:-?} s"
	elif [ "${rings[at]}" != - ] && ! grep -qE "(^|[( ])${rings[at]}([:) ]|\$)" "$out/part"; then
		result "${names[at]}" 1 "it did not use the ${rings[at]} ring"
	else
		result "${names[at]}, $seconds s" 0
	fi
done
grep -E '^(rseq|portable) [a-z_0-9]+ [0-9]+$' "$out/text" >"$out/counts"
if [ -s "$out/counts" ]; then
	emit/tests/cost.sh --counts "$out/counts" emit/tests/cost.aarch64.expect
	result "what a record costs, in instructions" $?
fi
echo "the guest took $((SECONDS - begin)) s"
finish
