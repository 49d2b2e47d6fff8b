// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--explain`: causes of the worst samples. A second pass keeps what is around each of them, as `kymo explain` does,
//! and the same engine [spec/analyze.md 6] says what their time went to.

use std::collections::HashMap;
use std::path::Path;

use kymo_analyze::cause::MissingEvents;
use kymo_analyze::explain::{Question, Slice};
use kymo_analyze::{Key, Latency, SPANS_MAX, Sample};
use kymo_ctf::read::Reader;
use kymo_query::{Keep, Surroundings, cause_line};

use crate::verbs::analyze::feed::{Classes, Input, walk};
use crate::verbs::analyze::show::NameTable;
use crate::verbs::symbols::Symbolizer;

/// Samples that are explained at most, the longest first.
const EXPLAINED_MAX: usize = 32;

/// Causes by sample: its row, and its place among the worst of the row.
#[derive(Default)]
pub struct Causes {
    of_sample: HashMap<(usize, usize), Vec<Slice>>,
    /// Samples that were too many.
    pub left_out: usize,
    /// Kinds of events that could have been a part of any of them, and are not in the trace.
    pub missing_events: MissingEvents,
}

impl Causes {
    /// Of the worst samples of all rows that `is_wanted`. `symbols`: a file with the functions of the kernel.
    pub fn find(
        (input, symbols): (&Input, Option<&Path>),
        classes: &Classes,
        latency: &Latency,
        names: &NameTable<'_>,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> anyhow::Result<Causes> {
        let rows = latency.series();
        let mut samples: Vec<(usize, usize, &Key, &Sample)> = Vec::new();
        for (row, (key, series)) in rows.iter().enumerate().filter(|(_, (key, _))| is_wanted(key)) {
            samples.extend(series.worst.iter().enumerate().map(|(at, sample)| (row, at, *key, sample)));
        }
        samples.sort_by_key(|(row, at, _, sample)| (std::cmp::Reverse(sample.value_ns), *row, *at));
        let left_out = samples.len().saturating_sub(EXPLAINED_MAX);
        samples.truncate(EXPLAINED_MAX);
        let question = |(_, _, key, sample): &(usize, usize, &Key, &Sample)| {
            Question::of_sample(key.what, names.of(key.of), sample)
        };
        let around = Surroundings::of(&input.traces, Symbolizer::new(symbols, &input.traces)?);
        let mut keep = Keep::new(samples.iter().map(question), SPANS_MAX, classes, around).without_records();
        walk(&mut Reader::new(&input.traces), classes, &mut keep);
        let (scenes, known) = keep.take();
        let mut causes = Causes { left_out, ..Causes::default() };
        for (scene, (row, at, ..)) in scenes.iter().zip(&samples) {
            let budget = scene.budget(&classes.vocabulary, &known);
            causes.missing_events.add(&scene.missing_events(&classes.vocabulary, &budget));
            causes.of_sample.insert((*row, *at), budget);
        }
        Ok(causes)
    }

    /// What the time of a sample went to, the largest part first; `None`: it was not asked for.
    pub fn of(&self, row: usize, at: usize) -> Option<&[Slice]> {
        self.of_sample.get(&(row, at)).map(Vec::as_slice)
    }

    /// The same for people, the largest parts of it.
    pub fn text(&self, row: usize, at: usize) -> Option<String> {
        self.of(row, at).map(cause_line)
    }
}
