// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of all streams in the order of time.

use super::batch::Batch;
use super::clock::{Clock, Seconds};
use super::error::Caveat;
use super::glance::Glance;
use super::item::{Extent, Item, Loss, Record};
use super::queue::Queue;
use super::stream::{Lost, Next, PacketMark, PacketPlace, Stream, Until};
use super::trace::{Trace, is_one_clock};
use super::watch::Watch;

/// Goes through the records of one or more traces in the order of time.
pub struct Reader<'t> {
    streams: Vec<MergedStream<'t>>,
    /// What comes next in all streams but the current one.
    waiting: Queue,
    /// The stream whose item was given last; it moves on when the next one is asked for.
    current: Option<usize>,
    /// Cycles alone give the order.
    is_one_clock: bool,
    /// Is told of the pass.
    watch: Option<&'t dyn Watch>,
}

/// What [`Reader::pass`] passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A record.
    Record {
        /// Position of its trace among those given to [`Reader::new`].
        trace: usize,
        /// Position of its type in [`super::Metadata::events`].
        event: usize,
        /// The full value of the clock.
        cycles: u64,
    },
    /// A loss.
    Loss {
        /// Records lost.
        records: u64,
        /// Whole packets that are missing: how many records were in them may not be known.
        packets: u64,
    },
}

/// Which items a [`Reader`] gives: a record by its time, a loss where it touches the range. A stream is over with its
/// first item behind the range. Of damage, only what is met in the range is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// From this time on, in nanoseconds as [`Record::ns`].
    pub from_ns: Option<i128>,
    /// Before this time.
    pub to_ns: Option<i128>,
}

/// Where a [`Reader`] begins with a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the first item.
    #[default]
    Begin,
    /// At an item.
    At(PacketPlace),
    /// Not at all: without its items.
    Skip,
}

struct MergedStream<'t> {
    stream: Stream<'t>,
    trace: usize,
    seconds: Seconds<'t>,
    /// Class of the stream's last packet, whose clock `seconds` counts by.
    class: usize,
    /// A loss that is the stream's next item; otherwise that is the record in the stream's buffer.
    lost: Option<Lost>,
    range: Range,
    /// The range in cycles of the class's clock: the first, and the first behind.
    from: u64,
    to: Option<u64>,
    is_over: bool,
    /// Of a slice.
    cuts: Option<Cuts>,
}

/// Between which places in the order of a merge the items of a slice lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts {
    /// The cut in front, which the stream has passed.
    pub from: u64,
    pub is_inside: bool,
    /// The cut behind.
    pub to: Option<u64>,
}

impl<'t> Reader<'t> {
    /// At the first record of `traces`, which are merged by time.
    pub fn new(traces: &'t [Trace]) -> Self {
        let whole = Self::between(traces, Range::default(), &[]);
        whole.unwrap_or(Self::of_nothing(true))
    }

    /// At the first record of `traces` in `range`. `starts`: for each stream of the first trace, then of the second,
    /// and so on, where to begin; without one at its first item, and what lies before the range is passed over. `None`
    /// where a stream has no such place.
    pub fn between(traces: &'t [Trace], range: Range, starts: &[Start]) -> Option<Self> {
        let is_one_clock = is_one_clock(traces);
        let mut reader = Self::of_nothing(is_one_clock);
        reader.begin_pass(traces, range, starts);
        for (index, trace) in traces.iter().enumerate() {
            for (name, content) in &trace.streams {
                let start = starts.get(reader.streams.len()).copied().unwrap_or_default();
                let mut stream = Stream::new(&trace.metadata, &trace.layout, name, content);
                stream.watch = trace.watcher();
                if matches!(start, Start::At(place) if !stream.go_to_place(&place)) {
                    return None;
                }
                let mut source = MergedStream::new(trace, index, stream, range);
                source.is_over = start == Start::Skip;
                if let Some((ns, cycles)) = source.advance(is_one_clock) {
                    reader.waiting.push((ns, cycles, reader.streams.len()));
                }
                reader.streams.push(source);
            }
        }
        Some(reader)
    }

    pub(super) fn of_nothing(is_one_clock: bool) -> Self {
        Self { streams: Vec::new(), waiting: Queue::new(is_one_clock), current: None, is_one_clock, watch: None }
    }

    /// Adds a stream of a slice; without cuts it has nothing there. All streams have one clock.
    pub(super) fn add_between_cuts(&mut self, trace: (&'t Trace, usize), stream: Stream<'t>, cuts: Option<Cuts>) {
        let mut source = MergedStream::new(trace.0, trace.1, stream, Range::default());
        (source.is_over, source.cuts) = (cuts.is_none(), cuts);
        if let Some((ns, cycles)) = source.advance(true) {
            self.waiting.push((ns, cycles, self.streams.len()));
        }
        self.streams.push(source);
    }

    /// Tells who watches what is to be read. Where a range ends in a stream is not known before.
    fn begin_pass(&mut self, traces: &'t [Trace], range: Range, starts: &[Start]) {
        self.watch = traces.iter().find_map(Trace::watcher);
        let Some(watch) = self.watch else { return };
        let sizes = traces.iter().flat_map(|trace| &trace.streams).map(|(_, content)| content.len() as u64);
        let starts = starts.iter().copied().chain(std::iter::repeat(Start::Begin));
        let left = sizes.zip(starts).map(|(size, start)| match start {
            Start::Begin => size,
            Start::At(place) => size.saturating_sub(place.packet.offset),
            Start::Skip => 0,
        });
        watch.begin(range.to_ns.is_none().then(|| left.sum()));
    }

    /// What was given or passed last.
    #[inline]
    pub fn current(&mut self) -> Option<Item<'_>> {
        let index = self.current?;
        Some(self.streams[index].item())
    }

    /// What was given or passed last, if it is a record, for who looks at few of its fields.
    #[inline]
    pub fn glance(&mut self) -> Option<Glance<'_>> {
        let source = &mut self.streams[self.current?];
        if source.lost.is_some() {
            return None;
        }
        let ns = source.seconds.nanoseconds(source.stream.time);
        let stream = &source.stream;
        Some(Glance::new(source.trace, stream.event, ns, &stream.facts, &stream.decoder.frame))
    }

    /// The stream of what was given or passed last: its position among all streams of all traces.
    #[inline]
    pub fn stream(&self) -> Option<usize> {
        self.current
    }

    /// By which time what was given or passed last stands among the items of other streams, ns and cycles: its own,
    /// unless its packets say otherwise.
    pub fn standing(&mut self) -> Option<(i128, u64)> {
        let source = &mut self.streams[self.current?];
        let cycles = source.lost.map_or(source.stream.order, |lost| lost.from);
        Some((source.seconds.nanoseconds(cycles), cycles))
    }

    /// The packet of what was given or passed last.
    #[inline]
    pub fn packet_mark(&self) -> Option<&PacketMark> {
        self.current.map(|index| self.streams[index].stream.packet_mark())
    }

    /// For each stream the place of what it gives next; what was given or passed last is given again from there.
    pub fn places(&self) -> Vec<PacketPlace> {
        let place = |source: &MergedStream<'_>| match source.is_over {
            true => source.stream.end(),
            false => source.stream.place_of_current(),
        };
        self.streams.iter().map(place).collect()
    }

    /// The next record or loss; `None` at the end of all streams.
    #[expect(clippy::should_implement_trait, reason = "an item borrows the reader, which an Iterator cannot say")]
    #[inline]
    pub fn next(&mut self) -> Option<Item<'_>> {
        let index = self.choose()?;
        Some(self.streams[index].item())
    }

    /// Goes on like [`Reader::next`], for who may not want to look: [`Reader::keep`] takes what was passed.
    #[inline]
    pub fn pass(&mut self) -> Option<Passed> {
        let index = self.choose()?;
        let source = &self.streams[index];
        Some(match source.lost {
            None => Passed::Record { trace: source.trace, event: source.stream.event, cycles: source.stream.time },
            Some(lost) => Passed::Loss { records: lost.records, packets: lost.packets },
        })
    }

    /// Moves the current stream on; the stream that comes next then.
    #[inline]
    fn choose(&mut self) -> Option<usize> {
        if let Some(index) = self.current.take() {
            if let Some((ns, cycles)) = self.streams[index].advance(self.is_one_clock) {
                self.current = Some(self.waiting.exchange((ns, cycles, index)));
                return self.current;
            }
        }
        self.current = self.waiting.pop();
        if self.current.is_none() {
            self.end_pass();
        }
        self.current
    }

    /// Tells who watches that no more is read; at the end of all streams it is told without this.
    #[cold]
    pub fn end_pass(&self) {
        self.watch.iter().for_each(|watch| watch.end());
    }

    /// Passes over records behind what was given or passed last, in the same packet, as long as they are plain: faster
    /// than one by one, and at most `records`. `note` gets of each its event, its time in ns (0 without `has_times`),
    /// and its bytes as [`Glance::fields`] has them: one whose fields begin within a byte is not passed over. Does
    /// nothing where several streams are read, whose records come in between.
    #[inline]
    pub fn pass_fields(&mut self, records: u64, has_times: bool, mut note: impl FnMut(usize, i128, &'t [u8])) {
        let Some(source) = self.current.map(|index| &mut self.streams[index]) else { return };
        if !self.waiting.is_empty() || source.cuts.is_some() || source.lost.is_some() {
            return;
        }
        let (from, data, seconds) = (source.from, source.stream.data, &mut source.seconds);
        let until = Until { time: source.to.unwrap_or(u64::MAX), whole_bytes: true, records, ..Until::END };
        source.stream.pass_fields(until, |event, time, at| {
            if time >= from {
                let ns = if has_times { seconds.nanoseconds(time) } else { 0 };
                note(event, ns, data.get((at / 8) as usize..).unwrap_or_default());
            }
        });
    }

    /// Puts a copy of what was given or passed last at the end of `batch`. Its time, in nanoseconds.
    #[inline]
    pub fn keep(&mut self, batch: &mut Batch<'t>) -> i128 {
        let Some(source) = self.current.map(|index| &mut self.streams[index]) else { return 0 };
        let stream = &source.stream;
        match source.lost {
            None => {
                let ns = source.seconds.nanoseconds(stream.time);
                let extent = Extent { cycles: stream.time, ns, bits: stream.bits };
                batch.push_record(source.trace, &stream.facts, &stream.decoder.frame, stream.event, extent);
                ns
            }
            Some(lost) => {
                let times = [lost.from, lost.to].map(|cycles| source.seconds.nanoseconds(cycles));
                batch.push_loss(source.trace, &stream.facts, lost, times);
                times[0]
            }
        }
    }

    /// What was wrong so far, file by file in the order of each file: position of the trace among those given to
    /// [`Reader::new`], and the caveat.
    pub fn caveats(&self) -> impl Iterator<Item = (usize, &Caveat)> {
        self.streams.iter().flat_map(|source| source.stream.caveats.listed.iter().map(|caveat| (source.trace, caveat)))
    }

    /// How much was wrong so far in one stream: of the position that [`Reader::stream`] tells.
    pub fn caveat_count_of(&self, stream: usize) -> u64 {
        self.streams.get(stream).map_or(0, |source| source.stream.caveats.count())
    }

    /// How much of it is damage: something could not be read. The rest are times that do not fit each other.
    pub fn damage_count(&self) -> u64 {
        self.streams.iter().map(|source| source.stream.caveats.damaged).sum()
    }

    /// How much was wrong so far, more than [`Reader::caveats`] lists where a file has very many.
    pub fn caveat_count(&self) -> u64 {
        self.streams.iter().map(|source| source.stream.caveats.count()).sum()
    }
}

impl<'t> MergedStream<'t> {
    fn new(trace: &'t Trace, index: usize, stream: Stream<'t>, range: Range) -> Self {
        let class = stream.class;
        let seconds = Seconds::new(clock(trace, class));
        let (from, to, is_over, cuts) = (0, None, false, None);
        let mut source = Self { stream, trace: index, seconds, class, lost: None, range, from, to, is_over, cuts };
        source.set_clock(clock(trace, class));
        source
    }

    /// Counts by a clock from now on.
    #[cold]
    fn set_clock(&mut self, clock: &'t Clock) {
        self.seconds = Seconds::new(clock);
        self.from = self.range.from_ns.map_or(0, |ns| clock.cycles_from(ns).unwrap_or(u64::MAX));
        self.to = self.range.to_ns.and_then(|ns| clock.cycles_from(ns));
        self.stream.quiet_before = self.from;
    }

    /// Moves on; the time of what comes next: nanoseconds unless `is_one_clock`, and cycles.
    #[inline]
    fn advance(&mut self, is_one_clock: bool) -> Option<(i128, u64)> {
        if let Some(cuts) = self.cuts {
            return self.advance_between(cuts);
        }
        let cycles = loop {
            if self.is_over {
                return None;
            }
            self.lost = None;
            let (cycles, times) = match self.stream.advance() {
                Next::End => {
                    self.is_over = true;
                    return None;
                }
                Next::Record => (self.stream.order, [self.stream.time; 2]),
                Next::Lost(lost) => {
                    self.lost = Some(lost);
                    (lost.from, [lost.from, lost.to])
                }
            };
            self.follow_class();
            if self.to.is_some_and(|to| cycles >= to) {
                self.is_over = true;
                return None;
            }
            let [from, until] = times;
            if until >= self.from && self.to.is_none_or(|to| from < to) {
                break cycles;
            }
            // What lies in front of the range is passed over: nothing is wanted of it.
            self.stream.pass_plain(Until { time: self.from, ..Until::END }, |_, _| {});
        };
        let ns = if is_one_clock { 0 } else { self.seconds.nanoseconds(cycles) };
        Some((ns, cycles))
    }

    /// The same in a slice: it begins and ends with the first item that stands at a cut or behind it.
    #[inline]
    fn advance_between(&mut self, cuts: Cuts) -> Option<(i128, u64)> {
        let mut is_inside = cuts.is_inside;
        while !self.is_over {
            self.lost = None;
            // What is in front of the slice is passed over: nothing is wanted of it.
            let until = Until { time: cuts.from, ..Until::END };
            if !is_inside && self.stream.pass_plain(until, |_, _| {}) {
                self.stream.forget_caveats();
            }
            let order = match self.stream.advance() {
                Next::End => break,
                Next::Record => self.stream.order,
                Next::Lost(lost) => {
                    self.lost = Some(lost);
                    lost.from
                }
            };
            self.follow_class();
            if !is_inside && order < cuts.from {
                self.stream.forget_caveats();
                continue;
            }
            is_inside = true;
            if cuts.to.is_some_and(|to| order >= to) {
                self.is_over = true;
                self.stream.end_slice();
                return None;
            }
            self.stream.take_held();
            self.cuts = Some(Cuts { is_inside, ..cuts });
            return Some((0, order));
        }
        if !std::mem::replace(&mut self.is_over, true) {
            self.stream.end_slice();
            match is_inside {
                true => self.stream.take_held(),
                false => self.stream.forget_caveats(),
            }
        }
        None
    }

    /// Counts by the clock of the stream's class.
    #[inline]
    fn follow_class(&mut self) {
        if self.class != self.stream.class {
            self.class = self.stream.class;
            self.set_clock(&self.stream.metadata.clocks[self.stream.stream_class().clock]);
        }
    }

    #[inline]
    fn item(&mut self) -> Item<'_> {
        match self.lost {
            None => {
                let cycles = self.stream.time;
                let ns = self.seconds.nanoseconds(cycles);
                let stream = &self.stream;
                let extent = Extent { cycles, ns, bits: stream.bits };
                Item::Record(Record::new(self.trace, &stream.facts, &stream.decoder.frame, stream.event, extent))
            }
            Some(lost) => Item::Loss(self.loss(lost)),
        }
    }

    fn loss(&mut self, lost: Lost) -> Loss<'_> {
        let times = [lost.from, lost.to].map(|cycles| self.seconds.nanoseconds(cycles));
        Loss::new(self.trace, &self.stream.facts, lost, times)
    }
}

/// There is always a clock; `finish` of the builder sees to it.
fn clock(trace: &Trace, class: usize) -> &Clock {
    &trace.metadata.clocks[trace.metadata.streams[class].clock]
}
