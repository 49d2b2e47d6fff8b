// SPDX-License-Identifier: MIT OR Apache-2.0
//! This machine, asked for a completion. What takes too long or cannot be read is left out.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use kymo_collect::{RuntimeDir, other_users_dirs, remotes, running};
use kymo_ctf::read::Trace;
use kymo_tracefs::{Tracefs, Wanted};

use super::engine::{Candidate, World};
use crate::verbs::analyze::feed::parts_of;

/// One program may take this long to tell its events.
const PATIENCE: Duration = Duration::from_millis(15);
/// All of them together.
const PATIENCE_ALL: Duration = Duration::from_millis(35);

/// The machine.
pub struct System;

impl World for System {
    fn sessions(&self) -> Vec<Candidate> {
        let all = remotes().unwrap_or_default();
        let mut names: Vec<Candidate> = all
            .iter()
            .map(|remote| (remote.name().to_owned(), format!("session of process {}", remote.pid())))
            .collect();
        names.dedup_by(|a, b| a.0 == b.0);
        names
    }

    fn program_events(&self) -> Vec<Candidate> {
        let (tell, told) = channel();
        // It may wait for programs that do not answer; then it ends with this process.
        std::thread::spawn(move || {
            let Ok(own) = RuntimeDir::own() else { return };
            let mut dirs = other_users_dirs();
            dirs.retain(|dir| dir.path() != own.path());
            dirs.insert(0, own);
            for dir in dirs {
                for program in running(&[dir], PATIENCE) {
                    let of = program.comm.clone();
                    let events = program.events.iter().map(move |event| (event.full_name(), of.clone()));
                    let _ = tell.send(events.collect::<Vec<_>>());
                }
            }
        });
        let until = std::time::Instant::now() + PATIENCE_ALL;
        let mut all: Vec<Candidate> = Vec::new();
        while let Ok(events) = told.recv_timeout(until.saturating_duration_since(std::time::Instant::now())) {
            all.extend(events);
        }
        sorted(all)
    }

    fn trace_events(&self, dirs: &[String]) -> Vec<Candidate> {
        let parts = dirs.iter().flat_map(|dir| parts_of(Path::new(dir)));
        // The chunks of a session have the same events.
        let traces = parts.filter_map(|dir| Trace::open(&dir).ok()).take(dirs.len().max(1));
        let names = traces
            .flat_map(|trace| trace.value.metadata.events.iter().map(|event| event.name.clone()).collect::<Vec<_>>());
        sorted(names.map(|name| (name, String::new())).collect())
    }

    fn kernel_events(&self) -> Vec<Candidate> {
        let groups = Wanted::groups().map(|group| (group.to_owned(), "group of kernel events".to_owned()));
        let events = Tracefs::find().and_then(|tracefs| tracefs.events()).unwrap_or_default();
        let events = events.into_iter().map(|event| (format!("{}:{}", event.system, event.name), String::new()));
        let mut all: Vec<Candidate> = groups.collect();
        all.extend(sorted(events.collect()));
        all
    }

    fn processes(&self) -> Vec<Candidate> {
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut all: Vec<(u32, String)> = pids
            .filter_map(|entry| {
                let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
                let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
                Some((pid, name.trim_end().to_owned()))
            })
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(pid, name)| (pid.to_string(), name)).collect()
    }

    fn cpus(&self) -> Vec<Candidate> {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let cpus = crate::verbs::cpus(text.trim()).map(|cpus| cpus.0).unwrap_or_default();
        cpus.iter().map(|cpu| (cpu.to_string(), String::new())).collect()
    }
}

fn sorted(mut all: Vec<Candidate>) -> Vec<Candidate> {
    all.sort_unstable();
    all.dedup_by(|a, b| a.0 == b.0);
    all
}
