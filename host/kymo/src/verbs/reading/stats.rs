// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo stats`: counts, rates, and statistics of fields, by any sequence of event, process, thread, CPU and fields.

mod by;
mod json;
mod text;
mod values;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use kymo_analyze::{Class, Level, Row, Sink, State, Stats};
use kymo_ctf::read::Reader;

use kymo_index::{Indexes, range};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Payload, Seen, Stretch, Totals, Visit, absolute, each};
use super::analyze::when::{self, When};
use super::hosts::HostArgs;
use by::By;
use values::FieldValues;

/// Count the records of a trace, and look at their fields
///
/// Rows by any sequence of event, process, thread, cpu and fields of the payload; records of a kernel belong to the
/// thread that ran on their CPU.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo stats t                               records and rates by event\n  \
    kymo stats t --by process,event --top 20   what each process wrote, the busiest first\n  \
    kymo stats t --by axis,event               what was written of each axis\n  \
    kymo stats t --event 'motor:*' --fields    min, mean, max, deviation and quantiles of each field\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was counted), 2 it cannot be opened.")]
pub struct Args {
    /// Trace directories; several are merged by time
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Rows by any sequence of event, process, thread, cpu, and names of payload fields that are integers or text
    /// (`field:cpu` for a field that is called like one of these); four at most
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "event", value_parser = by::parse)]
    by: Vec<By>,
    /// Only events whose name matches, such as `motor:*` (may be given several times)
    #[arg(long, value_name = "GLOB")]
    event: Vec<String>,
    /// Only records for which the condition holds, such as `axis == 2 && position > 0.5`, `$tid == 7`,
    /// `latency(req:begin, req:end, by=id) > 5ms` (several times: all must hold)
    #[arg(long, value_name = "EXPR")]
    filter: Vec<String>,
    /// Also statistics of each field that is a number
    #[arg(long)]
    fields: bool,
    /// Also bytes: of all records, of one, in a second. Records without the heads of packets
    #[arg(long)]
    sizes: bool,
    /// Only records from this time on: +1.5s from the begin of the trace, -1s from its end, or ns since 1970
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    from: Option<When>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    to: Option<When>,
    /// Only the N rows with most records, the most first [default: all, by name]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// One JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hosts: HostArgs,
}

/// Counts on the way.
struct Pass {
    stats: Stats,
    /// By class.
    is_wanted: Vec<bool>,
    needs_writer: bool,
    /// More is asked for than an index knows.
    needs_records: bool,
    values: FieldValues,
}

impl Sink for Pass {}

impl Visit for Pass {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        if seen.is_selected && self.is_wanted[seen.class] {
            let mut writer = if self.needs_writer { seen.writer(state) } else { Default::default() };
            self.values.of(seen, &mut writer.others);
            let extent = (seen.head.time, seen.record.bits);
            self.stats.add(seen.class, extent, &writer, &Payload(seen.record.payload));
        }
    }
}

impl Pass {
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
                totals.lost = (totals.lost.0.saturating_add(stream.lost[0]), totals.lost.1 + stream.lost[2]);
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
    let hosts = Input::by_kernel(&args.dirs, &args.hosts)?;
    let times = absolute(&hosts, [args.from, args.to])?;
    let (text, code) = each(&hosts, ("kymo-stats-hosts-1", args.json), &mut |host| of_host(&host.input, times, &args))?;
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(code)
}

/// What is counted of the traces of one kernel.
fn of_host(input: &Input, [from, to]: [Option<When>; 2], args: &Args) -> anyhow::Result<(String, ExitCode)> {
    let classes = Classes::new(&input.traces);
    let mut chosen = Chosen::new(&input.traces, &args.filter)?;
    let levels: Vec<Level> = args.by.iter().map(|by| by.level()).collect();
    let matches = |class: &Class| {
        args.event.is_empty() || args.event.iter().any(|glob| kymo_names::glob_matches(glob, &class.name))
    };
    let mut pass = Pass {
        stats: Stats::new(&levels, args.fields, &classes.list),
        is_wanted: classes.list.iter().map(matches).collect(),
        needs_writer: levels.iter().any(|level| !matches!(level, Level::Event | Level::Other)),
        needs_records: args.fields || args.sizes || !chosen.is_all() || levels.contains(&Level::Other),
        values: FieldValues::new(&args.by, &classes.list)?,
    };
    for glob in &args.event {
        if !classes.list.iter().any(|class| kymo_names::glob_matches(glob, &class.name)) {
            eprintln!("kymo: no event of the trace matches {glob:?}");
        }
    }
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, from, to)?;
    let (totals, code) = match pass.of_index(&indexes, &classes, input, stretch) {
        Some(totals) => (totals, super::analyze::damage(input, &Reader::new(&[]))),
        None => pass.of_records(&indexes, &classes, input, stretch, &mut chosen),
    };
    let made = Made { stats: &pass.stats, args, classes: &classes.list, texts: &pass.values.texts };
    let text = match args.json {
        true => json::document(&made, &totals, &input.told) + "\n",
        false => text::report(&made, &totals),
    };
    Ok((text, code))
}

/// What was counted, for those who print it.
struct Made<'a> {
    stats: &'a Stats,
    args: &'a Args,
    classes: &'a [Class],
    /// Of fields that are text.
    texts: &'a [String],
}

impl Made<'_> {
    /// The rows that are shown, each with its place for [`Stats::fields`].
    fn chosen(&self) -> Vec<(usize, &Row)> {
        let mut rows = self.stats.rows();
        match self.args.top {
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
