// SPDX-License-Identifier: MIT OR Apache-2.0
//! What our writer describes, our reader reads back: every type, in both metadata formats.

use crate::support;

use kymo_abi::desc::{FieldType, Scalar};
use kymo_ctf::read::{Item, Reader, Trace};
use kymo_ctf::write::{EnvValue, PacketHead};
use support::*;

#[test]
fn every_type_at_its_extremes() {
    let (meta, records) = every_type();
    let (stream, times) = every_type_stream(&records);
    let mut expect = Vec::new();
    for (i, ((id, _, text), time)) in records.iter().zip(&times).enumerate() {
        if i == 3 {
            expect.push(format!("lost 5 records 0 packets {}..{} user_1_0", times[2] + 3, times[5] + 3));
        }
        let name = &meta.streams[0].events.iter().find(|event| event.id == *id).unwrap().name;
        expect.push(format!("{time} {name} 1240 {text}").trim_end().to_owned());
    }
    for ctf2 in [false, true] {
        let memory = memory(&meta, ctf2, vec![("user_1_0", stream.clone()), ("user_2_0", vec![])]);
        same_again(&memory);
        let (lines, caveats) = shown(&memory);
        assert_eq!(caveats, Vec::<String>::new(), "CTF 2: {ctf2}");
        for (line, expect) in lines.iter().zip(&expect) {
            assert_eq!(line, expect, "CTF 2: {ctf2}");
        }
        assert_eq!(lines.len(), expect.len());
    }
}

#[test]
fn contexts_environment_and_clock() {
    let (meta, records) = every_type();
    let (stream, times) = every_type_stream(&records);
    for ctf2 in [false, true] {
        let traces = [Trace::from_files(&memory(&meta, ctf2, vec![("user_1_0", stream.clone())])).unwrap().value];
        let metadata = &traces[0].metadata;
        let mut env = metadata.env.clone();
        let mut expect = meta.env.clone();
        env.sort_by(|a, b| a.0.cmp(&b.0));
        expect.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(env, expect);
        let clock = &metadata.clocks[0];
        assert_eq!((clock.name.as_str(), clock.uuid, clock.absolute), ("tsc", Some([7; 16]), true));
        assert_eq!(clock.description, meta.clock.description);
        assert_eq!(clock.precision_cycles, 100);
        let mut reader = Reader::new(&traces);
        let Some(Item::Record(record)) = reader.next() else { panic!("no record") };
        assert_eq!((record.cpu, record.vpid, record.vtid, record.procname), (Some(1), Some(1234), Some(1240), "prog"));
        assert_eq!((record.stream, record.packet, record.cycles), ("user_1_0", 0, times[0]));
        let cycles = i128::from(times[0]) + 123_456_789;
        assert_eq!(record.ns, 1_700_000_000 * 1_000_000_000 + cycles * 1_000_000_000 / 2_999_999_999);
        assert_eq!(fields(&record.packet_context).split(' ').next_back(), Some("procname=\"prog\""));
    }
}

#[test]
fn a_thousand_event_classes() {
    let fields: Vec<(&str, FieldType)> = vec![("a", FieldType::Scalar(Scalar::U32)), ("s", FieldType::Str)];
    let meta = meta((1..=2000).map(|id| event(id, &format!("e{id}"), &fields)).collect(), vec![]);
    let records: Vec<Vec<u8>> =
        (1..=2000).map(|id| record(id, u64::from(id), 9, &[&[1, 0, 0, 0][..], &counted(b"t")].concat())).collect();
    let stream = packet(1, 2000, &records, 0, 0);
    for ctf2 in [false, true] {
        let (lines, caveats) = shown(&memory(&meta, ctf2, vec![("s", stream.clone())]));
        assert_eq!(caveats, Vec::<String>::new());
        assert_eq!(lines.len(), 2000);
        assert_eq!(lines[1999], "2000 test:e2000 9 a=1 s=\"t\"");
    }
}

#[test]
fn streams_merge_by_time_and_losses_stand_at_their_begin() {
    let meta = meta(vec![event(1, "e", &[])], vec![]);
    let stream = |times: &[u64], lost: u64| {
        let records: Vec<Vec<u8>> = times.iter().map(|&time| record(1, time, 1, &[])).collect();
        [packet(times[0], times[0], &records[..1], 0, 0), packet(times[1], times[2], &records[1..], 2, lost)].concat()
    };
    let memory =
        memory(&meta, false, vec![("a", stream(&[10, 40, 50], 7)), ("b", stream(&[20, 30, 50], 0)), ("c", vec![])]);
    let (lines, _) = shown(&memory);
    let expect = [
        "10 test:e 1",
        "lost 7 records 1 packets 10..50 a",
        "20 test:e 1",
        "lost 0 records 1 packets 20..50 b",
        "30 test:e 1",
        "40 test:e 1",
        "50 test:e 1",
        "50 test:e 1",
    ];
    assert_eq!(lines, expect);
}

#[test]
fn head_is_laid_out_as_spec_trace_2_says() {
    let mut head = head(0x0102_0304_0506_0708, 0x1112_1314_1516_1718, &[0; 12], 5, 6);
    head.cpu = u32::MAX;
    let bytes = head.encode();
    assert_eq!(bytes[..4], 0xC1FC_1FC1u32.to_le_bytes());
    assert_eq!(bytes[4..20], UUID);
    assert_eq!(bytes[20..32], [0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[32..40], head.begin.to_le_bytes());
    assert_eq!(bytes[PacketHead::END_OFFSET..48], head.end.to_le_bytes());
    assert_eq!(bytes[48..56], 960u64.to_le_bytes());
    assert_eq!(bytes[56..64], 960u64.to_le_bytes());
    assert_eq!(bytes[64..80], [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[80..92], [255, 255, 255, 255, 0xD2, 4, 0, 0, 1, 0, 0, 0]);
    assert_eq!(PacketHead::decode_user(&bytes[..].try_into().unwrap()), head);
    assert_eq!(&bytes[92..108], b"prog\0\0\0\0\0\0\0\0\0\0\0\0");
}

#[test]
fn hostile_names_leave_the_metadata_readable() {
    let u8 = FieldType::Scalar(Scalar::U8);
    let mut meta = meta(
        vec![event(1, "a\"b\\;", &[("x", u8.clone()), ("x", u8.clone()), ("9 }; struct", u8), ("", FieldType::Str)])],
        vec![],
    );
    meta.env.push(("a = 1; };".into(), EnvValue::Text("*/ }; \0".into())));
    meta.clock.name = "my clock}".into();
    let stream = packet(1, 2, &[record(1, 1, 1, &[1, 2, 3, 0, 0])], 0, 0);
    let (lines, caveats) = shown(&memory(&meta, false, vec![("s", stream)]));
    assert_eq!((lines.len(), caveats.len()), (1, 0));
    assert!(lines[0].starts_with("1 test:a\"b\\; 1 x=1 x_=2 "), "{}", lines[0]);
}

#[test]
fn clock_offsets_are_below_a_second() {
    for (hz, seconds, cycles, expect) in [
        (1000, 5, 999, (1000, 5, 999)),
        (1000, 5, 2500, (1000, 7, 500)),
        (1000, -5, 1000, (1000, -4, 0)),
        (0, 5, 3, (1, 8, 0)),
        (1, i64::MAX, u64::MAX, (1, i64::MAX, 0)),
    ] {
        let mut meta = meta(vec![], vec![]);
        meta.clock.frequency_hz = hz;
        meta.clock.offset_s = seconds;
        meta.clock.offset_cycles = cycles;
        for ctf2 in [false, true] {
            let trace = Trace::from_files(&memory(&meta, ctf2, vec![])).unwrap().value;
            let clock = &trace.metadata.clocks[0];
            assert_eq!((clock.frequency_hz, clock.offset_s, clock.offset_cycles), expect, "CTF 2: {ctf2}");
        }
    }
}

#[test]
fn numbers_of_the_environment_have_all_64_bits() {
    let most = EnvValue::Unsigned(u64::MAX);
    let env = vec![("least".to_owned(), EnvValue::Int(i64::MIN)), ("most".to_owned(), most)];
    let mut meta = meta(vec![], vec![]);
    meta.env.clone_from(&env);
    for ctf2 in [false, true] {
        let trace = Trace::from_files(&memory(&meta, ctf2, vec![])).unwrap().value;
        assert_eq!(trace.metadata.env, env, "CTF 2: {ctf2}");
        let again = kymo_ctf::transcode::Transcoder::new(&trace, false).metadata(&[1; 16], &trace.metadata.env);
        assert_eq!(kymo_ctf::read::parse_metadata("m", again.as_bytes()).unwrap().value.env, env, "CTF 2: {ctf2}");
    }
}
