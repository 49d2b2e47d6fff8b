// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo record`, run around a command or attached.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::{Lab, Outcome, Proc, Read, paths, trace};

/// A recording that is about to begin.
pub struct Recording<'a> {
    lab: &'a Lab,
    name: String,
    args: Vec<String>,
}

/// A recording that has ended.
#[derive(Debug)]
pub struct Recorded {
    /// How `kymo record` ended.
    pub outcome: Outcome,
    /// Where the trace is.
    pub dir: PathBuf,
    /// The summary beside the trace; null where there is none.
    pub summary: Value,
    /// Process id that `kymo record` had.
    pub pid: u32,
}

/// A recording without a command that goes on.
pub struct Attached {
    proc: Proc,
    dir: PathBuf,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(lab: &'a Lab, name: &str) -> Recording<'a> {
        Recording { lab, name: name.to_owned(), args: Vec::new() }
    }

    /// Further options.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    fn begin(&self, command: &[&str]) -> Proc {
        let dir = self.lab.path(&self.name);
        let mut record = self.lab.command(paths::kymo());
        record.arg("record").arg("-o").arg(dir).args(&self.args);
        if !command.is_empty() {
            record.arg("--").args(command);
        }
        self.lab.start(record)
    }

    /// Records a command to its end.
    #[track_caller]
    pub fn run(self, command: &[&str]) -> Recorded {
        let proc = self.begin(command);
        finish(self.lab.path(&self.name), proc.pid(), proc.wait())
    }

    /// Begins to record a command, whose input and output are those of the result.
    #[track_caller]
    pub fn start(self, command: &[&str]) -> Attached {
        Attached { proc: self.begin(command), dir: self.lab.path(&self.name) }
    }

    /// Begins to record what runs; returns when the session can be found.
    #[track_caller]
    pub fn attach(self) -> Attached {
        let proc = self.begin(&[]);
        proc.until_stderr("Ctrl-C ends it");
        Attached { proc, dir: self.lab.path(&self.name) }
    }
}

fn finish(dir: PathBuf, pid: u32, outcome: Outcome) -> Recorded {
    let text = std::fs::read_to_string(dir.join(".kymo.json")).unwrap_or_default();
    let summary = serde_json::from_str(&text).unwrap_or(Value::Null);
    Recorded { outcome, dir, summary, pid }
}

impl Attached {
    /// The process of `kymo record`.
    pub fn proc(&mut self) -> &mut Proc {
        &mut self.proc
    }

    /// Whether bytes of records are in the trace.
    pub fn has_records(&self) -> bool {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return false };
        let is_stream = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("user_");
        entries.flatten().filter(is_stream).any(|entry| entry.metadata().is_ok_and(|of| of.len() > 108))
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait(self) -> Recorded {
        finish(self.dir, self.proc.pid(), self.proc.wait())
    }

    /// Ends it by a signal.
    #[track_caller]
    pub fn end(self, signal: Signal) -> Recorded {
        finish(self.dir, self.proc.pid(), self.proc.end(signal))
    }
}

impl Recorded {
    /// This recording, if its exit status is `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Recorded {
        Recorded { outcome: self.outcome.expect(code), ..self }
    }

    /// This recording, if it lost nothing, found no damage, and knows it.
    #[track_caller]
    pub fn lossless(self) -> Recorded {
        assert_eq!(self.lost(), 0, "{}", self.outcome.stderr);
        assert_eq!(self.summary["damage"], serde_json::json!([]));
        assert_eq!(self.summary["unknown"], serde_json::json!([]));
        self
    }

    /// The trace, which must be whole.
    #[track_caller]
    pub fn read(&self, lab: &Lab) -> Read {
        trace::read(lab, &self.dir, &[]).whole()
    }

    /// The kernel part of the summary.
    #[track_caller]
    pub fn kernel(&self) -> &Value {
        let kernel = &self.summary["kernel"];
        assert!(kernel.is_object(), "no kernel in the summary; kymo record said:\n{}", self.outcome.stderr);
        kernel
    }

    /// Records in the trace, by the summary.
    #[track_caller]
    pub fn records(&self) -> u64 {
        let records = self.summary["records"].as_u64();
        records.unwrap_or_else(|| panic!("no summary; kymo record said:\n{}", self.outcome.stderr))
    }

    /// Records lost for a cause, by the summary.
    #[track_caller]
    pub fn lost_by(&self, cause: &str) -> u64 {
        let lost = &self.summary["lost_counted"];
        lost[cause].as_u64().unwrap_or_else(|| panic!("no cause {cause} in {lost}"))
    }

    /// Records counted as lost for all causes, by the summary.
    #[track_caller]
    pub fn lost(&self) -> u64 {
        let lost = self.summary["lost_counted"].as_object();
        let lost = lost.unwrap_or_else(|| panic!("no summary; kymo record said:\n{}", self.outcome.stderr));
        lost.values().map(|count| count.as_u64().expect("a count")).sum()
    }

    /// The summary of the process with this id (as the process sees itself).
    #[track_caller]
    pub fn process(&self, pid: u64) -> &Value {
        let of_it = |process: &&Value| process["vpid"] == pid && process["outcome"] == "attached";
        let list = self.summary["processes"].as_array().expect("a list of processes");
        list.iter().find(of_it).unwrap_or_else(|| panic!("process {pid} is not in {list:?}"))
    }
}
