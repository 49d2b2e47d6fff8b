// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--by key`: numbers of the keys of spans, and how they are shown. Addresses are the functions there, threads and
//! processes have their names.

use std::collections::HashMap;

use kymo_analyze::{State, Writer};
use kymo_ctf::read::{Base, FieldKind, Trace};
use kymo_filter::{Context, KeyPart, KeyValue, PairLatency};
use kymo_query::SpanKeys;

use crate::verbs::analyze::feed::Seen;
use crate::verbs::symbols::Symbolizer;
use crate::verbs::symbols::fields::{self, Meaning};

/// Keys that are kept apart at most; the rest is one series.
const KEYS_MAX: usize = 4096;
/// Fields of the scheduler's events that are numbers of threads.
const THREADS: [&str; 6] = ["tid", "next_tid", "prev_tid", "pid", "next_pid", "prev_pid"];

/// How the values of a field are shown, if not as numbers in base 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyForm {
    Hexadecimal,
    Address(Meaning),
}

/// The keys of all spans of a run.
#[derive(Default)]
pub struct KeyNames {
    numbers: HashMap<String, u32>,
    /// By number.
    shown: Vec<String>,
    /// By class: forms of fields.
    forms: Vec<HashMap<String, KeyForm>>,
    /// Where there are addresses.
    symbols: Option<Symbolizer>,
}

impl SpanKeys for KeyNames {
    fn number(&mut self, pair: &PairLatency, seen: &Seen<'_, '_>, writer: &Writer, state: &State) -> Option<u32> {
        let parts = pair.key_parts(seen.class);
        let values: Vec<KeyValue> = pair.key_values().collect();
        let part = |(at, value): (usize, &KeyValue)| self.part(parts.get(at), value, (seen, writer), state);
        let (keys, shown): (Vec<String>, Vec<String>) = values.iter().enumerate().map(part).unzip();
        self.number_of(keys.join(", "), shown.join(", "))
    }

    fn shown(&self) -> &[String] {
        &self.shown
    }

    fn reasons(&self) -> Vec<String> {
        self.symbols.as_ref().map_or_else(Vec::new, Symbolizer::reasons)
    }
}

impl KeyNames {
    /// For these pairs, in records of these traces.
    pub fn new(pairs: &[PairLatency], traces: &[Trace]) -> anyhow::Result<KeyNames> {
        let events = traces.iter().flat_map(|trace| trace.metadata.events.iter().map(move |event| (trace, event)));
        let forms: Vec<_> = events
            .enumerate()
            .map(|(class, (trace, event))| {
                let wanted = names_of(pairs, class);
                if wanted.is_empty() { HashMap::new() } else { forms_of(trace.metadata.fields(event), &wanted) }
            })
            .collect();
        let has_addresses = forms.iter().flat_map(HashMap::values).any(|form| matches!(form, KeyForm::Address(_)));
        let symbols = match has_addresses {
            true => {
                let mut symbols = Symbolizer::new(None, traces)?;
                symbols.learn_all(traces)?;
                Some(symbols)
            }
            false => None,
        };
        Ok(KeyNames { forms, symbols, ..KeyNames::default() })
    }

    /// The number of a key, which is shown so from now on.
    fn number_of(&mut self, key: String, shown: String) -> Option<u32> {
        if key.is_empty() {
            return None;
        }
        if let Some(&number) = self.numbers.get(&key) {
            let known = &mut self.shown[number as usize];
            if *known != shown {
                *known = shown;
            }
            return Some(number);
        }
        if self.shown.len() >= KEYS_MAX {
            return None;
        }
        let number = self.shown.len() as u32;
        self.shown.push(shown);
        self.numbers.insert(key, number);
        Some(number)
    }

    /// A part of a key: what keeps it apart, and how it is shown. A thread has the name that it has now.
    fn part(
        &self,
        part: Option<&KeyPart<'_>>,
        value: &KeyValue,
        (seen, writer): (&Seen<'_, '_>, &Writer),
        state: &State,
    ) -> (String, String) {
        let plain = value.to_string();
        let KeyValue::Integer(number) = *value else { return (plain.clone(), plain) };
        let shown = match part {
            Some(KeyPart::Context(Context::Tid)) if writer.tid.is_some_and(|tid| i128::from(tid) == number) => {
                return (plain, named(writer.name.as_str(), number));
            }
            Some(KeyPart::Context(Context::Tid | Context::Pid)) => return (plain, thread(state, number)),
            Some(KeyPart::Field(place)) if place.steps.is_empty() => {
                match self.forms.get(seen.class).and_then(|forms| forms.get(&place.name)) {
                    Some(KeyForm::Hexadecimal) => hexadecimal(number),
                    Some(KeyForm::Address(meaning)) => self.address(number, *meaning, seen, writer),
                    None if is_thread(&seen.record.event.name, &place.name) => return (plain, thread(state, number)),
                    None => plain,
                }
            }
            _ => plain,
        };
        (shown.clone(), shown)
    }

    /// The function at an address, else the address.
    fn address(&self, number: i128, meaning: Meaning, seen: &Seen<'_, '_>, writer: &Writer) -> String {
        let process = writer.process.or(writer.tid).and_then(|process| u32::try_from(process).ok());
        // What has a sign has the kernel's half below zero.
        let address = number as u64;
        let named =
            |symbols: &Symbolizer| symbols.of_address(seen.record.trace, process, seen.head.time, address, meaning);
        self.symbols.as_ref().and_then(named).unwrap_or_else(|| hexadecimal(number))
    }
}

/// Names of the fields that are parts of the keys of a class.
fn names_of(pairs: &[PairLatency], class: usize) -> Vec<String> {
    let parts = pairs.iter().flat_map(|pair| pair.key_parts(class));
    parts
        .filter_map(|part| match part {
            KeyPart::Field(place) => Some(place.name.clone()),
            KeyPart::Context(_) => None,
        })
        .collect()
}

fn forms_of(fields: Vec<kymo_ctf::read::FieldInfo<'_>>, wanted: &[String]) -> HashMap<String, KeyForm> {
    let form = |name: &str, kind: &FieldKind<'_>| match (fields::meaning(name, kind), kind) {
        (Some(meaning), _) => Some(KeyForm::Address(meaning)),
        (None, FieldKind::Int { base: Base::Hexadecimal, .. }) => Some(KeyForm::Hexadecimal),
        _ => None,
    };
    let is_wanted = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let wanted = fields.iter().filter(|field| !field.is_length && is_wanted(field.name));
    wanted.filter_map(|field| Some((field.name.to_owned(), form(field.name, &field.kind)?))).collect()
}

/// Whether a field of an event is the number of a thread. Those of programs may be numbers of a container.
fn is_thread(event: &str, field: &str) -> bool {
    event.starts_with("sched_") && THREADS.contains(&field)
}

/// A thread, or a process by its first thread.
fn thread(state: &State, number: i128) -> String {
    let known = i32::try_from(number).ok().and_then(|tid| state.thread(tid));
    named(known.map_or("", |thread| thread.name.as_str()), number)
}

/// `worker[17]`; the number alone where the name is not known.
fn named(name: &str, number: i128) -> String {
    if name.is_empty() { number.to_string() } else { format!("{name}[{number}]") }
}

fn hexadecimal(number: i128) -> String {
    format!("{:#x}", number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_numbers_up_to_a_bound() {
        let mut keys = KeyNames::default();
        let mut number = |key: &str| keys.number_of(key.to_owned(), key.to_owned());
        assert_eq!((number("7"), number("8"), number("7"), number("")), (Some(0), Some(1), Some(0), None));
        (0..KEYS_MAX).for_each(|key| {
            number(&format!("k{key}"));
        });
        assert_eq!((number("new"), number("8")), (None, Some(1)));
    }

    #[test]
    fn a_thread_that_changes_its_name_is_one_key() {
        let mut keys = KeyNames::default();
        let mut number = |shown: &str| keys.number_of("7".to_owned(), shown.to_owned());
        assert_eq!((number("sh[7]"), number("worker[7]")), (Some(0), Some(0)));
        assert_eq!(keys.shown(), ["worker[7]"]);
    }

    #[test]
    fn forms_are_those_of_the_fields() {
        assert_eq!((hexadecimal(0x10), hexadecimal(-1)), ("0x10".to_owned(), "0xffffffffffffffff".to_owned()));
        assert!(is_thread("sched_switch", "next_tid") && !is_thread("app:switch", "next_tid"));
        assert!(!is_thread("sched_switch", "next_prio"));
    }
}
