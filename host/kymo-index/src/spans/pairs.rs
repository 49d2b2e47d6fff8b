// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of a program's own events, paired by thread [spec/index.md 5.5]: of records that say who wrote them.

use std::collections::HashMap;

use kymo_analyze::{Doubt, Name};
use kymo_ctf::read::{Record, Trace};
use kymo_feed::clamp;
use kymo_filter::{Context, Event, FieldPath, KeptBegin, OPEN_MAX, PairLatency, Value};

use crate::spans::nesting::{BegunSpan, Nesting};
use crate::spans::part::SpanEnd;

/// A span that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingSpan {
    /// Number of its pair of events.
    pub span: u16,
    /// ns.
    pub from: i64,
    /// The thread that began it.
    pub tid: Option<i32>,
    /// Its process.
    pub process: Option<i32>,
    /// Begins of the same pair directly in it.
    pub inner: u64,
    /// How many others it lies in.
    pub level: u16,
    /// Of an idle thread, which is one for each CPU.
    pub cpu: Option<u32>,
}

/// A record as pairs see it.
struct Written<'r, 'a> {
    record: &'r Record<'a>,
    time: i64,
}

fn number(value: Option<u32>) -> Option<i32> {
    value.and_then(|number| i32::try_from(number).ok())
}

impl kymo_filter::Record for Written<'_, '_> {
    fn field(&self, _: &FieldPath) -> Value<'_> {
        Value::Absent
    }

    fn context(&self, context: Context) -> Value<'_> {
        let int = |value: Option<i64>| value.map_or(Value::Absent, |value| Value::Int(value.into()));
        match context {
            Context::Time => int(Some(self.time)),
            Context::Tid => int(number(self.record.vtid).map(i64::from)),
            Context::Pid => int(number(self.record.vpid).map(i64::from)),
            Context::Cpu => int(self.record.cpu.map(i64::from)),
            _ => Value::Absent,
        }
    }
}

/// Pairs begins and ends.
pub struct SpanPairs {
    pairs: Vec<PairLatency>,
    /// By event: it begins or ends one.
    takes: Vec<bool>,
}

impl SpanPairs {
    /// Of pairs as `kymo latency --span` has them, without `by`. `None`: they are none of this trace.
    pub fn new(texts: &[String], trace: &Trace) -> Option<SpanPairs> {
        if texts.is_empty() || u16::try_from(texts.len()).is_err() || texts.iter().any(|text| text.contains('=')) {
            return None;
        }
        let event = |name: &String| Event { name: name.clone(), fields: Vec::new() };
        let events: Vec<Event> = trace.metadata.events.iter().map(|class| event(&class.name)).collect();
        let pairs = texts.iter().map(|text| PairLatency::parse(text, &events, OPEN_MAX).ok());
        let pairs = pairs.collect::<Option<Vec<_>>>()?;
        let takes = (0..events.len()).map(|event| pairs.iter().any(|pair| pair.takes(event))).collect();
        Some(SpanPairs { pairs, takes })
    }

    /// Whether records of an event begin or end one.
    pub fn takes(&self, event: usize) -> bool {
        self.takes.get(event) == Some(&true)
    }

    /// Takes a record, and hands on the spans that end with it. False: it does not say who wrote it.
    pub fn record(&mut self, record: &Record<'_>, mut take: impl FnMut(SpanEnd)) -> bool {
        if record.vpid.is_none() && record.vtid.is_none() {
            return false;
        }
        let written = Written { record, time: clamp(record.ns) };
        let to = written.time;
        for (span, pair) in self.pairs.iter_mut().enumerate() {
            let Some(closed) = pair.feed(record.event_position, &written) else { continue };
            take(SpanEnd {
                span: span as u16,
                tid: number(record.vtid),
                process: number(record.vpid),
                name: Name::new(record.procname),
                cpu: record.cpu,
                from: clamp(i128::from(to) - closed.ns),
                to,
                doubt: Doubt::CLOCK.when(closed.ns < 0) | Doubt::NESTED.when(closed.is_outer),
            });
        }
        true
    }

    /// What has begun and not ended: the thread, and the span.
    pub fn begun(&self) -> impl Iterator<Item = (Option<i32>, BegunSpan)> {
        self.pairs.iter().enumerate().flat_map(|(span, pair)| {
            pair.waiting().filter_map(move |of| {
                let tid = of.thread.and_then(|tid| i32::try_from(tid).ok());
                Some((tid, (span as u16, i64::try_from(of.ns).ok()?)))
            })
        })
    }

    /// How many have begun and not ended.
    pub fn open(&self) -> usize {
        self.pairs.iter().map(PairLatency::open).sum()
    }

    /// All that is needed to go on later. `levels`: of those that wait.
    pub(crate) fn kept(&self, levels: &Nesting<Option<i32>>) -> Vec<WaitingSpan> {
        let levels: HashMap<(Option<i32>, BegunSpan), u16> =
            levels.waiting().map(|(row, of, level)| ((row, of), level)).collect();
        let all = self.pairs.iter().enumerate().flat_map(|(span, pair)| pair.kept().map(move |kept| (span, kept)));
        let waiting = all.filter_map(|(span, kept)| {
            let int = |number: Option<i128>| number.and_then(|number| i32::try_from(number).ok());
            let (tid, from) = (int(kept.thread), i64::try_from(kept.ns?).ok()?);
            let level = levels.get(&(tid, (span as u16, from))).copied().unwrap_or_default();
            let cpu = kept.cpu_of_idle();
            Some(WaitingSpan {
                span: span as u16,
                from,
                tid,
                process: int(kept.process),
                inner: kept.inner,
                level,
                cpu,
            })
        });
        waiting.collect()
    }

    /// Goes on with what has begun and not ended.
    pub(crate) fn resume(&mut self, waiting: &[WaitingSpan]) {
        for of in waiting {
            let Some((pair, tid)) = self.pairs.get_mut(usize::from(of.span)).zip(of.tid) else { continue };
            let int = |number: i32| i128::from(number);
            let key = KeptBegin::key_of_thread(tid.into(), of.cpu);
            let (ns, thread, process) = (Some(of.from.into()), Some(tid.into()), of.process.map(int));
            pair.resume(KeptBegin { key, ns, thread, process, inner: of.inner });
        }
    }
}
