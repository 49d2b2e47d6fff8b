// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports as CTF: losses, packets, several traces, parts, and what is left if something goes wrong.

use std::path::Path;

use kymo_abi::record_head;
use kymo_ctf::read::{Item, Memory, Reader, Record, Trace};
use kymo_ctf::write::{
    ClockMeta, EnvValue, EventClass, Field, FieldClass, Number, PacketHead, Program, StreamClass, StreamKind,
    TraceMeta, metadata_ctf18,
};
use kymo_export::export::stacks::NoNames;
use kymo_export::export::{Done, Exporter, Format, Trim, begin};

const UUID: [u8; 16] = [5; 16];

fn metadata() -> Vec<u8> {
    let number = |name: &str, bits| Field { name: name.into(), class: FieldClass::Number(Number::unsigned(bits)) };
    let event = |id, name: &str, fields| EventClass { id, name: name.into(), file: String::new(), line: 0, fields };
    let text = Field { name: "text".into(), class: FieldClass::Text };
    let switch = vec![number("prev_tid", 32), number("next_tid", 32)];
    let clock = ClockMeta {
        name: "tsc".into(),
        uuid: [1; 16],
        description: "\"counter\"".into(),
        frequency_hz: 2_999_999_999,
        offset_s: 1_700_000_000,
        offset_cycles: 5,
        precision_cycles: 2,
        absolute: true,
    };
    let user = vec![event(9, "a:b", vec![number("n", 64), text])];
    let streams = vec![
        StreamClass { kind: StreamKind::User, contexts: Vec::new(), events: user },
        StreamClass {
            kind: StreamKind::Kernel,
            contexts: Vec::new(),
            events: vec![event(60_000, "sched_switch", switch)],
        },
    ];
    let env = vec![("domain".into(), EnvValue::Text("ust".into())), ("n".into(), EnvValue::Int(-3))];
    metadata_ctf18(&TraceMeta { uuid: UUID, env, clock, streams }).into_bytes()
}

/// One packet of programs: its times, its number in the file, losses up to it, and its records by their times.
struct Packet<'a> {
    times: (u64, u64),
    seq: u64,
    discarded: u64,
    vpid: u32,
    records: &'a [u64],
}

fn user(packets: &[Packet<'_>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for packet in packets {
        let mut content = Vec::new();
        for time in packet.records {
            content.extend(record_head(9, *time));
            content.extend(77u32.to_le_bytes());
            content.extend(time.to_le_bytes());
            content.extend([2, 0, b'h', b'i']);
        }
        let head = PacketHead {
            uuid: UUID,
            stream_instance: 0,
            begin: packet.times.0,
            end: packet.times.1,
            content_bytes: content.len() as u64,
            seq: packet.seq,
            discarded: packet.discarded,
            cpu: 3,
            program: Some(Program { vpid: packet.vpid, lane: 1, procname: *b"prog\0\0\0\0\0\0\0\0\0\0\0\0" }),
        };
        stream.extend(head.encode());
        stream.extend(content);
    }
    stream
}

fn kernel(times: &[u64]) -> Vec<u8> {
    let mut content = Vec::new();
    for time in times {
        content.extend(record_head(60_000, *time));
        content.extend(12i32.to_le_bytes());
        content.extend([1, 0]);
        content.extend([12u32.to_le_bytes(), 0u32.to_le_bytes()].concat());
    }
    let head = PacketHead {
        uuid: UUID,
        stream_instance: 0,
        begin: times[0],
        end: times[times.len() - 1],
        content_bytes: content.len() as u64,
        seq: 0,
        discarded: 0,
        cpu: 3,
        program: None,
    };
    [head.encode(), content].concat()
}

fn open(streams: Vec<(&str, Vec<u8>)>) -> Trace {
    let streams = streams.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    Trace::from_files(&Memory { metadata: metadata(), streams }).unwrap().value
}

/// A trace with losses of every kind: in a first packet, between packets, in empty packets, of whole packets.
fn lossy() -> Trace {
    let packet = |times, seq, discarded, records| Packet { times, seq, discarded, vpid: 40, records };
    let one = [
        packet((100, 150), 0, 0, &[100, 120, 140]),
        packet((200, 250), 1, 5, &[210, 220]),
        // Another process, so another packet also in the export.
        Packet { vpid: 41, ..packet((260, 300), 2, 5, &[270]) },
        packet((310, 330), 3, 9, &[]),
        packet((340, 400), 6, 9, &[350, 400]),
        packet((410, 430), 7, 9, &[411, 429]),
    ];
    let two = [packet((90, 130), 0, 2, &[95, 125]), packet((130, 500), 1, 4, &[])];
    open(vec![("user_0_0", user(&one)), ("user_1_0", user(&two)), ("kernel_3_0", kernel(&[105, 405]))])
}

fn walk(traces: &[Trace], exporter: &mut dyn Exporter, wants: impl Fn(&Record<'_>) -> bool) {
    let mut reader = Reader::new(traces);
    while let Some(item) = reader.next() {
        match &item {
            Item::Record(record) if !wants(record) => exporter.left_out(record),
            _ => exporter.item(&item).unwrap(),
        }
    }
}

fn export(traces: &[Trace], path: &Path) -> Done {
    let mut exporter = begin(Format::Ctf, traces, path, Box::new(NoNames)).unwrap();
    walk(traces, &mut *exporter, |_| true);
    exporter.finish().unwrap()
}

/// Records and losses of traces, as lines, and their contexts.
fn items(traces: &[Trace]) -> Vec<String> {
    let mut reader = Reader::new(traces);
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        lines.push(match item {
            Item::Record(record) => {
                let who = (record.cpu, record.vpid, record.vtid, record.procname);
                let (stream, event, lane) = (record.stream, &record.event.name, record.packet_context.get("lane"));
                format!("{} {} {stream} {event} {who:?} {lane:?} {:?}", record.cycles, record.ns, record.payload)
            }
            Item::Loss(loss) => {
                let lost = (loss.records, loss.packets, loss.from_cycles, loss.to_cycles);
                format!("lost {lost:?} {} {:?} {:?} {}", loss.stream, loss.cpu, loss.vpid, loss.procname)
            }
        });
    }
    assert_eq!(reader.caveat_count(), 0, "{:?}", reader.caveats().collect::<Vec<_>>());
    lines
}

fn reopen(path: &Path) -> [Trace; 1] {
    let opened = Trace::open(path).unwrap();
    assert!(opened.caveats.is_empty(), "{:?}", opened.caveats);
    [opened.value]
}

#[test]
fn losses_have_the_same_counts_and_times() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [lossy()];
    let expect = items(&traces);
    assert_eq!(expect.iter().filter(|line| line.starts_with("lost")).count(), 5, "{expect:#?}");
    let done = export(&traces, &dir.path().join("t"));
    assert_eq!((done.files, done.left_out.len(), done.changed.len()), (4, 0, 0));
    let copy = reopen(&dir.path().join("t"));
    assert_eq!(items(&copy), expect);
    // And once more.
    export(&copy, &dir.path().join("u"));
    assert_eq!(items(&reopen(&dir.path().join("u"))), expect);
}

#[test]
fn clock_environment_and_contexts_are_those_of_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [lossy()];
    export(&traces, dir.path());
    let copy = reopen(dir.path());
    let [clock, expect] = [&copy[0], &traces[0]].map(|trace| trace.metadata.clocks[0].clone());
    assert_eq!(clock, expect);
    let env = &copy[0].metadata.env;
    assert_eq!(env[..2], traces[0].metadata.env[..]);
    assert_eq!((env.len(), env[2].0.as_str()), (3, "kymo_export"));
    assert!(copy[0].metadata.uuid.is_some_and(|uuid| uuid != UUID));
    let contexts = |event: &str| -> Vec<String> {
        let metadata = &copy[0].metadata;
        let position = metadata.events.iter().position(|known| known.name == event).unwrap();
        metadata.contexts(position).iter().map(|context| context.name.to_owned()).collect()
    };
    assert_eq!(contexts("a:b"), ["vtid", "vpid", "procname"]);
    assert_eq!(contexts("sched_switch"), ["tid", "irq_flags", "preempt_count", "pid", "procname"]);
}

#[test]
fn packets_are_not_larger_than_they_need_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let times: Vec<u64> = (0..40_000).collect();
    let records = |records| Packet { times: (0, 40_000), seq: 0, discarded: 0, vpid: 1, records };
    let traces = [open(vec![("user_0_0", user(&[records(&times)]))])];
    export(&traces, dir.path());
    let copy = reopen(dir.path());
    assert_eq!(items(&copy), items(&traces));
    let mut reader = Reader::new(&copy);
    let mut packets = Vec::new();
    while let Some(Item::Record(record)) = reader.next() {
        packets.push(record.packet);
    }
    packets.dedup();
    assert!((4..20).contains(&packets.len()), "{packets:?}");
}

#[test]
fn a_part_says_that_records_were_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [lossy()];
    let trim = Trim { options: "--filter 'n > 200'".into(), from_ns: Some(-7), to_ns: None };
    let part = |name: &str, trim: Option<&Trim>| {
        let mut exporter = begin(Format::Ctf, &traces, &dir.path().join(name), Box::new(NoNames)).unwrap();
        trim.iter().for_each(|trim| exporter.trim(trim));
        walk(&traces, &mut *exporter, |record| record.cycles > 200);
        exporter.finish().unwrap();
        reopen(&dir.path().join(name))
    };
    let [copy] = part("t", Some(&trim));
    let env: Vec<(&str, String)> =
        copy.metadata.env.iter().skip(3).map(|(key, value)| (key.as_str(), format!("{value:?}"))).collect();
    let expect = [
        ("kymo_trim", "Text(\"--filter 'n > 200'\")".to_owned()),
        ("kymo_trim_from_ns", "Int(-7)".to_owned()),
        ("kymo_trim_left_out", "Int(6)".to_owned()),
    ];
    assert_eq!(env, expect);
    // Records that were left out are no losses, and losses are there as before.
    let is_loss = |line: &String| line.starts_with("lost");
    let expect: Vec<String> = items(&traces)
        .into_iter()
        .filter(|line| is_loss(line) || line.split(' ').next().unwrap().parse::<u64>().unwrap() > 200)
        .collect();
    let [again, whole] = [part("u", Some(&trim)), part("v", None)].map(|[copy]| copy.metadata.uuid);
    assert_eq!(copy.metadata.uuid, again, "the same part");
    assert_ne!(again, whole, "another part");
    assert_eq!(items(&[copy]), expect);
}

#[test]
fn several_traces_are_several_directories() {
    let dir = tempfile::tempdir().unwrap();
    let one = open(vec![("user_0_0", user(&[Packet { times: (1, 2), seq: 0, discarded: 0, vpid: 1, records: &[1] }]))]);
    // Both are called the same.
    let traces = [lossy(), one];
    export(&traces, dir.path());
    for (name, trace) in ["trace-1", "trace-2"].iter().zip(traces) {
        assert_eq!(items(&reopen(&dir.path().join(name))), items(&[trace]), "{name}");
    }
}

#[test]
fn what_is_not_finished_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (traces, path) = ([lossy()], dir.path().join("t"));
    let mut exporter = begin(Format::Ctf, &traces, &path, Box::new(NoNames)).unwrap();
    walk(&traces, &mut *exporter, |_| true);
    assert!(path.is_dir() && !path.join("metadata").exists());
    drop(exporter);
    assert!(!path.exists());
    for (path, why) in [(dir.path(), "is there already"), (Path::new("-"), "a trace is a directory")] {
        std::fs::write(dir.path().join("mine"), "x").unwrap();
        let error = begin(Format::Ctf, &traces, path, Box::new(NoNames)).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(why)), "{error:?}");
    }
    assert!(dir.path().join("mine").exists());
}
