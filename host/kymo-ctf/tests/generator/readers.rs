// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other readers: babeltrace2 2.0 and babeltrace 1.5 as Debian has them, and babeltrace2 2.1 by chroot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_ctf::read::Memory;

use super::pretty::{self, Line};

/// A reader that can be run, and a folder that it can see.
pub struct Foreign {
    /// As the data files call it.
    pub name: &'static str,
    program: &'static str,
    root: Option<PathBuf>,
    dir: tempfile::TempDir,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    Read(Vec<Line>),
    /// Something that is no record, and why.
    Unclear(String),
    Refused(String),
    /// By a signal.
    Crashed,
}

impl Outcome {
    /// As the data files call it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::Unclear(_) => "reads",
            Self::Refused(_) => "refuses",
            Self::Crashed => "crashes",
        }
    }
}

/// Names of all of them.
pub const NAMES: [&str; 3] = ["babeltrace2 2.0", "babeltrace2 2.1", "babeltrace 1.5"];

impl Foreign {
    /// Those that are here. Each that is not is given to `missing`, with the reason.
    pub fn all(mut missing: impl FnMut(&str)) -> Vec<Self> {
        let mut all = Vec::new();
        for (name, program, asked) in [(NAMES[0], "babeltrace2", "--version"), (NAMES[2], "babeltrace", "--help")] {
            let said = Command::new(program).arg(asked).output().map(|output| output.stdout).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
            let version = name.rsplit(' ').next().unwrap_or_default();
            match said.contains(&format!(" {version}.")) {
                true => all.push(Self { name, program, root: None, dir: tempfile::tempdir().expect("a folder") }),
                false => missing(&format!("{name} is not installed")),
            }
        }
        let root = PathBuf::from(std::env::var_os("KYMO_BT21_ROOT").unwrap_or_default());
        match root.join("usr/bin/babeltrace2").exists().then(|| tempfile::tempdir_in(root.join("tmp"))) {
            Some(Ok(dir)) => all.push(Self { name: NAMES[1], program: "babeltrace2", root: Some(root), dir }),
            _ => missing("KYMO_BT21_ROOT names no system with babeltrace2 2.1 (scripts/babeltrace.sh makes one)"),
        }
        all
    }

    /// Whether it knows CTF 2.
    pub fn has_ctf2(&self) -> bool {
        self.name == NAMES[1]
    }

    /// Gives it a trace.
    pub fn read(&self, memory: &Memory, in_seconds: bool) -> Outcome {
        let dir = self.dir.path().join("in");
        fs::create_dir(&dir).expect("a folder of our own");
        fs::write(dir.join("metadata"), &memory.metadata).expect("a file of our own");
        for (name, bytes) in &memory.streams {
            fs::write(dir.join(name), bytes).expect("a file of our own");
        }
        // babeltrace 1.5 asks for all the memory there is where it takes a length from the wrong place.
        let mut command = Command::new("prlimit");
        command.arg("--as=4294967296");
        let seen = match &self.root {
            None => {
                command.arg(self.program);
                dir.clone()
            }
            Some(root) => {
                command.arg("chroot").arg(root).arg(self.program);
                Path::new("/").join(dir.strip_prefix(root).expect("a folder in it"))
            }
        };
        let time = if in_seconds { "--clock-seconds" } else { "--clock-cycles" };
        let output = command.args(["--names=all", time, "--no-delta"]).arg(seen).output();
        fs::remove_dir_all(&dir).expect("a folder of our own");
        let output = output.expect("the reader runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            // babeltrace 1.5 ends well even where it stopped at an error.
            Some(0) if !message.contains("[error]") => match pretty::lines(&String::from_utf8_lossy(&output.stdout)) {
                Ok(lines) => Outcome::Read(lines),
                Err(what) => Outcome::Unclear(what),
            },
            // A shell's or chroot's word for a signal.
            None | Some(134..=139) => Outcome::Crashed,
            Some(_) => Outcome::Refused(message),
        }
    }
}
