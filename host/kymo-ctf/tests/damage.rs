// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged streams: what is said, and which records are kept. Each case is a change to a good stream beside the lines
//! and caveats it must yield.

use crate::support;

use kymo_ctf::read::{Passed, Reader, Trace};
use kymo_ctf::write::PacketHead;
use support::*;

/// Four packets of two records at cycles 10, 20 to 70, 80; each packet has 108 + 2 * 13 = 134 bytes.
fn good() -> Vec<u8> {
    let byte = |id, time, value| record(id, time, 9, &[value]);
    (0..4u64)
        .flat_map(|i| {
            let (a, b) = (20 * i + 10, 20 * i + 20);
            packet(a, b, &[byte(1, a, i as u8), byte(1, b, 100 + i as u8)], i, 0)
        })
        .collect()
}

const PACKET: usize = 134;
const CONTENT_SIZE: usize = 48;
const PACKET_SIZE: usize = 56;
const DISCARDED: usize = 72;

fn put(stream: &mut [u8], at: usize, bytes: &[u8]) {
    stream[at..at + bytes.len()].copy_from_slice(bytes);
}

/// `kept` are the values of the records that must come out; `said` are the caveats.
fn check(change: impl Fn(&mut Vec<u8>), kept: &[u8], said: &[&str]) {
    let meta =
        meta(vec![event(1, "e", &[("v", kymo_abi::desc::FieldType::Scalar(kymo_abi::desc::Scalar::U8))])], vec![]);
    let mut stream = good();
    change(&mut stream);
    for ctf2 in [false, true] {
        let (lines, caveats) = shown(&memory(&meta, ctf2, vec![("u", stream.clone())]));
        let values: Vec<u8> =
            lines.iter().filter_map(|line| line.rsplit_once("v=").map(|(_, value)| value.parse().unwrap())).collect();
        assert_eq!(caveats, said, "CTF 2: {ctf2}, lines {lines:#?}");
        assert_eq!(values, kept, "CTF 2: {ctf2}");
    }
}

const ALL: [u8; 8] = [0, 100, 1, 101, 2, 102, 3, 103];

#[test]
fn nothing_wrong() {
    check(|_| {}, &ALL, &[]);
    check(|s| s.clear(), &[], &[]);
}

#[test]
fn file_cut_in_a_record() {
    check(
        |s| s.truncate(3 * PACKET + 130),
        &ALL[..7],
        &["u, packet 3, byte 402: the file ends inside the packet, which has 130 of 134 bytes; whole records kept"],
    );
}

#[test]
fn file_cut_between_records() {
    check(
        |s| s.truncate(3 * PACKET + 121),
        &ALL[..7],
        &["u, packet 3, byte 402: the file ends inside the packet, which has 121 of 134 bytes; whole records kept"],
    );
}

#[test]
fn file_cut_in_a_head() {
    for bytes in [1, 3, 4, 20, 31, 32, 107] {
        let said = format!("u, packet 3, byte 402: the file ends inside the packet's head, after {bytes} bytes");
        check(|s| s.truncate(3 * PACKET + bytes), &ALL[..6], &[&said]);
    }
}

#[test]
fn file_cut_behind_a_head() {
    check(
        |s| s.truncate(3 * PACKET + PacketHead::USER_BYTES),
        &ALL[..6],
        &["u, packet 3, byte 402: the file ends inside the packet, which has 108 of 134 bytes; whole records kept"],
    );
}

/// A trace that is being written: what is not there yet is no damage, what is wrong elsewhere is.
#[test]
fn file_ends_where_it_is_written() {
    let meta =
        meta(vec![event(1, "e", &[("v", kymo_abi::desc::FieldType::Scalar(kymo_abi::desc::Scalar::U8))])], vec![]);
    for (bytes, records, said) in [
        (130, 7, "u, packet 3, byte 402: the packet is unfinished: 130 of 134 bytes are written; whole records kept"),
        (108, 6, "u, packet 3, byte 402: the packet is unfinished: 108 of 134 bytes are written; whole records kept"),
        (20, 6, "u, packet 3, byte 402: the packet is unfinished: 20 bytes of its head are written"),
    ] {
        for is_bad in [false, true] {
            let mut stream = good();
            stream.truncate(3 * PACKET + bytes);
            stream[PACKET] ^= u8::from(is_bad);
            let mut traces = [Trace::from_files(&memory(&meta, false, vec![("u", stream)])).unwrap().value];
            traces[0].may_grow();
            let mut reader = Reader::new(&traces);
            let read =
                std::iter::from_fn(|| reader.pass()).filter(|item| matches!(item, Passed::Record { .. })).count();
            assert_eq!(read, records - 2 * usize::from(is_bad));
            assert_eq!(reader.caveats().last().unwrap().1.to_string(), said);
            let all = 1 + u64::from(is_bad);
            assert_eq!((reader.caveat_count(), reader.damage_count()), (all, u64::from(is_bad)));
        }
    }
}

#[test]
fn bad_magic_first_middle_last() {
    check(|s| s[0] = 0, &ALL[2..], &["u, packet 0, byte 0: no packet begins here; 134 bytes skipped"]);
    check(
        |s| s[PACKET] = 0,
        &[0, 100, 2, 102, 3, 103],
        &["u, packet 1, byte 134: no packet begins here; 134 bytes skipped"],
    );
    check(|s| s[3 * PACKET] = 0, &ALL[..6], &["u, packet 3, byte 402: no packet begins here; 134 bytes skipped"]);
}

#[test]
fn rubbish_between_packets() {
    check(
        |s| drop(s.splice(PACKET..PACKET, [0xC1; 999])),
        &ALL,
        &["u, packet 1, byte 134: no packet begins here; 999 bytes skipped"],
    );
}

#[test]
fn another_trace() {
    check(
        |s| s[PACKET + 4] = 0,
        &[0, 100, 2, 102, 3, 103],
        &[
            "u, packet 1, byte 134: the packet's UUID is not that of the metadata, so it may belong to another trace; 134 bytes skipped (--ignore-uuid reads it)",
        ],
    );
}

#[test]
fn unknown_stream_class() {
    check(
        |s| s[PACKET + 20] = 5,
        &[0, 100, 2, 102, 3, 103],
        &["u, packet 1, byte 134: stream class 5 is not in the metadata; 134 bytes skipped"],
    );
}

#[test]
fn unknown_event() {
    check(
        |s| put(s, PACKET + 108 + 13, &[77, 0]),
        &[0, 100, 1, 2, 102, 3, 103],
        &["u, packet 1, byte 255: event id 77 is not in the metadata; rest of the packet skipped"],
    );
}

#[test]
fn content_smaller_than_its_records() {
    check(
        |s| put(s, PACKET + CONTENT_SIZE, &(133u64 * 8).to_le_bytes()),
        &[0, 100, 1, 2, 102, 3, 103],
        &["u, packet 1, byte 255: a record runs past the end of the packet; rest of the packet skipped"],
    );
}

#[test]
fn content_larger_than_the_packet() {
    // The packet ends where the next one begins.
    check(
        |s| put(s, PACKET + CONTENT_SIZE, &(9999u64 * 8).to_le_bytes()),
        &ALL,
        &[
            "u, packet 1, byte 134: content of 79992 bits in a packet of 1072 bits cannot be; 134 bytes taken as the packet",
        ],
    );
}

#[test]
fn packet_size_of_zero_odd_and_huge() {
    for (size, shown) in [(0, "0"), (1073, "1073"), (u64::MAX, "18446744073709551615")] {
        let said = format!(
            "u, packet 1, byte 134: content of 1072 bits in a packet of {shown} bits cannot be; 134 bytes taken as the packet"
        );
        check(|s| put(s, PACKET + PACKET_SIZE, &u64::to_le_bytes(size)), &ALL, &[&said]);
    }
}

#[test]
fn sizes_of_zero() {
    check(
        |s| put(s, PACKET + CONTENT_SIZE, &[0; 16]),
        &[0, 100, 2, 102, 3, 103],
        &["u, packet 1, byte 134: content of 0 bits in a packet of 0 bits cannot be; 134 bytes taken as the packet"],
    );
}

#[test]
fn packet_size_that_leads_astray() {
    // It fits into the file but ends in the middle of packet 2: the search starts again at the content's end.
    check(
        |s| put(s, PACKET + PACKET_SIZE, &(150u64 * 8).to_le_bytes()),
        &ALL,
        &["u, packet 2, byte 284: no packet begins here; 0 bytes skipped"],
    );
}

#[test]
fn end_before_begin() {
    check(
        |s| put(s, PACKET + PacketHead::END_OFFSET, &7u64.to_le_bytes()),
        &ALL,
        &["u, packet 1, byte 134: the packet ends at cycle 7, before it begins at 30"],
    );
}

#[test]
fn begin_before_the_previous_end() {
    check(
        |s| put(s, PacketHead::END_OFFSET, &35u64.to_le_bytes()),
        &ALL,
        &["u, packet 1, byte 134: the packet begins at cycle 30, before the previous one ended at 35"],
    );
}

#[test]
fn packets_out_of_order() {
    // The third packet stands in front of the second one.
    check(
        |s| s[PACKET..3 * PACKET].rotate_left(PACKET),
        &[0, 100, 2, 102, 1, 101, 3, 103],
        &["u, packet 2, byte 268: the packet begins at cycle 30, before the previous one ended at 60"],
    );
}

#[test]
fn record_beyond_the_end() {
    check(
        |s| put(s, PACKET + PacketHead::END_OFFSET, &35u64.to_le_bytes()),
        &ALL,
        &["u, packet 1, byte 255: a record at cycle 40 lies outside its packet, 30 to 35"],
    );
}

/// Cycles and values of all records of two streams: `u`, changed, and `w` with one record.
fn merged(change: impl Fn(&mut Vec<u8>), time_of_w: u64) -> Vec<(u64, u8)> {
    let u8_type = kymo_abi::desc::FieldType::Scalar(kymo_abi::desc::Scalar::U8);
    let meta = meta(vec![event(1, "e", &[("v", u8_type)])], vec![]);
    let mut stream = good();
    change(&mut stream);
    let other = packet(time_of_w, time_of_w, &[record(1, time_of_w, 9, &[200])], 0, 0);
    let memory = memory(&meta, false, vec![("u", stream), ("w", other)]);
    let traces = [kymo_ctf::read::Trace::from_files(&memory).unwrap().value];
    let mut reader = kymo_ctf::read::Reader::new(&traces);
    let mut all = Vec::new();
    while let Some(item) = reader.next() {
        let kymo_ctf::read::Item::Record(record) = item else { continue };
        let Some(kymo_ctf::read::Value::Int(kymo_ctf::read::Number::Unsigned(value), _)) = record.payload.at(0) else {
            panic!("no value")
        };
        all.push((record.cycles, value as u8));
    }
    assert_eq!((reader.caveat_count(), reader.damage_count()), (1, 0));
    all
}

#[test]
fn a_time_behind_the_end_is_kept_and_stands_where_it_says() {
    // The packet of the records at 30 and 40 says that it ends at 35; the next one begins at 50.
    let all = merged(|s| put(s, PACKET + PacketHead::END_OFFSET, &35u64.to_le_bytes()), 37);
    assert_eq!(all[2..5], [(30, 1), (37, 200), (40, 101)]);
}

#[test]
fn a_time_that_cannot_be_is_kept_and_holds_nothing_back() {
    // The record at 40 says 5000: far behind the begin of the next packet.
    let all = merged(|s| put(s, PACKET + 108 + 13 + 2, &5000u16.to_le_bytes()), 55);
    assert_eq!(all[2..7], [(30, 1), (5000, 101), (50, 2), (55, 200), (60, 102)]);
}

#[test]
fn record_that_goes_back() {
    // Not 26 hours ahead, which is what the 48 bits alone would mean.
    check(
        |s| {
            put(s, PACKET + PacketHead::END_OFFSET, &49u64.to_le_bytes());
            put(s, PACKET + 108 + 2, &[45]);
        },
        &ALL,
        &["u, packet 1, byte 255: a record lies 5 cycles before the one in front of it"],
    );
}

#[test]
fn loss_counter_that_goes_back() {
    check(
        |s| put(s, PACKET + DISCARDED, &9u64.to_le_bytes()),
        &ALL,
        &[
            "u, packet 2, byte 268: the counter of lost records went from 9 back to 0: how many were lost is not known, and none is counted",
        ],
    );
}

#[test]
fn only_rubbish() {
    check(|s| *s = vec![0xAA; 500], &[], &["u, packet 0, byte 0: no packet begins here; 500 bytes skipped"]);
}

#[test]
fn caveats_of_one_file_are_bounded() {
    let meta = meta(vec![event(1, "e", &[])], vec![]);
    let stream: Vec<u8> = (0..500).flat_map(|i| packet(i, i, &[record(2, i, 1, &[])], i, 0)).collect();
    let traces = [kymo_ctf::read::Trace::from_files(&memory(&meta, false, vec![("u", stream)])).unwrap().value];
    let mut reader = kymo_ctf::read::Reader::new(&traces);
    assert!(reader.next().is_none());
    assert_eq!((reader.caveats().count(), reader.caveat_count()), (100, 500));
}

#[test]
fn missing_and_torn_metadata() {
    use kymo_ctf::read::{Trace, parse_metadata};
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &std::path::Path| match Trace::open(path) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string().replace(&dir.path().display().to_string(), "DIR"),
    };
    assert_eq!(
        open(dir.path()),
        "DIR: no file `metadata` in it, so it is not a trace; name the directory that holds the files `metadata` and the streams"
    );
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    std::fs::write(dir.path().join("a/b/metadata"), "").unwrap();
    assert_eq!(open(dir.path()), "DIR: no file `metadata` in it, so it is not a trace; traces nearby: DIR/a/b");
    std::fs::create_dir(dir.path().join("a/b/index")).unwrap();
    assert!(open(&dir.path().join("a/b/index")).ends_with("traces nearby: DIR/a/b"));
    let torn = "; the copy is not complete, or the recording stopped before its description was written: copy the trace \
                again, or record again";
    assert_eq!(open(&dir.path().join("a/b")), format!("DIR/a/b/metadata: it is empty{torn}"));

    let (meta, _) = every_type();
    let text = kymo_ctf::write::metadata_ctf18(&meta);
    let cut = text.find("stream_id = 0").unwrap();
    let error = parse_metadata("m", &text.as_bytes()[..cut]).unwrap_err().to_string();
    assert!(error.starts_with("m: the text stops at line ") && error.ends_with(torn), "{error}");
    let json = kymo_ctf::write::metadata_ctf2(&meta);
    let error = parse_metadata("m", &json[..json.len() - 20]).unwrap_err().to_string();
    assert_eq!(error, format!("m: fragment 12 stops in the middle{torn}"));
}
