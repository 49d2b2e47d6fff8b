// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compact records [spec/trace.md 4]: a reader attaches the thread to each, whatever way it came to it.

use crate::support;

use std::fs;
use std::process::Command;

use kymo_abi::desc::{FieldType, Scalar};
use kymo_abi::record_head;
use kymo_ctf::read::{Batch, Item, Memory, Reader, Slices, Trace};
use kymo_ctf::write::{EventClass, Field, FieldClass, Number, StreamKind, TraceMeta};
use support::{event, head, memory, meta, same_again, shown};

const WRAP: u64 = 1 << 27;

/// One record: clock, event, thread, value.
type Told = (u64, u16, u32, u32);

fn compact_meta() -> TraceMeta {
    let fields = [("n", FieldType::Scalar(Scalar::U32))];
    let mut meta = meta([1, 29, 30, 300].map(|id| event(id, &format!("e{id}"), &fields)).into(), vec![]);
    meta.streams[0].kind = StreamKind::Compact;
    meta.streams[0].events.push(EventClass::of_threads());
    meta
}

fn extended(id: u16, time: u64) -> Vec<u8> {
    [&[31][..], &record_head(id, time)].concat()
}

/// A packet as a writer makes it that knows nothing of the thread in front of it, or knows it (`first`).
fn packet(records: &[Told], first: u32, seq: u64) -> Vec<u8> {
    let (mut thread, mut before) = (first, records[0].0);
    let mut content = Vec::new();
    for &(time, id, tid, value) in records {
        let is_short = tid == thread && id < 30 && time - before < WRAP;
        if tid != thread {
            content.extend(extended(0xffff, time));
            content.extend(tid.to_le_bytes());
        }
        match is_short {
            true => content.extend((u32::from(id) | ((time % WRAP) as u32) << 5).to_le_bytes()),
            false => content.extend(extended(id, time)),
        }
        content.extend(value.to_le_bytes());
        (thread, before) = (tid, time);
    }
    let last = records[records.len() - 1].0;
    [head(records[0].0, last, &content, seq, 0).encode_compact(first), content].concat()
}

/// Records of three threads, with pauses that are longer than a short time stamp.
fn told(count: u32) -> Vec<Told> {
    let mut state = 88_172_645_463_325_252u64;
    let mut below = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % most
    };
    let (mut time, mut thread) = (support::NEAR_WRAP - 3 * WRAP, 70);
    let one = |value| {
        time += [below(50), WRAP - 1, WRAP, WRAP + below(9), 3 * WRAP + 5][below(40).saturating_sub(35) as usize];
        thread = if below(20) == 0 { 70 + below(3) as u32 } else { thread };
        (time, [1, 1, 1, 29, 30, 300][below(6) as usize], thread, value)
    };
    (0..count).map(one).collect()
}

fn lines(records: &[Told]) -> Vec<String> {
    records.iter().map(|(time, id, tid, value)| format!("{time} test:e{id} {tid} n={value}")).collect()
}

/// In packets of so many records; every second one knows its first thread.
fn stream(records: &[Told], of_packet: usize) -> Vec<u8> {
    let packets = records.chunks(of_packet).zip(0..);
    packets.flat_map(|(records, seq)| packet(records, if seq % 2 == 0 { records[0].2 } else { 0 }, seq)).collect()
}

#[test]
fn every_record_has_its_thread_and_its_time() {
    let records = told(4000);
    for ctf2 in [false, true] {
        for of_packet in [1, 7, 500, 4000] {
            let memory = memory(&compact_meta(), ctf2, vec![("user_1_0", stream(&records, of_packet))]);
            let (found, caveats) = shown(&memory);
            assert_eq!(caveats, Vec::<String>::new(), "CTF 2: {ctf2}");
            assert!(found == lines(&records), "CTF 2: {ctf2}, packets of {of_packet}");
            same_again(&memory);
        }
    }
}

/// babeltrace 1.5 and 2 print the same, and thread records as events of their own.
#[test]
fn other_readers_read_them() {
    let mut records = told(500);
    // babeltrace keeps the sum of nanoseconds in 64 bits.
    records.iter_mut().for_each(|record| record.0 -= support::NEAR_WRAP - 4 * WRAP);
    let files = memory(&compact_meta(), false, vec![("user_1_0", stream(&records, 90))]);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("metadata"), &files.metadata).unwrap();
    fs::write(dir.path().join("user_1_0"), &files.streams[0].1).unwrap();
    let mut thread = 0;
    let mut expect: Vec<(u64, String, u32)> = Vec::new();
    for (at, (time, id, tid, value)) in records.iter().enumerate() {
        if at % 90 == 0 {
            thread = if at % 180 == 0 { *tid } else { 0 };
        }
        if *tid != thread {
            expect.push((*time, "kymo:thread".to_owned(), *tid));
        }
        expect.push((*time, format!("test:e{id}"), *value));
        thread = *tid;
    }
    for command in ["babeltrace", "babeltrace2"] {
        let args = ["--clock-cycles", "--no-delta", "--names", "none"];
        let Ok(output) = Command::new(command).args(args).arg(dir.path()).output() else {
            kymo_testing::skip_this(&format!("{command} is not installed"));
            continue;
        };
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Vec<(u64, String, u32)> = text.lines().map(|line| printed(line, command)).collect();
        assert_eq!(found.len(), expect.len(), "{command}");
        for (found, expect) in found.iter().zip(&expect) {
            assert_eq!(found, expect, "{command}");
        }
    }
}

/// Clock, name and value of a line such as `[00000000012] prog:1 test:e1: { 1 }, { 7 }`.
fn printed(line: &str, command: &str) -> (u64, String, u32) {
    let parts = || {
        let (clock, rest) = line.trim_start_matches('[').split_once(']')?;
        let name = rest.split(' ').find(|word| word.contains("test:") || word.contains("kymo:thread"))?;
        let value = rest.rsplit('{').next()?.trim_matches([' ', '}']);
        let clock = clock.trim_start_matches('0').parse().ok()?;
        Some((clock, name.trim_end_matches(':').to_owned(), value.parse().ok()?))
    };
    parts().unwrap_or_else(|| panic!("{command}: {line}"))
}

/// Contexts stand in front of payloads, and not in thread records.
#[test]
fn contexts_are_those_of_the_records() {
    let mut meta = compact_meta();
    let number = FieldClass::Number(Number::signed(32));
    meta.streams[0].contexts = vec![
        Field { name: "prio".into(), class: number },
        Field { name: "callstack".into(), class: FieldClass::Seq { element: Number::hex(64) } },
    ];
    let context = |value: u32| [&value.to_le_bytes()[..], &2u16.to_le_bytes(), &[7; 16]].concat();
    let short = |id: u32, time: u32| (id | time << 5).to_le_bytes().to_vec();
    let records = [
        extended(0xffff, 50),
        9u32.to_le_bytes().to_vec(),
        extended(1, 50),
        context(3),
        1u32.to_le_bytes().to_vec(),
        short(29, 60),
        context(4),
        2u32.to_le_bytes().to_vec(),
    ];
    let content = records.concat();
    let stream = [head(50, 60, &content, 0, 0).encode_compact(0), content].concat();
    for ctf2 in [false, true] {
        let files = memory(&meta, ctf2, vec![("user_1_0", stream.clone())]);
        assert_eq!(shown(&files), (vec!["50 test:e1 9 n=1".to_owned(), "60 test:e29 9 n=2".to_owned()], vec![]));
        same_again(&files);
        let traces = [Trace::from_files(&files).unwrap().value];
        let mut reader = Reader::new(&traces);
        for prio in [3, 4] {
            let Some(Item::Record(record)) = reader.next() else { panic!("no record") };
            let word = "0x707070707070707";
            assert_eq!(support::fields(&record.common_context), format!("prio={prio} callstack=[{word},{word}]"));
        }
    }
}

/// What a reader gives from where it stands to its end, by way of a batch.
fn rest(reader: &mut Reader<'_>) -> Vec<String> {
    let (mut found, mut batch) = (Vec::new(), Batch::default());
    while reader.pass().is_some() {
        reader.keep(&mut batch);
    }
    batch.for_each(|item| {
        let Item::Record(record) = item else { return };
        let payload = support::fields(&record.payload);
        found.push(format!("{} {} {} {payload}", record.cycles, record.event.name, record.vtid.unwrap_or(0)));
    });
    found
}

#[test]
fn slices_of_one_packet_know_the_thread_in_front_of_them() {
    let records = told(200_000);
    let files = memory(&compact_meta(), false, vec![("user_1_0", stream(&records, 200_000))]);
    let traces = [Trace::from_files(&files).unwrap().value];
    let mut slices = Slices::new(&traces, 16 << 10).expect("one clock");
    let (mut found, mut count) = (Vec::new(), 0);
    while let Some(slice) = slices.next() {
        found.extend(rest(&mut Reader::of_slice(&traces, &slice)));
        count += 1;
    }
    assert!(count > 4, "{count} slices");
    assert!(found == lines(&records));
}

#[test]
fn a_place_inside_of_a_packet_knows_its_thread() {
    let records = told(300);
    let files = memory(&compact_meta(), false, vec![("user_1_0", stream(&records, 300))]);
    let traces = [Trace::from_files(&files).unwrap().value];
    let mut reader = Reader::new(&traces);
    let threads: Vec<Option<u32>> = records.windows(2).map(|pair| Some(pair[0].2)).collect();
    for (number, _) in records.iter().enumerate() {
        assert!(reader.next().is_some());
        let inside = reader.places()[0].inside;
        // At the first one the packet is not open yet.
        let expect = number.checked_sub(1).map(|before| threads[before]);
        assert_eq!(inside.map(|inside| inside.thread), expect, "record {number}");
    }
}

#[test]
fn an_event_of_that_id_is_an_event_where_records_are_not_compact() {
    let fields = [("vtid", FieldType::Scalar(Scalar::U32))];
    let (id, mut desc) = event(65_535, "thread", &fields);
    desc.provider = "kymo".into();
    let record = support::record(id, 5, 9, &8u32.to_le_bytes());
    let files = memory(&meta(vec![(id, desc)], vec![]), false, vec![("s", support::packet(5, 5, &[record], 0, 0))]);
    assert_eq!(shown(&files), (vec!["5 kymo:thread 9 vtid=8".to_owned()], vec![]));
}

#[test]
fn damage_is_found() {
    let mut records = told(40);
    records[0].1 = 1;
    let whole = stream(&records, 40);
    let check = |bytes: Vec<u8>| {
        let files: Memory = memory(&compact_meta(), false, vec![("user_1_0", bytes)]);
        shown(&files)
    };
    let (found, caveats) = check(whole.clone());
    assert_eq!((found.len(), caveats.len()), (40, 0));
    // The first record is short: ids that no event has.
    for id in [0u8, 2] {
        let mut bytes = whole.clone();
        bytes[112] = bytes[112] & !31 | id;
        let (found, caveats) = check(bytes);
        assert_eq!((found.len(), caveats.len()), (0, 1), "{caveats:?}");
    }
    for end in 0..whole.len() {
        let (found, caveats) = check(whole[..end].to_vec());
        assert!(found.len() < 40 && (end == 0 || !caveats.is_empty()), "{end}");
        assert!(found == lines(&records)[..found.len()], "{end}");
    }
}

/// What fuzzing begins with is what the writer makes.
#[test]
fn the_metadata_for_fuzzing_is_that_of_the_writer() {
    let made = kymo_ctf::write::metadata_ctf18(&compact_meta());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compact.tsdl");
    if std::env::var_os("KYMO_BLESS").is_some() {
        fs::write(path, &made).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap_or_default(), made, "KYMO_BLESS=1 writes it");
}

/// Whatever is wrong with the bytes, all ways to read them find the same.
#[test]
fn changed_bytes_are_read_the_same_in_all_ways() {
    let metadata = kymo_ctf::write::metadata_ctf18(&compact_meta()).into_bytes();
    let whole = stream(&told(60), 20);
    let mut state = 1u64;
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] ^= 1 << (state >> 20 & 7);
        }
        kymo_ctf::read::probe::stream(&metadata, &bytes);
    }
}
