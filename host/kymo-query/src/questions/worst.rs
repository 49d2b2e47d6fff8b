// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst of a window, each with its cause in a line [spec/view.md 4.11]: the line of `kymo latency --explain`, from
//! the same engine. A second pass keeps what is around each of them.

use kymo_analyze::cause::MissingEvents;
use kymo_analyze::explain::{Question, together};
use kymo_analyze::{Key, Sample};

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::keep::{Around, Keep, Lead, cause_line};
use crate::names::NameTable;
use crate::opened::{Functions, Opened};
use crate::parameters::{Parameters, Window};
use crate::questions::latencies::{LatencyAnswer, find};
use crate::questions::told::{Pieces, SPANS_KEPT};
use crate::surroundings::Surroundings;
use crate::walk::{Stop, Walk};

/// Samples that are explained at most.
const CAUSES_MAX: u64 = 50;

/// Records so long before and behind a sample are read, but no more than about so many on each side: less than of a
/// story, for there are many samples.
const LEAD: (u64, u64) = (100_000_000, 1 << 14);

/// Answers `worst`.
///
/// # Errors
/// As `latencies`.
pub fn worst(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let count = parameters.number("causes", 0..=CAUSES_MAX)?.unwrap_or(0) as usize;
    let lead = Lead::of(parameters, LEAD)?;
    let LatencyAnswer { mut answer, pass, spans, walked } = find(of, parameters, stop, false)?;
    let names = NameTable {
        vocabulary: &of.classes.vocabulary,
        devices: pass.devices(),
        spans: &spans,
        keys: pass.spans.keys(),
        functions: &Functions::of(of),
    };
    let samples = pass.longest();
    let samples = &samples[..count.min(samples.len())];
    causes(&mut answer, of, (samples, &names), lead, stop)?;
    walked.tell(&mut answer);
    Ok(answer)
}

/// What each of these samples went to.
fn causes(
    answer: &mut Answer,
    of: &Opened,
    (samples, names): (&[(Key, Sample)], &NameTable<'_>),
    lead: Lead,
    stop: &Stop,
) -> Result<(), Error> {
    let around = Around::new(of, lead);
    let question = |(key, sample): &(Key, Sample)| {
        let question = Question::of_sample(key.what, names.of(key.of), sample);
        let window = around.window((sample.from, sample.to));
        (question, window.from, window.to)
    };
    let surroundings = Surroundings::of(&of.traces, of.symbols());
    let questions = samples.iter().map(question);
    let mut keep = Keep::within(questions, SPANS_KEPT, &of.classes, surroundings).without_records();
    let windows = samples.iter().map(|(_, sample)| around.window((sample.from, sample.to))).collect();
    for window in joined(windows, of.indexes.states.is_some()) {
        Walk::new(of, window).until_last_record().run(&mut keep, stop)?;
    }
    let (scenes, known) = keep.take();
    let (mut rows, mut kinds, mut ns) = (Vec::new(), Vec::new(), Vec::new());
    let mut all: Option<Pieces<'_>> = None;
    let mut missing = MissingEvents::default();
    for (at, scene) in scenes.iter().enumerate() {
        let budget = scene.budget(&of.classes.vocabulary, &known);
        missing.add(&scene.missing_events(&of.classes.vocabulary, &budget));
        let causes = together(&budget);
        let Some(largest) = causes.first() else { continue };
        let pieces = all.get_or_insert_with(|| Pieces::new(scene));
        pieces.turn_to(scene);
        pieces.add(answer, "causes", rows.len(), &cause_line(&budget));
        rows.push(at as u32);
        kinds.push(answer.texts.text(largest.largest.kind));
        ns.push(largest.ns);
    }
    answer.notes.extend(missing.line());
    answer.push(Table::new("causes").column("point", rows).column("kind", kinds).column("ns", ns));
    answer.push(all.map_or_else(|| Table::new("pieces"), Pieces::table));
    Ok(())
}

/// Windows that touch each other are one; without an index, which finds the state before each of them, all are.
fn joined(mut windows: Vec<Window>, has_index: bool) -> Vec<Window> {
    windows.retain(|window| !window.is_empty());
    windows.sort_by_key(|window| window.from);
    let mut joined: Vec<Window> = Vec::new();
    for window in windows {
        match joined.last_mut() {
            Some(last) if !has_index || window.from <= last.to => last.to = last.to.max(window.to),
            _ => joined.push(window),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_once() {
        let windows = |pairs: &[(i64, i64)]| pairs.iter().map(|&(from, to)| Window { from, to }).collect::<Vec<_>>();
        let all = [(50, 60), (0, 10), (5, 20), (5, 5), (20, 21)];
        assert_eq!(joined(windows(&all), true), windows(&[(0, 21), (50, 60)]));
        assert_eq!(joined(windows(&all), false), windows(&[(0, 60)]));
        assert!(joined(Vec::new(), false).is_empty());
    }
}
