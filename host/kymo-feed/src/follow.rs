// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves a state by records of which nobody looks at more than few. Where there are many, one thread decodes them and
//! another moves the state: half of the work each.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use kymo_analyze::Head;
use kymo_ctf::read::{Batch, Item, Reader, Record};

use crate::classes::{Classes, clamp};
use crate::moves::{LossAt, Move};
use crate::walk::{Seen, Totals, Visit, Walker};

/// Batches of items that are taken before another thread is started.
const FEW: usize = 4;
/// Items whose moves are handed over at once.
const BATCH_ITEMS: usize = 1 << 12;
/// Batches that wait for the state.
const QUEUE: usize = 3;

/// What some thousand items do to a state, and the records among them that are looked at.
#[derive(Default)]
struct Moves<'t> {
    /// With the stream that each comes from.
    list: Vec<(usize, Move)>,
    kept: Batch<'t>,
    /// Of each record that is kept: the move that follows it.
    places: Vec<usize>,
    /// Of all items.
    totals: Totals,
}

impl Moves<'_> {
    fn clear(&mut self) {
        self.list.clear();
        self.kept.clear();
        self.places.clear();
        self.totals = Totals::default();
    }
}

/// Makes moves of what a reader gives.
struct Source<'r, 't, 'c> {
    reader: &'r mut Reader<'t>,
    classes: &'c Classes,
    /// By class: whether its records are looked at.
    is_kept: Vec<bool>,
    /// When all records are, ns, with both ends.
    kept_within: Vec<(i64, i64)>,
    /// By stream: whether the state knows of a record that was of no kernel, and of one that was.
    told: Vec<[bool; 2]>,
}

impl<'t> Source<'_, 't, '_> {
    /// Adds the next item: whether there is one.
    #[inline]
    fn next(&mut self, to: &mut Moves<'t>) -> bool {
        if self.reader.pass().is_none() {
            return false;
        }
        let stream = self.reader.stream().unwrap_or_default();
        let Some(record) = self.reader.glance() else {
            self.loss(stream, to);
            return true;
        };
        let of = self.classes.moved(&record);
        to.totals.note(clamp(record.ns), true);
        if self.is_kept[self.classes.of_glance(&record)] || is_within(&self.kept_within, record.ns) {
            self.reader.keep(&mut to.kept);
            to.places.push(to.list.len());
        }
        // What moves nothing tells at most whose the stream is.
        if !matches!(of, Move::Nothing(of_kernel) if !self.is_news(stream, of_kernel)) {
            to.list.push((stream, of));
        }
        true
    }

    #[cold]
    fn loss(&mut self, stream: usize, to: &mut Moves<'t>) {
        if let Some(Item::Loss(loss)) = self.reader.current() {
            to.totals.lost.add_loss(&loss);
            to.list.push((stream, Move::Loss(LossAt::of(&loss))));
        }
    }

    #[inline]
    fn is_news(&mut self, stream: usize, of_kernel: bool) -> bool {
        if self.told.len() <= stream {
            self.told.resize(stream + 1, [false; 2]);
        }
        !std::mem::replace(&mut self.told[stream][usize::from(of_kernel)], true)
    }

    /// Fills a batch. Whether there may be more.
    fn fill(&mut self, to: &mut Moves<'t>) -> bool {
        (0..BATCH_ITEMS).all(|_| self.next(to))
    }

    /// Hands batches over until there is no more, or nobody takes them. Batches come back to be filled again.
    fn hand_over(&mut self, full: &SyncSender<Moves<'t>>, used: &Receiver<Moves<'t>>) {
        let mut is_more = true;
        while is_more {
            let mut batch = used.try_recv().unwrap_or_default();
            is_more = self.fill(&mut batch);
            if full.send(batch).is_err() {
                return;
            }
        }
    }
}

#[inline]
fn is_within(stretches: &[(i64, i64)], ns: i128) -> bool {
    stretches.iter().any(|(from, to)| (*from..=*to).contains(&clamp(ns)))
}

impl Walker<'_> {
    /// Moves the state by all that the reader has, as long as `goes_on` says so, which is asked every few thousand
    /// items. The visitor sees the records that it looks at, by class or by time, all of them selected. `lost` is told
    /// of losses. Whether it came to the end, or to where the visitor has enough. Uses another thread where there are
    /// many records.
    pub fn follow_while(
        &mut self,
        reader: &mut Reader<'_>,
        lost: &mut dyn FnMut(&LossAt),
        visit: &mut impl Visit,
        goes_on: &dyn Fn() -> bool,
    ) -> bool {
        self.follow_until(reader, lost, visit, goes_on, true)
    }

    /// Takes all that the reader has, though the visitor may have enough.
    pub(crate) fn follow(&mut self, reader: &mut Reader<'_>, visit: &mut impl Visit) {
        self.follow_until(reader, &mut |_| (), visit, &|| true, false);
    }

    fn follow_until(
        &mut self,
        reader: &mut Reader<'_>,
        lost: &mut dyn FnMut(&LossAt),
        visit: &mut impl Visit,
        goes_on: &dyn Fn() -> bool,
        can_end: bool,
    ) -> bool {
        let classes = self.classes;
        let is_kept = (0..classes.list.len()).map(|class| visit.looks_at(class)).collect();
        let mut source = Source { reader, classes, is_kept, kept_within: visit.looks_within(), told: Vec::new() };
        let mut moves = Moves::default();
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        for at in 0.. {
            let is_more = source.fill(&mut moves);
            self.take_all(&moves, lost, visit);
            moves.clear();
            if !is_more || can_end && visit.is_enough() {
                return true;
            }
            if !goes_on() {
                return false;
            }
            if at == FEW && cpus > 1 {
                if let Some(is_whole) = self.follow_beside(&mut source, lost, visit, goes_on, can_end) {
                    return is_whole;
                }
            }
        }
        false
    }

    /// The same with another thread that decodes. `None`: there can be none.
    fn follow_beside(
        &mut self,
        source: &mut Source<'_, '_, '_>,
        lost: &mut dyn FnMut(&LossAt),
        visit: &mut impl Visit,
        goes_on: &dyn Fn() -> bool,
        can_end: bool,
    ) -> Option<bool> {
        thread::scope(|scope| {
            let (full, batches) = sync_channel(QUEUE);
            let (give_back, used) = channel();
            let decode = move || source.hand_over(&full, &used);
            thread::Builder::new().name("kymo-decode".to_owned()).spawn_scoped(scope, decode).ok()?;
            for mut batch in batches {
                if !goes_on() {
                    return Some(false);
                }
                self.take_all(&batch, lost, visit);
                if can_end && visit.is_enough() {
                    break;
                }
                batch.clear();
                // Nobody fills it again where that was the last one.
                let _ = give_back.send(batch);
            }
            Some(true)
        })
    }

    #[inline]
    fn take_all(&mut self, moves: &Moves<'_>, lost: &mut dyn FnMut(&LossAt), visit: &mut impl Visit) {
        self.totals.add(&moves.totals);
        let (mut at, mut places) = (0, moves.places.iter());
        moves.kept.for_each(|item| {
            let until = places.next().copied().unwrap_or(at);
            self.take_some(&moves.list[at..until], lost, visit);
            at = until;
            if let Item::Record(record) = item {
                self.show(record, visit);
            }
        });
        self.take_some(&moves.list[at..], lost, visit);
    }

    #[inline]
    fn take_some(&mut self, moves: &[(usize, Move)], lost: &mut dyn FnMut(&LossAt), visit: &mut impl Visit) {
        for (stream, of) in moves {
            if let Move::Loss(loss) = of {
                visit.loss(loss);
                lost(loss);
            }
            self.take(*stream, of, visit);
        }
    }

    fn show(&self, record: &Record<'_>, visit: &mut impl Visit) {
        let (class, tid) = (self.classes.of(record), self.classes.tid_of(record));
        let head = Head { time: clamp(record.ns), cpu: record.cpu, tid };
        visit.record(&Seen { record, class, head, is_selected: true }, &self.state);
    }
}
