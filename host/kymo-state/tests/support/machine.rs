// SPDX-License-Identifier: MIT OR Apache-2.0
//! A made-up machine.

use super::Tree;

/// A machine with two CPUs, a program of two threads, a worker of the kernel, and a threaded interrupt.
pub const FILES: &[(&str, &[u8])] = &[
    ("proc/1/task/1/stat", b"1 (a) b (c) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 2 0 15 4096 1 9 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0\n"),
    ("proc/1/task/1/status", b"Name:\ta) b (c\nNStgid:\t1\t71\nNSpid:\t1\t71\nCpus_allowed_list:\t0-1\n"),
    ("proc/1/task/1/cgroup", b"4:memory:/m\n0::/user.slice/a\n"),
    ("proc/1/task/9/stat", b"9 (rt) R 0 1 1 0 -1 64 1 2 3 4 5 6 7 8 -51 0 2 0 16 4096 1 9 0 0 0 0 0 0 0 0 0 0 0 0 -1 0 50 1 0\n"),
    ("proc/1/task/9/status", b"Name:\trt\nNStgid:\t1\t71\nNSpid:\t9\t79\nCpus_allowed_list:\t1\n"),
    ("proc/1/fdinfo/0", b"pos:\t7\nflags:\t0100002\nmnt_id:\t1\n"),
    ("proc/1/fdinfo/10", b"pos:\t0\nflags:\t010000000\n"),
    (
        "proc/1/maps",
        b"1000-2000 r--p 00000000 fe:01 55    /bin/a\n2000-3000 r-xp 00001000 fe:01 55    /bin/a\n\
          4000-5000 r-xp 00003000 fe:01 55    /bin/a\n7000-8000 rwxp 00000000 00:00 0 \n9000-a000 rw-p 0 00:00 0    [heap]\n\
          7fff0000-7fff1000 r-xp 00000000 00:00 0    [vdso]\n",
    ),
    ("proc/2/task/2/stat", b"2 (kworker/0:1-mm) I 0 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0 9 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0\n"),
    ("proc/2/task/2/status", b"Name:\tkworker/0:1-mm\nNStgid:\t2\nNSpid:\t2\nCpus_allowed_list:\t0\n"),
    ("proc/2/task/2/cgroup", b"0::/\n"),
    ("proc/3/task/3/stat", b"3 (irq/24-dev) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 4 0 0 9 0 0 0 0 0 0 0 0 0 0 0 0 17 1 50 1 0\n"),
    ("proc/3/task/3/status", b"Name:\tirq/24-dev\nNStgid:\t3\nNSpid:\t3\nCpus_allowed_list:\t0-1\n"),
    ("proc/interrupts", b"      CPU0  CPU1\n 24:  3  4  IO-APIC 5-edge dev, other\n 25:  1  0  MSI 1-edge x\nLOC: 8 9 Local timer interrupts\n"),
    ("proc/cpuinfo", b"processor\t: 0\nvendor_id\t: V\ncpu family\t: 6\nmodel\t: 9\nmodel name\t: M\ncpu cores\t: 2\n\nprocessor\t: 1\n"),
    ("proc/cmdline", b"quiet preempt=full\n"),
    ("proc/sys/kernel/arch", b"x86_64\n"),
    ("proc/sys/kernel/osrelease", b"6.1.0\n"),
    ("proc/sys/kernel/version", b"#1 SMP PREEMPT_DYNAMIC\n"),
    ("proc/sys/kernel/sched_rt_runtime_us", b"950000\n"),
    ("sys/kernel/irq/24/chip_name", b"IO-APIC\n"),
    ("sys/kernel/irq/24/actions", b"dev,other\n"),
    ("sys/kernel/irq/26/chip_name", b"none\n"),
    ("sys/kernel/irq/26/actions", b"\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", b"always [madvise] never\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", b"tsc\n"),
    ("sys/devices/system/cpu/present", b"0-1\n"),
    ("sys/devices/system/cpu/online", b"0\n"),
    ("sys/devices/system/cpu/isolated", b"1\n"),
    ("sys/devices/system/cpu/nohz_full", b"(null)\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_id", b"4\n"),
    ("sys/devices/system/cpu/cpu0/topology/physical_package_id", b"0\n"),
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", b"0-1\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", b"performance\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", b"800000\n"),
    ("sys/devices/system/cpu/cpu0/node1/x", b""),
    ("sys/class/block/sda1/dev", b"8:1\n"),
    ("sys/class/net/eth0/ifindex", b"2\n"),
    ("sys/class/net/bonding_masters", b"bond0\n"),
];

pub fn machine() -> Tree {
    let tree = Tree::new(FILES);
    tree.link("proc/1/fd/0", "/dev/tty");
    tree.link("proc/1/fd/10", "socket:[7]");
    tree
}
