// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk through all records in the order of time, which moves a state.

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::{Event, Head, Name, Sink, State, Writer};
use kymo_ctf::read::{Glance, Item, Loss, Reader, Record};

use crate::classes::{Classes, clamp, tells_of_writer};
use crate::missing::Missing;
use crate::moves::{LossAt, Move};

/// Items between two questions whether a walk goes on.
const ASK_EVERY: u32 = 4096;

/// One record on its way to the findings.
pub struct Seen<'r, 'a> {
    /// As the reader has it.
    pub record: &'r Record<'a>,
    /// Position of its class.
    pub class: usize,
    /// Where and when.
    pub head: Head,
    /// It is asked for.
    pub is_selected: bool,
}

impl Seen<'_, '_> {
    /// Who wrote it: what it says itself, and for records of a kernel the thread that runs on its CPU.
    pub fn writer(&self, state: &State) -> Writer {
        let record = self.record;
        if let Some(writer) = own_writer(record).filter(|_| self.head.tid.is_none()) {
            return writer;
        }
        let running = record.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread());
        let tid = self.head.tid.or(running);
        let thread = tid.and_then(|tid| state.thread(tid));
        let name = if tid == Some(0) { Name::new("swapper") } else { thread.map(|t| t.name).unwrap_or_default() };
        Writer { process: thread.and_then(|thread| thread.process), tid, name, cpu: record.cpu, ..Writer::default() }
    }
}

/// Who wrote a record, where it says that itself.
pub fn own_writer(record: &Record<'_>) -> Option<Writer> {
    if record.vpid.is_none() && record.vtid.is_none() {
        return None;
    }
    let own = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok());
    let (process, tid, name) = (own(record.vpid), own(record.vtid), Name::new(record.procname));
    Some(Writer { process, tid, name, cpu: record.cpu, ..Writer::default() })
}

/// Who takes records beside spans.
pub trait Visit: Sink {
    /// Whether records of a class are looked at: it is the same during a walk. Where few are, [`Walker::go`] is
    /// quicker, and shows no others.
    fn looks_at(&self, _class: usize) -> bool {
        true
    }

    /// Stretches of time of which records of every class are looked at beside these, ns, with both ends. They are the
    /// same during a walk, too.
    fn looks_within(&self) -> Vec<(i64, i64)> {
        Vec::new()
    }

    /// A record, before the state moves by it.
    fn record(&mut self, _seen: &Seen<'_, '_>, _state: &State) {}

    /// Records are missing, of a kernel or of a program; [`Sink::lost`] tells of those of a kernel only.
    fn loss(&mut self, _loss: &LossAt) {}

    /// Whether it has all that it will keep: what comes now need not be read. [`Walker::go_while`] and
    /// [`Walker::follow_while`] ask every few thousand items.
    fn is_enough(&self) -> bool {
        false
    }
}

impl Visit for () {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

/// Which records are asked for, among all that move the state.
pub trait Choose {
    /// Begins with the state in front of the first record that comes.
    fn begin(&mut self, _state: &State) {}

    /// Whether a record is asked for. Gets all of them, in the order of time, and leaves them as they are.
    fn selects<'a>(&'a mut self, _record: &mut Record<'a>) -> bool {
        true
    }

    /// Records are missing.
    fn lost(&mut self, _loss: &Loss<'_>) {}

    /// Every record is asked for, and none of them, nor a loss, need be shown to it.
    fn is_all(&self) -> bool {
        false
    }
}

/// All of them.
impl Choose for () {
    fn is_all(&self) -> bool {
        true
    }
}

/// What there was beside records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Those that are asked for.
    pub selected: u64,
    /// Time of the first and of the last of these, ns.
    pub selected_span: Option<(i64, i64)>,
    /// What was lost.
    pub lost: Missing,
    /// Time of the first record and of the last, ns.
    pub span: Option<(i64, i64)>,
}

/// Goes through all records in the order of time.
pub fn walk(reader: &mut Reader<'_>, classes: &Classes, visit: &mut impl Visit) -> (State, Totals) {
    let mut walker = Walker::new(classes);
    walker.go(reader, &mut (), visit);
    walker.state.finish(None, visit);
    (walker.state, walker.totals)
}

/// A state on its way through the records of traces.
pub struct Walker<'c> {
    /// As of the last item.
    pub state: State,
    /// Of what was passed.
    pub totals: Totals,
    pub(crate) classes: &'c Classes,
    /// By stream: which have had records of a kernel.
    streams: Vec<Origin>,
    /// Losses that begin before this have been told of already.
    losses_from: i64,
}

/// Whose records a stream has: a loss in one that is not of a kernel does not touch its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Unknown,
    Kernel,
    Other,
}

impl<'c> Walker<'c> {
    /// In front of the first record.
    pub fn new(classes: &'c Classes) -> Walker<'c> {
        Walker {
            state: State::new(&classes.vocabulary),
            totals: Totals::default(),
            classes,
            streams: Vec::new(),
            losses_from: i64::MIN,
        }
    }

    /// Goes on with records from `from` on: totals begin anew, and losses that touch `from` are counted, but the state
    /// has them.
    pub fn begin_range(&mut self, from: i64) {
        (self.totals, self.losses_from) = (Totals::default(), from);
    }

    /// Takes all that the reader has: where all records are asked for, and few are looked at, on two threads.
    pub fn go(&mut self, reader: &mut Reader<'_>, choose: &mut impl Choose, visit: &mut impl Visit) {
        choose.begin(&self.state);
        if choose.is_all() && (0..self.classes.list.len()).any(|class| !visit.looks_at(class)) {
            return self.follow(reader, visit);
        }
        while reader.pass().is_some() {
            self.step(reader, choose, visit);
        }
    }

    /// The same, as long as `goes_on` says so, which is asked every few thousand items. Whether it came to the end, or
    /// to where the visitor has enough.
    pub fn go_while(
        &mut self,
        reader: &mut Reader<'_>,
        choose: &mut impl Choose,
        visit: &mut impl Visit,
        goes_on: &dyn Fn() -> bool,
    ) -> bool {
        choose.begin(&self.state);
        let mut passed = 0u32;
        while reader.pass().is_some() {
            self.step(reader, choose, visit);
            passed = passed.wrapping_add(1);
            if passed % ASK_EVERY != 0 {
                continue;
            }
            if visit.is_enough() {
                return true;
            }
            if !goes_on() {
                return false;
            }
        }
        true
    }

    /// Takes what the reader passed last.
    #[inline]
    pub fn step(&mut self, reader: &mut Reader<'_>, choose: &mut impl Choose, visit: &mut impl Visit) {
        let stream = reader.stream().unwrap_or_default();
        match reader.current() {
            Some(Item::Record(mut record)) => {
                let is_selected = choose.selects(&mut record);
                self.record(stream, &record, is_selected, visit);
            }
            Some(Item::Loss(loss)) => {
                choose.lost(&loss);
                self.loss(stream, &loss, visit);
            }
            None => {}
        }
    }

    /// Moves the state by a record of this stream, and shows it to the visitor first.
    #[inline]
    pub fn record(&mut self, stream: usize, record: &Record<'_>, is_selected: bool, visit: &mut impl Visit) {
        let class = self.classes.of(record);
        let known = &self.classes.known[class];
        let fields = record.fields().unwrap_or_default();
        let head = Head { time: clamp(record.ns), cpu: record.cpu, tid: known.tid_of(fields, record) };
        self.totals.note(head.time, is_selected);
        let event = known.event_of(fields, record);
        self.note(stream, known.is_of_kernel());
        visit.record(&Seen { record, class, head, is_selected }, &self.state);
        if event.is_some() || tells_of_writer(&head, record.stream) {
            self.apply(&head, event.as_ref(), visit);
        }
    }

    /// The same for a record that only the state looks at: no totals are kept. Its time.
    #[inline]
    pub fn glance(&mut self, stream: usize, record: &Glance<'_>, sink: &mut impl Sink) -> i64 {
        self.take(stream, &self.classes.moved(record), sink);
        clamp(record.ns)
    }

    /// The same. `before` is shown where and when it was written, and the state before that moves.
    #[inline]
    pub fn glance_after<S: Sink>(
        &mut self,
        stream: usize,
        record: &Glance<'_>,
        sink: &mut S,
        before: impl FnOnce(&Head, &State, &mut S),
    ) -> i64 {
        let of = self.classes.moved(record);
        match &of {
            Move::Record(head, _) => before(head, &self.state, sink),
            _ => before(&self.classes.head(record), &self.state, sink),
        }
        self.take(stream, &of, sink);
        clamp(record.ns)
    }

    /// Moves the state.
    #[inline]
    pub(crate) fn take(&mut self, stream: usize, of: &Move, sink: &mut impl Sink) {
        match of {
            Move::Record(head, event) => {
                self.note(stream, true);
                self.apply(head, event.as_ref(), sink);
            }
            Move::Nothing(of_kernel) => self.note(stream, *of_kernel),
            Move::Loss(loss) => self.lose(stream, loss, sink),
        }
    }

    /// Without an event it is only known that the writer ran.
    #[inline]
    fn apply(&mut self, head: &Head, event: Option<&Event>, sink: &mut impl Sink) {
        match event {
            Some(event) => self.state.apply(head, event, sink),
            None => self.state.pass(head, sink),
        }
    }

    /// Counts lost records of this stream, and moves the state over those of the kernel.
    pub fn loss(&mut self, stream: usize, loss: &Loss<'_>, visit: &mut impl Visit) {
        self.totals.lost.add_loss(loss);
        let at = LossAt::of(loss);
        visit.loss(&at);
        self.lose(stream, &at, visit);
    }

    fn lose(&mut self, stream: usize, loss: &LossAt, sink: &mut impl Sink) {
        let is_of_kernel = match self.streams.get(stream).copied().unwrap_or_default() {
            Origin::Kernel => true,
            Origin::Other => false,
            // Those that have had no record yet may be.
            Origin::Unknown => loss.process.is_none(),
        };
        if is_of_kernel && loss.from >= self.losses_from {
            self.state.lost(loss.cpu, loss.from, loss.to, sink);
        }
    }

    #[inline]
    fn note(&mut self, stream: usize, of_kernel: bool) {
        if self.streams.len() <= stream {
            self.streams.resize(stream + 1, Origin::Unknown);
        }
        match (&mut self.streams[stream], of_kernel) {
            (Origin::Kernel, _) | (Origin::Other, false) => {}
            (origin, true) => *origin = Origin::Kernel,
            (origin, false) => *origin = Origin::Other,
        }
    }

    /// What a reader needs to go on from here, but for its place.
    pub fn encode(&self, put: &mut Put) {
        put.number(self.streams.len() as u64);
        self.streams.iter().for_each(|origin| put.byte(*origin as u8));
        put.0.extend(self.state.encode());
    }

    /// The same again.
    pub fn decode(mut take: Take<'_>, classes: &'c Classes) -> Option<Walker<'c>> {
        let mut walker = Walker::new(classes);
        for _ in 0..take.count()? {
            walker.streams.push(match take.byte()? {
                0 => Origin::Unknown,
                1 => Origin::Kernel,
                2 => Origin::Other,
                _ => return None,
            });
        }
        walker.state = State::decode(take.0, &classes.vocabulary)?;
        Some(walker)
    }
}

impl Totals {
    /// Adds those of another part.
    pub(crate) fn add(&mut self, part: &Totals) {
        let both = |a: Option<(i64, i64)>, b: Option<(i64, i64)>| match (a, b) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.records += part.records;
        self.selected += part.selected;
        self.lost.add_all(&part.lost);
        self.span = both(self.span, part.span);
        self.selected_span = both(self.selected_span, part.selected_span);
    }

    pub(crate) fn note(&mut self, time: i64, is_selected: bool) {
        let wider = |span: Option<(i64, i64)>| {
            Some(span.map_or((time, time), |(first, last)| (first.min(time), last.max(time))))
        };
        self.records += 1;
        self.span = wider(self.span);
        if is_selected {
            self.selected += 1;
            self.selected_span = wider(self.selected_span);
        }
    }

    /// Seconds from the first record to the last.
    pub fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| last.abs_diff(first) as f64 / 1e9)
    }
}
