#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs into a folder of its own, builds every example against that with pkg-config alone, records each, and compares
# the trace with examples/expect/. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KYMO_RUNTIME_DIR=$work/run
passed=0 failed=0

check() {
	local name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		echo "FAILED $name"
		failed=$((failed + 1))
	fi
}

check "make sql" make -s sql
check "make install" make -s install PREFIX="$work/kymo" >/dev/null
for file in bin/kymo lib/libkymo.a lib/libkymo.so lib/pkgconfig/kymo.pc include/kymo/tracepoint.h share/man/man1/kymo.1 \
	include/trace.h lib/libkymo-posix.a lib/pkgconfig/kymo-posix.pc share/man/man3/posix_trace_event.3 share/man/man0p/trace.h.0p share/man/man1/kymo-record.1 share/bash-completion/completions/kymo share/zsh/site-functions/_kymo lib/kymo/kymo-sql; do
	check "$file is installed" test -e "$work/kymo/$file"
done
# Every page that a help text refers to is installed, and every page of kymo is accepted by a formatter.
man=$work/kymo/share/man
references=$("$work/kymo/bin/kymo" docs "$work/pages" && cat "$work"/pages/man1/*.1 | sed 's/\\-/-/g' | grep -o 'kymo-[a-z]*([37])' | sort -u)
check "help texts refer to pages" test -n "$references"
for page in $references; do
	section=${page##*(} name=${page%%(*}
	check "$page is installed" test -e "$man/man${section%)}/$name.${section%)}"
done
accepted() { # page: a formatter has nothing to say about it
	local said
	said=$(groff -man -K utf8 -T utf8 -ww -z "$1" 2>&1) || return 1
	[ -z "$said" ] || { echo "$said" | head -3; return 1; }
	! command -v mandoc >/dev/null || {
		# Pages have no date, so that a build can be repeated.
		said=$(mandoc -T lint -W warning "$1" 2>&1 | grep -v 'missing date')
		[ -z "$said" ] || { echo "$said" | head -3; return 1; }
	}
}
if command -v groff >/dev/null; then
	for page in "$man"/man1/kymo*.1 "$man"/man3/kymo*.3 "$man"/man7/kymo*.7; do
		check "groff accepts $(basename "$page")" accepted "$page"
	done
else
	echo "SKIP man pages: groff is not installed"
fi
check "man shows kymo-filter(7)" sh -c "MANPATH='$man' man 7 kymo-filter | grep -q 'filter language'"
export PATH=$work/kymo/bin:$PATH PKG_CONFIG_PATH=$work/kymo/lib/pkgconfig LD_LIBRARY_PATH=$work/kymo/lib
mkdir "$work/bin"
check "examples build" make -s -C examples OUT="$work/bin" CFLAGS='-O2 -Wall -Wextra -Wpedantic -Werror' CXXFLAGS='-O2 -Wall -Wextra -Werror'

check "examples of POSIX Trace build" make -s -C examples/posix OUT="$work/bin" CFLAGS='-O2 -Wall -Wextra -Werror'
check "POSIX Trace, first" sh -c "'$work/bin/first' | diff examples/posix/expect/first.txt -"
check "POSIX Trace, filter" sh -c "'$work/bin/filter' | diff examples/posix/expect/filter.txt -"
check "POSIX Trace, log" sh -c "'$work/bin/log' '$work/posix.log' && '$work/bin/log' -r '$work/posix.log' | grep -v flush | diff examples/posix/expect/log.txt -"
check "kymo read of a POSIX Trace log" sh -c "[ \$(kymo read '$work/posix.log' --event step | wc -l) = 3 ]"
if command -v babeltrace2 >/dev/null; then
	check "kymo read --to-ctf" kymo read "$work/posix.log" --to-ctf "$work/posix.trace"
	check "babeltrace2 reads it" sh -c "[ \$(babeltrace2 '$work/posix.trace' | grep -c ' step:') = 3 ]"
fi

if command -v cmake >/dev/null; then
	check "CMake finds kymo" sh -c "cmake -S examples/cmake -B '$work/cmake' -DCMAKE_PREFIX_PATH='$work/kymo' >/dev/null && cmake --build '$work/cmake' >/dev/null"
	check "a program that CMake built is recorded" sh -c "kymo record -q -o '$work/cmake.trace' -- '$work/cmake/hello' >/dev/null && kymo read '$work/cmake.trace' | grep -q hello"
	check "the same, static" sh -c "kymo record -q -o '$work/cmake2.trace' -- '$work/cmake/hello-static' >/dev/null && kymo read '$work/cmake2.trace' | grep -q hello"
	check "POSIX Trace, built by CMake" sh -c "'$work/cmake/posix' | diff examples/posix/expect/first.txt -"
	mkdir "$work/other"
	printf 'cmake_minimum_required(VERSION 3.13)\nproject(x NONE)\nfind_package(kymo 9 REQUIRED)\n' >"$work/other/CMakeLists.txt"
	check "CMake refuses a later version" sh -c "! cmake -S '$work/other' -B '$work/other' -DCMAKE_PREFIX_PATH='$work/kymo' >/dev/null 2>&1"
else
	echo "SKIP CMake: cmake is not installed"
fi

# One program needs no pkg-config: -lkymo is all.
if [ "$(id -u)" = 0 ]; then
	check "cc hello.c -lkymo" cc examples/hello.c -I"$work/kymo/include" -L"$work/kymo/lib" -lkymo -o "$work/bin/plain"
fi

same_as() { # example: what it recorded, without what changes from run to run
	kymo record -q -o "$work/$1.trace" -- "$work/bin/$1" >/dev/null || return 1
	kymo read "$work/$1.trace" --json | sed -E 's/"late_ns":-?[0-9]+/"late_ns":0/' |
		python3 -c '
import json, sys
for line in sys.stdin:
    record = json.loads(line)
    print(record["event"], json.dumps(record["fields"], separators=(", ", "=")))' >"$work/$1.txt" || return 1
	[ -z "${UPDATE:-}" ] || cp "$work/$1.txt" "examples/expect/$1.txt"
	diff "examples/expect/$1.txt" "$work/$1.txt"
}
for example in hello enums fields enabled realtime cplusplus ffi; do
	check "example $example" same_as $example
done
check "kymo-sql is found where it is installed" kymo export "$work/hello.trace" --format parquet -o "$work/tables"
# Without it: said by the installation, and by the export.
mkdir "$work/alone"
cp "$work/kymo/bin/kymo" "$work/alone/kymo"
check "an installation without kymo-sql" sh -c "scripts/install.sh '' '$work/without' '$work/alone/kymo' | grep 'make sql' >/dev/null"
check "it installs no kymo-sql" test ! -e "$work/without/lib/kymo/kymo-sql"
check "its export names the next step" sh -c "'$work/without/bin/kymo' export '$work/hello.trace' --format parquet -o '$work/other' 2>&1 | grep -q 'make sql'"
scripts/install.sh --remove '' "$work/without" >/dev/null
check "example version" sh -c "'$work/bin/version' | grep -q '^libkymo [0-9]'"

check "make uninstall" make -s uninstall PREFIX="$work/kymo" >/dev/null
left=$(find "$work/kymo" -type f -o -type l)
check "uninstall leaves nothing behind: $left" test -z "$left"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
