// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo maxrate`: how many records a second a session takes without losing one. Trials are sessions of `kymo record`
//! over writers of our own (kymo-probe maxrate); here they are chosen, and what came of them is told.

mod search;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use kymo_lab::{Machine, environment, report};
use serde::Serialize;
use serde_json::json;

use super::probe::{self, Conditions, Policy};
use super::tool;
use crate::verbs::args::{CpuArgs, JsonArgs};
use crate::verbs::command::{self, Happened, Limits, Watcher};
use crate::verbs::units;
use search::{Bounds, End, RateInterval, Verdict};
use trial::{Length, Settings, Trial, Writers};

/// Maximum event rate that a session records without loss
///
/// Threads write records at a rate, paced by the CPU's counter. The rate is doubled until records are lost, then
/// bisected; the rate that is found must be without loss in every one of the repeats. Given is the interval: no loss up
/// to, loss from. With -k the kernel is recorded at the same time, and its losses count too. If others have the CPUs of
/// the writers, the search ends and says so: no rate would say anything about the session.
#[derive(clap::Args)]
#[command(mut_arg("cpu", |arg| arg.help("CPUs of the writers, as 0-3,6 [default: all that this process may use]")))]
#[command(mut_arg("json", |arg| arg.help("Print all trials as JSON")))]
#[command(after_help = "Examples:\n  kymo maxrate\n  kymo maxrate -k sched -k irq --threads 1,2 --payload 0,64\n  \
    kymo maxrate --prio 10 -c 1            writers that nothing ordinary takes the CPU from\n  \
    kymo maxrate --ring-size 16M -d 5s --dir /mnt/disk --json\n\n\
    Exit status: 0 found; 1 not even the lowest rate was without loss, or the machine was too busy to tell; 2 errors.")]
pub struct MaxrateArgs {
    /// Number of writers, each on its own CPU if there are enough; several numbers are separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Bytes of a record beside its number (8 bytes); several with commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=4096))]
    payload: Vec<u32>,
    #[command(flatten)]
    cpus: CpuArgs,
    /// Priority of the writers: on a busy machine ordinary ones get no CPU to write fast [default: 80 with --policy
    /// fifo or rr]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=99))]
    prio: Option<i32>,
    /// Class of the writers [default: fifo with --prio, else other]
    #[arg(long, value_enum)]
    policy: Option<Policy>,
    #[command(flatten)]
    conditions: Conditions,
    /// Record these events of the kernel, too, as kymo record -k (repeatable)
    #[arg(short, long, value_name = "EVENTS")]
    kernel: Vec<String>,
    /// Ring memory per CPU
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = units::bytes)]
    ring_size: u64,
    /// Length of a trial
    #[arg(short, long, alias = "for", value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    duration: Duration,
    /// Instead of a length: records of each writer in a trial
    #[arg(short, long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// Number of trials without loss that confirm a rate
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    confirm: u32,
    /// Precision of the search, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    precision: f64,
    /// First rate, records a second
    #[arg(long, value_name = "RATE", default_value_t = 100_000)]
    first: u64,
    /// Ask for no higher rate, records a second
    #[arg(long, value_name = "RATE", default_value_t = 1_000_000_000)]
    max: u64,
    /// Directory in which the traces are written, and removed again [default: that for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write all trials as JSON (kymo-lab(7)) to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: JsonArgs,
}

/// Of one number of writers and one payload.
#[derive(Serialize)]
struct Outcome {
    threads: u32,
    payload_bytes: u32,
    /// Highest rate without loss, records a second.
    lossless_per_s: Option<f64>,
    /// Lowest rate with loss.
    lossy_per_s: Option<f64>,
    /// Trials that confirm the former.
    confirmed: u32,
    limiter: String,
    /// Others had the CPUs of the writers: nothing was found.
    too_busy: bool,
    trials: Vec<Trial>,
}

/// Signals, and the session that they are for.
struct Watched {
    stop: Arc<AtomicBool>,
    child: Arc<AtomicU32>,
}

/// Runs the verb.
pub fn run(args: MaxrateArgs) -> anyhow::Result<ExitCode> {
    if !(0.1..=100.0).contains(&args.precision) {
        bail!("--precision is a number of percent from 0.1 to 100");
    }
    let cpus = tool::cpus(args.cpus.list())?;
    let writers = writers(&args)?;
    if writers.policy.is_real_time() {
        kymo_lab::busy_loop(&Machine::default(), &cpus)
            .iter()
            .for_each(|caveat| eprintln!("kymo: {}; {}", caveat.text, caveat.next));
    }
    let limits = Limits::take();
    let watched = watch()?;
    let mut builder = tempfile::Builder::new();
    builder.prefix("kymo-maxrate-");
    let dir = match &args.dir {
        Some(dir) => builder.tempdir_in(dir),
        None => builder.tempdir(),
    };
    let dir = dir.context("no directory for the traces")?;
    let mut outcomes = Vec::new();
    for &threads in &args.threads {
        let placed: Vec<u32> = cpus.iter().copied().cycle().take(threads as usize).collect();
        for &payload in &args.payload {
            let settings = Settings {
                cpus: &placed,
                writers: &writers,
                payload,
                ring_bytes: args.ring_size,
                kernel: &args.kernel,
                dir: dir.path(),
                limits: &limits,
                child: &watched.child,
            };
            let outcome = find(&args, &settings, &watched)?;
            if !args.out.json {
                lines(&outcome).iter().for_each(|line| println!("{line}"));
            }
            outcomes.push(outcome);
        }
    }
    let report = json!({
        "schema": "kymo-maxrate-1", "ring_bytes": args.ring_size, "kernel": args.kernel, "policy": writers.policy.word(),
        "prio": writers.policy.is_real_time().then_some(writers.prio), "warmup": args.conditions.warmup, "locked": !args.conditions.no_lock,
        "trial_s": args.loops.is_none().then_some(args.duration.as_secs_f64()), "trial_records": args.loops,
        "cpus": tool::list(&cpus), "results": outcomes, "environment": environment(&Machine::default()),
    });
    if let Some(path) = &args.output {
        std::fs::write(path, format!("{report}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.out.json {
        println!("{report}");
    }
    let is_found = outcomes.iter().all(|outcome| outcome.lossless_per_s.is_some());
    Ok(ExitCode::from(u8::from(!is_found)))
}

/// How the writers run: what was not said follows from what was.
fn writers(args: &MaxrateArgs) -> anyhow::Result<Writers> {
    let policy = args.policy.unwrap_or(if args.prio.is_some() { Policy::Fifo } else { Policy::Other });
    probe::not_deadline("maxrate", policy)?;
    if !policy.is_real_time() && args.prio.is_some() {
        bail!("--prio is of --policy fifo or rr");
    }
    Ok(Writers {
        policy,
        prio: args.prio.unwrap_or(probe::PRIO_USUAL),
        conditions: args.conditions,
        length: args.loops.map_or(Length::Time(args.duration), Length::Records),
    })
}

/// A signal ends the session that runs, and the search.
fn watch() -> anyhow::Result<Watched> {
    let watcher = Watcher::prepare().context("cannot watch for signals")?;
    let watched = Watched { stop: Arc::new(AtomicBool::new(false)), child: Arc::new(AtomicU32::new(0)) };
    let (stop, child) = (Arc::clone(&watched.stop), Arc::clone(&watched.child));
    let tell = move |happened| {
        if let Happened::Signal { number, from_terminal } = happened {
            stop.store(true, Ordering::SeqCst);
            let pid = child.load(Ordering::SeqCst);
            // A terminal has told the session, too.
            if pid != 0 && !from_terminal {
                command::signal(pid, number);
            }
        }
        true
    };
    watcher.start(None, tell).context("cannot start a thread")?;
    Ok(watched)
}

fn find(args: &MaxrateArgs, settings: &Settings<'_>, watched: &Watched) -> anyhow::Result<Outcome> {
    let bounds = Bounds {
        first: args.first.max(1) as f64,
        max: args.max.max(1) as f64,
        precision: args.precision / 100.0,
        confirm: args.confirm,
    };
    let mut trials = Vec::new();
    let found = search::search(&bounds, |rate| {
        let trial = trial::run(settings, rate);
        if watched.stop.load(Ordering::SeqCst) {
            bail!("interrupted after {}; nothing is confirmed yet", report::counted(trials.len() as u64, "trial"));
        }
        let trial = trial?;
        if trials.is_empty() {
            trial.troubles.values().for_each(|text| eprintln!("kymo: note: {text}"));
        }
        let verdict = trial.verdict();
        say(&trial, verdict);
        trials.push(trial);
        Ok(verdict)
    })?;
    Ok(Outcome {
        threads: settings.cpus.len() as u32,
        payload_bytes: settings.payload,
        lossless_per_s: found.lossless,
        lossy_per_s: found.lossy,
        confirmed: args.confirm,
        limiter: limiter(&found, &trials, settings),
        too_busy: found.end == End::Busy,
        trials,
    })
}

/// A line of progress for each trial.
fn say(trial: &Trial, verdict: Verdict) {
    let what = match verdict {
        Verdict::Lossless => "no loss".to_owned(),
        Verdict::Short => format!("only {} written", report::count(trial.written)),
        Verdict::Starved => format!(
            "only {} written: the writers had a CPU in {} of their time",
            report::count(trial.written),
            share(trial.writers_cpu)
        ),
        Verdict::Lossy => format!("{} lost", report::count(trial.lost + trial.kernel_lost)),
    };
    eprintln!("kymo: {} a second for {:.1} s: {what}", report::count(trial.asked_per_s as u64), trial.duration_s);
}

fn share(part: Option<f64>) -> String {
    part.map_or_else(|| "an unknown share".to_owned(), |part| format!("{:.0} %", part * 100.0))
}

/// How it was seen that the machine is too busy, and what to do.
fn too_busy(trials: &[Trial], settings: &Settings<'_>) -> String {
    let starved: Vec<&Trial> = trials.iter().filter(|trial| trial.verdict() == Verdict::Starved).collect();
    let most = starved.iter().filter_map(|trial| trial.writers_cpu).reduce(f64::max);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().map_or(String::new(), |load| format!(", load average {load}"));
    let lossless = trials.iter().filter(|trial| trial.verdict() == Verdict::Lossless);
    let seen = lossless.map(|trial| trial.asked_per_s).reduce(f64::max);
    let seen = seen.map_or(String::new(), |rate| {
        format!(" (without loss in some trials, but not confirmed: {} a second)", report::count(rate as u64))
    });
    let next = match settings.writers.policy.is_real_time() {
        false => {
            "--prio 10 gives the writers the CPU before all ordinary threads; else stop what runs on these CPUs, or name others with --cpu"
        }
        true => "a thread of a higher priority, throttling (kymo doctor) or the hypervisor takes the rest",
    };
    format!(
        "others: the machine is too busy. The writers never sleep, but had a CPU in {} of their time at most, in {}{load}{seen}; {next}",
        share(most),
        report::counted(starved.len() as u64, "trial")
    )
}

/// What bounds the rate: of the lowest rate that lost something.
fn limiter(found: &RateInterval, trials: &[Trial], settings: &Settings<'_>) -> String {
    let lossy = trials.iter().filter(|trial| trial.verdict() == Verdict::Lossy);
    let lowest = lossy.min_by(|a, b| a.asked_per_s.total_cmp(&b.asked_per_s));
    let mut busy: Vec<u32> = settings.cpus.to_vec();
    busy.sort_unstable();
    busy.dedup();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    match (found.end, lowest) {
        (End::Max, _) => "--max: no loss, and no higher rate was asked for".to_owned(),
        (End::Busy, _) => too_busy(trials, settings),
        (End::Writers, _) => "the writers: they write no faster, and nothing was lost there".to_owned(),
        (End::GaveUp, _) => "unknown: rates are without loss at one time and with loss at another".to_owned(),
        (End::Loss, Some(trial)) => trial.limiter(busy.len() >= cpus),
        (End::Loss, None) => "unknown".to_owned(),
    }
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map(|rate| report::count(rate as u64));
    let head = format!(
        "{}, records of 8 + {} bytes:",
        report::counted(outcome.threads.into(), "writer"),
        outcome.payload_bytes
    );
    let none = if outcome.too_busy { "the machine is too busy to tell" } else { "no rate was without loss" };
    let low = rate(outcome.lossless_per_s).map_or_else(
        || none.to_owned(),
        |low| format!("no loss up to {low} records a second (in {0} of {0} trials)", outcome.confirmed),
    );
    let high =
        rate(outcome.lossy_per_s).map_or_else(|| "loss was not seen".to_owned(), |high| format!("loss from {high}"));
    vec![format!("{head} {low}, {high}"), format!("  bounded by {}", outcome.limiter)]
}
