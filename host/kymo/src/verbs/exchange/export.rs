// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo export`: records in other tools' formats. Selects and shows progress; the formats are kymo-export's work.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use kymo_ctf::read::{Item, Reader, Record};
use kymo_export::export::stacks::{Naming, Space};
use kymo_export::export::{Done, Exporter, Format, begin};
use kymo_index::range;
use kymo_query::Learn;

use crate::verbs::analyze::feed::Input;
use crate::verbs::analyze::when::When;
use crate::verbs::args::{EventArgs, JsonArgs, RangeArgs, ScopeArgs, TraceArgs};
use crate::verbs::read::filter::{self, Filters};
use crate::verbs::read::select::{Selection, Shown};
use crate::verbs::symbols::Symbolizer;

/// Export a trace: Perfetto, Chrome, CSV, Parquet, speedscope, flame graphs
///
/// perfetto for ui.perfetto.dev, chrome for chrome://tracing and others, csv, parquet (a data set for each event,
/// partitioned by host and day), speedscope and collapsed for stacks and flame graphs. What the format does not hold is
/// said at the end.
#[derive(clap::Args)]
#[command(mut_arg("to", |arg| arg.alias("until").help("Up to this time, and with it [default: the end]")))]
#[command(mut_arg("json", |arg| arg.help("Print what was written, and what was not, as one JSON document")))]
#[command(after_help = "Examples:\n  kymo export t --format perfetto -o t.pftrace\n  \
    kymo export t --format csv -o t.csv --event 'motor:*'     one file; a directory instead of t.csv: a file for each event\n  \
    kymo export t --format parquet -o tables/ --from +1s --to +2s\n  \
    kymo export t --format csv -o end.csv --from -1s --json         the last second, and what was written as JSON\n  \
    kymo export t --format collapsed -o - | flamegraph.pl > t.svg\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was written), 2 errors.")]
pub struct Args {
    #[command(flatten)]
    traces: TraceArgs,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: ExportFormat,
    /// Write to this file or directory (parquet, csv); `-` is standard output
    #[arg(short, long, value_name = "FILE|DIR")]
    output: PathBuf,
    #[command(flatten)]
    events: EventArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Also export the records of the state dump
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
}

impl ExportFormat {
    fn exporter(self) -> Format {
        match self {
            ExportFormat::Perfetto => Format::Perfetto,
            ExportFormat::Chrome => Format::Chrome,
            ExportFormat::Csv => Format::Csv,
            ExportFormat::Parquet => Format::Parquet,
            ExportFormat::Speedscope => Format::Speedscope,
            ExportFormat::Collapsed => Format::Collapsed,
        }
    }
}

/// From the first time on, up to the second one and with it, ns.
type Stretch = (Option<i64>, Option<i64>);

/// The times that are asked for. The ends of the trace are looked up where one is counted from them.
fn stretch(args: &Args, input: &Input) -> anyhow::Result<Stretch> {
    let is_relative = |when: &When| !matches!(when, When::At(_));
    let bounds = match args.range.from.iter().chain(&args.range.to).any(is_relative) {
        true => {
            range::bounds(&input.traces, &input.indexes()).context("the trace has no records: nothing to export")?
        }
        false => (0, 0),
    };
    let ns = |when: Option<When>| when.map(|when| when.at(bounds.0, bounds.1));
    match (ns(args.range.from), ns(args.range.to)) {
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

/// Somebody wants it to end (Ctrl-C).
static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_signal: libc::c_int) {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// Whether somebody wants it to end.
pub fn is_over() -> bool {
    IS_OVER.load(Ordering::Relaxed)
}

/// From now on Ctrl-C ends an export or import, and what is half written goes.
pub fn take_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores into an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
}

/// What was seen on the way.
#[derive(Default)]
struct ExportTotals {
    records: u64,
    state_records: u64,
    lost: u64,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.out.json && args.output.as_os_str() == "-" {
        bail!("--json and -o - both want standard output: name a file with -o");
    }
    raise_file_limit();
    let input = Input::open(&args.traces.dirs)?;
    let stretch = stretch(&args, &input)?;
    let selection = Selection::new(&input.traces, None, &args.events.event, args.state)?;
    args.events.check(&input.traces)?;
    let mut filters = Filters::new(&input.traces, &args.scope.expressions())?;
    filter::say(&filters.notes());
    let mut known = Symbolizer::new(None, &input.traces)?;
    if matches!(args.format, ExportFormat::Speedscope | ExportFormat::Collapsed) {
        known.learn_all(&input.traces)?;
    }
    let known = Rc::new(RefCell::new(known));
    let symbols = Box::new(Names(Rc::clone(&known)));
    take_signals();
    let mut exporter = begin(args.format.exporter(), &input.traces, &args.output, symbols)?;
    let mut reader = Reader::new(&input.traces);
    let learn = Learn::new(&input.traces);
    let choice = ExportChoice { args: &args, stretch, selection: &selection, filters: &mut filters, learn };
    let totals = choice.walk(&mut reader, &mut *exporter)?;
    filter::say(&filters.conclude());
    let done = exporter.finish().context("the export could not be ended")?;
    let unnamed = known.borrow().reasons();
    match args.out.json {
        true => println!("{}", document(&args, &totals, &done, &unnamed)),
        false => {
            unnamed.iter().for_each(|why| eprintln!("kymo: {why}"));
            say(&args, &totals, &done);
        }
    }
    Ok(crate::verbs::analyze::damage(&input, &reader))
}

/// What is known of addresses; who exports asks, and we tell at the end what was not known.
struct Names(Rc<RefCell<Symbolizer>>);

impl Naming for Names {
    fn learn(&mut self, record: &Record<'_>) {
        self.0.borrow_mut().learn(record);
    }

    fn name(&mut self, space: Space, address: u64) -> Option<String> {
        self.0.borrow_mut().name(space, address)
    }

    fn of_fields(&mut self, record: &Record<'_>) -> Vec<(String, String)> {
        self.0.borrow_mut().of_fields(record)
    }
}

/// Which records go out.
struct ExportChoice<'a> {
    args: &'a Args,
    stretch: Stretch,
    selection: &'a Selection,
    filters: &'a mut Filters,
    learn: Option<Learn>,
}

impl ExportChoice<'_> {
    fn walk(mut self, reader: &mut Reader<'_>, exporter: &mut dyn Exporter) -> anyhow::Result<ExportTotals> {
        let mut totals = ExportTotals::default();
        while let Some(mut item) = reader.next() {
            if is_over() {
                bail!("interrupted; {}", left(&self.args.output));
            }
            let ns = match &item {
                Item::Record(record) => record.ns,
                Item::Loss(loss) => loss.from_ns,
            };
            if self.stretch.1.is_some_and(|until| ns > i128::from(until)) {
                break;
            }
            let is_early = self.stretch.0.is_some_and(|from| ns < i128::from(from));
            match &mut item {
                Item::Record(record) => {
                    let shown = self.selection.event(record.trace, record.event_position);
                    totals.state_records += u64::from(shown == Shown::OnlyWithState);
                    if let Some(learn) = &mut self.learn {
                        learn.record(record);
                    }
                    if !self.filters.matches(record, shown == Shown::Yes) || shown != Shown::Yes || is_early {
                        continue;
                    }
                    totals.records += 1;
                }
                Item::Loss(loss) => {
                    totals.lost = totals.lost.saturating_add(loss.records);
                    self.learn.iter_mut().for_each(|learn| learn.loss(loss));
                    self.filters.lost(loss);
                    if is_early {
                        continue;
                    }
                }
            }
            exporter.item(&item)?;
        }
        reader.end_pass();
        Ok(totals)
    }
}

/// The last lines, on standard error.
fn say(args: &Args, totals: &ExportTotals, done: &Done) {
    let files = if done.files == 1 { "1 file".to_owned() } else { format!("{} files", done.files) };
    eprintln!(
        "kymo: {} records, {files} in {}; {} were lost in the trace",
        totals.records,
        args.output.display(),
        totals.lost
    );
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

/// The same as `kymo-export-1`.
fn document(args: &Args, totals: &ExportTotals, done: &Done, unnamed: &[String]) -> serde_json::Value {
    let format = args.format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    serde_json::json!({
        "schema": "kymo-export-1", "format": format, "output": args.output.to_string_lossy(), "records": totals.records,
        "files": done.files, "lost": totals.lost, "state_records_left_out": totals.state_records,
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
