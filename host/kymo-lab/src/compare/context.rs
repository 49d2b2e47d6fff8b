// SPDX-License-Identifier: MIT OR Apache-2.0
//! What else differs between two groups of runs: environment, options, floors, lengths, order; and what was doubtful in
//! them already.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::{Caveat, Ended, Record, Severity};

/// How much larger one of two floors, or lengths, may be without a word.
const ALIKE: f64 = 1.2;

/// Something of the environment that is another in B than in A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Name, with dots where it lies in an object.
    pub key: String,
    /// All values in A, as JSON; `null` where it is not there.
    pub a: Vec<Value>,
    /// All values in B.
    pub b: Vec<Value>,
}

/// A caveat, and how many runs of each group have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Merged {
    /// Of the first run that has it.
    #[serde(flatten)]
    pub caveat: Caveat,
    /// Runs of A.
    pub a: usize,
    /// Runs of B.
    pub b: usize,
}

/// Keys of which no run of one group has a value that a run of the other has. What varies within a group (load, steal)
/// is left out: it differs always.
pub(super) fn environment(a: &[Record], b: &[Record]) -> Vec<Difference> {
    let all = |records: &[Record]| -> Vec<BTreeMap<String, Value>> {
        records.iter().map(|record| flat(&record.environment)).collect()
    };
    differences(&all(a), &all(b))
}

fn differences(a: &[BTreeMap<String, Value>], b: &[BTreeMap<String, Value>]) -> Vec<Difference> {
    let keys: BTreeSet<&String> = a.iter().chain(b).flat_map(BTreeMap::keys).collect();
    let mut found = Vec::new();
    for key in keys {
        let (of_a, of_b) = (values(a, key), values(b, key));
        let varies = |values: &[Value]| values.len() > 2 || (values.len() > 1 && values.iter().any(Value::is_number));
        if varies(&of_a) || varies(&of_b) || of_a.iter().any(|value| of_b.contains(value)) {
            continue;
        }
        found.push(Difference { key: key.clone(), a: of_a, b: of_b });
    }
    found
}

/// Different values of a key, in the order of the runs.
fn values(of: &[BTreeMap<String, Value>], key: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in of.iter().map(|one| one.get(key).unwrap_or(&Value::Null)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

fn flat(from: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut to = BTreeMap::new();
    from.iter().for_each(|(key, value)| flatten(key.clone(), value, &mut to));
    to
}

/// Depth is bounded by the reader of JSON.
fn flatten(key: String, value: &Value, to: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| flatten(format!("{key}.{name}"), value, to)),
        other => {
            to.insert(key, other.clone());
        }
    }
}

/// Caveats of all runs, the gravest first, and what there is to say of the two groups.
pub(super) fn caveats(a: &[Record], b: &[Record]) -> Vec<Merged> {
    let mut merged: Vec<Merged> = Vec::new();
    let runs = a.iter().map(|record| (record, false)).chain(b.iter().map(|record| (record, true)));
    for (record, is_b) in runs {
        let mut seen = BTreeSet::new();
        for caveat in record.caveats.iter().filter(|caveat| seen.insert(&caveat.id)) {
            count(&mut merged, caveat.clone(), usize::from(!is_b), usize::from(is_b));
        }
        if record.ended == Ended::Signal && !seen.contains(&"interrupted".to_owned()) {
            let caveat = caveat(
                "interrupted",
                Severity::Medium,
                "the run was interrupted: it is shorter than it was meant to be".to_owned(),
                "run it to its end",
            );
            count(&mut merged, caveat, usize::from(!is_b), usize::from(is_b));
        }
    }
    for caveat in of_groups(a, b) {
        merged.push(Merged { caveat, a: a.len(), b: b.len() });
    }
    merged.sort_by_key(|merged| std::cmp::Reverse(merged.caveat.severity));
    merged
}

fn count(merged: &mut Vec<Merged>, caveat: Caveat, a: usize, b: usize) {
    match merged.iter_mut().find(|merged| merged.caveat.id == caveat.id) {
        Some(known) => (known.a, known.b) = (known.a + a, known.b + b),
        None => merged.push(Merged { caveat, a, b }),
    }
}

pub(super) fn caveat(id: &str, severity: Severity, text: String, next: &str) -> Caveat {
    Caveat { id: id.to_owned(), severity, text, next: next.to_owned() }
}

fn of_groups(a: &[Record], b: &[Record]) -> Vec<Caveat> {
    let mut found = Vec::new();
    if a.is_empty() || b.is_empty() {
        return found;
    }
    let options = |records: &[Record]| -> Vec<BTreeMap<String, Value>> {
        records.iter().map(|record| flat(&record.options)).collect()
    };
    for different in differences(&options(a), &options(b)) {
        let text = format!("option {}: {} in A, {} in B", different.key, shown(&different.a), shown(&different.b));
        let next = "look whether this is the change that you compare; otherwise run both with the same options";
        found.push(caveat("options-differ", Severity::Medium, text, next));
    }
    for (what, of) in [
        ("tool", (|record: &Record| record.tool.clone()) as fn(&Record) -> String),
        ("version", |record| record.version.clone()),
        ("method", |record| record.method.clone()),
    ] {
        let sides = [a, b].map(|side| side.iter().map(of).collect::<BTreeSet<String>>());
        if sides[0].is_disjoint(&sides[1]) {
            let [a, b] = sides.map(|side| side.into_iter().collect::<Vec<_>>().join(", "));
            let text = format!("measured with another {what}: {a:?} in A, {b:?} in B");
            let next = "measure both with the same tool; a difference may be that of the tools";
            found.push(caveat("method-differs", Severity::High, text, next));
        }
    }
    found.extend(floors(a, b));
    found.extend(lengths(a, b));
    if a.iter().any(|record| b.contains(record)) {
        let text = "a run is in both groups".to_owned();
        found.push(caveat("same-run", Severity::High, text, "give each file to one group only"));
    }
    found
}

pub(crate) fn shown(values: &[Value]) -> String {
    let texts: Vec<String> = values
        .iter()
        .map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Null => "none".to_owned(),
            other => other.to_string(),
        })
        .collect();
    texts.join(" or ")
}

fn floors(a: &[Record], b: &[Record]) -> Option<Caveat> {
    let side = |records: &[Record]| -> Option<f64> {
        let all: Option<Vec<f64>> = records.iter().map(|record| record.floor.map(|floor| floor.loop_ns)).collect();
        median(all?)
    };
    let (a, b) = (side(a)?, side(b)?);
    (a.max(b) > a.min(b) * ALIKE).then(|| {
        let text = format!("an empty measurement takes {a:.1} ns in A, {b:.1} ns in B");
        caveat(
            "floor-differs",
            Severity::Medium,
            text,
            "differences of that size are of the tool, not of what it measures",
        )
    })
}

/// A longer run has the larger maximum.
fn lengths(a: &[Record], b: &[Record]) -> Option<Caveat> {
    let side = |records: &[Record]| {
        let samples = |record: &Record| record.series.iter().map(|series| series.count as f64).sum::<f64>();
        median(records.iter().map(samples).collect())
    };
    let (a, b) = (side(a)?, side(b)?);
    (a.max(b) > a.min(b) * ALIKE).then(|| {
        let text = format!("runs of A have {a:.0} samples, of B {b:.0} (median)");
        let next = "the larger of two numbers of samples has the larger maximum: give both groups the same length";
        caveat("length-differs", Severity::High, text, next)
    })
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = values.len();
    (at > 0).then(|| (values[(at - 1) / 2] + values[at / 2]) / 2.0)
}

/// All runs of one group began before any of the other; `None` where times are not known.
pub(super) fn is_blocked(a: &[&Record], b: &[&Record]) -> Option<bool> {
    let times = |side: &[&Record]| side.iter().map(|record| record.started_ns).collect::<Option<Vec<u64>>>();
    let (a, b) = (times(a)?, times(b)?);
    let before = |one: &[u64], other: &[u64]| Some(one.iter().max()? < other.iter().min()?);
    Some(before(&a, &b)? || before(&b, &a)?)
}
