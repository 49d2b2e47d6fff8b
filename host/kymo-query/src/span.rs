// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--span 'A, B, by=K'`: spans between events that the user names. Which begin is of which end is decided by
//! kymo-filter, as for filters, triggers and exports [spec/analyze.md 5.1].

use kymo_analyze::{Doubt, Sample, State, Vocabulary, Writer};
use kymo_ctf::read::Trace;
use kymo_filter::{Closed, Context, Event, FieldPath, OPEN_MAX, PairLatency, Record, Value, Waiting};
use serde::Serialize;

use kymo_feed::Seen;

use crate::error::Refused;
use crate::filter::{View, events_of};
use crate::machines::Now;

/// What was counted of one span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanCounts {
    /// As it was given.
    pub of: String,
    /// Begins with their end.
    pub spans: u64,
    /// Begins inside of a span with the same key.
    pub nested: u64,
    /// Begins behind one with the same key that has no end.
    pub repeated: u64,
    /// Begins without end.
    pub unended: u64,
    /// Ends without begin.
    pub unbegun: u64,
    /// Begins that were too many at a time.
    pub dropped: u64,
    /// Records of which the trace does not have the key: by default, the thread.
    pub without_key: u64,
}

impl SpanCounts {
    /// What is odd about its begins and ends; `None` where each begin has its end, and none is in another.
    pub fn odd(&self) -> Option<String> {
        let parts = [
            (self.nested, "begins inside of a span with the same key (nested)"),
            (self.repeated, "begins behind one without end (repeated)"),
            (self.unended, "begins without end"),
            (self.unbegun, "ends without begin"),
            (self.dropped, "begins dropped, too many at a time"),
            (self.without_key, "records of which the trace does not have the key or the thread"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("'{}': {}", self.of, parts.join(", ")))
    }
}

/// Which span ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSpan {
    /// By the order of the texts.
    pub number: u16,
    /// The number of its key, where keys are kept apart.
    pub key: Option<u32>,
    /// The thread that began it, where that is known.
    pub begun_by: Option<i32>,
}

/// Who numbers the keys of spans where these are kept apart, and says how they are shown.
pub trait SpanKeys {
    /// The number of the key of a span that ends with this record; `None` beyond those that are kept apart.
    fn number(&mut self, pair: &PairLatency, seen: &Seen<'_, '_>, writer: &Writer, state: &State) -> Option<u32>;
    /// The number of a key that is given as [`PairLatency::key`] has it; `None` where keys are not known so.
    fn of_text(&mut self, _key: String) -> Option<u32> {
        None
    }
    /// How they are shown, by number.
    fn shown(&self) -> &[String];
    /// Why some addresses in keys have no name.
    fn reasons(&self) -> Vec<String>;
}

/// All spans of a run.
pub struct Spans<'v> {
    texts: Vec<String>,
    pairs: Vec<PairLatency>,
    /// By class: it is of one of them.
    is_of_any: Vec<bool>,
    vocabulary: &'v Vocabulary,
    /// Where keys are kept apart.
    keys: Option<Box<dyn SpanKeys>>,
}

impl<'v> Spans<'v> {
    /// From their texts, held against the events that there are.
    ///
    /// # Errors
    /// A text that is no span of these events.
    pub fn new(texts: &[String], traces: &[Trace], vocabulary: &'v Vocabulary) -> Result<Spans<'v>, Refused> {
        u16::try_from(texts.len()).map_err(|_| Refused::span("there are too many".to_owned()))?;
        let events: Vec<Event> =
            if texts.is_empty() { Vec::new() } else { traces.iter().flat_map(events_of).collect() };
        let pairs = texts.iter().map(|text| parse(text, &events)).collect::<Result<Vec<_>, _>>()?;
        let is_of_any = (0..events.len()).map(|class| pairs.iter().any(|pair| pair.takes(class))).collect();
        Ok(Spans { texts: texts.to_vec(), pairs, is_of_any, vocabulary, keys: None })
    }

    /// By class: whether its records are of a span.
    pub fn classes(&self) -> &[bool] {
        &self.is_of_any
    }

    /// Whether all that is asked about records is in these and in who wrote them.
    pub fn need_no_state(&self) -> bool {
        let of_writer = ["$tid", "$pid", "$proc", "$time"];
        let rest = |text: &String| of_writer.iter().fold(text.clone(), |text, name| text.replace(name, ""));
        self.texts.iter().all(|text| !rest(text).contains('$'))
    }

    /// The pairs of events, in the order of the texts.
    pub fn pairs(&self) -> &[PairLatency] {
        &self.pairs
    }

    /// What has begun and not ended yet: the number of the span, and its begin.
    pub fn waiting(&self) -> impl Iterator<Item = (u16, Waiting)> {
        self.pairs.iter().enumerate().flat_map(|(number, pair)| pair.waiting().map(move |of| (number as u16, of)))
    }

    /// Keeps keys apart.
    pub fn keep_keys_apart(&mut self, keys: Box<dyn SpanKeys>) {
        self.keys = Some(keys);
    }

    /// Takes a record, and hands on the spans that end with it. An event that is both ends its span first.
    pub fn record(&mut self, seen: &Seen<'_, '_>, state: &State, take: &mut impl FnMut(EndedSpan, Sample)) {
        if !self.is_of_any.get(seen.class).copied().unwrap_or(false) {
            return;
        }
        let now = Now::new(state, self.vocabulary, seen.record.cpu);
        let of_span =
            OfSpan { view: View { record: seen.record, now }, writer: seen.writer(state), time: seen.head.time };
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            let Some(closed) = pair.feed(seen.class, &of_span) else { continue };
            let key = self.keys.as_mut().and_then(|keys| keys.number(pair, seen, &of_span.writer, state));
            let begun_by = closed.begun_by.and_then(|tid| i32::try_from(tid).ok());
            take(EndedSpan { number: number as u16, key, begun_by }, sample(closed, &of_span, state));
        }
    }

    /// The number of the key of one that has not ended.
    pub fn key_of(&mut self, waiting: &Waiting) -> Option<u32> {
        self.keys.as_mut().and_then(|keys| keys.of_text(waiting.key_text()))
    }

    /// How keys are shown, by number.
    pub fn keys(&self) -> &[String] {
        self.keys.as_ref().map_or(&[], |keys| keys.shown())
    }

    /// Why some addresses in keys have no name.
    pub fn reasons(&self) -> Vec<String> {
        self.keys.as_ref().map_or_else(Vec::new, |keys| keys.reasons())
    }

    /// What was counted of each.
    pub fn counts(&self) -> Vec<SpanCounts> {
        let of = |(text, pair): (&String, &PairLatency)| {
            let counts = pair.counts();
            SpanCounts {
                of: text.clone(),
                spans: counts.closed,
                nested: counts.nested,
                repeated: pair.repeated(),
                unended: pair.open() as u64,
                unbegun: counts.unopened,
                dropped: counts.dropped,
                without_key: counts.without_key,
            }
        };
        self.texts.iter().zip(&self.pairs).map(of).collect()
    }
}

fn parse(text: &str, events: &[Event]) -> Result<PairLatency, Refused> {
    let events_of_text = text.split("by=").next().unwrap_or_default();
    if events_of_text.split(',').filter(|name| !name.trim().is_empty()).count() < 2 {
        let how = "write it as 'BEGIN, END' or 'BEGIN, END, by=FIELD', as in 'req:begin, req:end, by=id'";
        return Err(Refused::span(format!("{text:?}: {how}")));
    }
    PairLatency::parse(text, events, OPEN_MAX).map_err(|error| Refused::span(format!("\n{error}")))
}

/// A record as spans see it: its thread is who wrote it, of a kernel's records the one that runs.
struct OfSpan<'r, 'a> {
    view: View<'r, 'a>,
    writer: Writer,
    time: i64,
}

impl Record for OfSpan<'_, '_> {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        self.view.field(place)
    }

    fn context(&self, context: Context) -> Value<'_> {
        let number = |value: Option<i32>| value.map_or(Value::Absent, |value| Value::Int(value.into()));
        match context {
            Context::Time => Value::Int(self.time.into()),
            Context::Tid => number(self.writer.tid),
            Context::Pid => number(self.writer.process),
            Context::Proc if self.writer.name.is_empty() => Value::Absent,
            Context::Proc => Value::Text(self.writer.name.as_str().into()),
            _ => self.view.context(context),
        }
    }
}

fn sample(closed: Closed, end: &OfSpan<'_, '_>, state: &State) -> Sample {
    let writer = end.writer;
    let prio = writer.tid.and_then(|tid| state.thread(tid)).and_then(|thread| thread.prio);
    let from = i64::try_from(i128::from(end.time) - closed.ns).unwrap_or(i64::MIN);
    Sample {
        late_ns: 0,
        value_ns: end.time.saturating_sub(from).max(0) as u64,
        from,
        to: end.time,
        tid: writer.tid,
        process: writer.process,
        name: writer.name,
        prio,
        cpu: writer.cpu,
        waker: None,
        owner: None,
        doubt: Doubt::CLOCK.when(closed.ns < 0) | Doubt::NESTED.when(closed.is_outer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_filter::{Field, ValueType};

    #[test]
    fn what_is_no_span_is_refused_with_what_to_write() {
        let id = Field { name: "id".into(), kind: ValueType::Int { signed: false, bits: 32 } };
        let event = |name: &str| Event { name: name.into(), fields: vec![id.clone()] };
        let events = [event("a"), event("b")];
        for (text, expect) in [
            ("a,b", None),
            (" a , b , by=id", None),
            ("a, b, by=id, $tid", None),
            ("a, b, by=*", None),
            ("a", Some("'BEGIN, END, by=FIELD'")),
            ("a, by=id", Some("'BEGIN, END, by=FIELD'")),
            ("a,b,c", Some("expected `by=`")),
            ("a, b, by=tid", Some("did you mean the context `$tid`?")),
            ("a, c", Some("no event is called `c`")),
        ] {
            match (parse(text, &events), expect) {
                (Ok(_), None) => {}
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{text}: {:?}", found.map(|_| ())),
            }
        }
    }
}
