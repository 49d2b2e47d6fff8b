// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo stats`: counts, rates, and statistics of fields, by any sequence of event, process, thread, CPU and fields.

mod by;
mod json;
mod text;
mod values;

use std::cmp::Ordering;
use std::process::ExitCode;

use anyhow::Context as _;
use kymo_analyze::{Class, Level, Number, Sink, State, Stats, StatsRow};
use kymo_ctf::read::Reader;

use kymo_index::{Indexes, range};
use kymo_query::{EventCounts, event_counts};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Payload, ReadRange, Seen, Totals, Visit, absolute, each};
use super::analyze::when::When;
use super::hosts::HostArgs;
use crate::verbs::args::{EventArgs, OutputArgs, RangeArgs, ScopeArgs, TraceArgs};
use by::By;
use values::FieldValues;

/// Statistics of a trace: counts, rates and values by event, thread, CPU or field
///
/// Rows by any sequence of event, process, thread, cpu and fields of the payload; records of a kernel belong to the
/// thread that ran on their CPU.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo stats t                               records and rates by event\n  \
    kymo stats t --by process,event --limit 20   what each process wrote, the busiest first\n  \
    kymo stats t --by axis,event               what was written of each axis\n  \
    kymo stats t --by caller --sum size --limit 10   the callers of malloc that asked for most bytes\n  \
    kymo stats t --event 'motor:*' --values    min, mean, max, deviation and quantiles of each field\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was counted), 2 it cannot be opened.")]
pub struct StatsArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Group by event, process, thread, cpu (or $event, $pid, $tid, $cpu), names of payload fields that are integers or
    /// text (`field:cpu` for a field with one of these names), and contexts ($proc, $prio, any that records have); at
    /// most four, in any order. Addresses, such
    /// as those of `caller`, are shown as functions with their lines
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "event", value_parser = by::parse)]
    by: Vec<By>,
    #[command(flatten)]
    events: EventArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Also show statistics of each field that is a number
    #[arg(long, alias = "fields")]
    values: bool,
    /// Add up the values of this payload field in each row, and sort the rows by that, the largest first
    #[arg(long, value_name = "FIELD")]
    sum: Option<String>,
    /// Also show bytes: of all records, of one record, per second. Packet headers are not counted
    #[arg(long)]
    sizes: bool,
    #[command(flatten)]
    range: RangeArgs,
    /// Show only the N rows with most records, the most first; with --sum those with the largest sums [default: all, by
    /// name]
    #[arg(long, alias = "top", value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    hosts: HostArgs,
}

/// Counts on the way.
struct StatsPass {
    stats: Stats,
    /// By class.
    is_wanted: Vec<bool>,
    needs_writer: bool,
    /// More is asked for than an index knows.
    needs_records: bool,
    values: FieldValues,
}

impl Sink for StatsPass {}

impl Visit for StatsPass {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        if seen.is_selected && self.is_wanted[seen.class] {
            let mut writer = if self.needs_writer { seen.writer(state) } else { Default::default() };
            self.values.of(seen, &mut writer);
            let extent = (seen.head.time, seen.record.bits);
            self.stats.add(seen.class, extent, &writer, &Payload(seen.record.payload));
        }
    }
}

impl StatsPass {
    /// Counts the records of a stretch, or all.
    fn of_records(
        &mut self,
        indexes: &Indexes,
        classes: &Classes,
        input: &Input,
        stretch: Option<ReadRange>,
        chosen: &mut Chosen,
    ) -> (Totals, ExitCode) {
        let (from, to) = (stretch.map(|stretch| stretch.from), stretch.map(|stretch| stretch.to));
        let (mut reader, mut walker) = range::begin(&input.traces, classes, indexes, from, to);
        walker.go(&mut reader, chosen, self);
        chosen.conclude();
        (walker.totals, super::analyze::damage(input, &reader))
    }

    /// Takes the counts of an index that has all that is asked for.
    fn of_index(
        &mut self,
        indexes: &Indexes,
        classes: &Classes,
        input: &Input,
        stretch: Option<ReadRange>,
    ) -> Option<Totals> {
        if self.needs_writer || self.needs_records || stretch.is_some() {
            return None;
        }
        let span = indexes.bounds(&input.traces)?;
        let is_wanted = |class: usize| self.is_wanted[class];
        let EventCounts { records, lost } = event_counts(&input.traces, indexes, classes, is_wanted, &mut self.stats)?;
        Some(Totals { records, selected: records, lost, span: Some(span), ..Totals::default() })
    }
}

/// Runs the verb.
pub fn run(args: StatsArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let hosts = Input::by_kernel(&args.traces, &args.hosts)?;
    args.events.check(hosts.iter().flat_map(|host| &host.input.traces))?;
    let times = absolute(&hosts, [args.range.from, args.range.to])?;
    let (text, code) =
        each(&hosts, ("kymo-stats-hosts-1", args.output.json()), &mut |host| of_host(&host.input, times, &args))?;
    args.output.print(&text)?;
    Ok(code)
}

/// What is counted of the traces of one kernel.
fn of_host(input: &Input, [from, to]: [Option<When>; 2], args: &StatsArgs) -> anyhow::Result<(String, ExitCode)> {
    let classes = Classes::new(&input.traces);
    let mut chosen = Chosen::new(&input.traces, &args.scope.expressions())?;
    let levels: Vec<Level> = args.by.iter().map(|by| by.level()).collect();
    let matches = |class: &Class| args.events.wants(&class.name);
    let values = FieldValues::new(&args.by, &classes.list, &input.traces)?;
    let needs_fields = args.values || args.sizes || args.sum.is_some() || levels.contains(&Level::Other);
    let mut pass = StatsPass {
        stats: stats_of(args, &levels, &classes.list)?,
        is_wanted: classes.list.iter().map(matches).collect(),
        needs_writer: values.need_writer() || levels.iter().any(|level| !matches!(level, Level::Event | Level::Other)),
        needs_records: needs_fields || !chosen.is_all(),
        values,
    };
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, from, to)?;
    let (totals, code) = match pass.of_index(&indexes, &classes, input, stretch) {
        Some(totals) => (totals, super::analyze::damage(input, &Reader::new(&[]))),
        None => pass.of_records(&indexes, &classes, input, stretch, &mut chosen),
    };
    pass.values.reasons().iter().for_each(|why| eprintln!("kymo: {why}"));
    let made = StatsReport { stats: &pass.stats, args, classes: &classes.list, values: &pass.values };
    let text = match args.output.json() {
        true => json::document(&made, &totals, &input.told) + "\n",
        false => text::report(&made, &totals),
    };
    Ok((text, code))
}

/// Nothing counted yet.
fn stats_of(args: &StatsArgs, levels: &[Level], classes: &[Class]) -> anyhow::Result<Stats> {
    let stats = Stats::new(levels, args.values, classes);
    match &args.sum {
        None => Ok(stats),
        Some(field) => stats.with_sum(field, classes).with_context(|| {
            format!(
                "--sum: no event of the trace has a field {field:?} that is a number; kymo stats --values lists them"
            )
        }),
    }
}

/// What was counted, for those who print it.
struct StatsReport<'a> {
    stats: &'a Stats,
    args: &'a StatsArgs,
    classes: &'a [Class],
    /// What parts of rows stand for.
    values: &'a FieldValues,
}

/// The greater sum first; those without one last.
fn greater_first(a: Option<Number>, b: Option<Number>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.order(a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

impl StatsReport<'_> {
    /// The rows that are shown, each with its place for [`Stats::fields`].
    fn chosen(&self) -> Vec<(usize, &StatsRow)> {
        let mut rows = self.stats.rows();
        match (self.args.limit, &self.args.sum) {
            (_, Some(_)) => rows.sort_by(|(_, a), (_, b)| greater_first(a.sum, b.sum)),
            (Some(_), None) => rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.count)),
            (None, None) => rows.sort_by_cached_key(|(_, row)| self.parts(row)),
        }
        rows.truncate(self.args.limit.unwrap_or(usize::MAX));
        rows
    }

    /// The parts of a row's key; numbers so that they sort as numbers.
    fn parts(&self, row: &StatsRow) -> Vec<(i64, String)> {
        let part = |(level, (by, part)): (usize, (&By, &Option<i64>))| match (by, part) {
            (By::Event, Some(class)) => (0, self.classes[*class as usize].name.clone()),
            (By::Field(_), Some(number)) => match self.text(*number) {
                Some(text) => (i64::MAX, text.to_owned()),
                None if self.values.is_hex(level) => (*number, format!("{:#x}", *number as u64)),
                None => (*number, number.to_string()),
            },
            (_, Some(number)) => (*number, number.to_string()),
            (_, None) => (-1, "-".to_owned()),
        };
        self.args.by.iter().zip(&row.key).enumerate().map(part).collect()
    }

    /// The text that a part of a row stands for.
    fn text(&self, part: i64) -> Option<&str> {
        let index = usize::try_from(part.checked_sub(i64::MIN)?).ok()?;
        self.values.texts.get(index).map(String::as_str)
    }

    fn label(&self, row: &StatsRow) -> String {
        let shown = |(by, (_, part)): (&By, (i64, String))| match by {
            By::Process | By::Thread if !row.name.is_empty() && part != "-" => format!("{}[{part}]", row.name),
            By::Cpu => format!("cpu {part}"),
            By::Field(name) => format!("{name}={part}"),
            _ => part,
        };
        self.args.by.iter().zip(self.parts(row)).map(shown).collect::<Vec<_>>().join(" / ")
    }
}
