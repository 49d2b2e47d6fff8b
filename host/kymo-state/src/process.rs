// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and their threads. Files and maps are those of the process; a thread that unshared its table of files is
//! rare, and its own table is left out.

mod deadline;
mod file;
mod map;
mod namespace;
mod stat;

pub use stat::cgroup_in;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::access::{self, Fault};
use crate::build_id::BuildIds;
use crate::class::StateRecordClass;
use crate::missing::Missing;
use crate::record::Sink;
use crate::text::{find, number, words};
use crate::{Options, Report};
pub(crate) use map::ReportedMaps;
use stat::STATUS_WAIT_CPU;
pub(crate) use stat::Stat;

/// LTTng's code for "in which mode a thread is cannot be told".
const MODE_UNKNOWN: i32 = 5;
const SUBMODE_UNKNOWN: i32 = 1;
const KERNEL_THREAD: i32 = 1;

/// The kernel writes at most 64 bytes of name and 52 numbers.
pub(crate) const STAT_BYTES: usize = 4096;
/// A process can be in 65536 groups, which are in here.
const STATUS_BYTES: usize = 1 << 20;
const CGROUP_BYTES: usize = 64 << 10;

/// A thread that the kernel made for an interrupt's handler: `irq/26-ttyS0`.
pub(crate) struct Handler {
    pub name: Vec<u8>,
    pub tid: i32,
}

/// One walk through the processes. Buffers live as long as it, so that a thread costs no allocation.
pub(crate) struct Processes<'a, 's> {
    options: &'a Options,
    sink: &'a mut Sink<'s>,
    report: &'a mut Report,
    missing: Missing,
    handlers: Vec<Handler>,
    /// Whether the tree is this machine's own, so that system calls about its ids mean the same threads.
    live: bool,
    path: String,
    stat: Vec<u8>,
    status: Vec<u8>,
    cgroup: Vec<u8>,
    tids: Vec<u32>,
    fds: Vec<u32>,
    text: Vec<u8>,
    link: Vec<u8>,
    mapped: HashSet<(u64, u64)>,
    pub(crate) build_ids: BuildIds,
}

impl<'a, 's> Processes<'a, 's> {
    pub(crate) fn new(options: &'a Options, sink: &'a mut Sink<'s>, report: &'a mut Report) -> Processes<'a, 's> {
        Processes {
            options,
            sink,
            report,
            missing: Missing::default(),
            handlers: Vec::new(),
            live: options.root.proc == Path::new("/proc"),
            path: String::new(),
            stat: Vec::new(),
            status: Vec::new(),
            cgroup: Vec::new(),
            tids: Vec::new(),
            fds: Vec::new(),
            text: Vec::new(),
            link: Vec::new(),
            mapped: HashSet::new(),
            build_ids: BuildIds::default(),
        }
    }

    /// The idle threads, which have no place in /proc: one of tid 0 on each CPU.
    pub(crate) fn idle(&mut self, cpus: &[u32]) {
        for &cpu in cpus {
            let cpu_text = cpu.to_string();
            self.sink.emit(StateRecordClass::Process, 0, |payload| {
                payload.i32(0).i32(0).i32(0).chars::<16>(format!("swapper/{cpu_text}").as_bytes());
                payload.i32(KERNEL_THREAD).i32(MODE_UNKNOWN).i32(SUBMODE_UNKNOWN).i32(STATUS_WAIT_CPU).u32(cpu);
                payload.u32(0).i32(20).i32(0).u32(0).text(cpu_text.as_bytes()).text(b"/");
                payload.i32(0).i32(0).u64(0).u64(0).u64(0).u64(0);
            });
        }
    }

    /// Every process of `proc`, in the order of their ids.
    pub(crate) fn all(&mut self, proc: &OwnedFd) {
        let mut pids = Vec::new();
        if let Err(fault) = access::numbers(proc, &mut pids) {
            self.missing.note(fault, || "/proc".to_owned(), |missing| &mut missing.threads);
        }
        for pid in pids {
            self.process(proc, pid);
        }
    }

    fn process(&mut self, proc: &OwnedFd, pid: u32) {
        let folder = match access::folder(proc, &pid.to_string()) {
            Ok(folder) => folder,
            Err(fault) => return self.missing.note(fault, || format!("/proc/{pid}"), |missing| &mut missing.threads),
        };
        let kernel = self.threads(&folder, pid);
        let wanted = self.options.pids.as_ref().is_none_or(|pids| pids.contains(&pid));
        // A kernel thread has neither files nor maps, but may refuse to show them.
        if kernel || !wanted {
            return;
        }
        if self.options.files {
            self.files(&folder, pid);
        }
        if self.options.maps {
            self.maps(&folder, pid);
        }
    }

    /// Dumps the threads of a process; true if it is one of the kernel's.
    fn threads(&mut self, process: &OwnedFd, pid: u32) -> bool {
        let mut tids = std::mem::take(&mut self.tids);
        let task = access::folder(process, "task");
        let task = task.and_then(|task| access::numbers(&task, &mut tids).map(|()| task));
        let mut kernel = false;
        match task {
            Ok(task) => {
                for &tid in &tids {
                    kernel |= self.thread(&task, pid, tid);
                }
            }
            Err(fault) => self.missing.note(fault, || format!("/proc/{pid}/task"), |missing| &mut missing.threads),
        }
        self.tids = tids;
        kernel
    }

    /// Dumps one thread; true if it is one of the kernel's.
    fn thread(&mut self, task: &OwnedFd, pid: u32, tid: u32) -> bool {
        if let Err(fault) = self.read_thread(task, tid) {
            let path = || format!("/proc/{pid}/task/{tid}");
            self.missing.note(fault, path, |missing| &mut missing.threads);
            return false;
        }
        let Some(stat) = Stat::parse(&self.stat) else {
            self.missing.odd += 1;
            return false;
        };
        if stat.comm().starts_with(b"irq/") {
            self.handlers.push(Handler { name: stat.name.to_vec(), tid: tid as i32 });
        }
        let kernel = stat.is_kernel();
        self.emit_thread(pid, tid);
        self.report.threads += 1;
        self.report.processes += u64::from(pid == tid);
        kernel
    }

    /// Reads the three texts of a thread.
    fn read_thread(&mut self, task: &OwnedFd, tid: u32) -> Result<(), Fault> {
        let path = &mut self.path;
        let mut read = |name: &str, limit: usize, out: &mut Vec<u8>| {
            path.clear();
            let _ = write!(path, "{tid}/{name}");
            access::read(task.as_fd(), path, limit, out)
        };
        read("stat", STAT_BYTES, &mut self.stat)?;
        read("status", STATUS_BYTES, &mut self.status)?;
        match read("cgroup", CGROUP_BYTES, &mut self.cgroup) {
            // A kernel without cgroups; or the thread ended just now, which its record survives.
            Err(Fault::Gone) => self.cgroup.clear(),
            other => drop(other?),
        }
        Ok(())
    }

    /// Writes the record of the thread whose texts were read.
    fn emit_thread(&mut self, pid: u32, tid: u32) {
        let Some(stat) = Stat::parse(&self.stat) else { return };
        let runtime = if stat.policy == deadline::POLICY && self.live { deadline::of(tid) } else { None };
        let runtime = runtime.unwrap_or_default();
        let inner = |key| find(&self.status, key).and_then(|ids| words(ids).last()).and_then(number::<i32>);
        let (vtid, vpid) = (inner("NSpid"), inner("NStgid"));
        let affinity = find(&self.status, "Cpus_allowed_list").unwrap_or(b"");
        let cgroup = stat::cgroup_in(&self.cgroup);
        self.sink.emit(StateRecordClass::Process, tid, |payload| {
            payload.i32(tid as i32).i32(pid as i32).i32(stat.ppid).chars::<16>(stat.comm());
            payload.i32(i32::from(stat.is_kernel())).i32(MODE_UNKNOWN).i32(SUBMODE_UNKNOWN).i32(stat.status());
            payload.u32(stat.cpu).u32(stat.policy).i32(stat.prio).i32(stat.nice).u32(stat.rt_priority);
            payload.text(affinity).text(cgroup);
            payload.i32(vtid.unwrap_or(tid as i32)).i32(vpid.unwrap_or(pid as i32)).u64(stat.start_time);
            payload.u64(runtime.runtime_ns).u64(runtime.deadline_ns).u64(runtime.period_ns);
        });
    }

    /// Ends the walk: what was not seen goes into the report; the threads of interrupts are handed on.
    pub(crate) fn finish(self) -> Vec<Handler> {
        self.missing.into_caveats(&mut self.report.caveats);
        self.handlers
    }
}
