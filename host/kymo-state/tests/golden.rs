// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up trees, and the rows that they must yield, whole and in order.

use crate::support;

use support::machine::machine;
use support::{Tree, rows};

const ROWS: &[&str] = &[
    r#"lttng_statedump_start 0:"#,
    r##"kymo_statedump_kernel 0: release="6.1.0" version="#1 SMP PREEMPT_DYNAMIC" cmdline="quiet preempt=full" clocksource="tsc" preempt="full" sched_rt_runtime_us="950000" sched_rt_period_us="" transparent_hugepage="madvise" swappiness="" numa_balancing="" timer_migration="" nmi_watchdog="" smt="" idle_driver="" idle_governor="" build_id="##,
    r#"lttng_statedump_cpu_topology 0: architecture="x86_64" cpu_id=0 vendor="V" family=6 model=9 model_name="M" physical_id=0 core_id=4 cores=2 online=1 isolated=0 nohz_full=0 governor="performance" freq_min_khz=800000 freq_max_khz=0 numa_node=1 siblings="0-1""#,
    r#"lttng_statedump_cpu_topology 0: architecture="x86_64" cpu_id=1 vendor="" family=0 model=0 model_name="" physical_id=-1 core_id=-1 cores=0 online=0 isolated=1 nohz_full=0 governor="" freq_min_khz=0 freq_max_khz=0 numa_node=-1 siblings="""#,
    r#"lttng_statedump_block_device 0: dev=8388609 diskname="sda1""#,
    r#"lttng_statedump_network_interface 0: name="eth0" address_ipv4=00000000"#,
    r#"lttng_statedump_process_state 0: tid=0 pid=0 ppid=0 name="swapper/0" type=1 mode=5 submode=1 status=2 cpu=0 policy=other prio=20 nice=0 rt_priority=0 affinity="0" cgroup="/" vtid=0 vpid=0 start_time=0 runtime=0 deadline=0 period=0"#,
    r#"lttng_statedump_process_state 1: tid=1 pid=1 ppid=0 name="a) b (c" type=0 mode=5 submode=1 status=5 cpu=1 policy=other prio=20 nice=0 rt_priority=0 affinity="0-1" cgroup="/user.slice/a" vtid=71 vpid=71 start_time=15 runtime=0 deadline=0 period=0"#,
    r#"lttng_statedump_process_state 9: tid=9 pid=1 ppid=0 name="rt" type=0 mode=5 submode=1 status=2 cpu=0 policy=fifo prio=-51 nice=0 rt_priority=50 affinity="1" cgroup="" vtid=79 vpid=71 start_time=16 runtime=0 deadline=0 period=0"#,
    r#"lttng_statedump_file_descriptor 1: file_table_address=0x0 fd=0 flags=0x8002 fmode=0x3 filename="/dev/tty" pid=1 pos=7"#,
    r#"lttng_statedump_file_descriptor 1: file_table_address=0x0 fd=10 flags=0x200000 fmode=0x4000 filename="socket:[7]" pid=1 pos=0"#,
    r#"lttng_statedump_vm_map 1: pid=1 start=0x2000 end=0x3000 flags=0x5 inode=55 pgoff=4096 path="/bin/a" build_id="#,
    r#"lttng_statedump_vm_map 1: pid=1 start=0x7000 end=0x8000 flags=0x7 inode=0 pgoff=0 path="" build_id="#,
    r#"lttng_statedump_vm_map 1: pid=1 start=0x7fff0000 end=0x7fff1000 flags=0x5 inode=0 pgoff=0 path="[vdso]" build_id="#,
    r#"lttng_statedump_process_state 2: tid=2 pid=2 ppid=0 name="kworker/0:1" type=1 mode=5 submode=1 status=5 cpu=0 policy=other prio=20 nice=0 rt_priority=0 affinity="0" cgroup="/" vtid=2 vpid=2 start_time=3 runtime=0 deadline=0 period=0"#,
    r#"lttng_statedump_process_state 3: tid=3 pid=3 ppid=2 name="irq/24-dev" type=1 mode=5 submode=1 status=5 cpu=1 policy=fifo prio=-51 nice=0 rt_priority=50 affinity="0-1" cgroup="" vtid=3 vpid=3 start_time=4 runtime=0 deadline=0 period=0"#,
    r#"lttng_statedump_interrupt 0: irq=24 name="IO-APIC" action="dev" tid=3 count=7"#,
    r#"lttng_statedump_interrupt 0: irq=24 name="IO-APIC" action="other" tid=0 count=7"#,
    r#"lttng_statedump_interrupt 0: irq=25 name="MSI" action="x" tid=0 count=1"#,
    r#"lttng_statedump_end 0:"#,
];

#[test]
fn a_machine() {
    let (rows, report) = rows(&machine().options());
    let shown: Vec<String> = rows.iter().map(ToString::to_string).collect();
    assert_eq!(shown.join("\n"), ROWS.join("\n"));
    assert_eq!((report.processes, report.threads, report.files, report.maps), (3, 4, 2, 3));
    assert_eq!(
        report.caveats,
        [
            "State dump: 1 mapped file(s) could not be opened for their build ids: CAP_SYS_PTRACE and CAP_SYS_ADMIN are needed."
        ]
    );
}

#[test]
fn details_of_chosen_processes_only() {
    let tree = machine();
    let mut options = tree.options();
    options.pids = Some(vec![2]);
    let (_, report) = rows(&options);
    assert_eq!((report.threads, report.files, report.maps), (4, 0, 0));
    assert!(report.caveats.is_empty(), "{:?}", report.caveats);
    options.pids = Some(vec![1]);
    options.maps = false;
    let (_, report) = rows(&options);
    assert_eq!((report.threads, report.files, report.maps), (4, 2, 0));
}

#[test]
fn no_trees_at_all() {
    let tree = Tree::new(&[]);
    let mut options = tree.options();
    options.root.proc = tree.path().join("absent");
    let (rows, report) = rows(&options);
    assert_eq!(rows.len(), 3, "start, kernel, end");
    assert_eq!(report.caveats.len(), 1);
    assert!(report.caveats[0].contains("absent cannot be opened"), "{:?}", report.caveats);
}

#[test]
fn what_is_not_as_the_kernel_writes_it_is_counted() {
    let tree = machine();
    tree.write("proc/1/task/9/stat", b"9 (rt R");
    tree.write("proc/1/maps", b"nonsense\n2000-3000 r-xp 00001000 fe:01 0    /bin/a\n");
    let (_, report) = rows(&tree.options());
    assert_eq!((report.threads, report.maps), (3, 1));
    assert_eq!(
        report.caveats,
        ["State dump: 2 file(s) of /proc were not as this version knows them, and were left out."]
    );
}
