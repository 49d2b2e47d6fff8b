//! `kymo read`: a trace as text or JSON lines. Only opens, selects and prints; decoding is kymo-ctf's work.

mod json;
mod select;
#[cfg(test)]
mod tests;
mod text;
mod zone;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use kymo_ctf::read::{Caveat, Item, Loss, Reader, Record, Trace};

use select::Selection;

/// Print a trace in the order of time
///
/// Any CTF 1.8 or CTF 2 trace can be read, not only those of kymo. Lost records are shown where they are missing.
/// What is damaged is listed on standard error at the end.
#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 fine, 1 the trace was damaged (what could be read was printed), 2 it cannot be opened."
)]
pub struct Args {
    /// Trace directories; several are merged by time
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// One JSON object a line: times in nanoseconds since 1970, bytes in hexadecimal, NaN and infinities as strings
    #[arg(long)]
    json: bool,
    /// What to show: time, delta, cpu, proc, pid, tid, event, names of payload fields, `*` for all of those
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    fields: Option<Vec<String>>,
    /// Only events whose name matches, such as `motor:*` (may be given several times)
    #[arg(long, value_name = "GLOB")]
    event: Vec<String>,
    /// Stop after this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Times in cycles of the trace clock
    #[arg(long)]
    cycles: bool,
    /// Times of day in UTC; otherwise in the local time zone (of $TZ, or of the system)
    #[arg(long)]
    utc: bool,
    /// The date in front of the time of day
    #[arg(long)]
    date: bool,
}

/// Bytes that are collected before they are written; on a terminal each record is written at once.
const BUFFER_BYTES: usize = 1 << 16;

/// How one item becomes bytes.
trait Format {
    fn record(&mut self, out: &mut Vec<u8>, record: &Record<'_>);
    fn loss(&mut self, out: &mut Vec<u8>, loss: &Loss<'_>);
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut traces = Vec::with_capacity(args.dirs.len());
    let mut torn: Vec<Caveat> = Vec::new();
    for dir in &args.dirs {
        let opened = Trace::open(dir)?;
        torn.extend(opened.caveats);
        traces.push(opened.value);
    }
    let selection = Selection::new(&traces, args.fields.as_deref(), &args.event)?;
    for glob in selection.unmatched() {
        eprintln!("kymo: no event of the trace matches {glob:?}");
    }
    let stdout = io::stdout();
    let flush_at = if stdout.is_terminal() { 1 } else { BUFFER_BYTES };
    let mut reader = Reader::new(&traces);
    match print(&mut reader, &traces, &selection, &args, &mut stdout.lock(), flush_at) {
        Ok(lost) => Ok(conclude(&traces, &reader, &torn, lost)),
        // Who reads us has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to standard output")),
    }
}

/// Prints all items in pieces of at least `flush_at` bytes; how many records were lost, and in how many places.
fn print(
    reader: &mut Reader<'_>,
    traces: &[Trace],
    selection: &Selection,
    args: &Args,
    to: &mut dyn Write,
    flush_at: usize,
) -> io::Result<(u64, u64)> {
    let mut format: Box<dyn Format> = if args.json {
        Box::new(json::Json::new(selection))
    } else {
        Box::new(text::Text::new(
            traces,
            selection,
            text::Times { cycles: args.cycles, utc: args.utc, date: args.date },
        ))
    };
    let mut out = Vec::with_capacity(2 * BUFFER_BYTES);
    let (mut records, mut lost) = (0, (0u64, 0u64));
    while args.limit.is_none_or(|limit| records < limit) {
        match reader.next() {
            None => break,
            Some(Item::Loss(loss)) => {
                lost = (lost.0.saturating_add(loss.records), lost.1 + 1);
                format.loss(&mut out, &loss);
            }
            Some(Item::Record(record)) => {
                if !selection.has_event(record.trace, record.event_position) {
                    continue;
                }
                records += 1;
                format.record(&mut out, &record);
            }
        }
        if out.len() >= flush_at {
            to.write_all(&out)?;
            out.clear();
        }
    }
    to.write_all(&out)?;
    to.flush()?;
    Ok(lost)
}

/// Says on standard error what was lost and damaged.
fn conclude(traces: &[Trace], reader: &Reader<'_>, torn: &[Caveat], lost: (u64, u64)) -> ExitCode {
    if lost.1 > 0 {
        eprintln!("kymo: {} records were lost, in {}", lost.0, places(lost.1));
    }
    let total = reader.caveat_count() + torn.len() as u64;
    if total == 0 {
        return ExitCode::SUCCESS;
    }
    let mut listed = 0;
    for caveat in torn {
        eprintln!("kymo: {caveat}");
        listed += 1;
    }
    for (trace, caveat) in reader.caveats() {
        match traces.len() {
            1 => eprintln!("kymo: {caveat}"),
            _ => eprintln!("kymo: {}/{caveat}", traces[trace].label),
        }
        listed += 1;
    }
    let beyond = if total > listed { format!(", {} of them not listed", total - listed) } else { String::new() };
    eprintln!("kymo: the trace is damaged in {}{beyond}", places(total));
    ExitCode::from(1)
}

fn places(count: u64) -> String {
    if count == 1 { "1 place".into() } else { format!("{count} places") }
}
