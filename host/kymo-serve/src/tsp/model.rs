// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of the Trace Server Protocol, as its clients read them. Times are integers of any length; every other
//! number is one that JavaScript holds exactly, in at most 15 characters: some clients refuse the rest.

use serde_json::{Map, Number, Value, json};

/// Characters of a number at most.
const CHARACTERS_MAX: usize = 15;

/// What is answered, as a whole.
pub fn envelope(model: Value) -> Value {
    json!({ "model": model, "status": "COMPLETED", "statusMessage": "Completed" })
}

/// A value of a chart: as many digits as fit. What is no number is 0.
pub fn y(value: f64) -> Value {
    if !value.is_finite() {
        return json!(0);
    }
    if value.fract() == 0.0 && value.abs() < 1e13 {
        return json!(value as i64);
    }
    let rounded = |digits: usize| format!("{:.*e}", digits - 1, value).parse().ok().and_then(Number::from_f64);
    let fits = |number: &Number| number.to_string().len() <= CHARACTERS_MAX;
    (1..=15).rev().filter_map(rounded).find(fits).map_or(json!(0), Value::Number)
}

/// A count that is no time.
pub fn count(value: u64) -> u64 {
    value.min(1 << 52)
}

/// A column of a tree.
pub fn header(name: &str, data_type: &str) -> Value {
    json!({ "name": name, "tooltip": "", "dataType": data_type })
}

/// A row of a tree; without a parent -1.
pub fn entry(id: i64, parent: i64, mut labels: Vec<String>) -> Map<String, Value> {
    // An empty first label moves the rows of viewers.
    match labels.first_mut() {
        Some(first) if first.trim().is_empty() => *first = "?".to_owned(),
        Some(_) => {}
        None => labels.push("?".to_owned()),
    }
    let pairs = [("id", json!(id)), ("parentId", json!(parent)), ("labels", json!(labels)), ("hasData", json!(true))];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A tree.
pub fn tree(headers: Vec<Value>, entries: Vec<Map<String, Value>>) -> Value {
    let entries: Vec<Value> = entries.into_iter().map(Value::Object).collect();
    json!({ "headers": headers, "entries": entries, "autoExpandLevel": -1 })
}

/// A style that is another one with nothing changed.
pub fn style(parent: &str) -> Value {
    json!({ "parentKey": parent, "values": {} })
}

/// A chart's line.
pub fn series(id: i64, name: &str, kind: &str, unit: &str, points: &[(i64, f64)]) -> Value {
    let data_type = if unit == "ns" { "DURATION" } else { "NUMBER" };
    json!({
        "seriesId": id, "seriesName": name,
        "xValues": points.iter().map(|(at, _)| *at).collect::<Vec<i64>>(),
        "yValues": points.iter().map(|(_, value)| y(*value)).collect::<Vec<Value>>(),
        "xValuesDescription": { "label": "Time", "unit": "ns", "dataType": "TIMESTAMP" },
        "yValuesDescription": { "label": name, "unit": unit, "dataType": data_type },
        "style": { "values": { "series-type": kind } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_15_characters_and_stay_near() {
        for value in [0.1, 1.0 / 3.0, -1.0 / 3.0, 1e300 / 7.0, -1e-300 / 7.0, 123_456_789_012.345, 5e-324, 7e22, -12.0]
        {
            let shown = y(value);
            assert!(shown.to_string().len() <= CHARACTERS_MAX, "{shown}");
            let near = shown.as_f64().unwrap();
            assert!((near - value).abs() <= value.abs() * 1e-6, "{value} is shown as {shown}");
        }
        assert_eq!([y(f64::NAN), y(f64::INFINITY), y(3.0)], [json!(0), json!(0), json!(3)]);
        assert_eq!(count(u64::MAX), 1 << 52);
    }

    #[test]
    fn a_row_has_a_label() {
        assert_eq!(entry(1, -1, vec![" ".into(), "x".into()])["labels"], json!(["?", "x"]));
        assert_eq!(entry(1, -1, vec![])["labels"], json!(["?"]));
    }
}
