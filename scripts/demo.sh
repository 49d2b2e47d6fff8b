#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The demonstration: records every allocation of a gcc compilation, then looks at the trace. Called by `make demo` with KYMO set.
set -eu
cd "$(dirname "$0")/.."
out=build/demo
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

cat >"$out/program.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
int main(void) { char *text = malloc(100); snprintf(text, 100, "six by nine is %d", 6 * 9); puts(text); free(text); }
C

say '1. Record a program that was never prepared for it: gcc, with every malloc and free of gcc, cc1, as and ld'
echo "   kymo record --with malloc -o $out/trace -- gcc -O2 $out/program.c -o $out/program"
"$KYMO" record --with malloc -o "$out/trace" -- gcc -O2 "$out/program.c" -o "$out/program"

say '2. Read it: time, time since the record before, CPU, process, event, fields'
echo "   kymo read --limit 5 $out/trace"
"$KYMO" read --limit 5 "$out/trace"

say '3. Ask it something: who called what how often'
"$KYMO" read "$out/trace" --fields proc,event | sed -E 's/\[[0-9/]+\]//; s/: *$//' | awk '{n[$1 " " $2]++} END {for (k in n) {
	split(k, p, " "); printf "   %-10s %-22s %10d calls\n", p[1], p[2], n[k]}}' | sort -k1,1 -k3,3nr

say '4. ... and the largest blocks that were asked for'
"$KYMO" read "$out/trace" --event libc:malloc --json | sed -E 's/.*"proc":"([^"]*)".*"size":([0-9]+).*/\2 \1/' | sort -nr | head -n 5 |
	awk '{printf "   %12d bytes by %s\n", $1, $2}'

say 'What happened'
cat <<TEXT
   gcc ran as always; a library was loaded into it and its children, whose tracepoints wrote each call into memory that
   kymo gave them - no system call, no lock. kymo copied that memory to $out/trace, a standard
   CTF trace: babeltrace2 reads it too.
   Next: put tracepoints into your own program (README.md, "Trace your own program").
TEXT
