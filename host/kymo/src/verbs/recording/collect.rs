// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo collect`: takes what a small target sends over a line, and writes it as a trace while it comes [spec/target.md
//! 7].

mod source;
mod writer;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kymo_command::unknown;
use kymo_target::Receiver;

use super::record::output::Output;
use crate::verbs::args::JsonArgs;
use crate::verbs::units;
use kymo_command::terminal::Progress;
use source::{Got, Source};
use writer::{Ending, Writer};

/// Collection from a small target: over a serial line or TCP, or from a file
///
/// The target runs POSIX Trace without an operating system (kymo-target(7)). What arrives becomes the trace DIR at
/// once: kymo read --follow DIR shows it. Bytes that are lost, changed or doubled on the line cost the frames that they
/// belong to; what is missing is counted, on the line and on the target apart. A target that starts again goes on in
/// the same trace.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo collect --source /dev/ttyUSB0 --baud 115200 -o t\n  kymo collect --source tcp:localhost:4444 -o t\n  \
    qemu-system-arm -M mps2-an385 -nographic -serial stdio -monitor none -kernel demo.elf | kymo collect --source - -o t\n  \
    kymo collect --source saved.bin -o t && kymo read t\n\n\
    Exit status: 0 everything came, up to the end of the stream; 1 something is missing and counted, or nothing came; 2 an error;\n\
    3 the end of the stream did not come: what is missing behind the last frame is unknown."
)]
pub struct CollectArgs {
    /// A terminal, pipe or file; `-` is standard input; tcp:HOST:PORT, or tcp:PORT on this machine
    #[arg(long, alias = "from", value_name = "SOURCE")]
    source: String,
    /// Directory of the trace [default: kymo-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace a trace that is in DIR
    #[arg(long)]
    overwrite: bool,
    /// Speed of a terminal, bits per second; otherwise it stays as it is
    #[arg(long, value_name = "N")]
    baud: Option<u32>,
    /// End after this long: 10s, 5m [default: when the line ends, or with Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    out: JsonArgs,
}

/// Somebody wants it to end (Ctrl-C).
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Between two looks whether it shall end.
const PATIENCE: Duration = Duration::from_millis(100);

extern "C" fn end(_signal: libc::c_int) {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// From now on Ctrl-C ends the collecting, and the trace is completed.
fn take_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores into an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs the verb.
pub fn run(args: CollectArgs) -> anyhow::Result<ExitCode> {
    // A target whose connection ends must not end us.
    crate::verbs::ignore_sigpipe();
    let mut source = Source::open(&args.source, args.baud)?;
    let output = Output::prepare(args.output.as_deref(), args.overwrite)?;
    let mut writer = match Writer::begin(output.path(), &args.source) {
        Ok(writer) => writer,
        Err(error) => {
            output.discard();
            return Err(error);
        }
    };
    take_signals();
    // A host that comes later need not wait for what is sent now and then.
    source.ask();
    if !source.is_file() {
        eprintln!("kymo: collecting into {}; Ctrl-C ends it", output.path().display());
    }
    let mut receiver = Receiver::new();
    let ended = listen(&args, &mut source, &mut receiver, &mut writer);
    let ending = Ending {
        times_are_known: !source.is_file(),
        is_asked_for: ended.as_ref().is_ok_and(|end| *end == End::Asked),
        torn_bytes: receiver.pending_bytes(),
        error: ended.as_ref().err().map(|error| format!("{error:#}")),
    };
    receiver.finish();
    drop(source);
    let summary = match writer.end(&mut receiver, ending) {
        Ok(summary) => summary,
        // Of two errors the first one is the cause.
        Err(error) => return Err(ended.err().unwrap_or(error)),
    };
    if args.out.json {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", serde_json::to_string_pretty(&summary.to_json())?)?;
    }
    summary.say();
    ended?;
    let has_come = !receiver.epochs().is_empty();
    Ok(ExitCode::from(if has_come && !summary.is_known() { unknown::STATUS } else { u8::from(!summary.is_all()) }))
}

/// What ended the listening.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The line, or the file.
    Line,
    /// Ctrl-C, or --duration.
    Asked,
}

/// Until the line ends, the time is over, or somebody ends it.
fn listen(
    args: &CollectArgs,
    source: &mut Source,
    receiver: &mut Receiver,
    writer: &mut Writer,
) -> anyhow::Result<End> {
    let mut end = End::Asked;
    let begun = Instant::now();
    let mut progress = Progress::new();
    let size = source.bytes();
    let mut bytes = vec![0; 1 << 16];
    while !IS_OVER.load(Ordering::Relaxed) {
        let left = args.duration.map_or(PATIENCE, |duration| duration.saturating_sub(begun.elapsed()));
        if left.is_zero() {
            break;
        }
        match source.read(&mut bytes, left.min(PATIENCE))? {
            Got::Nothing => {}
            Got::End => {
                end = End::Line;
                break;
            }
            Got::Bytes(count) => {
                receiver.push(&bytes[..count], Some(source.file_ns().unwrap_or_else(now_ns)));
                writer.add_bytes(count);
                writer.take(receiver)?;
            }
        }
        let text = || status(receiver, writer);
        match (args.duration, size) {
            (Some(duration), _) => progress.show_share(begun.elapsed().as_secs_f64() / duration.as_secs_f64(), text),
            (None, Some(size)) => progress.show_share(writer.bytes() as f64 / size.max(1) as f64, text),
            (None, None) => progress.show(text),
        }
    }
    progress.end();
    Ok(end)
}

/// What has arrived, for the progress line.
fn status(receiver: &Receiver, writer: &Writer) -> String {
    let sum = |of: fn(&kymo_target::Epoch) -> u64| receiver.epochs().iter().map(of).sum::<u64>();
    format!(
        "{:.1} KiB, {} records, {} lost on the target, {} on the line",
        writer.bytes() as f64 / 1024.0,
        sum(|epoch| epoch.records),
        sum(|epoch| epoch.lost_target),
        sum(|epoch| epoch.lost_line)
    )
}
