// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of values and their places that metadata alone cannot break [spec/conformance-ctf.md]: each with records that
//! keep it and, where there are any, with records that do not.

use crate::support;

use kymo_ctf::read::{Memory, parse_metadata, probe};
use serde_json::json;
use support::located::*;
use support::shown;

/// Of a trace with several streams.
const HEADER: &str = "trace { packet.header := struct { integer { size = 32; } stream_id; }; };";

/// A trace of CTF 1.8 with one event, whose records are nothing but their payload.
fn of_text(fields: &str, stream: &[u8]) -> Memory {
    let metadata = format!("/* CTF 1.8 */ event {{ name = e; fields := struct {{ {fields} }}; }};");
    Memory { metadata: metadata.into(), streams: vec![("s".into(), stream.to_vec())] }
}

/// The payloads of the records, and what was said of them.
fn read(memory: &Memory) -> (Vec<String>, Vec<String>) {
    let (lines, caveats) = shown(memory);
    (lines.iter().map(|line| line.trim_start_matches("0 e 0 ").to_owned()).collect(), caveats)
}

fn check(memory: &Memory, expect: &[&str]) {
    assert_eq!(read(memory), (expect.iter().map(|line| (*line).to_owned()).collect(), Vec::new()));
}

#[test]
fn integers_of_more_than_64_bits() {
    let value = 0x0123_4567_89AB_CDEF_0011_2233_4455_6677u128;
    let fields = "integer { size = 128; byte_order = le; } a; integer { size = 128; byte_order = be; base = hex; } b;
        integer { size = 128; signed = true; } c; integer { size = 72; align = 8; base = oct; } d;";
    let seventy_two = &(8u128.pow(20)).to_le_bytes()[..9];
    let stream = [&value.to_le_bytes()[..], &value.to_be_bytes(), &(-5i128).to_le_bytes(), seventy_two].concat();
    check(
        &of_text(fields, &stream),
        &["a=1512366075204170928972419503379277431 b=0x123456789abcdef0011223344556677 c=-5 d=0o100000000000000000000"],
    );
    // Between bits of other fields, in arrays of either kind, in a structure, and behind what is not constant.
    let fields = "integer { size = 3; align = 1; } x; integer { size = 69; align = 1; } y; integer { size = 8; } n;
        struct { integer { size = 96; } z; } s[1]; string t; integer { size = 80; base = hex; } list[n];";
    let bits = 5 | 0x1F_FFFF_FFFF_FFFF_FFFEu128 << 3;
    let stream = [&bits.to_le_bytes()[..9], &[2], &[0xFF; 12], b"t\0", &[1; 10], &[2; 10]].concat();
    check(
        &of_text(fields, &stream),
        &["x=5 y=590295810358705651710 n=2 s=[{z=79228162514264337593543950335}] t=\"t\" \
           list=[0x1010101010101010101,0x2020202020202020202]"],
    );
    // In an option, which is on the tape; as an enumeration.
    let fields = "enum : integer { size = 8; } { A, B } tag; variant <tag> { integer { size = 100; } A; string B; } v;
        enum : integer { size = 128; } { small = 0 ... 9, big = 18446744073709551615 } e;";
    let first = [&[0][..], &[0xFF; 12], &[0x0F], &u128::from(u64::MAX).to_le_bytes()].concat();
    let second = [&[1, b'b', 0][..], &u128::MAX.to_le_bytes()].concat();
    check(
        &of_text(fields, &[first, second].concat()),
        &[
            "tag=A(0) v=1267650600228229401496703205375 e=big(18446744073709551615)",
            "tag=B(1) v=\"b\" e=(340282366920938463463374607431768211455)",
        ],
    );
}

#[test]
fn integers_of_more_than_64_bits_in_ctf_2() {
    let wide = |kind: &str, bits: u32, order: &str| json!({ "type": kind, "length": bits, "byte-order": order });
    let (signed, unsigned) = ("fixed-length-signed-integer", "fixed-length-unsigned-integer");
    let mapped = json!({ "type": unsigned, "length": 128, "byte-order": "big-endian", "preferred-display-base": 2,
        "mappings": { "one": [[1, 1]], "odd": [[1, 1], [3, 3]] } });
    let members = [
        member("a", wide(signed, 128, "big-endian")),
        member("b", wide(unsigned, 256, "little-endian")),
        member("c", mapped),
        member("d", wide("fixed-length-boolean", 65, "little-endian")),
        member("e", wide("fixed-length-bit-array", 71, "little-endian")),
    ];
    let stream = [
        &i128::MIN.to_be_bytes()[..],
        &[0xFF; 32],
        &1u128.to_be_bytes(),
        // 65 bits of nothing and then 71 ones.
        &[0; 8],
        &[0xFE],
        &[0xFF; 8],
    ]
    .concat();
    let all = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
    check(
        &of_payload(&members, &stream),
        &[&format!("a={} b={all} c=odd|one(1) d=false e=2361183241434822606847", i128::MIN)],
    );
}

#[test]
fn floats_of_more_than_64_bits_are_the_nearest_ones() {
    // 1.5, and pi with more digits than 64 bits have.
    let stream = [0x3FFF_8000u128 << 96, 0x4000_921f_b544_42d1_8469_898c_c517_01b8].map(u128::to_be_bytes).concat();
    let fields = "floating_point { exp_dig = 15; mant_dig = 113; byte_order = be; } f[2];";
    let (lines, caveats) = read(&of_text(fields, &stream));
    assert_eq!(lines, ["f=[1.5,3.141592653589793]"]);
    assert_eq!(caveats.len(), 1, "{caveats:?}");
    assert!(caveats[0].ends_with("floats of 128 bits are shown as the nearest one of 64 bits"), "{caveats:?}");
    let class = json!({ "type": "fixed-length-floating-point-number", "length": 128, "byte-order": "big-endian" });
    let (lines, caveats) = read(&of_payload(&[member("f", class)], &stream));
    assert_eq!(lines, ["f=1.5", "f=3.141592653589793"]);
    assert_eq!(caveats, ["memory/metadata: fragment 3: floats of 128 bits are shown as the nearest one of 64 bits"]);
}

#[test]
fn bits_in_the_order_that_the_class_says() {
    let int = |kind: &str, bits: u32, bytes: &str, order: &str| json!({ "type": kind, "length": bits, "byte-order": bytes, "bit-order": order });
    let unsigned = "fixed-length-unsigned-integer";
    let members = [
        member("a", int(unsigned, 3, "little-endian", "last-to-first")),
        member("b", int(unsigned, 5, "little-endian", "first-to-last")),
        member("c", int(unsigned, 16, "big-endian", "first-to-last")),
        member("d", int("fixed-length-signed-integer", 12, "big-endian", "last-to-first")),
        member("e", int("fixed-length-signed-integer", 4, "big-endian", "first-to-last")),
        member("f", int("fixed-length-floating-point-number", 32, "little-endian", "last-to-first")),
        member("g", int(unsigned, 72, "little-endian", "last-to-first")),
    ];
    let float = 1.5f32.to_bits().reverse_bits().to_le_bytes();
    // 001 read from the low end is 4 backwards; the other five bits are 11010.
    let stream = [&[0b1101_0001, 0x80, 0x01][..], &[0xFF, 0xE1], &float, &[0, 0, 0, 0, 0, 0, 0, 0, 0x80]].concat();
    check(&of_payload(&members, &stream), &["a=4 b=26 c=32769 d=-2 e=-8 f=1.5 g=1"]);
}

#[test]
fn locations_of_lengths_and_selectors() {
    for (what, memory, expect) in located() {
        let expect: Vec<String> = expect.into_iter().map(str::to_owned).collect();
        assert_eq!(read(&memory), (expect, Vec::new()), "{what}");
    }
    let (memory, expect) = through_parents();
    check(&memory, &expect);
}

#[test]
fn a_length_that_the_record_does_not_have() {
    let told = "s, packet 0, byte 4: a length or a selector lies in an option or an optional that the record does not have; \
                rest of the packet skipped";
    let with_length = structure(&[member("l", int(8))]);
    // The second record's option has no `l`; its length must not be that of the first record.
    let members = [
        member("sel", int(8)),
        member("v", variant(&[with_length.clone(), nul_text()])),
        member("s", text(json!(["v", "l"]))),
    ];
    let (lines, caveats) = read(&of_payload(&members, &[0, 2, b'a', b'b', 1, 0, b'c', b'd']));
    assert_eq!((lines, caveats), (vec!["sel=0 v={l=2} s=\"ab\"".to_owned()], vec![told.to_owned()]));
    // What a path only passes by does not matter: `l` is in front of the variant.
    let members = [
        member("l", int(8)),
        member("sel", int(8)),
        member("v", variant(&[structure(&[member("x", int(8))]), nul_text()])),
        member("s", text(json!(["v", null, "l"]))),
    ];
    check(
        &of_payload(&members, &[1, 0, 9, b'a', 2, 1, 0, b'b', b'c']),
        &["l=1 sel=0 v={x=9} s=\"a\"", "l=2 sel=1 v=\"\" s=\"bc\""],
    );
    let has = json!({ "type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian" });
    let optional =
        json!({ "type": "optional", "selector-field-location": { "path": ["has"] }, "field-class": with_length });
    let members = [member("has", has), member("o", optional), member("s", text(json!(["o", "l"])))];
    let (lines, caveats) = read(&of_payload(&members, &[1, 2, b'a', b'b', 0, b'c', b'd']));
    assert_eq!((lines, caveats), (vec!["has=true o={l=2} s=\"ab\"".to_owned()], vec![told.to_owned()]));
}

#[test]
fn texts_of_wide_units_end_with_a_whole_one() {
    let text =
        json!({ "type": "dynamic-length-string", "encoding": "utf-16le", "length-field-location": { "path": ["n"] } });
    let members = [member("n", int(8)), member("t", text), member("m", int(8))];
    // The last one has an odd length, and its end before that.
    let stream = [4, b'h', 0, b'i', 0, 1, 0, 2, 5, b'h', 0, 0, 0, 9, 3];
    check(&of_payload(&members, &stream), &["n=4 t=\"hi\" m=1", "n=0 t=\"\" m=2", "n=5 t=\"h\" m=3"]);
    let (lines, caveats) = read(&of_payload(&members, &[3, b'h', 0, b'i', 1]));
    assert_eq!(lines, Vec::<String>::new());
    assert_eq!(
        caveats,
        ["s, packet 0, byte 0: a text ends inside of a unit of its encoding; rest of the packet skipped"]
    );
}

#[test]
fn all_labels_of_a_value() {
    let fields = "enum : integer { size = 8; } { low = 0 ... 9, five = 5, odd = 5, odd = 7, high = 9 ... 12 } e;";
    check(
        &of_text(fields, &[1, 5, 7, 9, 13]),
        &["e=low(1)", "e=low|five|odd(5)", "e=low|odd(7)", "e=low|high(9)", "e=?(13)"],
    );
}

/// Metadata in packets, as LTTng writes them while it records.
fn packets(text: &[u8], schemes: [u8; 5], is_big: bool) -> Vec<u8> {
    let word = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = Vec::new();
    for part in text.chunks(100) {
        bytes.extend(word(0x75D1_1D57));
        bytes.extend([1; 16]);
        bytes.extend(word(0));
        bytes.extend(word((part.len() as u32 + 37) * 8));
        bytes.extend(word((part.len() as u32 + 40) * 8));
        bytes.extend(schemes);
        bytes.extend(part);
        bytes.extend([0; 3]);
    }
    bytes
}

#[test]
fn metadata_in_packets_of_either_format() {
    let ctf2 = of_payload(&[member("a", int(8))], &[7]);
    let text = of_text("integer { size = 8; } a;", &[7]);
    for (memory, version) in [(&ctf2, [2, 0]), (&text, [1, 8])] {
        for is_big in [false, true] {
            let schemes = [0, 0, 0, version[0], version[1]];
            let metadata = packets(&memory.metadata, schemes, is_big);
            check(&Memory { metadata: metadata.clone(), ..memory.clone() }, &["a=7"]);
            // Cut off in the middle of the last packet: what stands before is used, or is not enough.
            let torn = &metadata[..metadata.len() - 20];
            match parse_metadata("m", torn) {
                Ok(parsed) => assert!(parsed.caveats[0].to_string().contains("in the middle of a packet")),
                Err(error) => assert!(error.to_string().contains("stop"), "{error}"),
            }
        }
        for (schemes, told) in [
            ([1, 0, 0, 1, 8], "m: packet 0: it is compressed (scheme 1), which is not supported"),
            ([0, 2, 0, 1, 8], "m: packet 0: it is encrypted (scheme 2), which is not supported"),
            ([0, 0, 0, 3, 1], "m: packet 0: version 3.1 of CTF is not known"),
        ] {
            let error = parse_metadata("m", &packets(&memory.metadata, schemes, false)).unwrap_err();
            assert_eq!(error.to_string(), told);
        }
    }
}

/// A trace of CTF 2 whose packets and records do not say of which class they are.
fn without_ids(streams: [u64; 2], events: [u64; 2]) -> Memory {
    let mut fragments = vec![json!({ "type": "preamble", "version": 2 })];
    fragments.extend(streams.map(|id| json!({ "type": "data-stream-class", "id": id })));
    for (stream, event) in streams.into_iter().flat_map(|stream| events.map(|event| (stream, event))) {
        let payload = structure(&[member("n", int(8))]);
        fragments.push(json!({ "type": "event-record-class", "data-stream-class-id": stream, "id": event,
            "name": format!("s{stream}e{event}"), "payload-field-class": payload }));
    }
    let metadata = fragments.iter().flat_map(|fragment| format!("\u{1E}{fragment}\n").into_bytes()).collect();
    Memory { metadata, streams: vec![("s".into(), vec![1, 2])] }
}

#[test]
fn an_id_that_is_not_there_is_0_in_ctf_2() {
    for (streams, events, expect, told) in [
        ([3, 0], [7, 0], vec!["0 s0e0 0 n=1", "0 s0e0 0 n=2"], vec![]),
        ([3, 4], [7, 0], vec![], vec!["s, packet 0, byte 0: stream class 0 is not in the metadata; 2 bytes skipped"]),
        (
            [3, 0],
            [7, 8],
            vec![],
            vec!["s, packet 0, byte 0: event id 0 is not in the metadata; rest of the packet skipped"],
        ),
    ] {
        let (lines, caveats) = shown(&without_ids(streams, events));
        assert_eq!(
            (lines, caveats),
            (expect.into_iter().map(str::to_owned).collect(), told.into_iter().map(str::to_owned).collect())
        );
    }
}

/// Metadata of a form, `count` times as large; each is one that may come to quadratic work.
fn forms(count: usize) -> Vec<(&'static str, Vec<u8>)> {
    let many = |make: &dyn Fn(usize) -> String| (0..count).map(make).collect::<String>();
    let u8s = "typealias integer { size = 8; } := u8;";
    let fields = |text: String| format!("{u8s} event {{ fields := struct {{ {text} }}; }};").into_bytes();
    let json_members = |make: &dyn Fn(usize) -> serde_json::Value| {
        let members: Vec<_> = (0..count).map(make).collect();
        of_payload(&members, &[]).metadata
    };
    let before = |i: usize| if i == 0 { json!([format!("m{i}")]) } else { json!([format!("m{}", (i - 1) / 2 * 2)]) };
    vec![
        ("members", fields(many(&|i| format!("u8 m{i}; ")))),
        ("clocks", many(&|i| format!("clock {{ name = c{i}; }}; ")).into_bytes()),
        (
            "maps to clocks",
            [
                many(&|i| format!("clock {{ name = c{i}; }}; ")),
                many(&|i| format!("typealias integer {{ size = 8; map = clock.c{i}.value; }} := t{i}; ")),
            ]
            .concat()
            .into_bytes(),
        ),
        (
            "streams",
            [HEADER.to_owned(), many(&|i| format!("stream {{ id = {i}; }}; event {{ id = 9; stream_id = {i}; }}; "))]
                .concat()
                .into_bytes(),
        ),
        (
            "lengths in the first part",
            format!(
                "{u8s} stream {{ event.context := struct {{ {} }}; }}; event {{ fields := struct {{ {} }}; }};",
                many(&|i| format!("u8 n{i}; ")),
                many(&|i| format!("u8 a{i}[n{i}]; "))
            )
            .into_bytes(),
        ),
        (
            "variants of one enumeration",
            fields(format!(
                "enum : u8 {{ {} }} tag; {}",
                many(&|i| format!("l{i} = {}, ", i % 256)),
                many(&|i| format!("variant <tag> {{ u8 l{i}; }} v{i}; "))
            )),
        ),
        (
            "declarations in a structure that is used often",
            format!(
                "{u8s} struct s {{ {} u8 x; }}; event {{ fields := struct {{ {} }}; }};",
                "typealias u8 := t;".to_owned(),
                many(&|i| format!("struct s m{i}; "))
            )
            .into_bytes(),
        ),
        ("aliases", many(&|i| format!("typealias integer {{ size = 8; }} := t{i}; ")).into_bytes()),
        ("members of CTF 2", json_members(&|i| member(&format!("m{i}"), int(8)))),
        (
            "lengths of CTF 2",
            json_members(&|i| match i % 2 {
                0 => member(&format!("m{i}"), int(8)),
                _ => member(&format!("m{i}"), text(before(i))),
            }),
        ),
    ]
}

#[test]
fn work_on_metadata_grows_with_its_size() {
    for ((what, small), (_, large)) in forms(500).into_iter().zip(forms(4000)) {
        let steps = |metadata: &[u8]| {
            probe::metadata_steps(metadata)
                .unwrap_or_else(|| panic!("{what}: {:?}", parse_metadata("m", metadata).err()))
        };
        let (few, many) = (steps(&small), steps(&large));
        assert!(many <= few * 9 + 1000, "{what}: {few} steps for {} bytes, {many} for {}", small.len(), large.len());
        assert!(many <= 16 * large.len() as u64, "{what}: {many} steps for {} bytes", large.len());
    }
}

#[test]
fn work_beyond_what_the_size_allows_is_refused() {
    // A structure with many declarations that is used often: each use declares them anew.
    let declarations: String = (0..2000).map(|i| format!("typealias u8 := t{i};")).collect();
    let uses: String = (0..2000).map(|i| format!("struct s m{i};")).collect();
    let text = format!(
        "typealias integer {{ size = 8; }} := u8; struct s {{ {declarations} u8 x; }}; event {{ fields := struct {{ {uses} }}; }};"
    );
    let error = parse_metadata("m", text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("unfold into too much work for metadata of this size"), "{error}");
    // Each event is planned with its stream's common context.
    let context: String = (0..3000).map(|i| format!("u8 c{i};")).collect();
    let events: String = (0..4000).map(|i| format!("event {{ id = {i}; }};")).collect();
    let text = format!(
        "typealias integer {{ size = 8; }} := u8; stream {{ event.header := struct {{ u8 id; }};
        event.context := struct {{ {context} }}; }}; {events}"
    );
    let error = parse_metadata("m", text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("too much work"), "{error}");
    // Large ids do not cost memory each.
    let streams: String =
        (0..2000).map(|i| format!("stream {{ id = {i}; }}; event {{ id = 65535; stream_id = {i}; }};")).collect();
    assert!(parse_metadata("m", format!("{HEADER}{streams}").as_bytes()).is_ok());
}

#[test]
fn names_that_would_be_shown_alike_keep_their_underscore() {
    let check = |members: &str, expect: &str| {
        let metadata = format!(
            "/* CTF 1.8 */ typealias integer {{ size = 8; }} := u8;
            event {{ name = e; fields := struct {{ {members} }}; }};"
        );
        let memory = Memory { metadata: metadata.into_bytes(), streams: vec![("s".into(), vec![1, 2, 3])] };
        let (lines, _) = shown(&memory);
        assert_eq!(lines.first(), Some(&format!("0 e 0 {expect}")), "{members}");
    };
    check("u8 _a; u8 _b;", "a=1 b=2");
    check("u8 a; u8 _a;", "a=1 _a=2");
    check("u8 _a; u8 a;", "_a=1 a=2");
    check("u8 __a; u8 _a;", "_a=1 a=2");
    check("u8 __a; u8 _a; u8 a;", "__a=1 _a=2 a=3");
    check("u8 _; u8 a;", "_=1 a=2");
}

/// CTF 1.8, 4.1.2: all basic types but integers begin at a byte, unless they say otherwise.
#[test]
fn a_float_without_an_alignment_begins_at_a_byte() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        event { name = e; fields := struct {
            integer { size = 1; } bit; floating_point { exp_dig = 8; mant_dig = 24; } f; integer { size = 8; } n;
        }; };";
    let stream = [&[1][..], &1.5f32.to_le_bytes(), &[7]].concat();
    let (lines, caveats) = shown(&Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] });
    assert_eq!((lines, caveats), (vec!["0 e 0 bit=1 f=1.5 n=7".to_owned()], Vec::new()));
}
