// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo record`: a session around a command, or attached to programs that run.
//!
//! This file holds the course of a recording. `options` are those that every session has, `begin` its beginning;
//! `kymo session` shares both. `units` reads sizes and times, `output` looks after the directory, `command` runs the
//! command and takes signals, `preload` finds the helpers of `--with`, `text` and `why` are what people read at the
//! end.

pub(super) mod begin;
pub(super) mod kernel;
pub(super) mod options;
pub(super) mod output;
mod preload;
pub(super) mod rotation;
pub(super) mod text;
mod trigger;
pub(super) mod why;

use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kymo_collect::{Patterns, Session, SnapshotDone, SnapshotRequest, Summary};
use kymo_command::unknown;

use crate::verbs::args::JsonArgs;
use crate::verbs::command::{self, Happened};
use begin::{Begun, CannotRun};
use options::Options;
use output::Output;
use rotation::Rotating;

/// A command that was told to end has this long, and is recorded meanwhile.
const GRACE: Duration = Duration::from_secs(2);
/// Between two progress lines.
const PROGRESS: Duration = Duration::from_millis(250);

/// Record a trace: events of a command, of running programs, and of the kernel
///
/// With a command, it and all its descendants are recorded until it ends; the exit status is the command's (128 + n
/// when signal n killed it, 127 when it was not found, 126 when it could not be run, 2 for errors of kymo itself and
/// where the trace is gone). Without a command, all programs of this user are recorded (root: of all users) until
/// Ctrl-C or --duration; the exit status is 1 when nothing was recorded. Where it would be 0, it is 3 when records may
/// be missing that could not be counted: the summary says of which programs, and why.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo record ./program                      all events of a program and its children\n  \
    kymo record -u 'motor:*' -x motor:tick -- ./program --its-option\n  kymo record --with malloc -- gcc -c file.c\n  \
    kymo record --duration 10s -p 1234               attach to a running program for ten seconds\n  \
    kymo record -k sched,irq ./program           user and kernel events on one clock (needs root or access to tracefs)\n  \
    kymo record -k syscalls --only -- ls         system calls of one program\n  \
    kymo record -U ./program:main -- ./program   a function of a program that was never rebuilt\n  \
    kymo record --flight --trigger 'motor:step.duration > 200us' --before 20ms ./program    only what led to it\n  \
    kymo record --flight --trigger 'wakeup(prio < 0) > 200us' --before 50ms    why a real-time thread ran late\n\n\
    Tracepoints of programs: kymo-tracepoint(3). Events of the kernel: kymo-kernel(7)."
)]
pub struct RecordArgs {
    #[command(flatten)]
    options: Options,
    /// Flight recorder: keep the last moments in the rings; write them when a trigger fires, and at the end
    #[arg(long)]
    flight: bool,
    #[command(flatten)]
    out: JsonArgs,
    /// No progress line and no summary; errors only, and why records may be missing that nobody could count
    #[arg(short, long)]
    quiet: bool,
}

/// How a recording ended.
struct Ending {
    /// Exit status of the command, in the manner of a shell.
    status: Option<u8>,
    /// `--for` ended it.
    by_time: bool,
    /// A trigger ended it.
    by_trigger: bool,
    /// The number of the signal that ended it.
    signal: Option<u8>,
    /// Process id of a command that did not end when it was told to.
    still_running: Option<u32>,
}

/// Runs the verb.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let options = &args.options;
    let mut checked = options.check(args.quiet)?;
    options.check_flight(args.flight)?;
    anyhow::ensure!(
        options.keep.is_none() || options.rotate_size.is_some() || options.rotate_time.is_some(),
        "--keep is for a trace that is cut: add --rotate-size or --rotate-time"
    );
    checked.config.flight = args.flight;
    let patterns = checked.config.patterns.clone();
    let output = Output::prepare(options.output.as_deref(), options.overwrite)?;
    let (sender, watched) = mpsc::channel();
    let tell = move |happened| sender.send(happened).is_ok();
    let begun = match begin::begin(options, begin::prepare()?, checked, output, |_| (), tell) {
        Ok(begun) => begun,
        Err(error) => return cannot_begin(error),
    };
    let Begun { mut session, output, child } = begun;
    if child.is_none() && !args.quiet {
        eprintln!("kymo: recording into {}; Ctrl-C ends it", output.path().display());
        why::unreachable(&options.pid).iter().for_each(|line| eprintln!("kymo: note: {line}"));
    }
    let ending = follow(&args, &mut session, &watched, child);
    let last = args.flight.then(|| last_moments(&session)).transpose();
    let summary = session.stop()?;
    let code = report(&args, &patterns, &summary, &ending)?;
    // Behind the summary, which says what there is all the same.
    last.map(|_| code)
}

/// A flight recorder's last snapshot.
fn last_moments(session: &Session) -> anyhow::Result<SnapshotDone> {
    let dir = session.snapshot_dir().context("the session is no flight recorder")?;
    Ok(session.snapshot(&SnapshotRequest { dir, reason: "the end of the recording".to_owned(), before: None })?)
}

/// A command that cannot be run has exit statuses of its own.
fn cannot_begin(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    let Some(cannot_run) = error.downcast_ref::<CannotRun>() else { return Err(error) };
    eprintln!("kymo: {cannot_run}");
    Ok(ExitCode::from(cannot_run.status()))
}

/// Waits for the end of the command, a signal, or the end of the time; shows how it goes meanwhile.
fn follow(args: &RecordArgs, session: &mut Session, watched: &Receiver<Happened>, child: Option<u32>) -> Ending {
    let begun = Instant::now();
    let mut progress = text::ProgressLine::new(!args.quiet, args.options.duration);
    let show = progress.is_shown();
    let mut end = AwaitedEnd::new(child, args.options.duration.map(|time| begun + time));
    let mut warned = false;
    let mut rotation = Rotating::default();
    loop {
        let now = Instant::now();
        if end.is_over_by(now) {
            break;
        }
        let tick = if show || args.flight { PROGRESS } else { Duration::from_secs(1) };
        let tick = rotation.next_turn(session).map_or(tick, |next| tick.min(next));
        let wait = end.deadline.map_or(tick, |deadline| tick.min(deadline.saturating_duration_since(now)));
        if watched.recv_timeout(wait).is_ok_and(|happened| end.is_over_with(happened)) {
            break;
        }
        rotation.turn(session);
        let now = session.progress();
        warned &= now.stopped;
        progress.show(&now, begun.elapsed());
        if now.triggered {
            end.ending.by_trigger = true;
            end.ending.still_running = child;
            break;
        }
        if now.stopped && !warned && !args.quiet {
            warned = true;
            progress.clear();
            crate::verbs::say("the trace cannot be written at present; what cannot be is counted as lost");
        }
    }
    progress.clear();
    end.ending
}

/// The end of a recording, as long as it has not come.
struct AwaitedEnd {
    ending: Ending,
    child: Option<u32>,
    /// The end of the time; of a command that was told to end, when it is no longer waited for.
    deadline: Option<Instant>,
    /// The command was told to end.
    is_told: bool,
}

impl AwaitedEnd {
    fn new(child: Option<u32>, deadline: Option<Instant>) -> AwaitedEnd {
        let ending = Ending { status: None, by_time: false, by_trigger: false, signal: None, still_running: None };
        AwaitedEnd { ending, child, deadline, is_told: false }
    }

    /// Whether the time is over; a command is told to end first.
    fn is_over_by(&mut self, now: Instant) -> bool {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        match self.child {
            Some(pid) if !self.is_told => {
                (self.is_told, self.ending.by_time) = (true, true);
                self.deadline = Some(now + GRACE);
                command::signal(pid, libc::SIGTERM);
                false
            }
            child => {
                self.ending.by_time |= !self.is_told;
                self.ending.still_running = child;
                true
            }
        }
    }

    /// Whether what happened is the end: the command's, or a signal where there is no command to be told of it.
    fn is_over_with(&mut self, happened: Happened) -> bool {
        match happened {
            Happened::Ended(status) => {
                self.ending.status = Some(status);
                true
            }
            Happened::Signal { number, from_terminal } => {
                self.ending.signal = Some(number as u8);
                let Some(pid) = self.child.filter(|_| !self.is_told) else {
                    self.ending.still_running = self.child;
                    return true;
                };
                // The terminal sends it to the command as well.
                if !from_terminal {
                    command::signal(pid, number);
                }
                self.is_told = true;
                self.deadline = Some(Instant::now() + GRACE);
                false
            }
        }
    }
}

/// Says how it went, and chooses the exit status.
fn report(args: &RecordArgs, patterns: &Patterns, summary: &Summary, ending: &Ending) -> anyhow::Result<ExitCode> {
    let nothing = if summary.records == 0 {
        why::nothing(patterns, summary, &args.options.pid, &args.options.with)
    } else {
        Vec::new()
    };
    let unmatched = why::unmatched(patterns, summary);
    let status = match (ending.status, ending.signal) {
        _ if ending.by_trigger || (ending.by_time && !args.options.command.is_empty()) => 0,
        (Some(status), _) => status,
        (None, Some(signal)) if ending.still_running.is_some() => 128 + signal,
        (None, _) => u8::from(summary.records == 0),
    };
    // The command's own failure says more.
    let status = if status == 0 || summary.trace_error.is_some() { unknown::status(summary) } else { status };
    if !args.quiet {
        for line in text::summary(summary) {
            eprintln!("kymo: {line}");
        }
        for line in nothing.iter().chain(&unmatched) {
            eprintln!("kymo: {line}");
        }
        if let Some(pid) = ending.still_running.filter(|_| ending.by_trigger) {
            eprintln!("kymo: a trigger ended the recording; the command (process {pid}) goes on, unrecorded");
        } else if let Some(pid) = ending.still_running {
            eprintln!(
                "kymo: the command (process {pid}) did not end within {} s; it goes on, unrecorded",
                GRACE.as_secs()
            );
        }
        for line in summary.flight.iter().flat_map(text::snapshots) {
            eprintln!("kymo: {line}");
        }
        let newest = summary.flight.as_ref().and_then(|flight| flight.snapshots.last()).map(|snapshot| &snapshot.dir);
        if summary.records > 0 && summary.trace_error.is_none() {
            eprintln!("kymo: {}", text::next(newest.unwrap_or(&summary.trace)));
        }
    }
    let mut value = serde_json::to_value(summary).context("cannot write the summary as JSON")?;
    if args.quiet {
        for line in unknown::errors_of(&value) {
            eprintln!("kymo: {line}");
        }
    }
    if args.out.json {
        value["exit_status"] = status.into();
        value["remarks"] = nothing.into_iter().chain(unmatched).collect();
        println!("{value:#}");
    }
    Ok(ExitCode::from(status))
}
