// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts, rates and times of a window by event, process, thread or CPU [spec/view.md 4.20]. Records are counted by
//! what `kymo stats` counts with, and times are the sums of `kymo top`: nothing is added up here a second time.

mod indexed;
mod middle;
mod pass;
mod programs;
mod rows;

use kymo_analyze::Level;

use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::questions::begun::{begin, doubt_bits};
use crate::walk::{LOSSES_MAX, LossLog, Stop, Walk, Walked};
use pass::StatisticsPass;
use rows::{Row, Sort};

/// What rows are made by.
const LEVELS: [(&str, Level); 4] =
    [("event", Level::Event), ("process", Level::Process), ("thread", Level::Thread), ("cpu", Level::Cpu)];
/// What rows are sorted by.
const SORTS: [(&str, Sort); 3] = [("records", Sort::Records), ("time", Sort::Time), ("name", Sort::Name)];

/// Unknown time is reported from this share of the CPUs' time on: a switch takes its time, too.
const UNKNOWN_MIN: f64 = 1e-4;

fn named<T: Copy>(name: &str, text: Option<&str>, of: &[(&str, T)], default: T) -> Result<T, Error> {
    let Some(text) = text else { return Ok(default) };
    let known = of.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let names = || of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    known.ok_or_else(|| Error::parameter(name, format!("one of {}", names())))
}

/// What was counted.
struct Counted<'o> {
    pass: StatisticsPass<'o>,
    /// Or what was lost, where nothing was walked.
    walked: Result<Walked, LossLog>,
    source: &'static str,
}

/// Counts a window: from the index where it has that.
fn counted<'o>(
    of: &'o Opened,
    level: Level,
    walk: Walk<'o>,
    notes: &mut Vec<String>,
    stop: &Stop,
) -> Result<Counted<'o>, Error> {
    let (window, is_all) = (walk.window(), walk.is_all());
    if let Some((pass, losses)) = StatisticsPass::of_index(of, level, (window, is_all), stop)? {
        return Ok(Counted { pass, walked: Err(losses), source: "index" });
    }
    if level != Level::Event && is_all {
        if let Some((pass, walked)) = indexed::indexed(of, level, window, notes, stop)? {
            return Ok(Counted { pass, walked: Ok(walked), source: "index" });
        }
    }
    let mut pass = StatisticsPass::new(of, level, window, is_all);
    let walked = walk.run(&mut pass, stop)?;
    pass.finish(&walked.state);
    Ok(Counted { pass, walked: Ok(walked), source: "records" })
}

/// Answers `statistics`.
///
/// # Errors
/// Parameters; a filter that is none.
pub fn statistics(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let level = named("by", parameters.text("by")?.as_deref(), &LEVELS, Level::Event)?;
    let default = if level != Level::Event && of.has_switches() { Sort::Time } else { Sort::Records };
    let sort = named("sort", parameters.text("sort")?.as_deref(), &SORTS, default)?;
    if (level, sort) == (Level::Event, Sort::Time) {
        return Err(Error::parameter("sort", "events have no time: records or name"));
    }
    let limit = parameters.limit(100)?;
    let walk = Walk::new(of, window).filtered(parameters)?.until_last_record();
    let mut notes = Vec::new();
    let Counted { pass: gather, walked, source } = counted(of, level, walk, &mut notes, stop)?;
    let mut answer = begin("statistics", of, window);
    answer.notes.extend(notes);
    tell_totals(&mut answer, of, &gather, level);
    let mut all = rows::all(of, level, &gather);
    rows::sort(&mut all.rows, sort);
    answer.set("total", all.rows.len());
    let rest: Vec<Row> = if all.rows.len() > limit { all.rows.split_off(limit) } else { Vec::new() };
    let others = (!rest.is_empty() || all.is_cut).then(|| rest.iter().fold(all.rest, |sum, row| sum.plus(row)));
    let seconds = gather.seconds();
    let shown = table("rows", &mut answer, (level, seconds), &all.rows);
    answer.push(shown);
    let others = table("others", &mut answer, (level, seconds), others.as_slice());
    let others = others.column("rows", (!rest.is_empty() || all.is_cut).then_some(rest.len() as u64));
    answer.push(others);
    answer.set("source", source);
    match walked {
        Ok(walked) => walked.tell(&mut answer),
        Err(losses) => losses.tell(&mut answer, LOSSES_MAX),
    }
    Ok(answer)
}

/// What is of all rows, and what qualifies it.
fn tell_totals(answer: &mut Answer, of: &Opened, gather: &StatisticsPass<'_>, level: Level) {
    let by = LEVELS.iter().find(|(_, known)| *known == level).map(|(name, _)| *name);
    answer.set("by", by);
    answer.set("records", gather.records);
    answer.set("selected", gather.selected);
    answer.set("first", gather.span.map(|(first, _)| answer.time(first)));
    answer.set("last", gather.span.map(|(_, last)| answer.time(last)));
    let stretch = gather.usage.as_ref().and_then(rows::timed_stretch);
    let usage = gather.usage.as_ref().filter(|_| stretch.is_some());
    answer.set("has_times", usage.is_some());
    answer.set("times_from", stretch.map(|(from, _)| answer.time(from)));
    answer.set("times_to", stretch.map(|(_, to)| answer.time(to)));
    let left_out = gather.stats.rows_left_out();
    if left_out > 0 {
        answer.notes.push(format!("rows were too many: {left_out} records are in none but the others"));
    }
    let Some(usage) = usage else {
        if level != Level::Event {
            let (place, hint) = if of.has_switches() { ("window", "") } else { ("trace", "; record with -k sched") };
            answer.notes.push(format!("times are not known: the {place} has no sched events{hint}"));
        }
        return;
    };
    let sum = |part: fn(&kymo_analyze::usage::CpuUse) -> u64| {
        usage.cpus().map(|(_, used)| part(used)).fold(0, u64::saturating_add)
    };
    let (idle_ns, unknown_ns, inferred_ns) =
        (sum(|used| used.idle_ns), sum(|used| used.unknown_ns), sum(|used| used.inferred_ns));
    answer.set("idle_ns", idle_ns);
    answer.set("unknown_ns", unknown_ns);
    answer.set("inferred_ns", inferred_ns);
    let window_ns = stretch.map_or(0, |(from, to)| to.abs_diff(from));
    let share = unknown_ns as f64 / (window_ns.max(1) as f64 * usage.cpus().count().max(1) as f64);
    if share >= UNKNOWN_MIN {
        let percent = share * 100.0;
        answer.notes.push(format!("who ran is not known for {percent:.1} % of the CPUs' time: times are lower bounds"));
    }
    if of.is_restricted {
        answer.notes.push("only chosen processes were recorded: times of others are not whole".to_owned());
    }
}

fn table(name: &'static str, answer: &mut Answer, (level, seconds): (Level, f64), rows: &[Row]) -> Table {
    let names: Vec<_> = rows.iter().map(|row| answer.texts.name(&row.name)).collect();
    let number = |wanted: Level| {
        let key = move |row: &Row| row.key.filter(|_| level == wanted).and_then(|key| i32::try_from(key).ok());
        rows.iter().map(key).collect::<Vec<_>>()
    };
    let cpu = |row: &Row| row.key.filter(|_| level == Level::Cpu).and_then(|key| u32::try_from(key).ok());
    let rate = |records: u64| (seconds > 0.0).then(|| records as f64 / seconds);
    let is_of_cpu = level == Level::Cpu;
    let time = |is_there: bool, part: fn(&Row) -> u64| {
        rows.iter().map(|row| (is_there && row.is_timed).then(|| part(row))).collect::<Vec<_>>()
    };
    Table::new(name)
        .column("name", names)
        .column("process", number(Level::Process))
        .column("tid", number(Level::Thread))
        .column("cpu", rows.iter().map(cpu))
        .column("is_kernel", rows.iter().map(|row| row.is_kernel.map(u8::from)))
        .column("records", rows.iter().map(|row| row.records))
        .column("per_s", rows.iter().map(|row| rate(row.records)))
        .column("first", rows.iter().map(|row| row.span.map(|(first, _)| answer.time(first))))
        .column("last", rows.iter().map(|row| row.span.map(|(_, last)| answer.time(last))))
        .column("busy_ns", time(true, |row| row.busy_ns))
        .column("interrupt_ns", time(true, |row| row.interrupt_ns))
        .column("runs", time(true, |row| row.runs))
        .column("longest_ns", time(!is_of_cpu, |row| row.longest_ns))
        .column("doubtful_ns", time(!is_of_cpu, |row| row.doubtful_ns))
        .column("other_ns", time(is_of_cpu, |row| row.other_ns))
        .column("idle_ns", time(is_of_cpu, |row| row.idle_ns))
        .column("unknown_ns", rows.iter().map(|row| row.unknown_ns))
        .column("doubt", rows.iter().map(|row| doubt_bits(row.doubt)))
}
