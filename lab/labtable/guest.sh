#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What lab/table has done inside of a virtual machine; results go to $VM_OUT.
#
#	guest.sh MODULE wakeup LOOPS HOLD_US       kymo wakeup beside a load that holds a spinlock for so long, again and again
#	guest.sh MODULE npt LOOPS                  npt's loop inside of the kernel, with interrupts on, preemption off, interrupts off
#	guest.sh MODULE hwlat TRIALS US            delays of so long in interrupts under kymo hwlat, one a second; and as long without
#	guest.sh MODULE faults KIND TRIALS US      delays of KIND (irqs, preempt, hardirq, frequency) under kymo wakeup --explain
#	guest.sh MODULE causes TRIALS VICTIM       delays of lab/labfaults/told.py that need a guest, recorded by kymo record
#	guest.sh MODULE throttling TRIALS          is the default found, trial by trial
#	guest.sh MODULE tracers ROUNDS LOOPS       lab/table's npt under tracers, here
set -eu
module=$1 what=$2
shift 2
control=/sys/kernel/debug/kymo_npt/control
export KYMO_RUNTIME_DIR=/run/kymo-lab
mkdir -p -m 700 $KYMO_RUNTIME_DIR

# /sbin/modprobe is there in every guest: kmod's or busybox's, both of which are insmod, too, by that name.
load_module() {
	(exec -a insmod /sbin/modprobe "$module")
}

# wait_for_probe PID: until kymo has started what measures, or has ended; `slot` is then what measures. Without other programs: a busy
# probe leaves them no time.
wait_for_probe() {
	local child= file
	slot=
	while kill -0 "$1" 2>/dev/null; do
		for file in /proc/"$1"/task/*/children; do
			read -r child <"$file" || true
			slot=${child%% *}
			[ -z "$child" ] || break 2
		done
		nap 0.02
	done
	nap 0.1
}

# nap SECONDS: without another program, for which a busy probe leaves no time.
exec 9<> <(:)
nap() {
	read -r -t "$1" -u 9 _ || true
}

hold_in_turns() { # KIND US: until it is killed
	while echo "delay 0 $2 $1" >$control; do :; done
}

wakeup() {
	local holder
	load_module
	hold_in_turns lock "$2" &
	holder=$!
	"$KYMO" wakeup -c 0 -l "$1" --dma-latency 0 -o "$VM_OUT/wakeup.json" >/dev/null
	kill $holder
	wait $holder 2>/dev/null || true
}

npt() {
	local mode
	load_module
	for mode in on preempt irqs; do
		echo "run 0 $1 $mode" >$control
		cat ${control%control}result >"$VM_OUT/npt-$mode.txt"
	done
}

# The test sleeps for the last tenth of each window of 200 ms. A delay can be ordered only then, and comes 60 ms later.
hwlat() {
	local trial options="-c 0 --window 200ms --width 180ms --threshold 100us"
	load_module
	# shellcheck disable=SC2086 # options
	"$KYMO" hwlat $options --duration "$(($1 * 200))ms" -o "$VM_OUT/hwlat-none.json" >/dev/null
	# shellcheck disable=SC2086
	"$KYMO" hwlat $options --duration "$((($1 * 2 + 5) * 200))ms" -o "$VM_OUT/hwlat.json" >/dev/null &
	wait_for_probe $!
	nap 0.4
	for ((trial = 0; trial < $1; trial++)); do
		echo "later 0 $2 hardirq" >$control
		nap 0.1
	done
	wait $!
	cat ${control%control}delays >"$VM_OUT/delays"
}

# slot_is_on PID: the test of this kymo runs in slots, each with a probe of its own; waits until one measures.
slot_is_on() {
	while kill -0 "$1" 2>/dev/null; do
		wait_for_probe "$1"
		! measures "$slot" || return 0
	done
}

# measures PID: one of its threads has slept and come back a hundred times.
measures() {
	local file key value
	for file in /proc/"$1"/task/*/status; do
		while read -r key value; do
			[ "$key" != voluntary_ctxt_switches: ] || [ "$value" -lt 100 ] || return 0
		done 2>/dev/null <"$file"
	done
	return 1
}

# The interval is shorter than the delay, so that each delay makes a sample late. Ten in each run, since twenty samples are explained.
faults() {
	local round trial left=$2 verb=delay
	load_module
	[ "$1" != hardirq ] || verb=later
	for ((round = 0; left > 0; round++)); do
		"$KYMO" wakeup -c 0 -i 300us -d 6s --explain 20 --no-check -o "$VM_OUT/faults-$round.json" >"$VM_OUT/faults-$round.txt" 2>&1 &
		for ((trial = 0; trial < 10 && left > 0; trial++, left--)); do
			nap "0.1$((trial * 3 % 10))"
			slot_is_on $!
			kill -0 $! 2>/dev/null || break
			echo "$verb 0 $3 $1" >$control
			[ $verb = delay ] || nap 0.1
		done
		wait $! || cat "$VM_OUT/faults-$round.txt" >&2
	done
	cat ${control%control}delays >"$VM_OUT/delays"
}

# The questions are asked outside, where it is faster.
causes() {
	load_module
	echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
	KYMO_VICTIM=$2 python3 -B "$(dirname "$0")/../labfaults/record.py" "$KYMO" "$VM_OUT" "$1"
}

throttling() {
	local trial
	for ((trial = 0; trial < $1; trial++)); do
		"$KYMO" npt -c 0 -l 1000 >/dev/null 2>"$VM_OUT/throttling-$trial.txt" || true
	done
	cat /proc/sys/kernel/sched_rt_runtime_us >"$VM_OUT/runtime_us"
}

# An emulated processor does not announce what its counter is, and in counted time it is as steady as can be.
tracers() {
	KYMO_CLOCK=tsc "$(dirname "$0")/../table" --only npt --rounds "$1" --loops "$2" --out "$VM_OUT/lab" >"$VM_OUT/table.txt"
}

case $what in
wakeup | npt | hwlat | faults | causes | throttling | tracers) "$what" "$@" ;;
*) echo "guest.sh: '$what' is not known" >&2; exit 2 ;;
esac
