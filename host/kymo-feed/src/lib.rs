// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of traces, as kymo-analyze takes them: classes described, times as i64, losses told. Everything that moves a
//! state by a trace goes through [`Walker`], so that a checkpoint is the state that a reader from the start would have.
//!
//! Opens no file: who walks brings a reader. What is done with the state is for the visitor.

mod missing;

use std::borrow::Cow;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::{Class, Event, Field, Head, Interrupt, Kind, Name, Plan, Sink, State, Vocabulary, Writer};
use kymo_ctf::read::{
    Direct, FieldInfo, FieldKind, Fields, Glance, Item, Lens, Loss, Number, Reader, Record, RecordPart, Trace, Value,
};
use kymo_ctf::write::EnvValue;

pub use missing::Missing;

/// Flags of the kernel's header of a record: in an interrupt or NMI, in a softirq.
const IN_HARD_IRQ: i128 = 0x48;
const IN_SOFTIRQ: i128 = 0x10;

/// Items between two questions whether a walk goes on.
const ASK_EVERY: u32 = 4096;

/// A class of the traces.
struct Known {
    plan: Option<Plan>,
    /// Where the contexts have the kernel's number of the thread; a program's own number is no use here.
    tid: Option<Sight>,
    /// The flags of the kernel's header of a record.
    flags: Option<Sight>,
    /// The payload's fields, by position; none where there is no plan.
    fields: Vec<Sight>,
    /// A sample: its time is not as exact as that of records, and its losses are of no others.
    is_sample: bool,
}

/// Where a field is, twice: most of them lie in the same place in all records.
struct Sight {
    direct: Option<Direct>,
    lens: Lens,
}

impl Sight {
    fn new(lens: Lens) -> Sight {
        Sight { direct: lens.direct(), lens }
    }

    /// A plain integer. `fields`: the record's bytes.
    #[inline]
    fn integer(&self, fields: &[u8], record: &impl Look) -> Option<i128> {
        let direct = self.direct.and_then(|direct| direct.read(fields)).map(i128::from);
        if direct.is_some() { direct } else { far_integer(record, &self.lens) }
    }
}

/// The slow way.
#[inline(never)]
fn far_integer(record: &impl Look, lens: &Lens) -> Option<i128> {
    record.integer(lens).or_else(|| integer(&record.value(lens)?))
}

impl Known {
    fn new(trace: &Trace, event: usize, plan: Option<Plan>, fields: usize) -> Known {
        let contexts = trace.metadata.contexts(event);
        let of_name = |name: &str| contexts.iter().find(|field| field.name == name).map(|field| field.position);
        let (tid, flags) = (of_name("tid"), of_name("irq_flags"));
        let sight = |part, position| Sight::new(trace.lens(event, part, position));
        let fields = if plan.is_some() { 0..fields } else { 0..0 };
        // perf's own field in front of those of the event.
        let of_perf = || {
            let members = trace.metadata.fields(&trace.metadata.events[event]);
            let position = members.iter().find(|field| field.name == "perf_tid")?.position;
            Some(sight(RecordPart::Payload, position))
        };
        Known {
            plan,
            tid: tid.map(|position| sight(RecordPart::CommonContext, position)).or_else(of_perf),
            flags: flags.map(|position| sight(RecordPart::CommonContext, position)),
            fields: fields.map(|position| sight(RecordPart::Payload, position)).collect(),
            is_sample: trace.metadata.events.get(event).is_some_and(|event| event.name == SAMPLE),
        }
    }

    /// The thread that a record names as the one that wrote it.
    #[inline]
    fn tid_of(&self, fields: &[u8], record: &impl Look) -> Option<i32> {
        let is_dump = self.plan.is_some_and(|plan| plan.is_dump());
        let sight = self.tid.as_ref().filter(|_| !is_dump)?;
        if let Some(number) = sight.direct.and_then(|direct| direct.read(fields)) {
            return i32::try_from(i128::from(number)).ok();
        }
        match record.value(&sight.lens)? {
            Value::Int(number, _) => i32::try_from(i128::from(number)).ok(),
            _ => None,
        }
    }

    /// What a record says of the state.
    #[inline]
    fn event_of(&self, bytes: &[u8], record: &impl Look) -> Option<Event> {
        let event = self.plan.as_ref()?.decode(&Sights { record, bytes, fields: &self.fields })?;
        let Event::Wake { step, tid, name, prio, cpu, .. } = event else { return Some(event) };
        Some(Event::Wake { step, tid, name, prio, cpu, within: self.within(bytes, record) })
    }

    /// In what a record says that it was written.
    #[inline]
    fn within(&self, bytes: &[u8], record: &impl Look) -> Option<Interrupt> {
        let flags = self.flags.as_ref()?.integer(bytes, record)?;
        match (flags & IN_HARD_IRQ != 0, flags & IN_SOFTIRQ != 0) {
            (true, _) => Some(Interrupt::Hard),
            (false, true) => Some(Interrupt::Soft),
            (false, false) => None,
        }
    }

    fn is_of_kernel(&self) -> bool {
        self.plan.is_some() || (self.tid.is_some() && !self.is_sample)
    }
}

/// What lenses look at.
trait Look {
    /// A plain integer.
    fn integer(&self, lens: &Lens) -> Option<i128>;
    /// Bytes of plain text, and what is behind it in its field.
    fn text(&self, lens: &Lens) -> Option<&[u8]>;
    /// Whatever it is.
    fn value(&self, lens: &Lens) -> Option<Value<'_>>;
}

impl Look for Record<'_> {
    #[inline]
    fn integer(&self, lens: &Lens) -> Option<i128> {
        lens.integer(self)
    }

    #[inline]
    fn text(&self, lens: &Lens) -> Option<&[u8]> {
        lens.text(self)
    }

    fn value(&self, lens: &Lens) -> Option<Value<'_>> {
        lens.value(self)
    }
}

impl Look for Glance<'_> {
    #[inline]
    fn integer(&self, lens: &Lens) -> Option<i128> {
        Glance::integer(self, lens)
    }

    #[inline]
    fn text(&self, lens: &Lens) -> Option<&[u8]> {
        Glance::text(self, lens)
    }

    fn value(&self, lens: &Lens) -> Option<Value<'_>> {
        Glance::value(self, lens)
    }
}

/// The payload of a record, by lenses: what is plain is read where it lies.
struct Sights<'a, L> {
    record: &'a L,
    bytes: &'a [u8],
    fields: &'a [Sight],
}

impl<L: Look> kymo_analyze::Record for Sights<'_, L> {
    #[inline]
    fn integer(&self, position: usize) -> Option<i128> {
        self.fields.get(position)?.integer(self.bytes, self.record)
    }

    fn float(&self, position: usize) -> Option<f64> {
        float(&self.record.value(&self.fields.get(position)?.lens)?)
    }

    fn text(&self, position: usize) -> Option<Cow<'_, str>> {
        text(self.record.value(&self.fields.get(position)?.lens)?)
    }

    #[inline]
    fn name(&self, position: usize) -> Option<Name> {
        let plain = self.record.text(&self.fields.get(position)?.lens).and_then(Name::of_ascii);
        plain.or_else(|| self.text(position).map(|text| Name::new(&text)))
    }
}

/// All classes of the traces, one trace behind the other.
pub struct Classes {
    /// As they are described.
    pub list: Vec<Class>,
    /// What their names mean.
    pub vocabulary: Vocabulary,
    known: Vec<Known>,
    /// By trace: its first class.
    first: Vec<usize>,
}

impl Classes {
    /// Of these traces.
    pub fn new(traces: &[Trace]) -> Classes {
        let mut classes =
            Classes { list: Vec::new(), vocabulary: Vocabulary::new(), known: Vec::new(), first: Vec::new() };
        for trace in traces {
            classes.first.push(classes.list.len());
            let is_old = is_old_lttng(&trace.metadata.env);
            for (position, event) in trace.metadata.events.iter().enumerate() {
                let fields = trace.metadata.fields(event).into_iter().filter(|field| !field.is_length);
                let field = |field: FieldInfo<'_>| Field {
                    name: field.name.to_owned(),
                    kind: kind(&field.kind),
                    position: field.position,
                };
                let class = Class { name: event.name.clone(), fields: fields.map(field).collect() };
                let fields = class.fields.iter().map(|field| field.position + 1).max().unwrap_or(0);
                let plan = classes.vocabulary.learn(&class);
                let plan = plan.map(|plan| if is_old { plan.of_old_lttng() } else { plan });
                classes.known.push(Known::new(trace, position, plan, fields));
                classes.list.push(class);
            }
        }
        let clocks = traces.iter().flat_map(|trace| trace.metadata.clocks.iter().take(1));
        if clocks.map(|clock| clock.uuid).collect::<std::collections::HashSet<_>>().len() > 1 {
            classes.vocabulary.mix_clocks();
        }
        classes
    }

    /// What a record of a class says, where the state follows it.
    pub fn event(&self, class: usize, payload: &Payload<'_>) -> Option<Event> {
        self.known[class].plan.as_ref()?.decode(payload)
    }

    /// Moves a state by a record.
    pub fn apply(&self, record: &Record<'_>, state: &mut State) {
        let known = &self.known[self.of(record)];
        let fields = record.fields().unwrap_or_default();
        let head = Head { time: clamp(record.ns), cpu: record.cpu, tid: known.tid_of(fields, record) };
        match known.event_of(fields, record) {
            Some(event) => state.apply(&head, &event, &mut ()),
            None if head.tid.is_some() && is_by_writer(record.stream) => state.pass(&head, &mut ()),
            None => {}
        }
    }

    /// Which class a record is of.
    pub fn of(&self, record: &Record<'_>) -> usize {
        self.first[record.trace] + record.event_position
    }

    /// The class of an event of a trace.
    pub fn at(&self, trace: usize, event: usize) -> Option<usize> {
        let class = self.first.get(trace)? + event;
        let end = self.first.get(trace + 1).copied().unwrap_or(self.list.len());
        (class < end).then_some(class)
    }

    /// Whether a class is one that the state follows, such as a switch or a system call.
    pub fn is_followed(&self, class: usize) -> bool {
        self.known.get(class).is_some_and(|known| known.plan.is_some())
    }

    /// Whether records of an event of a trace can move a state.
    pub fn is_of_kernel(&self, trace: usize, event: usize) -> bool {
        self.known[self.first[trace] + event].is_of_kernel()
    }
}

/// Whether an environment is one of LTTng's kernel tracer before 2.7.
fn is_old_lttng(env: &[(String, EnvValue)]) -> bool {
    let of = |name: &str| env.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let number = |name| match of(name) {
        Some(EnvValue::Int(number)) => Some(*number),
        _ => None,
    };
    let is_modules = matches!(of("tracer_name"), Some(EnvValue::Text(name)) if name == "lttng-modules");
    is_modules && number("tracer_major").zip(number("tracer_minor")).is_some_and(|version| version < (2, 7))
}

fn kind(kind: &FieldKind<'_>) -> Kind {
    match kind {
        FieldKind::Int { .. } | FieldKind::Enum { .. } | FieldKind::Bool => Kind::Integer,
        FieldKind::Float { .. } => Kind::Float,
        FieldKind::Text => Kind::Text,
        _ => Kind::Other,
    }
}

/// The payload of a record.
pub struct Payload<'a>(pub Fields<'a>);

impl kymo_analyze::Record for Payload<'_> {
    #[inline]
    fn integer(&self, position: usize) -> Option<i128> {
        integer(&self.0.at(position)?)
    }

    fn float(&self, position: usize) -> Option<f64> {
        float(&self.0.at(position)?)
    }

    #[inline]
    fn text(&self, position: usize) -> Option<Cow<'_, str>> {
        text(self.0.at(position)?)
    }
}

#[inline]
fn integer(value: &Value<'_>) -> Option<i128> {
    match *value {
        Value::Int(Number::Unsigned(value), _) | Value::Enum(Number::Unsigned(value), _) => Some(value.into()),
        Value::Int(Number::Signed(value), _) | Value::Enum(Number::Signed(value), _) => Some(value.into()),
        Value::Bool(value) => Some(value.into()),
        _ => None,
    }
}

fn float(value: &Value<'_>) -> Option<f64> {
    match *value {
        Value::F32(value) => Some(value.into()),
        Value::F64(value) => Some(value),
        _ => None,
    }
}

fn text(value: Value<'_>) -> Option<Cow<'_, str>> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

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
        let own = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok());
        if self.head.tid.is_none() && (record.vpid.is_some() || record.vtid.is_some()) {
            let name = Name::new(record.procname);
            return Writer {
                process: own(record.vpid),
                tid: own(record.vtid),
                name,
                cpu: record.cpu,
                ..Writer::default()
            };
        }
        let running = record.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread());
        let tid = self.head.tid.or(running);
        let thread = tid.and_then(|tid| state.thread(tid));
        let name = if tid == Some(0) { Name::new("swapper") } else { thread.map(|t| t.name).unwrap_or_default() };
        Writer { process: thread.and_then(|thread| thread.process), tid, name, cpu: record.cpu, ..Writer::default() }
    }
}

/// Who takes records beside spans.
pub trait Visit: Sink {
    /// A record, before the state moves by it.
    fn record(&mut self, _seen: &Seen<'_, '_>, _state: &State) {}
}

impl Visit for () {}

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
}

/// All of them.
impl Choose for () {}

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
    classes: &'c Classes,
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

    /// Takes all that the reader has.
    pub fn go(&mut self, reader: &mut Reader<'_>, choose: &mut impl Choose, visit: &mut impl Visit) {
        choose.begin(&self.state);
        while reader.pass().is_some() {
            self.step(reader, choose, visit);
        }
    }

    /// The same, as long as `goes_on` says so, which is asked every few thousand items. Whether it came to the end.
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
            if passed % ASK_EVERY == 0 && !goes_on() {
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
        self.apply(&head, event, record.stream, visit);
    }

    /// The same for a record that only the state looks at: no totals are kept. Its time.
    #[inline]
    pub fn glance(&mut self, stream: usize, record: &Glance<'_>, sink: &mut impl Sink) -> i64 {
        let known = &self.classes.known[self.classes.first[record.trace] + record.event];
        let time = clamp(record.ns);
        self.note(stream, known.is_of_kernel());
        if known.is_of_kernel() {
            let fields = record.fields().unwrap_or_default();
            let head = Head { time, cpu: record.cpu(), tid: known.tid_of(fields, record) };
            self.apply(&head, known.event_of(fields, record), record.stream(), sink);
        }
        time
    }

    #[inline]
    fn apply(&mut self, head: &Head, event: Option<Event>, stream: &str, sink: &mut impl Sink) {
        match event {
            Some(event) => self.state.apply(head, &event, sink),
            None if head.tid.is_some() && is_by_writer(stream) => self.state.pass(head, sink),
            None => {}
        }
    }

    /// Counts lost records of this stream, and moves the state over those of the kernel.
    pub fn loss(&mut self, stream: usize, loss: &Loss<'_>, visit: &mut impl Visit) {
        self.totals.lost.add_loss(loss);
        let is_of_kernel = match self.streams.get(stream).copied().unwrap_or_default() {
            Origin::Kernel => true,
            Origin::Other => false,
            // Those that have had no record yet may be.
            Origin::Unknown => loss.vpid.is_none(),
        };
        if is_of_kernel && clamp(loss.from_ns) >= self.losses_from {
            self.state.lost(loss.cpu, clamp(loss.from_ns), clamp(loss.to_ns), visit);
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

/// Beginnings of the names of streams with the state dump and with samples: their records tell of threads, they are not
/// written by them.
const ABOUT_THREADS: [&str; 2] = ["state_", "samples_"];

/// The event of samples.
pub const SAMPLE: &str = "perf:cpu-clock";

/// Whether records of a stream were written by the thread that they name, when it ran.
pub fn is_by_writer(stream: &str) -> bool {
    !ABOUT_THREADS.iter().any(|begin| stream.starts_with(begin))
}

impl Totals {
    fn note(&mut self, time: i64, is_selected: bool) {
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

/// Times beyond 1678 to 2262 are taken as the end of that.
pub fn clamp(ns: i128) -> i64 {
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lttng_is_known_by_its_version() {
        let is_old = |name: &str, major: i64, minor: i64| {
            is_old_lttng(&[
                ("tracer_name".into(), EnvValue::Text(name.into())),
                ("tracer_major".into(), EnvValue::Int(major)),
                ("tracer_minor".into(), EnvValue::Int(minor)),
            ])
        };
        assert!(is_old("lttng-modules", 2, 6) && is_old("lttng-modules", 1, 9));
        assert!(!is_old("lttng-modules", 2, 7) && !is_old("lttng-modules", 3, 0) && !is_old("lttng-ust", 2, 6));
        assert!(!is_old_lttng(&[]));
    }

    #[test]
    fn wake_ups_of_old_lttng_have_the_kernels_priorities() {
        let field = |(position, name): (usize, &str)| Field { name: name.into(), kind: Kind::Integer, position };
        let fields = ["tid", "prio", "target_cpu"].into_iter().enumerate().map(field).collect();
        let class = Class { name: "sched_wakeup".into(), fields };
        let plan = Vocabulary::new().learn(&class).unwrap();
        let prio = |plan: &Plan, written: i64| match plan.decode(&Numbers([7, written, 0])) {
            Some(Event::Wake { prio, .. }) => prio,
            _ => None,
        };
        assert_eq!((prio(&plan, -11), prio(&plan.of_old_lttng(), 89)), (Some(89), Some(89)));
    }

    struct Numbers([i64; 3]);

    impl kymo_analyze::Record for Numbers {
        fn integer(&self, position: usize) -> Option<i128> {
            self.0.get(position).map(|&number| number.into())
        }

        fn float(&self, _: usize) -> Option<f64> {
            None
        }

        fn text(&self, _: usize) -> Option<Cow<'_, str>> {
            None
        }
    }
}
