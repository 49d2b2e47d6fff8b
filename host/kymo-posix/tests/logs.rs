// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logs that are made here by the page (spec/posix.md 7), whole and damaged, and what they become.

use kymo_abi::record_head;
use kymo_ctf::read::{Memory, Reader, Trace};
use kymo_posix::{Caveat, Error, Log, Policy};
use kymo_testing::{Random, setting};

/// CRC-32, bit by bit: not the crate's own table.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

const LOG: u64 = 0x1122_3344_5566_7788;
const START_STAMP: u64 = 5_000_000_000_000;

fn chunk(kind: u32, sequence: u64, stamp: u64, content: &[u8], padded: usize) -> Vec<u8> {
    let bytes = (64 + content.len().next_multiple_of(8)).max(padded);
    let mut out = Vec::new();
    out.extend(b"KYMILOG1");
    for word in [kind, bytes as u32, content.len() as u32, 0] {
        out.extend(word.to_le_bytes());
    }
    for word in [sequence, stamp, LOG, 0, 0] {
        out.extend(word.to_le_bytes());
    }
    out.truncate(64);
    out.resize(64, 0);
    out.extend(content);
    let sum = crc(&out);
    out[20..24].copy_from_slice(&sum.to_le_bytes());
    out.resize(bytes, 0);
    out
}

fn head(version: u32, clock: u32, log_policy: u32) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(version.to_le_bytes());
    out.extend(clock.to_le_bytes());
    out.extend([7_u8; 16]);
    for word in [START_STAMP, 1_700_000_000_000_000_000, 1_700_000_000_000_000_000, 4096, 64, 8192] {
        out.extend(u64::to_le_bytes(word));
    }
    for word in [2, log_policy, 1, 1, 20, 4711] {
        out.extend(u32::to_le_bytes(word));
    }
    let mut text = b"motor \"left\"".to_vec();
    text.resize(64, 0);
    text.extend(b"kymo-1");
    text.resize(128, 0);
    out.extend(text);
    assert_eq!(out.len(), 224);
    chunk(1, 0, 0, &out, 4096)
}

fn names(entries: &[(u16, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, name) in entries {
        out.extend(id.to_le_bytes());
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.as_bytes());
    }
    chunk(2, 0, 0, &out, 0)
}

fn record(id: u16, stamp: u64, data: &[u8]) -> Vec<u8> {
    let mut out = record_head(id, stamp).to_vec();
    out.extend(4711_u32.to_le_bytes());
    out.extend(0x7f00_1234_5678_u64.to_le_bytes());
    out.extend(0x40_1000_u64.to_le_bytes());
    out.extend((data.len() as u16).to_le_bytes());
    out.extend(0_u16.to_le_bytes());
    out.extend(data);
    out
}

/// A block of `count` records, a microsecond (1000 cycles) apart, that count on from `from`.
fn block(sequence: u64, from: u32, count: u32) -> Vec<u8> {
    let stamp = |i: u32| START_STAMP + 1000 * u64::from(from + i);
    let content: Vec<u8> = (0..count).flat_map(|i| record(17, stamp(i), &(from + i).to_le_bytes())).collect();
    chunk(3, sequence, stamp(0), &content, 4096)
}

fn end(is_final: u32) -> Vec<u8> {
    let mut out = (START_STAMP + 1_000_000_000).to_le_bytes().to_vec();
    out.extend(1_700_000_001_000_000_000_u64.to_le_bytes());
    for word in [2, 0, 0, 0, 0, 0, 0, is_final] {
        out.extend(u32::to_le_bytes(word));
    }
    chunk(4, 0, 0, &out, 4096)
}

/// Blocks of 50 records each.
fn log(blocks: &[u64]) -> Vec<u8> {
    let mut out = head(1, 1, 4);
    out.extend(names(&[(2, "posix_trace_start"), (17, "motor \\step")]));
    out.extend(end(1));
    for &sequence in blocks {
        out.extend(block(sequence, sequence as u32 * 50, 50));
    }
    out
}

/// What the CTF reader makes of a log: each record's event, and its data.
fn through_ctf(log: &Log<'_>) -> (Vec<String>, usize) {
    let memory = Memory { metadata: log.metadata().into_bytes(), streams: vec![("posix_0".to_owned(), log.stream())] };
    let trace = Trace::from_files(&memory).expect("the metadata is CTF").value;
    let traces = [trace];
    let mut reader = Reader::new(&traces);
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        if let kymo_ctf::read::Item::Record(record) = item {
            lines.push(record.event.name.to_string());
        }
    }
    let damage = reader.caveats().count();
    (lines, damage)
}

#[test]
fn whole_log() {
    let bytes = log(&[0, 1, 2]);
    // Fuzzing begins with it (fuzz/seeds.sh).
    if let Some(dir) = std::env::var_os("KYMO_FUZZ_SEEDS") {
        std::fs::write(std::path::Path::new(&dir).join("posix_log/whole"), &bytes).unwrap();
    }
    let log = Log::read("whole", &bytes).unwrap();
    assert_eq!(log.records(), 150);
    assert_eq!(log.caveats, []);
    assert_eq!(log.names[&17], "motor \\step");
    assert_eq!(log.head.name, "motor \"left\"");
    assert_eq!(log.head.log_policy, Policy::Append);
    let (events, damage) = through_ctf(&log);
    assert_eq!(events.len(), 150);
    assert!(events.iter().all(|event| event == "motor \\step"));
    assert_eq!(damage, 0);
}

/// The data of an event of the kernel become fields. Where records have another size, they stay bytes.
#[test]
fn events_of_the_kernel_have_fields() {
    let mut switch = Vec::new();
    for word in [1, 4711, 0, 120, -100] {
        switch.extend(i32::to_le_bytes(word));
    }
    switch.extend(b"R+\0\0");
    let mut exit = 1_i32.to_le_bytes().to_vec();
    exit.extend(39_i32.to_le_bytes());
    exit.extend((-9_i64).to_le_bytes());
    let check = |records: &[(u16, &[u8])], expect: &[&str], not: &[&str]| {
        let content: Vec<u8> =
            records.iter().enumerate().flat_map(|(i, (id, data))| record(*id, START_STAMP + i as u64, data)).collect();
        let mut out = head(1, 1, 4);
        out.extend(names(&[
            (9, "posix_trace_context_switch"),
            (10, "posix_trace_system_call_entry"),
            (11, "posix_trace_system_call_exit"),
            (17, "step"),
        ]));
        out.extend(end(1));
        out.extend(chunk(3, 0, START_STAMP, &content, 4096));
        let log = Log::read("kernel", &out).unwrap();
        let memory =
            Memory { metadata: log.metadata().into_bytes(), streams: vec![("posix_0".to_owned(), log.stream())] };
        let traces = [Trace::from_files(&memory).expect("the metadata is CTF").value];
        let mut reader = Reader::new(&traces);
        let mut text = String::new();
        while let Some(item) = reader.next() {
            if let kymo_ctf::read::Item::Record(record) = item {
                for (name, value) in record.payload.iter() {
                    text += &format!("{} {name} {value:?}\n", record.event.name);
                }
            }
        }
        assert_eq!(reader.caveats().count(), 0);
        for word in expect {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        for word in not {
            assert!(!text.contains(word), "{word} is in {text}");
        }
    };
    check(&[(9, &switch), (11, &exit), (17, b"data")], &["from_priority", "R+", "-100", "result", "-9", "data"], &[]);
    check(&[(9, &switch), (9, b"short"), (11, &exit)], &["posix_trace_context_switch", "result"], &["from_priority"]);
}

#[test]
fn blocks_of_a_loop_stand_in_any_order() {
    let bytes = log(&[3, 4, 2]);
    let log = Log::read("loop", &bytes).unwrap();
    assert_eq!(log.records(), 150);
    assert_eq!(log.caveats, [Caveat::Missing { first: 0, count: 2, records: None }]);
    let (events, damage) = through_ctf(&log);
    assert_eq!((events.len(), damage), (150, 0));
}

/// A log whose chunks say how many records are before them, and whose end says how many there are: 50 in each of
/// `total` blocks, of which those in `blocks` are there.
fn numbered(blocks: &[u64], total: u64) -> Vec<u8> {
    let mut out = head(1, 1, 4);
    out.extend(names(&[(17, "step")]));
    for &sequence in blocks {
        let mut block = block(sequence, sequence as u32 * 50, 50);
        block[56..64].copy_from_slice(&(sequence * 50).to_le_bytes());
        out.extend(block);
    }
    let mut content = (START_STAMP + 1_000_000_000).to_le_bytes().to_vec();
    content.extend(1_700_000_001_000_000_000_u64.to_le_bytes());
    for word in [2, 0, 0, 0, 0, 0, 0, 1] {
        content.extend(u32::to_le_bytes(word));
    }
    for word in [total, total * 50, 0] {
        content.extend(u64::to_le_bytes(word));
    }
    out.extend(chunk(4, 0, 0, &content, 0));
    mend(&mut out);
    out
}

/// What the CTF reader says was lost: records, packets.
fn losses(log: &Log<'_>) -> (u64, u64) {
    let memory = Memory { metadata: log.metadata().into_bytes(), streams: vec![("posix_0".to_owned(), log.stream())] };
    let traces = [Trace::from_files(&memory).expect("the metadata is CTF").value];
    let mut reader = Reader::new(&traces);
    let mut found = (0, 0);
    while let Some(item) = reader.next() {
        if let kymo_ctf::read::Item::Loss(loss) = item {
            found = (found.0 + loss.records, found.1 + loss.packets);
        }
    }
    found
}

#[test]
fn missing_records_are_counted_where_the_log_tells() {
    for (blocks, lost, missing) in [
        (&[0, 1, 2, 3][..], 0, vec![]),
        (&[0, 2, 3], 50, vec![(1, 1)]),
        (&[1, 2, 3], 50, vec![(0, 1)]),
        (&[0, 1], 100, vec![(2, 2)]),
        (&[1, 3, 3], 100, vec![(0, 1), (2, 1)]),
        (&[], 200, vec![(0, 4)]),
    ] {
        let bytes = numbered(blocks, 4);
        let log = Log::read("numbered", &bytes).unwrap();
        assert_eq!(log.records(), 200 - lost, "{blocks:?}");
        let caveats: Vec<_> =
            missing.iter().map(|&(first, count)| Caveat::Missing { first, count, records: Some(count * 50) }).collect();
        assert_eq!(log.caveats, caveats, "{blocks:?}");
        assert_eq!(losses(&log), (lost, 0), "{blocks:?}");
        let (events, damage) = through_ctf(&log);
        assert_eq!((events.len() as u64, damage), (200 - lost, 0), "{blocks:?}");
    }
}

#[test]
fn records_of_missing_blocks_of_an_older_log_are_unknown() {
    let bytes = log(&[0, 1, 3]);
    assert_eq!(losses(&Log::read("older", &bytes).unwrap()), (0, 1));
}

#[test]
fn missing_and_damaged_blocks() {
    let mut bytes = log(&[0, 1, 3]);
    let at = bytes.len() - 4096;
    bytes[at + 100] ^= 1;
    let log = Log::read("damaged", &bytes).unwrap();
    assert_eq!(log.records(), 100);
    assert_eq!(log.caveats, [Caveat::Damage { at, bytes: 4096 }]);
    let mut bytes = crate::log(&[0, 1, 3]);
    bytes.truncate(bytes.len() - 8);
    let log = Log::read("cut", &bytes).unwrap();
    assert_eq!(log.records(), 100);
}

#[test]
fn chunks_of_an_earlier_log_do_not_count() {
    let mut bytes = log(&[0]);
    let mut old = block(1, 50, 50);
    old[40] ^= 0xff;
    old[20..24].fill(0);
    let sum = crc(&old[..64 + 50 * 36]);
    old[20..24].copy_from_slice(&sum.to_le_bytes());
    bytes.extend(old);
    assert_eq!(Log::read("old", &bytes).unwrap().records(), 50);
}

#[test]
fn what_is_no_log() {
    assert!(matches!(Log::read("x", b"not a log"), Err(Error::NoHead { .. })));
    assert!(matches!(Log::read("x", b""), Err(Error::NoHead { .. })));
    assert!(matches!(Log::read("x", &head(9, 1, 4)), Err(Error::Version { version: 9, .. })));
    let mut other: Vec<u8> = b"KYMILOG1".iter().rev().copied().collect();
    other.resize(100, 0);
    assert!(matches!(Log::read("x", &other), Err(Error::ByteOrder { .. })));
}

#[test]
fn unfinished_log() {
    let mut bytes = head(1, 1, 4);
    bytes.extend(block(0, 0, 10));
    let log = Log::read("torn", &bytes).unwrap();
    assert_eq!(log.caveats, [Caveat::Unfinished, Caveat::NoFrequency]);
    assert_eq!(through_ctf(&log).0[0], "posix_trace_event_17");
}

/// No bytes make the reader panic, loop or take memory beyond what the log has, and whatever it gives is CTF.
/// KYMO_SEED repeats a run, KYMO_ROUNDS lengthens it.
#[test]
fn any_bytes() {
    let mut random = Random::new("any_bytes", 0xC0FFEE);
    let mut next = move || random.word() as usize >> 1;
    let good = log(&[0, 1, 2]);
    let mut opened = 0;
    for _ in 0..setting("KYMO_ROUNDS", 2000) {
        let mut bytes = good.clone();
        for _ in 0..=next() % 3 {
            let at = next() % bytes.len();
            match next() % 4 {
                0 => bytes[at] = next() as u8,
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.drain(at..(at + next() % 64).min(bytes.len()))),
                _ => {
                    let from = next() % bytes.len();
                    let piece = bytes[from..(from + next() % 4096).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        // Half of them with checksums that are right again, so that what they protect is reached.
        if next() % 2 == 0 {
            mend(&mut bytes);
        }
        if let Ok(log) = Log::read("any", &bytes) {
            opened += 1;
            let (events, damage) = through_ctf(&log);
            assert!(damage > 0 || events.len() as u64 == log.records());
        }
    }
    assert!(opened > 100, "{opened} logs could be opened");
}

/// Puts right checksums into whatever looks like a chunk.
fn mend(bytes: &mut [u8]) {
    let mut at = 0;
    while at + 64 <= bytes.len() {
        let used = u32::from_le_bytes(std::array::from_fn(|i| bytes[at + 16 + i])) as usize;
        let whole = bytes[at..].starts_with(b"KYMILOG1") && used <= 1 << 20 && at + 64 + used <= bytes.len();
        if whole {
            bytes[at + 20..at + 24].fill(0);
            let sum = crc(&bytes[at..at + 64 + used]);
            bytes[at + 20..at + 24].copy_from_slice(&sum.to_le_bytes());
        }
        at += 8;
    }
}
