// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's JSON and Perfetto of a kernel trace that is put together here: system calls by number, one that does not
//! return, one whose return is lost, a time that goes back, missing records and packets.

use std::path::Path;

use kymo_ctf::read::{Memory, Reader, Trace};
use kymo_export::export::stacks::NoNames;
use kymo_export::export::{Exporter, Format, KnownThread, NamedBy, ThreadNames, begin};
use kymo_testing::protobuf::{Fields, Wire};
use serde_json::{Value, json};

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; } := u8;
typealias integer { size = 32; } := u32;
typealias integer { size = 64; } := u64;
typealias integer { size = 64; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; };
env { domain = "kernel"; architecture = "x86_64"; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; map = clock.c.value; } := time;
stream {
    packet.context := struct {
        u32 packet_size; u32 content_size; time timestamp_begin; time timestamp_end; u32 packet_seq_num;
        u32 events_discarded; u32 cpu_id;
    };
    event.header := struct { u8 id; time timestamp; };
    event.context := struct { u32 tid; };
};
event { id = 0; name = "raw_syscalls:sys_enter"; fields := struct { i64 id; u64 args[2]; }; };
event { id = 1; name = "raw_syscalls:sys_exit"; fields := struct { i64 id; i64 ret; }; };
event { id = 2; name = "sched:sched_process_exit";
    fields := struct { integer { size = 8; encoding = UTF8; } comm[8]; u32 pid; u32 prio; u8 group_dead; }; };
"#;

const TID: u32 = 7;

fn record(id: u8, time: u64, payload: &[&[u8]]) -> Vec<u8> {
    [&[id][..], &time.to_le_bytes(), &TID.to_le_bytes(), &payload.concat()].concat()
}

fn enter(time: u64, call: i64) -> Vec<u8> {
    record(0, time, &[&call.to_le_bytes(), &3u64.to_le_bytes(), &u64::MAX.to_le_bytes()])
}

fn exit(time: u64, call: i64, ret: i64) -> Vec<u8> {
    record(1, time, &[&call.to_le_bytes(), &ret.to_le_bytes()])
}

fn packet(number: u32, begin: u64, end: u64, discarded: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let content = records.concat();
    let bits = (36 + content.len() as u32) * 8;
    let mut out = Vec::new();
    out.extend([bits, bits].iter().flat_map(|bits| bits.to_le_bytes()));
    out.extend([begin, end].iter().flat_map(|time| time.to_le_bytes()));
    out.extend([number, discarded, 0].iter().flat_map(|value: &u32| value.to_le_bytes()));
    out.extend(content);
    out
}

fn trace() -> Trace {
    let first = [enter(100, 0), exit(200, 0, 5), enter(300, 15), exit(400, -1, 0)];
    let second = [enter(1000, 202), enter(1100, 1), exit(1050, 1, 9), enter(1200, 230)];
    let dying = record(2, 1300, &[b"worker\0\0", &TID.to_le_bytes(), &120u32.to_le_bytes(), &[1]]);
    let third = [dying, enter(1400, 39)];
    let packets = [
        packet(0, 100, 500, 0, &first),
        packet(1, 1000, 1200, 5, &second),
        // A packet is missing in front of it.
        packet(3, 1300, 1400, 5, &third),
    ];
    let files = Memory { metadata: METADATA.into(), streams: vec![("s".into(), packets.concat())] };
    Trace::from_files(&files).unwrap().value
}

/// Exports the trace, the thread being known by its names from the third record on.
fn export(format: Format, path: &Path) -> kymo_export::export::Done {
    use kymo_ctf::read::Item;
    let traces = [trace()];
    let mut exporter: Box<dyn Exporter + '_> = begin(format, &traces, path, Box::new(NoNames)).unwrap();
    exporter.threads(&[KnownThread { tid: 3, pid: 3, name: "init".into() }]).unwrap();
    let mut reader = Reader::new(&traces);
    let (mut count, mut losses) = (0, 0);
    while let Some(item) = reader.next() {
        match item {
            Item::Record(mut record) => {
                count += 1;
                record.vpid = Some(5);
                let thread = if count < 3 { "spawned" } else { "worker" };
                let names = ThreadNames { thread, process: "service", by: NamedBy::Kernel };
                exporter.named_record(&record, &names).unwrap();
            }
            Item::Loss(loss) => {
                losses += 1;
                exporter.loss(&loss).unwrap();
            }
        }
    }
    assert_eq!((count, losses), (10, 2));
    exporter.doubts(&[("lost_records", 5), ("missing_packets", 1)]).unwrap();
    exporter.finish().unwrap()
}

#[test]
fn chrome_json_tells_what_the_trace_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.json");
    let done = export(Format::Chrome, &path);
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let shown = events.iter().filter(|event| event["ph"] != "M").map(|event| {
        let end = if event["args"]["$end"].is_null() { "" } else { "!" };
        format!("{} {}{end} {}", event["ph"].as_str().unwrap(), event["name"].as_str().unwrap(), event["ts"])
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "B read 0.0",
            "E read 0.1",
            "i renamed 0.2",
            // rt_sigreturn does not return, and the kernel's record of that is of no call.
            "i raw_syscalls:sys_enter 0.2",
            "i raw_syscalls:sys_exit 0.3",
            "i lost 0.4",
            "B futex 0.9",
            "E futex! 1.0",
            "B write 1.0",
            // Its own time is 1050, before its begin.
            "E write 1.0",
            "B clock_nanosleep 1.1",
            "i packets missing 1.1",
            "E clock_nanosleep! 1.2",
            "i sched:sched_process_exit 1.2",
            "B getpid 1.3",
            "E getpid! 1.3",
        ]
    );
    let find = |name: &str, phase: &str| events.iter().find(|event| event["name"] == name && event["ph"] == phase);
    let write = &find("write", "E").unwrap()["args"]["end"];
    assert_eq!((&write["$time"], &write["ret"], write["$doubt"].is_string()), (&json!("1050"), &json!(9), true));
    let read = find("read", "B").unwrap();
    assert_eq!((&read["pid"], &read["tid"], &read["args"]["args"][0]), (&json!(5), &json!(7), &json!(3)));
    assert_eq!(read["args"]["$event"], "raw_syscalls:sys_enter");
    let (lost, missing) = (find("lost", "i").unwrap(), find("packets missing", "i").unwrap());
    assert_eq!((&lost["args"]["records"], &missing["args"]["packets"]), (&json!(5), &json!(1)));
    let named: Vec<_> = events.iter().filter(|event| event["ph"] == "M" && event["tid"] == 7).collect();
    let named: Vec<_> = named.iter().map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["spawned", "worker"]);
    assert_eq!(
        (&document["otherData"]["lost_records"], &document["otherData"]["missing_packets"]),
        (&json!(5), &json!(1))
    );
    for (what, count) in [("do not return", 1), ("return is not in the trace", 1), ("program ended", 1), ("$doubt", 1)]
    {
        let told = done.changed.iter().find(|(text, _)| text.contains(what));
        assert_eq!(told.map(|(_, count)| *count), Some(count), "{what}: {:?}", done.changed);
    }
}

#[test]
fn perfetto_has_messages_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pftrace");
    let done = export(Format::Perfetto, &path);
    let bytes = std::fs::read(path).unwrap();
    let packets: Vec<Fields<'_>> = Fields::of(&bytes).messages(1).collect();
    let ftrace: Vec<Fields<'_>> = packets
        .iter()
        .flat_map(|packet| packet.messages(1))
        .flat_map(|bundle| bundle.messages(2).collect::<Vec<_>>())
        .collect();
    let calls: Vec<_> = ftrace.iter().flat_map(|event| event.message(329)).collect();
    assert_eq!(calls.iter().map(|call| call.int(1)).collect::<Vec<_>>(), [0, 15, 202, 1, 230, 39].map(Some));
    assert_eq!(calls[0].all(2).collect::<Vec<_>>(), [Wire::Varint(3), Wire::Varint(u64::MAX)]);
    let returns: Vec<_> = ftrace.iter().flat_map(|event| event.message(330)).collect();
    let values = returns.iter().map(|call| (call.int(1), call.int(2)));
    assert_eq!(values.collect::<Vec<_>>(), [(0, 5), (-1, 0), (1, 9)].map(|(id, ret)| (Some(id), Some(ret))));
    let exits: Vec<_> = ftrace.iter().flat_map(|event| event.message(238)).collect();
    assert_eq!((exits[0].text(1), exits[0].int(2), exits[0].int(4)), (Some("worker"), Some(7), Some(120)));
    assert!(ftrace.iter().all(|event| event.int(2) == Some(7) && event.message(327).is_none()), "none is generic");
    // What the message has no place for is told, and nothing else.
    let left: Vec<_> = done.left_out.keys().map(String::as_str).collect();
    assert_eq!(left, ["the field group_dead of sched:sched_process_exit"]);
    let machine = packets.iter().find_map(|packet| packet.message(45)?.message(1)?.text(4).map(str::to_owned));
    assert_eq!(machine.as_deref(), Some("x86_64"));
    // Trees: of what is known before, then of what is met, with each name.
    let threads =
        packets.iter().flat_map(|packet| packet.messages(2)).flat_map(|tree| tree.messages(2).collect::<Vec<_>>());
    let threads: Vec<_> = threads.map(|thread| format!("{:?} {:?}", thread.int(1), thread.text(2))).collect();
    let expect = [(3, "init"), (5, "service"), (7, "spawned"), (7, "worker")];
    assert_eq!(threads, expect.map(|(tid, name)| format!("{:?} {:?}", Some(tid), Some(name))));
    let instants =
        packets.iter().flat_map(|packet| packet.messages(11)).filter_map(|event| event.text(23).map(str::to_owned));
    let instants: Vec<String> = instants.collect();
    assert_eq!(instants, ["lost", "time before an earlier record", "packets missing", "the whole trace"]);
}
