// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics as text.

use kymo_analyze::{Distribution, Number, StatsRow};

use super::by::By;
use super::report::StatsReport;
use crate::verbs::analyze::feed::Totals;
use crate::verbs::analyze::show::{size, table};
use kymo_command::terminal::{Style, paint};

/// The whole report.
pub fn report(made: &StatsReport<'_>, totals: &Totals) -> String {
    let seconds = totals.seconds();
    let per_second = |count: u64| count as f64 / seconds;
    let rate = |count: u64| if seconds > 0.0 { format!("{:.1}", per_second(count)) } else { "-".to_owned() };
    let byte_rate = |bytes: u64| if seconds > 0.0 { size(per_second(bytes) as u64) } else { "-".to_owned() };
    let title = made.args.by.iter().map(By::name).collect::<Vec<_>>().join(" / ");
    let columns = if made.args.sizes { 5 } else { 2 };
    let sum = made.args.sum.as_ref().map(|field| format!("sum of {field}"));
    let head = ["records", "per s", "bytes", "a record", "a s"].map(str::to_owned);
    let line_of = |name: String, sum: Option<String>, others: &[String]| {
        std::iter::once(name).chain(sum).chain(others.iter().cloned()).collect::<Vec<_>>()
    };
    let mut lines = vec![line_of(title, sum.clone(), &head[..columns])];
    let rows = made.chosen();
    for (_, row) in &rows {
        let bytes = row.bits / 8;
        let others = [row.count.to_string(), rate(row.count), size(bytes), sizes(row), byte_rate(bytes)];
        lines.push(line_of(made.label(row), sum.as_ref().map(|_| exact(row.sum)), &others[..columns]));
    }
    let mut text = table(&lines);
    if made.args.values {
        text += &fields(made, &rows);
    }
    let of_all =
        if made.args.scope.expressions().is_empty() { String::new() } else { format!("{} of ", totals.selected) };
    text += &format!("\n{of_all}{} records in {seconds:.3} s", totals.records);
    if !totals.lost.is_none() {
        text += "; ";
        text += &paint(Style::Alarm, &totals.lost.text());
    }
    let (rows, fields) = (made.stats.rows_left_out(), made.stats.fields_left_out());
    if rows + fields > 0 {
        text += &format!("; rows were too many: {rows} records and {fields} values are in none");
    }
    text + "\n"
}

/// Bytes of a record: `24`, or from the shortest to the longest, in whole bytes, upwards.
fn sizes(row: &StatsRow) -> String {
    let (least, most) = (row.bits_range.0.div_ceil(8), row.bits_range.1.div_ceil(8));
    if least == most { least.to_string() } else { format!("{least}-{most}") }
}

fn fields(made: &StatsReport<'_>, rows: &[(usize, &StatsRow)]) -> String {
    let head = ["field", "values", "min", "mean", "p50", "p99", "max", "deviation"];
    let mut text = String::new();
    for (index, row) in rows {
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (class, field, values) in made.stats.fields(*index) {
            let class = &made.classes[class];
            let field = &class.fields[field].name;
            let is_told = made.args.by.contains(&By::Event);
            let name = if is_told { field.clone() } else { format!("{}.{field}", class.name) };
            lines.push(line(name, values));
        }
        if lines.len() > 1 {
            text += &format!("\n{}\n{}", made.label(row), table(&lines));
        }
    }
    text
}

fn line(name: String, values: &Distribution) -> Vec<String> {
    let float = |value: Option<f64>| value.map_or("-".to_owned(), short);
    vec![
        name,
        values.count().to_string(),
        exact(values.min()),
        float(values.mean()),
        float(values.quantile(0.5)),
        float(values.quantile(0.99)),
        exact(values.max()),
        float(values.deviation()),
    ]
}

/// An integer with all its digits.
fn exact(number: Option<Number>) -> String {
    match number {
        Some(Number::Integer(value)) => value.to_string(),
        Some(Number::Float(value)) => short(value),
        None => "-".to_owned(),
    }
}

/// Five digits, without what says nothing.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        1e5..1e15 => format!("{value:.0}"),
        1e-3..1e5 if value.fract() == 0.0 => format!("{value:.0}"),
        1e-3..1e5 => format!("{value:.3}"),
        _ => format!("{value:.4e}"),
    }
}
