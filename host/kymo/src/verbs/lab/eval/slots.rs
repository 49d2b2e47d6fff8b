// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of an evaluation: its load is started, the test is run as a process of its own, the load is ended.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kymo_lab::{Planned, Record, Run};
use serde_json::json;

use crate::verbs::command::{self, Happened, Limits, Watcher};
use crate::verbs::lab::tool;
use crate::verbs::load::kind::Mix;
use crate::verbs::load::running::Running;
use kymo_command::terminal::Progress;

/// How long a load runs before the test begins.
const SETTLE: Duration = Duration::from_millis(200);

/// What all runs share.
pub(super) struct Settings<'a> {
    /// Directory of the records.
    pub(super) results: &'a Path,
    pub(super) cpus: &'a [u32],
    pub(super) load_cpus: &'a [u32],
    pub(super) intensity: u32,
    /// Length of a test.
    pub(super) test: Duration,
    /// Worst samples of each series that are explained.
    pub(super) explain: u32,
    pub(super) best_effort: bool,
}

/// Runs tests one after the other.
pub(super) struct Slots<'a> {
    settings: Settings<'a>,
    limits: Limits,
    stop: Arc<AtomicBool>,
    /// The test that runs; 0 for none.
    child: Arc<AtomicU32>,
    progress: Progress,
}

impl<'a> Slots<'a> {
    /// From here on a signal ends the run, and what it has until then counts.
    pub(super) fn prepare(settings: Settings<'a>) -> anyhow::Result<Slots<'a>> {
        let limits = Limits::take();
        let watcher = Watcher::prepare().context("cannot watch for signals")?;
        let (stop, child) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (seen, running) = (Arc::clone(&stop), Arc::clone(&child));
        let tell = move |happened| {
            if let Happened::Signal { number, from_terminal } = happened {
                seen.store(true, Ordering::SeqCst);
                let pid = running.load(Ordering::SeqCst);
                // A terminal has told the test, too.
                if pid != 0 && !from_terminal {
                    command::signal(pid, number);
                }
            }
            true
        };
        watcher.start(None, tell).context("cannot start a thread")?;
        Ok(Slots { settings, limits, stop, child, progress: Progress::new() })
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// A line of progress: one that is written anew on a terminal.
    pub(super) fn say(&mut self, at: usize, of: usize, planned: &Planned, elapsed: Duration) {
        // Of the runs that were made; before the first one, what they are to take.
        let each = if at == 0 { self.settings.test } else { elapsed / at as u32 };
        let left = (each * (of - at) as u32).as_secs();
        let Planned { round, test, load } = planned;
        let share = at * 100 / of.max(1);
        let text = format!(
            "run {} of {of}: {test} under {load}, round {round}: {share} %, {}:{:02} left",
            at + 1,
            left / 60,
            left % 60
        );
        match self.progress.is_shown() {
            true => self.progress.show_now(&text),
            false => eprintln!("kymo: {text}"),
        }
    }

    pub(super) fn clear_line(&mut self) {
        self.progress.end();
    }

    /// Makes a run. What goes wrong is in it.
    pub(super) fn run(&self, at: usize, planned: Planned, mix: &Mix) -> Run {
        let mut run = Run { planned, file: None, did: json!([]), trouble: None, record: None };
        let Settings { load_cpus, intensity, .. } = self.settings;
        let mut load = match Running::start(mix, load_cpus, intensity, &self.limits) {
            Ok(load) => load,
            Err(error) => {
                run.trouble = Some(format!("{error:#}"));
                return run;
            }
        };
        let ended_early = load.watch(Instant::now() + if mix.is_none() { Duration::ZERO } else { SETTLE });
        let measured = if self.is_stopped() { Err(anyhow::anyhow!("interrupted")) } else { self.measure(&run.planned) };
        let ended_early = ended_early.or_else(|| load.watch(Instant::now()));
        run.did = json!(load.end());
        run.trouble = ended_early;
        let kept = measured.and_then(|mut record| {
            record.environment.insert("load.kind".to_owned(), mix.name().into());
            let name = format!("{:03}-{}-{}.json", at + 1, run.planned.test, run.planned.load);
            let text = serde_json::to_string(&record)? + "\n";
            let path = self.settings.results.join(&name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok((name, record))
        });
        match kept {
            Ok((name, record)) => (run.file, run.record) = (Some(name), Some(record)),
            Err(error) => run.trouble = Some(format!("{error:#}")),
        }
        run
    }

    /// The test as `kymo TEST --json`, which ends with us.
    fn measure(&self, planned: &Planned) -> anyhow::Result<Record> {
        let Settings { cpus, test, explain, best_effort, .. } = self.settings;
        let mut command = Command::new(std::env::current_exe().context("where is kymo itself?")?);
        command.args([&planned.test, "--json", "-d", &format!("{}ms", test.as_millis()), "-c", &tool::list(cpus)]);
        if explain > 0 {
            // Loads are compared with each other, all with the recorder: slots without it would halve the samples.
            command.args(["--explain", &explain.to_string(), "--no-check"]);
        }
        if best_effort {
            command.arg("--best-effort");
        }
        self.limits.restore_in(&mut command);
        command::end_with_us(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot run kymo")?;
        self.child.store(child.id(), Ordering::SeqCst);
        let mut stderr = child.stderr.take().context("no output")?;
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut stdout = Vec::new();
        let read = child.stdout.take().context("no output")?.read_to_end(&mut stdout);
        // Nobody sends it a signal once it may be reaped.
        self.child.store(0, Ordering::SeqCst);
        let status = child.wait().context("cannot wait for the test")?;
        read.context("cannot read the result")?;
        let said = said.join().unwrap_or_default();
        match Record::from_json(&stdout) {
            Ok(record) => Ok(record),
            Err(_) if !said.trim().is_empty() => bail!("{}", said.trim().lines().last().unwrap_or_default()),
            Err(error) => bail!("{error} ({status})"),
        }
    }
}
