// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions with any parameters: each is answered, or refused with a reason, and an answer is no larger than what can
//! be asked for. `fuzz/fuzz_targets/query.rs` does the same. KYMO_SEED repeats a run, KYMO_ROUNDS lengthens it.

use crate::common;

use common::small;
use kymo_query::{Parameters, QUESTIONS, Stop, answer};
use kymo_testing::{Random, setting};

/// What somebody may write behind the name of a parameter.
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "10",
    "20",
    "30",
    "1000",
    "2001",
    "8192",
    "8193",
    "10000",
    "-1",
    "@0",
    "@200",
    "@-5",
    "@1001",
    "@9223372036854775807",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "10,20",
    "10,10",
    ",",
    "wakeup",
    "wakeup,irq",
    "span",
    "lock",
    "axis:begin,axis:end",
    "axis:begin,axis:begin",
    "axis:*,motor:step",
    "motor:step.position",
    "motor:step.note",
    "motor:step.position > 0",
    "$tid == 20",
    "irq_handler_entry",
    "next",
    "previous",
    "name",
    "\u{1b}\u{0}",
];

#[test]
fn any_parameters() {
    let seed = setting("KYMO_SEED", 1);
    eprintln!("KYMO_SEED={seed}");
    let mut random = Random(seed);
    let of = small().open();
    let (mut answered, mut refused) = (0, 0);
    for round in 0..setting("KYMO_ROUNDS", 4000) {
        let question = &QUESTIONS[round as usize % QUESTIONS.len()];
        let mut pairs: Vec<(String, String)> = Vec::new();
        for name in question.parameters {
            if random.below(3u64) == 0 {
                pairs.push(((*name).to_owned(), VALUES[random.below(VALUES.len())].to_owned()));
            }
        }
        if random.below(30u64) == 0 {
            pairs.push(("nothing".to_owned(), String::new()));
        }
        match answer(&of, question.name, Parameters::new(pairs.clone()), &Stop::default()) {
            Ok(found) => {
                answered += 1;
                let bytes = found.frame().len();
                assert!(bytes < 16 << 20, "{} {pairs:?}: {bytes} bytes", question.name);
                assert!(found.json().is_object());
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty(), "{} {pairs:?}", question.name);
            }
        }
    }
    // Both must come often, or one of them was not tested.
    assert!(answered > 300 && refused > 300, "{answered} were answered, {refused} refused");
}
