// SPDX-License-Identifier: MIT OR Apache-2.0
//! The critical path of a stretch of a thread [spec/view.md 4.16]: that of `kymo critical`, from the same engine.

use kymo_analyze::PathStep;
use kymo_analyze::explain::Question;

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::keep::{Around, Keep, Lead};
use crate::names::BySymbols;
use crate::opened::Opened;
use crate::parameters::{Parameters, Window};
use crate::path::PathNames;
use crate::questions::begun::{begin, doubt_bits};
use crate::questions::told::{LEAD, Pieces, SPANS_KEPT, budget_table, note_if_full, tell_read, tid};
use crate::surroundings::Surroundings;
use crate::walk::{Stop, Walk};

fn length(step: &PathStep) -> u64 {
    step.to.abs_diff(step.from)
}

/// Answers `critical`.
///
/// # Errors
/// Parameters; a trace without the scheduler's events.
pub fn critical(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let mut window = parameters.window(of)?;
    let tid = tid(parameters)?.ok_or_else(|| Error::parameter("tid", "it is missing: the number of a thread"))?;
    let limit = parameters.limit(2000)?;
    let lead = Lead::of(parameters, LEAD)?;
    if !of.has_switches() {
        return Err(Error::no_switches());
    }
    // As `kymo critical`: up to the last record, behind which nothing is known.
    if let Some((_, last)) = of.bounds.filter(|(_, last)| window.from < *last) {
        window.to = window.to.min(last);
    }
    let question = Question::stretch(tid, window.from, window.to);
    let surroundings = Surroundings::of(&of.traces, of.symbols());
    let mut keep = Keep::new([question], SPANS_KEPT, &of.classes, surroundings).without_records();
    let read = Around::new(of, lead).window(window.pair());
    let walked = Walk::new(of, read).until_last_record().run(&mut keep, stop)?;
    let (scenes, known) = keep.take();
    let mut answer = begin("critical", of, window);
    tell_read(&mut answer, read);
    for scene in &scenes {
        let functions = BySymbols(&known);
        let (evidence, vocabulary) = (scene.evidence(), &of.classes.vocabulary);
        let names = PathNames { evidence, vocabulary, functions: &functions, at: window.to };
        let path = evidence.history().critical(tid, window.from, window.to);
        answer.set("tid", tid);
        answer.set("name", evidence.name(tid, window.to).as_str());
        answer.set("is_cut", path.is_cut);
        answer.set("total", path.steps.len());
        let mut pieces = Pieces::new(scene);
        let table = step_table(&mut answer, &mut pieces, path.steps, &names, limit);
        answer.push(table);
        let budget = scene.budget(vocabulary, &known);
        let table = budget_table(&mut answer, &mut pieces, &budget);
        answer.push(table);
        answer.push(pieces.table());
        answer.notes.extend(scene.missing_events(vocabulary, &budget).line());
        note_if_full(&mut answer, scene);
    }
    walked.tell_of(&mut answer, Window { from: window.from, to: window.to.saturating_add(1) });
    Ok(answer)
}

/// The longest steps, in the order of time.
fn step_table(
    answer: &mut Answer,
    pieces: &mut Pieces<'_>,
    mut steps: Vec<PathStep>,
    names: &PathNames<'_>,
    limit: usize,
) -> Table {
    if steps.len() > limit {
        steps.sort_by_key(|step| (std::cmp::Reverse(length(step)), step.from));
        let left_out: u64 = steps[limit..].iter().map(length).sum();
        answer.set("left_out", steps.len() - limit);
        answer.set("left_out_ns", left_out);
        steps.truncate(limit);
        steps.sort_by_key(|step| step.from);
    } else {
        answer.set("left_out", 0);
        answer.set("left_out_ns", 0);
    }
    let (mut own, mut acts) = (Vec::new(), Vec::new());
    for (row, step) in steps.iter().enumerate() {
        let names = names.of(step);
        own.push(answer.texts.name(names.evidence.name(step.tid, names.at).as_str()));
        acts.push(answer.texts.text(PathNames::word(step.act)));
        pieces.add(answer, "steps", row, &format!("{} {}", names.thread(step.tid), names.act(step.act)));
    }
    Table::new("steps")
        .column("from", steps.iter().map(|step| answer.time(step.from)))
        .column("to", steps.iter().map(|step| answer.time(step.to)))
        .column("tid", steps.iter().map(|step| step.tid))
        .column("name", own)
        .column("prio", steps.iter().map(|step| names.evidence.prio(step.tid, step.from).map(i32::from)))
        .column("depth", steps.iter().map(|step| step.depth as u32))
        .column("act", acts)
        .column("doubt", steps.iter().map(|step| doubt_bits(step.doubt)))
}
