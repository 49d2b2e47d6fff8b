#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of lab/vm with real guests. Last line: N passed, N failed, N skipped. KYMO_VM_TESTS names some of them.
set -u
vm=$(cd "$(dirname "$0")/.." && pwd)/vm
passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# expect WHAT ACTUAL PATTERN: PATTERN is one of bash's.
expect() {
	# shellcheck disable=SC2053 # a pattern is meant
	if [[ $2 == $3 ]]; then
		passed=$((passed + 1))
	else
		printf 'FAILED %s: expected %s, got %s\n' "$1" "$3" "$2"
		if [ -s err ]; then sed 's/^/  the last that was said: /' err | tail -n 30; fi
		failed=$((failed + 1))
	fi
}

skip() {
	printf 'skipped: %s\n' "$1"
	skipped=$((skipped + 1))
}

# status COMMAND...: its outputs go to `out` and `err`.
# QEMU that fails by an assertion of its own, which an emulated processor does at times on a busy machine, is tried once more.
status() {
	local code log
	"$@" >out 2>err </dev/null
	code=$?
	log=$(sed -n 's/^lab\/vm: its console is in //p' err)
	if [ $code = 125 ] && [ -n "$log" ] && grep -q "^qemu-system.*Assertion .* failed" "$log"; then
		echo "QEMU failed, once more: $(head -n 1 "$log")" >&2
		"$@" >out 2>err </dev/null
		code=$?
	fi
	echo $code
}

# Processes of ours and folders that a guest left.
leftovers() {
	pgrep -f "$work/.*console.log" | wc -l
	find "$work" -maxdepth 1 -name 'kymo-vm.*' | wc -l
}

test_kernels() {
	expect 'stock: status' "$(status "$vm" run -- uname -rv)" 0
	expect 'stock: release' "$(cat out)" '*-amd64 #1 SMP PREEMPT_DYNAMIC*'
	expect 'rt: status' "$(status "$vm" run --kernel rt -- uname -rv)" 0
	expect 'rt: release' "$(cat out)" '*-rt-amd64 #1 SMP PREEMPT_RT*'
}

test_statuses() {
	expect 'status 7' "$(status "$vm" run -- sh -c 'exit 7')" 7
	# shellcheck disable=SC2016 # for the guest's shell
	expect 'ended by SIGSEGV' "$(status "$vm" run -- sh -c 'kill -SEGV $$')" 139
	expect 'no such command' "$(status "$vm" run -- /no/such/command)" 127
	expect 'no such kernel' "$(status "$vm" run --kernel best -- true)" 125
	expect 'says which there are' "$(cat err)" '*stock, rt, full or rt-full'
	expect 'a number for --smp' "$(status "$vm" run --smp many -- true)" 125
}

# The kernel repeats its command line on the console: as if it had said so itself.
test_lost_timer() {
	expect 'a lost timer: status' "$(status "$vm" run --append "loglevel=7 said=\"kthread timer wakeup didn't happen\"" -- echo there)" 0
	expect 'a lost timer: output' "$(cat out)" there
	expect 'a lost timer: starts' "$(grep -c 'is started again' err)" 2
}

test_outputs() {
	# shellcheck disable=SC2016 # for the guest's shell
	expect 'outputs: status' "$(status env KYMO_WORD='a  b' TMPDIR="$work" "$vm" run --smp 3 -- bash -c \
		'echo "[$1][$2] $KYMO_WORD $PWD $(nproc)"; echo wrong >&2' name 'x  y' '*')" 0
	expect 'stdout' "$(head -n 1 out)" "\[x  y]\[\*] a  b $work 3"
	expect 'stderr' "$(cat err)" wrong
	expect 'nothing is left' "$(leftovers | paste -sd ' ')" '0 0'
	"$vm" run -- sh -c 'echo early; sleep 100' >live 2>/dev/null &
	local guest=$! waited
	for ((waited = 0; waited < 900; waited++)); do
		[ -s live ] && break
		sleep 0.1
	done
	expect 'output comes while the guest runs' "$(cat live) $(kill -0 $guest && echo running)" 'early running'
	kill -TERM $guest
	wait $guest
	expect 'SIGTERM ends it' $? 143
}

test_large_output() {
	"$vm" run -- yes 2>/dev/null | head -n 1 >out
	expect 'a reader that goes ends the guest' "${PIPESTATUS[*]} $(cat out)" '141 0 y'
	"$vm" run -- sh -c 'head -c 20000000 /dev/zero | tr "\0" x; echo end' >out 2>/dev/null
	expect 'twenty megabytes of output' "$(wc -c <out) $(tail -c 4 out)" '20000004 end'
}

test_files() {
	mkdir -p "with, a comma" kept
	echo there >input
	# shellcheck disable=SC2016 # for the guest's shell
	expect 'files: status' "$(status "$vm" run --out "with, a comma" --share kept -- bash -c \
		'seq 100000 >"$VM_OUT/numbers"; cp input kept/copy; echo changed >input; chmod 700 kept/copy')" 0
	expect '--out has what was written' "$(seq 100000 | cmp - 'with, a comma/numbers' && echo same)" same
	expect '--share has what was written' "$(cat kept/copy)" there
	expect 'the machine keeps its files' "$(cat input)" there
}

test_ends() {
	expect 'timeout' "$(status env TMPDIR="$work" "$vm" run --timeout 6 -- sleep 100)" 124
	expect 'timeout: says so' "$(cat err)" '*(--timeout)*'
	expect 'a panic' "$(status env TMPDIR="$work" "$vm" run -- sh -c 'echo c >/proc/sysrq-trigger')" 125
	expect 'a panic: the console is shown' "$(cat err)" '*sysrq triggered crash*its console is in*'
	expect 'no init' "$(status env TMPDIR="$work" "$vm" run --append rdinit=/none -- true)" 125
	expect 'a command in the background' "$(status env TMPDIR="$work" "$vm" run -- sh -c 'sleep 1000 & echo done')" 0
	# A shell's background commands ignore SIGINT; at a terminal they would not.
	TMPDIR=$work setsid env --default-signal=INT "$vm" run -- sleep 100 >/dev/null 2>&1 &
	local guest=$! waited
	sleep 3
	kill -INT -- -$guest 2>/dev/null
	wait $guest
	expect 'Ctrl-C' $? 130
	TMPDIR=$work "$vm" run -- sleep 100 >/dev/null 2>&1 &
	guest=$!
	sleep 3
	kill -KILL $guest
	wait $guest 2>/dev/null
	for ((waited = 0; waited < 300; waited++)); do
		[ "$(leftovers | head -n 1)" = 0 ] && break
		sleep 0.1
	done
	expect 'killed: QEMU goes too' "$(leftovers | head -n 1)" 0
	rm -rf "$work"/kymo-vm.*
}

# A session's worth of tracefs, and a program that this machine's compiler made.
test_tracing() {
	cat >busy.c <<-'END'
	#include <stdio.h>
	#include <time.h>
	int main(void)
	{
		struct timespec a, b;
		volatile int x = 0;
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < 20000000; i++)
			x += i;
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("%lld\n", (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec);
	}
	END
	cc -O1 -o busy busy.c || { expect 'the compiler' failed works; return; }
	cat >tracing.sh <<-'END'
	set -e
	instance=/sys/kernel/tracing/instances/lab
	mkdir $instance
	echo x86-tsc >$instance/trace_clock
	echo 1 >$instance/events/sched/sched_switch/enable
	./busy >/dev/null
	echo 0 >$instance/tracing_on
	grep -c 'prev_comm=busy' $instance/trace
	grep -o '\[x86-tsc\]' $instance/trace_clock
	rmdir $instance
	END
	for kernel in stock rt; do
		expect "$kernel: tracing" "$(status "$vm" run --kernel $kernel -- bash tracing.sh)" 0
		expect "$kernel: records and clock" "$(paste -sd ' ' out)" '[1-9]* \[x86-tsc\]'
	done
	expect 'modules can be loaded' "$(status "$vm" run -- sh -c '/sbin/modprobe dummy && ls -d /sys/module/dummy')" 0
}

# The module of the laboratory, in both kernels: its loop, and what it refuses.
test_module() {
	local kernel module
	for kernel in stock rt; do
		expect "$kernel: the module builds" "$(status "$vm" module $kernel "$(dirname "$vm")/npt-module")" 0
		module=$(cat out)
		expect "$kernel: npt in the kernel" "$(status "$vm" run --icount --kernel $kernel --out npt -- bash -c '
			control=/sys/kernel/debug/kymo_npt/control
			"$1" "$2" npt 20000 && echo "delay 0 100 frequency" >$control &&
			cat /sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq >"$VM_OUT/khz" &&
			! echo "delay 0 1000000 irqs" >$control' \
			name "$(dirname "$vm")/labtable/guest.sh" "$module")" 0
		expect "$kernel: all loops are there" "$(grep -h 'loops done' npt/npt-*.txt | paste -sd ' ')" \
			'20000 loops done. 20000 loops done. 20000 loops done.'
		expect "$kernel: the frequency is another one" "$(cat npt/khz)" 800000
		expect "$kernel: a delay that is too long is refused" "$(cat err)" '*Numerical result out of range*'
	done
	expect 'a folder without Kbuild' "$(status "$vm" module stock "$work")" 125
	expect 'no headers of built kernels' "$(status "$vm" module full "$(dirname "$vm")/npt-module")" 125
}

# An emulated processor does not announce that its counter is steady: it is a clock where it is asked for.
test_clock() {
	if [ ! -x "${KYMO:-}" ]; then
		skip "the clock of a guest: KYMO names no program"
		return
	fi
	cat >clock.sh <<-'END'
	export KYMO_RUNTIME_DIR=/run/kymo-clock
	record() { "$KYMO" record -u npt -o "/run/$1" -- "$KYMO" npt -c 0 -l 1000 >/dev/null && grep -o "$2" "/run/$1/.kymo.json" | head -n 1; }
	record one '"ring": *"[a-z]*"'
	KYMO_CLOCK=tsc record two '"ring": *"[a-z]*"'
	END
	expect 'the clock of a guest: status' "$(status "$vm" run --icount -- bash clock.sh)" 0
	expect 'the clock of a guest: rings' "$(tr -d ' ' <out | paste -sd ' ')" '"ring":"portable" "ring":"rseq"'
}

# What kymo hwlat --kernel changes is the whole machine's: it is back after a SIGKILL, too, and the tracer ends.
test_killed_hwlat() {
	if [ ! -x "${KYMO:-}" ]; then
		skip 'kymo hwlat --kernel that is killed: KYMO names no program'
		return
	fi
	cat >killed.sh <<-'END'
	export KYMO_RUNTIME_DIR=/run/kymo-killed
	cd /sys/kernel/tracing
	values() { cat hwlat_detector/window hwlat_detector/width tracing_thresh | paste -sd ' '; }
	instances() { ls -d instances/kymo-* 2>/dev/null | wc -l; }
	before=$(values)
	# Whatever hangs, this says where, before the guest's time is over.
	(sleep 400; cd /proc; for stack in [0-9]*/stack; do echo "$(cat "${stack%/*}/comm") $(paste -sd ' ' "$stack")"; done >&2) &
	watch=$!
	killed() {
		"$KYMO" hwlat --kernel --window 300ms --width 100ms --threshold 77us -d 100s >/dev/null &
		for ((waited = 0; waited < 600; waited++)); do
			grep -qsx hwlat instances/kymo-*/current_tracer && break
			sleep 0.1
		done
		[ "$(values)" != "$before" ] && echo changed
		kill -KILL $!
		gone $!
		wait $! 2>/dev/null
	}
	# A process that SIGKILL does not end hangs in the guest's kernel: says where.
	gone() {
		for ((waited = 0; waited < 600; waited++)); do
			case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in '' | Z*) return ;; esac
			sleep 0.1
		done
		echo "in the kernel:" $(cat "/proc/$1/stack") >&2
		exit 77
	}
	killed
	"$KYMO" doctor --restore
	[ "$(values)" = "$before" ] && echo restored with "$(instances)" left
	killed
	"$KYMO" hwlat --kernel --window 200ms --width 50ms -d 1s >/dev/null
	[ "$(values)" = "$before" ] && echo restored with "$(instances)" left by the next run
	kill $watch
	END
	local code
	code=$(status "$vm" run --kernel rt -- bash killed.sh)
	if [ "$code" = 77 ]; then
		skip "kymo hwlat --kernel that is killed: SIGKILL did not end it, the guest's kernel hangs ($(grep -m 1 'in the kernel' err))"
		return
	fi
	expect 'hwlat killed: status' "$code" 0
	expect 'hwlat killed: all is back' "$(paste -sd ' ' out)" 'changed restored with 0 left changed restored with 0 left by the next run'
}

test_tree() {
	expect 'the tree is there' "$(status "$vm" run -- cat "$vm")" 0
	expect 'and is the same' "$(cmp out "$vm" && echo same)" same
}

test_at_once() {
	local first second try
	# Once more only behind QEMU's own assertion, as in status.
	for try in 1 2 3; do
		"$vm" run -- echo one >one 2>&1 &
		first=$!
		"$vm" run --kernel rt -- echo two >two 2>&1
		second=$?
		wait $first
		first=$?
		grep -q 'qemu-system.*Assertion .* failed' one two || break
		echo "QEMU failed, once more: $(grep -h -m 1 'qemu-system.*Assertion' one two | cut -c 1-200)"
	done
	expect 'two at once' "$first $second $(cat one two | paste -sd ' ')" '0 0 one two'
}

test_counted_time() {
	local a b
	expect 'counted time: status' "$(status "$vm" run --icount -- ./busy)" 0
	a=$(cat out)
	expect 'counted time again: status' "$(status "$vm" run --icount -- ./busy)" 0
	b=$(cat out)
	expect "counted time repeats within 1 % ($a ns, $b ns)" $(((a - b) * (a - b) * 10000 <= a * a)) 1
	expect '--icount needs emulation' "$(status "$vm" run --icount --accel kvm -- true)" 125
}

test_kvm_is_remembered() {
	if [ ! -w /dev/kvm ]; then
		skip 'the trial of KVM: /dev/kvm cannot be opened'
		return
	fi
	expect 'the trial has an answer for both' "$("$vm" list | grep -cE '^(stock|rt) .* (kvm|tcg \(KVM failed.*)$')" 2
	expect 'it is not tried again' "$(status "$vm" run -- true) $(cat err)" '0 '
}

if [ "$(uname -m)" != x86_64 ] || ! grep -qx 'ID=debian' /etc/os-release; then
	skip 'all: virtual machines need Debian on x86-64'
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
expect 'everything can be had' "$("$vm" fetch >&2; echo $?)" 0
if [ $failed = 1 ]; then
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
all='kernels statuses lost_timer outputs large_output files ends tracing module clock killed_hwlat tree at_once counted_time kvm_is_remembered'
for name in ${KYMO_VM_TESTS:-$all}; do
	test_"$name"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
