// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was counted, for those who print it: which rows, in which order, and what their parts are called.

use std::cmp::Ordering;

use kymo_analyze::{Class, Number, Stats, StatsRow};

use super::args::StatsArgs;
use super::by::By;
use super::values::FieldValues;

/// What was counted, for those who print it.
pub(super) struct StatsReport<'a> {
    pub(super) stats: &'a Stats,
    pub(super) args: &'a StatsArgs,
    pub(super) classes: &'a [Class],
    /// What parts of rows stand for.
    pub(super) values: &'a FieldValues,
}

/// The greater sum first; those without one last.
pub(super) fn greater_first(a: Option<Number>, b: Option<Number>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.order(a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

impl StatsReport<'_> {
    /// The rows that are shown, each with its place for [`Stats::fields`].
    pub(super) fn chosen(&self) -> Vec<(usize, &StatsRow)> {
        let mut rows = self.stats.rows();
        match (self.args.limit, &self.args.sum) {
            (_, Some(_)) => rows.sort_by(|(_, a), (_, b)| greater_first(a.sum, b.sum)),
            (Some(_), None) => rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.count)),
            (None, None) => rows.sort_by_cached_key(|(_, row)| self.parts(row)),
        }
        rows.truncate(self.args.limit.unwrap_or(usize::MAX));
        rows
    }

    /// The parts of a row's key; numbers so that they sort as numbers.
    pub(super) fn parts(&self, row: &StatsRow) -> Vec<(i64, String)> {
        let part = |(level, (by, part)): (usize, (&By, &Option<i64>))| match (by, part) {
            (By::Event, Some(class)) => (0, self.classes[*class as usize].name.clone()),
            (By::Field(_), Some(number)) => match self.text(*number) {
                Some(text) => (i64::MAX, text.to_owned()),
                None if self.values.is_hex(level) => (*number, format!("{:#x}", *number as u64)),
                None => (*number, number.to_string()),
            },
            (_, Some(number)) => (*number, number.to_string()),
            (_, None) => (-1, "-".to_owned()),
        };
        self.args.by.iter().zip(&row.key).enumerate().map(part).collect()
    }

    /// The text that a part of a row stands for.
    pub(super) fn text(&self, part: i64) -> Option<&str> {
        let index = usize::try_from(part.checked_sub(i64::MIN)?).ok()?;
        self.values.texts.get(index).map(String::as_str)
    }

    pub(super) fn label(&self, row: &StatsRow) -> String {
        let shown = |(by, (_, part)): (&By, (i64, String))| match by {
            By::Process | By::Thread if !row.name.is_empty() && part != "-" => format!("{}[{part}]", row.name),
            By::Cpu => format!("cpu {part}"),
            By::Field(name) => format!("{name}={part}"),
            _ => part,
        };
        self.args.by.iter().zip(self.parts(row)).map(shown).collect::<Vec<_>>().join(" / ")
    }
}
