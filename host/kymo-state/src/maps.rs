// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executable maps of single processes while they run: what a dump of all would miss of programs that start later.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::access::Fault;
use crate::build_id::BuildIds;
use crate::process::{Processes, ReportedMaps, STAT_BYTES, Stat};
use crate::program::{Phase, Program};
use crate::record::{Payload, Sink};
use crate::{Event, Options, Report, Root, access};

/// What was told of processes so far, so that a second look tells only what is new.
#[derive(Default)]
pub struct Maps {
    options: Options,
    known: HashMap<u32, ReportedMaps>,
    build_ids: BuildIds,
}

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maps").field("processes", &self.known.len()).finish_non_exhaustive()
    }
}

impl Options {
    /// The folder of a process.
    fn folder(&self, pid: u32) -> Result<OwnedFd, Fault> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open(&self.root.proc, flags, Mode::empty())?;
        access::folder(&proc, &pid.to_string())
    }
}

impl Maps {
    /// Nothing told yet.
    pub fn new(root: Root) -> Maps {
        Maps { options: Options { maps: true, root, ..Options::default() }, ..Maps::default() }
    }

    /// Looks at a program. Hands on a record `kymo_statedump_program`, and `lttng_statedump_vm_map` for each executable
    /// map that was not told yet; a look that finds nothing new tells nothing. [`Phase::Begin`] tells all maps, also
    /// those of a program that had the number before; [`Phase::End`] none. Where the process knows itself by another
    /// number, [`Program::vpid`], there is one record of each number. `first_id` as for [`crate::dump`]. Returns how
    /// many maps. A process that is gone, or hidden, has none.
    pub fn look(&mut self, program: &Program, phase: Phase, first_id: u16, put: &mut dyn FnMut(Event<'_>)) -> u64 {
        let of = [program.pid, program.vpid];
        let of = if program.pid == program.vpid { &of[..1] } else { &of[..] };
        let mut report = Report::default();
        let mut sink = Sink { first_id, put, payload: Payload::default() };
        let mut processes = Processes::new(&self.options, &mut sink, &mut report);
        if !matches!(phase, Phase::Look { .. }) {
            self.known.remove(&program.pid);
            processes.program(of, program.parent, phase);
        }
        let Some(folder) = self.options.folder(program.pid).ok().filter(|_| phase != Phase::End) else { return 0 };
        processes.build_ids = std::mem::take(&mut self.build_ids);
        processes.new_maps(&folder, of, self.known.entry(program.pid).or_default(), phase);
        self.build_ids = std::mem::take(&mut processes.build_ids);
        report.maps
    }

    /// The process that made this one; 0 where that is not known.
    pub fn parent_of(&self, pid: u32) -> u32 {
        let Ok(folder) = self.options.folder(pid) else { return 0 };
        let mut text = Vec::new();
        let is_read = access::read(folder.as_fd(), "stat", STAT_BYTES, &mut text).is_ok();
        let stat = if is_read { Stat::parse(&text) } else { None };
        stat.and_then(|stat| u32::try_from(stat.ppid).ok()).unwrap_or(0)
    }

    /// Whether a process has ended: it is gone, or a zombie without other threads. A process that may not be looked at
    /// has not, as far as is known.
    pub fn is_over(&self, pid: u32) -> bool {
        let folder = match self.options.folder(pid) {
            Ok(folder) => folder,
            Err(fault) => return fault == Fault::Gone,
        };
        let (mut text, mut threads) = (Vec::new(), Vec::new());
        match access::read(folder.as_fd(), "stat", STAT_BYTES, &mut text) {
            Ok(_) => {}
            Err(fault) => return fault == Fault::Gone,
        }
        let is_dead = Stat::parse(&text).is_some_and(|stat| matches!(stat.state, b'Z' | b'X' | b'x'));
        let others = access::folder(&folder, "task").and_then(|task| access::numbers(&task, &mut threads));
        is_dead && (others.is_err() || threads.len() <= 1)
    }

    /// The process has ended: its number may become another one's.
    pub fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    /// Everything is to be told again: a new directory begins.
    pub fn forget_all(&mut self) {
        self.known.clear();
    }
}
