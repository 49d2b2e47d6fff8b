//! `kymo record`: a session around a command, or attached to programs that run.
//!
//! This file holds the arguments and the course of a recording. `units` reads sizes and times, `output` looks after the
//! directory, `command` runs the command and takes signals, `preload` finds the helpers of `--with`, `text` and `why`
//! are what people read at the end.

mod command;
mod kernel;
mod output;
mod preload;
mod text;
mod units;
mod why;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kymo_collect::{Config, Format, Patterns, Scope, Session, Summary};

use command::{Happened, Watcher};

/// A command that was told to end has this long, and is recorded meanwhile.
const GRACE: Duration = Duration::from_secs(2);
/// Between two progress lines.
const PROGRESS: Duration = Duration::from_millis(250);

/// Record the events of a command, or of programs that run already
///
/// With a command, it and all its descendants are recorded until it ends; the exit status is the command's (128 + n when
/// signal n killed it, 127 when it was not found, 126 when it could not be run, 2 for errors of kymo itself). Without a
/// command, all programs of this user are recorded (root: of all users) until Ctrl-C or --for; the exit status is 1 when
/// nothing was recorded.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo record ./program                      all events of a program and its children\n  \
    kymo record -u 'motor:*' -x motor:tick -- ./program --its-option\n  kymo record --with malloc -- gcc -c file.c\n  \
    kymo record --for 10s -p 1234               attach to a running program for ten seconds\n  \
    kymo record -k sched,irq ./program           user and kernel events on one clock (needs root or access to tracefs)\n  \
    kymo record -k syscalls --only -- ls         system calls of one program\n  \
    kymo record -U ./program:main -- ./program   a function of a program that was never rebuilt"
)]
pub struct Args {
    /// Events to record, as provider:name with * ? [a-z]; a provider alone means all its events [default: all]
    #[arg(short, long = "user", value_name = "PATTERN")]
    user: Vec<String>,
    /// Events not to record, of those that --user names
    #[arg(short = 'x', long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Directory of the trace; must be absent or empty [default: kymo-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace an earlier trace in the output directory (and nothing but a trace)
    #[arg(long)]
    overwrite: bool,
    /// Ring memory per CPU and program: bytes, or with K, M, G; a power of two
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = units::bytes)]
    ring_size: u64,
    /// Ring memory of all programs together [default: 1G, or a quarter of the machine's memory if that is less]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    memory: Option<u64>,
    /// Microseconds between two looks at the rings
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    poll_us: u64,
    /// End after this time: 10s, 500ms, 2m. A command that still runs is sent SIGTERM, and the exit status is then 0
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    time: Option<Duration>,
    /// Record this process and its descendants only (repeatable; without a command)
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<u32>,
    /// Write CTF 2 metadata instead of CTF 1.8
    #[arg(long)]
    ctf2: bool,
    /// Record calls of an unmodified program: malloc, or pthread (repeatable)
    #[arg(long, value_name = "WHAT", requires = "command")]
    with: Vec<preload::Helper>,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    json: bool,
    /// No progress line and no summary; errors only
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    kernel: kernel::KernelArgs,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

/// How a recording ended.
struct Ending {
    /// Exit status of the command, in the manner of a shell.
    status: Option<u8>,
    /// `--for` ended it.
    by_time: bool,
    /// The number of the signal that ended it.
    signal: Option<u8>,
    /// Process id of a command that did not end when it was told to.
    still_running: Option<u32>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let patterns = Patterns::new(&args.user, &args.exclude)?;
    let helpers = args.with.iter().map(|helper| preload::find(*helper)).collect::<anyhow::Result<Vec<_>>>()?;
    for pid in &args.pid {
        let is_there = std::path::Path::new(&format!("/proc/{pid}")).exists();
        anyhow::ensure!(is_there, "there is no process {pid}; `kymo list` shows the programs that can be recorded");
    }
    let has_command = !args.command.is_empty();
    let ring_bytes = ring_bytes(args.ring_size, args.quiet)?;
    // What is wrong with the request is found before a directory is made or an earlier trace replaced.
    let kernel = args.kernel.config(has_command, &args.pid)?;
    let output = output::Output::prepare(args.output.as_deref(), args.overwrite)?;
    let mut config = Config::new(output.path());
    config.name = args.command.first().map_or_else(|| "kymo".to_owned(), |name| base_name(name));
    config.patterns = patterns.clone();
    config.ring_bytes = ring_bytes;
    config.memory_bytes_max = args.memory.unwrap_or_else(units::default_memory);
    config.poll = Duration::from_micros(args.poll_us);
    config.format = if args.ctf2 { Format::Ctf2 } else { Format::Ctf18 };
    config.command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    config.with_other_users = !has_command;
    config.scope = match (has_command, args.pid.is_empty()) {
        (true, _) => Scope::Tree(std::process::id()),
        (false, true) => Scope::All,
        (false, false) => Scope::Pids(args.pid.clone()),
    };
    config.kernel = kernel;
    config.kernel_optional = args.kernel.is_optional();
    let limits = command::Limits::take();
    // Before any thread exists, so that none takes a signal that is for the watcher.
    let watcher = Watcher::prepare().context("cannot watch for signals")?;
    let mut session = match Session::start(config) {
        Ok(session) => session,
        Err(error) => {
            output.discard();
            return Err(error.into());
        }
    };
    let mut child = None;
    if has_command {
        let extras = command::Extras { marker: session.marker().map(Into::into), child_files: session.child_files() };
        match command::spawn(&args.command, &helpers, &limits, extras) {
            Ok(pid) => child = Some(pid),
            Err(error) => {
                drop(session);
                output.discard();
                let program = args.command[0].to_string_lossy();
                eprintln!("kymo: cannot run {program}: {error}");
                let missing = error.kind() == std::io::ErrorKind::NotFound;
                return Ok(ExitCode::from(if missing { 127 } else { 126 }));
            }
        }
    } else if !args.quiet {
        eprintln!("kymo: recording into {}; Ctrl-C ends it", output.path().display());
    }
    let ending = follow(&args, &session, watcher.start(child).context("cannot start a thread")?, child);
    let summary = session.stop()?;
    report(&args, &patterns, &summary, &ending)
}

fn base_name(path: &std::ffi::OsStr) -> String {
    std::path::Path::new(path).file_name().unwrap_or(path).to_string_lossy().into_owned()
}

/// The ring size as a power of two between the bounds of the ABI, with a note where it had to be changed.
fn ring_bytes(wanted: u64, quiet: bool) -> anyhow::Result<u32> {
    use kymo_abi::ring::{RING_BYTES_MAX, RING_BYTES_MIN};
    anyhow::ensure!(
        (1..=u64::from(RING_BYTES_MAX)).contains(&wanted),
        "--ring-size {wanted}: a ring has between 4K and 1G"
    );
    let rounded = (wanted as u32).max(RING_BYTES_MIN).next_power_of_two();
    if u64::from(rounded) != wanted && !quiet {
        eprintln!("kymo: --ring-size is a power of two, at least 4K: {} is used", text::bytes(rounded.into()));
    }
    Ok(rounded)
}

/// Waits for the end of the command, a signal, or the end of the time; shows how it goes meanwhile.
fn follow(args: &Args, session: &Session, watched: command::Watched, child: Option<u32>) -> Ending {
    let begun = Instant::now();
    let show = !args.quiet && std::io::stderr().is_terminal();
    let mut progress = text::ProgressLine::new(show);
    let mut ending = Ending { status: None, by_time: false, signal: None, still_running: None };
    let mut deadline = args.time.map(|time| begun + time);
    let mut is_told = false;
    let mut warned = false;
    loop {
        let now = Instant::now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            match child {
                Some(pid) if !is_told => {
                    (is_told, ending.by_time) = (true, true);
                    deadline = Some(now + GRACE);
                    command::signal(pid, libc::SIGTERM);
                }
                _ => {
                    ending.by_time |= !is_told;
                    ending.still_running = child;
                    break;
                }
            }
        }
        let tick = if show { PROGRESS } else { Duration::from_secs(1) };
        let wait = deadline.map_or(tick, |deadline| tick.min(deadline.saturating_duration_since(now)));
        match watched.next(wait) {
            Some(Happened::Ended(status)) => {
                ending.status = Some(status);
                break;
            }
            Some(Happened::Signal { number, from_terminal }) => {
                ending.signal = Some(number as u8);
                let Some(pid) = child.filter(|_| !is_told) else {
                    ending.still_running = child;
                    break;
                };
                // The terminal sends it to the command as well.
                if !from_terminal {
                    command::signal(pid, number);
                }
                is_told = true;
                deadline = Some(Instant::now() + GRACE);
            }
            None => {}
        }
        let now = session.progress();
        progress.show(&now, begun.elapsed());
        if now.stopped && !warned && !args.quiet {
            warned = true;
            progress.clear();
            eprintln!("kymo: the trace can no longer be written; what follows is counted as lost");
        }
    }
    progress.clear();
    ending
}

/// Says how it went, and chooses the exit status.
fn report(args: &Args, patterns: &Patterns, summary: &Summary, ending: &Ending) -> anyhow::Result<ExitCode> {
    let nothing = if summary.records == 0 { why::nothing(patterns, summary) } else { Vec::new() };
    let unmatched = why::unmatched(patterns, summary);
    let status = match (ending.status, ending.signal) {
        _ if ending.by_time && !args.command.is_empty() => 0,
        (Some(status), _) => status,
        (None, Some(signal)) if ending.still_running.is_some() => 128 + signal,
        (None, _) => u8::from(summary.records == 0),
    };
    if !args.quiet {
        text::summary(summary);
        if let Some(kernel) = &summary.kernel {
            kernel::summary(kernel);
        }
        for line in nothing.iter().chain(&unmatched) {
            eprintln!("kymo: {line}");
        }
        if let Some(pid) = ending.still_running {
            eprintln!(
                "kymo: the command (process {pid}) did not end within {} s; it goes on, unrecorded",
                GRACE.as_secs()
            );
        }
        if summary.records > 0 {
            eprintln!("kymo: trace in {}; next: kymo read {}", summary.trace.display(), text::quoted(&summary.trace));
        }
    }
    if args.json {
        let mut value = serde_json::to_value(summary).context("cannot write the summary as JSON")?;
        value["exit_status"] = status.into();
        value["remarks"] = nothing.into_iter().chain(unmatched).collect();
        println!("{value:#}");
    }
    Ok(ExitCode::from(status))
}
