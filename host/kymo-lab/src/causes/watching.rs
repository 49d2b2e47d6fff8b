// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether watching changed the test: the slots with the recorder, compared with those without.

use super::explained::Watching;
use crate::report;
use crate::stats::Distribution;
use crate::{CompareOptions, Outcome, RUNS_MIN, Record, compare};

/// Compares the slots. `Watching::snapshots` and the time of the longest are the caller's.
pub fn watching(without: &[Record], with: &[Record]) -> Watching {
    let slots = [with.len() as u32, without.len() as u32];
    let p999_ns = median_p999(without).zip(median_p999(with)).map(|(without, with)| [without, with]);
    let (outcome, text) = match without {
        [] => ("not_tested", "whether watching changed the test was not looked at: --no-check, a run too short for slots, or no recorder".to_owned()),
        _ => compared(without, with, p999_ns),
    };
    Watching { outcome: outcome.to_owned(), text, slots, p999_ns, snapshots: 0, snapshot_ns_max: 0 }
}

fn compared(without: &[Record], with: &[Record], p999_ns: Option<[f64; 2]>) -> (&'static str, String) {
    if without.len().min(with.len()) < RUNS_MIN {
        let few =
            format!("{} slots with the recorder and {} without: {RUNS_MIN} each are needed", with.len(), without.len());
        return ("not_enough_data", format!("whether watching changed the test is not known: {few}"));
    }
    let comparison = compare(without, with, CompareOptions::default());
    let differ = comparison.series.iter().flat_map(|series| &series.metrics);
    let differ: Vec<String> = differ
        .filter(|metric| matches!(metric.outcome, Outcome::Better | Outcome::Worse))
        .filter_map(|metric| Some(format!("{} at {}", signed(metric.shift?.value), metric.metric.name())))
        .collect();
    let p999 = p999_ns.map_or(String::new(), |[without, with]| {
        format!(" (p99.9 {} without, {} with)", report::time(without), report::time(with))
    });
    match comparison.outcome {
        Outcome::NotEnoughData => {
            ("not_enough_data", format!("whether watching changed the test is not known: too few samples{p999}"))
        }
        Outcome::NoDifference => ("no_difference", format!("watching made no difference that these slots show{p999}")),
        outcome => {
            let word = match outcome {
                Outcome::Better => "better",
                Outcome::Worse => "worse",
                _ => "mixed",
            };
            (word, format!("watching changed the test: {}{p999}", differ.join(", ")))
        }
    }
}

fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { '-' } else { '+' };
    format!("{sign}{}", report::time(ns.abs()))
}

/// The median of the slots' p99.9; of slots too short for one there is none.
fn median_p999(slots: &[Record]) -> Option<f64> {
    let of = |record: &Record| Distribution::of(&record.series).quantile(0.999).ok().map(|found| found.value);
    let mut values: Vec<f64> = slots.iter().filter_map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
