// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building an index: streams of programs each for itself, on several threads; those of a kernel merged by time, with
//! the state.

pub(crate) mod stop;
pub(crate) mod worker;
pub(crate) mod write;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use kymo_analyze::compact::Put;
use kymo_analyze::shown::Calls;
use kymo_ctf::read::{Glance, Item, Passed, Range, Reader, Scanned, Scans, Start, Trace};
use kymo_feed::{Classes, DEVICES, LossAt, Walker, device_of, recorders};

use crate::counts::account::{Account, StreamCounts, put_entries};
use crate::counts::buckets::Buckets;
use crate::counts::fine::FineCounts;
use crate::error::Error;
use crate::fields::head::LOSSES_MAX;
use crate::fields::taker::{FieldTaker, OrderedLoss, StreamValues};
use crate::file::head::{StatesHead, StreamsHead};
use crate::file::identity::clocks;
use crate::file::{Piece, Writer};

use crate::build::stop::Stop;
use crate::pyramid::{Summed, Summing};
use crate::spans::head::SpanSink;
use crate::spans::maker::SpanMaker;
use crate::spans::pairs::SpanPairs;
use crate::spans::parts::MadeSpans;
use crate::states::{Keeper, Spacing};
use crate::statistics::maker::StatisticsMaker;
use crate::statistics::written::{StreamCounter, WrittenTaker};
use crate::statistics::written_bytes::put_streams;

/// Levels of summaries end with so few columns.
const COLUMNS_MIN: usize = 64;
/// The coarser levels, each a quarter of the one before.
const FOLDS: usize = 2;
/// Pieces of spans that wait to be written.
const SPAN_QUEUE: usize = 16;

/// A stream on its way.
struct Counted {
    account: Account,
    damaged: u64,
}

impl Counted {
    /// The stream at a position.
    fn new(trace: &Trace, stream: usize) -> Counted {
        let sizes: Vec<u64> = trace.streams().map(|(_, bytes)| bytes as u64).collect();
        let mean = sizes.iter().sum::<u64>() / sizes.len().max(1) as u64;
        // All streams have the columns of the one that has the longest: a short stream would make them long.
        let bytes = sizes.get(stream).copied().unwrap_or(0).max(mean);
        Counted { account: Account::new(trace.metadata.events.len(), bytes), damaged: 0 }
    }

    fn finish(&mut self, damaged: u64) {
        self.account.finish();
        self.damaged = damaged;
    }
}

/// Who looks at the records of streams that are scanned.
#[derive(Clone, Copy, Default)]
struct Takers<'t> {
    fields: Option<&'t FieldTaker<'t>>,
    written: Option<&'t WrittenTaker<'t>>,
}

impl Takers<'_> {
    /// Whether records of an event can be passed over as bytes.
    #[inline]
    fn is_plain(&self, event: usize) -> bool {
        let is_plain = self.fields.is_none_or(|fields| fields.is_plain(event));
        is_plain && self.written.is_none_or(|written| written.is_plain(event))
    }
}

/// The parts of an index as they are built.
pub(crate) struct Builder<'b> {
    pub traces: &'b [Trace],
    pub classes: &'b Classes,
    pub stop: &'b Stop,
    pub spacing: Spacing,
    /// Pairs of a program's own events, as `kymo latency --span` has them.
    pub spans: &'b [String],
}

impl Builder<'_> {
    /// Packets, counts and states of one trace.
    pub fn whole(&self, to: &mut Writer<'_>) -> Result<(StreamsHead, StatesHead), Error> {
        let [trace] = self.traces else { return Err(Error::Stopped) };
        let mut is_read: Vec<bool> = (0..trace.streams().count()).map(|stream| self.is_of_kernel(stream)).collect();
        let mut counted: Vec<Option<Counted>> = is_read.iter().map(|_| None).collect();
        for (stream, of) in counted.iter_mut().enumerate().filter(|(stream, _)| is_read[*stream]) {
            *of = Some(Counted::new(trace, stream));
        }
        let others: Vec<usize> = (0..is_read.len()).filter(|&stream| !is_read[stream]).collect();
        let (fields, mut losses) = (FieldTaker::new(trace, self.classes), Vec::new());
        let written = WrittenTaker::new(trace, self.classes);
        let takers = Takers { fields: fields.as_ref(), written: written.as_ref() };
        let (give, made) = sync_channel(SPAN_QUEUE);
        let mut sink = SpanSink::new(self.spans, made);
        let (scanned, mut states, spans) = thread::scope(|scope| {
            let scanned = scope.spawn(|| {
                let scanned = self.scan(trace, &others, takers)?;
                let has_spans = self.make_spans(trace, &scanned, give)?;
                Ok::<_, Error>((scanned, has_spans))
            });
            let states = self.states(&is_read, &mut counted, &mut losses, (to, Some(&mut sink)));
            let spans = sink.finish(to);
            (scanned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), states, spans)
        });
        let (scanned, has_spans) = scanned?;
        let mut was_read = true;
        let is_scanned: Vec<bool> = is_read.iter().map(|is_read| !is_read).collect();
        for (stream, of) in scanned {
            if self.concerns_state(0, &of.account) {
                (is_read[stream], was_read) = (true, false);
            }
            counted[stream] = Some(of);
        }
        if !was_read {
            // Streams that begin with other records, and have some of a kernel.
            losses.clear();
            states = self.states(&is_read, &mut [], &mut losses, (to, None));
        }
        let counted = counted.into_iter().enumerate();
        let counted: Vec<Counted> =
            counted.map(|(stream, of)| of.unwrap_or_else(|| Counted::new(trace, stream))).collect();
        let mut states = states?;
        let mut unread = counted.iter().zip(&is_read).filter(|(_, is_read)| !**is_read);
        let has_lost = unread.any(|(of, _)| of.account.lost[2] > 0);
        if states.statistics.names.is_some() {
            states.statistics.programs = written_piece(written, &counted, &is_read, to)?;
        }
        let is_of_others = |of: &Counted, read: bool| !read || !self.has_spans(trace, of);
        let has_all = counted.iter().zip(&is_read).all(|(of, read)| of.damaged == 0 && is_of_others(of, *read));
        states.spans = Some(spans?).filter(|_| has_spans && has_all);
        let mut streams = streams(trace, counted, to)?;
        if let Some(fields) = fields {
            streams.fields = fields.finish(&streams.counts, &is_scanned, losses, to)?;
        }
        if has_lost && streams.fields.is_none() {
            // Losses of programs are not in the sums, and answers tell of all losses.
            (states.pyramid, states.pictures) = Default::default();
            (states.latencies, states.wakes, states.statistics) = Default::default();
        }
        Ok((streams, states))
    }

    /// Whether a stream has records that begin or end spans.
    fn has_spans(&self, trace: &Trace, of: &Counted) -> bool {
        let pairs = SpanPairs::new(self.spans, trace);
        pairs.is_some_and(|pairs| of.account.events.iter().any(|of| of.records > 0 && pairs.takes(of.event)))
    }

    /// Makes the spans of the streams that have them. Whether there are some.
    fn make_spans(
        &self,
        trace: &Trace,
        scanned: &[(usize, Counted)],
        give: SyncSender<MadeSpans>,
    ) -> Result<bool, Error> {
        let Some(pairs) = SpanPairs::new(self.spans, trace) else { return Ok(false) };
        let is_of_kernel = |event| pairs.takes(event) && self.classes.is_of_kernel(0, event);
        if (0..trace.metadata.events.len()).any(is_of_kernel) {
            return Ok(false);
        }
        let mut is_read = vec![false; trace.streams().count()];
        scanned.iter().for_each(|(stream, of)| is_read[*stream] = self.has_spans(trace, of));
        let spans = usize::try_from(self.spacing.records / 8).unwrap_or(usize::MAX).max(1);
        // Where nobody takes them the build has failed already.
        let give = |made| drop(give.send(made));
        SpanMaker { pairs, spans, recorders: recorders(self.traces), stop: self.stop, give: &give }
            .make(trace, &is_read)
    }

    /// Packets and counts of the trace at a position.
    pub fn part(&self, index: usize, to: &mut Writer<'_>) -> Result<StreamsHead, Error> {
        let trace = &self.traces[index];
        let all: Vec<usize> = (0..trace.streams().count()).collect();
        let mut counted = self.scan(trace, &all, Takers::default())?;
        counted.sort_by_key(|(stream, _)| *stream);
        streams(trace, counted.into_iter().map(|(_, of)| of).collect(), to)
    }

    /// States of all traces together.
    pub fn all_states(&self, to: &mut Writer<'_>) -> Result<StatesHead, Error> {
        let streams: usize = self.traces.iter().map(|trace| trace.streams().count()).sum();
        self.states(&vec![true; streams], &mut [], &mut Vec::new(), (to, None))
    }

    /// Whether a stream begins with a record of a kernel.
    fn is_of_kernel(&self, stream: usize) -> bool {
        let mut scan = self.traces[0].scan(stream);
        while let Some(item) = scan.next() {
            if let Scanned::Record { event, .. } = item {
                return self.classes.is_of_kernel(0, event);
            }
        }
        false
    }

    /// Whether anything in a stream can move a state.
    fn concerns_state(&self, trace: usize, account: &Account) -> bool {
        let mut events = account.events.iter().filter(|of| of.records > 0);
        account.has_unnamed_loss || events.any(|of| self.classes.is_of_kernel(trace, of.event))
    }

    /// Goes through streams one by one, on all CPUs.
    fn scan(&self, trace: &Trace, streams: &[usize], takers: Takers<'_>) -> Result<Vec<(usize, Counted)>, Error> {
        let all: Vec<(&Trace, usize)> = streams.iter().map(|stream| (trace, *stream)).collect();
        let _pass = Scans::of(&all);
        let workers = thread::available_parallelism().map_or(1, usize::from).min(streams.len().max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(&stream) = streams.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((stream, self.scan_one(trace, stream, takers)?));
            }
            Ok::<_, Error>(done)
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut all = work()?;
            for other in others {
                all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(all)
        })
    }

    fn scan_one(&self, trace: &Trace, stream: usize, takers: Takers<'_>) -> Result<Counted, Error> {
        let mut scan = trace.scan(stream);
        let mut values = takers.fields.map(|fields| fields.stream(stream));
        let mut written = takers.written.map(|written| written.stream(stream));
        let mut of = Counted::new(trace, stream);
        while let Some(item) = scan.next() {
            let mark = scan.packet_mark();
            if of.account.packet(mark) {
                self.stop.check()?;
                written.iter_mut().for_each(|written| written.packet(&scan));
            }
            match item {
                Scanned::Record { event, cycles } => {
                    of.account.record(event, cycles);
                    values.iter_mut().for_each(|values| values.record(event, cycles, &scan));
                    written.iter_mut().for_each(|written| written.record(event, cycles, &scan));
                }
                Scanned::Loss { records, packets, from_cycles, to_cycles } => {
                    of.account.has_unnamed_loss |= scan.vpid().is_none();
                    of.account.loss(records, packets, (from_cycles, to_cycles));
                    let (lost, times) = ((records, packets), (from_cycles, to_cycles));
                    values.iter_mut().for_each(|values| values.loss(lost, times, &scan));
                }
            }
            match values.is_some() || written.is_some() {
                true => scan.pass_chosen(
                    |event| takers.is_plain(event),
                    |event, cycles, bytes| {
                        of.account.record(event, cycles);
                        values.iter_mut().for_each(|values| values.bytes(event, cycles, bytes));
                        written.iter_mut().for_each(|written| written.bytes(event, cycles, bytes));
                    },
                ),
                false => scan.pass_plain(|event, cycles| of.account.record(event, cycles)),
            }
        }
        values.into_iter().for_each(StreamValues::finish);
        written.into_iter().for_each(StreamCounter::finish);
        of.finish(scan.caveats().1);
        Ok(of)
    }

    /// A reader of the streams that are read.
    fn reader(&self, is_read: &[bool]) -> Result<Reader<'_>, Error> {
        let starts: Vec<Start> = is_read.iter().map(|read| if *read { Start::Begin } else { Start::Skip }).collect();
        Reader::between(self.traces, Range::default(), &starts).ok_or(Error::Stopped)
    }

    /// Goes through the streams that are read, merged by time. Counts those that have a place in `counted`.
    fn states(
        &self,
        is_read: &[bool],
        counted: &mut [Option<Counted>],
        losses: &mut Vec<OrderedLoss>,
        (to, mut sink): (&mut Writer<'_>, Option<&mut SpanSink>),
    ) -> Result<StatesHead, Error> {
        let mut reader = self.reader(is_read)?;
        let mut walker = Walker::new(self.classes);
        let mut sums = self.summing()?;
        let mut keeper = Keeper::new(is_read.to_vec(), self.spacing);
        let mut at = vec![(u64::MAX, 0); is_read.len()];
        while let Some(passed) = reader.pass() {
            let stream = reader.stream().unwrap_or_default();
            let mut of = counted.get_mut(stream).and_then(Option::as_mut);
            if let Some(mark) = reader.packet_mark().filter(|mark| mark.number != at[stream].0) {
                let bytes = mark.offset - at[stream].1;
                at[stream] = (mark.number, mark.offset);
                if let Some(of) = &mut of {
                    of.account.packet(mark);
                }
                keeper.note_bytes(bytes);
                self.stop.check()?;
            }
            if keeper.is_due() {
                keeper.keep(&walker, &reader, to)?;
                sums.end_part(to)?;
                sink.as_mut().map_or(Ok(()), |sink| sink.poll(to))?;
            }
            if let (Some(of), Passed::Record { event, cycles, .. }) = (of, passed) {
                of.account.record(event, cycles);
            }
            if self.is_of_device(sums.devices, &passed) {
                learn_device(&mut reader, &mut sums);
            }
            let time = match reader.glance() {
                Some(record) => {
                    let time = self.take(stream, &record, &mut walker, &mut sums);
                    sums.note(time);
                    time
                }
                None => self.lose(&mut reader, &mut walker, counted, (&mut sums, losses)),
            };
            keeper.note(time);
        }
        // Only the times of CPUs have what is open at the end: the sums end with the last part.
        walker.state.finish(None, &mut sums.cpus);
        let damaged: Vec<u64> = (0..is_read.len()).map(|stream| reader.caveat_count_of(stream)).collect();
        counted.iter_mut().zip(&damaged).for_each(|(of, damaged)| of.iter_mut().for_each(|of| of.finish(*damaged)));
        // Where times are damaged, or go back, stretches do not follow each other.
        let is_damaged = damaged.iter().zip(is_read).any(|(damaged, read)| *read && *damaged > 0);
        let Summed { cpus, mut pyramid, mut pictures, mut latencies, mut wakes, mut statistics } = sums.finish(to)?;
        if is_damaged || walker.state.clock_backs() > 0 {
            (pyramid, pictures, latencies, wakes, statistics) = Default::default();
        }
        let (clocks, cpus, spans) = (clocks(self.traces), to.piece(&cpus.bytes())?, None);
        let checkpoints = keeper.checkpoints;
        Ok(StatesHead { clocks, cpus, checkpoints, pyramid, pictures, latencies, wakes, statistics, spans })
    }

    fn summing(&self) -> Result<Summing, Error> {
        let (calls, recorders) = (Calls::new(&self.classes.vocabulary), recorders(self.traces));
        let devices = self.classes.list.iter().position(|class| class.name == DEVICES);
        let statistics = StatisticsMaker::start(self.traces, self.classes)?;
        Ok(Summing::new(calls, recorders, devices, statistics)?)
    }

    /// Whether the reader passed a record that tells of a block device; `devices`: the class of these.
    #[inline]
    fn is_of_device(&self, devices: Option<usize>, passed: &Passed) -> bool {
        match *passed {
            Passed::Record { trace, event, .. } if devices.is_some() => self.classes.at(trace, event) == devices,
            _ => false,
        }
    }

    /// Takes a record. Its time, ns.
    #[inline]
    fn take(&self, stream: usize, record: &Glance<'_>, walker: &mut Walker<'_>, sums: &mut Summing) -> i64 {
        walker.glance_after(stream, record, sums, |head, state, sums| {
            sums.statistics.record((stream, head), record, self.classes, state);
        })
    }

    /// Takes the loss that the reader passed last. Its end, ns.
    #[cold]
    fn lose(
        &self,
        reader: &mut Reader<'_>,
        walker: &mut Walker<'_>,
        counted: &mut [Option<Counted>],
        (sums, losses): (&mut Summing, &mut Vec<OrderedLoss>),
    ) -> i64 {
        let stream = reader.stream().unwrap_or_default();
        let Some(Item::Loss(loss)) = reader.current() else { return 0 };
        if let Some(of) = counted.get_mut(stream).and_then(Option::as_mut) {
            of.account.loss(loss.records, loss.packets, (loss.from_cycles, loss.to_cycles));
        }
        let at = LossAt::of(&loss);
        if losses.len() <= LOSSES_MAX {
            losses.push((loss.from_cycles, stream as u32, at));
        }
        walker.loss(stream, &loss, sums);
        sums.note(at.from);
        sums.lose(at);
        at.to
    }
}

/// Writes who wrote the records of streams that are not read for states. `None`: nothing can be said.
fn written_piece(
    written: Option<WrittenTaker<'_>>,
    counted: &[Counted],
    is_read: &[bool],
    to: &mut Writer<'_>,
) -> Result<Option<Piece>, Error> {
    let is_unread: Vec<bool> = is_read.iter().map(|is_read| !is_read).collect();
    let is_damaged = counted.iter().zip(&is_unread).any(|(of, unread)| *unread && of.damaged > 0);
    let written = written.filter(|_| !is_damaged);
    let programs = written.and_then(|written| put_streams(&written.finish(&is_unread)?));
    Ok(programs.map(|bytes| to.piece(&bytes)).transpose()?)
}

/// Takes the name of a block device from the record that the reader passed last.
#[cold]
fn learn_device(reader: &mut Reader<'_>, sums: &mut Summing) {
    if let Some(Item::Record(record)) = reader.current() {
        device_of(&record).into_iter().for_each(|device| sums.device(device));
    }
}

/// Writes packets and summaries of all streams of a trace.
fn streams(trace: &Trace, counted: Vec<Counted>, to: &mut Writer<'_>) -> Result<StreamsHead, Error> {
    let (events, count) = (trace.metadata.events.len(), counted.len());
    let mut counts = Vec::with_capacity(count);
    let mut all = Buckets::new(events + 2 * count);
    let mut fine = Vec::with_capacity(count);
    for (stream, of) in counted.into_iter().enumerate() {
        let entries = to.piece(&put_entries(&of.account.entries))?;
        counts.push(StreamCounts::of(&of.account, of.damaged, entries));
        all.merge(of.account.buckets, |row| match row {
            _ if row == events => [Some(events + count + stream), None],
            _ => [Some(row), Some(events + stream)],
        });
        fine.push(of.account.fine);
    }
    let fine = FineCounts::all(fine.into_iter()).filter(|fine| fine.shift < all.shift);
    let mut put = Put::default();
    fine.iter().for_each(|fine| fine.put(&mut put));
    let fine = fine.map(|_| to.piece(&put.0)).transpose()?;
    Ok(StreamsHead { counts, levels: levels(all, to)?, fine, fields: None })
}

/// Ever coarser ones.
fn levels(mut buckets: Buckets, to: &mut Writer<'_>) -> Result<Vec<Piece>, Error> {
    let mut pieces = Vec::new();
    loop {
        let mut put = Put::default();
        buckets.put(&mut put);
        pieces.push(to.piece(&put.0)?);
        if buckets.columns() <= COLUMNS_MIN {
            return Ok(pieces);
        }
        (0..FOLDS).for_each(|_| buckets.fold());
    }
}
