// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of records: what their names mean, where their fields are, and which thread they name.

use kymo_analyze::{Class, Event, Field, Head, Interrupt, Plan, ValueKind, Vocabulary};
use kymo_ctf::read::{FieldInfo, FieldKind, Glance, Record, RecordPart, Trace, Value};

use crate::environment::{architecture_of, is_old_lttng};
use crate::fields::{FieldReader, Payload, Sight, Sights};

/// Flags of the kernel's header of a record: in an interrupt or NMI, in a softirq.
const IN_HARD_IRQ: i128 = 0x48;
const IN_SOFTIRQ: i128 = 0x10;

/// A class of the traces, as records of it are read.
pub(crate) struct ReadClass {
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

impl ReadClass {
    fn new(trace: &Trace, event: usize, plan: Option<Plan>, fields: usize) -> ReadClass {
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
        ReadClass {
            plan,
            tid: tid.map(|position| sight(RecordPart::CommonContext, position)).or_else(of_perf),
            flags: flags.map(|position| sight(RecordPart::CommonContext, position)),
            fields: fields.map(|position| sight(RecordPart::Payload, position)).collect(),
            is_sample: trace.metadata.events.get(event).is_some_and(|event| event.name == SAMPLE),
        }
    }

    /// The thread that a record names as the one that wrote it; a negative number is none.
    #[inline]
    pub(crate) fn tid_of(&self, fields: &[u8], record: &impl FieldReader) -> Option<i32> {
        let is_dump = self.plan.is_some_and(|plan| plan.is_dump());
        let sight = self.tid.as_ref().filter(|_| !is_dump)?;
        let tid = |number| i32::try_from(i128::from(number)).ok().filter(|tid| *tid >= 0);
        if let Some(number) = sight.direct.and_then(|direct| direct.read(fields)) {
            return tid(number);
        }
        match record.value(&sight.lens)? {
            Value::Int(number, _) => tid(number),
            _ => None,
        }
    }

    /// What a record says of the state.
    #[inline]
    pub(crate) fn event_of(&self, bytes: &[u8], record: &impl FieldReader) -> Option<Event> {
        let event = self.plan.as_ref()?.decode(&Sights { record, bytes, fields: &self.fields })?;
        let Event::Wake { step, tid, name, prio, cpu, .. } = event else { return Some(event) };
        Some(Event::Wake { step, tid, name, prio, cpu, within: self.within(bytes, record) })
    }

    /// In what a record says that it was written.
    #[inline]
    fn within(&self, bytes: &[u8], record: &impl FieldReader) -> Option<Interrupt> {
        let flags = self.flags.as_ref()?.integer(bytes, record)?;
        match (flags & IN_HARD_IRQ != 0, flags & IN_SOFTIRQ != 0) {
            (true, _) => Some(Interrupt::Hard),
            (false, true) => Some(Interrupt::Soft),
            (false, false) => None,
        }
    }

    pub(crate) fn is_of_kernel(&self) -> bool {
        self.plan.is_some() || (self.tid.is_some() && !self.is_sample)
    }
}

/// All classes of the traces, one trace behind the other.
pub struct Classes {
    /// As they are described.
    pub list: Vec<Class>,
    /// What their names mean.
    pub vocabulary: Vocabulary,
    pub(crate) known: Vec<ReadClass>,
    /// By trace: its first class.
    pub(crate) first: Vec<usize>,
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
                classes.known.push(ReadClass::new(trace, position, plan, fields));
                classes.list.push(class);
            }
        }
        let clocks = traces.iter().flat_map(|trace| trace.metadata.clocks.iter().take(1));
        if clocks.map(|clock| clock.uuid).collect::<std::collections::HashSet<_>>().len() > 1 {
            classes.vocabulary.mix_clocks();
        }
        classes.vocabulary.set_architecture(architecture_of(traces));
        classes
    }

    /// What a record of a class says, where the state follows it.
    pub fn event(&self, class: usize, payload: &Payload<'_>) -> Option<Event> {
        self.known[class].plan.as_ref()?.decode(payload)
    }

    /// Where and when a record was written, and what it says of the state.
    pub fn decode(&self, record: &Record<'_>) -> (Head, Option<Event>) {
        let known = &self.known[self.of(record)];
        let fields = record.fields().unwrap_or_default();
        let head = Head { time: clamp(record.ns), cpu: record.cpu, tid: known.tid_of(fields, record) };
        (head, known.event_of(fields, record))
    }

    /// Where and when a record was written.
    #[inline]
    pub(crate) fn head(&self, record: &Glance<'_>) -> Head {
        let known = &self.known[self.of_glance(record)];
        let tid = known.tid.as_ref().and_then(|_| known.tid_of(record.fields().unwrap_or_default(), record));
        Head { time: clamp(record.ns), cpu: record.cpu(), tid }
    }

    /// The thread that a record names as the one that wrote it.
    pub(crate) fn tid_of(&self, record: &Record<'_>) -> Option<i32> {
        self.known[self.of(record)].tid_of(record.fields().unwrap_or_default(), record)
    }

    /// Whether records of a class say anything of a state, or which thread wrote them: else [`Classes::decode`] finds
    /// where and when they were written, and nothing else.
    #[inline]
    pub fn says_something(&self, class: usize) -> bool {
        let known = &self.known[class];
        known.plan.is_some() || known.tid.is_some()
    }

    /// Which class a record is of.
    #[inline]
    pub(crate) fn of_glance(&self, record: &Glance<'_>) -> usize {
        self.first[record.trace] + record.event
    }

    /// The same.
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

fn kind(kind: &FieldKind<'_>) -> ValueKind {
    match kind {
        FieldKind::Int { .. } | FieldKind::Enum { .. } | FieldKind::Bool => ValueKind::Integer,
        FieldKind::Float { .. } => ValueKind::Float,
        // The digits of an integer of more than 64 bits: rows by it are exact, sums of it are not made.
        FieldKind::Text | FieldKind::Wide { .. } => ValueKind::Text,
        _ => ValueKind::Other,
    }
}

/// Beginnings of the names of streams with the state dump and with samples: their records tell of threads, they are not
/// written by them.
const ABOUT_THREADS: [&str; 2] = ["state_", SAMPLES];
const SAMPLES: &str = "samples_";

/// The event of samples.
pub const SAMPLE: &str = "perf:cpu-clock";

/// Whether records of a stream were written by the thread that they name, when it ran.
pub fn is_by_writer(stream: &str) -> bool {
    !ABOUT_THREADS.iter().any(|begin| stream.starts_with(begin))
}

/// Whether a record tells who wrote it, and so that this thread ran.
#[inline]
pub(crate) fn tells_of_writer(head: &Head, stream: &str) -> bool {
    head.tid.is_some() && is_by_writer(stream)
}

/// Whether a stream has samples.
pub fn is_of_samples(stream: &str) -> bool {
    stream.starts_with(SAMPLES)
}

/// Times beyond 1678 to 2262 are taken as the end of that.
pub fn clamp(ns: i128) -> i64 {
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn wake_ups_of_old_lttng_have_the_kernels_priorities() {
        let field = |(position, name): (usize, &str)| Field { name: name.into(), kind: ValueKind::Integer, position };
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
