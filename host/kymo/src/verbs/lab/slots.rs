// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo slots`: several tests on one CPU, in turns, so that whatever the machine does meets all of them alike.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use kymo_lab::stats::{Distribution, Random};
use kymo_lab::{CompareOptions, Comparison, Outcome, Record, compare, report};
use serde_json::json;

use super::probe::measure::Probes;
use super::results;
use crate::verbs::args::{CpuArgs, JsonArgs};
use crate::verbs::units;
use kymo_command::terminal::Progress;

/// Verbs of kymo that measure.
const VERBS: [&str; 5] = ["wakeup", "npt", "hwlat", "preempt", "pi"];
/// Version of the JSON.
const SCHEMA: &str = "kymo-slots-1";

/// Interleaved tests on one CPU: run several tests in turns and compare them
///
/// In each round every test has one slot, in random order; each slot is a record of its own. Tests of the same kind
/// are compared afterwards as kymo compare does. `exec 'COMMAND'` runs a third-party program (cyclictest, oslat,
/// rtla ...) whose output is imported; in its environment KYMO_CPU is the CPU and KYMO_SECONDS the length of a
/// slot in whole seconds.
#[derive(clap::Args)]
#[command(
    mut_arg("cpu", |arg| arg.required(true).help("The CPU that all measure on: one")),
    mut_arg("json", |arg| arg.help("Print JSON: all records, and the comparisons")),
    after_help = "Examples:\n  kymo slots --cpu 1 --duration 2s --rounds 10 -- wakeup -- wakeup --method timerfd\n  \
    kymo slots --cpu 1 --duration 2s --rounds 10 -o results -- wakeup --dma-latency 0 -- \\\n      \
    exec 'cyclictest -q -m -a $KYMO_CPU -t 1 -p 80 -i 1000 -D $KYMO_SECONDS -h 100000'\n\n\
    Exit status: 0 no difference, or nothing to compare; 1 a difference; 2 errors; 3 not enough data.",
    override_usage = "kymo slots [OPTIONS] -- TEST [ITS OPTIONS] -- TEST [ITS OPTIONS] ..."
)]
pub struct SlotsArgs {
    #[command(flatten)]
    cpus: CpuArgs,
    /// Length of a slot
    #[arg(short, long, alias = "slot", value_name = "TIME", default_value = "2s", value_parser = units::duration)]
    duration: Duration,
    /// Slots of each test
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Seed of the order of tests in rounds: the same seed, the same order [default: drawn, and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the record of each slot into this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: JsonArgs,
    /// The tests, each behind --
    #[arg(last = true, required = true, value_name = "TEST")]
    tests: Vec<OsString>,
}

/// One of the tests.
struct Test {
    /// Letter and words, for people.
    name: String,
    words: Vec<OsString>,
    records: Vec<Record>,
}

/// Runs the verb.
pub fn run(args: SlotsArgs) -> anyhow::Result<ExitCode> {
    let mut tests = tests(&args.tests)?;
    let cpu = args.cpus.single("slots")?.context("--cpu is missing")?;
    anyhow::ensure!(args.duration >= Duration::from_millis(100), "a slot lasts 100 ms at least");
    if let Some(dir) = &args.output {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let seed = args.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64 & 0xffff_ffff)
    });
    eprintln!("kymo: order of rounds from seed {seed}");
    let mut random = Random::new(seed);
    let probes = Probes::prepare()?;
    let mut progress = Progress::new();
    let (mut done, total) = (0u64, u64::from(args.rounds) * tests.len() as u64);
    for round in 0..args.rounds {
        for at in order(tests.len(), &mut random) {
            if probes.is_interrupted() {
                break;
            }
            let name = report::plain(&tests[at].name);
            progress
                .show_share_now(done as f64 / total as f64, &format!("round {} of {}, {name}", round + 1, args.rounds));
            done += 1;
            let mut record = slot(cpu, &args, &tests[at], &probes)?;
            // What was cut short by a signal is no slot like the others.
            if probes.is_interrupted() {
                break;
            }
            record.options.insert("slot".to_owned(), round.into());
            record.options.insert("slots_seed".to_owned(), seed.into());
            keep(args.output.as_deref(), round, at, &record)?;
            tests[at].records.push(record);
        }
    }
    progress.end();
    conclude(&args, seed, &tests)
}

/// The tests of a command line.
fn tests(words: &[OsString]) -> anyhow::Result<Vec<Test>> {
    let mut tests = Vec::new();
    for (at, words) in words.split(|word| word == "--").enumerate() {
        let text: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let name = format!("{}: {}", letter(at), text.join(" "));
        match text.first().map(String::as_str) {
            Some("exec") if words.len() == 2 => {}
            Some("exec") => bail!("{name}: exec takes one word, the command, in quotes"),
            Some(verb) if VERBS.contains(&verb) => {}
            _ => bail!("{name}: no such test; there are {} and exec 'COMMAND'", VERBS.join(", ")),
        }
        tests.push(Test { name, words: words.to_vec(), records: Vec::new() });
    }
    Ok(tests)
}

fn letter(at: usize) -> char {
    u8::try_from(at).ok().filter(|at| *at < 26).map_or('?', |at| char::from(b'A' + at))
}

/// A permutation, each as likely as the others.
fn order(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    (1..count).rev().for_each(|at| order.swap(at, random.below(at + 1)));
    order
}

/// One slot: the program runs to its end, and what it said is the record.
fn slot(cpu: u32, args: &SlotsArgs, test: &Test, probes: &Probes) -> anyhow::Result<Record> {
    let cpu = cpu.to_string();
    let is_foreign = test.words[0] == "exec";
    let mut command = if is_foreign {
        let mut command = Command::new("/bin/sh");
        let seconds = args.duration.as_secs_f64().ceil().max(1.0) as u64;
        command.arg("-c").arg(&test.words[1]).env("KYMO_CPU", &cpu).env("KYMO_SECONDS", seconds.to_string());
        command
    } else {
        let mut command = Command::new("/proc/self/exe");
        let slot = format!("{}us", args.duration.as_micros());
        command.args(&test.words).args(["--cpu", &cpu, "--duration", &slot, "--json"]);
        command
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let output = probes.output(&mut command).with_context(|| format!("cannot run {}", test.name))?;
    // A test may end with 1: it measured, and something was not as it should be.
    let has_failed = !matches!(output.status.code(), Some(0 | 1)) && !probes.is_interrupted();
    anyhow::ensure!(!has_failed, "{} ended with {}", test.name, output.status);
    let mut record = kymo_lab::import(&test.name, &output.stdout)?;
    if is_foreign {
        record.environment.extend(kymo_lab::environment(&kymo_lab::Machine::default()));
    }
    Ok(record)
}

fn keep(dir: Option<&Path>, round: u32, at: usize, record: &Record) -> anyhow::Result<()> {
    let Some(dir) = dir else { return Ok(()) };
    let path = dir.join(format!("{}-{round:04}.json", letter(at)));
    results::write(&path, &(serde_json::to_string(record).context("cannot write a record as JSON")? + "\n"))
}

/// Tables and comparisons.
fn conclude(args: &SlotsArgs, seed: u64, tests: &[Test]) -> anyhow::Result<ExitCode> {
    let pairs = (0..tests.len()).flat_map(|a| (a + 1..tests.len()).map(move |b| (a, b)));
    let compared: Vec<(usize, usize, Comparison)> = pairs
        .filter(|(a, b)| have_common(&tests[*a], &tests[*b]))
        .map(|(a, b)| (a, b, compare(&tests[a].records, &tests[b].records, CompareOptions::default())))
        .collect();
    if args.out.json {
        let list: Vec<_> = tests.iter().map(|test| json!({ "test": test.name, "records": test.records })).collect();
        let pairs: Vec<_> = compared
            .iter()
            .map(|(a, b, comparison)| json!({ "a": tests[*a].name, "b": tests[*b].name, "comparison": comparison }))
            .collect();
        println!("{}", json!({ "schema": SCHEMA, "seed": seed, "tests": list, "comparisons": pairs }));
    } else {
        tests.iter().flat_map(table).for_each(|line| println!("{line}"));
        for (a, b, comparison) in &compared {
            println!("\n{} and {}:", report::plain(&tests[*a].name), report::plain(&tests[*b].name));
            report::comparison(comparison).iter().for_each(|line| println!("{line}"));
        }
    }
    let outcomes: Vec<Outcome> = compared.iter().map(|(.., comparison)| comparison.outcome).collect();
    let is_difference = |outcome: &Outcome| matches!(outcome, Outcome::Better | Outcome::Worse | Outcome::Mixed);
    Ok(ExitCode::from(match () {
        () if outcomes.iter().any(is_difference) => 1,
        () if outcomes.contains(&Outcome::NotEnoughData) => 3,
        () => 0,
    }))
}

/// Whether there is a series that both have.
fn have_common(a: &Test, b: &Test) -> bool {
    let (Some(a), Some(b)) = (a.records.first(), b.records.first()) else { return false };
    a.test == b.test && a.series.iter().any(|one| b.series.iter().any(|other| one.name == other.name))
}

/// A line for each series of a test, all slots together.
fn table(test: &Test) -> Vec<String> {
    let mut lines = vec![report::plain(&test.name)];
    let Some(first) = test.records.first() else { return lines };
    for one in &first.series {
        let all = test.records.iter().flat_map(|record| &record.series).filter(|series| series.name == one.name);
        let of = Distribution::of(all);
        let quantile = |q: f64| report::quantile(&of, q);
        let max = of.max.map_or_else(|| "-".to_owned(), |max| report::time(max as f64));
        lines.push(format!(
            "  {:14} {} slots, {} samples: p50 {}, p99 {}, p99.9 {}, max {max}",
            report::plain(&one.name),
            test.records.len(),
            report::count(of.count()),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999)
        ));
    }
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split('|').map(OsString::from).collect()
    }

    #[test]
    fn tests_stand_behind_dashes() {
        let list = tests(&words("wakeup|-i|1ms|--|npt|--|exec|cyclictest -q")).unwrap();
        let names: Vec<&str> = list.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["A: wakeup -i 1ms", "B: npt", "C: exec cyclictest -q"]);
        for bad in ["dance", "wakeup|--", "exec", "exec|a|b"] {
            assert!(tests(&words(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_order_comes_and_the_seed_repeats_it() {
        let draw = |seed: u64| {
            let mut random = Random::new(seed);
            (0..60).map(|_| order(3, &mut random)).collect::<Vec<_>>()
        };
        let drawn = draw(7);
        assert_eq!(drawn, draw(7));
        let distinct: std::collections::HashSet<_> = drawn.into_iter().collect();
        assert_eq!(distinct.len(), 6);
    }
}
