// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo export`: records in other tools' formats. Selects and shows progress; the formats are kymo-export's work.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use kymo_ctf::read::{Item, Reader, Record};
use kymo_export::export::stacks::{Naming, Space};
use kymo_export::export::{Done, Exporter, Format, begin};
use kymo_index::range;

use crate::verbs::analyze::feed::Input;
use crate::verbs::analyze::when::{self, When};
use crate::verbs::read::filter::Filters;
use crate::verbs::read::learn::Learn;
use crate::verbs::read::select::{Selection, Shown};
use crate::verbs::symbols::Known;

/// Write a trace in another tool's format
///
/// perfetto for ui.perfetto.dev, chrome for chrome://tracing and others, csv, parquet (a data set for each event,
/// partitioned by host and
/// day), speedscope and collapsed for stacks and flame graphs. What the format does not hold is said at the end.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo export t --to perfetto -o t.pftrace\n  \
    kymo export t --to csv -o t.csv --event 'motor:*'     one file; a directory instead of t.csv: a file for each event\n  \
    kymo export t --to parquet -o tables/ --from +1s --until +2s\n  \
    kymo export t --to csv -o end.csv --from -1s --json         the last second, and what was written as JSON\n  \
    kymo export t --to collapsed -o - | flamegraph.pl > t.svg\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was written), 2 errors.")]
pub struct Args {
    /// Trace directories; several are merged by time
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// Where to: a file, a directory (parquet, csv), or `-` for standard output
    #[arg(short, long, value_name = "FILE|DIR")]
    output: PathBuf,
    /// Only events whose name matches, such as `motor:*` (may be given several times)
    #[arg(long, value_name = "GLOB")]
    event: Vec<String>,
    /// Only records for which the condition holds, as for `kymo read`
    #[arg(long, value_name = "EXPR")]
    filter: Vec<String>,
    /// From this time on: +1.5s from the begin of the trace, -1s from its end, or ns since 1970 [default: the begin]
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    from: Option<When>,
    /// Up to this time [default: the end]
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    until: Option<When>,
    /// Also the records of the state dump
    #[arg(long)]
    state: bool,
    /// What was written, and what was not, as one JSON document on standard output
    #[arg(long)]
    json: bool,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
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

impl To {
    fn format(self) -> Format {
        match self {
            To::Perfetto => Format::Perfetto,
            To::Chrome => Format::Chrome,
            To::Csv => Format::Csv,
            To::Parquet => Format::Parquet,
            To::Speedscope => Format::Speedscope,
            To::Collapsed => Format::Collapsed,
        }
    }
}

/// From the first time on, up to the second one and with it, ns.
type Stretch = (Option<i64>, Option<i64>);

/// The times that are asked for. The ends of the trace are looked up where one is counted from them.
fn stretch(args: &Args, input: &Input) -> anyhow::Result<Stretch> {
    let is_relative = |when: &When| !matches!(when, When::At(_));
    let bounds = match args.from.iter().chain(&args.until).any(is_relative) {
        true => {
            range::bounds(&input.traces, &input.indexes()).context("the trace has no records: nothing to export")?
        }
        false => (0, 0),
    };
    let ns = |when: Option<When>| when.map(|when| when.at(bounds.0, bounds.1));
    match (ns(args.from), ns(args.until)) {
        (Some(from), Some(until)) if from > until => bail!("--from ({from}) is behind --until ({until})"),
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
struct Totals {
    records: u64,
    state_records: u64,
    lost: u64,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.json && args.output.as_os_str() == "-" {
        bail!("--json and -o - both want standard output: name a file with -o");
    }
    raise_file_limit();
    let input = Input::open(&args.dirs)?;
    let stretch = stretch(&args, &input)?;
    let selection = Selection::new(&input.traces, None, &args.event, args.state)?;
    for glob in selection.unmatched() {
        eprintln!("kymo: no event of the trace matches {glob:?}");
    }
    let mut filters = Filters::new(&input.traces, &args.filter)?;
    let mut known = Known::new(None, &input.traces)?;
    if matches!(args.to, To::Speedscope | To::Collapsed) {
        known.learn_all(&input.traces)?;
    }
    let known = Rc::new(RefCell::new(known));
    let symbols = Box::new(Names(Rc::clone(&known)));
    take_signals();
    let mut exporter = begin(args.to.format(), &input.traces, &args.output, symbols)?;
    let mut reader = Reader::new(&input.traces);
    let learn = Learn::new(&input.traces);
    let choice = Choice { args: &args, stretch, selection: &selection, filters: &mut filters, learn };
    let totals = choice.walk(&mut reader, &mut *exporter)?;
    filters.conclude();
    let done = exporter.finish().context("the export could not be ended")?;
    let unnamed = known.borrow().reasons();
    match args.json {
        true => println!("{}", document(&args, &totals, &done, &unnamed)),
        false => {
            unnamed.iter().for_each(|why| eprintln!("kymo: {why}"));
            say(&args, &totals, &done);
        }
    }
    Ok(crate::verbs::analyze::damage(&input, &reader))
}

/// What is known of addresses; who exports asks, and we tell at the end what was not known.
struct Names(Rc<RefCell<Known>>);

impl Naming for Names {
    fn learn(&mut self, record: &Record<'_>) {
        self.0.borrow_mut().learn(record);
    }

    fn name(&mut self, space: Space, address: u64) -> Option<String> {
        self.0.borrow_mut().name(space, address)
    }
}

/// Which records go out.
struct Choice<'a> {
    args: &'a Args,
    stretch: Stretch,
    selection: &'a Selection,
    filters: &'a mut Filters,
    learn: Option<Learn>,
}

impl Choice<'_> {
    fn walk(mut self, reader: &mut Reader<'_>, exporter: &mut dyn Exporter) -> anyhow::Result<Totals> {
        let mut totals = Totals::default();
        let mut progress = Progress::new();
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
            progress.show(totals.records);
        }
        progress.end();
        Ok(totals)
    }
}

/// The last lines, on standard error.
fn say(args: &Args, totals: &Totals, done: &Done) {
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
fn document(args: &Args, totals: &Totals, done: &Done, unnamed: &[String]) -> serde_json::Value {
    let format = args.to.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    serde_json::json!({
        "schema": "kymo-export-1", "format": format, "output": args.output.to_string_lossy(), "records": totals.records,
        "files": done.files, "lost": totals.lost, "state_records_left_out": totals.state_records,
        "not_in_this_format": done.left_out, "changed": done.changed, "unnamed": unnamed,
    })
}

/// A line on a terminal.
pub struct Progress {
    is_shown: bool,
    next: Instant,
    has_line: bool,
}

impl Progress {
    /// Shown where standard error is a terminal.
    pub fn new() -> Progress {
        Progress { is_shown: std::io::stderr().is_terminal(), next: Instant::now() + Progress::STEP, has_line: false }
    }

    const STEP: Duration = Duration::from_millis(300);

    /// So many are done.
    pub fn show(&mut self, records: u64) {
        // The clock costs more than a record.
        if records & 0xFFF == 0 {
            self.show_now(records);
        }
    }

    /// The same of a number that does not come one by one.
    pub fn show_now(&mut self, records: u64) {
        if !self.is_shown || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + Progress::STEP;
        self.has_line = true;
        eprint!("\rkymo: {:.1} million records", records as f64 / 1e6);
    }

    /// Takes the line away.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.has_line) {
            eprint!("\r\x1b[K");
        }
    }
}

/// A file for each event may be more than a shell allows by default.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, the file that cannot be opened says so.
    let _ = setrlimit(Resource::Nofile, limit);
}
