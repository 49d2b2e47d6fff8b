// SPDX-License-Identifier: MIT OR Apache-2.0
//! What writes one format, and what it says at its end.

use std::collections::BTreeMap;

use kymo_ctf::read::{EventClass, FieldInfo, FieldKind, Item, Loss, Record, Trace};

use super::facts::all_contexts;
use super::names::{KnownThread, ThreadNames};
use crate::Error;

/// One format, being written.
pub trait Exporter {
    /// Takes a record. Its thread is the one that is to be shown.
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error>;

    /// The same, of a thread whose names are known from more than the record.
    fn named_record(&mut self, record: &Record<'_>, _names: &ThreadNames<'_>) -> Result<(), Error> {
        self.record(record)
    }

    /// Takes the threads that exist when the trace begins, before all records.
    fn threads(&mut self, _threads: &[KnownThread]) -> Result<(), Error> {
        Ok(())
    }

    /// Takes what is wrong with the traces as a whole, each with how often that was met, behind all records.
    fn doubts(&mut self, _doubts: &[(&str, u64)]) -> Result<(), Error> {
        Ok(())
    }

    /// Is told, before the first record, that the output is a part of the traces. Who writes a trace says so in it.
    fn trim(&mut self, _trim: &Trim) {}

    /// Is told of a record that the conditions of a trim left out.
    fn left_out(&mut self, _record: &Record<'_>) {}

    /// Takes a loss.
    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error>;

    /// Writes what is left, and makes the output appear under its name.
    fn finish(self: Box<Self>) -> Result<Done, Error>;

    /// Takes what the reader gives.
    fn item(&mut self, item: &Item<'_>) -> Result<(), Error> {
        match item {
            Item::Record(record) => self.record(record),
            Item::Loss(loss) => self.loss(loss),
        }
    }
}

/// Says of how many fields the values are text, because the format has no integers of so many bits.
pub fn note_wide(done: &mut Done, traces: &[Trace]) {
    fn wide(infos: &[FieldInfo<'_>]) -> u64 {
        infos.iter().map(|info| of_kind(&info.kind)).sum()
    }
    fn of_kind(kind: &FieldKind<'_>) -> u64 {
        match kind {
            FieldKind::Wide { .. } => 1,
            FieldKind::Array { element, .. } => of_kind(element),
            FieldKind::Struct(infos) => wide(infos),
            _ => 0,
        }
    }
    for trace in traces {
        let events = trace.metadata.events.iter().enumerate();
        let fields = |(position, event): (usize, &EventClass)| {
            wide(&trace.metadata.fields(event)) + wide(&all_contexts(&trace.metadata, position))
        };
        done.change("integers of more than 64 bits, written as text: fields of events", events.map(fields).sum());
    }
}

/// Which part of the traces is exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trim {
    /// The options, as they were given.
    pub options: String,
    /// From this time on, ns.
    pub from_ns: Option<i64>,
    /// Before this time, ns.
    pub to_ns: Option<i64>,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Files.
    pub files: u64,
    /// What the format does not hold, with how often that was met.
    pub left_out: BTreeMap<String, u64>,
    /// What is in the output otherwise than in the trace, with how often that was met.
    pub changed: BTreeMap<String, u64>,
}

impl Done {
    /// Counts what the format does not hold.
    pub fn leave_out(&mut self, what: &str, count: u64) {
        count_in(&mut self.left_out, what, count);
    }

    /// Counts what is otherwise in the output.
    pub fn change(&mut self, what: &str, count: u64) {
        count_in(&mut self.changed, what, count);
    }
}

fn count_in(counts: &mut BTreeMap<String, u64>, what: &str, count: u64) {
    if count == 0 {
        return;
    }
    match counts.get_mut(what) {
        Some(known) => *known += count,
        None => drop(counts.insert(what.to_owned(), count)),
    }
}
