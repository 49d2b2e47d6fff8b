// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo export`: records in other tools' formats. Selects and shows progress; the formats are kymo-export's work, but
//! for Parquet, which is kymo-sql's: the command that runs this brings what writes the format.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use kymo_ctf::read::{Item, Range, Reader, Trace};
use kymo_export::export::{Done, Exporter, Format, KnownThread, NamedBy, ThreadNames, Trim};
use kymo_feed::Missing;
use kymo_query::Learn;
use kymo_query::filter::Filters;

use crate::args::{EventArgs, JsonArgs, RangeArgs, ScopeArgs, TraceArgs};
use crate::caveats::{damage, missing};
use crate::input::Input;
use crate::interrupt::{is_over, take_signals};
use crate::select::{EventChoice, Shown, say_of_filters};
use crate::when::When;

/// Export a trace: Perfetto, Chrome, CSV, Parquet, speedscope, flame graphs, CTF
///
/// perfetto for ui.perfetto.dev, chrome for chrome://tracing and others, csv, parquet (a data set for each event,
/// partitioned by host and day), speedscope and collapsed for stacks and flame graphs. ctf writes any trace as CTF 1.8,
/// for babeltrace 1.5, babeltrace2 and others; with --from, --filter and the like it writes a part of it (a
/// trim). What the format does not hold is said at the end. Causes of delays are in no format: kymo explain and kymo
/// latency --explain name them.
#[derive(clap::Args)]
#[command(mut_arg("to", |arg| arg.alias("until")))]
#[command(mut_arg("json", |arg| arg.help("Print what was written, and what was not, as one JSON document")))]
#[command(after_help = "Examples:\n  kymo export t --format perfetto -o t.pftrace\n  \
    kymo export t --format csv -o t.csv --event 'motor:*'     one file; a directory instead of t.csv: a file for each event\n  \
    kymo export t --format parquet -o tables/ --from +1s --to +2s\n  \
    kymo export t --format csv -o end.csv --from -1s --json         the last second, and what was written as JSON\n  \
    kymo export t --format collapsed -o - | flamegraph.pl > t.svg\n  \
    kymo export t --format ctf -o part --from +1s --to +2s --process motor     a part of the trace, as a trace\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was written), 2 errors.")]
pub struct ExportArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: ExportFormat,
    /// Write to this file or directory (ctf, parquet, csv); `-` is standard output. It must not exist yet; an empty
    /// directory may
    #[arg(short, long, value_name = "FILE|DIR")]
    output: PathBuf,
    #[command(flatten)]
    events: EventArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Also export the records of the state dump (ctf: always, unless --event leaves them out)
    #[arg(long)]
    state: bool,
    #[command(flatten)]
    out: JsonArgs,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Perfetto's protobuf
    Perfetto,
    /// Chrome's JSON
    Chrome,
    /// RFC 4180: one FILE.csv, or a directory with a file for each event
    Csv,
    /// Apache Parquet: DIR/EVENT/host=HOST/day=DAY/part-0.parquet
    Parquet,
    /// speedscope's JSON: call stacks, or calls of functions
    Speedscope,
    /// `a;b;c COUNT`: the same as lines
    Collapsed,
    /// A CTF 1.8 trace in DIR that every reader reads
    Ctf,
}

impl ExportFormat {
    /// As kymo-export has it; `None` for Parquet, which is kymo-sql's.
    pub fn of_kymo_export(self) -> Option<Format> {
        match self {
            ExportFormat::Perfetto => Some(Format::Perfetto),
            ExportFormat::Chrome => Some(Format::Chrome),
            ExportFormat::Csv => Some(Format::Csv),
            ExportFormat::Parquet => None,
            ExportFormat::Speedscope => Some(Format::Speedscope),
            ExportFormat::Collapsed => Some(Format::Collapsed),
            ExportFormat::Ctf => Some(Format::Ctf),
        }
    }
}

impl ExportArgs {
    /// The format that is asked for.
    pub fn format(&self) -> ExportFormat {
        self.format
    }

    /// Where it is written to; `-` is standard output.
    pub fn output(&self) -> &Path {
        &self.output
    }
}

/// What writes the format of an export.
pub struct ExportWriter<'t> {
    /// Takes the records.
    pub exporter: Box<dyn Exporter + 't>,
    /// Says at the end why some addresses have no names.
    pub unnamed: Box<dyn Fn() -> Vec<String>>,
}

/// From the first time on, before the second one, ns.
type ExportRange = (Option<i64>, Option<i64>);

/// The times that are asked for. The ends of the trace are looked up where one is counted from them.
fn stretch(args: &ExportArgs, input: &Input) -> anyhow::Result<ExportRange> {
    let is_relative = |when: &When| !matches!(when, When::At(_));
    let bounds = match args.range.from.iter().chain(&args.range.to).any(is_relative) {
        true => input.bounds(&input.indexes()).context("the trace has no records: nothing to export")?,
        false => (0, 0),
    };
    let ns = |when: Option<When>| when.map(|when| when.at(bounds.0, bounds.1));
    let (mut from, mut to) = (ns(args.range.from), ns(args.range.to));
    if let Some((first, behind)) = input.common() {
        from = Some(from.map_or(first, |from| from.max(first)));
        to = Some(to.map_or(behind, |to| to.min(behind)));
    }
    match (from, to) {
        (Some(from), Some(to)) if from > to => bail!("--from ({from}) is behind --to ({to})"),
        stretch => Ok(stretch),
    }
}

/// What an export that is broken off leaves.
fn left(output: &Path) -> String {
    match output.as_os_str() == "-" {
        true => "what standard output has so far is not whole".to_owned(),
        false => format!("nothing was left at {}", output.display()),
    }
}

/// What was seen on the way.
#[derive(Default)]
struct ExportTotals {
    records: u64,
    state_records: u64,
    lost: Missing,
    /// Records in the range that the conditions left out.
    left_out: u64,
}

/// Runs the verb. `begin` makes the output for the traces that are open. What takes its time before it does so ends by
/// Ctrl-C as ever: then it calls [`take_signals`], and makes the output.
pub fn run(
    args: &ExportArgs,
    begin: impl for<'t> FnOnce(&'t [Trace]) -> anyhow::Result<ExportWriter<'t>>,
) -> anyhow::Result<ExitCode> {
    if args.out.json && args.output.as_os_str() == "-" {
        bail!("--json and -o - both want standard output: name a file with -o");
    }
    raise_file_limit();
    let input = Input::open(&args.traces)?;
    let stretch = stretch(args, &input)?;
    // Who reads a trace has an option for the state dump, and analyses need it.
    let state = args.state || args.format == ExportFormat::Ctf;
    let events = EventChoice::new(&input.traces, &args.events.event, state);
    args.events.check(&input.traces)?;
    let mut filters = Filters::new(&input.traces, &args.scope.expressions())?;
    say_of_filters(&filters.notes());
    let ExportWriter { mut exporter, unnamed } = begin(&input.traces)?;
    take_signals();
    trim(args, stretch).iter().for_each(|trim| exporter.trim(trim));
    let range = Range { from_ns: None, to_ns: stretch.1.map(i128::from) };
    let mut reader = Reader::between(&input.traces, range, &[]).context("the trace cannot be read")?;
    let learn = Learn::new(&input.traces);
    let choice = ExportChoice { args, stretch, events: &events, filters: &mut filters, learn };
    let totals = choice.walk(&mut reader, &mut *exporter)?;
    say_of_filters(&filters.conclude());
    let done = exporter.finish().context("the export could not be ended")?;
    let unnamed = unnamed();
    match args.out.json {
        true => println!("{}", document(args, &totals, &done, &unnamed)),
        false => {
            unnamed.iter().for_each(|why| eprintln!("kymo: {why}"));
            say(args, &totals, &done);
        }
    }
    Ok(damage(&input, &reader))
}

/// Which part of the trace is exported; `None` where it is all.
fn trim(args: &ExportArgs, stretch: ExportRange) -> Option<Trim> {
    let mut options = Vec::new();
    let mut add = |name: &str, value: &str| options.push(format!("--{name} {value}"));
    stretch.0.iter().for_each(|from| add("from", &from.to_string()));
    stretch.1.iter().for_each(|to| add("to", &to.to_string()));
    args.events.event.iter().for_each(|glob| add("event", &format!("'{glob}'")));
    args.scope.expressions().iter().for_each(|condition| add("filter", &format!("'{condition}'")));
    let trim = || Trim { options: options.join(" "), from_ns: stretch.0, to_ns: stretch.1 };
    (!options.is_empty()).then(trim)
}

/// Which records go out.
struct ExportChoice<'a> {
    args: &'a ExportArgs,
    stretch: ExportRange,
    events: &'a EventChoice,
    filters: &'a mut Filters,
    learn: Option<Learn>,
}

impl ExportChoice<'_> {
    fn walk(mut self, reader: &mut Reader<'_>, exporter: &mut dyn Exporter) -> anyhow::Result<ExportTotals> {
        let mut totals = ExportTotals::default();
        exporter.threads(&self.known_threads())?;
        while let Some(mut item) = reader.next() {
            if is_over() {
                bail!("interrupted; {}", left(&self.args.output));
            }
            // A loss that ends in the range is in it.
            let ns = match &item {
                Item::Record(record) => record.ns,
                Item::Loss(loss) => loss.to_ns,
            };
            let is_early = self.stretch.0.is_some_and(|from| ns < i128::from(from));
            match &mut item {
                Item::Record(record) => {
                    let shown = self.events.of(record.trace, record.event_position);
                    totals.state_records += u64::from(shown == Shown::OnlyWithState);
                    let names = self.learn.as_mut().and_then(|learn| learn.named_record(record));
                    if !self.filters.matches(record, shown == Shown::Yes) || shown != Shown::Yes || is_early {
                        if !is_early {
                            totals.left_out += 1;
                            exporter.left_out(record);
                        }
                        continue;
                    }
                    totals.records += 1;
                    match &names {
                        Some((thread, process)) => {
                            exporter.named_record(record, &ThreadNames { thread, process, by: NamedBy::Kernel })?;
                        }
                        None => exporter.record(record)?,
                    }
                }
                Item::Loss(loss) => {
                    totals.lost.add_loss(loss);
                    self.learn.iter_mut().for_each(|learn| learn.loss(loss));
                    self.filters.lost(loss);
                    if !is_early {
                        exporter.loss(loss)?;
                    }
                }
            }
        }
        reader.end_pass();
        exporter.doubts(&doubts(&totals.lost, reader))?;
        Ok(totals)
    }

    /// The threads that exist when the trace begins, as the state dump has them: with `--state` or without it.
    fn known_threads(&self) -> Vec<KnownThread> {
        let all = self.learn.iter().flat_map(|learn| learn.all());
        let known = all.filter_map(|(tid, who)| Some(KnownThread { tid, pid: who.pid?, name: who.name.to_owned() }));
        known.collect()
    }
}

/// What is wrong with a trace as a whole, for formats that can hold it.
fn doubts(missing: &Missing, reader: &Reader<'_>) -> [(&'static str, u64); 5] {
    let (all, damage) = (reader.caveat_count(), reader.damage_count());
    [
        ("lost_records", missing.records),
        ("missing_packets", missing.packets),
        ("places_of_losses", missing.places),
        ("damaged_places", damage),
        ("odd_times_and_remarks", all.saturating_sub(damage)),
    ]
}

/// The last lines, on standard error.
fn say(args: &ExportArgs, totals: &ExportTotals, done: &Done) {
    let files = if done.files == 1 { "1 file".to_owned() } else { format!("{} files", done.files) };
    eprintln!("kymo: {} records, {files} in {}; {}", totals.records, args.output.display(), lost(&totals.lost));
    if args.format == ExportFormat::Ctf && totals.left_out > 0 {
        eprintln!("kymo: {} records of that time were left out on purpose; the new trace says so", totals.left_out);
    }
    for (what, count) in &done.left_out {
        eprintln!("kymo: not in this format: {what}: {count}");
    }
    for (what, count) in &done.changed {
        eprintln!("kymo: {what}: {count}");
    }
    if totals.state_records > 0 {
        eprintln!("kymo: {} records of the state dump were left out; --state takes them", totals.state_records);
    }
}

/// What is missing in the trace, so far as it was read.
fn lost(missing: &Missing) -> String {
    match missing.is_none() {
        true => "0 were lost in the trace".to_owned(),
        false => format!("in the trace {}", missing.text()),
    }
}

/// The same as `kymo-export-1`.
fn document(args: &ExportArgs, totals: &ExportTotals, done: &Done, unnamed: &[String]) -> serde_json::Value {
    let format = args.format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    serde_json::json!({
        "schema": "kymo-export-1", "format": format, "output": args.output.to_string_lossy(), "records": totals.records,
        "files": done.files, "lost": missing(&totals.lost), "state_records_left_out": totals.state_records,
        "left_out": totals.left_out,
        "not_in_this_format": done.left_out, "changed": done.changed, "unnamed": unnamed,
    })
}

/// A file for each event may be more than a shell allows by default.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, the file that cannot be opened says so.
    let _ = setrlimit(Resource::Nofile, limit);
}
