// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `-k`: which events are wanted [spec/kernel.md 3].

use std::collections::BTreeMap;

use kymo_names::glob_matches_with_sets as glob_matches;

use crate::near::NEAR;
use crate::{Chosen, Error, EventName};

/// Groups of events by a word: each has patterns `system:name`. What a kernel lacks of them is left out.
const GROUPS: [(&str, &[&str]); 10] = [
    ("sched", &["sched:*", "task:*"]),
    ("irq", &["irq:*", "irq_vectors:*"]),
    ("syscalls", &["syscalls:*"]),
    ("timer", &["timer:*"]),
    ("block", &["block:*"]),
    ("net", &["net:*", "napi:*", "skb:*", "sock:*"]),
    ("power", &["power:*"]),
    ("faults", &["exceptions:page_fault_*", "kmem:mm_page_*", "*:fault*"]),
    (MARK, &[]),
    ("all", &["*:*"]),
];

/// The group without events: only the marker file.
const MARK: &str = "mark";

/// Systems of probes that kymo made: those of other sessions are not part of "all events".
const OWN_SYSTEM: &str = "kymo_";

/// The system of samples, which tracefs does not have.
const SAMPLES: &str = "perf:";
/// The only kind of them.
const CPU_CLOCK: &str = "perf:cpu-clock";
/// Samples a second: unless told otherwise (no divisor of what programs do periodically), and at most.
const FREQUENCY: u32 = 997;
const FREQUENCY_MAX: u32 = 10_000;

/// What `-k` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    items: Vec<WantedItem>,
    /// Samples a second of what each CPU runs.
    sample_frequency: Option<u32>,
}

/// One pattern and what narrows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedItem {
    pattern: String,
    filter: Option<String>,
    fields: Option<Vec<String>>,
}

impl Wanted {
    /// The words that stand for groups of events.
    pub fn groups() -> impl Iterator<Item = &'static str> {
        GROUPS.iter().map(|(group, _)| *group)
    }

    /// Arguments of `-k`, each with one or more `PATTERN[FILTER]{FIELD,FIELD}` separated by commas.
    pub fn parse(args: &[String]) -> Result<Wanted, Error> {
        let (mut items, mut sample_frequency) = (Vec::new(), None);
        for argument in args {
            let mut of_argument = Vec::new();
            Parser::new(argument).items(&mut of_argument)?;
            let (samples, events): (Vec<WantedItem>, Vec<WantedItem>) =
                of_argument.into_iter().partition(|item| item.pattern.starts_with(SAMPLES));
            items.extend(events);
            for item in samples {
                sample_frequency = Some(frequency(&item).map_err(|why| selection(argument, why))?);
            }
        }
        Ok(Wanted { items, sample_frequency })
    }

    /// How many samples a second `perf:cpu-clock` asks for.
    pub fn sample_frequency(&self) -> Option<u32> {
        self.sample_frequency
    }

    /// The same without filters and choices of fields.
    pub fn whole(&self) -> Wanted {
        let whole = |item: &WantedItem| WantedItem { pattern: item.pattern.clone(), filter: None, fields: None };
        Wanted { items: self.items.iter().map(whole).collect(), ..self.clone() }
    }

    /// Whether nothing at all is asked for.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.sample_frequency.is_none()
    }

    /// Whether the marker file is asked for, and no event.
    pub fn wants_marker_only(&self) -> bool {
        !self.items.is_empty() && self.items.iter().all(|item| item.pattern == MARK)
    }

    /// Whether the marker file is asked for by name.
    pub fn wants_marker(&self) -> bool {
        self.items.iter().any(|item| item.pattern == MARK)
    }

    /// The events of `events` (all that the kernel has) that are asked for, sorted, each once.
    /// A pattern that is no group and matches nothing is [`Error::UnknownEvent`].
    pub fn choose(&self, events: &[EventName]) -> Result<Vec<Chosen>, Error> {
        let mut chosen: BTreeMap<&EventName, Chosen> = BTreeMap::new();
        for item in &self.items {
            for event in item.matches(events)? {
                let entry = chosen.entry(event).or_insert_with(|| Chosen::whole(event.clone()));
                entry.join(item.filter.as_deref(), item.fields.as_deref());
            }
        }
        Ok(chosen.into_values().collect())
    }
}

/// `perf:cpu-clock`, `perf:cpu-clock@FREQUENCY`.
fn frequency(item: &WantedItem) -> Result<u32, &'static str> {
    if item.filter.is_some() || item.fields.is_some() {
        return Err(
            "samples have no filter and no choice of fields; kymo top and kymo read --filter choose among them",
        );
    }
    let (name, text) = item.pattern.split_once('@').unwrap_or((&item.pattern, ""));
    if name != CPU_CLOCK {
        return Err("samples are perf:cpu-clock, or perf:cpu-clock@FREQUENCY");
    }
    match text.parse() {
        Ok(frequency) if (1..=FREQUENCY_MAX).contains(&frequency) => Ok(frequency),
        _ if !item.pattern.contains('@') => Ok(FREQUENCY),
        _ => Err("a frequency of samples is 1 to 10000 a second, as in perf:cpu-clock@997"),
    }
}

fn selection(argument: &str, why: &'static str) -> Error {
    let at = argument.find(SAMPLES).map_or(1, |at| argument[..at].chars().count() + 1);
    Error::Selection { argument: argument.to_owned(), at, why }
}

impl WantedItem {
    fn matches<'a>(&self, events: &'a [EventName]) -> Result<Vec<&'a EventName>, Error> {
        if let Some((_, patterns)) = GROUPS.iter().find(|(group, _)| *group == self.pattern) {
            return Ok(events.iter().filter(|event| patterns.iter().any(|pattern| matches(pattern, event))).collect());
        }
        let found: Vec<_> = match self.pattern.contains(':') {
            true => events.iter().filter(|event| matches(&self.pattern, event)).collect(),
            false => self.bare(events),
        };
        match found.is_empty() {
            true => Err(Error::UnknownEvent { pattern: self.pattern.clone(), near: nearest(&self.pattern, events) }),
            false => Ok(found),
        }
    }

    /// A word without a colon: systems, else names of events.
    fn bare<'a>(&self, events: &'a [EventName]) -> Vec<&'a EventName> {
        let pattern = &self.pattern;
        let systems: Vec<_> = events.iter().filter(|event| matches(&format!("{pattern}:*"), event)).collect();
        match systems.is_empty() {
            true => events.iter().filter(|event| matches(&format!("*:{pattern}"), event)).collect(),
            false => systems,
        }
    }
}

fn matches(pattern: &str, event: &EventName) -> bool {
    let Some((system, name)) = pattern.split_once(':') else { return false };
    let foreign = event.system.starts_with(OWN_SYSTEM) && !system.starts_with(OWN_SYSTEM);
    !foreign && glob_matches(system, &event.system) && glob_matches(name, &event.name)
}

/// Events, systems and groups that `pattern` may have meant.
fn nearest(pattern: &str, events: &[EventName]) -> Vec<String> {
    let full: Vec<String> = events.iter().map(EventName::to_string).collect();
    let named = events.iter().zip(&full).map(|(event, full)| match pattern.contains(':') {
        true => (full.clone(), vec![full.as_str()]),
        false => (full.clone(), vec![event.name.as_str(), full.as_str()]),
    });
    let systems = events.iter().map(|event| event.system.as_str());
    let words = systems.chain(GROUPS.iter().map(|(group, _)| *group)).map(|word| (word.to_owned(), vec![word]));
    NEAR.of(pattern, named.chain(words))
}

/// Reads one argument.
struct Parser<'a> {
    argument: &'a str,
    chars: Vec<char>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(argument: &'a str) -> Parser<'a> {
        Parser { argument, chars: argument.chars().collect(), at: 0 }
    }

    fn items(mut self, items: &mut Vec<WantedItem>) -> Result<(), Error> {
        loop {
            items.push(self.item()?);
            match self.peek() {
                None => return Ok(()),
                Some(',') => self.at += 1,
                Some(_) => return Err(self.error("expected a comma between two patterns")),
            }
        }
    }

    fn item(&mut self) -> Result<WantedItem, Error> {
        let begin = self.at;
        let pattern = self.pattern()?;
        let mut item = WantedItem { pattern, filter: None, fields: None };
        loop {
            self.spaces();
            match self.peek() {
                Some('[') if item.filter.is_none() => item.filter = Some(self.bracketed('[', ']')?),
                Some('{') if item.fields.is_none() => item.fields = Some(self.fields()?),
                Some('[') => return Err(self.error("a second filter: join the two with && or ||")),
                Some('{') => return Err(self.error("a second list of fields: put all into one")),
                _ => break,
            }
        }
        if item.pattern == MARK && (item.filter.is_some() || item.fields.is_some()) {
            self.at = begin;
            return Err(self.error("marks have no fields to filter by or to choose from"));
        }
        Ok(item)
    }

    fn pattern(&mut self) -> Result<String, Error> {
        self.spaces();
        let begin = self.at;
        while self.peek().is_some_and(|char| !",[{".contains(char)) {
            let char = self.chars[self.at];
            let is_frequency =
                char == '@' && self.chars[begin..self.at].iter().collect::<String>().starts_with(SAMPLES);
            let part = char.is_ascii_alphanumeric() || "_-.*?:".contains(char) || is_frequency;
            if !part && !char.is_whitespace() {
                return Err(self.error("events are called system:name; '*' and '?' are the wildcards"));
            }
            self.at += 1;
        }
        let text: String = self.chars[begin..self.at].iter().collect();
        let text = text.trim();
        let why = match text {
            "" => "a pattern is missing; 'all' stands for every event",
            _ if text.contains(char::is_whitespace) => "a space within a pattern; a comma separates two",
            _ if text.matches(':').count() > 1 => "more than one colon; events are called system:name",
            _ if text.starts_with(':') || text.ends_with(':') => "nothing on one side of the colon; '*' stands for any",
            _ => return Ok(text.to_owned()),
        };
        self.at = begin;
        Err(self.error(why))
    }

    /// The text between two brackets, which may hold pairs of them, and anything in double quotes.
    fn bracketed(&mut self, open: char, close: char) -> Result<String, Error> {
        let begin = self.at;
        let (mut depth, mut quoted) = (0_usize, false);
        while let Some(char) = self.peek() {
            self.at += 1;
            match char {
                '"' => quoted = !quoted,
                _ if quoted => {}
                _ if char == open => depth += 1,
                _ if char == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let text: String = self.chars[begin + 1..self.at - 1].iter().collect();
                if text.trim().is_empty() {
                    self.at = begin;
                    return Err(self.error("nothing between the brackets"));
                }
                return Ok(text.trim().to_owned());
            }
        }
        self.at = begin;
        Err(self.error(if quoted { "a quote is not closed behind this bracket" } else { "this bracket is not closed" }))
    }

    fn fields(&mut self) -> Result<Vec<String>, Error> {
        let begin = self.at;
        let text = self.bracketed('{', '}')?;
        let fields: Vec<String> = text.split(',').map(|field| field.trim().to_owned()).collect();
        let good = |field: &String| !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if fields.iter().all(good) {
            return Ok(fields);
        }
        self.at = begin;
        Err(self.error("expected names of fields separated by commas"))
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn error(&self, why: &'static str) -> Error {
        Error::Selection { argument: self.argument.to_owned(), at: self.at + 1, why }
    }
}

#[cfg(test)]
#[path = "wanted_tests.rs"]
mod tests;
