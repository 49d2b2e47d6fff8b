// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--align`: takes out of traces what their clocks can be compared by, and brings them to the clock of the first one.
//! The reckoning is kymo-analyze's.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context as _, bail};
use kymo_analyze::{Class, Interval, Message, Refusal, Relation, align_common, align_messages, signed_duration};
use kymo_ctf::read::{Correction, Item, Reader, Trace};
use kymo_feed::{Classes, Payload};
use serde_json::{Value as Json, json};

use super::group::Group;
use crate::keys::{KeyFields, Value, split};

/// Keys that are kept of one event of one host.
const KEYS_MAX: usize = 1 << 22;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The events where messages are sent and received.
    Messages,
    /// One event that all hosts have.
    Common,
}

/// What the user asks for.
struct AlignRequest<'t> {
    mode: Mode,
    /// One or two.
    events: Vec<&'t str>,
    key: Vec<&'t str>,
}

type Key = Vec<Value>;

/// The times of one event of one host by key; `None` for a key that occurs again.
#[derive(Default)]
struct Sightings {
    by_key: HashMap<Key, Option<i64>>,
    left_out: u64,
}

/// Of one host, by event of [`AlignRequest::events`].
type Seen = Vec<Sightings>;

/// What was found of the clock of one trace.
pub struct ClockAlignment {
    name: String,
    /// The trace whose clock its own was compared with.
    by_way_of: String,
    relation: Relation,
    /// Beyond what the relation says: the uncertainty of the other trace's own clock, ns.
    inherited_ns: f64,
    correction: Correction,
    /// Records without the other side, keys that occurred again.
    alone: u64,
    again: u64,
    mode: Mode,
}

/// Brings all groups to the clock of the first one.
pub fn apply(traces: &mut [Trace], groups: &[Group], text: &str) -> anyhow::Result<Vec<ClockAlignment>> {
    let wanted = AlignRequest::parse(text)?;
    if groups.len() < 2 {
        bail!("--align: there is one trace only; name the traces of all hosts");
    }
    let seen = groups.iter().map(|group| look(&traces[group.traces.clone()], &wanted));
    let seen = seen.collect::<anyhow::Result<Vec<Seen>>>()?;
    for (number, event) in wanted.events.iter().enumerate() {
        if seen.iter().all(|seen| seen[number].by_key.is_empty()) {
            bail!("--align: none of the traces has a record of {event:?}; `kymo read --count DIR` lists what there is");
        }
    }
    let mut told: Vec<Option<ClockAlignment>> = groups.iter().map(|_| None).collect();
    let mut done = vec![0];
    while done.len() < groups.len() {
        let (one, found) = next(&seen, &done, &told, groups, wanted.mode)?;
        traces[groups[one].traces.clone()].iter_mut().for_each(|trace| trace.correct(found.correction));
        told[one] = Some(found);
        done.push(one);
    }
    Ok(told.into_iter().flatten().collect())
}

/// The first group that can be compared with one of those that are done; where there is none, why the first could not.
fn next(
    seen: &[Seen],
    done: &[usize],
    told: &[Option<ClockAlignment>],
    groups: &[Group],
    mode: Mode,
) -> anyhow::Result<(usize, ClockAlignment)> {
    let mut refused = None;
    for one in (0..groups.len()).filter(|one| !done.contains(one)) {
        for &to in done {
            match relate(seen, one, to, told[to].as_ref(), groups, mode) {
                Ok(found) => return Ok((one, found)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
    }
    Err(refused.unwrap_or_else(|| anyhow::anyhow!("--align: nothing to compare")))
}

impl<'t> AlignRequest<'t> {
    fn parse(text: &'t str) -> anyhow::Result<Self> {
        let (mode, rest) = match text.strip_prefix("common:") {
            Some(rest) => (Mode::Common, rest),
            None => (Mode::Messages, text),
        };
        let (events, key) = split(rest);
        let count = if mode == Mode::Common { 1 } else { 2 };
        if events.len() != count || key.is_empty() {
            bail!(
                "--align {text:?}: write it as 'SEND, RECEIVE, by=FIELD' or 'common:EVENT, by=FIELD', as in \
                 'net:send, net:receive, by=id'"
            );
        }
        Ok(Self { mode, events, key })
    }
}

/// Goes through the traces of one host.
fn look(traces: &[Trace], wanted: &AlignRequest<'_>) -> anyhow::Result<Seen> {
    let classes = Classes::new(traces);
    let roles = classes.list.iter().map(|class| role(class, wanted)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut seen: Seen = wanted.events.iter().map(|_| Sightings::default()).collect();
    if roles.iter().all(Option::is_none) {
        return Ok(seen);
    }
    let mut reader = Reader::new(traces);
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        let Some((number, fields)) = &roles[classes.of(&record)] else { continue };
        if let Some(key) = fields.of(&Payload(record.payload)) {
            seen[*number].add(key, clamp(record.ns));
        }
    }
    Ok(seen)
}

/// Which of the events a class is, and where its key lies.
fn role(class: &Class, wanted: &AlignRequest<'_>) -> anyhow::Result<Option<(usize, KeyFields)>> {
    let Some(number) = wanted.events.iter().position(|event| *event == class.name) else { return Ok(None) };
    Ok(Some((number, KeyFields::new(class, &wanted.key).context("--align")?)))
}

impl Sightings {
    fn add(&mut self, key: Key, time: i64) {
        if self.by_key.len() >= KEYS_MAX && !self.by_key.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        self.by_key.entry(key).and_modify(|known| *known = None).or_insert(Some(time));
    }

    fn again(&self) -> u64 {
        self.by_key.values().filter(|time| time.is_none()).count() as u64 + self.left_out
    }

    /// Times of the keys that both have, once each: here, there.
    fn both<'s>(&'s self, there: &'s Self) -> impl Iterator<Item = (&'s Key, i64, i64)> {
        self.by_key.iter().filter_map(|(key, time)| Some((key, (*time)?, (*there.by_key.get(key)?)?)))
    }
}

/// Compares the clock of `one` with that of `to`, which is known.
fn relate(
    seen: &[Seen],
    one: usize,
    to: usize,
    known: Option<&ClockAlignment>,
    groups: &[Group],
    mode: Mode,
) -> anyhow::Result<ClockAlignment> {
    let reference = |ns: i64| known.map_or(ns, |known| clamp(known.correction.apply(ns.into())));
    let mut pairs: Vec<(&Key, Message)> = Vec::new();
    let (send, last) = (0, seen[one].len() - 1);
    for (key, there, here) in seen[to][send].both(&seen[one][last]) {
        pairs.push((key, Message { reference: reference(there), other: here, to_other: true }));
    }
    if mode == Mode::Messages {
        for (key, here, there) in seen[one][send].both(&seen[to][last]) {
            pairs.push((key, Message { reference: reference(there), other: here, to_other: false }));
        }
    }
    // The same every time, whatever order the keys lay in.
    pairs.sort_by_key(|(key, message)| (message.other, message.reference, *key));
    let messages: Vec<Message> = pairs.iter().map(|(_, message)| *message).collect();
    let found = match mode {
        Mode::Messages => align_messages(&messages),
        Mode::Common => align_common(&Vec::from_iter(messages.iter().map(|pair| (pair.reference, pair.other)))),
    };
    let (name, by_way_of) = (groups[one].name(), groups[to].name());
    let relation = found.map_err(|refusal| refused(&refusal, &pairs, &name, &by_way_of))?;
    let all: u64 = seen[one].iter().map(|sightings| sightings.by_key.len() as u64).sum();
    let again = [one, to].iter().flat_map(|&host| &seen[host]).map(Sightings::again).sum();
    Ok(ClockAlignment {
        correction: correction(&relation),
        inherited_ns: known.map_or(0.0, |known| known.inherited_ns + known.relation.spread_ns),
        alone: all.saturating_sub(pairs.len() as u64),
        again,
        name,
        by_way_of,
        relation,
        mode,
    })
}

fn correction(relation: &Relation) -> Correction {
    let offset_ns = relation.whole_ns.saturating_add(relation.offset_ns.best.round() as i64);
    Correction { at_ns: relation.at, offset_ns, drift_ppt: (relation.drift_ppb.best * 1000.0).round() as i64 }
}

fn refused(refusal: &Refusal, pairs: &[(&Key, Message)], one: &str, to: &str) -> anyhow::Error {
    let message = |index: usize| {
        let (key, message) = &pairs[index];
        let key: Vec<String> = key.iter().map(Value::to_string).collect();
        let (from, to) = if message.to_other { (to, one) } else { (one, to) };
        format!("{} ({from} to {to})", key.join(", "))
    };
    match *refusal {
        Refusal::Nothing => anyhow::anyhow!(
            "--align: no record of {one} has its other side in {to}: look at the fields of both with `kymo read --event`"
        ),
        Refusal::OneWay { at_least, bound_ns, .. } => {
            let (from, into) = if at_least { (to, one) } else { (one, to) };
            let side = if at_least { "at least" } else { "at most" };
            anyhow::anyhow!(
                "--align: all {} messages go from {from} to {into}, so that only one side is known: {one} has to be shifted by {side} \
                 {}; record messages of the other direction too, or give what you know: --shift {one}=TIME",
                pairs.len(),
                signed_duration(bound_ns)
            )
        }
        Refusal::Crossed { one: first, other } => anyhow::anyhow!(
            "--align: no offset and drift of {one} fits all messages: {} and {} cannot both be received after they were sent; \
             is the key used again, or was a clock set while it was recorded?",
            message(first),
            message(other)
        ),
    }
}

impl fmt::Display for ClockAlignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Relation { offset_ns, drift_ppb, whole_ns, spread_ns, used, left_out, .. } = &self.relation;
        let whole = |ns: f64| signed_duration(ns + *whole_ns as f64);
        let ppm = |ppb: f64| format!("{:+.3}", ppb / 1000.0);
        write!(f, "{} is shifted by {} to the clock of {}", self.name, whole(offset_ns.best), self.by_way_of)?;
        write!(f, " ({} to {})", whole(offset_ns.low), whole(offset_ns.high))?;
        write!(f, ", drift {} ppm", ppm(drift_ppb.best))?;
        write!(f, " ({} to {})", ppm(drift_ppb.low), ppm(drift_ppb.high))?;
        let spread = signed_duration(spread_ns + self.inherited_ns);
        write!(f, "; at most {} off from first to last; by ", spread.trim_start_matches('+'))?;
        match self.mode {
            Mode::Messages => write!(f, "{} messages there and {} back", used[0], used[1])?,
            Mode::Common => write!(f, "{} common events", used[0])?,
        }
        for (count, what) in [
            (left_out.len() as u64, "far from the others"),
            (self.again, "with a key used again"),
            (self.alone, "alone"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl ClockAlignment {
    /// The same for a program.
    pub fn json(&self) -> Json {
        let relation = &self.relation;
        let whole = relation.whole_ns as f64;
        let interval =
            |interval: &Interval, by: f64| json!([interval.low + by, interval.best + by, interval.high + by]);
        json!({
            "trace": self.name,
            "to_clock_of": self.by_way_of,
            "at": relation.at,
            "shift_ns": self.correction.offset_ns,
            "offset_ns": interval(&relation.offset_ns, whole),
            "drift_ppb": interval(&relation.drift_ppb, 0.0),
            "uncertain_ns": relation.spread_ns + self.inherited_ns,
            "pairs": relation.used,
            "left_out": relation.left_out.len(),
            "keys_again": self.again,
            "alone": self.alone,
        })
    }
}

/// Times beyond 1678 to 2262 are taken as the end of that.
fn clamp(ns: i128) -> i64 {
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared() {
        for (text, expect) in [
            ("a:s, a:r, by=id", Some((Mode::Messages, vec!["a:s", "a:r"], vec!["id"]))),
            ("common:a:s,by=id,n", Some((Mode::Common, vec!["a:s"], vec!["id", "n"]))),
            ("a:s, a:r", None),
            ("a:s, by=id", None),
            ("common:a, b, by=id", None),
            ("", None),
        ] {
            let found = AlignRequest::parse(text).ok().map(|wanted| (wanted.mode, wanted.events, wanted.key));
            assert_eq!(found, expect, "{text}");
        }
    }
}
