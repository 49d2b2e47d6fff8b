#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What each path of a record costs in instructions, held against cost.expect: the most that it may cost, 3 % above what was
# counted. Who makes a path dearer sees it here; UPDATE=1 takes a new table, and the commit says why. x86-64, gcc.
# cost.sh [PROGRAM [EXPECT]]; or cost.sh --counts FILE EXPECT for what was counted on another machine (aarch64.sh).
set -eu
cd "$(dirname "$0")/../.."
expect=${2:-emit/tests/cost.expect}
work=$(mktemp)
trap 'rm -f "$work"' EXIT
if [ "${1:-}" = --counts ]; then
	cat "$2" >"$work"
	expect=$3
else
	[ "$(uname -m)" = x86_64 ] || { echo "SKIP cost: not x86-64"; exit 0; }
	for ring in rseq portable; do
		KYMO_RING=$ring "${1:-build/tests/cost-gcc}"
	done >"$work"
fi
if [ -n "${UPDATE:-}" ]; then
	awk '{print $1, $2, int($3 * 1.03 + 0.5)}' "$work" >"$expect"
fi
status=0
while read -r ring name most; do
	now=$(awk -v r="$ring" -v n="$name" '$1 == r && $2 == n {print $3}' "$work")
	if [ -z "$now" ] || [ "$now" -gt "$most" ] || [ "$now" -lt $((most / 2)) ]; then
		echo "$ring $name: ${now:-no} instructions, $most are allowed, and not less than half (UPDATE=1 takes a new table)" >&2
		status=1
	fi
done <"$expect"
exit $status
