// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutations of good filters and of good programs. KYMO_SEED repeats a run, KYMO_ROUNDS lengthens it.

use kymo_filter::probe::{self, events};
use kymo_filter::{DEPTH_MAX, Insn, TEXT_BYTES_MAX, check, compile, parse, run};
use kymo_testing::{Random, setting};

const GOOD: [&str; 12] = [
    "axis == 2 && position > 0.5",
    "motor:step.duration > 200us || $cpu != 0",
    "motor:*: axis in (1, 2, 0x3, -4, 5) && !ok",
    "latency(req:begin, req:end, by=id, $tid) > 5ms",
    "name ~ \"ab*\" && has(prev_state) || len(note) >= 3",
    "size & 0xff == 3 && state in (moving, fault)",
    "note ~ \"a*b\" && delta < -1 && gain > 0.25",
    "vec[2] / 3 % 7 << 2 == 8 - -1 | 5 ^ 9",
    "\"odd name\".x == 'it\\u{41}' || `in` == true",
    "thing.a[3].b != moving && pos.x <= 1.5e3",
    "$event ~ \"m*\" && $proc == 'a' && $time > 1min",
    "*:step: size == 4KiB || list[1] == 3",
];

const PIECES: [&str; 24] = [
    "(",
    ")",
    "&&",
    "||",
    "!",
    "==",
    "~",
    " in ",
    "\"",
    "`",
    "$",
    ":",
    "*",
    "?",
    ".",
    "[",
    "]",
    "ü",
    "\0",
    "1e999",
    "us",
    "latency(",
    "-",
    "18446744073709551615",
];

#[test]
fn mutated_filters() {
    let seed = setting("KYMO_SEED", 1);
    println!("KYMO_SEED={seed}");
    let mut random = Random(seed);
    let mut good = 0;
    for text in GOOD {
        assert!(probe::text(text), "{text}");
    }
    for _ in 0..setting("KYMO_ROUNDS", 20_000) {
        let mut text: Vec<char> = GOOD[random.below(GOOD.len())].chars().collect();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len() + 1);
            match random.below(4) {
                0 if at < text.len() => drop(text.remove(at)),
                1 => drop(text.splice(at..at, PIECES[random.below(PIECES.len())].chars())),
                2 => text.truncate(at),
                _ => {
                    let other: Vec<char> = GOOD[random.below(GOOD.len())].chars().collect();
                    let from = random.below(other.len());
                    drop(text.splice(at..at, other[from..].iter().copied()));
                }
            }
        }
        good += u64::from(probe::text(&text.into_iter().collect::<String>()));
    }
    assert!(good > 0);
}

#[test]
fn mutated_programs_are_refused_or_end() {
    let seed = setting("KYMO_SEED", 2);
    println!("KYMO_SEED={seed}");
    let mut random = Random(seed);
    let (mut refused, mut accepted) = (0u64, 0u64);
    for _ in 0..setting("KYMO_ROUNDS", 20_000) {
        let checked = parse(GOOD[[0, 5, 6][random.below(3)]]).unwrap().check(&events()).unwrap();
        let program = compile(&checked, 0).unwrap();
        let mut bytes: Vec<u8> = program.insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = [random.word() as u8, bytes[at] ^ 1, 0, 255, random.below(14) as u8][random.below(5)];
        }
        let insns: Vec<Insn> =
            bytes.chunks_exact(16).map(|chunk| Insn::from_bytes(chunk.try_into().unwrap())).collect();
        match check(&insns, program.payload_min_bytes, &program.pool) {
            Ok(()) => accepted += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
        let payload: Vec<u8> = (0..random.below(80)).map(|_| random.below(6) as u8).collect();
        run(&insns, &program.pool, &payload);
    }
    assert!(refused > 0 && accepted > 0, "{refused} {accepted}");
}

#[test]
fn depth_and_length_are_bounded() {
    for (open, close) in [("(", ")"), ("!", ""), ("-", ""), ("has(", ")"), ("a in (", ")")] {
        for depth in [DEPTH_MAX + 1, 20_000] {
            let text = format!("{}ok{}", open.repeat(depth), close.repeat(depth));
            assert!(parse(&text).is_err(), "{open}");
        }
    }
    assert!(parse(&format!("{}ok{}", "(".repeat(DEPTH_MAX - 4), ")".repeat(DEPTH_MAX - 4))).is_ok());
    assert!(parse(&vec!["a"; 20_000].join("-")).is_err());
    assert!(parse(&format!("a{}", "[1]".repeat(20_000))).is_err());
    assert!(parse(&" ".repeat(TEXT_BYTES_MAX + 1)).is_err());
    // Lists are as long as they like.
    assert!(probe::text(&vec!["ok"; 5_000].join(" && ")));
    assert!(probe::text(&format!("axis in ({})", vec!["1"; 5_000].join(", "))));
    // Every level looks at the one below once, not once for each item.
    assert!(probe::text(&format!("{}axis{}", "(".repeat(50), " in (1, 2, 3, 4))".repeat(50))));
}
