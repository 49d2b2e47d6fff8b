// SPDX-License-Identifier: MIT OR Apache-2.0
//! `vectors.txt`: programs and payloads that every implementation of spec/filter.md 6 must agree on; the format is
//! described in the file. `KYMO_BLESS=1` fills in programs that are written as `?`, and packs `?` payloads.

use crate::support;

use std::path::Path;

use kymo_filter::probe::events;
use kymo_filter::{Insn, Program, check, compile, parse, run};
use support::*;

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".into() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|digit| *digit != b'-').collect();
    assert!(digits.len() % 2 == 0, "{text}");
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The program of a filter for `motor:step`.
fn program(text: &str) -> Program {
    let checked = parse(text).and_then(|filter| filter.check(&events())).unwrap_or_else(|e| panic!("{e}"));
    compile(&checked, 0).unwrap_or_else(|e| panic!("{e}"))
}

fn filled(line: &str) -> String {
    let columns: Vec<&str> = line.splitn(6, ' ').collect();
    let [outcome, "?", "?", "?", payload, text] = columns[..] else { return line.into() };
    let program = program(text);
    let insns: Vec<u8> = program.insns.iter().flat_map(|insn| insn.to_bytes()).collect();
    let payload = if payload == "?" { hex(&pack(&events()[0], &step())) } else { payload.to_owned() };
    format!("{outcome} {} {} {} {payload} {text}", program.payload_min_bytes, hex(&insns), hex(&program.pool))
}

#[test]
fn vectors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors.txt");
    let mut file = std::fs::read_to_string(&path).unwrap();
    if std::env::var_os("KYMO_BLESS").is_some() {
        file = file.lines().map(|line| filled(line) + "\n").collect();
        std::fs::write(&path, &file).unwrap();
    }
    let mut outcomes = [0; 3];
    for line in file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.splitn(6, ' ').collect();
        let [outcome, min, insns, pool, payload, text] = columns[..] else { panic!("{line}") };
        let insns: Vec<Insn> =
            unhex(insns).chunks(16).map(|bytes| Insn::from_bytes(bytes.try_into().unwrap())).collect();
        let (min, pool, payload) = (min.parse().unwrap(), unhex(pool), unhex(payload));
        let checked = check(&insns, min, &pool);
        let found = match checked {
            Err(_) => "refuse",
            Ok(()) if run(&insns, &pool, &payload) => "accept",
            Ok(()) => "reject",
        };
        assert_eq!(found, outcome, "{text}: {checked:?}");
        outcomes[["accept", "reject", "refuse"].iter().position(|known| *known == outcome).unwrap()] += 1;
        if outcome != "refuse" && !text.starts_with('#') {
            assert_eq!(program(text), Program { insns, pool, payload_min_bytes: min }, "{text}");
        }
    }
    assert!(outcomes.iter().all(|&count| count >= 12), "{outcomes:?}");
}
