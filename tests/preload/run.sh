#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# run.sh: programs that must behave the same under the preload helpers as without them: each alone, both, and, where $KYMO
# names the command, while they are traced. One line per case; exits 0 when nothing failed.
#
#   BUILD  where the helpers are      (default: <repo>/build/emit)
#   KYMO   the kymo command           (default: none; the traced cases are left out)
#   CC CXX compilers of the victims   (default: cc c++)
#   ONLY   extended regular expression on the names of the cases to run

set -u
here=$(cd "$(dirname "$0")" && pwd)
export here
BUILD=${BUILD:-$here/../../build/emit}
BUILD=$(cd "$BUILD" && pwd) || exit 2
KYMO=${KYMO:-}
[ -z "$KYMO" ] || KYMO=$(realpath "$KYMO") || exit 2
CC=${CC:-cc}
CXX=${CXX:-c++}
work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-preload.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/run"
# A runtime directory of our own: no session of anybody else's attaches.
export KYMO_RUNTIME_DIR=$work/run work CC CXX LC_ALL=C
passed=0 failed=0 skipped=0
malloc=$BUILD/libkymo-malloc.so
pthread=$BUILD/libkymo-pthread.so

passed() {
	passed=$((passed + 1))
	printf 'ok      %s\n' "$1"
}

failed() {
	failed=$((failed + 1))
	printf 'FAILED  %s: %s\n' "$1" "$2"
	[ ! -s "$work/err" ] || tail -n 5 "$work/err" | cut -c 1-200 | sed 's/^/        /'
}

skipped() {
	skipped=$((skipped + 1))
	printf 'skipped %s: %s\n' "$1" "$2"
}

wanted() {
	[[ $1 =~ ${ONLY:-.} ]]
}

# have NAME COMMAND...: whether the case NAME can run; else it is skipped in sight.
have() {
	local name=$1 command
	shift
	for command; do
		if ! command -v "$command" >"$work/null" 2>&1; then
			skipped "$name" "no $command"
			return 1
		fi
	done
}

# run PRELOAD COMMAND...: its output in out and err, its exit code returned.
run() {
	local preload=$1
	shift
	# The braces take what the shell says of a command that a signal ended.
	{
		timeout -k 5 "${LIMIT:-300}" env ${preload:+LD_PRELOAD="$preload"} "$@" \
			>"$work/out" 2>"$work/err" </dev/null
	} 2>"$work/null"
}

# compare NAME COMMAND...: the same output and exit code with each helper as without.
compare() {
	local name=$1 plain_code code kind preload
	shift
	wanted "$name" || return 0
	run "" "$@"
	plain_code=$?
	cp "$work/out" "$work/plain"
	for kind in malloc pthread both; do
		case $kind in
		malloc) preload=$malloc ;;
		pthread) preload=$pthread ;;
		both) preload="$malloc $pthread" ;;
		esac
		run "$preload" "$@"
		code=$?
		if [ $code -ne $plain_code ]; then
			failed "$name, $kind" "exit code $code, without the helper $plain_code"
		elif ! cmp -s "$work/out" "$work/plain"; then
			failed "$name, $kind" "its output differs"
		else
			passed "$name, $kind"
		fi
	done
}

# victim NAME COMPILER ARGUMENTS...: builds $work/NAME, says so when that fails.
victim() {
	local name=$1
	shift
	if ! "$@" -o "$work/$name" >"$work/out" 2>"$work/err"; then
		failed "$name" "does not compile"
		return 1
	fi
}

for source in alloc threads fork locks hold churn endless; do
	victim $source "$CC" -O1 -g -fno-builtin "$here/$source.c" -pthread
done
victim own_malloc "$CC" -O1 -g -fno-builtin -rdynamic "$here/own_malloc.c" -pthread
victim alloc_static "$CC" -O1 -g -fno-builtin -static "$here/alloc.c" -pthread
victim noisy_dlsym.so "$CC" -O1 -g -shared -fPIC "$here/noisy_dlsym.c"
victim cxx "$CXX" -std=c++17 -O1 -g "$here/cxx.cc" -pthread

. "$here/survive.sh"
if [ -n "$KYMO" ]; then
	. "$here/traced.sh"
else
	skipped "traced cases" "KYMO is not set"
fi

printf '%d passed, %d failed' $passed $failed
[ $skipped -eq 0 ] || printf ', %d skipped' $skipped
echo
[ $failed -eq 0 ]
