// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo stats`: counts, rates, and statistics of fields, by any sequence of event, process, thread, CPU and fields.

mod by;
mod json;
mod text;
mod values;

use std::process::ExitCode;

use kymo_analyze::{Class, Level, Row, Sink, State, Stats};
use kymo_ctf::read::Reader;

use kymo_feed::Missing;
use kymo_index::{Indexes, range};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Payload, Seen, Stretch, Totals, Visit, absolute, each};
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
    kymo stats t --event 'motor:*' --values    min, mean, max, deviation and quantiles of each field\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was counted), 2 it cannot be opened.")]
pub struct Args {
    #[command(flatten)]
    traces: TraceArgs,
    /// Group by event, process, thread, cpu (or $event, $pid, $tid, $cpu), and names of payload fields that are
    /// integers or text (`field:cpu` for a field with one of these names); at most four, in any order
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "event", value_parser = by::parse)]
    by: Vec<By>,
    #[command(flatten)]
    events: EventArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Also show statistics of each field that is a number
    #[arg(long, alias = "fields")]
    values: bool,
    /// Also show bytes: of all records, of one record, per second. Packet headers are not counted
    #[arg(long)]
    sizes: bool,
    #[command(flatten)]
    range: RangeArgs,
    /// Show only the N rows with most records, the most first [default: all, by name]
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
            self.values.of(seen, &mut writer.others);
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
        stretch: Option<Stretch>,
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
        stretch: Option<Stretch>,
    ) -> Option<Totals> {
        if self.needs_writer || self.needs_records || stretch.is_some() {
            return None;
        }
        let (whole, span) = (indexes.whole()?, indexes.bounds(&input.traces)?);
        let mut totals = Totals { span: Some(span), ..Totals::default() };
        for (trace, index) in whole.into_iter().enumerate() {
            let clock = input.traces[trace].metadata.clocks.first()?;
            for stream in &index.streams {
                totals.records = totals.records.saturating_add(stream.records());
                let [records, packets, places] = stream.lost;
                totals.lost.add_all(&Missing { records, packets, places });
                for of in &stream.events {
                    let class = classes.at(trace, of.event)?;
                    let ns = |cycles| i64::try_from(clock.nanoseconds(cycles)).ok();
                    if self.is_wanted[class] {
                        self.stats.add_counted(class, of.records, (ns(of.first)?, ns(of.last)?));
                    }
                }
            }
        }
        totals.selected = totals.records;
        Some(totals)
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let hosts = Input::by_kernel(&args.traces.dirs, &args.hosts)?;
    args.events.check(hosts.iter().flat_map(|host| &host.input.traces))?;
    let times = absolute(&hosts, [args.range.from, args.range.to])?;
    let (text, code) =
        each(&hosts, ("kymo-stats-hosts-1", args.output.json()), &mut |host| of_host(&host.input, times, &args))?;
    args.output.print(&text)?;
    Ok(code)
}

/// What is counted of the traces of one kernel.
fn of_host(input: &Input, [from, to]: [Option<When>; 2], args: &Args) -> anyhow::Result<(String, ExitCode)> {
    let classes = Classes::new(&input.traces);
    let mut chosen = Chosen::new(&input.traces, &args.scope.expressions())?;
    let levels: Vec<Level> = args.by.iter().map(|by| by.level()).collect();
    let matches = |class: &Class| args.events.wants(&class.name);
    let mut pass = StatsPass {
        stats: Stats::new(&levels, args.values, &classes.list),
        is_wanted: classes.list.iter().map(matches).collect(),
        needs_writer: levels.iter().any(|level| !matches!(level, Level::Event | Level::Other)),
        needs_records: args.values || args.sizes || !chosen.is_all() || levels.contains(&Level::Other),
        values: FieldValues::new(&args.by, &classes.list)?,
    };
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, from, to)?;
    let (totals, code) = match pass.of_index(&indexes, &classes, input, stretch) {
        Some(totals) => (totals, super::analyze::damage(input, &Reader::new(&[]))),
        None => pass.of_records(&indexes, &classes, input, stretch, &mut chosen),
    };
    let made = StatsReport { stats: &pass.stats, args, classes: &classes.list, texts: &pass.values.texts };
    let text = match args.output.json() {
        true => json::document(&made, &totals, &input.told) + "\n",
        false => text::report(&made, &totals),
    };
    Ok((text, code))
}

/// What was counted, for those who print it.
struct StatsReport<'a> {
    stats: &'a Stats,
    args: &'a Args,
    classes: &'a [Class],
    /// Of fields that are text.
    texts: &'a [String],
}

impl StatsReport<'_> {
    /// The rows that are shown, each with its place for [`Stats::fields`].
    fn chosen(&self) -> Vec<(usize, &Row)> {
        let mut rows = self.stats.rows();
        match self.args.limit {
            Some(top) => {
                rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.count));
                rows.truncate(top);
            }
            None => rows.sort_by_cached_key(|(_, row)| self.parts(row)),
        }
        rows
    }

    /// The parts of a row's key; numbers so that they sort as numbers.
    fn parts(&self, row: &Row) -> Vec<(i64, String)> {
        let part = |(by, part): (&By, &Option<i64>)| match (by, part) {
            (By::Event, Some(class)) => (0, self.classes[*class as usize].name.clone()),
            (By::Field(_), Some(number)) => match self.text(*number) {
                Some(text) => (i64::MAX, text.to_owned()),
                None => (*number, number.to_string()),
            },
            (_, Some(number)) => (*number, number.to_string()),
            (_, None) => (-1, "-".to_owned()),
        };
        self.args.by.iter().zip(&row.key).map(part).collect()
    }

    /// The text that a part of a row stands for.
    fn text(&self, part: i64) -> Option<&str> {
        let index = usize::try_from(part.checked_sub(i64::MIN)?).ok()?;
        self.texts.get(index).map(String::as_str)
    }

    fn label(&self, row: &Row) -> String {
        let shown = |(by, (_, part)): (&By, (i64, String))| match by {
            By::Process | By::Thread if !row.name.is_empty() && part != "-" => format!("{}[{part}]", row.name),
            By::Cpu => format!("cpu {part}"),
            By::Field(name) => format!("{name}={part}"),
            _ => part,
        };
        self.args.by.iter().zip(self.parts(row)).map(shown).collect::<Vec<_>>().join(" / ")
    }
}
