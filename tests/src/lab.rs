// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test's own place: directory, runtime directory, deadline.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::record::Recording;
use crate::turn::Turn;
use crate::{Build, Proc, paths, trace};

/// A deadline that only a hanging test reaches, on a machine that does other work too.
const DEADLINE: Duration = Duration::from_secs(300);

/// Which ring a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// One lane per CPU.
    Rseq,
    /// One lane per thread.
    Portable,
}

impl Ring {
    /// Both.
    pub const BOTH: [Ring; 2] = [Ring::Rseq, Ring::Portable];

    /// As summaries and `kymo list` name it.
    pub fn name(self) -> &'static str {
        match self {
            Ring::Rseq => "rseq",
            Ring::Portable => "portable",
        }
    }
}

/// A test's own place.
pub struct Lab {
    name: String,
    dir: Option<tempfile::TempDir>,
    deadline: Instant,
    ring: Ring,
    environment: Vec<(String, String)>,
    _turn: Turn,
}

impl Lab {
    /// For a test that others may run beside.
    pub fn new(name: &str) -> Lab {
        Lab::with(name, Turn::shared(None))
    }

    /// For a test that measures time or counts what the machine does: others would disturb it, or it them.
    pub fn alone(name: &str) -> Lab {
        Lab::with(name, Turn::alone())
    }

    /// For a test that others may run beside, but none that uses the same `thing` of the machine: a user, say.
    pub fn with_the_only(thing: &'static str, name: &str) -> Lab {
        Lab::with(name, Turn::shared(Some(thing)))
    }

    fn with(name: &str, turn: Turn) -> Lab {
        let dir = tempfile::Builder::new().prefix("kymo-test-").tempdir().expect("a temporary directory");
        // A machine that is emulated has less time in a minute.
        let slower = if std::env::var_os("KYMO_TEST_INSIDE").is_some() { 3 } else { 1 };
        let deadline = Instant::now() + DEADLINE * slower;
        Lab { name: name.to_owned(), dir: Some(dir), deadline, ring: Ring::Rseq, environment: Vec::new(), _turn: turn }
    }

    /// The same, with another deadline from now.
    pub fn within(mut self, time: Duration) -> Lab {
        self.deadline = Instant::now() + time;
        self
    }

    /// The ring of the programs that are started from now on.
    pub fn ring(&mut self, ring: Ring) -> &mut Lab {
        self.ring = ring;
        self
    }

    /// A variable in the environment of what is started from now on.
    pub fn env(&mut self, name: &str, value: &str) -> &mut Lab {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The name of the test.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When the test must be over.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// A path in the test's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.as_ref().expect("the lab is open").path().join(name)
    }

    /// The runtime directory of the test's programs and sessions.
    pub fn runtime_dir(&self) -> PathBuf {
        self.path("rt")
    }

    /// The names in the runtime directory that begin with `start`: `p.` for programs, `s.` for sessions.
    pub fn sockets(&self, start: &str) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.runtime_dir()) else { return Vec::new() };
        let is_one = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
        entries.flatten().map(|entry| entry.path()).filter(is_one).collect()
    }

    /// Writes a file into the test's directory.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("the test's directory can be written");
        path
    }

    /// Compiles a program of programs/ by its name.
    #[track_caller]
    pub fn cc(&self, source: &str) -> PathBuf {
        self.build(&Build::new(&[source]), source.split('.').next().unwrap_or(source))
    }

    /// Compiles into the test's directory under `name`.
    #[track_caller]
    pub fn build(&self, build: &Build, name: &str) -> PathBuf {
        build.to(&self.path(name))
    }

    /// Compiles generated source.
    #[track_caller]
    pub fn cc_text(&self, name: &str, source: &str) -> PathBuf {
        let file = self.write(&format!("{name}.c"), source);
        self.build(&Build::new(&[file.to_str().expect("UTF-8")]), name)
    }

    /// A command in the test's surroundings.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KYMO")) {
            command.env_remove(name);
        }
        command.env_remove("MALLOC_ARENA_MAX").env_remove("GLIBC_TUNABLES").env_remove("LD_PRELOAD");
        command.env("KYMO_RUNTIME_DIR", self.runtime_dir()).env("TZ", "UTC0").env("LC_ALL", "C.UTF-8");
        // However busy the machine is: a collector that is held up is not what a test of something else is about.
        command.env("KYMO_START_WAIT", "10000");
        if self.ring == Ring::Portable {
            command.env("KYMO_RING", "portable");
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.path(""));
        command
    }

    /// Starts a command made by [`Lab::command`].
    #[track_caller]
    pub fn start(&self, command: Command) -> Proc {
        Proc::start(command, self.deadline)
    }

    /// Starts a program with arguments.
    #[track_caller]
    pub fn spawn(&self, program: impl AsRef<Path>, args: &[&str]) -> Proc {
        let mut command = self.command(program);
        command.args(args);
        self.start(command)
    }

    /// Runs a program to its end.
    #[track_caller]
    pub fn run(&self, program: impl AsRef<Path>, args: &[&str]) -> crate::Outcome {
        self.spawn(program, args).wait()
    }

    /// Runs `kymo` with arguments.
    #[track_caller]
    pub fn kymo(&self, args: &[&str]) -> crate::Outcome {
        self.run(paths::kymo(), args)
    }

    /// A `kymo record` into the test's directory `name`.
    pub fn record(&self, name: &str) -> Recording<'_> {
        Recording::new(self, name)
    }

    /// Reads the trace `name` in the test's directory, which must be whole.
    #[track_caller]
    pub fn read(&self, name: &str) -> trace::Read {
        trace::read(self, &self.path(name), &[]).whole()
    }

    /// Waits until `happened` gives something, looking every millisecond; for what no descriptor tells.
    #[track_caller]
    pub fn wait_for<T>(&self, what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(value) = happened() {
                return value;
            }
            assert!(Instant::now() < self.deadline, "{}: {what} did not happen in time", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let is_kept = std::env::var_os("KYMO_KEEP").is_some();
        if let Some(dir) = self.dir.take_if(|_| is_kept) {
            eprintln!("{}: kept {}", self.name, dir.keep().display());
        }
    }
}
