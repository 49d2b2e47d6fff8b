// SPDX-License-Identifier: MIT OR Apache-2.0
//! The questions `distribution` and `kinds` [spec/view.md 11.3].

use datafusion::functions_aggregate::expr_fn::count;
use datafusion::prelude::{ident, lit};
use kymo_analyze::Quantile;
use kymo_query::{Answer, Table};

use super::cells::{Cell, Cells, Groups, Missing, buckets, whole};
use super::choice::Choice;
use super::error::AskError;
use super::kept::ReadSamples;
use super::rows::each;
use crate::sql::session::Session;

/// Columns of the quantiles of [`kymo_analyze::QUANTILES`].
const COLUMNS: [[&str; 3]; 5] = [
    ["p50_ns", "p50_least_ns", "p50_most_ns"],
    ["p90_ns", "p90_least_ns", "p90_most_ns"],
    ["p99_ns", "p99_least_ns", "p99_most_ns"],
    ["p999_ns", "p999_least_ns", "p999_most_ns"],
    ["p9999_ns", "p9999_least_ns", "p9999_most_ns"],
];

/// Kinds of latencies.
pub async fn kinds(session: &Session, choice: &Choice) -> Result<Answer, AskError> {
    let all = choice.latencies(session).await?;
    let all = all.aggregate(vec![ident("kind")], vec![count(lit(1)).alias("samples")])?;
    let mut found: Vec<(String, u64)> = Vec::new();
    each(all.sort(vec![ident("samples").sort(false, false), ident("kind").sort(true, true)])?, |batch| {
        let (kinds, samples) = (batch.words("kind")?, batch.counts("samples")?);
        let row = |row| Some((kinds.get(row)?.to_owned(), samples.get(row)?));
        found.extend((0..batch.rows()).filter_map(row));
        Ok(())
    })
    .await?;
    let mut answer = Answer::new("kinds", 0, (0, 0));
    let names: Vec<_> = found.iter().map(|(kind, _)| answer.texts.text(kind)).collect();
    answer.push(Table::new("kinds").column("what", names).column("samples", found.iter().map(|(_, samples)| *samples)));
    Ok(answer)
}

/// Histograms and quantiles by group.
pub fn answer(read: &ReadSamples) -> Answer {
    let ReadSamples { groups, cells, .. } = read;
    let mut answer = Answer::new("distribution", 0, (0, 0));
    say(&mut answer, read);
    let wholes: Vec<Cell> = (0..groups.list.len()).map(|group| whole(cells, group)).collect();
    let table = group_table(&mut answer, groups, cells, &wholes);
    answer.push(table);
    let rows: Vec<_> = wholes
        .iter()
        .enumerate()
        .flat_map(|(group, cell)| buckets(cell).map(move |bucket| (group as u32, bucket)).collect::<Vec<_>>())
        .collect();
    answer.push(
        Table::new("buckets")
            .column("group", rows.iter().map(|(group, _)| *group))
            .column("low_ns", rows.iter().map(|(_, bucket)| bucket.low))
            .column("high_ns", rows.iter().map(|(_, bucket)| bucket.high))
            .column("count", rows.iter().map(|(_, bucket)| bucket.count)),
    );
    answer
}

/// What is of all groups.
pub fn say(answer: &mut Answer, read: &ReadSamples) {
    let unreadable = read.unreadable;
    answer.set("groups", read.groups.total);
    answer.set("left_out", read.groups.left_out);
    if unreadable > 0 {
        let traces = if unreadable == 1 { "trace" } else { "traces" };
        answer
            .notes
            .push(format!("{unreadable} {traces} of the lake cannot be opened: nothing of that is counted here"));
    }
}

fn group_table(answer: &mut Answer, groups: &Groups, cells: &Cells, wholes: &[Cell]) -> Table {
    let values: Vec<_> =
        groups.list.iter().map(|group| group.value.as_ref().map(|value| answer.texts.text(value))).collect();
    let lost: Vec<Missing> = (0..wholes.len()).map(|group| cells.lost_of(group)).collect();
    let quantiles: Vec<[Option<Quantile>; 5]> =
        wholes.iter().zip(&lost).map(|(cell, lost)| cell.quantiles(*lost)).collect();
    let mut table = Table::new("groups")
        .column("value", values)
        .column("hosts", groups.list.iter().map(|group| group.hosts as u32))
        .column("traces", groups.list.iter().map(|group| group.traces as u32))
        .column("count", wholes.iter().map(Cell::count))
        .column("doubtful", wholes.iter().map(|cell| cell.series.doubtful))
        .column("lost", lost.iter().map(|lost| lost.records))
        .column("packets", lost.iter().map(|lost| lost.packets))
        .column("max_ns", wholes.iter().map(|cell| cell.series.max_ns));
    for (place, [value, least, most]) in COLUMNS.into_iter().enumerate() {
        let of = || quantiles.iter().map(move |all| all[place]);
        table = table
            .column(value, of().map(|found| found.map(|quantile| quantile.high_ns)))
            .column(least, of().map(|found| found.map(|quantile| quantile.least_ns)))
            .column(most, of().map(|found| found.and_then(|quantile| quantile.most_ns)));
    }
    table
}
