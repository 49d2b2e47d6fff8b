// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read`: a trace as text or JSON lines. Only opens, selects and prints; decoding is kymo-ctf's work. `learn` and
//! `threads` find out which threads the records of a kernel belong to.

mod args;
mod columns;
mod count;
pub mod filter;
pub mod follow;
mod format;
mod growing;
mod json;
#[cfg(test)]
mod kernel_tests;
mod line;
pub mod live;
mod parallel;
mod posix;
pub mod select;
mod shape;
mod sliced;
mod symbols;
#[cfg(test)]
mod tests;
mod text;
mod zone;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use kymo_command::terminal::{ReadingProgress, is_output_elsewhere};
use kymo_ctf::read::{Caveat, Passed, Reader, Trace};
use kymo_index::{Indexes, Named, range};

use super::analyze::caveats::{self, CaveatCounts};
use super::analyze::feed::{indexes, open_part, say_if_empty};
use super::analyze::intersect;
use super::analyze::named::named;
use super::analyze::say_unknown;
use super::analyze::when::When;
use super::hosts;
use super::symbols::Symbolizer;
pub use args::ReadArgs;
use filter::Filters;
use format::Format;
use select::Selection;
use shape::{BUFFER_BYTES, Begin, Ends, PrintChoice, PrintShape, Printed, Totals};

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
    print_whole(&args)
}

/// Prints or counts the records of traces that are not being written.
fn print_whole(args: &ReadArgs) -> anyhow::Result<ExitCode> {
    let opened = open(args)?;
    let (traces, named) = (&opened.traces, &opened.named);
    // Indexes have times as each host's own clock has them, and only packets of the trace's UUID.
    let is_own = args.hosts.is_none() && !args.traces.ignore_uuid;
    let is_part = args.traces.intersect || args.range.from.is_some() || args.range.to.is_some();
    let indexes = match is_own && (args.count || is_part) {
        true => indexes(named, traces),
        false => Indexes::default(),
    };
    let ends = ends(args, traces, named, &indexes)?;
    let selection = Selection::new(traces, args.fields.as_deref(), &args.events.event, args.state)?;
    args.events.check(traces)?;
    let mut filters = Filters::new(traces, &args.scope.expressions())?;
    filter::say(&filters.notes());
    args.output.page();
    let shape = PrintShape { traces, selection: &selection, args };
    let begin = Begin { named, indexes: &indexes, ends };
    if args.count {
        let counted = count::count(shape, &begin, &mut filters);
        filter::say(&filters.conclude());
        say_unknown(named);
        counted.print(args.output.json(), &mut io::stdout().lock()).context("cannot write to standard output")?;
        return Ok(conclude(&opened, &counted.caveats, counted.caveat_counts, &counted.totals));
    }
    let printed = print_shape(shape, &begin, &mut filters);
    filter::say(&filters.conclude());
    say_unknown(named);
    match printed? {
        Ok(Printed { totals, caveats, counts }) => Ok(conclude(&opened, &caveats, counts, &totals)),
        // Who reads us has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to standard output")),
    }
}

/// Prints all items that are wanted on standard output, with functions of addresses where they are asked for.
fn print_shape(shape: PrintShape<'_>, begin: &Begin<'_>, filters: &mut Filters) -> anyhow::Result<io::Result<Printed>> {
    let (args, traces, stdout) = (shape.args, shape.traces, io::stdout());
    let flush_at = if stdout.is_terminal() { 1 } else { BUFFER_BYTES };
    let Some(kernel) = &args.symbols else {
        let workers = parallel::workers(traces, args, flush_at);
        return Ok(print_all(shape, begin, filters, workers, flush_at, &mut stdout.lock()));
    };
    let mut known = Symbolizer::new(kernel.as_deref(), traces)?;
    known.learn_all(traces)?;
    let mut reader = begin.reader(traces);
    let shown = show_named(&mut reader, shape, begin, filters, &known, flush_at, &mut stdout.lock());
    known.reasons().iter().for_each(|why| eprintln!("kymo: {why}"));
    Ok(shown.map(|totals| Printed::of(&reader, totals)))
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
    let progress = (args.count || is_output_elsewhere()).then(|| Arc::new(ReadingProgress::new()));
    for dir in all.named.iter().flat_map(|named| &named.parts) {
        let mut opened = if posix::is_log(dir) { posix::open(dir, &mut all.damaged_logs)? } else { open_part(dir)? };
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
        symbols::WithFunctions::new(shape.format(), known, (shape.traces, shape.selection), shape.args.output.json());
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

/// Says on standard error what was left out, lost and damaged. `listed` are those of all caveats that were kept.
fn conclude(opened: &Opened, listed: &[(usize, Caveat)], counts: CaveatCounts, totals: &Totals) -> ExitCode {
    match totals.state_records {
        0 => {}
        1 => eprintln!("kymo: 1 record of the state dump is not shown; --state shows it"),
        records => eprintln!("kymo: {records} records of the state dump are not shown; --state shows them"),
    }
    if !totals.lost.is_none() {
        eprintln!("kymo: {}", totals.lost.text());
    }
    let front = |trace: usize| match &opened.traces[..] {
        [_] => String::new(),
        traces => format!("{}/", traces[trace].label),
    };
    let of_streams = listed.iter().map(|(trace, caveat)| (front(*trace), caveat));
    let code = caveats::say(&opened.torn, of_streams, counts, "");
    posix::conclude(code, opened.damaged_logs)
}
