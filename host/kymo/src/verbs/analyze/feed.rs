//! Records of traces, as kymo-analyze takes them: classes described, times as i64, losses told.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use kymo_analyze::{Class, Event, Field, Head, Kind, Name, Plan, Sink, State, Vocabulary, Writer};
use kymo_ctf::read::{Caveat, FieldKind, Fields, Item, Loss, Number, Reader, Record, Trace, Value, unite_clocks};

/// The traces of a command line, opened.
pub struct Input {
    /// The traces.
    pub traces: Vec<Trace>,
    /// What was wrong with them when they were opened.
    pub caveats: Vec<Caveat>,
}

impl Input {
    /// Opens traces; the parts of one that was cut are one after the other.
    pub fn open(dirs: &[PathBuf]) -> anyhow::Result<Input> {
        let mut input = Input { traces: Vec::new(), caveats: Vec::new() };
        let mut of_kernels = Vec::new();
        for dir in dirs {
            let first = input.traces.len();
            for part in parts_of(dir) {
                let opened = Trace::open(&part)?;
                input.caveats.extend(opened.caveats);
                input.traces.push(opened.value);
            }
            if input.traces[first..].iter().any(has_switches) {
                of_kernels.push(dir.display().to_string());
            }
        }
        if let [first, second, ..] = &of_kernels[..] {
            bail!("{first} and {second} both have the scheduler's events: give one trace of a kernel at a time");
        }
        unite_clocks(&mut input.traces);
        Ok(input)
    }
}

/// A trace, or the chunks of one that was cut.
fn parts_of(dir: &Path) -> Vec<PathBuf> {
    let mut parts = kymo_collect::chunk_dirs(dir);
    if parts.is_empty() || dir.join("metadata").exists() {
        parts.push(dir.to_owned());
    }
    parts
}

fn has_switches(trace: &Trace) -> bool {
    trace.metadata.events.iter().any(|event| event.name.ends_with("sched_switch"))
}

/// A class of the traces.
struct Known {
    plan: Option<Plan>,
    /// Where the contexts have the kernel's number of the thread; a program's own number is no use here.
    tid: Option<usize>,
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
            for (position, event) in trace.metadata.events.iter().enumerate() {
                let fields = trace.metadata.fields(event).into_iter().filter(|field| !field.is_length);
                let field = |field: kymo_ctf::read::FieldInfo<'_>| Field {
                    name: field.name.to_owned(),
                    kind: kind(&field.kind),
                    position: field.position,
                };
                let class = Class { name: event.name.clone(), fields: fields.map(field).collect() };
                let contexts = trace.metadata.contexts(position);
                let tid = contexts.iter().find(|field| field.name == "tid").map(|field| field.position);
                classes.known.push(Known { plan: classes.vocabulary.learn(&class), tid });
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

    /// Which class a record is of.
    pub fn of(&self, record: &Record<'_>) -> usize {
        self.first[record.trace] + record.event_position
    }
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
        match self.0.at(position)? {
            Value::Int(Number::Unsigned(value), _) | Value::Enum(Number::Unsigned(value), _) => Some(value.into()),
            Value::Int(Number::Signed(value), _) | Value::Enum(Number::Signed(value), _) => Some(value.into()),
            Value::Bool(value) => Some(value.into()),
            _ => None,
        }
    }

    fn float(&self, position: usize) -> Option<f64> {
        match self.0.at(position)? {
            Value::F32(value) => Some(value.into()),
            Value::F64(value) => Some(value),
            _ => None,
        }
    }

    #[inline]
    fn text(&self, position: usize) -> Option<Cow<'_, str>> {
        match self.0.at(position)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
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
}

impl Seen<'_, '_> {
    /// Who wrote it: what it says itself, and for records of a kernel the thread that runs on its CPU.
    pub fn writer(&self, state: &State) -> Writer {
        let record = self.record;
        let own = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok());
        if self.head.tid.is_none() && (record.vpid.is_some() || record.vtid.is_some()) {
            let name = Name::new(record.procname);
            return Writer { process: own(record.vpid), tid: own(record.vtid), name, cpu: record.cpu };
        }
        let running = record.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread());
        let tid = self.head.tid.or(running);
        let thread = tid.and_then(|tid| state.thread(tid));
        let name = if tid == Some(0) { Name::new("swapper") } else { thread.map(|t| t.name).unwrap_or_default() };
        Writer { process: thread.and_then(|thread| thread.process), tid, name, cpu: record.cpu }
    }
}

/// Who takes records beside spans.
pub trait Visit: Sink {
    /// A record, before the state moves by it.
    fn record(&mut self, _seen: &Seen<'_, '_>, _state: &State) {}
}

/// What there was beside records.
#[derive(Default)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Lost records, and places where they were lost.
    pub lost: (u64, u64),
    /// Time of the first record and of the last, ns.
    pub span: Option<(i64, i64)>,
}

/// Goes through all records in the order of time.
pub fn walk(reader: &mut Reader<'_>, classes: &Classes, visit: &mut impl Visit) -> (State, Totals) {
    let mut state = State::new(&classes.vocabulary);
    let mut totals = Totals::default();
    let mut streams = Streams::default();
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => {
                let class = classes.of(&record);
                let known = &classes.known[class];
                let is_dump = known.plan.is_some_and(|plan| plan.is_dump());
                let tid = known.tid.filter(|_| !is_dump).and_then(|position| context_tid(&record, position));
                let head = Head { time: clamp(record.ns), cpu: record.cpu, tid };
                totals.note(head.time);
                let payload = Payload(record.payload);
                let event: Option<Event> = known.plan.as_ref().and_then(|plan| plan.decode(&payload));
                streams.note(record.stream, known.plan.is_some() || known.tid.is_some());
                visit.record(&Seen { record: &record, class, head }, &state);
                match event {
                    Some(event) => state.apply(&head, &event, visit),
                    None if tid.is_some() && !record.stream.starts_with(STATE_STREAM) => state.pass(&head, visit),
                    None => {}
                }
            }
            Item::Loss(loss) => {
                totals.lost = (totals.lost.0.saturating_add(loss.records), totals.lost.1 + 1);
                if streams.is_kernel(&loss) {
                    state.lost(loss.cpu, clamp(loss.from_ns), clamp(loss.to_ns), visit);
                }
            }
        }
    }
    state.finish(None, visit);
    (state, totals)
}

/// Beginning of the name of the stream that holds the state dump: its records tell of threads, they are not written by them.
const STATE_STREAM: &str = "state_";

fn context_tid(record: &Record<'_>, position: usize) -> Option<i32> {
    let value = record.common_context.at(position)?;
    match value {
        Value::Int(number, _) => i32::try_from(i128::from(number)).ok(),
        _ => None,
    }
}

/// Which streams are of a kernel: a loss in another one does not touch its state.
#[derive(Default)]
struct Streams(HashMap<String, bool>);

impl Streams {
    fn note(&mut self, stream: &str, of_kernel: bool) {
        match self.0.get_mut(stream) {
            Some(known) => *known |= of_kernel,
            None => {
                self.0.insert(stream.to_owned(), of_kernel);
            }
        }
    }

    /// Those that have had no record yet may be.
    fn is_kernel(&self, loss: &Loss<'_>) -> bool {
        self.0.get(loss.stream).copied().unwrap_or(loss.vpid.is_none())
    }
}

impl Totals {
    fn note(&mut self, time: i64) {
        self.records += 1;
        self.span = Some(self.span.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
    }

    /// Seconds from the first record to the last.
    pub fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| last.abs_diff(first) as f64 / 1e9)
    }
}

/// Times beyond 1678 to 2262 are taken as the end of that.
fn clamp(ns: i128) -> i64 {
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
