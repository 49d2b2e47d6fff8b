// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a POST of the Trace Server Protocol: `{"parameters": {...}}`. Unknown keys are passed over, as the
//! protocol wants; what is known and makes no sense is refused.

use kymo_query::Opened;
use serde_json::{Map, Value};

use super::reply::Failure;

/// Columns of pixels that a question takes at most [spec/view.md 3].
const PIXELS_MAX: i64 = 8192;
/// Numbers in a list at most.
const LIST_MAX: usize = 10_000;

/// A stretch of time and how finely it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First time, ns since 1970.
    pub start: i64,
    /// Last time, which belongs to it.
    pub end: i64,
    /// Stretches between sample times.
    pub pixels: i64,
}

impl Range {
    /// As parameters of a question.
    pub fn window(&self) -> Vec<(&'static str, String)> {
        vec![("from", self.start.to_string()), ("to", self.end.saturating_add(1).to_string())]
    }

    /// The same, with the number of pixels under that name.
    pub fn divided(&self, name: &'static str) -> Vec<(&'static str, String)> {
        let mut pairs = self.window();
        pairs.push((name, self.pixels.to_string()));
        pairs
    }
}

/// The parameters of a body.
#[derive(Clone, Debug, Default)]
pub struct Asked(Map<String, Value>);

impl Asked {
    /// Of a body; without `parameters` there are none.
    pub fn of(body: &Value) -> Asked {
        Asked(body["parameters"].as_object().cloned().unwrap_or_default())
    }

    /// A value as it came.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// A whole number that is not negative.
    pub fn count(&self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| Failure::wrong(&format!("{name}: a whole number, not below 0")))
    }

    /// A list of whole numbers; empty where it is not there.
    pub fn numbers(&self, name: &str) -> Result<Vec<i64>, Failure> {
        let Some(value) = self.value(name) else { return Ok(Vec::new()) };
        let list = value.as_array().filter(|list| list.len() <= LIST_MAX);
        let all = list.and_then(|list| list.iter().map(Value::as_i64).collect());
        all.ok_or_else(|| Failure::wrong(&format!("{name}: a list of at most {LIST_MAX} whole numbers")))
    }

    /// `requested_timerange`; the whole trace where it is not there.
    pub fn range(&self, of: &Opened) -> Result<Range, Failure> {
        let (first, last) = of.bounds.unwrap_or((0, 0));
        let Some(range) = self.value("requested_timerange") else {
            return Ok(Range { start: first, end: last, pixels: 1000 });
        };
        let wrong = || Failure::wrong("requested_timerange: start and end, ns since 1970, start not after end");
        let (start, end) = range["start"].as_i64().zip(range["end"].as_i64()).ok_or_else(wrong)?;
        if start > end {
            return Err(wrong());
        }
        let times = range["nbTimes"].as_i64().or_else(|| range["nbSamples"].as_i64()).unwrap_or(2);
        Ok(Range { start, end, pixels: times.saturating_sub(1).clamp(1, PIXELS_MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn none() -> Opened {
        Opened::new(Vec::new(), kymo_index::Indexes::default(), String::new(), Vec::new())
    }

    #[test]
    fn ranges_have_an_order_and_a_bound() {
        let range = |value: Value| Asked::of(&json!({ "parameters": { "requested_timerange": value } })).range(&none());
        let big = 1_700_000_000_123_456_789i64;
        let found = range(json!({ "start": big, "end": big + 9, "nbTimes": 11, "other": [] })).unwrap();
        assert_eq!(found, Range { start: big, end: big + 9, pixels: 10 });
        assert_eq!(found.divided("bins")[1].1, (big + 10).to_string());
        assert_eq!(range(json!({ "start": 1, "end": 1 })).unwrap().pixels, 1);
        assert_eq!(range(json!({ "start": 1, "end": 2, "nbTimes": 1_000_000 })).unwrap().pixels, PIXELS_MAX);
        for wrong in [json!({ "start": 2, "end": 1 }), json!({ "start": 1.5, "end": 2 }), json!(7), json!({ "end": 2 })]
        {
            assert_eq!(range(wrong.clone()).map_err(|error| error.status()), Err(400), "{wrong}");
        }
    }

    #[test]
    fn lists_are_numbers_and_not_too_long() {
        let of = |value: Value| Asked::of(&json!({ "parameters": { "requested_items": value } }));
        assert_eq!(of(json!([3, -1])).numbers("requested_items"), Ok(vec![3, -1]));
        assert_eq!(of(Value::Null).numbers("requested_items"), Ok(vec![]));
        assert!(of(json!(["a"])).numbers("requested_items").is_err());
        assert!(of(json!(vec![1; LIST_MAX + 1])).numbers("requested_items").is_err());
        assert!(Asked::of(&json!([])).numbers("requested_items").is_ok());
    }
}
