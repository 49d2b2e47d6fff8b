// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo eval`: tests without a load and under loads, in rounds of random order, with one report of all. The plan, the
//! comparison and the report are kymo-lab's; here tests and loads are run.

mod slots;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use kymo_lab::{
    EVAL_SCHEMA, Ended, Evaluation, Finding, Machine, Severity, State, Target, environment, examine, plan, report,
};

use super::load::kind::{self, Mix};
use super::results;
use super::tool;
use crate::verbs::args::{CpuArgs, JsonArgs};
use crate::verbs::units::{self, Cpus};
use slots::Slots;

/// What a slot has beside its test: the load's begin and end, and the test's own.
const BESIDE: Duration = Duration::from_millis(700);
/// What is needed on top where samples are explained: a recorder is started, and its records are read. Where there is
/// no room for it, the evaluation takes longer.
const EXPLAINING: Duration = Duration::from_millis(600);
/// Shortest test.
const TEST_MIN: Duration = Duration::from_millis(300);

/// Evaluation of this machine: latency tests idle and under loads, one report
///
/// Each test runs without a load and under each load, once a round; each round has an order of its own (its seed is in
/// the report). What was measured under a load is compared with the same test without one. The report has date,
/// machine and seed, the problems that kymo doctor finds, the results of each CPU, and the worst samples over time
/// with their causes. With Ctrl-C it has what there was until then.
#[derive(clap::Args)]
#[command(mut_arg("cpu", |arg| arg.help("CPUs to measure on, as 0-3,6 [default: all that this process may use]")))]
#[command(mut_arg("json", |arg| arg.help("Print the report as JSON: what is written to report.json")))]
#[command(after_help = "Examples:\n  kymo eval -d 10m -o evaluation\n  \
    kymo eval -d 8h --load none,hackbench+io,compile --test wakeup -c 2-3 --deadline 100us -o night\n\n\
    Writes report.html, report.txt, report.json, and each result in results/.\n\n\
    Exit status: 0 all was run; 1 a sample above --deadline; 2 errors; 3 interrupted, or a run failed.")]
pub struct EvalArgs {
    /// How long, all together: 10m, 8h
    #[arg(short, long, value_name = "TIME", default_value = "10m", value_parser = units::duration)]
    duration: Duration,
    /// Loads as kymo load has them, with commas between; none is without one
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = kind::mix)]
    #[arg(default_value = "none,hackbench,compile,net")]
    load: Vec<Mix>,
    /// Tests, with commas between
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', default_value = "wakeup,npt")]
    test: Vec<Test>,
    #[command(flatten)]
    cpus: CpuArgs,
    /// CPUs of the loads [default: all that this process may use]
    #[arg(long, alias = "load-cpus", value_name = "CPUS", value_parser = units::cpus)]
    load_cpu: Option<Cpus>,
    /// Workers of a load for each of its CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    intensity: u32,
    /// Runs of each test under each load; a comparison needs 5
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: u16,
    /// Samples above this are misses: 100us
    #[arg(long, alias = "limit", value_name = "TIME", value_parser = units::duration)]
    deadline: Option<Duration>,
    /// Explain the N worst samples of each CPU in each run by the kernel's events, recorded beside it; 0: record
    /// nothing
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=20))]
    explain: u32,
    /// Seed of the random order [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Continue if priority, CPU or memory locking is not available; the results are marked
    #[arg(long)]
    best_effort: bool,
    /// Directory of the report; it must be absent or empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    out: JsonArgs,
}

/// Tests that an evaluation can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Test {
    /// kymo wakeup
    Wakeup,
    /// kymo npt
    Npt,
    /// kymo hwlat
    Hwlat,
    /// kymo preempt
    Preempt,
    /// kymo pi
    Pi,
}

impl Test {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Runs the verb.
pub fn run(args: EvalArgs) -> anyhow::Result<ExitCode> {
    let cpus = tool::cpus(args.cpus.list())?;
    let load_cpus = tool::cpus(args.load_cpu.as_ref().map(|cpus| &cpus.0[..]))?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_nanos() as u64);
    let seed = args.seed.unwrap_or_else(|| since_1970.as_ref().copied().unwrap_or(0));
    let tests: Vec<String> = args.test.iter().map(|test| test.name()).collect();
    let loads: Vec<String> = args.load.iter().map(Mix::name).collect();
    let planned = plan(&tests, &loads, args.rounds.into(), seed);
    let slot = slot(args.duration, planned.len())?;
    let explaining = if args.explain > 0 { EXPLAINING } else { Duration::ZERO };
    let results = make_dirs(&args.output)?;
    let mut evaluation = beginning(&args, since_1970.ok(), seed, planned.len());
    report::problems(&evaluation).iter().for_each(|line| eprintln!("kymo: {line}"));
    let begun = Instant::now();
    let settings = slots::Settings {
        results: &results,
        cpus: &cpus,
        load_cpus: &load_cpus,
        intensity: args.intensity,
        test: (slot - BESIDE).saturating_sub(explaining).max(TEST_MIN),
        explain: args.explain,
        best_effort: args.best_effort,
    };
    let mut slots = Slots::prepare(settings)?;
    for (at, planned) in planned.into_iter().enumerate() {
        slots.say(at, evaluation.planned, &planned, begun.elapsed());
        let mix = args.load.iter().find(|mix| mix.name() == planned.load).context("a load without a name")?;
        let run = slots.run(at, planned, mix);
        evaluation.runs.push(run);
        if slots.is_stopped() {
            evaluation.ended = Ended::Signal;
            break;
        }
    }
    slots.clear_line();
    evaluation.duration_s = begun.elapsed().as_secs_f64();
    evaluation.conclude();
    write(&args.output, &evaluation, args.out.json)?;
    Ok(ExitCode::from(status(&evaluation)))
}

/// What is known before the first run.
fn beginning(args: &EvalArgs, started_ns: Option<u64>, seed: u64, planned: usize) -> Evaluation {
    let machine = Machine::default();
    let findings = examine(&machine, &Target::Machine);
    let is_blind = |finding: &&Finding| finding.state == State::Unread && finding.severity > Severity::Medium;
    let is_problem = |finding: &&Finding| finding.state == State::Problem;
    Evaluation {
        schema: EVAL_SCHEMA,
        started_ns,
        duration_s: 0.0,
        ended: Ended::Time,
        seed,
        explain: args.explain,
        planned,
        limit_ns: args.deadline.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
        environment: environment(&machine),
        problems: findings.iter().filter(is_problem).cloned().collect(),
        not_looked: findings.iter().filter(is_blind).cloned().collect(),
        runs: Vec::new(),
        cpus: Vec::new(),
        worst: Vec::new(),
        comparisons: Vec::new(),
        caveats: Vec::new(),
    }
}

/// Time of a run, its load's begin and end among it.
fn slot(duration: Duration, planned: usize) -> anyhow::Result<Duration> {
    let count = u32::try_from(planned).unwrap_or(u32::MAX).max(1);
    let slot = duration / count;
    let least = BESIDE + TEST_MIN;
    if slot < least {
        bail!(
            "{planned} runs do not fit into {:.0} s: --duration {:.0}s at least, or fewer of --test, --load, --rounds",
            duration.as_secs_f64(),
            (least * count).as_secs_f64().ceil()
        );
    }
    Ok(slot)
}

fn make_dirs(output: &Path) -> anyhow::Result<PathBuf> {
    let results = output.join("results");
    if output.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty; an evaluation has a directory of its own", output.display());
    }
    std::fs::create_dir_all(&results).with_context(|| format!("cannot make {}", results.display()))?;
    Ok(results)
}

fn write(output: &Path, evaluation: &Evaluation, is_json: bool) -> anyhow::Result<()> {
    let lines = report::evaluation(evaluation);
    let json = serde_json::to_string(evaluation).context("cannot write the report as JSON")?;
    results::write(&output.join("report.json"), &format!("{json}\n"))?;
    results::write(&output.join("report.txt"), &(lines.join("\n") + "\n"))?;
    results::write(&output.join("report.html"), &report::evaluation_html(evaluation))?;
    match is_json {
        true => println!("{json}"),
        false => lines.iter().for_each(|line| println!("{line}")),
    }
    eprintln!("kymo: report in {}", output.join("report.html").display());
    Ok(())
}

fn status(evaluation: &Evaluation) -> u8 {
    let is_whole = evaluation.ended != Ended::Signal && evaluation.runs.iter().all(|run| run.trouble.is_none());
    match (evaluation.above_limit().is_some(), is_whole) {
        (true, _) => 1,
        (false, true) => 0,
        (false, false) => 3,
    }
}
