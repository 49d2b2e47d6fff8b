#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# libkymo with musl, statically linked: builds without a warning, and writes what it should, into the rseq ring where the
# kernel has restartable sequences. MUSL_CC: another compiler for musl than musl-gcc.
set -eu
cd "$(dirname "$0")/../.."
cc=${MUSL_CC:-musl-gcc}
out=build/musl
# musl comes without the kernel's headers.
kernel="-idirafter /usr/include -idirafter /usr/include/$(gcc -print-multiarch)"
make -s -C emit OUT="$PWD/$out" CC="$cc" CFLAGS="-O2 -g -Werror $kernel" "$PWD/$out/libkymo.a"
for test in sequence edge context stress; do
	# shellcheck disable=SC2086 # a compiler and its options
	$cc -static -std=c11 -O2 $kernel -Iemit/include emit/tests/$test.c -o $out/$test $out/libkymo.a -pthread
done
# Where this kernel has restartable sequences, each program has to say that it used them: libkymo could fall back unseen.
has_rseq=
[ "$(KYMO_RING=rseq build/tests/edge-gcc 2>/dev/null)" != "full rings hold (rseq)" ] || has_rseq=1
for ring in rseq portable; do
	export KYMO_RING=$ring
	for program in sequence edge context "stress 1000000 1048576 --move --pace"; do
		# shellcheck disable=SC2086 # a program and its arguments
		$out/$program | tee $out/log
		[ $ring = rseq ] && [ -z "$has_rseq" ] || grep -q $ring $out/log || {
			echo "musl: $program did not use the $ring ring"
			exit 1
		}
	done
done
