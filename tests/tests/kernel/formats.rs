// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kinds of fields become, and whether the values are those that the kernel itself shows.

use std::collections::BTreeMap;

use kymo_tests::{Kernel, Lab, Record, Recorded, babeltrace, trace};
use serde_json::{Value, json};

/// System calls whose arguments and results have every sign and size.
const SIGNS: &str = r#"
#include "common.h"
int main(void)
{
	char byte;
	int fd = open("/proc/self/exe", O_RDONLY);

	printf("tid=%u\n", tid());
	fflush(stdout);
	syscall(SYS_close, -1);
	syscall(SYS_lseek, fd, -5L, SEEK_SET);
	syscall(SYS_lseek, fd, 0x123456789aL, SEEK_SET);
	syscall(SYS_kill, -2147483647, 0);
	syscall(SYS_pread64, fd, &byte, (size_t)1, 0L);
	printf("fd=%d byte=%p\n", fd, (void *)&byte);
	return 0;
}
"#;

/// An event and its values, as text.
type Shown = (String, BTreeMap<String, String>);

/// Records by thread, in order.
fn by_thread(records: impl Iterator<Item = (u64, Shown)>) -> BTreeMap<u64, Vec<Shown>> {
    let mut threads: BTreeMap<u64, Vec<Shown>> = BTreeMap::new();
    for (tid, shown) in records {
        threads.entry(tid).or_default().push(shown);
    }
    threads
}

/// A line of the kernel's text: `comm-tid [cpu] flags time: event: a=1 b=x`. Commands may have spaces, their ids have
/// none.
fn line(text: &str) -> Option<(u64, Shown)> {
    let (head, rest) = text.split_once(" [")?;
    let tid = head.trim_end().rsplit('-').next()?.parse().ok()?;
    let (_, rest) = rest.split_once(": ")?;
    let (event, values) = rest.split_once(':')?;
    let pairs = values.split_whitespace().filter_map(|word| word.split_once('='));
    let values = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some((tid, (event.trim().to_owned(), values)))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The kernel's own text of the same events, from an instance of the test's own, has the same records and values.
#[test]
fn values_are_those_of_the_kernels_text() {
    let Some(kernel) = Kernel::find("text") else { return };
    let lab = Lab::new("text");
    let program = lab.cc("calls.c");
    let events = [
        "sched:sched_process_fork",
        "sched:sched_process_exit",
        "sched:sched_process_exec",
        "task:task_rename",
        "signal:signal_generate",
        "task:task_newtask",
    ];
    let beside = kernel.beside(&events);
    let recorded = lab
        .record("trace")
        .args(&["--only", "--names", "kernel", "--state", "none", "-k", &events.join(",")])
        .run(&["sh", "-c", &format!("{} tree 1; exit 0", program.display())])
        .expect(0);
    let text = beside.text();
    kernel.assert_clean(recorded.pid);
    let read = recorded.read(&lab);
    let own = by_thread(read.records.iter().map(|record| {
        let name = record.event.split(':').nth(1).unwrap().to_owned();
        (record.tid, (name, record.fields.iter().map(|(name, value)| (name.clone(), shown(value))).collect()))
    }));
    let theirs = by_thread(text.lines().filter(|text| !text.starts_with('#')).filter_map(line));
    let (mut records, mut values) = (0, 0);
    for (tid, own) in &own {
        let mut theirs = theirs.get(tid).unwrap_or_else(|| panic!("thread {tid} is not in\n{text}")).as_slice();
        // The first thread had events of kymo's own before it was the command.
        theirs = &theirs[theirs.len().saturating_sub(own.len())..];
        let names =
            |list: &[(String, BTreeMap<String, String>)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(own), names(theirs), "events of thread {tid}\n{text}");
        for ((event, own), (_, theirs)) in own.iter().zip(theirs) {
            records += 1;
            for (name, their) in theirs {
                let Some(own) = own.get(name) else { continue };
                let same = own == their
                    || their == "true" && own == "1"
                    || their == "false" && own == "0"
                    || is_hex(own, their);
                assert!(same, "{event}: {name} is {own}, and by the kernel's text {their}");
                values += 1;
            }
        }
    }
    assert!(records >= 30 && values >= 60, "{records} records, {values} values compared:\n{text}");
}

fn is_hex(own: &str, text: &str) -> bool {
    let text = u64::from_str_radix(text.trim_start_matches("0x"), 16);
    text.is_ok_and(|value| own.parse() == Ok(value))
}

fn record_signs(lab: &Lab, name: &str, names: &str) -> (Recorded, Vec<Record>) {
    let program = lab.cc_text("signs", SIGNS);
    let recorded = lab
        .record(name)
        .args(&["--only", "--state", "none", "--names", names])
        .args(&["-k", "syscalls:sys_*_close,syscalls:sys_*_lseek,syscalls:sys_*_kill,syscalls:sys_*_pread64"])
        .run(&[program.to_str().unwrap()])
        .expect(0);
    let read = recorded.read(lab);
    babeltrace::agrees(lab, &recorded.dir, &read);
    // From the call that nobody else makes on.
    let first = read.of(if names == "lttng" { "syscall_entry_close" } else { "syscalls:sys_enter_close" });
    let first = first
        .map(|record| (record.cycles, &record.fields["fd"]))
        .find(|(_, fd)| fd.as_i64().is_some_and(|fd| fd as u32 == u32::MAX));
    let from = first.expect("close(-1)").0;
    (recorded, read.records.into_iter().filter(|record| record.cycles >= from).collect())
}

#[test]
fn arguments_and_results_of_system_calls() {
    let Some(kernel) = Kernel::find("signs") else { return };
    let lab = Lab::new("signs");
    let (recorded, records) = record_signs(&lab, "trace", "lttng");
    kernel.assert_clean(recorded.pid);
    let fd = recorded.outcome.number("fd");
    let byte = recorded.outcome.stdout.split("byte=0x").nth(1).unwrap().trim();
    let byte = u64::from_str_radix(byte, 16).unwrap();
    let expect = [
        ("syscall_entry_close", json!({"fd": u32::MAX})),
        ("syscall_exit_close", json!({"ret": -9})),
        ("syscall_entry_lseek", json!({"fd": fd, "offset": -5, "whence": 0})),
        ("syscall_exit_lseek", json!({"ret": -22})),
        ("syscall_entry_lseek", json!({"fd": fd, "offset": 0x0012_3456_789a_u64, "whence": 0})),
        ("syscall_exit_lseek", json!({"ret": 0x0012_3456_789a_u64})),
        ("syscall_entry_kill", json!({"pid": -2_147_483_647, "sig": 0})),
        ("syscall_exit_kill", json!({"ret": -3})),
        ("syscall_entry_pread64", json!({"fd": fd, "buf": byte, "count": 1, "pos": 0})),
        ("syscall_exit_pread64", json!({"ret": 1})),
    ];
    for (record, (event, fields)) in records.iter().zip(&expect) {
        let plain: Vec<_> = fields
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, value)| record.fields.get(*name) != Some(value))
            .collect();
        assert!(record.event == *event && plain.is_empty(), "{record:?} is not {event} {fields}");
    }
    assert!(records.len() >= expect.len(), "{records:?}");
    let metadata = std::fs::read_to_string(recorded.dir.join("metadata")).unwrap();
    let pread = metadata.split("name = \"syscall_entry_pread64\"").nth(1).unwrap().split("};").next().unwrap();
    assert!(pread.contains("xint64_t _buf"), "addresses are shown in base 16:\n{pread}");
}

#[test]
fn system_calls_by_the_kernels_names() {
    let Some(kernel) = Kernel::find("signs_kernel") else { return };
    let lab = Lab::new("signs_kernel");
    let (recorded, records) = record_signs(&lab, "trace", "kernel");
    kernel.assert_clean(recorded.pid);
    let names: Vec<&str> = records.iter().take(4).map(|record| record.event.as_str()).collect();
    assert_eq!(
        names,
        ["syscalls:sys_enter_close", "syscalls:sys_exit_close", "syscalls:sys_enter_lseek", "syscalls:sys_exit_lseek"]
    );
    // x86-64: close is 3, lseek 8. Nothing is left out, and nothing cut.
    assert_eq!((&records[0].fields["__syscall_nr"], &records[2].fields["__syscall_nr"]), (&json!(3), &json!(8)));
    let offset = &records[2].fields["offset"];
    assert!(*offset == json!(-5) || *offset == json!(u64::MAX - 4), "{offset}");
}

/// A mark as large as shells write becomes as many records as the kernel makes of it, and no byte is missing.
#[test]
fn records_of_thousands_of_bytes() {
    let Some(kernel) = Kernel::find("big_mark") else { return };
    let lab = Lab::new("big_mark");
    let text: String = (0..3000).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    lab.write("text", &text);
    let recorded = lab
        .record("trace")
        .args(&["--only", "-k", "mark", "--state", "none"])
        .run(&["sh", "-c", "printf %s \"$(cat text)\" >$KYMO_MARK; echo end >$KYMO_MARK"])
        .expect(0);
    kernel.assert_clean(recorded.pid);
    lab.kernel_lossless(&recorded);
    let read = recorded.read(&lab);
    let texts: Vec<&str> = read.of("lttng_logger").map(|record| record.fields["msg"].as_str().unwrap()).collect();
    assert_eq!(texts.last().map(|text| text.trim_end()), Some("end"));
    // Kernels end each piece that lacks one with a newline.
    let whole: String = texts[..texts.len() - 1].iter().map(|piece| piece.trim_end_matches('\n')).collect();
    assert_eq!(whole, text, "{} pieces", texts.len() - 1);
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

#[test]
fn the_table_of_names() {
    let Some(kernel) = Kernel::find("names") else { return };
    let lab = Lab::new("names");
    let command = ["sh", "-c", "chrt -f 55 sh -c 'for n in 1 2 3; do sleep 0.002; done'; sleep 0.01"];
    // Kernel's priorities: 99 - 55, and 120 for a thread without any.
    for (names, event, fields, fifo, other) in [
        ("lttng", "sched_switch", ["prev_tid", "next_tid"], -56, 20),
        ("kernel", "sched:sched_switch", ["prev_pid", "next_pid"], 44, 120),
    ] {
        let recorded = lab
            .record(names)
            .args(&["--names", names, "--state", "none", "-k", "sched:sched_switch,irq_vectors"])
            .run(&command);
        let recorded = recorded.expect(0);
        kernel.assert_clean(recorded.pid);
        let read = trace::read(&lab, &recorded.dir, &[]).whole();
        let mut keys =
            ["prev_comm", fields[0], "prev_prio", "prev_state", "next_comm", fields[1], "next_prio"].map(String::from);
        keys.sort();
        let (mut seen_fifo, mut seen_other) = (0, 0);
        for record in read.of(event) {
            let mut own: Vec<&String> = record.fields.keys().collect();
            own.sort();
            assert!(own.into_iter().eq(&keys), "{record:?}");
            seen_fifo += usize::from(record.fields["prev_prio"] == fifo);
            seen_other += usize::from(record.fields["prev_prio"] == other);
            if record.fields[fields[0]] == 0 {
                assert!(record.fields["prev_comm"].as_str().unwrap().starts_with("swapper/"), "{record:?}");
            }
        }
        assert!(seen_fifo > 0 && seen_other > 0, "{names}: {seen_fifo} of FIFO, {seen_other} of others");
        babeltrace::agrees(&lab, &recorded.dir, &read);
        let vectors: Vec<&Record> = read.records.iter().filter(|record| record.event.contains("irq_vectors")).collect();
        assert!(!vectors.is_empty(), "no interrupt in all that time");
        let start = if names == "lttng" { "x86_irq_vectors_" } else { "irq_vectors:" };
        assert!(vectors.iter().all(|record| record.event.starts_with(start) && record.fields.contains_key("vector")));
    }
}
