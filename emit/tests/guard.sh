#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What the machine code of an enabled tracepoint may contain, read from a compiled one: no locked instruction, no system
# call, no call but to libkymo's out-of-line part, and no more instructions than guard.expect says. x86-64, gcc.
# guard.sh aarch64-linux-gnu-gcc: the same for 64-bit Arm, and guard.aarch64.expect.
set -eu
cd "$(dirname "$0")/../.."
cc=${1:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $($cc -dumpmachine) in
x86_64-*)
	objdump=objdump expect=emit/tests/guard.expect
	forbidden='\block\b|\bsyscall\b|\bxchg\b|\bmfence\b|\bint +\$'
	reached='R_X86_64_(PLT32|PC32|GOTPCREL[X]?|REX_GOTPCRELX)' called='R_X86_64_PLT32'
	;;
aarch64-*)
	objdump=${cc%gcc}objdump expect=emit/tests/guard.aarch64.expect
	forbidden='\s(svc|hvc|brk|dmb|dsb|ld[a]?x[rp][bh]?|st[l]?x[rp][bh]?|(cas|swp|ldadd|ldclr|ldeor|ldset)[a-z]*)\s'
	reached='R_AARCH64_(CALL26|JUMP26|ADR_GOT_PAGE)' called='R_AARCH64_(CALL26|JUMP26)'
	;;
*) echo "SKIP guard: neither x86-64 nor 64-bit Arm"; exit 0 ;;
esac

cat >"$work/site.c" <<'C'
#include <kymo/tracepoint.h>
KYMO_EVENT(guard, one, (u64, value))
KYMO_EVENT(guard, four, (u64, a), (u32, b), (f64, c), (i32, d), (str, e))
void site_one(uint64_t value) { kymo_trace(guard, one, value); }
void site_four(uint64_t a, const char *e) { kymo_trace(guard, four, a, 2, 3.0, 4, e); }
C
$cc -std=c11 -O2 -Iemit/include -c "$work/site.c" -o "$work/site.o"
$objdump -dr --no-show-raw-insn "$work/site.o" >"$work/all"

# Functions on the path, without the constructor.
awk '/^[0-9a-f]+ <.*>:/ {keep = ($0 ~ /kymo__emit|kymo__write|site_/)} keep' "$work/all" >"$work/path"
if grep -v 'xchg *%ax,%ax' "$work/path" | grep -nE "$forbidden"; then
	echo "a forbidden instruction is on the record path" >&2
	exit 1
fi
# Weakly ordered: each sequence reads the clock behind one isb, and publishes by one stlr.
if [ "$objdump" != objdump ]; then
	for instruction in '	isb' '	mrs\s+x13, cntvct_el0' '	stlr' 'R_AARCH64_ADD_ABS_LO12_NC\s+__rseq_cs'; do
		grep -cE "$instruction" "$work/path"
	done | sort -u >"$work/ordered"
	[ "$(wc -l <"$work/ordered")" = 1 ] && [ "$(cat "$work/ordered")" -ge 2 ] ||
		{ echo "not one isb, clock read and stlr in each sequence" >&2; exit 1; }
fi
# What is called or jumped to outside the object: nothing but strlen, for strings.
outside=$(grep -oE "$reached\s+[a-z_]+" "$work/path" | awk '{print $2}' |
	grep -vE '^(kymo__|_?__rseq|kymo_)' | sort -u)
if [ -n "$outside" ] && [ "$outside" != strlen ]; then
	echo "the record path reaches: $outside" >&2
	exit 1
fi
# Forbidden symbols in libkymo's out-of-line part of it.
objects=build/emit/obj
if [ "$objdump" != objdump ]; then
	objects=$work
	for name in entry record filter segs; do
		$cc -std=c11 -O2 -fPIC -fvisibility=hidden -DKYMO_VERSION='"0"' -Iemit/include -c emit/src/$name.c -o "$work/$name.o"
	done
fi
$objdump -dr --no-show-raw-insn "$objects"/{entry,record,filter,segs}.o >"$work/record"
if grep -oE "$called\s+(malloc|calloc|realloc|free|pthread_[a-z_]+|printf|fprintf|abort|exit|write|mmap)\b" "$work/record"; then
	echo "libkymo's out-of-line record path reaches a forbidden function" >&2
	exit 1
fi

# Instructions per function: a table in git. A change is looked at before it is taken (UPDATE=1).
awk '/^[0-9a-f]+ <.*>:/ {name = $2; gsub(/[<>:]/, "", name); sub(/\..*/, "", name); next}
     /^ +[0-9a-f]+:/ {count[name]++}
     END {for (n in count) print n, count[n]}' "$work/path" | sort >"$work/counts"
[ -z "${UPDATE:-}" ] || cp "$work/counts" $expect
status=0
while read -r name most; do
	now=$(awk -v n="$name" '$1 == n {print $2}' "$work/counts")
	if [ -z "$now" ] || [ "$now" -gt "$most" ]; then
		echo "$name has ${now:-no} instructions, $most are allowed (UPDATE=1 $0 takes a new table)" >&2
		status=1
	fi
done <$expect
exit $status
