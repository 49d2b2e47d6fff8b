// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pass for who looks at records of few classes and needs no state: with an index only the streams that have such
//! records are read, and losses are those of the index.

use std::iter::Peekable;

use kymo_analyze::{Head, State};
use kymo_ctf::read::{Item, Passed, Range, Reader, Record, Start};
use kymo_feed::{LossAt, Seen, clamp};
use kymo_index::{Cover, DamagedFields};

use super::{Gather, LossLog, Stop, Walk, Walked, begin, ends};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::span::Spans;

/// Which records are looked at.
pub struct Few {
    /// By class.
    is_wanted: Vec<bool>,
    /// Who wrote them is asked: they must say so themselves.
    by_writer: bool,
}

impl Few {
    /// Of classes whose fields alone are looked at.
    pub fn by_fields(is_wanted: Vec<bool>) -> Few {
        Few { is_wanted, by_writer: false }
    }

    /// Of classes whose records are looked at with who wrote them. `None` where a state is needed for that.
    pub fn by_writer(of: &Opened, is_wanted: Vec<bool>) -> Option<Few> {
        let (traces, classes) = (of.traces.iter().enumerate(), &of.classes);
        let mut events = traces.flat_map(|(trace, of)| (0..of.metadata.events.len()).map(move |event| (trace, event)));
        let needs_state = |(trace, event)| {
            let is_of = classes.at(trace, event).and_then(|class| is_wanted.get(class)) == Some(&true);
            is_of && classes.is_of_kernel(trace, event)
        };
        (!events.any(needs_state)).then_some(Few { is_wanted, by_writer: true })
    }

    /// Of what spans are made of. `None` where a state is needed, too.
    pub fn for_spans(of: &Opened, spans: &Spans<'_>) -> Option<Few> {
        Few::by_writer(of, spans.classes().to_vec()).filter(|_| spans.need_no_state())
    }

    /// By stream: whether it has such records. `None` without an index of all, or where something is damaged.
    pub fn streams(&self, of: &Opened) -> Option<Vec<bool>> {
        let whole = of.indexes.whole()?;
        let mut streams = Vec::new();
        for (trace, index) in whole.into_iter().enumerate() {
            for stream in &index.streams {
                let mut classes = stream.events.iter().filter_map(|of_event| of.classes.at(trace, of_event.event));
                streams.push(classes.any(|class| self.is_wanted.get(class) == Some(&true)));
            }
        }
        Some(streams)
    }

    /// The share of all records that is in the streams that are read.
    pub fn share(&self, of: &Opened) -> Option<f64> {
        let (streams, whole) = (self.streams(of)?, of.indexes.whole()?);
        let records: Vec<u64> =
            whole.iter().flat_map(|index| &index.streams).map(kymo_index::StreamCounts::records).collect();
        let read: u64 = records.iter().zip(&streams).filter(|(_, is_read)| **is_read).map(|(records, _)| records).sum();
        Some(read as f64 / records.iter().sum::<u64>().max(1) as f64)
    }

    fn takes(&self, record: &Record<'_>) -> bool {
        !self.by_writer || record.vpid.is_some() || record.vtid.is_some()
    }
}

impl Walk<'_> {
    /// The losses of the window, as the index of its only trace has them. `None`: it does not.
    ///
    /// # Errors
    /// They are damaged.
    pub fn known_losses(&self) -> Result<Option<LossLog>, DamagedFields> {
        let whole = self.of.indexes.whole().filter(|_| !self.window.is_empty());
        let Some([index]) = whole.as_deref() else { return Ok(None) };
        let Some(all) = index.losses()? else { return Ok(None) };
        let ((from, to), mut losses) = (ends(self.of, self.window), LossLog::default());
        for loss in all {
            if from.is_none_or(|from| loss.to >= from) && to.is_none_or(|to| loss.from < to) {
                losses.take(&loss, self.pixels.as_ref());
            }
        }
        Ok(Some(losses))
    }

    /// The end of the window where no record moves a state: there are losses alone. `None`: some record does, or losses
    /// are not known.
    ///
    /// # Errors
    /// They are damaged.
    pub fn of_programs(&self) -> Result<Option<Walked>, DamagedFields> {
        let whole = self.of.indexes.whole();
        let Some([index]) = whole.as_deref() else { return Ok(None) };
        let mut events = index.streams.iter().flat_map(|stream| &stream.events);
        if events.any(|of| self.of.classes.is_of_kernel(0, of.event)) {
            return Ok(None);
        }
        Ok(self.known_losses()?.map(|losses| Walked::of_losses(self.of, losses)))
    }

    /// The state in front of a time, of all records, whatever the window.
    pub(crate) fn state_at(of: &Opened, at: i64, stop: &Stop) -> Result<State, Error> {
        let behind = Window { from: at, to: at.saturating_add(1) };
        Ok(begin(of, behind, stop)?.1.state)
    }

    /// Shows the records of few classes to a visitor that takes nothing else: no state, and no losses. Only streams
    /// that have such records are read. Whether this could be. For who asks for no filter.
    pub fn run_alone(&self, few: &Few, visit: &mut impl Gather, stop: &Stop) -> Result<bool, Error> {
        let Some(streams) = few.streams(self.of).filter(|_| self.is_all()) else { return Ok(false) };
        let (from, to) = ends(self.of, self.window);
        let range = Range { from_ns: from.map(i128::from), to_ns: to.map(i128::from) };
        self.show(few, (range, &streams), &mut std::iter::empty().peekable(), visit, stop)
    }

    /// Shows the records of few classes; the state that it shows with them is empty, but at the ends of the window.
    /// `None` where this cannot be: what the visitor has is of no use then. For who asks for no filter.
    pub fn run_few(&self, few: &Few, visit: &mut impl Gather, stop: &Stop) -> Result<Option<Walked>, Error> {
        let states = self.of.indexes.states.as_ref().filter(|_| self.is_all() && !self.window.is_empty());
        let cover = states.and_then(|states| {
            states.pyramid.cover(self.window.pair(), self.window.from <= self.of.base()).ok().flatten()
        });
        let Some((cover, streams)) = cover.zip(few.streams(self.of)) else { return Ok(None) };
        let (mut walk, mut losses) = (Walk { chosen: None, ..*self }, LossLog::default());
        if let Some(to) = cover.records_to.filter(|to| *to > self.window.from) {
            let before = Window { from: self.window.from, to };
            losses = walk.pass(before, losses, visit, true, stop)?.0;
        }
        let Ok(between) = self.losses_between(&cover) else { return Ok(None) };
        between.iter().for_each(|loss| losses.take(loss, self.pixels.as_ref()));
        if !self.middle(few, (&cover, &streams), between, visit, stop)? {
            return Ok(None);
        }
        let behind = Window { from: cover.records_from, to: self.window.to };
        let (losses, walker) = walk.pass(behind, losses, visit, false, stop)?;
        Ok(self.all_losses(losses).ok().map(|losses| walk.end(walker, losses, visit)))
    }

    /// The losses that lie where nothing is read for states.
    fn losses_between(&self, cover: &Cover) -> Result<Vec<LossAt>, DamagedFields> {
        let Some(all) = Walk::new(self.of, self.window).known_losses()? else {
            return Ok(cover.parts.iter().flat_map(|part| &part.losses).copied().collect());
        };
        let from = cover.records_to.unwrap_or(i64::MIN);
        let losses = all.list().iter().map(|loss| loss.all);
        Ok(losses.filter(|loss| (from..cover.records_from).contains(&loss.from)).collect())
    }

    /// What lies between the records at the window's ends. Whether all of it could be shown.
    fn middle(
        &self,
        few: &Few,
        (cover, streams): (&Cover, &[bool]),
        losses: Vec<LossAt>,
        visit: &mut impl Gather,
        stop: &Stop,
    ) -> Result<bool, Error> {
        let from = cover.records_to.map(i128::from);
        let range = Range { from_ns: from, to_ns: Some(cover.records_from.into()) };
        let mut losses = losses.into_iter().peekable();
        let is_shown = self.show(few, (range, streams), &mut losses, visit, stop)?;
        losses.for_each(|loss| visit.loss(&loss));
        Ok(is_shown)
    }

    /// The records of a range, and losses in their places among them. Whether all of them could be shown.
    fn show(
        &self,
        few: &Few,
        (range, streams): (Range, &[bool]),
        losses: &mut Peekable<impl Iterator<Item = LossAt>>,
        visit: &mut impl Gather,
        stop: &Stop,
    ) -> Result<bool, Error> {
        let (of, state) = (self.of, State::new(&self.of.classes.vocabulary));
        let from = range.from_ns;
        let mut starts =
            from.map_or_else(|| vec![Start::Begin; streams.len()], |from| of.indexes.starts(&of.traces, from));
        starts.iter_mut().zip(streams).filter(|(_, is_read)| !**is_read).for_each(|(start, _)| *start = Start::Skip);
        let Some(mut reader) = Reader::between(&of.traces, range, &starts) else { return Ok(false) };
        let mut passed = 0u32;
        while let Some(next) = reader.pass() {
            stop.check_some(&mut passed)?;
            let Passed::Record { trace, event, .. } = next else { continue };
            let class = of.classes.at(trace, event).filter(|class| few.is_wanted.get(*class) == Some(&true));
            let Some((class, Item::Record(record))) = class.zip(reader.current()) else { continue };
            if !few.takes(&record) {
                return Ok(false);
            }
            let head = Head { time: clamp(record.ns), cpu: record.cpu, tid: None };
            while let Some(loss) = losses.next_if(|loss: &LossAt| loss.from <= head.time) {
                visit.loss(&loss);
            }
            visit.record(&Seen { record: &record, class, head, is_selected: true }, &state);
        }
        Ok(true)
    }
}
