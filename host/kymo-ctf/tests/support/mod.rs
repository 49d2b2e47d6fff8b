// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace with every field type at its extremes, written with our writer and encoded by hand, and what a reader must
//! make of it.
#![allow(dead_code, reason = "each test uses its part")]

pub mod babel;
pub mod located;
pub mod types;
pub mod types_ctf2;

use std::collections::BTreeMap;

use kymo_abi::desc::{Base, EnumDesc, EventDesc, Field, FieldType, Form, Scalar};
use kymo_abi::record_head;
use kymo_ctf::read::{Item, Loss, Memory, Reader, Record, Trace};
use kymo_ctf::transcode::{Packet, Transcoder};
use kymo_ctf::write::{
    ClockMeta, EnvValue, EventClass, PacketHead, Program, StreamClass, StreamKind, TraceMeta, metadata_ctf2,
    metadata_ctf18,
};

pub const UUID: [u8; 16] = [0xC0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// 48 bits short of a wrap, in a clock value that needs more than 48 bits.
pub const NEAR_WRAP: u64 = 0x0007_FFFF_FFFF_FFF0;

pub fn meta(events: Vec<(u16, EventDesc)>, enums: Vec<EnumDesc>) -> TraceMeta {
    let events = events.iter().map(|(id, desc)| EventClass::of_user(*id, desc, &enums)).collect();
    TraceMeta {
        uuid: UUID,
        env: vec![
            ("hostname".into(), EnvValue::Text("lab".into())),
            ("note".into(), EnvValue::Text("lab \"7\"\\ ü\n\u{1}".into())),
            ("tracer_name".into(), EnvValue::Text("kymo".into())),
            ("tracer_major".into(), EnvValue::Int(0)),
            ("lowest".into(), EnvValue::Int(i64::MIN + 1)),
        ],
        clock: ClockMeta {
            name: "tsc".into(),
            uuid: [7; 16],
            description: "time stamp counter; \"raw\"".into(),
            frequency_hz: 2_999_999_999,
            offset_s: 1_700_000_000,
            offset_cycles: 123_456_789,
            precision_cycles: 100,
            absolute: true,
        },
        streams: vec![StreamClass { kind: StreamKind::User, contexts: Vec::new(), events }],
    }
}

pub fn event(id: u16, name: &str, fields: &[(&str, FieldType)]) -> (u16, EventDesc) {
    let fields = fields.iter().map(|(name, ty)| Field { name: (*name).into(), ty: ty.clone() }).collect();
    (id, EventDesc { provider: "test".into(), name: name.into(), file: "test.c".into(), line: 1, fields })
}

pub fn enumeration(name: &str, scalar: Scalar, labels: &[(&str, i64)]) -> EnumDesc {
    let labels = labels.iter().map(|&(label, value)| (label.to_owned(), value)).collect();
    EnumDesc { provider: "test".into(), name: name.into(), file: String::new(), line: 0, scalar, labels }
}

pub fn enum_of(name: &str, scalar: Scalar) -> FieldType {
    FieldType::Enum { scalar, name: format!("test:{name}") }
}

/// A record's bytes.
pub fn record(id: u16, time: u64, vtid: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = record_head(id, time).to_vec();
    bytes.extend(vtid.to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// `str` or `bytes`.
pub fn counted(bytes: &[u8]) -> Vec<u8> {
    let mut out = (bytes.len() as u16).to_le_bytes().to_vec();
    out.extend(bytes);
    out
}

pub fn head(begin: u64, end: u64, content: &[u8], seq: u64, discarded: u64) -> PacketHead {
    let mut procname = [0; 16];
    procname[..4].copy_from_slice(b"prog");
    PacketHead {
        uuid: UUID,
        stream_instance: 3,
        begin,
        end,
        content_bytes: content.len() as u64,
        seq,
        discarded,
        cpu: 1,
        program: Some(Program { vpid: 1234, lane: 1, procname }),
    }
}

pub fn packet(begin: u64, end: u64, records: &[Vec<u8>], seq: u64, discarded: u64) -> Vec<u8> {
    let content = records.concat();
    let mut bytes = head(begin, end, &content, seq, discarded).encode();
    bytes.extend(content);
    bytes
}

/// The bytes of a number and what is shown of it.
type Extreme = (Vec<u8>, String);

/// The lowest and the highest number of a type.
fn extremes(scalar: Scalar) -> (Extreme, Extreme) {
    let bits = scalar.bytes() * 8;
    let integer = |value: i128, shown: String| (value.to_le_bytes()[..scalar.bytes() as usize].to_vec(), shown);
    let (low, high) = (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
    let most = (1i128 << bits) - 1;
    match (scalar.form(), bits) {
        (Form::Int { signed: true, .. }, _) => (integer(low, low.to_string()), integer(high, high.to_string())),
        (Form::Int { base, .. }, _) => match base {
            Base::Binary => (integer(0, "0b0".into()), integer(most, format!("{most:#b}"))),
            Base::Octal => (integer(0, "0o0".into()), integer(most, format!("{most:#o}"))),
            Base::Decimal => (integer(0, "0".into()), integer(most, most.to_string())),
            Base::Hexadecimal => (integer(0, "0x0".into()), integer(most, format!("{most:#x}"))),
        },
        (Form::Float, 32) => (
            (f32::MIN.to_le_bytes().into(), "-3.4028235e38".into()),
            (f32::INFINITY.to_le_bytes().into(), "inf".into()),
        ),
        (Form::Float, _) => {
            ((f64::NEG_INFINITY.to_le_bytes().into(), "-inf".into()), (f64::NAN.to_le_bytes().into(), "NaN".into()))
        }
        (Form::Bool, _) => (integer(0, "false".into()), integer(1, "true".into())),
    }
}

/// Every type once, and what each record's payload looks like, in [`shown`]'s form.
pub fn every_type() -> (TraceMeta, Vec<(u16, Vec<u8>, String)>) {
    use FieldType as F;
    use Scalar as S;
    let scalar = |s| F::Scalar(s);
    let scalars: Vec<(&str, F)> = S::ALL.iter().map(|&s| (s.name(), scalar(s))).collect();
    let many_names: Vec<String> = (0..32).map(|i| format!("f{i}")).collect();
    let many: Vec<(&str, F)> = many_names.iter().map(|name| (name.as_str(), scalar(S::U8))).collect();
    let enums = vec![
        enumeration("state", S::U8, &[("idle", 0), ("moving", 1), ("fault", 9), ("minus", -1), ("idle", 4)]),
        enumeration("wide", S::I64, &[("lowest", i64::MIN), ("highest", i64::MAX), ("none", -1)]),
        enumeration("top", S::U64, &[("all", -1), ("zero", 0)]),
    ];
    let events = vec![
        event(1, "scalars", &scalars),
        event(2, "empty", &[]),
        event(
            3,
            "enums",
            &[
                ("state", enum_of("state", S::U8)),
                ("wide", enum_of("wide", S::I64)),
                ("top", enum_of("top", S::U64)),
                ("lost", enum_of("missing", S::U16)),
            ],
        ),
        event(4, "texts", &[("note", F::Str), ("data", F::Bytes), ("tail", F::Str)]),
        event(
            5,
            "arrays",
            &[
                ("a", F::Array { element: S::I16, count: 3 }),
                ("h", F::Array { element: S::X8, count: 2 }),
                ("b", F::Array { element: S::Bool, count: 2 }),
                ("s", F::Seq { element: S::F64 }),
                ("t", F::Seq { element: S::U8 }),
                ("none", F::Seq { element: S::X64 }),
            ],
        ),
        event(6, "many", &many),
        event(
            7,
            "struct",
            &[
                ("event", scalar(S::U8)),
                ("_x_length", scalar(S::U16)),
                ("x", F::Str),
                ("align", scalar(S::U8)),
                ("uint8_t", scalar(S::U8)),
            ],
        ),
        event(65535, "last", &[]),
    ];
    let (low, high): (Vec<Extreme>, Vec<Extreme>) = S::ALL.iter().map(|&s| extremes(s)).unzip();
    let all = |extremes: &[Extreme]| {
        let shown = S::ALL.iter().zip(extremes).map(|(s, (_, shown))| format!("{}={shown}", s.name()));
        (1, extremes.iter().flat_map(|(bytes, _)| bytes.clone()).collect(), shown.collect::<Vec<_>>().join(" "))
    };
    let long = "ü".repeat(32767) + "x";
    let text = |parts: &[&[u8]]| parts.iter().flat_map(|p| counted(p)).collect::<Vec<u8>>();
    let f64s: Vec<u8> = [1.5f64, f64::MAX, f64::MIN_POSITIVE, -0.0].iter().flat_map(|f| f.to_le_bytes()).collect();
    let records = vec![
        all(&low),
        all(&high),
        (2, vec![], String::new()),
        (3, [vec![1], i64::MIN.to_le_bytes().to_vec(), u64::MAX.to_le_bytes().to_vec(), vec![7, 0]].concat(), "state=moving(1) wide=lowest(-9223372036854775808) top=all(18446744073709551615) lost=7".into()),
        (3, [vec![255], i64::MAX.to_le_bytes().to_vec(), vec![0; 8], vec![0, 1]].concat(), "state=minus(255) wide=highest(9223372036854775807) top=zero(0) lost=256".into()),
        (3, [vec![4], 5i64.to_le_bytes().to_vec(), vec![1, 0, 0, 0, 0, 0, 0, 0], vec![0, 0]].concat(), "state=idle(4) wide=?(5) top=?(1) lost=0".into()),
        (4, text(&[b"", b"", b""]), "note=\"\" data= tail=\"\"".into()),
        (4, text(&["häl \"lo\"\n".as_bytes(), &[0, 0xFF, 0x7F], b"end"]), "note=\"häl \\\"lo\\\"\\n\" data=00ff7f tail=\"end\"".into()),
        (4, text(&[long.as_bytes(), &vec![0xAB; 65535], b"x"]), format!("note={long:?} data={} tail=\"x\"", "ab".repeat(65535))),
        (5, [vec![0, 0x80, 0xFF, 0x7F, 0xFF, 0xFF, 0xAA, 0x05, 1, 0, 4, 0], f64s, vec![2, 0, 8, 9, 0, 0]].concat(),
            "a=[-32768,32767,-1] h=[0xaa,0x5] b=[true,false] s=[1.5,1.7976931348623157e308,2.2250738585072014e-308,-0.0] t=[8,9] none=[]".into()),
        (6, (0..32).collect(), (0..32).map(|i| format!("f{i}={i}")).collect::<Vec<_>>().join(" ")),
        (7, [vec![1, 9, 9], counted(b"hi"), vec![2, 3]].concat(), "event=1 _x_length=2313 x=\"hi\" align=2 uint8_t=3".into()),
        (65535, vec![], String::new()),
    ];
    (meta(events, enums), records)
}

/// The records of [`every_type`] in packets of three, ten cycles apart from `NEAR_WRAP` on, with a loss of 5 before the
/// second packet; and per record its clock.
pub fn every_type_stream(records: &[(u16, Vec<u8>, String)]) -> (Vec<u8>, Vec<u64>) {
    let times: Vec<u64> = (0..records.len() as u64).map(|i| NEAR_WRAP + i * 10).collect();
    let mut stream = Vec::new();
    for (seq, chunk) in records.chunks(3).zip(times.chunks(3)).enumerate() {
        let (records, times) = chunk;
        let encoded: Vec<Vec<u8>> =
            records.iter().zip(times).map(|((id, payload, _), time)| record(*id, *time, 1240, payload)).collect();
        let lost = if seq == 0 { 0 } else { 5 };
        stream.extend(packet(times[0], times[times.len() - 1] + 3, &encoded, seq as u64, lost));
    }
    (stream, times)
}

pub fn memory(meta: &TraceMeta, ctf2: bool, streams: Vec<(&str, Vec<u8>)>) -> Memory {
    let metadata = if ctf2 { metadata_ctf2(meta) } else { metadata_ctf18(meta).into_bytes() };
    Memory { metadata, streams: streams.into_iter().map(|(name, bytes)| (name.into(), bytes)).collect() }
}

/// A value as text.
pub fn value(value: &kymo_ctf::read::Value<'_>) -> String {
    use kymo_ctf::read::Value as V;
    match value {
        V::Int(number, Base::Hexadecimal) => format!("{:#x}", i128::from(*number)),
        V::Int(number, Base::Octal) => format!("{:#o}", i128::from(*number)),
        V::Int(number, _) => number.to_string(),
        V::Enum(number, labels) => format!("{}({number})", labels.joined(*number).as_deref().unwrap_or("?")),
        V::Wide(number) => match number.labels() {
            Some(labels) => format!("{}({number})", labels.join("|")),
            None => number.in_base(),
        },
        V::Bool(value) => value.to_string(),
        V::F32(value) => format!("{value:?}"),
        V::F64(value) => format!("{value:?}"),
        V::Text(text) => format!("{text:?}"),
        V::Bytes(bytes) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
        V::Array(elements) => format!("[{}]", elements.iter().map(|v| self::value(&v)).collect::<Vec<_>>().join(",")),
        V::Struct(fields) => format!("{{{}}}", self::fields(fields)),
        V::Absent => "absent".into(),
    }
}

pub fn fields(fields: &kymo_ctf::read::Fields<'_>) -> String {
    fields.iter().map(|(name, v)| format!("{name}={}", value(&v))).collect::<Vec<_>>().join(" ")
}

/// What a reader gave, as text, one line an item.
pub fn shown(memory: &Memory) -> (Vec<String>, Vec<String>) {
    // Also holds counts against what is read.
    kymo_ctf::read::probe::walk(memory);
    let trace = Trace::from_files(memory).unwrap_or_else(|error| panic!("{error}"));
    let traces = [trace.value];
    let mut reader = Reader::new(&traces);
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        lines.push(match item {
            Item::Record(Record { cycles, event, payload, vtid, .. }) => {
                format!("{cycles} {} {} {}", event.name, vtid.unwrap_or(0), fields(&payload)).trim_end().to_owned()
            }
            Item::Loss(Loss { records, packets, from_cycles, to_cycles, stream, .. }) => {
                format!("lost {records} records {packets} packets {from_cycles}..{to_cycles} {stream}")
            }
        });
    }
    let caveats =
        trace.caveats.iter().chain(reader.caveats().map(|(_, caveat)| caveat)).map(ToString::to_string).collect();
    (lines, caveats)
}

/// The same records, written again: a packet for each of the source's.
pub fn again(memory: &Memory) -> Memory {
    #[derive(Default)]
    struct Records {
        context: Vec<u8>,
        bytes: Vec<u8>,
        times: Vec<u64>,
    }
    let traces = [Trace::from_files(memory).unwrap_or_else(|error| panic!("{error}")).value];
    let mut transcoder = Transcoder::new(&traces[0], false);
    let mut packets: BTreeMap<(String, usize, u64), Records> = BTreeMap::new();
    let mut reader = Reader::new(&traces);
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        let class = transcoder.stream_of(record.event_position);
        let records = packets.entry((record.stream.to_owned(), class, record.packet)).or_default();
        if records.times.is_empty() {
            transcoder.packet_context(class, &record.packet_context, &mut records.context).unwrap();
        }
        transcoder.record(&record, &mut records.bytes).unwrap_or_else(|error| panic!("{error}"));
        records.times.push(record.cycles);
    }
    let mut streams: BTreeMap<String, (u64, Vec<u8>)> = BTreeMap::new();
    for ((name, stream, _), records) in packets {
        let (seq, bytes) = streams.entry(format!("{name}.{stream}")).or_default();
        let [begin, end] = [records.times.iter().min(), records.times.iter().max()].map(|time| *time.unwrap());
        let packet = Packet { uuid: UUID, stream, instance: 0, begin, end, seq: *seq, discarded: 0 };
        bytes.extend(packet.encode(&records.context, records.bytes.len()));
        bytes.extend(records.bytes);
        *seq += 1;
    }
    let metadata = transcoder.metadata(&UUID, &traces[0].metadata.env).into_bytes();
    Memory { metadata, streams: streams.into_iter().map(|(name, (_, bytes))| (name, bytes)).collect() }
}

/// Everything that records say, one line a record, and what was wrong.
fn said(memory: &Memory) -> (Vec<String>, Vec<String>) {
    const OF_PACKET: [&str; 6] =
        ["timestamp_begin", "timestamp_end", "content_size", "packet_size", "packet_seq_num", "events_discarded"];
    let trace = Trace::from_files(memory).unwrap_or_else(|error| {
        panic!("{error}\n{}", String::from_utf8_lossy(&memory.metadata));
    });
    let traces = [trace.value];
    let mut reader = Reader::new(&traces);
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        let packet = record.packet_context.iter().filter(|(name, _)| !OF_PACKET.contains(name));
        let packet: Vec<String> = packet.map(|(name, value)| format!("{name}={}", self::value(&value))).collect();
        let is_who = |name: &str| matches!(name, "vpid" | "vtid" | "pid" | "tid" | "procname");
        let common = record.common_context.iter().filter(|(name, _)| !is_who(name));
        let common: Vec<String> = common.map(|(name, value)| format!("{name}={}", self::value(&value))).collect();
        let [own, payload] = [&record.context, &record.payload].map(fields);
        let who = (record.ns, record.cpu, record.vpid, record.vtid, record.procname, record.event.loglevel);
        lines.push(format!("{} {who:?} {} {packet:?} {common:?} [{own}] {payload}", record.cycles, record.event.name));
    }
    (lines, reader.caveats().map(|(_, caveat)| caveat.to_string()).collect())
}

/// What is written again says the same, and is whole.
#[track_caller]
pub fn same_again(memory: &Memory) {
    let (expect, _) = said(memory);
    let again = again(memory);
    let (lines, caveats) = said(&again);
    let text = || String::from_utf8_lossy(&again.metadata).into_owned();
    for (line, expect) in lines.iter().zip(&expect) {
        assert_eq!(line, expect, "\n{}", text());
    }
    assert_eq!((lines.len(), caveats), (expect.len(), Vec::new()), "\n{}", text());
}
