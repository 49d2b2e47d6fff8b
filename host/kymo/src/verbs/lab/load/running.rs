// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads that run: a guard process for each (kymo-load), which takes everything with it when it is told to end, or we
//! die.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::dir::{self, Dir};
use super::kind::{LoadKind, Mix};
use crate::verbs::command::{self, Limits};
use crate::verbs::lab::tool;

/// How long a load may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a load's own messages that are kept.
const SAID_MAX: u64 = 16 << 10;

/// What a load did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Done {
    /// As it was asked for.
    pub(crate) load: &'static str,
    /// `kymo`, or `stress-ng` and its version.
    pub(crate) by: String,
    /// Stressors of stress-ng.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) stressors: &'static [&'static str],
    /// Workers, of each stressor.
    pub(crate) workers: u32,
    /// What it did until it was ended; `None` where it does not say.
    pub(crate) operations: Option<u64>,
    /// What an operation is.
    pub(crate) unit: String,
    /// Seconds.
    pub(crate) duration_s: f64,
    /// Operations a second.
    pub(crate) per_second: Option<f64>,
    /// Why it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

/// A line of kymo-load.
#[derive(Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
enum LoadLine {
    Ready {},
    Trouble { text: String },
    Load { operations: i64, unit: String, duration_ns: u64 },
}

/// A line of the guard with this number, or `None` at the end of its output.
type Said = (usize, Option<LoadLine>);

struct Guard {
    kind: LoadKind,
    by: String,
    child: Child,
    dir: Dir,
    done: Option<LoadLine>,
    trouble: Option<String>,
    is_open: bool,
    stderr: std::thread::JoinHandle<String>,
}

/// Loads that run until [`Running::end`].
pub(crate) struct Running {
    guards: Vec<Guard>,
    workers: u32,
    said: Receiver<Said>,
}

impl Running {
    /// Starts all, and comes back when they have begun. To be called from the main thread: the guards end with the
    /// thread that started them.
    ///
    /// # Errors
    /// One cannot begin; then none runs.
    pub(crate) fn start(mix: &Mix, cpus: &[u32], intensity: u32, limits: &Limits) -> anyhow::Result<Running> {
        dir::sweep();
        let (to, said) = mpsc::channel();
        let workers = intensity * cpus.len() as u32;
        let mut running = Running { guards: Vec::new(), workers, said };
        for kind in mix.0.iter().copied().filter(|kind| *kind != LoadKind::None) {
            let guard = guard(kind, cpus, workers, limits, (running.guards.len(), to.clone()))?;
            running.guards.push(guard);
        }
        drop(to);
        let mut waited = running.guards.len();
        let until = Instant::now() + PATIENCE;
        while waited > 0 {
            match running.next(until) {
                Some(at) if running.guards[at].is_open => waited -= 1,
                Some(at) => bail!("load {}: {}", running.guards[at].kind.name(), running.ended(at)),
                None => bail!("a load did not begin within {} s", PATIENCE.as_secs()),
            }
        }
        Ok(running)
    }

    /// Waits until a load ends by itself, at most until then: why it did.
    pub(crate) fn watch(&mut self, until: Instant) -> Option<String> {
        while let Some(at) = self.next(until) {
            if !self.guards[at].is_open {
                return Some(format!("load {} ended by itself: {}", self.guards[at].kind.name(), self.ended(at)));
            }
        }
        None
    }

    /// The guard that said something, `None` when it is time.
    fn next(&mut self, until: Instant) -> Option<usize> {
        let left = until.saturating_duration_since(Instant::now());
        let (at, line) = match self.said.recv_timeout(left) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => return None,
            // Nobody is there to say anything.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(left);
                return None;
            }
        };
        let guard = &mut self.guards[at];
        match line {
            Some(LoadLine::Ready {}) => {}
            Some(LoadLine::Trouble { text }) => guard.trouble = Some(text),
            Some(done) => guard.done = Some(done),
            None => guard.is_open = false,
        }
        Some(at)
    }

    fn ended(&self, at: usize) -> String {
        self.guards[at].trouble.clone().unwrap_or_else(|| "without a reason".to_owned())
    }

    /// Ends all, and says what they did. Nothing of them is left then, neither process nor file.
    pub(crate) fn end(mut self) -> Vec<Done> {
        self.tell_all();
        let until = Instant::now() + PATIENCE;
        while self.guards.iter().any(|guard| guard.is_open) && self.next(until).is_some() {}
        let workers = self.workers;
        std::mem::take(&mut self.guards).into_iter().map(|guard| guard.done(workers)).collect()
    }

    fn tell_all(&self) {
        self.guards.iter().for_each(|guard| command::signal(guard.child.id(), libc::SIGTERM));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tell_all();
        for guard in &mut self.guards {
            let _ = guard.child.wait();
        }
    }
}

impl Guard {
    fn done(mut self, workers: u32) -> Done {
        if self.is_open {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if self.done.is_some() {
            self.dir.set_clean();
        }
        let stderr = self.stderr.join().unwrap_or_default();
        let (operations, unit, ns) = match self.done {
            Some(LoadLine::Load { operations, unit, duration_ns }) => {
                (u64::try_from(operations).ok(), unit, duration_ns)
            }
            _ => (None, String::new(), 0),
        };
        let duration_s = ns as f64 / 1e9;
        // What stress-ng says of trouble is the last of its lines with that word.
        let said = stderr.lines().rev().find(|line| line.contains("error") || line.contains("fail"));
        let trouble = self.trouble.or_else(|| said.filter(|_| operations.is_none()).map(str::to_owned));
        Done {
            load: self.kind.name(),
            by: self.by,
            stressors: self.kind.stressors(),
            workers,
            operations,
            unit,
            duration_s,
            per_second: operations.filter(|_| ns > 0).map(|count| count as f64 / duration_s),
            trouble,
        }
    }
}

fn guard(
    kind: LoadKind,
    cpus: &[u32],
    workers: u32,
    limits: &Limits,
    to: (usize, Sender<Said>),
) -> anyhow::Result<Guard> {
    let by = by(kind)?;
    let dir = Dir::new(kind.name());
    let path = tool::find("kymo-load", "KYMO_LOAD")?;
    let mut command = Command::new(&path);
    command.arg(kind.name()).arg(format!("cpus={}", tool::list(cpus))).arg(format!("workers={workers}"));
    command.arg(format!("dir={}", dir.path().display())).arg(format!("parent={}", std::process::id()));
    if !kind.stressors().is_empty() {
        command.arg("--").args(kind.command(workers, dir.path()));
    }
    let (name, value) = dir.variable();
    command.env(name, value);
    limits.restore_in(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {}", path.display()))?;
    let stdout = child.stdout.take().context("kymo-load has no output")?;
    let stderr = child.stderr.take().context("kymo-load has no output")?;
    std::thread::spawn(move || listen(stdout, &to));
    let stderr = std::thread::spawn(move || keep(stderr));
    Ok(Guard { kind, by, child, dir, done: None, trouble: None, is_open: true, stderr })
}

fn listen(from: impl std::io::Read, (at, to): &(usize, Sender<Said>)) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        if let Ok(line) = serde_json::from_str(&line) {
            let _ = to.send((*at, Some(line)));
        }
    }
    let _ = to.send((*at, None));
}

/// The first part of what a load says; the rest is read and dropped, so that it never waits for us.
fn keep(mut from: impl std::io::Read) -> String {
    let mut text = Vec::new();
    let _ = from.by_ref().take(SAID_MAX).read_to_end(&mut text);
    let _ = std::io::copy(&mut from, &mut std::io::sink());
    String::from_utf8_lossy(&text).into_owned()
}

/// Who runs it, if that is there.
fn by(kind: LoadKind) -> anyhow::Result<String> {
    if kind == LoadKind::Compile {
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        on_path(&cc)
            .with_context(|| format!("load compile needs the C compiler {cc:?}: apt-get install gcc libc6-dev"))?;
    }
    if kind.stressors().is_empty() {
        return Ok(format!("kymo {}", env!("CARGO_PKG_VERSION")));
    }
    on_path("stress-ng").with_context(|| {
        format!("load {} is of stress-ng, which is not installed: apt-get install stress-ng", kind.name())
    })?;
    let output = Command::new("stress-ng").arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1).unwrap_or("of unknown version");
    Ok(format!("stress-ng {version}"))
}

fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| name.into());
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}
