// SPDX-License-Identifier: MIT OR Apache-2.0
//! The probe: started, listened to, and what it says made a record.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use kymo_lab::{Machine, Reading, Record, Refusal, Said, refusal};
use serde_json::Value;

use super::setup::Test;
use crate::verbs::command::{self, Happened, Watcher};
use crate::verbs::lab::tool;

/// Troubles that a result is of no use with, unless the user says otherwise.
pub const FATAL: [&str; 3] = ["not-fifo", "not-deadline", "affinity"];

/// The probe's words for the options, and what of them goes into the record.
pub(super) fn options(test: &Test<'_>, cpus: &[u32]) -> BTreeMap<String, Value> {
    let common = test.common;
    let mut options: BTreeMap<String, Value> =
        test.options.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    options.insert("cpus".to_owned(), tool::list(cpus).into());
    options.insert("policy".to_owned(), common.policy.word().into());
    options.insert("priority".to_owned(), common.prio.into());
    options.extend(common.conditions.words().map(|(key, value)| (key.to_owned(), value)));
    options
}

/// What goes on beside a run of the probe.
pub trait Beside {
    /// Its threads are in their places, and wait to be let go.
    fn ready(&mut self, _tids: &[u32]) -> anyhow::Result<()> {
        Ok(())
    }
    /// It has new worst samples; the longest so far.
    fn worst(&mut self, _longest: Duration) {}
    /// It has ended, in whatever way.
    fn over(&mut self) {}
}

/// Nothing goes on beside it.
pub struct Alone;

impl Beside for Alone {}

/// Runs the probe, once or several times; signals end the run that goes on, and no further one is begun.
pub struct Probes {
    limits: command::Limits,
    /// The process that signals go to; 0: none.
    current: Arc<AtomicU32>,
    interrupted: Arc<AtomicBool>,
}

impl Probes {
    /// Before the first probe is there: a signal ends it, and what it has by then is the result.
    pub fn prepare() -> anyhow::Result<Probes> {
        let limits = command::Limits::take();
        let watcher = Watcher::prepare().context("cannot watch for signals")?;
        let (current, interrupted) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
        let (of, is_over) = (Arc::clone(&current), Arc::clone(&interrupted));
        let forward = move |happened| {
            if let Happened::Signal { number, .. } = happened {
                is_over.store(true, Ordering::Release);
                match of.load(Ordering::Acquire) {
                    0 => {}
                    pid => command::signal(pid, number),
                }
            }
            true
        };
        watcher.start(None, forward).context("cannot start a thread")?;
        Ok(Probes { limits, current, interrupted })
    }

    /// Whether a signal came.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Runs another program to its end, as [`Command::output`] does; signals go to it meanwhile.
    pub fn output(&self, command: &mut Command) -> std::io::Result<std::process::Output> {
        self.limits.restore_in(command);
        let mut child = command.spawn()?;
        self.current.store(child.id(), Ordering::Release);
        let mut stdout = Vec::new();
        let read = child.stdout.take().map_or(Ok(0), |mut from| from.read_to_end(&mut stdout));
        // No longer ours to signal once it is waited for: its number may be another's then.
        self.current.store(0, Ordering::Release);
        let status = child.wait()?;
        read.map(|_| std::process::Output { status, stdout, stderr: Vec::new() })
    }

    /// One run.
    pub(super) fn measure(
        &self,
        test: &Test<'_>,
        options: BTreeMap<String, Value>,
        beside: &mut impl Beside,
    ) -> anyhow::Result<Record> {
        let mut child = spawn(test.name, &options, &self.limits)?;
        self.current.store(child.id(), Ordering::Release);
        let result = listen(test, options, &mut child, beside);
        beside.over();
        if result.is_err() {
            let _ = child.kill();
        }
        // No longer ours to signal once it is waited for: its number may be another's then.
        self.current.store(0, Ordering::Release);
        let status = child.wait().context("cannot wait for the probe")?;
        let record = result?;
        if record.series.is_empty() {
            bail!("the probe ended without a result ({status})");
        }
        Ok(record)
    }
}

/// A trouble of the probe with its cause, where it is one that the kernel does not give: which of its rules refuses a
/// real-time class. Then also the cause alone, and what to do.
pub(in crate::verbs::lab) fn with_cause(id: &str, text: String, prio: i32) -> (String, Option<(String, String)>) {
    if id != "not-fifo" {
        return (text, None);
    }
    let Refusal { cause, next } = refusal(&Machine::default(), prio.unsigned_abs());
    (format!("{text}: {cause}"), Some((cause, next)))
}

fn spawn(name: &str, options: &BTreeMap<String, Value>, limits: &command::Limits) -> anyhow::Result<Child> {
    let probe = tool::find("kymo-probe", "KYMO_PROBE")?;
    let mut command = Command::new(&probe);
    command.arg(name).stdin(Stdio::piped()).stdout(Stdio::piped());
    for (key, value) in options {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        command.arg(format!("{key}={text}"));
    }
    limits.restore_in(&mut command);
    command::end_with_us(&mut command);
    command.spawn().with_context(|| format!("cannot run {}", probe.display()))
}

fn listen(
    test: &Test<'_>,
    options: BTreeMap<String, Value>,
    child: &mut Child,
    beside: &mut impl Beside,
) -> anyhow::Result<Record> {
    let mut reading = Reading::new(test.name, &test.method, options);
    let stdout = child.stdout.take().context("the probe has no output")?;
    let mut started = None;
    for line in BufReader::new(stdout).lines() {
        let said = reading.line(&line.context("cannot read what the probe says")?).map_err(anyhow::Error::msg)?;
        match said {
            Said::Trouble(id, text) => {
                let (text, next) = with_cause(&id, text, test.common.prio);
                if let Some((cause, next)) = &next {
                    reading.because(cause, next);
                }
                if FATAL.contains(&id.as_str()) && !test.common.conditions.best_effort {
                    let next = next.map_or(String::new(), |(_, next)| format!("; {next}"));
                    bail!("{text}{next}; --best-effort measures all the same and marks the result");
                }
                eprintln!("kymo: note: {text}");
            }
            Said::Ready => {
                beside.ready(&reading.tids().collect::<Vec<_>>())?;
                started = SystemTime::now().duration_since(UNIX_EPOCH).ok();
                // The end of its input lets it go.
                drop(child.stdin.take());
            }
            Said::Worst(longest_ns) => beside.worst(Duration::from_nanos(longest_ns)),
            Said::Done | Said::Part => {}
        }
    }
    let mut record = reading.finish();
    record.started_ns = started.map(|since| since.as_nanos() as u64);
    Ok(record)
}
