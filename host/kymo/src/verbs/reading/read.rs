// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read`: a trace as text or JSON lines. Only opens, selects and prints; decoding is kymo-ctf's work. `learn` and
//! `threads` find out which threads the records of a kernel belong to.

mod columns;
mod count;
pub mod filter;
pub mod follow;
mod growing;
mod json;
#[cfg(test)]
mod kernel_tests;
mod line;
pub mod live;
mod parallel;
mod posix;
pub mod select;
mod sliced;
mod symbols;
#[cfg(test)]
mod tests;
mod text;
mod zone;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use kymo_analyze::State;
use kymo_ctf::read::{Caveat, Item, Loss, Passed, Reader, Record, Trace};
use kymo_feed::{Classes, Missing};
use kymo_index::{Indexes, Named, range};
use kymo_query::Learn;

use super::analyze::caveats::{self, CaveatCounts};
use super::analyze::feed::{has_switches, indexes, say_if_empty};
use super::analyze::intersect;
use super::analyze::named::named;
use super::analyze::say_unknown;
use super::analyze::when::When;
use super::hosts::{self, HostArgs};
use super::symbols::Symbolizer;
use crate::terminal::ReadingProgress;
use crate::verbs::args::{EventArgs, OutputArgs, RangeArgs, ScopeArgs, TraceArgs, ZoneArgs};
use filter::Filters;
use select::{Selection, Shown};

/// Print a trace as text or JSON, in the order of time
///
/// Any CTF 1.8 or CTF 2 trace can be read, not only those of kymo. Lost records are shown where they are missing.
/// What is damaged is listed on standard error at the end.
///
/// Each record is shown with its program[process/thread]. Records of a kernel only have the thread: its name and
/// process are what the trace has told of it so far (state dump, switches, forks, execs), and `-` where it has not.
#[derive(clap::Args)]
#[command(
    mut_arg("dirs", |arg| arg.help("Trace directories, directories with traces below, or logs of POSIX Trace streams (kymo-posix(7)); several are \
        merged by time. Or net://HOST[:PORT]/host/HOSTNAME/SESSION, a live session of LTTng's relay daemon; net://HOST[:PORT] \
        lists its sessions")),
    mut_arg("from", |arg| arg.conflicts_with("follow").help("Only records from this time on: +1.5s from the begin of the trace, -1s from \
        its end, or ns since 1970 as --json prints them. With an index (kymo index) what is before is not read")),
    mut_arg("to", |arg| arg.conflicts_with("follow").help("Only records before this time")),
    mut_arg("intersect", |arg| arg.conflicts_with_all(["follow", "to_ctf"])),
    mut_arg("json", |arg| arg.help("Print one JSON object a line: times in nanoseconds since 1970, bytes in hexadecimal, NaN and \
        infinities as strings")),
    after_help = "Examples:\n  kymo read t                                         all records\n  \
    kymo read t --from -1s --event 'motor:*'            the last second of some events\n  \
    kymo read t --filter 'motor:step.duration > 200us'   records for which a condition is true\n  \
    kymo read t --fields time,'$tid','$prio',axis        columns: fields and contexts\n  \
    kymo read t --intersect                              where all streams have data\n  \
    kymo read t --cpu 0-1 --thread audio --json          of one thread on two CPUs, as JSON\n  \
    kymo read --follow motor                             a running session\n  \
    kymo read net://localhost                            live sessions of LTTng, on the relay daemon of this machine\n  \
    kymo read net://lab:5344/host/box/s1 --json          one of them, while it is recorded\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was printed), 2 it cannot be opened."
)]
pub struct ReadArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Show only these columns: time, delta, cpu, proc, pid, tid, event (or $time, $cpu, $proc, $pid, $tid, $event),
    /// names of payload fields, contexts of any tracer such as `$prio`, `*` for all fields and contexts
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    fields: Option<Vec<String>>,
    #[command(flatten)]
    events: EventArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Also show the records of the state dump: processes, files and devices at the start and the end of the recording.
    /// Without this option they are shown only if --event matches them
    #[arg(long)]
    state: bool,
    /// Print only the number of records of each event
    #[arg(long, conflicts_with_all = ["follow", "fields"])]
    count: bool,
    /// Continue while the trace is being written, until its session ends. DIR may be the name of a session (of
    /// `kymo session`). Records are shown about 0.3 s late, in the order of time
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    range: RangeArgs,
    /// Convert the log of a POSIX Trace stream into the CTF 1.8 trace TO, which must not exist
    #[arg(long, value_name = "TO", conflicts_with_all = ["json", "fields", "event", "filter", "cpu", "thread", "process", "state", "count", "follow", "limit"])]
    to_ctf: Option<PathBuf>,
    /// Stop after this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Show the functions of a record's addresses below it, with source lines if there is debug information: of call
    /// stacks (`--context callstack`) and of fields such as `ip`. Program files are those of this machine, if they are
    /// the same build. Kernel functions are those of this boot, or of FILE (System.map, or a copy of /proc/kallsyms)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["follow", "count", "to_ctf"])]
    symbols: Option<Option<PathBuf>>,
    /// Show times in cycles of the trace clock
    #[arg(long)]
    cycles: bool,
    #[command(flatten)]
    zone: ZoneArgs,
    /// Show the date before the time of day
    #[arg(long)]
    date: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    hosts: HostArgs,
}

/// Bytes that are collected before they are written; on a terminal each record is written at once.
const BUFFER_BYTES: usize = 1 << 16;

/// What was read and is not on the lines of records.
#[derive(Default)]
pub struct Totals {
    lost: Missing,
    /// Records of the state dump that were left out.
    state_records: u64,
}

/// What was printed, and what was wrong on the way.
#[derive(Default)]
struct Printed {
    totals: Totals,
    /// Position of the trace, and what is wrong with it: file by file.
    caveats: Vec<(usize, Caveat)>,
    counts: CaveatCounts,
}

impl Printed {
    fn of(reader: &Reader<'_>, totals: Totals) -> Printed {
        reader.end_pass();
        let caveats = reader.caveats().map(|(trace, caveat)| (trace, caveat.clone())).collect();
        Printed { totals, caveats, counts: CaveatCounts { all: reader.caveat_count(), damage: reader.damage_count() } }
    }
}

/// How one item becomes bytes.
trait Format {
    fn item(&mut self, out: &mut Vec<u8>, item: &Item<'_>) {
        match item {
            Item::Record(record) => self.record(out, record),
            Item::Loss(loss) => self.loss(out, loss),
        }
    }

    /// Goes on behind a record of that time, as it is shown.
    fn resume(&mut self, before: Option<i128>);
    fn record(&mut self, out: &mut Vec<u8>, record: &Record<'_>);
    fn loss(&mut self, out: &mut Vec<u8>, loss: &Loss<'_>);
}

/// Runs the verb.
pub fn run(args: ReadArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    if let Some(url) = args.traces.dirs.iter().filter_map(|dir| dir.to_str()).find(|dir| kymo_live::is_url(dir)) {
        anyhow::ensure!(
            args.traces.dirs.len() == 1,
            "{url} is read alone: a live session does not wait for other traces"
        );
        return live::run(&args, url);
    }
    if args.follow {
        anyhow::ensure!(args.hosts.is_none(), "--follow reads one trace: --shift and --align are for several");
        return follow::run(&args);
    }
    if let Some(to) = &args.to_ctf {
        return posix::write_ctf(&args.traces.dirs, to);
    }
    let Opened { traces, named, torn, damaged_logs } = open(&args)?;
    // Indexes have times as each host's own clock has them, and only packets of the trace's UUID.
    let is_own = args.hosts.is_none() && !args.traces.ignore_uuid;
    let is_part = args.traces.intersect || args.range.from.is_some() || args.range.to.is_some();
    let indexes = match is_own && (args.count || is_part) {
        true => indexes(&named, &traces),
        false => Indexes::default(),
    };
    let ends = ends(&args, &traces, &named, &indexes)?;
    let selection = Selection::new(&traces, args.fields.as_deref(), &args.events.event, args.state)?;
    args.events.check(&traces)?;
    let mut filters = Filters::new(&traces, &args.scope.expressions())?;
    filter::say(&filters.notes());
    args.output.page();
    let stdout = io::stdout();
    let flush_at = if stdout.is_terminal() { 1 } else { BUFFER_BYTES };
    let shape = PrintShape { traces: &traces, selection: &selection, args: &args };
    let begin = Begin { named: &named, indexes: &indexes, ends };
    if args.count {
        let counted = count::count(shape, &begin, &mut filters);
        filter::say(&filters.conclude());
        say_unknown(&named);
        counted.print(args.output.json(), &mut stdout.lock()).context("cannot write to standard output")?;
        let damage: Vec<_> = counted.caveats.iter().map(|(trace, caveat)| (*trace, caveat)).collect();
        let code = conclude(&traces, &damage, counted.caveat_counts, &torn, &counted.totals);
        return Ok(posix::conclude(code, damaged_logs));
    }
    let workers = parallel::workers(&traces, &args, flush_at);
    let printed = match &args.symbols {
        None => print_all(shape, &begin, &mut filters, workers, flush_at, &mut stdout.lock()),
        Some(kernel) => {
            let mut known = Symbolizer::new(kernel.as_deref(), &traces)?;
            known.learn_all(&traces)?;
            let mut reader = begin.reader(&traces);
            let shown = show_named(&mut reader, shape, &begin, &mut filters, &known, flush_at, &mut stdout.lock());
            known.reasons().iter().for_each(|why| eprintln!("kymo: {why}"));
            shown.map(|totals| Printed::of(&reader, totals))
        }
    };
    filter::say(&filters.conclude());
    say_unknown(&named);
    match printed {
        Ok(Printed { totals, caveats, counts }) => {
            let damage: Vec<_> = caveats.iter().map(|(trace, caveat)| (*trace, caveat)).collect();
            let code = conclude(&traces, &damage, counts, &torn, &totals);
            Ok(posix::conclude(code, damaged_logs))
        }
        // Who reads us has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to standard output")),
    }
}

/// The traces of the command line.
struct Opened {
    traces: Vec<Trace>,
    named: Vec<Named>,
    /// What is wrong with their metadata.
    torn: Vec<Caveat>,
    /// Logs of POSIX Trace that are not whole.
    damaged_logs: u64,
}

fn open(args: &ReadArgs) -> anyhow::Result<Opened> {
    let named = named(&args.traces.dirs);
    let mut all = Opened { traces: Vec::new(), named, torn: Vec::new(), damaged_logs: 0 };
    let progress = shows_progress(args).then(|| Arc::new(ReadingProgress::new()));
    for dir in all.named.iter().flat_map(|named| &named.parts) {
        let mut opened = if posix::is_log(dir) { posix::open(dir, &mut all.damaged_logs)? } else { Trace::open(dir)? };
        say_if_empty(&opened.value);
        args.traces.apply(&mut opened.value);
        if let Some(progress) = &progress {
            opened.value.watch(progress.clone());
        }
        all.torn.extend(opened.caveats);
        all.traces.push(opened.value);
    }
    hosts::bring_together(&mut all.traces, &all.named, &args.hosts)?;
    Ok(all)
}

/// Whether how far it is can be shown on standard error: not while records come on the same terminal, or go to a
/// program that may have it, such as less.
fn shows_progress(args: &ReadArgs) -> bool {
    let stdout = io::stdout();
    let kind = stdout.as_fd().try_clone_to_owned().and_then(|stdout| File::from(stdout).metadata());
    args.count || kind.is_ok_and(|kind| kind.is_file() || kind.file_type().is_char_device() && !stdout.is_terminal())
}

/// The times that are asked for, ns. Those from an end of the trace are looked up.
fn ends(args: &ReadArgs, traces: &[Trace], named: &[Named], indexes: &Indexes) -> anyhow::Result<Ends> {
    let common = args.traces.intersect.then(|| intersect::stretch(traces, named, indexes)).transpose()?;
    let is_absolute = |when: &Option<When>| matches!(when, None | Some(When::At(_)));
    let bounds = match (common, is_absolute(&args.range.from) && is_absolute(&args.range.to)) {
        (Some((from, to)), _) => Some((from, to.saturating_sub(1))),
        (None, true) => Some((0, 0)),
        (None, false) => range::bounds(traces, indexes),
    };
    let (first, last) = bounds.context("the trace has no records")?;
    let ns = |when: Option<When>| when.map(|when| when.at(first, last));
    let (mut from, mut to) = (ns(args.range.from), ns(args.range.to));
    if let Some((least, behind)) = common {
        from = Some(from.map_or(least, |from| from.max(least)));
        to = Some(to.map_or(behind, |to| to.min(behind)));
    }
    match (from, to) {
        (Some(from), Some(to)) if from >= to => anyhow::bail!("--from ({from}) is not before --to ({to})"),
        ends => Ok(ends),
    }
}

/// [from, to), ns.
type Ends = (Option<i64>, Option<i64>);

/// Where reading begins and ends.
struct Begin<'a> {
    named: &'a [Named],
    indexes: &'a Indexes,
    ends: Ends,
}

impl<'a> Begin<'a> {
    /// All records.
    #[cfg(test)]
    fn at_first(indexes: &'a Indexes) -> Begin<'a> {
        Begin { named: &[], indexes, ends: (None, None) }
    }

    fn is_all(&self) -> bool {
        self.ends == (None, None)
    }

    fn reader<'t>(&self, traces: &'t [Trace]) -> Reader<'t> {
        let [from, to] = [self.ends.0, self.ends.1].map(|end| end.map(i128::from));
        range::reader(traces, self.indexes, from, to)
    }

    /// What is known of threads in front of the first record that is read.
    fn learn(&self, traces: &[Trace]) -> Option<Learn> {
        let mut learn = Learn::new(traces)?;
        if let Some(state) = self.state(traces) {
            learn.begin(&state);
        }
        Some(learn)
    }

    /// The machine's state in front of the first record that is read, where that is not the first of the trace.
    fn state(&self, traces: &[Trace]) -> Option<State> {
        let from = self.ends.0?;
        let mut first = 0;
        let mut of_kernels = 0;
        for named in self.named {
            of_kernels += usize::from(traces[first..first + named.parts.len()].iter().any(has_switches));
            first += named.parts.len();
        }
        // Two machines have threads of the same numbers.
        (of_kernels == 1).then(|| range::state_before(traces, &Classes::new(traces), self.indexes, from).state)
    }

    /// Tells filters that ask for the machine's state of it.
    fn tell(&self, traces: &[Trace], filters: &mut Filters) {
        if let Some(state) = filters.have_state().then(|| self.state(traces)).flatten() {
            filters.begin(&state);
        }
    }
}

/// What decides how items are shown.
#[derive(Clone, Copy)]
struct PrintShape<'a> {
    traces: &'a [Trace],
    selection: &'a Selection,
    args: &'a ReadArgs,
}

impl<'a> PrintShape<'a> {
    /// The form that is asked for.
    fn format(self) -> Box<dyn Format + 'a> {
        format(self.traces, self.selection, self.args, None)
    }
}

/// Which items are shown: sees all of them, in the order of time.
struct PrintChoice<'a> {
    selection: &'a Selection,
    filters: &'a mut Filters,
    learn: Option<Learn>,
    limit: Option<u64>,
    /// Records so far.
    shown: u64,
}

impl<'a> PrintChoice<'a> {
    fn new(shape: PrintShape<'a>, begin: &Begin<'_>, filters: &'a mut Filters) -> Self {
        let selection = shape.selection;
        let learn = if selection.has_threads() || filters.have_threads() { begin.learn(shape.traces) } else { None };
        begin.tell(shape.traces, filters);
        Self { selection, filters, learn, limit: shape.args.limit, shown: 0 }
    }
}

impl PrintChoice<'_> {
    /// Whether nothing more is wanted.
    fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.shown >= limit)
    }

    /// Whether the event alone decides about a record.
    fn goes_by_event(&self) -> bool {
        self.learn.is_none() && self.filters.is_empty()
    }

    /// Whether a record is shown, where its event alone decides.
    #[inline]
    fn wants_event(&mut self, trace: usize, event: usize, totals: &mut Totals) -> bool {
        let shown = self.selection.event(trace, event);
        totals.state_records += u64::from(shown == Shown::OnlyWithState);
        self.shown += u64::from(shown == Shown::Yes);
        shown == Shown::Yes
    }

    /// Whether an item is shown. Adds to it what was learnt of its thread.
    #[inline]
    fn wants<'r>(&'r mut self, item: &mut Item<'r>, totals: &mut Totals) -> bool {
        let record = match item {
            Item::Record(record) => record,
            Item::Loss(loss) => {
                totals.lost.add_loss(loss);
                self.learn.iter_mut().for_each(|learn| learn.loss(loss));
                self.filters.lost(loss);
                return true;
            }
        };
        let (trace, event) = (record.trace, record.event_position);
        if let Some(learn) = &mut self.learn {
            learn.record(record);
        }
        let shown = self.selection.event(trace, event);
        let is_shown = self.filters.matches(record, shown == Shown::Yes) && shown == Shown::Yes;
        totals.state_records += u64::from(shown == Shown::OnlyWithState);
        self.shown += u64::from(is_shown);
        is_shown
    }
}

/// Prints all items that are wanted: as [`show`], or slice by slice where the event alone decides about a record.
fn print_all(
    shape: PrintShape<'_>,
    begin: &Begin<'_>,
    filters: &mut Filters,
    workers: Option<usize>,
    flush_at: usize,
    to: &mut dyn Write,
) -> io::Result<Printed> {
    let learns = shape.selection.has_threads() && kymo_query::learn::tell_of_threads(shape.traces);
    let workers_of_slices = workers.filter(|_| !learns && filters.is_empty() && begin.is_all());
    if let Some((workers, slices)) = workers_of_slices.and_then(|n| Some((n, sliced::slices(shape.traces, n)?))) {
        return sliced::print(slices, shape, workers, to);
    }
    let mut reader = begin.reader(shape.traces);
    let totals = show(&mut reader, shape, begin, filters, workers, flush_at, to)?;
    Ok(Printed::of(&reader, totals))
}

/// Prints all items that are wanted, with `workers` threads more, or in pieces of at least `flush_at` bytes.
fn show(
    reader: &mut Reader<'_>,
    shape: PrintShape<'_>,
    begin: &Begin<'_>,
    filters: &mut Filters,
    workers: Option<usize>,
    flush_at: usize,
    to: &mut dyn Write,
) -> io::Result<Totals> {
    let mut totals = Totals::default();
    let mut choice = PrintChoice::new(shape, begin, filters);
    match workers {
        Some(workers) => parallel::print(reader, &mut choice, &mut totals, shape, workers, to)?,
        None => print(reader, &mut choice, &mut totals, &mut *shape.format(), flush_at, to)?,
    }
    Ok(totals)
}

/// The same with the functions of addresses.
fn show_named(
    reader: &mut Reader<'_>,
    shape: PrintShape<'_>,
    begin: &Begin<'_>,
    filters: &mut Filters,
    known: &Symbolizer,
    flush_at: usize,
    to: &mut dyn Write,
) -> io::Result<Totals> {
    let mut totals = Totals::default();
    let mut choice = PrintChoice::new(shape, begin, filters);
    let mut format =
        symbols::Named::new(shape.format(), known, (shape.traces, shape.selection), shape.args.output.json());
    print(reader, &mut choice, &mut totals, &mut format, flush_at, to)?;
    Ok(totals)
}

/// Prints all items in pieces of at least `flush_at` bytes.
fn print(
    reader: &mut Reader<'_>,
    choice: &mut PrintChoice<'_>,
    totals: &mut Totals,
    format: &mut dyn Format,
    flush_at: usize,
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut out = Vec::with_capacity(2 * BUFFER_BYTES);
    let goes_by_event = choice.goes_by_event();
    while !choice.is_over() {
        if goes_by_event {
            let Some(passed) = reader.pass() else { break };
            match passed {
                Passed::Record { trace, event, .. } if !choice.wants_event(trace, event, totals) => continue,
                Passed::Record { .. } => {}
                Passed::Loss { records, packets } => totals.lost.add(records, packets),
            }
            reader.current().iter().for_each(|item| format.item(&mut out, item));
        } else {
            let Some(mut item) = reader.next() else { break };
            if !choice.wants(&mut item, totals) {
                continue;
            }
            format.item(&mut out, &item);
        }
        if out.len() >= flush_at {
            to.write_all(&out)?;
            out.clear();
        }
    }
    to.write_all(&out)?;
    to.flush()
}

/// The form that is asked for. `before`: time of the line before, as times are shown.
fn format<'a>(
    traces: &[Trace],
    selection: &'a Selection,
    args: &ReadArgs,
    before: Option<i128>,
) -> Box<dyn Format + 'a> {
    if args.output.json() {
        return Box::new(json::Json::new(selection));
    }
    let times = text::Times { cycles: args.cycles, utc: args.zone.utc, date: args.date };
    Box::new(text::Text::new(traces, selection, times, before))
}

/// Says on standard error what was left out, lost and damaged. `listed` are those of all caveats that were kept.
fn conclude(
    traces: &[Trace],
    listed: &[(usize, &Caveat)],
    counts: CaveatCounts,
    torn: &[Caveat],
    totals: &Totals,
) -> ExitCode {
    match totals.state_records {
        0 => {}
        1 => eprintln!("kymo: 1 record of the state dump is not shown; --state shows it"),
        records => eprintln!("kymo: {records} records of the state dump are not shown; --state shows them"),
    }
    if !totals.lost.is_none() {
        eprintln!("kymo: {}", totals.lost.text());
    }
    let front = |trace: usize| match traces.len() {
        1 => String::new(),
        _ => format!("{}/", traces[trace].label),
    };
    let of_streams = listed.iter().map(|(trace, caveat)| (front(*trace), *caveat));
    caveats::say(torn, of_streams, counts, "")
}
