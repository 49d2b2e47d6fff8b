// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo load`: something for the machine to do while others measure. Each load has a guard process (lab/load), which
//! takes all of it with it; here they are started, watched and asked what they did.

mod dir;
pub(crate) mod kind;
pub(crate) mod running;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kymo_lab::report;
use serde_json::json;

use super::tool;
use crate::verbs::args::{CpuArgs, JsonArgs};
use crate::verbs::command::{Happened, Limits, Watcher};
use crate::verbs::units;
use kind::Mix;
use kymo_command::terminal::Progress;
use running::{Done, Running};

/// How often the line on a terminal is written anew, and signals are looked at.
const STEP: Duration = Duration::from_millis(100);

/// Background load for measurements: scheduler, compiler, memory, I/O, network
///
/// hackbench: messages between 16 processes a worker. compile: a C compiler, again and again. memory: stress-ng's vm
/// and stream. io: its hdd and iomix, in the directory for temporary files. timer: its timer and timerfd. net: UDP and
/// TCP messages over the loopback interface. none: nothing. Several at once: hackbench+io. All run as ordinary threads.
/// When kymo ends, however it ends, nothing of a load is left: no process, no file.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("cpu", |arg| arg.help("CPUs to run on, as 0-3,6 [default: all that this process may use]")))]
#[command(mut_arg("json", |arg| arg.help("Print what the loads did as JSON")))]
#[command(after_help = "Examples:\n  kymo load hackbench                       until Ctrl-C\n  \
    kymo load hackbench+io -d 1m --json\n  kymo load compile -c 0 & kymo wakeup -c 1\n\n\
    Exit status: 0 it ran as long as was wanted, or until a signal; 1 a load ended by itself; 2 errors.")]
pub struct LoadArgs {
    /// Loads: hackbench, compile, memory, io, timer, net, none; several with +
    #[arg(value_name = "LOAD", value_parser = kind::mix)]
    load: Mix,
    #[command(flatten)]
    cpus: CpuArgs,
    /// End after this long: 10s, 5m [default: with Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Workers for each CPU
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    intensity: u32,
    #[command(flatten)]
    out: JsonArgs,
}

/// Runs the verb.
pub fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    let cpus = tool::cpus(args.cpus.list())?;
    let limits = Limits::take();
    // Before a load is there: a signal ends it.
    let watcher = Watcher::prepare().context("cannot watch for signals")?;
    let signal = Arc::new(AtomicI32::new(0));
    let seen = Arc::clone(&signal);
    let tell = move |happened| {
        if let Happened::Signal { number, .. } = happened {
            seen.store(number, Ordering::Relaxed);
        }
        true
    };
    watcher.start(None, tell).context("cannot start a thread")?;
    let begun = Instant::now();
    let mut running = Running::start(&args.load, &cpus, args.intensity, &limits)?;
    let trouble = wait(&mut running, &args, begun, &signal);
    let done = running.end();
    if let Some(trouble) = &trouble {
        eprintln!("kymo: {trouble}");
    }
    let ended = match (&trouble, signal.load(Ordering::Relaxed)) {
        (Some(_), _) => "trouble",
        (None, 0) => "time",
        (None, _) => "signal",
    };
    let seconds = begun.elapsed().as_secs_f64();
    if args.out.json {
        let report = json!({
            "schema": "kymo-load-1", "duration_s": seconds, "ended": ended, "cpus": tool::list(&cpus), "loads": done,
        });
        println!("{report}");
    } else {
        done.iter().for_each(|done| println!("{}", line(done)));
    }
    Ok(ExitCode::from(u8::from(trouble.is_some())))
}

/// Until the time is over, a signal came, or a load ended by itself: then why.
fn wait(running: &mut Running, args: &LoadArgs, begun: Instant, signal: &AtomicI32) -> Option<String> {
    let mut progress = Progress::new();
    let name = args.load.name();
    let trouble = loop {
        let left = args.duration.map(|duration| duration.saturating_sub(begun.elapsed()));
        if signal.load(Ordering::Relaxed) != 0 || left.is_some_and(|left| left.is_zero()) {
            break None;
        }
        let elapsed = begun.elapsed();
        let text = || format!("load {name}, {} s", elapsed.as_secs());
        match args.duration {
            Some(duration) => progress.show_share(elapsed.as_secs_f64() / duration.as_secs_f64(), text),
            None => progress.show(|| text() + ", Ctrl-C ends it"),
        }
        let trouble = running.watch(Instant::now() + left.unwrap_or(STEP).min(STEP));
        if trouble.is_some() {
            break trouble;
        }
    };
    progress.end();
    trouble
}

/// What a load did, for a person.
pub(crate) fn line(done: &Done) -> String {
    let workers = report::counted(done.workers.into(), "worker");
    let what = match (done.operations, done.per_second) {
        (Some(count), Some(rate)) => {
            format!(
                "{} {} in {:.1} s, {} a second",
                report::count(count),
                done.unit,
                done.duration_s,
                report::count(rate as u64)
            )
        }
        _ => "it did not say what it did".to_owned(),
    };
    let trouble = done.trouble.as_ref().map(|text| format!("; trouble: {}", report::plain(text))).unwrap_or_default();
    format!("{} ({}, {workers}): {what}{trouble}", done.load, done.by)
}
