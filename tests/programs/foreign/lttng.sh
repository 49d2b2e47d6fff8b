#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# lttng.sh PROGRAM RECORDS OUT CHANNEL-OPTIONS...: records PROGRAM with a session daemon of its own, into OUT.
# Run in a mount namespace with an empty /run where the caller is root, whose daemon has fixed places there.
set -eu
program=$1 records=$2 out=$3
shift 3
mkdir -p "$LTTNG_HOME"
lttng-sessiond --no-kernel >"$LTTNG_HOME/log" 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon || true' EXIT
tries=0
until lttng --no-sessiond list >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ $tries -lt 300 ] || { cat "$LTTNG_HOME/log" >&2; exit 1; }
	sleep 0.1
done
lttng --no-sessiond create foreign --output="$out" >/dev/null
lttng --no-sessiond enable-channel --userspace channel "$@" >/dev/null
lttng --no-sessiond enable-event --userspace --channel=channel 'foreign:*' >/dev/null
lttng --no-sessiond add-context --userspace --channel=channel --type=vpid --type=vtid --type=procname >/dev/null
lttng --no-sessiond start >/dev/null
LTTNG_UST_REGISTER_TIMEOUT=-1 "$program" "$records"
lttng --no-sessiond stop >/dev/null
lttng --no-sessiond destroy >/dev/null
