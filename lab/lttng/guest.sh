#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# guest.sh MODULES EVENTS ROUNDS: in a guest (lab/vm run): records the kernel with LTTng while a few programs sleep, wait for each other and
# read files; the trace is in $VM_OUT/trace. MODULES: the folder of `lab/vm lttng`. EVENTS: all, or few (a trace of a few KiB).
set -eu
modules=$1 events=$2 rounds=$3
release=$(uname -r)
mkdir -p "/lib/modules/$release"
mount --bind "$modules/lib/modules/$release" "/lib/modules/$release"
export LTTNG_HOME=/run/home
mkdir -p "$LTTNG_HOME"
lttng-sessiond >"$LTTNG_HOME/log" 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon || true' EXIT
tries=0
until lttng --no-sessiond list --kernel >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ $tries -ge 600 ] || ! kill -0 $daemon; then
		cat "$LTTNG_HOME/log" >&2
		dmesg | tail -n 20 >&2
		exit 1
	fi
	sleep 0.1
done
quietly() {
	lttng --no-sessiond "$@" >/dev/null
}
quietly create kernel --output=/run/trace
case $events in
all)
	quietly enable-channel --kernel --subbuf-size=1M --num-subbuf=8 channel
	quietly enable-event --kernel --channel=channel 'sched_*,irq_*,lttng_statedump_process_state,lttng_statedump_start,lttng_statedump_end'
	quietly enable-event --kernel --channel=channel --syscall --all
	;;
few)
	quietly enable-channel --kernel --subbuf-size=4k --num-subbuf=64 channel
	quietly enable-event --kernel --channel=channel sched_switch,sched_waking
	quietly enable-event --kernel --channel=channel --syscall clock_nanosleep
	;;
esac
[ "$events" = few ] || quietly add-context --kernel --channel=channel --type=tid
quietly start
for ((round = 0; round < rounds; round++)); do
	# Longer than any other call of it, where reading the program from the disk takes a tenth of a second.
	if [ "$events" = few ]; then sleep 0.02; else sleep 1; fi
	[ "$events" = few ] || seq 2000 | sort -n | tail -n 1 >/dev/null
done
quietly stop
quietly destroy
cp -r /run/trace "$VM_OUT/trace"
