// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--span 'A, B, by=K'`: spans between events that the user names.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use kymo_analyze::{Class, Doubt, Sample, State};

use crate::verbs::analyze::feed::{Payload, Seen};
use crate::verbs::analyze::keys::{KeyFields, Value, split};

/// Beginnings that wait at most, of all spans.
const OPEN_MAX: usize = 65_536;
/// Keys that are kept apart at most; the rest is one series.
const KEYS_MAX: usize = 4096;

/// What a class is to one of the spans.
#[derive(Clone, Debug)]
struct Role {
    span: u16,
    begins: bool,
    key: KeyFields,
}

/// What was counted beside the samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// Ends without beginning.
    pub unmatched: u64,
    /// Beginnings without end.
    pub open: u64,
    /// Beginnings that were too many.
    pub dropped: u64,
}

/// All spans of a run.
pub struct Spans {
    /// By class.
    roles: Vec<Vec<Role>>,
    open: HashMap<(u16, Vec<Value>), Vec<i64>>,
    left: Left,
    /// Numbers of keys, where they are kept apart.
    numbers: Option<HashMap<Vec<Value>, u32>>,
    /// How keys are shown, by number.
    shown: Vec<String>,
}

/// `A, B, by=K, L`.
struct WantedSpan<'t> {
    begin: &'t str,
    end: &'t str,
    key: Vec<&'t str>,
}

impl Spans {
    /// From their texts, held against the classes that there are. `by_key`: keys are kept apart.
    pub fn new(texts: &[String], classes: &[Class], by_key: bool) -> anyhow::Result<Spans> {
        let mut spans = Spans {
            roles: vec![Vec::new(); classes.len()],
            open: HashMap::new(),
            left: Left::default(),
            numbers: by_key.then(HashMap::new),
            shown: Vec::new(),
        };
        for (number, text) in texts.iter().enumerate() {
            let wanted = WantedSpan::parse(text)?;
            let number = u16::try_from(number).context("too many spans")?;
            for (event, begins) in [(wanted.end, false), (wanted.begin, true)] {
                spans.find(number, event, begins, &wanted.key, classes).with_context(|| format!("--span {text:?}"))?;
            }
        }
        Ok(spans)
    }

    fn find(&mut self, span: u16, event: &str, begins: bool, key: &[&str], classes: &[Class]) -> anyhow::Result<()> {
        let mut is_there = false;
        for (class, roles) in classes.iter().zip(&mut self.roles).filter(|(class, _)| class.name == event) {
            roles.push(Role { span, begins, key: KeyFields::new(class, key)? });
            is_there = true;
        }
        if !is_there {
            bail!("no event {event:?} in the trace; `kymo read --count` lists those that are");
        }
        Ok(())
    }

    /// Takes a record, and hands on the spans that end with it: their number, that of the key where keys are kept
    /// apart, and the sample. An event that is both ends its span first.
    pub fn record(&mut self, seen: &Seen<'_, '_>, state: &State, take: &mut impl FnMut(u16, Option<u32>, Sample)) {
        let Spans { roles, open, left, numbers, shown } = self;
        for role in &roles[seen.class] {
            let payload = Payload(seen.record.payload);
            let Some(values) = role.key.of(&payload) else { continue };
            let key = (role.span, values);
            if role.begins {
                if left.open as usize >= OPEN_MAX {
                    left.dropped += 1;
                    continue;
                }
                left.open += 1;
                open.entry(key).or_default().push(seen.head.time);
                continue;
            }
            let Some(stack) = open.get_mut(&key) else {
                left.unmatched += 1;
                continue;
            };
            let from = stack.pop();
            if stack.is_empty() {
                open.remove(&key);
            }
            left.open -= u64::from(from.is_some());
            let Some(from) = from else { continue };
            let number = numbers.as_mut().and_then(|numbers| number_of(numbers, shown, key.1));
            take(role.span, number, sample(from, seen, state));
        }
    }

    /// How keys are shown, by number.
    pub fn keys(&self) -> &[String] {
        &self.shown
    }

    /// What was counted beside the samples.
    pub fn left(&self) -> Left {
        self.left
    }
}

/// The number of a key; `None` where there are too many, or it has no fields.
fn number_of(numbers: &mut HashMap<Vec<Value>, u32>, shown: &mut Vec<String>, key: Vec<Value>) -> Option<u32> {
    if key.is_empty() {
        return None;
    }
    if let Some(&number) = numbers.get(&key) {
        return Some(number);
    }
    if shown.len() >= KEYS_MAX {
        return None;
    }
    let parts: Vec<String> = key.iter().map(Value::to_string).collect();
    shown.push(parts.join(", "));
    numbers.insert(key, shown.len() as u32 - 1);
    Some(shown.len() as u32 - 1)
}

fn sample(from: i64, seen: &Seen<'_, '_>, state: &State) -> Sample {
    let writer = seen.writer(state);
    let prio = writer.tid.and_then(|tid| state.thread(tid)).and_then(|thread| thread.prio);
    let to = seen.head.time;
    Sample {
        late_ns: 0,
        value_ns: to.saturating_sub(from).max(0) as u64,
        from,
        to,
        tid: writer.tid,
        process: writer.process,
        name: writer.name,
        prio,
        cpu: writer.cpu,
        waker: None,
        owner: None,
        doubt: Doubt::CLOCK.when(to < from),
    }
}

impl<'t> WantedSpan<'t> {
    fn parse(text: &'t str) -> anyhow::Result<WantedSpan<'t>> {
        let (events, key) = split(text);
        match events[..] {
            [begin, end] => Ok(WantedSpan { begin, end, key }),
            _ => bail!(
                "--span {text:?}: write it as 'BEGIN, END' or 'BEGIN, END, by=FIELD', as in 'req:begin, req:end, by=id'"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_two_events_and_keys() {
        for (text, expect) in [
            ("a:b,a:c", Some(("a:b", "a:c", vec![]))),
            (" a , b , by=id", Some(("a", "b", vec!["id"]))),
            ("a, b, by=id, name", Some(("a", "b", vec!["id", "name"]))),
            ("a", None),
            ("a,b,c", None),
        ] {
            let found = WantedSpan::parse(text).ok().map(|wanted| (wanted.begin, wanted.end, wanted.key));
            assert_eq!(found, expect, "{text}");
        }
    }
}
