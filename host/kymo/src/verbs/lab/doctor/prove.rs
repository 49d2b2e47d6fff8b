// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo doctor --prove ID`: is it this setting? Short runs with the setting as it is (A) and as it is wanted (B),
//! interleaved, compared as spec/lab.md 5 says. Each change is in an undo file before it is made, and taken back after
//! its run.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use kymo_lab::{
    CompareOptions, Comparison, Machine, Metric, Outcome, Record, State, Target, Undo, compare, examine, import,
};
use serde_json::json;

use crate::verbs::command::{self, Limits, Watcher};
use crate::verbs::lab::tool;

/// A setting that can be flipped while the machine runs.
struct Knob {
    id: &'static str,
    /// Files; `*` stands for any one name.
    paths: &'static [&'static str],
    wanted: &'static str,
    /// What shows its effect: a verb of kymo and its options.
    test: &'static [&'static str],
}

const WAKEUP: &[&str] = &["wakeup", "--json", "--best-effort", "-i", "500us", "-d", "2s"];
const BUSY: &[&str] = &["npt", "--json", "--best-effort", "-d", "2s"];

/// A bound on idle states holds for as long as this file is open, and so ends with us whatever happens.
const IDLE_BOUND: &str = "/dev/cpu_dma_latency";

const KNOBS: [Knob; 14] = [
    Knob { id: "deep-idle", paths: &[IDLE_BOUND], wanted: "0", test: WAKEUP },
    Knob { id: "rt-throttling", paths: &["/proc/sys/kernel/sched_rt_runtime_us"], wanted: "-1", test: BUSY },
    Knob { id: "fair-server", paths: &["/sys/kernel/debug/sched/fair_server/*/runtime"], wanted: "0", test: BUSY },
    Knob { id: "lockup-detector", paths: &["/proc/sys/kernel/watchdog"], wanted: "0", test: WAKEUP },
    Knob { id: "timer-migration", paths: &["/proc/sys/kernel/timer_migration"], wanted: "0", test: WAKEUP },
    Knob { id: "numa-balancing", paths: &["/proc/sys/kernel/numa_balancing"], wanted: "0", test: WAKEUP },
    Knob { id: "huge-pages", paths: &["/sys/kernel/mm/transparent_hugepage/enabled"], wanted: "madvise", test: WAKEUP },
    Knob { id: "same-page-merging", paths: &["/sys/kernel/mm/ksm/run"], wanted: "0", test: WAKEUP },
    Knob { id: "compaction", paths: &["/proc/sys/vm/compaction_proactiveness"], wanted: "0", test: WAKEUP },
    Knob { id: "stat-interval", paths: &["/proc/sys/vm/stat_interval"], wanted: "10", test: WAKEUP },
    Knob {
        id: "governor",
        paths: &["/sys/devices/system/cpu/*/cpufreq/scaling_governor"],
        wanted: "performance",
        test: WAKEUP,
    },
    Knob { id: "graphics-power", paths: &["/sys/bus/pci/drivers/i915/*/power/control"], wanted: "on", test: WAKEUP },
    Knob { id: "pcie-aspm", paths: &["/sys/module/pcie_aspm/parameters/policy"], wanted: "performance", test: WAKEUP },
    Knob {
        id: "machine-check",
        paths: &["/sys/devices/system/machinecheck/machinecheck0/check_interval"],
        wanted: "0",
        test: WAKEUP,
    },
];

/// What to prove, and how.
pub struct Question<'a> {
    /// Id of a check.
    pub id: &'a str,
    /// A command that prints a result; `None`: a test of kymo that fits.
    pub measure: Option<&'a str>,
    /// Runs a side.
    pub runs: usize,
    /// The comparison as JSON.
    pub json: bool,
}

/// Runs the experiment, and prints its outcome.
pub fn run(question: &Question<'_>) -> anyhow::Result<ExitCode> {
    let knob = knob(question.id)?;
    let machine = Machine::default();
    let files: Vec<PathBuf> = knob.paths.iter().flat_map(|path| expand(&machine, path)).collect();
    let findings = examine(&machine, &Target::Machine);
    let finding = findings.iter().find(|finding| finding.id == knob.id).context("no such check")?;
    if finding.state == State::NotApplicable || files.is_empty() {
        bail!("{}: there is nothing to flip here: {}", knob.id, finding.current);
    }
    if finding.state == State::Ok {
        bail!("{} is as wanted already ({}); there is no other side to compare with", knob.id, finding.current);
    }
    let limits = Limits::take();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let watcher = Watcher::prepare().context("cannot watch for signals")?;
    // A run lasts some seconds; the signal counts when it is over and the setting is back.
    watcher
        .start(None, move |_| {
            seen.store(true, Ordering::Relaxed);
            true
        })
        .context("cannot start a thread")?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for turn in 0..question.runs * 2 {
        // A B B A A B B A ...: what drifts meets both sides alike.
        let is_flipped = matches!(turn % 4, 1 | 2);
        eprintln!(
            "kymo: run {} of {}: {} {}",
            turn + 1,
            question.runs * 2,
            knob.id,
            if is_flipped { knob.wanted } else { "as it is" }
        );
        let record =
            if is_flipped { flipped(knob, &files, question, &limits)? } else { measure(knob, question, &limits)? };
        if is_flipped {
            b.push(record)
        } else {
            a.push(record)
        }
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted after {} runs; everything is as it was", turn + 1);
        }
    }
    let comparison = compare(&a, &b, CompareOptions::default());
    if question.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({ "id": knob.id, "wanted": knob.wanted, "comparison": comparison }))?
        );
    } else {
        print(knob, &comparison)?;
    }
    Ok(ExitCode::from(status(comparison.outcome)))
}

fn knob(id: &str) -> anyhow::Result<&'static Knob> {
    let ids: Vec<&str> = KNOBS.iter().map(|knob| knob.id).collect();
    KNOBS.iter().find(|knob| knob.id == id).with_context(|| {
        format!("{id:?} cannot be flipped while the machine runs, or is no check; those that can: {}", ids.join(" "))
    })
}

/// The files of a path with one `*` at most.
fn expand(machine: &Machine, path: &str) -> Vec<PathBuf> {
    let paths = match path.split_once('*') {
        None => vec![path.to_owned()],
        Some((above, below)) => {
            machine.list(above).unwrap_or_default().iter().map(|name| format!("{above}{name}{below}")).collect()
        }
    };
    paths.into_iter().filter(|path| machine.has(path)).map(|path| machine.path(&path)).collect()
}

/// One run with the setting as wanted. It is back when this returns, whatever comes of the run.
fn flipped(knob: &Knob, files: &[PathBuf], question: &Question<'_>, limits: &Limits) -> anyhow::Result<Record> {
    if knob.paths == [IDLE_BOUND] {
        let mut bound =
            File::options().write(true).open(IDLE_BOUND).with_context(|| format!("cannot open {IDLE_BOUND}"))?;
        bound.write_all(&0i32.to_ne_bytes()).with_context(|| format!("cannot write {IDLE_BOUND}"))?;
        return measure(knob, question, limits);
    }
    let runtime = kymo_collect::RuntimeDir::own()?;
    let mut undo = Undo::begin(runtime.path(), "prove").context("cannot keep a record of what is to be restored")?;
    let written = files
        .iter()
        .try_for_each(|file| undo.write(file, knob.wanted).with_context(|| format!("cannot set {}", file.display())));
    let record = written.and_then(|()| measure(knob, question, limits));
    let failures = undo.restore();
    if !failures.is_empty() {
        bail!("not restored: {}; try kymo doctor --restore", failures.join("; "));
    }
    record
}

fn measure(knob: &Knob, question: &Question<'_>, limits: &Limits) -> anyhow::Result<Record> {
    let mut command = match question.measure {
        Some(line) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]);
            shell
        }
        None => {
            let mut own = Command::new(std::env::current_exe().context("where is kymo itself?")?);
            own.args(knob.test);
            if knob.test == BUSY {
                // One CPU is enough to show it; with throttling off, a busy thread on each would stop the whole
                // machine.
                own.args(["-c", &tool::cpus(None)?.last().context("no CPU for the test")?.to_string()]);
            }
            own
        }
    };
    limits.restore_in(&mut command);
    // One that outlives us would measure a setting that somebody puts back meanwhile.
    command::end_with_us(&mut command);
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().context("cannot run the measurement")?;
    let record = import("the measurement", &output.stdout);
    record.with_context(|| format!("{}; it said: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

fn print(knob: &Knob, comparison: &Comparison) -> anyhow::Result<()> {
    println!("{} {} against as it is, {} and {} runs:", knob.id, knob.wanted, comparison.runs[1], comparison.runs[0]);
    for series in &comparison.series {
        for metric in &series.metrics {
            // The tail's values are shares, not times.
            let (Some(a), Some(b)) = (&metric.a, &metric.b) else { continue };
            if metric.metric == Metric::Tail {
                continue;
            }
            let name = json!(metric.metric);
            let us = |ns: f64| ns / 1_000.0;
            println!(
                "  {} {:<9} {:>12.3} us -> {:>12.3} us   {}",
                series.name,
                name.as_str().unwrap_or_default(),
                us(a.median),
                us(b.median),
                text(metric.outcome)
            );
        }
    }
    for caveat in &comparison.caveats {
        println!("  {}: {}", caveat.caveat.id, caveat.caveat.text);
    }
    println!("{}: {}", knob.id, text(comparison.outcome));
    Ok(())
}

fn text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::Mixed => "better in one respect, worse in another",
        Outcome::NoDifference => "no difference that these runs can show",
        Outcome::NotEnoughData => "not enough data",
    }
}

/// As kymo compare: 0 no difference, 1 a difference, 3 not enough data.
fn status(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::NoDifference => 0,
        Outcome::NotEnoughData => 3,
        Outcome::Better | Outcome::Worse | Outcome::Mixed => 1,
    }
}
