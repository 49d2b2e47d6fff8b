// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata and records as other tracers write them: compact headers, variants, nesting, bits, big endian, packetised
//! text, CTF 2's other field classes.

use crate::support;

use kymo_ctf::read::{Memory, Trace, parse_metadata};
use support::shown;

/// What is read; written again it is the same.
fn read(metadata: &[u8], stream: &[u8]) -> (Vec<String>, Vec<String>) {
    let memory = Memory { metadata: metadata.to_vec(), streams: vec![("s".into(), stream.to_vec())] };
    support::same_again(&memory);
    shown(&memory)
}

/// The shape of LTTng's metadata: a 5-bit id with a 27-bit time, or an escape to 32 and 64 bits.
const COMPACT: &str = r#"/* CTF 1.8 */
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; uint32_t stream_id; }; };
env { tracer_name = "lttng-ust"; };
clock { name = "monotonic"; freq = 1000000000; offset = 1700000000000000000; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock_monotonic_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_monotonic_t;
struct packet_context {
    uint64_clock_monotonic_t timestamp_begin; uint64_clock_monotonic_t timestamp_end;
    uint64_t content_size; uint64_t packet_size; uint64_t events_discarded; uint32_t cpu_id;
} align(8);
struct event_header_compact {
    enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
    variant <id> {
        struct { uint27_clock_monotonic_t timestamp; } compact;
        struct { uint32_t id; uint64_clock_monotonic_t timestamp; } extended;
    } v;
} align(8);
stream {
    id = 0;
    event.header := struct event_header_compact;
    packet.context := struct packet_context;
    event.context := struct { uint32_t _vtid; integer { size = 8; encoding = UTF8; } _procname[4]; };
};
event {
    name = "app:one"; id = 1; stream_id = 0; loglevel = 13;
    fields := struct {
        uint8_t _n;
        struct { uint8_t a; uint8_t b[_n]; } pairs[2];
        string s;
        enum tag : uint8_t { INT, "TEXT" = 5 } kind;
        variant <kind> { uint32_t INT; string TEXT; } what;
        uint8_t again[stream.event.context._vtid];
    };
};
event { name = "app:two"; id = 40; stream_id = 0; fields := struct { }; };
"#;

fn compact_stream() -> Vec<u8> {
    let mut records = Vec::new();
    let mut small = |id: u32, time: u32, payload: &[u8]| {
        records.extend((id | (time & 0x07FF_FFFF) << 5).to_le_bytes());
        records.extend(2u32.to_le_bytes());
        records.extend(b"ab\0c");
        records.extend(payload);
    };
    small(1, 0x07FF_FFFF, &[1, 7, 8, 9, 10, b'h', b'i', 0, 5, b't', 0, 1, 2]);
    // Past the wrap of 27 bits.
    small(1, 3, &[0, 7, 9, 0, 0, 1, 2, 3, 4, 5, 6]);
    records.push(31);
    records.extend(40u32.to_le_bytes());
    records.extend(0x1000_0009u64.to_le_bytes());
    records.extend([2, 0, 0, 0, b'x', 0, 0, 0]);
    let mut stream = Vec::new();
    stream.extend(0xC1FC_1FC1u32.to_le_bytes());
    stream.extend(0u32.to_le_bytes());
    let bits = (records.len() as u64 + 52) * 8;
    for word in [0x07FF_FFF0u64, 0x2000_0000, bits, bits + 32, 0] {
        stream.extend(word.to_le_bytes());
    }
    stream.extend(3u32.to_le_bytes());
    stream.extend(records);
    stream.extend([0; 4]);
    stream
}

#[test]
fn compact_headers_variants_and_nesting() {
    let expect = [
        "134217727 app:one 2 n=1 pairs=[{a=7 b=[8]},{a=9 b=[10]}] s=\"hi\" kind=TEXT(5) what=\"t\" again=[1,2]",
        "134217731 app:one 2 n=0 pairs=[{a=7 b=[]},{a=9 b=[]}] s=\"\" kind=INT(0) what=67305985 again=[5,6]",
        "268435465 app:two 2",
    ];
    let (lines, caveats) = read(COMPACT.as_bytes(), &compact_stream());
    assert_eq!(caveats, Vec::<String>::new());
    assert_eq!(lines, expect);
}

#[test]
fn context_says_where_a_record_was_written() {
    let memory = Memory { metadata: COMPACT.into(), streams: vec![("s".into(), compact_stream())] };
    let traces = [Trace::from_files(&memory).unwrap().value];
    assert_eq!(traces[0].metadata.events[0].loglevel, Some(13));
    let mut reader = kymo_ctf::read::Reader::new(&traces);
    let Some(kymo_ctf::read::Item::Record(record)) = reader.next() else { panic!("no record") };
    assert_eq!((record.cpu, record.vpid, record.vtid, record.procname), (Some(3), None, Some(2), "ab"));
    assert_eq!(record.ns, 1_700_000_000_000_000_000 + 134_217_727);
}

#[test]
fn kinds_of_fields_are_known_before_there_is_a_record() {
    use kymo_ctf::read::{Base, FieldKind};
    let metadata = parse_metadata("m", COMPACT.as_bytes()).unwrap().value;
    let fields = metadata.fields(&metadata.events[0]);
    let u8 = || FieldKind::Int { signed: false, bits: 8, base: Base::Decimal };
    let names: Vec<_> = fields.iter().map(|field| (field.name, field.position)).collect();
    assert_eq!(names, [("n", 0), ("pairs", 1), ("s", 2), ("kind", 3), ("what", 4), ("again", 5)]);
    assert_eq!(fields[0].kind, u8());
    let FieldKind::Array { element, count: Some(2) } = &fields[1].kind else { panic!("{:?}", fields[1]) };
    let FieldKind::Struct(inner) = &**element else { panic!("{element:?}") };
    assert_eq!(inner[1].kind, FieldKind::Array { element: u8().into(), count: None });
    assert_eq!(fields[2].kind, FieldKind::Text);
    let labels = vec![("INT", 0, 0), ("TEXT", 5, 5)];
    assert_eq!(fields[3].kind, FieldKind::Enum { signed: false, bits: 8, labels });
    assert_eq!(fields[4].kind, FieldKind::Varying);
}

#[test]
fn counting_finds_the_same_as_reading() {
    let memory = Memory {
        metadata: COMPACT.into(),
        streams: vec![("s".into(), compact_stream()), ("t".into(), compact_stream().repeat(2))],
    };
    let trace = Trace::from_files(&memory).unwrap().value;
    for threads in [1, 2, 9] {
        let counts = trace.count(threads);
        assert_eq!((counts.events.as_slice(), counts.records()), (&[6, 3][..], 9));
        assert_eq!(counts.caveats.len(), 1, "the third packet begins before the second ends");
    }
}

#[test]
fn packetised_metadata_of_either_endianness_and_torn() {
    let stream = compact_stream();
    for big in [false, true] {
        let mut metadata = Vec::new();
        let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        for part in COMPACT.as_bytes().chunks(1000) {
            metadata.extend(word(0x75D1_1D57));
            metadata.extend([1; 16]);
            metadata.extend(word(0));
            metadata.extend(word((part.len() as u32 + 37) * 8));
            metadata.extend(word((part.len() as u32 + 40) * 8));
            metadata.extend([0, 0, 0, 1, 8]);
            metadata.extend(part);
            metadata.extend([0; 3]);
        }
        let (lines, caveats) = read(&metadata, &stream);
        assert_eq!((lines.len(), caveats.len()), (3, 0));
        // A piece of another packet behind it.
        metadata.extend(word(0x75D1_1D57));
        let (lines, caveats) = read(&metadata, &stream);
        assert_eq!(lines.len(), 3);
        assert!(
            caveats[0].ends_with("the metadata ends in the middle of a packet; what stands before was used"),
            "{caveats:?}"
        );
    }
}

#[test]
fn big_endian_and_bits() {
    let metadata = r#"
        trace { byte_order = be; };
        typedef integer { size = 8; } byte;
        stream { packet.context := struct { integer { size = 16; } packet_size; }; };
        event { name = bits; fields := struct {
            integer { size = 3; signed = 1; } a; integer { size = 5; base = 8; } b;
            integer { size = 12; align = 1; } c; integer { size = 4; align = 1; base = b; } d;
            integer { size = 16; byte_order = le; } e;
            floating_point { exp_dig = 8; mant_dig = 24; } f;
            byte x[2][2];
            integer { size = 32; align = 32; } g;
        }; };
    "#;
    let payload = [
        // A structure is aligned as its strictest member, so it begins at byte 4.
        0xFF,
        0xFF,
        0b1110_0101,
        0xAB,
        0xC9,
        0x34,
        0x12,
        0x3F,
        0xC0,
        0,
        0,
        1,
        2,
        3,
        4,
        0xFF,
        0xFF,
        0xFF,
        0,
        0,
        0,
        1,
    ];
    let mut stream = vec![0, 192];
    stream.extend(payload);
    let (lines, caveats) = read(metadata.as_bytes(), &stream);
    assert_eq!(caveats, Vec::<String>::new());
    assert_eq!(lines, ["0 bits 0 a=-1 b=0o5 c=2748 d=9 e=4660 f=1.5 x=[[1,2],[3,4]] g=1"]);
}

#[test]
fn ctf2_field_classes_that_we_do_not_write() {
    let fragments = [
        r#"{"type":"preamble","version":2}"#,
        r#"{"type":"field-class-alias","name":"u8","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian","alignment":8}}"#,
        r#"{"type":"clock-class","id":"c","frequency":1000,"offset-from-origin":{"seconds":2,"cycles":500}}"#,
        r#"{"type":"trace-class"}"#,
        r#"{"type":"data-stream-class","default-clock-class-id":"c","event-record-header-field-class":{"type":"structure","member-classes":[
            {"name":"t","field-class":{"type":"variable-length-unsigned-integer","roles":["default-clock-timestamp"]}}]}}"#,
        r#"{"type":"event-record-class","name":"e","payload-field-class":{"type":"structure","member-classes":[
            {"name":"n","field-class":"u8"},
            {"name":"v","field-class":{"type":"variant","selector-field-location":{"path":["n"]},"options":[
                {"selector-field-ranges":[[0,0]],"field-class":"u8"},
                {"selector-field-ranges":[[1,1],[3,9]],"field-class":{"type":"null-terminated-string","encoding":"utf-16le"}}]}},
            {"name":"o","field-class":{"type":"optional","selector-field-location":{"origin":"event-record-payload","path":["n"]},"selector-field-ranges":[[1,255]],"field-class":"u8"}},
            {"name":"b","field-class":{"type":"static-length-blob","length":2}},
            {"name":"l","field-class":{"type":"variable-length-signed-integer","mappings":{"low":[[-2,-1]]}}},
            {"name":"s","field-class":{"type":"dynamic-length-string","length-field-location":{"path":["n"]}}},
            {"name":"f","field-class":{"type":"fixed-length-boolean","length":8,"byte-order":"big-endian"}}]}}"#,
    ];
    let metadata: Vec<u8> = fragments.iter().flat_map(|text| [b"\x1E", text.as_bytes(), b"\n"].concat()).collect();
    let stream = [
        &[0x81, 0x01, 0, 5, 0xDE, 0xAD, 0x7E, 0][..],
        &[0x05, 3, b'h', 0, b'i', 0, 0, 0, 9, 1, 2, 0, b'a', b'b', 0, 2],
    ];
    let (lines, caveats) = read(&metadata, &stream.concat());
    // Nothing names packets here, so the stream is one. A time of 7 bits extends the one before.
    assert_eq!(caveats, Vec::<String>::new());
    assert_eq!(
        lines,
        [
            "129 e 0 n=0 v=5 o=absent b=dead l=low(-2) s=\"\" f=false",
            "133 e 0 n=3 v=\"hi\" o=9 b=0102 l=?(0) s=\"ab\" f=true",
        ]
    );
}

#[test]
fn environment_of_either_kind_and_missing_parts() {
    let metadata = parse_metadata("m", COMPACT.as_bytes()).unwrap().value;
    assert_eq!(metadata.env[0].0, "tracer_name");
    // A trace without events is one, and its streams are damaged.
    let (lines, caveats) = read(b"trace { byte_order = le; };", &[1, 2, 3]);
    assert_eq!(lines.len(), 0);
    assert_eq!(caveats, ["s, packet 0, byte 0: event id 0 is not in the metadata; rest of the packet skipped"]);
    // An event without bits is not read for ever.
    let (lines, caveats) = read(b"event { name = e; };", &[1, 2, 3]);
    assert_eq!(lines.len(), 0);
    assert_eq!(caveats, ["s, packet 0, byte 0: a record without any bits; rest of the packet skipped"]);
}

#[test]
fn ids_that_the_program_sees_go_before_those_of_the_kernel() {
    for names in [["vtid", "tid", "vpid", "pid"], ["tid", "vtid", "pid", "vpid"]] {
        let fields: String = names.map(|name| format!("u8 _{name}; ")).concat();
        let metadata = format!(
            "typealias integer {{ size = 8; }} := u8; stream {{ event.context := struct {{ {fields} }}; }}; event {{ id = 0; }};"
        );
        let bytes: Vec<u8> = names.map(|name| u8::from(name.starts_with('v'))).into();
        let memory = Memory { metadata: metadata.into(), streams: vec![("s".into(), bytes)] };
        let traces = [Trace::from_files(&memory).unwrap().value];
        let mut reader = kymo_ctf::read::Reader::new(&traces);
        let Some(kymo_ctf::read::Item::Record(record)) = reader.next() else { panic!("no record") };
        assert_eq!((record.vtid, record.vpid), (Some(1), Some(1)), "{names:?}");
    }
}

/// Names of types in all forms, and references from everywhere.
#[test]
fn every_form_of_declaration_and_reference() {
    let metadata = r#"/* CTF 1.8 */
        typealias integer { size = 8; align = 8; signed = false; byte_order = network; } := unsigned char;
        typealias integer { size = 16; align = 8; base = x; } := const unsigned short * ;
        typedef integer { size = 8; signed = true; } int8_t, *pointer_t;
        typedef unsigned char pair_t[2];
        enum colour : unsigned char { RED, GREEN = 5, BLUE, "PINK RED" = 'a' ... 'c', };
        typealias enum colour := colour_t;
        struct point { int8_t x; int8_t y; } align(8);
        variant shape { struct point RED; string GREEN; unsigned char BLUE[2]; };
        typealias struct { unsigned char n; unsigned char of[n]; } := list_t;
        trace { major = 1; minor = 8; byte_order = le; uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
            packet.header := struct { integer { size = 32; } magic; unsigned char kind; }; };
        env { a = "b" "c"; n = -5; };
        clock { name = "c"; freq = 10; offset_s = 3; offset = 5; precision = 1; absolute = TRUE; };
        callsite { name = "e"; func = "main"; file = "x.c"; line = 39; };
        stream { packet.context := struct { unsigned char cpu_id; };
            typealias integer { size = 8; map = clock.c.value; } := stamp_t;
            event.header := struct { colour_t id; stamp_t timestamp; };
            event.context := struct { unsigned char depth; }; };
        event { id = 5; name = "e"; loglevel = 3; model.emf.uri = "http://x";
            context := struct { unsigned char k; };
            fields := struct {
                colour_t tag;
                variant shape <tag> one;
                variant <stream.event.header.id> { unsigned char RED; pair_t GREEN; } two;
                unsigned char three[stream.packet.context.cpu_id];
                unsigned char four[trace.packet.header.kind];
                unsigned char five[stream.event.context.depth];
                unsigned char six[event.context.k];
                struct { unsigned char inner[event.fields.tag]; list_t lists[2]; } seven;
                enum { LOW = -3 ... -1, ZERO, ONE } small;
            }; };
    "#
    .replace("enum { LOW", "enum : int8_t { LOW");
    let stream = [
        &[0xC1, 0x1F, 0xFC, 0xC1, 1, 2][..],
        // Header, contexts, payload.
        &[5, 7, 1, 2, 5, b'o', b'k', 0, 8, 9, 21, 22, 31, 41, 51, 52],
        &[1, 2, 3, 4, 5, 1, 6, 2, 7, 8, 0xFE],
    ];
    let (lines, caveats) = read(metadata.as_bytes(), &stream.concat());
    assert_eq!(caveats, Vec::<String>::new());
    assert_eq!(
        lines,
        ["7 e 0 tag=GREEN(5) one=\"ok\" two=[8,9] three=[21,22] four=[31] five=[41] six=[51,52] \
          seven={inner=[1,2,3,4,5] lists=[{n=1 of=[6]},{n=2 of=[7,8]}]} small=LOW(-2)"]
    );
    let metadata = parse_metadata("m", metadata.as_bytes()).unwrap().value;
    assert_eq!(metadata.clocks[0].nanoseconds(5), 4_000_000_000);
}
