#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What lab/table has done inside of a virtual machine; results go to $VM_OUT.
#
#	guest.sh MODULE wakeup LOOPS HOLD_US       kymo wakeup beside a load that holds a spinlock for so long, again and again
#	guest.sh MODULE npt LOOPS                  npt's loop inside of the kernel, with interrupts on, preemption off, interrupts off
#	guest.sh MODULE hwlat TRIALS US            delays of so long in interrupts under kymo hwlat, one a second; and as long without
#	guest.sh MODULE faults KIND TRIALS US      delays of KIND (irqs, preempt) under kymo wakeup --explain, one run each
#	guest.sh MODULE throttling TRIALS          is the default found, trial by trial
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

# The test sleeps for the last tenth of each second, and a delay that is ordered then comes 300 ms later.
hwlat() {
	local trial
	load_module
	"$KYMO" hwlat -c 0 --width 900ms --threshold 100us --duration "$1s" -o "$VM_OUT/hwlat-none.json" >/dev/null
	"$KYMO" hwlat -c 0 --width 900ms --threshold 100us --duration "$(($1 + 1))s" -o "$VM_OUT/hwlat.json" >/dev/null &
	for ((trial = 0; trial < $1; trial++)); do
		echo "later 0 $2 hardirq" >$control
		sleep 0.9
	done
	wait
}

# One delay in the middle of each run; the tracer and the test are up when the first samples are taken.
faults() {
	local trial
	load_module
	for ((trial = 0; trial < $2; trial++)); do
		{
			sleep "0.$((5 + trial % 4))"
			echo "delay 0 $3 $1" >$control
		} &
		"$KYMO" wakeup -c 0 -l 1200 --explain 3 -o "$VM_OUT/fault-$trial.json" >"$VM_OUT/fault-$trial.txt" 2>&1 || true
		wait
	done
}

throttling() {
	local trial
	for ((trial = 0; trial < $1; trial++)); do
		"$KYMO" npt -c 0 -l 1000 >/dev/null 2>"$VM_OUT/throttling-$trial.txt" || true
	done
	cat /proc/sys/kernel/sched_rt_runtime_us >"$VM_OUT/runtime_us"
}

case $what in
wakeup | npt | hwlat | faults | throttling) "$what" "$@" ;;
*) echo "guest.sh: '$what' is not known" >&2; exit 2 ;;
esac
