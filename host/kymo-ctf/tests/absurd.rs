// SPDX-License-Identifier: MIT OR Apache-2.0
//! Absurd sizes and clocks, one defect a trace: each has its message, and none costs memory or time beyond the file's
//! own size.

use crate::support;

use std::time::{Duration, Instant};

use kymo_ctf::read::{Memory, Trace, parse_metadata};
use support::shown;

const TYPES: &str = "typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32;
    typealias integer { size = 64; } := u64; typealias integer { size = 8; encoding = UTF8; } := letter;
    clock { name = c; freq = 1000000000; };
    stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };";

/// A good record, then one with `payload` of the given fields, in a stream without packets.
fn of_fields(fields: &str, payload: &[u8]) -> Memory {
    let events = format!(
        "event {{ id = 1; name = good; fields := struct {{ u8 v; }}; }};\nevent {{ id = 2; name = bad; fields := struct {{ {fields} }}; }};"
    );
    let stream = [&[1, 1, 7, 2, 2][..], payload].concat();
    Memory { metadata: format!("/* CTF 1.8 */\n{TYPES}{events}").into(), streams: vec![("s".into(), stream)] }
}

/// The good record comes out, the other one does not; one caveat, which begins so.
#[track_caller]
fn refused(memory: &Memory, said: &str) {
    let begun = Instant::now();
    let (lines, caveats) = shown(memory);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(caveats.len() == 1 && caveats[0].starts_with(said), "{caveats:#?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn four_gib_of_text_promised_in_ten_bytes() {
    let payload = [&u32::MAX.to_le_bytes()[..], b"abcdef"].concat();
    refused(&of_fields("u32 n; letter text[n];", &payload), "s, packet 0, byte 3: a record runs past the end");
}

#[test]
fn text_without_end() {
    refused(&of_fields("string s;", b"abcdefghij"), "s, packet 0, byte 3: a record runs past the end");
}

#[test]
fn lengths_that_wrap_around() {
    for length in [u64::MAX, 1 << 63, 1 << 61, (1 << 61) + 1] {
        let payload = [&length.to_le_bytes()[..], &[0; 16]].concat();
        refused(&of_fields("u64 n; u64 a[n];", &payload), "s, packet 0, byte 3: a record runs past the end");
    }
}

#[test]
fn numbers_of_nothing() {
    // Elements without a bit: as many as one likes fit into nothing.
    let payload = u64::MAX.to_le_bytes();
    refused(&of_fields("u64 n; struct { } a[n];", &payload), "s, packet 0, byte 3: ");
    let payload = (1u64 << 40).to_le_bytes();
    refused(&of_fields("u64 n; struct { } a[n];", &payload), "s, packet 0, byte 3: ");
}

#[test]
fn arrays_of_a_fixed_length_that_no_file_has() {
    for length in ["4294967295", "1099511627776", "18446744073709551615"] {
        let memory = of_fields(&format!("u64 a[{length}];"), &[0; 10]);
        match Trace::from_files(&memory) {
            // The number alone is no mistake.
            Ok(_) => refused(&memory, "s, packet 0, byte 3: a record runs past the end"),
            Err(error) => assert!(error.to_string().contains("line "), "{error}"),
        }
    }
    // Arrays of arrays, whose product wraps.
    let memory = of_fields("u64 a[4294967296][4294967296][4294967296];", &[0; 10]);
    match Trace::from_files(&memory) {
        Ok(_) => refused(&memory, "s, packet 0, byte 3: a record runs past the end"),
        Err(error) => assert!(error.to_string().contains("line "), "{error}"),
    }
}

#[test]
fn an_alignment_that_leads_out_of_the_file() {
    let memory = of_fields("u8 a; integer { size = 8; align = 1073741824; } b;", &[0; 10]);
    match Trace::from_files(&memory) {
        Ok(_) => refused(&memory, "s, packet 0, byte 3: a record runs past the end"),
        Err(error) => assert!(error.to_string().contains("lign"), "{error}"),
    }
}

#[test]
fn metadata_that_promise_four_gib_of_themselves() {
    // Packetised: magic, uuid, checksum, content size and packet size in bits, compression and so on, versions 1.8.
    for (content, packet) in [(u32::MAX, u32::MAX), (u32::MAX, 400), (400, u32::MAX), (0, 0)] {
        let mut bytes = 0x75D1_1D57u32.to_le_bytes().to_vec();
        bytes.extend([7; 16]);
        bytes.extend([0; 4]);
        bytes.extend(content.to_le_bytes());
        bytes.extend(packet.to_le_bytes());
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(b"/* CTF 1.8 */");
        let error = match parse_metadata("m", &bytes) {
            Ok(_) => panic!("taken: content {content}, packet {packet}"),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with("m: "), "{error}");
    }
}

#[test]
fn metadata_without_streams_are_an_empty_trace() {
    let memory = Memory { streams: Vec::new(), ..of_fields("u8 a;", &[]) };
    assert_eq!(shown(&memory), (Vec::<String>::new(), Vec::<String>::new()));
}

#[test]
fn a_field_of_another_clock_is_a_number() {
    let metadata = format!(
        "/* CTF 1.8 */\n{TYPES} clock {{ name = d; freq = 7; offset_s = 5; }};
        event {{ id = 1; name = e; fields := struct {{ integer {{ size = 8; map = clock.d.value; }} t; }}; }};"
    );
    let memory = Memory { metadata: metadata.into(), streams: vec![("s".into(), vec![1, 1, 9])] };
    // A field of another clock is a number; the records' time is that of their heads.
    let (lines, caveats) = shown(&memory);
    assert!(lines.len() == 1 && caveats.is_empty(), "{lines:?} {caveats:?}");
}
