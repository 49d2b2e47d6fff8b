// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial: a session, writers at a rate, and what was lost.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::Value;

use super::search::{self, Verdict};
use crate::verbs::command::{self, Limits};
use crate::verbs::lab::probe::{Conditions, FATAL, Policy, with_cause};
use crate::verbs::lab::tool;

/// Between two looks at what the collector used.
const LOOK: Duration = Duration::from_millis(20);

/// How the writers run, as the probe has it.
pub(super) struct Writers {
    pub(super) policy: Policy,
    /// Of a real-time class.
    pub(super) prio: i32,
    pub(super) conditions: Conditions,
    pub(super) length: Length,
}

/// When a trial ends.
#[derive(Clone, Copy)]
pub(super) enum Length {
    Time(Duration),
    /// Records of each writer.
    Records(u64),
}

/// What a trial is run with.
pub(super) struct Settings<'a> {
    /// CPU of each writer.
    pub(super) cpus: &'a [u32],
    pub(super) writers: &'a Writers,
    /// Bytes beside the number of a record.
    pub(super) payload: u32,
    pub(super) ring_bytes: u64,
    /// Kernel events, as kymo record -k has them.
    pub(super) kernel: &'a [String],
    /// Directory for traces; each is removed after its trial.
    pub(super) dir: &'a Path,
    pub(super) limits: &'a Limits,
    /// The session that runs; 0 for none.
    pub(super) child: &'a Arc<AtomicU32>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trial {
    /// Records a second that were asked for, all writers together.
    pub(super) asked_per_s: f64,
    /// Records that were written.
    pub(super) written: u64,
    /// Records that writers left out, because they had no CPU.
    pub(super) left_out: u64,
    /// Seconds.
    pub(super) duration_s: f64,
    /// Records of the program that were lost.
    pub(super) lost: u64,
    /// Records of the kernel, and those of them that were lost.
    pub(super) kernel_records: u64,
    pub(super) kernel_lost: u64,
    /// Share of their time in which the writers, which never sleep, had a CPU.
    pub(super) writers_cpu: Option<f64>,
    /// Bytes of the trace.
    pub(super) bytes: u64,
    /// Lost because the trace could not be written.
    pub(super) not_written: u64,
    /// CPU time of the collector, as part of the trial's time.
    pub(super) collector_cpu: f64,
    /// Time in which it waited for the disk, likewise; `None` where the kernel does not count that.
    pub(super) collector_disk: Option<f64>,
    /// What could not be had for the writers, by id: `not-fifo`, `not-locked`, ...
    pub(super) troubles: BTreeMap<String, String>,
}

impl Trial {
    pub(super) fn verdict(&self) -> Verdict {
        let written = self.written as f64 / self.duration_s.max(1e-9);
        search::verdict(self.asked_per_s, written, self.lost + self.kernel_lost, self.writers_cpu)
    }

    /// What most likely bounds the rate, of a trial with loss.
    pub(super) fn limiter(&self, is_busy: bool) -> String {
        let share = |part: f64| format!("{:.0} %", part * 100.0);
        let kernel = if self.lost == 0 { "records of the kernel were lost; " } else { "" };
        let why = if self.not_written > 0 {
            "the disk: the trace could not be written".to_owned()
        } else if self.collector_disk.is_some_and(|part| part > 0.1) {
            format!("the disk: the collector waited for it {} of the time", share(self.collector_disk.unwrap_or(0.0)))
        } else if self.collector_cpu > 0.85 {
            format!("the collector's CPU: it used {} of one", share(self.collector_cpu))
        } else if is_busy {
            format!(
                "CPUs: the writers keep all of them busy, and the collector got {} of one",
                share(self.collector_cpu)
            )
        } else {
            let used = share(self.collector_cpu);
            format!("memory: rings were full before the collector came, which used {used} of a CPU (--ring-size)")
        };
        format!("{kernel}{why}")
    }
}

/// Runs one at this rate.
pub(super) fn run(settings: &Settings<'_>, rate: f64) -> anyhow::Result<Trial> {
    let trace = settings.dir.join("trace");
    let mut child = command(settings, rate, &trace)?.spawn().context("cannot run kymo record")?;
    settings.child.store(child.id(), Ordering::SeqCst);
    let mut stderr = child.stderr.take().context("no output")?;
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, pid) = (Arc::clone(&is_over), child.id());
    let used = std::thread::spawn(move || usage(pid, &over));
    let mut stdout = String::new();
    let read = child.stdout.take().context("no output")?.read_to_string(&mut stdout);
    is_over.store(true, Ordering::Relaxed);
    let used = used.join().unwrap_or_default();
    settings.child.store(0, Ordering::SeqCst);
    let status = child.wait().context("cannot wait for kymo record")?;
    read.context("cannot read what the writers say")?;
    let summary = std::fs::read(trace.join(kymo_collect::SUMMARY_FILE)).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&trace);
    let said = said.join().unwrap_or_default();
    match serde_json::from_slice::<Value>(&summary) {
        Ok(summary) if status.code().is_some_and(|code| code < 2) => {
            let mut trial = trial(rate, &stdout, &summary, used)?;
            for (id, text) in &mut trial.troubles {
                *text = with_cause(id, std::mem::take(text), settings.writers.prio).0;
            }
            let fatal = FATAL
                .iter()
                .find_map(|id| trial.troubles.get(*id))
                .filter(|_| !settings.writers.conditions.best_effort);
            match fatal {
                Some(text) => bail!("{text}; --best-effort goes on all the same, and the result says so"),
                None => Ok(trial),
            }
        }
        _ => bail!("kymo record: {status}: {}", said.trim()),
    }
}

fn command(settings: &Settings<'_>, rate: f64, trace: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("where is kymo itself?")?);
    command
        .args(["record", "-u", "lab", "--overwrite", "--ring-size", &settings.ring_bytes.to_string(), "-o"])
        .arg(trace);
    command.args(settings.kernel.iter().flat_map(|events| ["-k", events.as_str()]));
    let each = (rate / settings.cpus.len() as f64).round().max(1.0);
    command.arg("--").arg(tool::find("kymo-probe", "KYMO_PROBE")?).arg("maxrate");
    let writers = settings.writers;
    command.arg(format!("policy={}", writers.policy.word())).arg(format!("priority={}", writers.prio));
    command.args(writers.conditions.words().map(|(key, value)| format!("{key}={value}")));
    command.arg(format!("rate={each}")).arg(format!("payload={}", settings.payload));
    command.arg(match writers.length {
        Length::Time(time) => format!("duration_ns={}", time.as_nanos()),
        Length::Records(count) => format!("count={count}"),
    });
    command.arg(format!("cpus={}", tool::list(settings.cpus)));
    settings.limits.restore_in(&mut command);
    command::end_with_us(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// What a process used, in ticks of a hundredth of a second: its own CPU time, and its time waiting for disks.
#[derive(Clone, Copy, Default)]
struct Used {
    cpu: u64,
    disk: u64,
}

/// The last that was to be seen of a process until it was over.
fn usage(pid: u32, is_over: &AtomicBool) -> Used {
    let mut last = Used::default();
    while !is_over.load(Ordering::Relaxed) {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = text.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
        // Fields of proc(5) are counted from 1; the third is the first behind the name.
        let field = |number: usize| fields.get(number - 3).and_then(|word| word.parse::<u64>().ok());
        if let (Some(user), Some(system), Some(disk)) = (field(14), field(15), field(42)) {
            last = Used { cpu: user + system, disk };
        }
        std::thread::sleep(LOOK);
    }
    last
}

fn trial(rate: f64, stdout: &str, summary: &Value, used: Used) -> anyhow::Result<Trial> {
    let lines = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (mut written, mut warmup, mut left_out, mut ns) = (None, 0, 0, 0);
    let (mut cpu_ns, mut wall_ns) = (None, None);
    let mut troubles = BTreeMap::new();
    for line in lines {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        match (line["say"].as_str(), line["name"].as_str()) {
            (Some("trouble"), _) => drop(troubles.insert(text("id"), text("text"))),
            (Some("count"), Some("warmup")) => warmup = line["value"].as_u64().unwrap_or(0),
            (Some("count"), Some("written")) => written = line["value"].as_u64(),
            (Some("count"), Some("left_out")) => left_out = line["value"].as_u64().unwrap_or(0),
            (Some("count"), Some("cpu_ns")) => cpu_ns = line["value"].as_u64(),
            (Some("count"), Some("wall_ns")) => wall_ns = line["value"].as_u64().filter(|ns| *ns > 0),
            (Some("done"), _) => ns = line["duration_ns"].as_u64().unwrap_or(0),
            _ => {}
        }
    }
    let written = written.context("the writers ended without saying what they wrote")?;
    let sum = |lost: &Value| lost.as_object().map_or(0, |of| of.values().filter_map(Value::as_u64).sum::<u64>());
    let (lost, kernel) = (sum(&summary["lost"]), &summary["kernel"]);
    let recorded = summary["records"].as_u64().unwrap_or(0);
    let kernel_records = kernel["records"].as_u64().unwrap_or(0);
    let of_program: u64 = summary["processes"]
        .as_array()
        .map_or(0, |all| all.iter().filter_map(|process| process["records"].as_u64()).sum());
    if of_program + lost < written + warmup {
        bail!(
            "{} records were written, but {of_program} are in the trace and {lost} lost ({recorded} in all)",
            written + warmup
        );
    }
    let duration_s = ns as f64 / 1e9;
    Ok(Trial {
        asked_per_s: rate,
        written,
        left_out,
        duration_s,
        lost,
        kernel_records,
        kernel_lost: sum(&kernel["lost"]),
        writers_cpu: cpu_ns.zip(wall_ns).map(|(cpu, wall)| cpu as f64 / wall as f64),
        bytes: summary["bytes"].as_u64().unwrap_or(0) + kernel["bytes"].as_u64().unwrap_or(0),
        not_written: summary["lost"]["not_written"].as_u64().unwrap_or(0),
        collector_cpu: used.cpu as f64 / 100.0 / duration_s.max(1e-9),
        collector_disk: delays_are_counted().then_some(used.disk as f64 / 100.0 / duration_s.max(1e-9)),
        troubles,
    })
}

/// Whether the kernel counts how long processes wait for disks.
fn delays_are_counted() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/task_delayacct").is_ok_and(|text| text.trim() == "1")
}
