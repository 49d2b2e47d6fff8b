// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes from anyone: no page and no format text makes the parsers panic, loop, or hand out bytes that are not of the
//! page. The same entry points are fuzzed (`fuzz/`), and they compare each walk with a second, plain one; here a
//! bounded number of mutations runs in every test. KYMO_SEED repeats a run, KYMO_ROUNDS lengthens it.

use crate::support;

use kymo_ftrace::{format, page};
use proptest::prelude::*;
use support::{Random, files, setting};

#[test]
fn mutated_pages() {
    let seed = setting("KYMO_SEED", 1);
    eprintln!("KYMO_SEED={seed}");
    let pages: Vec<Vec<u8>> = files("pages", "page").into_iter().map(|(_, bytes)| bytes).collect();
    let mut random = Random(seed);
    let (mut records, mut bad) = (0, 0);
    let rounds = setting("KYMO_ROUNDS", 20_000);
    for round in 0..rounds {
        let mut bytes = pages[round as usize % pages.len()].clone();
        // Half of them in the first heads: what comes behind a broken one is not looked at.
        let begin = [16, random.below(bytes.len())][random.below(2)];
        let mut tail = bytes.split_off(begin);
        random.mutate(&mut tail);
        bytes.extend(tail);
        if random.below(4) == 0 {
            random.mutate(&mut bytes);
        }
        let (count, good) = page::probe::page(&bytes);
        records += count;
        bad += u64::from(!good);
    }
    // Both must be reached often, or nothing was tested.
    assert!(records as u64 > rounds * 10, "{records} records");
    assert!(bad > rounds / 5 && bad < rounds, "{bad} walks ended with an error");
}

#[test]
fn truncated_pages() {
    for (name, bytes) in files("pages", "page") {
        let (whole, good) = page::probe::page(&bytes);
        assert!(good && whole > 0, "{name}");
        for length in 0..bytes.len() {
            let (count, _) = page::probe::page(&bytes[..length]);
            assert!(count == 0 || count == whole, "{name}: {count} records of {length} bytes");
            // The same, by a head that says so.
            let mut short = bytes.clone();
            short[8..12].copy_from_slice(&(length.saturating_sub(16) as u32).to_le_bytes());
            short[12..16].fill(0);
            assert!(page::probe::page(&short).0 <= whole);
        }
    }
}

#[test]
fn every_head_of_one_record_never_panics() {
    // Each type with deltas and second words at their borders, in data of all small sizes.
    for type_len in 0..32u32 {
        for delta in [0, 1, (1 << 27) - 1] {
            for second in [0, 1, 4, 5, 8, 12, 116, 1 << 31, u32::MAX] {
                for length in 0..24usize {
                    for time in [0, 1 << 59, u64::MAX - 1] {
                        let head = type_len | delta << 5;
                        let mut data = [head.to_le_bytes(), second.to_le_bytes()].concat();
                        data.resize(24, 0x21);
                        let bytes = [&time.to_le_bytes()[..], &length.to_le_bytes(), &data[..length]].concat();
                        page::probe::page(&bytes);
                    }
                }
            }
        }
    }
}

#[test]
fn mutated_formats() {
    let seed = setting("KYMO_SEED", 1);
    eprintln!("KYMO_SEED={seed}");
    let formats: Vec<Vec<u8>> = files("formats", "").into_iter().map(|(_, bytes)| bytes).collect();
    let mut random = Random(seed);
    let mut fields = 0;
    let rounds = setting("KYMO_ROUNDS", 20_000);
    for round in 0..rounds {
        let mut bytes = formats[round as usize % formats.len()].clone();
        random.mutate(&mut bytes);
        fields += format::probe::format(&bytes);
    }
    assert!(fields as u64 > rounds, "{fields} fields");
}

#[test]
fn long_texts_take_linear_time() {
    let begin = std::time::Instant::now();
    let head = "name: e\nID: 1\n\tfield:u16 common_type;\toffset:0;\tsize:2;\n\tfield:";
    for part in [
        "__attribute__((x",
        "__attribute__ ",
        "[",
        "]",
        "[1]",
        "(",
        ")",
        "(*",
        "{",
        "x ",
        "* ",
        "\tfield:",
        "offset:",
        ";",
    ] {
        for tail in ["", ")", "]", "] x", " x;\toffset:8;\tsize:4;", " x[];\toffset:8;\tsize:0;"] {
            let text = format!("{head}{}{tail}", part.repeat((format::TEXT_BYTES_MAX - 200) / part.len()));
            format::probe::format(text.as_bytes());
        }
    }
    // 84 texts of 1 MiB. Quadratic work on one of them would take hours.
    assert!(begin.elapsed().as_secs() < 120, "{:?}", begin.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_a_page(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        page::probe::page(&bytes);
        page::probe::page_of_any_format(&bytes);
    }

    #[test]
    fn any_data_in_a_good_page(time: u64, data in proptest::collection::vec(any::<u8>(), 0..400)) {
        let head = [time.to_le_bytes(), (data.len() as u64).to_le_bytes()].concat();
        page::probe::page(&[head, data].concat());
    }

    #[test]
    fn any_heads_in_a_good_page(
        time: u64,
        heads in proptest::collection::vec((0u32..32, 0u32..1 << 27, 0u32..8), 0..60),
    ) {
        // Second words that mostly are lengths, so that walks get further.
        let data: Vec<u8> = heads
            .iter()
            .flat_map(|(type_len, delta, word)| [type_len | delta << 5, word * 4].map(u32::to_le_bytes).concat())
            .collect();
        let head = [time.to_le_bytes(), (data.len() as u64).to_le_bytes()].concat();
        page::probe::page(&[head, data].concat());
    }

    #[test]
    fn any_bytes_as_a_format(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        format::probe::format(&bytes);
    }

    #[test]
    fn any_words_as_a_declaration(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..12),
        size in 0u64..20,
    ) {
        for glue in ["", " "] {
            let text = format!(
                "name: e\nID: 1\n\tfield:u16 common_type;\toffset:0;\tsize:2;\n\
                 \tfield:{};\toffset:8;\tsize:{size};\tsigned:0;\n",
                words.join(glue)
            );
            format::probe::format(text.as_bytes());
        }
    }
}

const WORDS: &[&str] = &[
    "int",
    "unsigned",
    "long",
    "char",
    "u8",
    "struct",
    "union",
    "enum",
    "x",
    "__data_loc",
    "__rel_loc",
    "__attribute__",
    "const",
    "*",
    "(",
    ")",
    "[",
    "]",
    "[4]",
    "[]",
    "[NAME]",
    "{",
    "}",
    ";",
    "(*",
    "offset:",
    "size:",
    "field:",
    "0",
    "é",
    "\n",
    "\t",
];
