// SPDX-License-Identifier: MIT OR Apache-2.0
//! The question `worst` [spec/view.md 11.3]: the longest samples, and of which addition each is.

use std::collections::BTreeSet;

use datafusion::prelude::ident;
use kymo_query::{Answer, Table};

use super::choice::Choice;
use super::error::AskError;
use super::locate::expected;
use super::rows::{Batch, each};
use crate::lake::catalog::Lake;
use crate::lake::manifest::Manifest;
use crate::lake::names::LABEL;
use crate::sql::session::Session;

/// Texts of a row, and numbers.
const TEXTS: [&str; 6] = ["of", "host", "name", "by", "doubt", "trace"];
const COUNTS: [&str; 6] = ["duration_ns", "tid", "pid", "cpu", "by_tid", "owner_tid"];
const NUMBERS: [&str; 4] = ["time", "end_time", "prio", "day"];

/// A sample.
struct WorstRow {
    texts: [Option<String>; TEXTS.len()],
    counts: [Option<u64>; COUNTS.len()],
    numbers: [Option<i64>; NUMBERS.len()],
    /// Of the lake's labels, in their order.
    labels: Vec<Option<String>>,
}

impl WorstRow {
    fn text(&self, name: &str) -> Option<&str> {
        TEXTS.iter().position(|known| *known == name).and_then(|place| self.texts[place].as_deref())
    }

    fn count(&self, name: &str) -> Option<u64> {
        COUNTS.iter().position(|known| *known == name).and_then(|place| self.counts[place])
    }

    fn number(&self, name: &str) -> Option<i64> {
        NUMBERS.iter().position(|known| *known == name).and_then(|place| self.numbers[place])
    }

    /// The only addition that may have it; none where several may.
    fn addition(&self, lake: &Lake, labels: &[String]) -> Option<usize> {
        let (trace, time) = (self.text("trace")?, self.number("time"));
        let is_of = |addition: &Manifest| {
            let is_place = trace.strip_prefix(addition.place.as_str());
            let has_labels =
                labels.iter().zip(&self.labels).all(|(key, value)| addition.labels.get(key) == value.as_ref());
            is_place.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                && has_labels
                && addition.files.iter().any(|file| {
                    let has_time =
                        time.zip(file.from.zip(file.to)).is_none_or(|(at, (from, to))| at >= from && at <= to);
                    file.table == "latencies" && file.host.as_deref() == self.text("host") && has_time
                })
        };
        let mut found = lake.additions().iter().enumerate().filter(|(_, addition)| is_of(addition));
        let (place, _) = found.next()?;
        found.next().is_none().then_some(place)
    }
}

/// The longest samples.
pub async fn answer(lake: &Lake, session: &Session, choice: &Choice) -> Result<Answer, AskError> {
    let keys: BTreeSet<&String> = lake.additions().iter().flat_map(|addition| addition.labels.keys()).collect();
    let keys: Vec<String> = keys.into_iter().cloned().collect();
    let names = TEXTS.iter().chain(&COUNTS).chain(&NUMBERS).map(|name| ident(*name));
    let columns = names.chain(keys.iter().map(|key| ident(format!("{LABEL}{key}"))));
    let frame = choice.samples(session).await?.select(columns)?;
    let frame = frame.sort(vec![ident("duration_ns").sort(false, false), ident("time").sort(true, false)])?;
    let mut rows: Vec<WorstRow> = Vec::new();
    each(frame.limit(0, Some(choice.limit))?, |batch| {
        rows.extend(taken(batch, &keys)?);
        Ok(())
    })
    .await?;
    let of: Vec<Option<usize>> = rows.iter().map(|row| row.addition(lake, &keys)).collect();
    let mut used: Vec<usize> = of.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    let additions: Vec<Option<u32>> =
        of.iter().map(|place| place.and_then(|place| used.binary_search(&place).ok()).map(|at| at as u32)).collect();
    let used: Vec<&Manifest> = used.into_iter().map(|place| &lake.additions()[place]).collect();
    let mut answer = Answer::new("worst", 0, (0, 0));
    let table = row_table(&mut answer, &rows, additions);
    answer.push(table);
    let table = addition_table(&mut answer, lake, &used);
    answer.push(table);
    let labels: Vec<(u32, &String, &String)> = used
        .iter()
        .enumerate()
        .flat_map(|(place, addition)| addition.labels.iter().map(move |(key, value)| (place as u32, key, value)))
        .collect();
    let keys: Vec<_> = labels.iter().map(|(_, key, _)| answer.texts.text(key)).collect();
    let values: Vec<_> = labels.iter().map(|(.., value)| answer.texts.text(value)).collect();
    let table = Table::new("labels").column("addition", labels.iter().map(|(place, ..)| *place));
    answer.push(table.column("key", keys).column("value", values));
    Ok(answer)
}

fn taken(batch: &Batch, labels: &[String]) -> Result<Vec<WorstRow>, AskError> {
    let texts = TEXTS.iter().map(|name| batch.words(name)).collect::<Result<Vec<_>, _>>()?;
    let counts = COUNTS.iter().map(|name| batch.counts(name)).collect::<Result<Vec<_>, _>>()?;
    let numbers = NUMBERS.iter().map(|name| batch.numbers(name)).collect::<Result<Vec<_>, _>>()?;
    let labels = labels.iter().map(|key| batch.words(&format!("{LABEL}{key}"))).collect::<Result<Vec<_>, _>>()?;
    let row = |row| WorstRow {
        texts: std::array::from_fn(|column| texts[column].get(row).map(str::to_owned)),
        counts: std::array::from_fn(|column| counts[column].get(row)),
        numbers: std::array::from_fn(|column| numbers[column].get(row)),
        labels: labels.iter().map(|column| column.get(row).map(str::to_owned)).collect(),
    };
    Ok((0..batch.rows()).map(row).collect())
}

fn row_table(answer: &mut Answer, rows: &[WorstRow], additions: Vec<Option<u32>>) -> Table {
    let count = |name: &'static str| rows.iter().map(move |row| row.count(name));
    let small = |name: &'static str| count(name).map(|number| number.and_then(|number| u32::try_from(number).ok()));
    let number = |name: &'static str| rows.iter().map(move |row| row.number(name));
    let mut table = Table::new("rows")
        .column("time", number("time"))
        .column("end_time", number("end_time"))
        .column("prio", number("prio"))
        .column("value_ns", count("duration_ns"))
        .column("addition", additions);
    for name in ["tid", "pid", "cpu", "by_tid", "owner_tid"] {
        table = table.column(name, small(name));
    }
    for name in ["of", "host", "name", "by", "doubt"] {
        let texts: Vec<_> = rows.iter().map(|row| row.text(name).map(|text| answer.texts.text(text))).collect();
        table = table.column(name, texts);
    }
    table
}

fn addition_table(answer: &mut Answer, lake: &Lake, used: &[&Manifest]) -> Table {
    let traces: Vec<_> = used.iter().map(|addition| answer.texts.text(&addition.trace)).collect();
    let places: Vec<_> = used.iter().map(|addition| answer.texts.text(&addition.place)).collect();
    let added_on: Vec<_> = used.iter().map(|addition| answer.texts.text(&addition.added_on)).collect();
    let is_here = |addition: &&Manifest| u8::from(expected(lake.place(), addition).is_some());
    Table::new("additions")
        .column("trace", traces)
        .column("place", places)
        .column("added_on", added_on)
        .column("is_copy", used.iter().map(|addition| u8::from(addition.is_copy)))
        .column("is_here", used.iter().map(is_here))
        .column("has_wall_clock", used.iter().map(|addition| u8::from(addition.has_wall_clock)))
}
