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
for ring in rseq portable; do
	export KYMO_RING=$ring
	$out/sequence
	$out/edge
	$out/context
	$out/stress 1000000 1048576 --move --pace
done
