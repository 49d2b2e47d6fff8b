// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves a state by records that nobody else looks at. Where there are many, one thread decodes them and another moves
//! the state: half of the work each.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use kymo_analyze::Sink;
use kymo_ctf::read::{Item, Reader};

use crate::classes::Classes;
use crate::moves::{LossAt, Move};
use crate::walk::Walker;

/// Batches of items that are taken before another thread is started.
const FEW: usize = 4;
/// Items whose moves are handed over at once.
const BATCH_ITEMS: usize = 1 << 12;
/// Batches that wait for the state.
const QUEUE: usize = 3;

/// A move, and the stream it comes from.
type Moved = (usize, Move);

/// Makes moves of what a reader gives.
struct Moves<'r, 't, 'c> {
    reader: &'r mut Reader<'t>,
    classes: &'c Classes,
    /// By stream: whether the state knows of a record that was of no kernel, and of one that was.
    told: Vec<[bool; 2]>,
}

impl Moves<'_, '_, '_> {
    /// The next item: `None` where there is none, and no move where it does nothing that the state does not know.
    #[inline]
    fn next(&mut self) -> Option<Option<Moved>> {
        self.reader.pass()?;
        let stream = self.reader.stream().unwrap_or_default();
        let Some(record) = self.reader.glance() else { return Some(self.loss(stream)) };
        let of = self.classes.moved(&record);
        if let Move::Nothing(of_kernel) = of {
            return Some(self.is_news(stream, of_kernel).then_some((stream, of)));
        }
        Some(Some((stream, of)))
    }

    #[cold]
    fn loss(&mut self, stream: usize) -> Option<Moved> {
        match self.reader.current() {
            Some(Item::Loss(loss)) => Some((stream, Move::Loss(LossAt::of(&loss)))),
            _ => None,
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
    fn fill(&mut self, batch: &mut Vec<Moved>) -> bool {
        for _ in 0..BATCH_ITEMS {
            match self.next() {
                Some(moved) => batch.extend(moved),
                None => return false,
            }
        }
        true
    }

    /// Hands batches over until there is no more, or nobody takes them. Batches come back to be filled again.
    fn hand_over(&mut self, full: &SyncSender<Vec<Moved>>, used: &Receiver<Vec<Moved>>) {
        let mut is_more = true;
        while is_more {
            let mut batch = used.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH_ITEMS));
            is_more = self.fill(&mut batch);
            if full.send(batch).is_err() {
                return;
            }
        }
    }
}

impl Walker<'_> {
    /// Moves the state by all that the reader has, as long as `goes_on` says so, which is asked every few thousand
    /// items; keeps no totals. Whether it came to the end. Uses another thread where there are many.
    pub fn follow_while(
        &mut self,
        reader: &mut Reader<'_>,
        lost: &mut dyn FnMut(&LossAt),
        sink: &mut impl Sink,
        goes_on: &dyn Fn() -> bool,
    ) -> bool {
        let mut moves = Moves { reader, classes: self.classes, told: Vec::new() };
        let mut batch = Vec::with_capacity(BATCH_ITEMS);
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        for at in 0.. {
            let is_more = moves.fill(&mut batch);
            self.take_all(&batch, lost, sink);
            batch.clear();
            if !is_more || !goes_on() {
                return !is_more;
            }
            if at == FEW && cpus > 1 {
                if let Some(is_whole) = self.follow_beside(&mut moves, lost, sink, goes_on) {
                    return is_whole;
                }
            }
        }
        false
    }

    /// The same with another thread that decodes. `None`: there can be none.
    fn follow_beside(
        &mut self,
        moves: &mut Moves<'_, '_, '_>,
        lost: &mut dyn FnMut(&LossAt),
        sink: &mut impl Sink,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<bool> {
        thread::scope(|scope| {
            let (full, batches) = sync_channel(QUEUE);
            let (give_back, used) = channel();
            let decode = move || moves.hand_over(&full, &used);
            thread::Builder::new().name("kymo-decode".to_owned()).spawn_scoped(scope, decode).ok()?;
            for mut batch in batches {
                if !goes_on() {
                    return Some(false);
                }
                self.take_all(&batch, lost, sink);
                batch.clear();
                // Nobody fills it again where that was the last one.
                let _ = give_back.send(batch);
            }
            Some(true)
        })
    }

    #[inline]
    fn take_all(&mut self, moves: &[Moved], lost: &mut dyn FnMut(&LossAt), sink: &mut impl Sink) {
        for (stream, of) in moves {
            self.take(*stream, of, sink);
            if let Move::Loss(loss) = of {
                lost(loss);
            }
        }
    }
}
