//! The time between two records that belong together, and filters that ask for it.
//!
//! What is open is kept in a table of bounded size: the oldest is dropped, and counted.

use std::collections::{HashMap, VecDeque};

use crate::ast::{Context, Expr, ExprKind, Latency, Pattern};
use crate::check::Checked;
use crate::error::{Error, Span};
use crate::glob::glob_matches;
use crate::plan::{Record, Source, Value};
use crate::schema::{Event, Kind};

/// Openings that a [`Matcher`] keeps for each pair.
pub const OPEN_MAX: usize = 1 << 16;

/// Which events open and close a pair, and by which keys.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// By event.
    opens: Vec<Option<Vec<Source>>>,
    /// By event.
    closes: Vec<Option<Vec<Source>>>,
}

impl Pair {
    /// Errors: a key that is neither integer, bool, nor text; two ends of which no event has all keys.
    pub fn new(latency: &Latency, events: &[Event], text: &str) -> Result<Self, Error> {
        Ok(Self {
            opens: side(&latency.from, &latency.by, events, text)?,
            closes: side(&latency.to, &latency.by, events, text)?,
        })
    }
}

fn side(pattern: &Pattern, by: &[Expr], events: &[Event], text: &str) -> Result<Vec<Option<Vec<Source>>>, Error> {
    let keys_of = |event: &Event| -> Result<Option<Vec<Source>>, Error> {
        if !glob_matches(&pattern.glob, &event.name) {
            return Ok(None);
        }
        by.iter().map(|key| source(key, event, text)).collect::<Result<Option<Vec<_>>, _>>()
    };
    let sides: Vec<_> = events.iter().map(keys_of).collect::<Result<_, _>>()?;
    if sides.iter().all(Option::is_none) {
        let span = by.iter().fold(pattern.span, |span, key| span.to(key.span));
        let message = format!("no event `{}` has all of these keys", pattern.glob);
        return Err(Error::new(text, span, message, "name fields that both events have"));
    }
    Ok(sides)
}

fn source(key: &Expr, event: &Event, text: &str) -> Result<Option<Source>, Error> {
    let refused = |span: Span, kind: &str| {
        Err(Error::new(text, span, format!("{kind} is no key"), "pair by integers, enumerations, bools or text"))
    };
    match &key.kind {
        ExprKind::Context(Context::Time) => refused(key.span, "the time"),
        ExprKind::Context(Context::Event) => refused(key.span, "the name of the event"),
        ExprKind::Context(context) => Ok(Some(Source::Context(*context))),
        ExprKind::Field(field) => match event.resolve(&field.name, &field.steps) {
            None => Ok(None),
            Some((_, kind @ (Kind::Float { .. } | Kind::Bytes | Kind::Array { .. } | Kind::Struct(_)))) => {
                refused(key.span, &kind.to_string())
            }
            Some((place, _)) => Ok(Some(Source::Place(place))),
        },
        _ => refused(key.span, "this"),
    }
}

/// What one pair did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Latencies that were found.
    pub closed: u64,
    /// Openings that were dropped because the table was full.
    pub dropped: u64,
    /// Openings that were followed by another one with the same keys, which counts instead.
    pub replaced: u64,
    /// Closings without an opening.
    pub unopened: u64,
    /// Records of these events without a key or a time.
    pub without_key: u64,
}

/// Finds the latencies of one pair in records that are given in the order of time.
#[derive(Debug)]
pub struct PairLatency {
    pair: Pair,
    open_max: usize,
    open: HashMap<Box<[u8]>, Open>,
    /// Openings in order, with those that were closed since.
    order: VecDeque<(u64, Box<[u8]>)>,
    next: u64,
    key: Vec<u8>,
    /// What happened so far.
    pub counts: PairCounts,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    ns: i128,
}

impl PairLatency {
    fn new(pair: Pair, open_max: usize) -> Self {
        Self {
            pair,
            open_max: open_max.max(1),
            open: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
            key: Vec::new(),
            counts: PairCounts::default(),
        }
    }

    /// Openings that wait for their closing.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes a record of the event at position `event`; nanoseconds since the opening where it closes one. Allocates
    /// only for an opening.
    pub fn feed<R: Record>(&mut self, event: usize, record: &R) -> Option<i128> {
        let closes = self.pair.closes.get(event).is_some_and(Option::is_some);
        let opens = self.pair.opens.get(event).is_some_and(Option::is_some);
        if !closes && !opens {
            return None;
        }
        let Value::Int(ns) = record.context(Context::Time) else {
            self.counts.without_key += 1;
            return None;
        };
        let latency = if closes { self.close(event, record, ns) } else { None };
        if opens {
            self.begin(event, record, ns);
        }
        latency
    }

    fn close<R: Record>(&mut self, event: usize, record: &R, ns: i128) -> Option<i128> {
        if !write_key(&mut self.key, self.pair.closes[event].as_deref()?, record) {
            self.counts.without_key += 1;
            return None;
        }
        let Some(open) = self.open.remove(self.key.as_slice()) else {
            self.counts.unopened += 1;
            return None;
        };
        self.counts.closed += 1;
        Some(ns - open.ns)
    }

    fn begin<R: Record>(&mut self, event: usize, record: &R, ns: i128) {
        let Some(sources) = self.pair.opens[event].as_deref() else { return };
        if !write_key(&mut self.key, sources, record) {
            self.counts.without_key += 1;
            return;
        }
        let key: Box<[u8]> = self.key.as_slice().into();
        self.next += 1;
        let number = self.next;
        if self.open.insert(key.clone(), Open { number, ns }).is_some() {
            self.counts.replaced += 1;
        }
        self.order.push_back((number, key));
        while self.open.len() > self.open_max {
            let Some((number, key)) = self.order.pop_front() else { break };
            if self.open.get(&key).is_some_and(|open| open.number == number) {
                self.open.remove(&key);
                self.counts.dropped += 1;
            }
        }
        if self.order.len() > 2 * self.open_max {
            let open = &self.open;
            self.order.retain(|(number, key)| open.get(key).is_some_and(|open| open.number == *number));
        }
    }
}

/// The keys of a record, one after another, each with its kind; false where one is missing.
fn write_key<R: Record>(key: &mut Vec<u8>, sources: &[Source], record: &R) -> bool {
    key.clear();
    for source in sources {
        let value = match source {
            Source::Place(place) => record.field(place),
            Source::Context(context) => record.context(*context),
        };
        match value {
            Value::Int(value) | Value::Label(value, _) => {
                key.push(0);
                key.extend_from_slice(&value.to_le_bytes());
            }
            Value::Bool(value) => key.extend_from_slice(&[1, value.into()]),
            Value::Text(text) => {
                key.push(2);
                key.extend_from_slice(&(text.len() as u64).to_le_bytes());
                key.extend_from_slice(text.as_bytes());
            }
            _ => return false,
        }
    }
    true
}

/// A filter with the state that its latencies need. All records must be given to it, in the order of time.
#[derive(Debug)]
pub struct Matcher {
    checked: Checked,
    pairs: Vec<PairLatency>,
    latencies: Vec<Option<i128>>,
}

impl Matcher {
    /// With at most `open_max` openings for each pair; [`OPEN_MAX`] where nothing is known.
    pub fn new(checked: Checked, open_max: usize) -> Self {
        let pairs: Vec<_> = checked.pairs.iter().map(|pair| PairLatency::new(pair.clone(), open_max)).collect();
        Self { latencies: vec![None; pairs.len()], pairs, checked }
    }

    /// Whether a record of the event at position `event` is selected.
    #[inline]
    pub fn matches<R: Record>(&mut self, event: usize, record: &R) -> bool {
        for (pair, latency) in self.pairs.iter_mut().zip(&mut self.latencies) {
            *latency = pair.feed(event, record);
        }
        self.checked.plans.get(event).is_some_and(|plan| plan.holds(record, &self.latencies))
    }

    /// The filter.
    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// The pairs, in the order of the expression.
    pub fn pairs(&self) -> &[PairLatency] {
        &self.pairs
    }
}
