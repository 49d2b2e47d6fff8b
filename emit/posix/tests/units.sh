#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds and links libkymo-posix for all 64 subsets of its units, without warnings, and runs what a subset can do; those that lack
# what a unit needs must be refused with the reason. Last line: N subsets, N failed.
set -u
cd "$(dirname "$0")/../../.."
top=$PWD work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
units=(ONLINE LOG USER_EVENTS FILTER INHERIT RETRIEVAL)

# subset NUMBER: prints a line where something is wrong.
subset() {
	local number=$1 out=$work/$1 on=" " config rest error
	mkdir -p "$out/include/kymo/posix"
	config=$work/$number.config
	for i in "${!units[@]}"; do
		if [ $((number >> i & 1)) = 1 ]; then
			on="$on${units[i]} "
			echo "CONFIG_KYMO_POSIX_${units[i]}=y"
		else
			echo "# CONFIG_KYMO_POSIX_${units[i]} is not set"
		fi
	done >"$config"
	emit/posix/config.sh "$config" >"$out/include/kymo/posix/config.h" || { echo "$on: config.sh"; return; }
	# One compiler run for each library: what is wrong is in one place.
	error=$(gcc -std=c11 -O0 -fvisibility=hidden -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror -fPIC \
		-I"$out/include" -Iemit/include -shared -Wl,-z,defs emit/posix/*.c emit/platform/linux/*.c -o "$out/lib.so" -pthread 2>&1)
	rest=$?
	if [[ $on != *" ONLINE "* && $on != *" LOG "* ]] && [[ $on =~ USER_EVENTS|FILTER|INHERIT || $on = " " ]]; then
		[ $rest != 0 ] && grep -qE 'needs KYMO_POSIX_ONLINE or KYMO_POSIX_LOG|no unit is chosen' <<<"$error" ||
			echo "$on: is not refused with a reason"
		return
	fi
	[ $rest = 0 ] || { echo "$on: $(grep -m 2 error <<<"$error")"; return; }
	error=$(gcc -std=c11 -O0 -Wall -Wextra -Werror -I"$out/include" -Iemit/include emit/posix/tests/units/units.c "$out/lib.so" -o "$out/units" -pthread 2>&1) ||
		{ echo "$on: units.c: $(grep -m 2 error <<<"$error")"; return; }
	mkdir "$out/runtime"
	(cd "$out" && LD_LIBRARY_PATH=$out KYMO_RUNTIME_DIR=$out/runtime timeout 60 ./units "$top/build/posix/tests/units.log") || echo "$on: does not run"
	rm -rf "$out"
}

# Two workers, each with every other subset.
work() {
	for ((number = $1; number < 64; number += 2)); do subset $number; done
}
# A log for those that only read: made by the complete build.
mkdir -p build/posix/tests
subset 63 >"$work/wrong.2"
work 0 >"$work/wrong.0" &
work 1 >"$work/wrong.1" &
wait
cat "$work"/wrong.?
failed=$(cat "$work"/wrong.? | wc -l)
echo "64 subsets, $failed failed"
[ "$failed" = 0 ]
