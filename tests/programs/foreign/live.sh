#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# live.sh PROGRAM CONTROL-PORT DATA-PORT LIVE-PORT OUT: a relay daemon and a session daemon of its own, on loopback.
# Standard input says what is done: create NAME BUFFERS (uid or pid), run RECORDS, end NAME, kill-relay; each is
# answered by its first word. All ends with standard input.
# Run in a mount namespace with an empty /run where the caller is root, whose daemons have fixed places there.
set -eu
program=$1 control=$2 data=$3 live=$4 out=$5
mkdir -p "$LTTNG_HOME"
lttng-relayd --control-port="tcp://127.0.0.1:$control" --data-port="tcp://127.0.0.1:$data" \
	--live-port="tcp://127.0.0.1:$live" --output="$out" >"$LTTNG_HOME/relay.log" 2>&1 &
relay=$!
lttng-sessiond --no-kernel >"$LTTNG_HOME/session.log" 2>&1 &
daemon=$!
finish() {
	kill $daemon 2>/dev/null || true
	wait $daemon || true
	kill $relay 2>/dev/null || true
	wait $relay || true
}
trap finish EXIT
quietly() {
	"$@" >"$LTTNG_HOME/out" 2>&1 || { cat "$LTTNG_HOME/out" "$LTTNG_HOME/relay.log" "$LTTNG_HOME/session.log" >&2; exit 1; }
}
# Until both daemons answer.
tries=0
url=net://127.0.0.1:$control:$data
until lttng --no-sessiond create first --live=200000 --set-url="$url" >/dev/null 2>&1; do
	tries=$((tries + 1))
	# Without its ports the relay daemon has ended.
	kill -0 $relay 2>/dev/null && [ $tries -lt 300 ] || { cat "$LTTNG_HOME/relay.log" "$LTTNG_HOME/session.log" >&2; exit 1; }
	sleep 0.1
done
quietly lttng --no-sessiond destroy first
hostname=$(uname -n)
echo "ready $hostname"
while read -r what which how; do
	case $what in
	create)
		quietly lttng --no-sessiond create "$which" --live=200000 --set-url="$url"
		quietly lttng --no-sessiond enable-channel --userspace "--buffers-$how" channel --subbuf-size=16k --num-subbuf=64
		quietly lttng --no-sessiond enable-event --userspace --channel=channel 'foreign:*'
		quietly lttng --no-sessiond add-context --userspace --channel=channel --type=vpid --type=vtid --type=procname \
			--type=pthread_id
		quietly lttng --no-sessiond start
		;;
	run) LTTNG_UST_REGISTER_TIMEOUT=-1 "$program" "$which" >/dev/null ;;
	end)
		quietly lttng --no-sessiond stop "$which"
		quietly lttng --no-sessiond destroy "$which"
		;;
	kill-relay) kill -KILL $relay ;;
	esac
	echo "$what"
done
