// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form of a result of the laboratory as a JSON Schema, `spec/lab-result.schema.json`, and a check of documents
//! against it.
//!
//! The check knows the words that the schema uses, and refuses others: it is for holding schema and code together, not
//! for schemas of others.

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
    use super::*;

    #[test]
    fn words_that_are_not_known_are_refused() {
        let schema = serde_json::json!({ "pattern": "x" });
        assert!(against(&schema, &Value::Null)[0].contains("pattern"));
        assert!(against(&serde_json::json!({ "$ref": "#/no" }), &Value::Null)[0].contains("refers to"));
    }
}
