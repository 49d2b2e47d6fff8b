// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions with a name, as `kymo session` makes them; and the program that tests talk to.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Lab, Outcome, Proc};

/// A session of a test: ends with it.
pub struct Session<'a> {
    lab: &'a Lab,
    name: String,
    /// Its collector.
    pub pid: Pid,
}

impl<'a> Session<'a> {
    /// Starts a session into the directory of its name.
    #[track_caller]
    pub fn start(lab: &'a Lab, name: &str, args: &[&str]) -> Session<'a> {
        let outcome = start(lab, name, args).expect(0);
        let ready: Value = serde_json::from_str(&outcome.stdout).expect("what was started, as JSON");
        let pid = Pid::from_raw(ready["pid"].as_i64().expect("a process id") as i32).expect("a process id");
        Session { lab, name: name.to_owned(), pid }
    }

    /// Asks it by a verb of `kymo session`, and gives the answer.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Value {
        let outcome = session(self.lab, &[&[args[0], &self.name, "--json"], &args[1..]].concat()).expect(0);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error} in {:?}", outcome.stdout))
    }

    /// Waits until the status is right.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.lab.wait_for(what, || Some(self.ask(&["status"])).filter(&is_so))
    }

    /// Kills the collector.
    pub fn kill(&self) {
        let _ = kill_process(self.pid, Signal::KILL);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Of this test by its id; a stop before it is the usual end, and leaves nothing to be killed.
        let stat = std::fs::read_to_string(format!("/proc/{}/cmdline", self.pid.as_raw_nonzero())).unwrap_or_default();
        if stat.contains("--detached") && stat.contains(&self.name) {
            self.kill();
        }
    }
}

/// Runs `kymo session` with arguments.
#[track_caller]
pub fn session(lab: &Lab, args: &[&str]) -> Outcome {
    lab.kymo(&[&["session"], args].concat())
}

/// Runs `kymo session start` into the directory of the session's name.
#[track_caller]
pub fn start(lab: &Lab, name: &str, args: &[&str]) -> Outcome {
    let dir = lab.path(name);
    session(lab, &[&["start", name, "--json", "-o", dir.to_str().expect("UTF-8")], args].concat())
}

/// A runner (programs/runner.c) that is ready.
#[track_caller]
pub fn runner(lab: &Lab) -> Proc {
    let program = match lab.path("runner") {
        there if there.exists() => there,
        _ => lab.cc("runner.c"),
    };
    let proc = lab.spawn(program, &[]);
    proc.until("ready");
    proc
}

/// Says a line to a program, and waits for the answer.
#[track_caller]
pub fn ask(proc: &mut Proc, line: &str, answer: &str) -> String {
    proc.say(line);
    proc.until(answer)
}

/// Fails unless `part` is in `text`.
#[track_caller]
pub fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}
