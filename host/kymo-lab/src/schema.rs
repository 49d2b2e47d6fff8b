//! The form of a result as a JSON Schema, `spec/lab-result.schema.json`, and a check of documents against it.
//!
//! The check knows the words that the schema uses, and refuses others: it is for holding schema and code together, not for schemas of
//! others.

use serde_json::{Map, Value};

/// The schema.
pub const TEXT: &str = include_str!("../../../spec/lab-result.schema.json");

/// Faults that are listed; a document may be wrong in every bucket.
const FAULTS_MAX: usize = 20;
/// Words that say nothing of a document.
const SILENT: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// What of a document is not as the schema says: a line each, with the path.
pub fn check(document: &Value) -> Vec<String> {
    match serde_json::from_str(TEXT) {
        Ok(schema) => against(&schema, document),
        Err(error) => vec![format!("the schema is no JSON: {error}")],
    }
}

fn against(schema: &Value, document: &Value) -> Vec<String> {
    let mut check = Check { root: schema, faults: Vec::new() };
    check.value(schema, document, "$");
    check.faults
}

struct Check<'a> {
    root: &'a Value,
    faults: Vec<String>,
}

impl<'a> Check<'a> {
    fn fault(&mut self, path: &str, what: impl std::fmt::Display) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(format!("{path}: {what}"));
        }
    }

    fn value(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let Value::Object(words) = schema else {
            if schema == &Value::Bool(false) {
                self.fault(path, "is not allowed");
            }
            return;
        };
        for (word, says) in words {
            match word.as_str() {
                "$ref" => self.reference(says, value, path),
                "anyOf" => self.any(says, value, path),
                "type" if !has_type(says, value) => self.fault(path, format!("is not of type {says}")),
                "const" if says != value => self.fault(path, format!("is not {says}")),
                "enum" if !says.as_array().is_some_and(|all| all.contains(value)) => {
                    self.fault(path, format!("is none of {says}"));
                }
                "minimum" if is_beyond(value, says, |value, bound| value < bound) => {
                    self.fault(path, format!("is below {says}"))
                }
                "maximum" if is_beyond(value, says, |value, bound| value > bound) => {
                    self.fault(path, format!("is above {says}"))
                }
                "minItems" if items(value).is_some_and(|have| Some(have) < says.as_u64()) => {
                    self.fault(path, "has too few items")
                }
                "maxItems" if items(value).is_some_and(|have| Some(have) > says.as_u64()) => {
                    self.fault(path, "has too many items")
                }
                "items" => {
                    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.value(says, item, &format!("{path}[{at}]"));
                    }
                }
                "required" => {
                    for name in says.as_array().into_iter().flatten().filter_map(Value::as_str) {
                        if value.as_object().is_some_and(|object| !object.contains_key(name)) {
                            self.fault(path, format!("has no {name}"));
                        }
                    }
                }
                "properties" | "additionalProperties" => {}
                "type" | "const" | "enum" | "minimum" | "maximum" | "minItems" | "maxItems" => {}
                word if SILENT.contains(&word) => {}
                word => self.fault(path, format!("the schema has the word {word}, which this check does not know")),
            }
        }
        if let Value::Object(object) = value {
            self.members(words, object, path);
        }
    }

    fn members(&mut self, words: &'a Map<String, Value>, object: &Map<String, Value>, path: &str) {
        let known = words.get("properties").and_then(Value::as_object);
        for (name, member) in object {
            let path = format!("{path}.{name}");
            if let Some(schema) = known.and_then(|known| known.get(name)).or_else(|| words.get("additionalProperties"))
            {
                self.value(schema, member, &path);
            }
        }
    }

    fn reference(&mut self, to: &Value, value: &Value, path: &str) {
        let target = to.as_str().and_then(|to| self.root.pointer(to.strip_prefix('#')?));
        match target {
            Some(schema) => self.value(schema, value, path),
            None => self.fault(path, format!("the schema refers to {to}, which it does not have")),
        }
    }

    fn any(&mut self, schemas: &'a Value, value: &Value, path: &str) {
        let mut least: Option<Vec<String>> = None;
        for schema in schemas.as_array().into_iter().flatten() {
            let mut one = Check { root: self.root, faults: Vec::new() };
            one.value(schema, value, path);
            if one.faults.is_empty() {
                return;
            }
            // The faults of what it is rather meant to be: of null there is one.
            let is_null = schema.get("type").and_then(Value::as_str) == Some("null");
            if !is_null || least.is_none() {
                least = Some(one.faults);
            }
        }
        least.into_iter().flatten().for_each(|fault| {
            if self.faults.len() < FAULTS_MAX {
                self.faults.push(fault);
            }
        });
    }
}

fn items(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn is_beyond(value: &Value, bound: &Value, is: impl Fn(f64, f64) -> bool) -> bool {
    value.as_f64().zip(bound.as_f64()).is_some_and(|(value, bound)| is(value, bound))
}

/// One type, or a list of them.
fn has_type(says: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    };
    says.as_array().map_or_else(|| is(says), |names| names.iter().any(is))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::causes::{Budget, BudgetPart, Causes, Cluster, Level, Period, Watching};
    use crate::{Ended, Floor, Overflow, Record, Series, Severity, Source, Thread, Worst, caveat, import};

    /// A record with everything that one can have.
    fn full() -> Record {
        let mut record = Record::new("kymo", "wakeup");
        let mut series = Series::new("wakeup");
        series.histogram.add(5_000, 9);
        (series.count, series.cpu, series.bucket_ns) = (10, Some(1), Some(1000));
        (series.min, series.max, series.mean, series.std) = (Some(5_000), Some(5_000), Some(5e3), Some(0.0));
        series.overflow = Some(Overflow { count: 1, beyond_ns: 400_000, computed: true });
        let thread = Thread { tid: 7, policy: "SCHED_FIFO".into(), priority: 80, affinity: "1".into(), locked: true };
        series.thread = Some(thread);
        let part = BudgetPart {
            cause: "lock_owner".into(),
            name: "low".into(),
            tid: Some(5),
            priority: Some("rt 80".into()),
            behind: Some("middle".into()),
            ns: 5_000,
            pieces: 1,
            seen: true,
        };
        let budget =
            Budget { at_ns: Some(-1), signature: "x".into(), parts: vec![part], faults: 0, doubt: vec!["lost".into()] };
        let worst = Worst { value_ns: 5_000, cycles: Some(1), sample: Some(0), tid: Some(7), budget: Some(budget) };
        series.worst.push(worst);
        record.series.push(series);
        record.caveats.push(caveat("not-fifo", "x"));
        record.counts.insert("out_of_order".into(), 1);
        (record.floor, record.ended) = (Some(Floor { clock_read_ns: 9.5, loop_ns: 11.0 }), Ended::Time);
        record.source = Some(Source { file: "f".into(), format: "npt".into() });
        let period = Some(Period { period_ns: 5, p: 0.004, spikes: 6 });
        let signature = "lock_owner low".to_owned();
        record.causes = Some(Causes {
            level: Level::Tracepoints,
            cannot_see: vec!["x".into()],
            asked: 20,
            explained: 1,
            unexplained: vec!["x".into()],
            clusters: vec![Cluster { signature, count: 1, worst_ns: 5_000, cpus: vec![1], share: 1.0, period }],
            period,
            watching: Watching {
                outcome: "no_difference".into(),
                text: "x".into(),
                slots: [5, 5],
                p999_ns: Some([1.0, 2.0]),
                snapshots: 1,
                snapshot_ns_max: 2,
            },
        });
        assert_eq!(record.caveats[0].severity, Severity::Fatal);
        record
    }

    #[test]
    fn records_and_all_imports_are_as_the_schema_says() {
        assert_eq!(check(&serde_json::to_value(full()).unwrap()), [""; 0]);
        assert_eq!(check(&serde_json::to_value(Record::new("kymo", "npt")).unwrap()), [""; 0]);
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
        let mut checked = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "expect") {
                continue;
            }
            let record = import(&path.to_string_lossy(), &std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(check(&serde_json::to_value(record).unwrap()), [""; 0], "{}", path.display());
            checked += 1;
        }
        assert!(checked > 10, "{checked} files");
    }

    /// Every member of a full record, renamed, removed, or of another type, is a fault: none is left to chance.
    #[test]
    fn a_changed_member_is_a_fault() {
        let whole = serde_json::to_value(full()).unwrap();
        let mut changed = 0;
        each_member(&whole, "", &mut |pointer, name| {
            let is_free =
                ["/options", "/environment", "/meanwhile", "/counts"].iter().any(|free| pointer.starts_with(free));
            if is_free {
                return;
            }
            let member = |document: &mut Value| -> Map<String, Value> {
                document.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap().clone()
            };
            let with = |members: Map<String, Value>| {
                let mut document = whole.clone();
                *document.pointer_mut(pointer).unwrap() = Value::Object(members);
                check(&document)
            };
            let mut renamed = member(&mut whole.clone());
            let value = renamed.remove(name).unwrap();
            let is_optional = ["causes", "tid", "budget"].contains(&name);
            assert!(is_optional || !with(renamed.clone()).is_empty(), "{pointer}/{name} removed");
            renamed.insert(format!("{name}_"), value);
            assert!(!with(renamed).is_empty(), "{pointer}/{name} renamed");
            let mut other = member(&mut whole.clone());
            let strange = if other[name].is_object() { Value::from(3) } else { serde_json::json!({ "x": 1 }) };
            other.insert(name.to_owned(), strange);
            assert!(!with(other).is_empty(), "{pointer}/{name} of another type");
            changed += 1;
        });
        assert!(changed > 70, "{changed} members");
    }

    fn each_member(value: &Value, pointer: &str, change: &mut dyn FnMut(&str, &str)) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                change(pointer, name);
                each_member(member, &format!("{pointer}/{name}"), change);
            }),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| each_member(item, &format!("{pointer}/{at}"), change));
            }
            _ => {}
        }
    }

    #[test]
    fn words_that_are_not_known_are_refused() {
        let schema = serde_json::json!({ "pattern": "x" });
        assert!(against(&schema, &Value::Null)[0].contains("pattern"));
        assert!(against(&serde_json::json!({ "$ref": "#/no" }), &Value::Null)[0].contains("refers to"));
    }
}
