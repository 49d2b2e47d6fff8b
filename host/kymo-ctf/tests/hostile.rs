// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes from anyone: no input makes the reader panic, loop or unfold without bound. The same entry points are fuzzed
//! (`fuzz/`); here a bounded number of mutations runs in every test. KYMO_SEED repeats a run, KYMO_ROUNDS lengthens it.

use crate::support;

use kymo_ctf::read::{Item, Memory, Reader, Trace, probe};
use kymo_testing::{Random, setting};
use proptest::prelude::*;
use support::*;

/// Good traces to begin with: both formats, without the texts of 64 KiB.
fn good() -> Vec<Memory> {
    let (meta, records) = every_type();
    let records: Vec<_> = records.into_iter().filter(|record| record.1.len() < 1000).collect();
    let (stream, _) = every_type_stream(&records);
    let mut good: Vec<Memory> =
        [false, true].map(|ctf2| memory(&meta, ctf2, vec![("a", stream.clone()), ("b", stream.clone())])).into();
    // Text with what our profile does not use.
    let metadata = include_bytes!("hostile.tsdl").to_vec();
    let records = [
        &[0x02, 1, 9][..],
        &[0x04, 2, 9, 3, 7, 7, 7],
        &[0x01, 3, 9, 5, 50, 0xAA, 1, 2, 3, 4, b't', b'e', b'x', 0, 0x3F, 0x80, 0, 0],
        &[0x01, 4, 9, 5, 150, b'o', b'p', 0, 1, 2, 3, 4, b't', b'e', b'x', b't', 0x3F, 0x80, 0, 0],
        &[0x01, 5, 9, 5, 250, 0xAB, 0xFF, 0x80, 1, 2, 3, 4, 0, 0, 0, 0, 0x7F, 0x80, 0, 1],
    ];
    good.push(Memory { metadata, streams: vec![("a".into(), records.concat().repeat(20))] });
    // Field locations, numbers of many bits, bits in every order.
    let metadata = include_bytes!("hostile.ctf2").to_vec();
    let records = [
        &[1, 1, 5, 2, b'a', b'b', 0x80, b'c', 0x22, b'x', b'y', b'1', b'2', b'3', b'4', 1, 1, b'e'][..],
        &[1, 2, 220, 7, 1, b'o', b't', 0, 0, 1, 0],
    ];
    good.push(Memory { metadata, streams: vec![("a".into(), [records.concat(), wide_record()].concat().repeat(10))] });
    good
}

/// Bits of two fields, 128 bits, a float of 128 bits, two integers of 80 bits.
fn wide_record() -> Vec<u8> {
    let float = (0x3FFF_8000u128 << 96).to_be_bytes();
    [&[2, 3][..], &[0x5A; 10], &5u128.to_le_bytes(), &float, &[2], &[0xC3; 20]].concat()
}

#[test]
fn good_traces_are_read() {
    let counts: Vec<u64> = good().iter().map(probe::walk).collect();
    // Twelve records and a loss in each of two streams; five records twenty times; three records ten times.
    assert_eq!(counts, [26, 26, 100, 30]);
}

#[test]
fn mutated_traces() {
    let seed = setting("KYMO_SEED", 1);
    eprintln!("KYMO_SEED={seed}");
    let good = good();
    let mut random = Random(seed);
    let mut items = 0;
    for round in 0..setting("KYMO_ROUNDS", 2000) {
        let mut memory = good[round as usize % good.len()].clone();
        if random.below(2) == 0 {
            random.mutate(&mut memory.metadata);
        }
        if random.below(4) != 0 {
            random.mutate(&mut memory.streams[0].1);
        }
        items += probe::walk(&memory);
        written_again(&memory);
    }
    // Most mutations must get past the metadata, or nothing was tested.
    assert!(items > 15_000, "{items}");
}

#[test]
fn packetised_metadata_means_the_same() {
    let seed = setting("KYMO_SEED", 1);
    eprintln!("KYMO_SEED={seed}");
    let mut random = Random(seed);
    let texts = [&include_bytes!("hostile.tsdl")[..], include_bytes!("hostile.ctf2")];
    let mut made_sense = 0;
    for round in 0..setting("KYMO_ROUNDS", 600) {
        let mut bytes = [&[random.word() as u8][..], texts[round as usize % 2]].concat();
        if round >= 20 {
            random.mutate(&mut bytes);
        } else {
            assert!(probe::packets(&bytes), "{}", bytes[0]);
        }
        made_sense += u64::from(probe::packets(&bytes));
        // The same with other bytes in the place of a packet's head.
        let from = random.below(bytes.len() + 1);
        probe::packet_heads(&bytes[from..]);
    }
    assert!(made_sense >= 20, "{made_sense}");
}

/// Whatever is read can be written again, as a trace without damage and of as many records.
fn written_again(memory: &Memory) {
    let records = |memory: &Memory| {
        let opened = Trace::from_files(memory).unwrap_or_else(|error| {
            panic!("{error}\n{}", String::from_utf8_lossy(&memory.metadata));
        });
        let traces = [opened.value];
        let mut reader = Reader::new(&traces);
        let mut count = 0;
        while let Some(item) = reader.next() {
            count += u64::from(matches!(item, Item::Record(_)));
        }
        (count, reader.damage_count())
    };
    if Trace::from_files(memory).is_ok() {
        assert_eq!(records(&again(memory)), (records(memory).0, 0));
    }
}

#[test]
fn little_text_cannot_unfold_without_bound() {
    // Each type has two of the one before: 2^25 fields.
    let mut text = String::from("struct s0 { string a; };\n");
    for i in 1..=25 {
        text += &format!("struct s{i} {{ struct s{} a; struct s{} b; }};\n", i - 1, i - 1);
    }
    text += "event { fields := struct { struct s25 x; }; };";
    let error = kymo_ctf::read::parse_metadata("m", text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("unfold into too many fields"), "{error}");
    // Elements without bits, at no cost in data.
    let text = "event { fields := struct { integer { size = 8; } n; struct { } a[1000000000000]; }; };";
    let memory = Memory { metadata: text.into(), streams: vec![("s".into(), vec![1; 4])] };
    assert_eq!(probe::walk(&memory), 0);
    // A type that never ends, in the parser.
    let text = "struct { ".repeat(1_000_000);
    assert!(!probe::metadata(text.as_bytes()));
    let json = format!("\u{1E}{}", "[".repeat(1_000_000));
    assert!(!probe::metadata(json.as_bytes()));
}

#[test]
fn many_event_classes_are_fast_to_describe_and_to_read() {
    use kymo_abi::desc::{FieldType, Scalar};
    let names: Vec<String> = (0..32).map(|i| format!("field_{i}")).collect();
    let fields: Vec<(&str, FieldType)> =
        names.iter().map(|name| (name.as_str(), enum_of("state", Scalar::U32))).collect();
    let labels: Vec<(String, i64)> = (0..4).map(|i| (format!("label_{i}"), i)).collect();
    let labels: Vec<(&str, i64)> = labels.iter().map(|(label, value)| (label.as_str(), *value)).collect();
    let time = |count: u16| {
        let meta = meta(
            (1..=count).map(|id| event(id, "e", &fields)).collect(),
            vec![enumeration("state", Scalar::U32, &labels)],
        );
        let begin = std::time::Instant::now();
        let text = kymo_ctf::write::metadata_ctf18(&meta);
        assert!(probe::metadata(text.as_bytes()));
        assert!(probe::metadata(&kymo_ctf::write::metadata_ctf2(&meta)));
        begin.elapsed()
    };
    let few = (0..3).map(|_| time(100)).max().unwrap();
    // Ten times as much: quadratic work would take a hundred times as long. A busy machine delays some runs.
    let many = (0..3).map(|_| time(1000)).min().unwrap();
    assert!(many < few * 40, "{few:?} for 100 classes, {many:?} for 1000");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_metadata(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        probe::metadata(&bytes);
    }

    #[test]
    fn any_bytes_as_a_trace(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        probe::trace(&bytes);
    }

    #[test]
    fn any_words_as_tsdl(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..80)) {
        probe::metadata(words.join(" ").as_bytes());
    }

    #[test]
    fn any_stream_with_good_metadata(bytes in proptest::collection::vec(any::<u8>(), 0..400), ctf2 in any::<bool>()) {
        static METADATA: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let metadata = METADATA.get_or_init(|| [false, true].map(|ctf2| memory(&every_type().0, ctf2, vec![]).metadata));
        // Also behind a good head, which random bytes never have.
        let framed = [&head(5, 500, &bytes, 0, 0).encode()[..], &bytes].concat();
        let streams = vec![("bare".into(), bytes), ("framed".into(), framed)];
        probe::walk(&Memory { metadata: metadata[usize::from(ctf2)].clone(), streams });
    }
}

const WORDS: &[&str] = &[
    "trace",
    "env",
    "clock",
    "stream",
    "event",
    "typealias",
    "typedef",
    "struct",
    "variant",
    "enum",
    "integer",
    "floating_point",
    "string",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "(",
    ")",
    ";",
    ":",
    ":=",
    "=",
    ",",
    ".",
    "...",
    "*",
    "-",
    "size",
    "align",
    "signed",
    "map",
    "a",
    "b",
    "_a",
    "fields",
    "packet",
    "header",
    "context",
    "id",
    "name",
    "0",
    "1",
    "8",
    "32",
    "64",
    "\"x\"",
    "'c'",
    "uint8_t",
    "const",
    "event.header",
    "packet.context",
    "clock.a.value",
    "/*",
    "*/",
    "//",
    "\n",
];
