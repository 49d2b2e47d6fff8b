// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of ftrace and perf as traces, and any bytes as no reason to panic.

use crate::support;

use kymo_ctf::read::Trace;
use kymo_export::import::{ImportedSoFar, format_of, import, probe};
use support::{Random, records};

fn imported(text: &str) -> (&'static str, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let (format, _) = import(text.as_bytes(), "text", &dir.path().join("t"), &|_| true).unwrap();
    let trace = Trace::open(&dir.path().join("t")).unwrap().value;
    let lines = records(&[trace]).into_iter().filter(|line| !line.contains("statedump"));
    (format.name, lines.collect())
}

const FTRACE: &str = "# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n\
    \x20          a b-7       [000] d..2.    10.000001: sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n\
    \x20       <idle>-0       [000] dNh1.    10.000002: sched_wakeup: comm=a b pid=7 prio=98 target_cpu=000\n\
    CPU:0 [LOST 5 EVENTS]\n\
    \x20       <idle>-0       [000] ..s1.    10.000003: softirq_entry: vec=9 [action=RCU]\n\
    \x20       <idle>-0       [001] .....    10.000004: hrtimer_start: hrtimer=00000000ab12cd34 function=tick expires=5\n\
    \x20            c-9       [001] .....    10.000005: sys_openat(dfd: ffffff9c, filename: 7ffe00001111)\n\
    \x20            c-9       [001] .....    10.000006: sys_openat -> 0x3\n\
    \x20            c-9       [001] .....    10.000007: tracing_mark_write: hello: there\n\
    \x20            c-9       [001] .....    10.000008: do_x <-do_y\n";

#[test]
fn text_of_ftrace() {
    let (format, lines) = imported(FTRACE);
    assert_eq!(format, "ftrace text");
    assert_eq!(
        lines,
        [
            "10000001000 cpu 0 tid 7 sched_switch prev_comm=a b prev_tid=7 prev_prio=20 prev_state=S next_comm=swapper/0 next_tid=0 next_prio=20",
            "10000002000 cpu 0 tid 0 sched_wakeup comm=a b tid=7 prio=-2 target_cpu=0",
            "10000003000 cpu 0 tid 0 irq_softirq_entry vec=9 action=RCU",
            "10000004000 cpu 1 tid 0 timer_hrtimer_start hrtimer=2870136116 function=tick expires=5",
            "10000005000 cpu 1 tid 9 syscall_entry_openat dfd=4294967196 filename=7ffe00001111",
            "10000006000 cpu 1 tid 9 syscall_exit_openat ret=3",
            "10000007000 cpu 1 tid 9 lttng_logger msg=hello: there",
            "10000008000 cpu 1 tid 9 ftrace:function ip=do_x parent_ip=do_y",
        ]
    );
}

#[test]
fn text_of_perf() {
    let text = "a b  7/8 [001]  5.123456789:     250000 cpu-clock:pppH: \n\tffffffff81000010 native_halt+0xa ([kernel.kallsyms])\n\
        \t    55d0c0de1234 main+0x10 (/bin/a; b)\n\n\
        a b  7/8 [001]  6.000001: sched:sched_wakeup: comm=x pid=3 prio=120 target_cpu=001\n\
        a b  7/8 [001]  7.000001: syscalls:sys_exit_read: 0x10\n";
    let (format, lines) = imported(text);
    assert_eq!(format, "perf script");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("5123456789 cpu 1 tid 8 cpu-clock period=250000 callstack="), "{}", lines[0]);
    assert!(lines[0].ends_with("frames=native_halt+0xa ([kernel.kallsyms]);main+0x10 (/bin/a: b)"), "{}", lines[0]);
    assert_eq!(lines[1], "6000001000 cpu 1 tid 8 sched_wakeup comm=x tid=3 prio=20 target_cpu=1");
    assert_eq!(lines[2], "7000001000 cpu 1 tid 8 syscall_exit_read ret=16");
}

#[test]
fn the_kernels_log() {
    let log = "<6>[    0.000000] Linux version 6.1\n[   12.345678][  T123] usb 1-1: new device\n continued\n\
        [   12.400000][    C1] hrtimer: interrupt took 5 ns\n[   12.399999][  T123] written later\n";
    let (format, lines) = imported(log);
    assert_eq!(format, "kernel log");
    assert_eq!(
        lines,
        [
            "0 cpu - tid -1 printk_console msg=Linux version 6.1",
            "12345678000 cpu - tid 123 printk_console msg=usb 1-1: new device",
            "12399999000 cpu - tid 123 printk_console msg=written later",
            "12400000000 cpu 1 tid -1 printk_console msg=hrtimer: interrupt took 5 ns",
        ]
    );
}

#[test]
fn other_texts_are_no_traces() {
    for text in ["", "hello\n", "T: 0 ( 1) P:95 I:1000 C: 100 Min: 1 Act: 2 Avg: 3 Max: 4\n", "{\"a\": 1}", "\0\0\0"] {
        assert_eq!(format_of(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn any_bytes_never_panic() {
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let pieces = [
        "=",
        ":",
        " ",
        "|",
        ")",
        "[",
        "]",
        "\n",
        "\t",
        "us",
        "0",
        "1.000001: ",
        " ==> ",
        "(",
        "->",
        "<-",
        "sys_x",
        "é",
        "-",
    ];
    for _ in 0..3000 {
        let mut bytes = FTRACE.as_bytes().to_vec();
        for _ in 0..1 + random.below(8) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.word() as u8,
                1 => drop(bytes.splice(at..at, pieces[random.below(pieces.len())].bytes())),
                _ => drop(bytes.drain(at..(at + random.below(20)).min(bytes.len()))),
            }
            if bytes.is_empty() {
                break;
            }
        }
        probe(&bytes);
    }
}

#[test]
fn an_import_that_is_ended_leaves_nothing() {
    let line = |n: u64| format!("  prog-{n} [000] {n}.000001: sched_wakeup: comm=a pid={n} prio=120 target_cpu=000\n");
    let text: String = (1..=20_000).map(line).collect();
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("t");
    let asked = std::cell::Cell::new(0);
    // Ended while it looks for the kinds of fields, and while it writes.
    for end in [0, 5, 7] {
        asked.set(0);
        let goes_on = |_: ImportedSoFar| asked.replace(asked.get() + 1) < end;
        let error = import(text.as_bytes(), "text", &to, &goes_on).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert!(!to.exists(), "ended at question {end}");
    }
    assert_eq!(import(text.as_bytes(), "text", &to, &|_| true).unwrap().1.records, 20_000);
}
