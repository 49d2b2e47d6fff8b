// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics as one JSON document.

use kymo_analyze::{Class, Distribution, Number, StatsRow};
use serde_json::{Value, json};

use super::by::By;
use super::report::StatsReport;
use crate::verbs::analyze::feed::Totals;
use crate::verbs::analyze::show;
use crate::verbs::hosts::ClockAlignment;

/// The document.
pub fn document(made: &StatsReport<'_>, totals: &Totals, told: &[ClockAlignment]) -> String {
    let rows: Vec<Value> = made.chosen().into_iter().map(|row| json_row(made, row)).collect();
    let document = json!({
        "schema": "kymo-stats-1",
        "records": totals.records,
        "selected": totals.selected,
        "lost": show::missing(&totals.lost),
        "from": totals.span.map(|span| span.0),
        "to": totals.span.map(|span| span.1),
        "hosts": told.iter().map(ClockAlignment::json).collect::<Vec<_>>(),
        "rows_left_out": made.stats.rows_left_out(),
        "values_left_out": made.stats.fields_left_out(),
        "sum_of": made.args.sum,
        "rows": rows,
    });
    document.to_string()
}

fn json_row(made: &StatsReport<'_>, (index, row): (usize, &StatsRow)) -> Value {
    let mut object = serde_json::Map::new();
    for (by, part) in made.args.by.iter().zip(&row.key) {
        let value = match (by, part) {
            (By::Event, Some(class)) => made.classes[*class as usize].name.clone().into(),
            (By::Field(_), Some(number)) => made.text(*number).map_or_else(|| (*number).into(), Value::from),
            (_, part) => (*part).into(),
        };
        object.insert(by.name().to_owned(), value);
    }
    object.insert("name".to_owned(), row.name.as_str().into());
    object.insert("records".to_owned(), row.count.into());
    if made.args.sum.is_some() {
        object.insert("sum".to_owned(), exact(row.sum));
    }
    if made.args.sizes {
        object.insert("bits".to_owned(), row.bits.into());
        object.insert("bits_min".to_owned(), row.bits_range.0.into());
        object.insert("bits_max".to_owned(), row.bits_range.1.into());
    }
    object.insert("first".to_owned(), row.first.into());
    object.insert("last".to_owned(), row.last.into());
    if made.args.values {
        let fields = made.stats.fields(index);
        let fields = fields.map(|(class, field, values)| json_field(&made.classes[class], field, values));
        object.insert("fields".to_owned(), fields.collect());
    }
    object.into()
}

fn json_field(class: &Class, field: usize, values: &Distribution) -> Value {
    json!({
        "event": class.name,
        "field": class.fields[field].name,
        "values": values.count(),
        "not_numbers": values.not_numbers(),
        "min": exact(values.min()),
        "max": exact(values.max()),
        "mean": values.mean(),
        "deviation": values.deviation(),
        "p50": values.quantile(0.5),
        "p90": values.quantile(0.9),
        "p99": values.quantile(0.99),
        "p99.9": values.quantile(0.999),
    })
}

/// JSON's integers end at 64 bits.
fn exact(number: Option<Number>) -> Value {
    match number {
        Some(Number::Integer(value)) => i64::try_from(value)
            .map(Value::from)
            .or_else(|_| u64::try_from(value).map(Value::from))
            .unwrap_or_else(|_| (value as f64).into()),
        Some(Number::Float(value)) => value.into(),
        None => Value::Null,
    }
}
