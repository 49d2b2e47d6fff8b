//! `--span 'A, B, by=K'`: spans between events that the user names.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use kymo_analyze::{Class, Doubt, Kind, Record as _, Sample, State};

use crate::verbs::analyze::feed::{Payload, Seen};

/// Beginnings that wait at most, of all spans.
const OPEN_MAX: usize = 65_536;

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Integer(i128),
    Text(String),
}

/// What a class is to one of the spans.
#[derive(Clone, Debug)]
struct Role {
    span: u16,
    begins: bool,
    /// Positions of the key's fields, and whether they are text.
    key: Vec<(usize, bool)>,
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
}

/// `A, B, by=K, L`.
struct Wanted<'t> {
    begin: &'t str,
    end: &'t str,
    key: Vec<&'t str>,
}

impl Spans {
    /// From their texts, held against the classes that there are.
    pub fn new(texts: &[String], classes: &[Class]) -> anyhow::Result<Spans> {
        let mut spans = Spans { roles: vec![Vec::new(); classes.len()], open: HashMap::new(), left: Left::default() };
        for (number, text) in texts.iter().enumerate() {
            let wanted = Wanted::parse(text)?;
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
            let key = key.iter().map(|name| {
                let field = class.field(&[name]).with_context(|| {
                    let fields: Vec<_> = class.fields.iter().map(|field| field.name.as_str()).collect();
                    format!("{event} has no field {name:?}; it has {}", fields.join(", "))
                })?;
                match field.kind {
                    Kind::Integer | Kind::Text => Ok((field.position, field.kind == Kind::Text)),
                    _ => bail!("{event}.{name} is neither an integer nor text, and so cannot be a key"),
                }
            });
            roles.push(Role { span, begins, key: key.collect::<anyhow::Result<_>>()? });
            is_there = true;
        }
        if !is_there {
            bail!("no event {event:?} in the trace; `kymo read --count` lists those that are");
        }
        Ok(())
    }

    /// Takes a record, and hands on the spans that end with it. An event that is both ends its span first.
    pub fn record(&mut self, seen: &Seen<'_, '_>, state: &State, take: &mut impl FnMut(u16, Sample)) {
        let Spans { roles, open, left } = self;
        for role in &roles[seen.class] {
            let payload = Payload(seen.record.payload);
            let value = |&(position, is_text): &(usize, bool)| match is_text {
                true => payload.text(position).map(|text| Value::Text(text.into_owned())),
                false => payload.integer(position).map(Value::Integer),
            };
            let Some(values) = role.key.iter().map(value).collect::<Option<Vec<_>>>() else { continue };
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
            from.into_iter().for_each(|from| take(role.span, sample(from, seen, state)));
        }
    }

    /// What was counted beside the samples.
    pub fn left(&self) -> Left {
        self.left
    }
}

fn sample(from: i64, seen: &Seen<'_, '_>, state: &State) -> Sample {
    let writer = seen.writer(state);
    let prio = writer.tid.and_then(|tid| state.thread(tid)).and_then(|thread| thread.prio);
    let to = seen.head.time;
    Sample {
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

impl<'t> Wanted<'t> {
    fn parse(text: &'t str) -> anyhow::Result<Wanted<'t>> {
        let (events, key) = match text.split_once("by=") {
            Some((events, key)) => (events, key.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()),
            None => (text, Vec::new()),
        };
        let events: Vec<&str> = events.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        match events[..] {
            [begin, end] => Ok(Wanted { begin, end, key }),
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
            let found = Wanted::parse(text).ok().map(|wanted| (wanted.begin, wanted.end, wanted.key));
            assert_eq!(found, expect, "{text}");
        }
    }
}
