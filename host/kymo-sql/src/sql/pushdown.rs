// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions of a query that choose what is read: comparisons of `time`, `end_time`, `cpu`, `tid` and `event` with
//! constants. Each is pushed down as a whole, with the same meaning, or not at all.

use arrow_schema::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use kymo_tables::Scan;

/// Which columns mean what their names say, beside `time`, `cpu` and `tid`.
#[derive(Clone, Copy, Debug)]
pub struct Pushes {
    /// The end of a stretch.
    pub end_time: bool,
    /// The event of a record.
    pub event: bool,
}

/// Adds a condition to a scan. Whether it is all in it, which depends on the condition alone: not on what the scan
/// has already.
pub fn push(condition: &Expr, schema: &Schema, pushes: Pushes, scan: &mut Scan) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let mut both = scan.clone();
            let is_pushed = push(left, schema, pushes, &mut both) && push(right, schema, pushes, &mut both);
            if is_pushed {
                *scan = both;
            }
            is_pushed
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let (mut column, mut values) = (None, Vec::new());
            equalities(condition, &mut column, &mut values)
                && column.is_some_and(|column| one_of(column, &values, schema, pushes, scan))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(value, _)) => compare(&column.name, *op, value, schema, pushes, scan),
            (Expr::Literal(value, _), Expr::Column(column)) => {
                op.swap().is_some_and(|op| compare(&column.name, op, value, schema, pushes, scan))
            }
            _ => false,
        },
        Expr::Between(Between { expr, negated: false, low, high }) => match (&**expr, &**low, &**high) {
            (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) => {
                let mut both = scan.clone();
                let is_pushed = compare(&column.name, Operator::GtEq, low, schema, pushes, &mut both)
                    && compare(&column.name, Operator::LtEq, high, schema, pushes, &mut both);
                if is_pushed {
                    *scan = both;
                }
                is_pushed
            }
            _ => false,
        },
        Expr::InList(InList { expr, list, negated: false }) => {
            let Expr::Column(column) = &**expr else { return false };
            let values = list.iter().map(|item| if let Expr::Literal(value, _) = item { Some(value) } else { None });
            let Some(values) = values.collect::<Option<Vec<&ScalarValue>>>() else { return false };
            one_of(&column.name, &values, schema, pushes, scan)
        }
        _ => false,
    }
}

/// The values of `a = 1 OR a = 2`, which is how DataFusion has short lists. Whether it is that.
fn equalities<'e>(condition: &'e Expr, column: &mut Option<&'e str>, values: &mut Vec<&'e ScalarValue>) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return false };
    match (&**left, op, &**right) {
        (left, Operator::Or, right) => equalities(left, column, values) && equalities(right, column, values),
        (Expr::Column(of), Operator::Eq, Expr::Literal(value, _))
        | (Expr::Literal(value, _), Operator::Eq, Expr::Column(of)) => {
            values.push(value);
            *column.get_or_insert(&of.name) == of.name
        }
        _ => false,
    }
}

fn compare(column: &str, op: Operator, value: &ScalarValue, schema: &Schema, pushes: Pushes, scan: &mut Scan) -> bool {
    if op == Operator::Eq && !matches!(column, "time" | "end_time") {
        return one_of(column, &[value], schema, pushes, scan);
    }
    let (from, to) = match column {
        "time" => (&mut scan.from, &mut scan.to),
        "end_time" if pushes.end_time => (&mut scan.end_from, &mut scan.end_to),
        _ => return false,
    };
    let ScalarValue::TimestampNanosecond(Some(ns), _) = value else { return false };
    if schema.column_with_name(column).is_none() {
        return false;
    }
    // The first time behind it; none is behind the last one that there is.
    let behind = || ns.checked_add(1);
    let (low, high) = match op {
        Operator::GtEq => (Some(*ns), None),
        Operator::Lt => (None, Some(*ns)),
        Operator::Gt if behind().is_some() => (behind(), None),
        Operator::LtEq if behind().is_some() => (None, behind()),
        Operator::Eq if behind().is_some() => (Some(*ns), behind()),
        _ => return false,
    };
    *from = (*from).max(low);
    *to = [*to, high].into_iter().flatten().min();
    true
}

fn one_of(column: &str, values: &[&ScalarValue], schema: &Schema, pushes: Pushes, scan: &mut Scan) -> bool {
    if schema.column_with_name(column).is_none() {
        return false;
    }
    match column {
        "cpu" => both(&mut scan.cpus, values.iter().map(|value| number(value)?.try_into().ok()).collect()),
        "tid" => both(&mut scan.tids, values.iter().map(|value| number(value)).collect()),
        "event" if pushes.event => both(&mut scan.names, values.iter().map(|value| event(value)).collect()),
        _ => false,
    }
}

/// What is in both lists.
fn both<T: PartialEq>(known: &mut Option<Vec<T>>, more: Option<Vec<T>>) -> bool {
    let Some(mut more) = more else { return false };
    if let Some(known) = known {
        more.retain(|value| known.contains(value));
    }
    *known = Some(more);
    true
}

fn number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::UInt32(Some(value)) => Some((*value).into()),
        ScalarValue::Int32(Some(value)) => Some((*value).into()),
        ScalarValue::Int64(Some(value)) => Some(*value),
        ScalarValue::UInt64(Some(value)) => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// The name of an event.
fn event(value: &ScalarValue) -> Option<String> {
    let text = match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => text,
        ScalarValue::Dictionary(_, value) => return event(value),
        _ => return None,
    };
    Some(text.clone())
}

/// What was pushed down, for EXPLAIN.
pub fn text(scan: &Scan) -> String {
    let mut parts = Vec::new();
    let mut add = |name: &str, op: &str, value: Option<i64>| {
        parts.extend(value.map(|value| format!("{name} {op} {value}")));
    };
    add("time", ">=", scan.from);
    add("time", "<", scan.to);
    add("end_time", ">=", scan.end_from);
    add("end_time", "<", scan.end_to);
    parts.extend(scan.cpus.as_ref().map(|cpus| format!("cpu in {cpus:?}")));
    parts.extend(scan.tids.as_ref().map(|tids| format!("tid in {tids:?}")));
    parts.extend(scan.names.as_ref().map(|names| format!("event in {names:?}")));
    parts.join(", ")
}
