// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the machine, and the CPUs that they may run on.

use std::io;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::{Cpus, Machine};

/// A thread and where it may run.
pub(crate) struct Thread {
    pub(crate) tid: u32,
    /// Ticks since boot.
    pub(crate) start: u64,
    pub(crate) name: String,
    pub(crate) cpus: Cpus,
}

/// All threads that there are, but this one.
pub(crate) fn threads() -> Vec<Thread> {
    let machine = Machine::default();
    let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let numbers = |path: &str| {
        machine
            .list(path)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| name.parse::<u32>().ok())
            .collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for pid in numbers("/proc") {
        for tid in numbers(&format!("/proc/{pid}/task")) {
            if tid != own {
                all.extend(thread(&machine, pid, tid));
            }
        }
    }
    all
}

fn thread(machine: &Machine, pid: u32, tid: u32) -> Option<Thread> {
    let text = machine.text(&format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let (head, rest) = text.rsplit_once(')')?;
    Some(Thread {
        tid,
        // The 22nd field; the third one is the first behind the name.
        start: rest.split_whitespace().nth(19)?.parse().ok()?,
        name: head.split_once('(')?.1.to_owned(),
        cpus: affinity(tid)?,
    })
}

fn pid_of(tid: u32) -> Option<Pid> {
    Pid::from_raw(tid.try_into().ok()?)
}

/// CPUs that a thread may run on; `None` where it has ended.
pub(crate) fn affinity(tid: u32) -> Option<Cpus> {
    let set = sched_getaffinity(Some(pid_of(tid)?)).ok()?;
    Some((0..CpuSet::MAX_CPU as u32).filter(|cpu| set.is_set(*cpu as usize)).collect())
}

/// Binds a thread to CPUs; 0 is this one.
pub(crate) fn set_affinity(tid: u32, cpus: &Cpus) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| (*cpu as usize) < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu as usize));
    Ok(sched_setaffinity(pid_of(tid), &set)?)
}
