// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of records: pages by row number or time, and search. A far row is reached from the nearest one whose time
//! is known already.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::asked::Asked;
use super::reply::{Asker, Failure, Reply, Table};

/// Lines of one answer at most, and lines that a search reads at a time.
const LINES_MAX: u64 = 10_000;
const SEARCH_LINES: u64 = 2000;
/// Rows whose times are kept.
const KNOWN_MAX: usize = 4096;
/// Columns; their numbers are their positions. Viewers look for the name of the first.
const COLUMNS: [(&str, &str); 6] = [
    ("Timestamp ns", "TIMESTAMP"),
    ("CPU", "NUMBER"),
    ("TID", "NUMBER"),
    ("Thread", "STRING"),
    ("Event type", "STRING"),
    ("Contents", "STRING"),
];
/// How a line that a search finds is marked.
const FOUND: u64 = 8;

/// Rows whose times are known: each is the first row at or after its time.
#[derive(Debug, Default)]
pub struct KnownRows(Mutex<BTreeMap<u64, i64>>);

impl KnownRows {
    fn nearest(&self, is_before: impl Fn(u64, i64) -> bool) -> Option<(u64, i64)> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().rev().map(|(row, at)| (*row, *at)).find(|(row, at)| is_before(*row, *at))
    }

    fn keep(&self, row: u64, at: i64) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= KNOWN_MAX {
            // Every other one: what is left is still spread over the trace.
            let mut is_kept = false;
            rows.retain(|_, _| {
                is_kept = !is_kept;
                is_kept
            });
        }
        rows.insert(row, at);
    }
}

/// Which lines are wanted.
struct Search {
    /// By column: what its text must contain.
    texts: Vec<(usize, String)>,
    /// Backwards, forwards, or only marked.
    direction: Option<bool>,
}

impl Search {
    fn of(asked: &Asked) -> Result<Search, Failure> {
        let mut texts = Vec::new();
        let expressions = asked.value("table_search_expressions").and_then(Value::as_object);
        for (column, text) in expressions.into_iter().flatten() {
            let column = column.parse::<usize>().ok().filter(|column| *column < COLUMNS.len());
            let text = text.as_str().and_then(plain);
            let pair = column.zip(text);
            texts.push(pair.ok_or_else(|| {
                Failure::wrong("table_search_expressions: a column and plain text, with .* at its ends at most")
            })?);
        }
        let direction = match asked.text("table_search_direction") {
            Some("NEXT") => Some(true),
            Some("PREVIOUS") => Some(false),
            None => None,
            Some(_) => return Err(Failure::wrong("table_search_direction: NEXT or PREVIOUS")),
        };
        Ok(Search { direction: direction.filter(|_| !texts.is_empty()), texts })
    }

    fn matches(&self, line: &[String]) -> bool {
        let has = |(column, text): &(usize, String)| line.get(*column).is_some_and(|cell| cell.contains(text.as_str()));
        !self.texts.is_empty() && self.texts.iter().all(has)
    }
}

/// A regular expression that only says what is contained; none where it says more.
fn plain(text: &str) -> Option<String> {
    let text = text.strip_prefix(".*").unwrap_or(text);
    let text = text.strip_suffix(".*").unwrap_or(text);
    let is_special = |c: char| r"\^$.|?*+()[]{}".contains(c);
    // A dot that is escaped is the one that names of files and addresses have.
    let text = text.replace(r"\.", "\u{0}");
    (!text.contains(is_special)).then(|| text.replace('\u{0}', "."))
}

/// The columns.
pub fn columns() -> Value {
    let one =
        |(id, (name, kind)): (usize, &(&str, &str))| json!({ "id": id, "name": name, "description": "", "type": kind });
    COLUMNS.iter().enumerate().map(one).collect()
}

/// The cells of a row.
fn cells(table: &Table<'_>, row: usize) -> Vec<String> {
    let number = |name: &str| table.number(name, row).map_or_else(String::new, |number| number.to_string());
    let text = |name: &str| table.text(name, row).unwrap_or_default().to_owned();
    let time = table.time("time", row).map_or_else(String::new, |time| time.to_string());
    let fields = table.text("fields", row).and_then(|fields| serde_json::from_str::<Map<String, Value>>(fields).ok());
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    let contents = fields.map_or_else(String::new, |fields| fields.iter().map(field).collect::<Vec<_>>().join(", "));
    vec![time, number("cpu"), number("tid"), text("name"), text("event"), contents]
}

/// A page from a row on.
fn page(asker: Asker<'_>, known: &KnownRows, row: u64, limit: u64) -> Result<Reply, Failure> {
    let (near, from) = known.nearest(|near, _| near <= row).unwrap_or((0, asker.of.base()));
    let parameters = [
        ("from", from.to_string()),
        ("row", (row - near).to_string()),
        ("limit", limit.clamp(1, LINES_MAX).to_string()),
    ];
    let reply = asker.ask("records", &parameters)?;
    let records = reply.table("records");
    if let Some(last) = records.rows().checked_sub(1) {
        let at = records.time("time", last);
        let first = (0..=last).rev().take_while(|row| records.time("time", *row) == at).last().unwrap_or(last);
        // Of the first row of the page it is not known whether the one before has the same time.
        if let Some(at) = at.filter(|_| first > 0) {
            known.keep(row + first as u64, at);
        }
    }
    Ok(reply)
}

/// The number of the first row at or after a time.
fn row_of(asker: Asker<'_>, known: &KnownRows, at: i64) -> Result<u64, Failure> {
    let (near, from) = known.nearest(|_, known| known <= at).unwrap_or((0, asker.of.base()));
    if at <= from {
        return Ok(near);
    }
    let reply = asker.ask("count", &[("from", from.to_string()), ("to", at.to_string())])?;
    let row = near.saturating_add(reply.info("rows").as_u64().unwrap_or(0));
    known.keep(row, at);
    Ok(row)
}

/// The columns that are wanted, in their order.
fn wanted(asked: &Asked) -> Result<Vec<usize>, Failure> {
    let ids = asked.numbers("requested_table_column_ids")?;
    if ids.is_empty() {
        return Ok((0..COLUMNS.len()).collect());
    }
    let column = |id: &i64| usize::try_from(*id).ok().filter(|id| *id < COLUMNS.len());
    let all: Option<Vec<usize>> = ids.iter().map(column).collect();
    all.ok_or_else(|| Failure::wrong("requested_table_column_ids: there is no such column"))
}

/// Lines of the table. `size`: how many there are.
pub fn lines(asker: Asker<'_>, asked: &Asked, known: &KnownRows, size: u64) -> Result<Value, Failure> {
    let (columns, search) = (wanted(asked)?, Search::of(asked)?);
    let count = asked.count("requested_table_count")?.unwrap_or(1).clamp(1, LINES_MAX);
    let index = match asked.numbers("requested_times")?.first() {
        Some(at) => row_of(asker, known, *at)?,
        None => asked.count("requested_table_index")?.unwrap_or(0),
    };
    let index = match search.direction {
        Some(true) => next(asker, known, &search, index)?,
        Some(false) => previous(asker, known, &search, index)?,
        None => Some(index),
    };
    let mut lines = Vec::new();
    if let Some(index) = index.filter(|index| *index < size) {
        let reply = page(asker, known, index, count)?;
        let records = reply.table("records");
        for row in 0..records.rows() {
            let all = cells(&records, row);
            let tags = if search.matches(&all) { FOUND } else { 0 };
            let cell = |column: &usize| json!({ "content": all.get(*column).map_or("", String::as_str), "tags": tags });
            let cells: Vec<Value> = columns.iter().map(cell).collect();
            lines.push(json!({ "index": index + row as u64, "cells": cells, "tags": tags }));
        }
    }
    Ok(json!({ "lowIndex": index.unwrap_or(0), "size": size, "columnIds": columns, "lines": lines }))
}

/// The rows of a page that the search finds, by number.
fn found(reply: &Reply, search: &Search, first: u64) -> Vec<u64> {
    let records = reply.table("records");
    let is_found = |row: &usize| search.matches(&cells(&records, *row));
    (0..records.rows()).filter(is_found).map(|row| first + row as u64).collect()
}

fn next(asker: Asker<'_>, known: &KnownRows, search: &Search, from: u64) -> Result<Option<u64>, Failure> {
    let mut row = from;
    loop {
        let reply = page(asker, known, row, SEARCH_LINES)?;
        if let Some(found) = found(&reply, search, row).first() {
            return Ok(Some(*found));
        }
        row += reply.table("records").rows() as u64;
        if reply.info("has_more") != &json!(true) {
            return Ok(None);
        }
    }
}

fn previous(asker: Asker<'_>, known: &KnownRows, search: &Search, from: u64) -> Result<Option<u64>, Failure> {
    let mut end = from.saturating_add(1);
    while end > 0 {
        let row = end.saturating_sub(SEARCH_LINES);
        let reply = page(asker, known, row, end - row)?;
        if let Some(found) = found(&reply, search, row).last() {
            return Ok(Some(*found));
        }
        end = row;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_searched_and_expressions_are_refused() {
        for (text, expect) in [("open", Some("open")), (".*a b.*", Some("a b")), (r"a\.b", Some("a.b")), ("", Some(""))]
        {
            assert_eq!(plain(text).as_deref(), expect, "{text}");
        }
        for text in ["a.b", "a|b", "[x]", "^a", "a+", "(", "\\d"] {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn known_rows_are_bounded_and_the_nearest_is_found() {
        let known = KnownRows::default();
        (0..10_000).for_each(|row| known.keep(row * 10, row as i64 * 100));
        assert!(known.0.lock().unwrap().len() <= KNOWN_MAX);
        let (row, at) = known.nearest(|row, _| row <= 55_555).unwrap();
        assert!(row <= 55_555 && at == row as i64 * 10, "{row} {at}");
        assert!(known.nearest(|_, at| at <= 12_345).is_some_and(|(_, at)| at <= 12_345));
        assert_eq!(known.nearest(|_, at| at < 0), None);
    }
}
