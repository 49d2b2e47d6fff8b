// SPDX-License-Identifier: MIT OR Apache-2.0
//! This machine, asked for a completion. What takes too long or cannot be read is left out.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use kymo_collect::{RuntimeDir, other_users_dirs, remotes, running};
use kymo_ctf::read::{Item, Reader, Trace};
use kymo_query::Learn;
use kymo_tracefs::{Tracefs, Wanted};

use super::engine::{Candidate, World};
use crate::verbs::analyze::named::named_silently;

/// One program may take this long to tell its events.
const PATIENCE: Duration = Duration::from_millis(15);
/// All of them together.
const PATIENCE_ALL: Duration = Duration::from_millis(35);
/// So long a trace is read for its threads: state dumps and what begins with the recording are at its begin.
const PATIENCE_TRACE: Duration = Duration::from_millis(25);
/// Records between two looks at the clock.
const RECORDS_A_LOOK: usize = 256;

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
        let until = Instant::now() + PATIENCE_ALL;
        let mut all: Vec<Candidate> = Vec::new();
        while let Ok(events) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            all.extend(events);
        }
        sorted(all)
    }

    fn trace_events(&self, dirs: &[String]) -> Vec<Candidate> {
        let parts = named_silently(&paths(dirs)).into_iter().flat_map(|named| named.parts);
        // The chunks of a session have the same events.
        let traces = parts.filter_map(|dir| Trace::open(&dir).ok()).take(dirs.len().max(1));
        let names = traces
            .flat_map(|trace| trace.value.metadata.events.iter().map(|event| event.name.clone()).collect::<Vec<_>>());
        sorted(names.map(|name| (name, String::new())).collect())
    }

    fn trace_threads(&self, dirs: &[String]) -> Vec<Candidate> {
        numbers_and_names(threads_of(dirs).into_iter().map(|(_, tid, name)| (tid, name)))
    }

    fn trace_processes(&self, dirs: &[String]) -> Vec<Candidate> {
        numbers_and_names(threads_of(dirs).into_iter().map(|(pid, _, name)| (pid, name)))
    }

    fn kernel_events(&self) -> Vec<Candidate> {
        let groups = Wanted::groups().map(|group| (group.to_owned(), "group of kernel events".to_owned()));
        let events = Tracefs::find().and_then(|tracefs| tracefs.events()).unwrap_or_default();
        let events = events.into_iter().map(|event| (format!("{}:{}", event.system, event.name), String::new()));
        let mut all: Vec<Candidate> = groups.collect();
        all.push((kymo_feed::SAMPLE.to_owned(), "samples of what CPUs run".to_owned()));
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
        let cpus = crate::verbs::units::cpus(text.trim()).map(|cpus| cpus.0).unwrap_or_default();
        cpus.iter().map(|cpu| (cpu.to_string(), String::new())).collect()
    }
}

fn paths(dirs: &[String]) -> Vec<PathBuf> {
    dirs.iter().map(PathBuf::from).collect()
}

/// A thread: process, number and name.
type Thread = (Option<u32>, Option<u32>, String);

/// Threads that the first records of traces tell of.
fn threads_of(dirs: &[String]) -> BTreeSet<Thread> {
    let parts = named_silently(&paths(dirs)).into_iter().flat_map(|named| named.parts);
    let traces: Vec<Trace> = parts.filter_map(|dir| Some(Trace::open(&dir).ok()?.value)).collect();
    let mut learn = Learn::new(&traces);
    let mut all = written(&traces, learn.as_mut());
    let told = learn.iter().flat_map(Learn::all);
    all.extend(told.map(|(tid, who)| (who.pid, Some(tid), who.name.to_owned())));
    all
}

/// Who has written the records at the begin of traces.
fn written(traces: &[Trace], mut learn: Option<&mut Learn>) -> BTreeSet<Thread> {
    let mut reader = Reader::new(traces);
    let mut all = BTreeSet::new();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE_TRACE {
        for _ in 0..RECORDS_A_LOOK {
            let Some(item) = reader.next() else { return all };
            let Item::Record(mut record) = item else { continue };
            if let Some(learn) = &mut learn {
                learn.record(&mut record);
            }
            if record.vpid.is_some() || record.vtid.is_some() {
                all.insert((record.vpid, record.vtid, record.procname.to_owned()));
            }
        }
    }
    all
}

/// Each number, which is of what has the name, and each name that a shell takes as one word.
fn numbers_and_names(all: impl Iterator<Item = (Option<u32>, String)>) -> Vec<Candidate> {
    let (mut numbers, mut names) = (BTreeMap::<u32, String>::new(), BTreeMap::<String, usize>::new());
    for (number, name) in all {
        let Some(number) = number else { continue };
        if let Entry::Vacant(free) = numbers.entry(number) {
            free.insert(name.clone());
            *names.entry(name).or_default() += 1;
        }
    }
    let is_word = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_./:+@%".contains(c));
    let numbers = numbers.into_iter().map(|(number, name)| (number.to_string(), name));
    let names = names.into_iter().filter(|(name, _)| is_word(name)).map(|(name, count)| match count {
        1 => (name, String::new()),
        _ => (name, format!("{count} of this name")),
    });
    numbers.chain(names).collect()
}

fn sorted(mut all: Vec<Candidate>) -> Vec<Candidate> {
    all.sort_unstable();
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbers_and_names() {
        let all =
            [(Some(7), "audio"), (Some(9), "two words"), (Some(8), "audio"), (Some(7), "audio"), (None, "nobody")];
        let found = numbers_and_names(all.into_iter().map(|(number, name)| (number, name.to_owned())));
        let expect = [("7", "audio"), ("8", "audio"), ("9", "two words"), ("audio", "2 of this name")];
        assert_eq!(found, expect.map(|(word, about)| (word.to_owned(), about.to_owned())));
    }
}
