// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records from text: `TIME CPU[:TID] EVENT FIELD=VALUE...`, `lost CPU FROM TO`; `#` begins a comment. An array is
//! `FIELD=[1|2]`. `machine NAME`: whose numbers system calls have.

#![allow(dead_code, reason = "each test uses its part")]

pub mod usage;

use std::borrow::Cow;
use std::collections::HashMap;

use kymo_analyze::calls::Architecture;
use kymo_analyze::{Class, Event, Field, Head, Interrupt, Plan, Record, Sink, State, ValueKind, Vocabulary};

/// A record as its text says.
pub struct Line {
    /// Position among the classes.
    pub class: usize,
    /// Where and when.
    pub head: Head,
    /// Values by position.
    pub values: Vec<String>,
}

/// One thing in a trace.
pub enum Item {
    /// A record.
    Record(Line),
    /// Lost ones.
    Lost(Option<u32>, i64, i64),
}

/// A trace.
pub struct Trace {
    /// Its classes.
    pub classes: Vec<Class>,
    /// Records and losses.
    pub items: Vec<Item>,
    /// What the names mean.
    pub vocabulary: Vocabulary,
    /// By class.
    pub plans: Vec<Option<Plan>>,
}

impl Record for Line {
    fn integer(&self, position: usize) -> Option<i128> {
        let text = self.values.get(position)?;
        match text.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn float(&self, position: usize) -> Option<f64> {
        self.values.get(position)?.parse().ok()
    }

    fn text(&self, position: usize) -> Option<Cow<'_, str>> {
        self.values.get(position).map(|text| text.as_str().into())
    }

    fn element(&self, position: usize, index: usize) -> Option<i128> {
        let text = self.values.get(position)?.strip_prefix('[')?.strip_suffix(']')?;
        text.split('|').nth(index)?.parse().ok()
    }
}

/// From text.
pub fn parse(text: &str) -> Trace {
    let mut trace = Trace { classes: Vec::new(), items: Vec::new(), vocabulary: Vocabulary::new(), plans: Vec::new() };
    let mut by_name = HashMap::new();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    for line in lines.filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "machine" {
            trace.vocabulary.set_architecture(Architecture::of_machine(words[1]));
            continue;
        }
        let item = match words[0] {
            "lost" => Item::Lost(words[1].parse().ok(), number(words[2]), number(words[3])),
            _ => Item::Record(record(&words, &mut trace.classes, &mut by_name)),
        };
        trace.items.push(item);
    }
    trace.plans = trace.classes.iter().map(|class| trace.vocabulary.learn(class)).collect();
    trace
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))
}

fn record(words: &[&str], classes: &mut Vec<Class>, by_name: &mut HashMap<String, usize>) -> Line {
    let (cpu, tid) = words[1].split_once(':').map_or((words[1], None), |(cpu, tid)| (cpu, Some(tid)));
    let head = Head { time: number(words[0]), cpu: cpu.parse().ok(), tid: tid.map(|tid| number(tid) as i32) };
    let fields: Vec<(&str, &str)> =
        words[3..].iter().map(|word| word.split_once('=').unwrap_or_else(|| panic!("no field: {word}"))).collect();
    let class = *by_name.entry(words[2].to_owned()).or_insert_with(|| {
        let field = |(position, (name, value)): (usize, &(&str, &str))| Field {
            name: (*name).to_owned(),
            kind: kind(value),
            position,
        };
        classes.push(Class { name: words[2].to_owned(), fields: fields.iter().enumerate().map(field).collect() });
        classes.len() - 1
    });
    let names: Vec<&str> = classes[class].fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "fields of {}", words[2]);
    Line { class, head, values: fields.iter().map(|(_, value)| (*value).to_owned()).collect() }
}

fn kind(value: &str) -> ValueKind {
    if value.parse::<i128>().is_ok() || value.starts_with("0x") {
        ValueKind::Integer
    } else if value.parse::<f64>().is_ok() {
        ValueKind::Float
    } else if value.starts_with('[') {
        ValueKind::Other
    } else {
        ValueKind::Text
    }
}

impl Trace {
    /// The event of a record.
    pub fn event(&self, line: &Line) -> Option<Event> {
        let event = self.plans[line.class].as_ref()?.decode(line)?;
        let Event::Wake { step, tid, name, prio, cpu, .. } = event else { return Some(event) };
        // As kymo-feed takes them from the header of a kernel's record.
        let flags = self.classes[line.class].field(&["common_flags"]).and_then(|field| line.integer(field.position));
        let within = match flags {
            Some(8) => Some(Interrupt::Hard),
            Some(16) => Some(Interrupt::Soft),
            _ => None,
        };
        Some(Event::Wake { step, tid, name, prio, cpu, within })
    }

    /// Moves a state by some of the items.
    pub fn play(&self, state: &mut State, range: std::ops::Range<usize>, sink: &mut impl Sink) {
        for item in &self.items[range] {
            match item {
                Item::Lost(cpu, from, to) => state.lost(*cpu, *from, *to, sink),
                Item::Record(line) => match self.event(line) {
                    Some(event) => state.apply(&line.head, &event, sink),
                    None => state.pass(&line.head, sink),
                },
            }
        }
    }
}
