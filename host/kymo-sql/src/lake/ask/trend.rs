// SPDX-License-Identifier: MIT OR Apache-2.0
//! The question `trend` [spec/view.md 11.3]: a quantile of each day, and where its level changes.

use kymo_query::{Answer, Table};

use super::cells::{Cell, Cells, Missing, whole};
use super::changes::{Change, DAYS_MIN, DailyValue, changes};
use super::choice::{Choice, QUANTILES};
use super::distribution::say;
use super::error::AskError;
use super::kept::ReadSamples;

/// The probability that any change is shown where none is.
const ALPHA: f64 = 0.05;

/// A day of a group.
struct TrendDay {
    group: usize,
    day: i64,
    count: u64,
    /// None: too few samples.
    value: Option<u64>,
    least: Option<u64>,
    /// None: nothing bounds it.
    most: Option<u64>,
    lost: Missing,
}

impl TrendDay {
    fn of(cells: &Cells, group: usize, day: i64, quantile: usize) -> TrendDay {
        let none = Cell::default();
        let cell = cells.samples.get(&(group, Some(day))).unwrap_or(&none);
        let (lost, count) = (cells.lost_on(group, day), cell.count());
        let mut found = TrendDay { group, day, count, value: None, least: None, most: None, lost };
        if QUANTILES[quantile].1.is_none() {
            let largest = Some(cell.series.max_ns).filter(|_| count > 0);
            (found.value, found.least) = (largest, largest);
            found.most = largest.filter(|_| lost.is_none());
        } else if let Some(of) = cell.quantiles(lost)[quantile] {
            (found.value, found.least, found.most) = (Some(of.high_ns), Some(of.least_ns), of.most_ns);
        }
        found
    }

    fn daily(&self) -> Option<DailyValue> {
        let value = self.value? as f64;
        if self.lost.is_none() {
            return Some(DailyValue { value, least: value, most: value });
        }
        let most = self.most.map_or(f64::INFINITY, |most| most as f64);
        Some(DailyValue { value, least: self.least.map_or(0.0, |least| least as f64), most })
    }
}

/// Values of days, and changes.
pub async fn answer(read: &ReadSamples, choice: &Choice) -> Result<Answer, AskError> {
    let ReadSamples { groups, cells, .. } = read;
    let all: Vec<Vec<TrendDay>> = (0..groups.list.len())
        .map(|group| {
            let days = cells.days_of(group).into_iter();
            days.map(|day| TrendDay::of(cells, group, day, choice.quantile)).collect()
        })
        .collect();
    let series: Vec<Vec<(i64, DailyValue)>> =
        all.iter().map(|days| days.iter().filter_map(|day| Some((day.day, day.daily()?))).collect()).collect();
    let tested = series.iter().filter(|days| days.len() >= DAYS_MIN).count();
    let alpha = ALPHA / tested.max(1) as f64;
    let mut answer = Answer::new("trend", 0, (0, 0));
    say(&mut answer, read);
    let no_day = cells.samples.iter().filter(|((_, day), _)| day.is_none()).map(|(_, cell)| cell.count());
    answer.set("no_day", no_day.sum::<u64>());
    answer.set("tested", tested);
    answer.set("alpha", alpha);
    answer.set("quantile", QUANTILES[choice.quantile].0);
    let why = |days: &Vec<(i64, DailyValue)>| {
        let (count, unit) = (days.len(), if days.len() == 1 { "day" } else { "days" });
        (count < DAYS_MIN)
            .then(|| format!("{count} {unit} with enough samples; {DAYS_MIN} are needed to look for changes"))
    };
    let values: Vec<_> =
        groups.list.iter().map(|group| group.value.as_ref().map(|value| answer.texts.text(value))).collect();
    let whys: Vec<_> = series.iter().map(|days| why(days).map(|why| answer.texts.text(&why))).collect();
    let counts: Vec<u64> = (0..groups.list.len()).map(|group| whole(cells, group).count()).collect();
    answer.push(
        Table::new("groups")
            .column("value", values)
            .column("days", series.iter().map(|days| days.len() as u32))
            .column("count", counts)
            .column("why", whys),
    );
    answer.push(day_table(&all));
    let found = move |(group, days): (usize, &Vec<(i64, DailyValue)>)| {
        let values: Vec<DailyValue> = days.iter().map(|(_, value)| *value).collect();
        let found = changes(&values, alpha);
        found.into_iter().map(|change| (group as u32, days[change.at].0, change)).collect::<Vec<_>>()
    };
    // Many orders of many days: other questions are answered meanwhile.
    let found = tokio::task::spawn_blocking(move || series.iter().enumerate().flat_map(found).collect::<Vec<_>>());
    let found = found.await.map_err(|error| AskError::Lake(format!("looking for changes broke off: {error}")))?;
    let table = change_table(&mut answer, &found);
    answer.push(table);
    Ok(answer)
}

fn day_table(all: &[Vec<TrendDay>]) -> Table {
    let days = || all.iter().flatten();
    Table::new("days")
        .column("group", days().map(|day| day.group as u32))
        .column("day", days().map(|day| day.day as i32))
        .column("count", days().map(|day| day.count))
        .column("value_ns", days().map(|day| day.value))
        .column("least_ns", days().map(|day| day.least))
        .column("most_ns", days().map(|day| day.most))
        .column("lost", days().map(|day| day.lost.records))
        .column("packets", days().map(|day| day.lost.packets))
}

fn change_table(answer: &mut Answer, found: &[(u32, i64, Change)]) -> Table {
    let doubt = "lost records may explain it";
    let doubts: Vec<_> =
        found.iter().map(|(.., change)| change.is_doubtful.then(|| answer.texts.text(doubt))).collect();
    Table::new("changes")
        .column("group", found.iter().map(|(group, ..)| *group))
        .column("day", found.iter().map(|(_, day, _)| *day as i32))
        .column("before_ns", found.iter().map(|(.., change)| change.before.round() as u64))
        .column("after_ns", found.iter().map(|(.., change)| change.after.round() as u64))
        .column("days_before", found.iter().map(|(.., change)| change.count_before as u32))
        .column("days_after", found.iter().map(|(.., change)| change.count_after as u32))
        .column("p", found.iter().map(|(.., change)| change.p))
        .column("doubt", doubts)
}
