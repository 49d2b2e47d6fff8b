// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all ways of printing share: which items are wanted and from where on, in which form, and what was read beside
//! them.

use kymo_analyze::State;
use kymo_ctf::read::{Caveat, Item, Reader, Trace};
use kymo_feed::{Classes, Missing};
use kymo_index::{Indexes, Named, range};
use kymo_query::Learn;

use super::args::ReadArgs;
use super::filter::Filters;
use super::format::Format;
use super::select::{Selection, Shown};
use super::{json, text};
use crate::verbs::analyze::caveats::CaveatCounts;
use crate::verbs::analyze::feed::has_switches;

/// Bytes that are collected before they are written; on a terminal each record is written at once.
pub const BUFFER_BYTES: usize = 1 << 16;

/// What was read and is not on the lines of records.
#[derive(Default)]
pub struct Totals {
    pub lost: Missing,
    /// Records of the state dump that were left out.
    pub state_records: u64,
}

/// What was printed, and what was wrong on the way.
#[derive(Default)]
pub struct Printed {
    pub totals: Totals,
    /// Position of the trace, and what is wrong with it: file by file.
    pub caveats: Vec<(usize, Caveat)>,
    pub counts: CaveatCounts,
}

impl Printed {
    pub fn of(reader: &Reader<'_>, totals: Totals) -> Printed {
        reader.end_pass();
        let caveats = reader.caveats().map(|(trace, caveat)| (trace, caveat.clone())).collect();
        Printed { totals, caveats, counts: CaveatCounts { all: reader.caveat_count(), damage: reader.damage_count() } }
    }
}

/// [from, to), ns.
pub type Ends = (Option<i64>, Option<i64>);

/// Where reading begins and ends.
pub struct Begin<'a> {
    pub named: &'a [Named],
    pub indexes: &'a Indexes,
    pub ends: Ends,
}

impl<'a> Begin<'a> {
    /// All records.
    #[cfg(test)]
    pub fn at_first(indexes: &'a Indexes) -> Begin<'a> {
        Begin { named: &[], indexes, ends: (None, None) }
    }

    pub fn is_all(&self) -> bool {
        self.ends == (None, None)
    }

    pub fn reader<'t>(&self, traces: &'t [Trace]) -> Reader<'t> {
        let [from, to] = [self.ends.0, self.ends.1].map(|end| end.map(i128::from));
        range::reader(traces, self.indexes, from, to)
    }

    /// What is known of threads in front of the first record that is read.
    pub fn learn(&self, traces: &[Trace]) -> Option<Learn> {
        let mut learn = Learn::new(traces)?;
        if let Some(state) = self.state(traces) {
            learn.begin(&state);
        }
        Some(learn)
    }

    /// The machine's state in front of the first record that is read, where that is not the first of the trace.
    pub fn state(&self, traces: &[Trace]) -> Option<State> {
        let from = self.ends.0?;
        let mut first = 0;
        let mut of_kernels = 0;
        for named in self.named {
            of_kernels += usize::from(traces[first..first + named.parts.len()].iter().any(has_switches));
            first += named.parts.len();
        }
        // Two machines have threads of the same numbers.
        (of_kernels == 1).then(|| range::state_before(traces, &Classes::new(traces), self.indexes, from).state)
    }

    /// Tells filters that ask for the machine's state of it.
    pub fn tell(&self, traces: &[Trace], filters: &mut Filters) {
        if let Some(state) = filters.have_state().then(|| self.state(traces)).flatten() {
            filters.begin(&state);
        }
    }
}

/// What decides how items are shown.
#[derive(Clone, Copy)]
pub struct PrintShape<'a> {
    pub traces: &'a [Trace],
    pub selection: &'a Selection,
    pub args: &'a ReadArgs,
}

impl<'a> PrintShape<'a> {
    /// The form that is asked for.
    pub fn format(self) -> Box<dyn Format + 'a> {
        format(self.traces, self.selection, self.args, None)
    }
}

/// Which items are shown: sees all of them, in the order of time.
pub struct PrintChoice<'a> {
    pub selection: &'a Selection,
    pub filters: &'a mut Filters,
    pub learn: Option<Learn>,
    pub limit: Option<u64>,
    /// Records so far.
    pub shown: u64,
}

impl<'a> PrintChoice<'a> {
    pub fn new(shape: PrintShape<'a>, begin: &Begin<'_>, filters: &'a mut Filters) -> Self {
        let selection = shape.selection;
        let learn = if selection.has_threads() || filters.have_threads() { begin.learn(shape.traces) } else { None };
        begin.tell(shape.traces, filters);
        Self { selection, filters, learn, limit: shape.args.limit, shown: 0 }
    }
}

impl PrintChoice<'_> {
    /// Whether nothing more is wanted.
    pub fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.shown >= limit)
    }

    /// Whether the event alone decides about a record.
    pub fn goes_by_event(&self) -> bool {
        self.learn.is_none() && self.filters.is_empty()
    }

    /// Whether a record is shown, where its event alone decides.
    #[inline]
    pub fn wants_event(&mut self, trace: usize, event: usize, totals: &mut Totals) -> bool {
        let shown = self.selection.event(trace, event);
        totals.state_records += u64::from(shown == Shown::OnlyWithState);
        self.shown += u64::from(shown == Shown::Yes);
        shown == Shown::Yes
    }

    /// Whether an item is shown. Adds to it what was learnt of its thread.
    #[inline]
    pub fn wants<'r>(&'r mut self, item: &mut Item<'r>, totals: &mut Totals) -> bool {
        let record = match item {
            Item::Record(record) => record,
            Item::Loss(loss) => {
                totals.lost.add_loss(loss);
                self.learn.iter_mut().for_each(|learn| learn.loss(loss));
                self.filters.lost(loss);
                return true;
            }
        };
        let (trace, event) = (record.trace, record.event_position);
        if let Some(learn) = &mut self.learn {
            learn.record(record);
        }
        let shown = self.selection.event(trace, event);
        let is_shown = self.filters.matches(record, shown == Shown::Yes) && shown == Shown::Yes;
        totals.state_records += u64::from(shown == Shown::OnlyWithState);
        self.shown += u64::from(is_shown);
        is_shown
    }
}

/// The form that is asked for. `before`: time of the line before, as times are shown.
pub fn format<'a>(
    traces: &[Trace],
    selection: &'a Selection,
    args: &ReadArgs,
    before: Option<i128>,
) -> Box<dyn Format + 'a> {
    if args.output.json() {
        return Box::new(json::Json::new(selection));
    }
    let times = text::Times { cycles: args.cycles, utc: args.zone.utc, date: args.date };
    Box::new(text::Text::new(traces, selection, times, before))
}
