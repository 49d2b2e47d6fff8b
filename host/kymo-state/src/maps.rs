// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executable maps of single processes while they run: what a dump of all would miss of programs that start later.

use std::collections::HashMap;

use rustix::fs::{Mode, OFlags};

use crate::build_id::BuildIds;
use crate::process::{Processes, ReportedMaps};
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

impl Maps {
    /// Nothing told yet.
    pub fn new(root: Root) -> Maps {
        Maps { options: Options { maps: true, root, ..Options::default() }, ..Maps::default() }
    }

    /// Hands on a record `lttng_statedump_vm_map` for each executable map of process `pid` that was not told yet; where
    /// the process knows itself by another number, `vpid`, one of that number too. `first_id` as for [`crate::dump`].
    /// Returns how many. A process that is gone, or hidden, has none.
    pub fn look(&mut self, pid: u32, vpid: u32, first_id: u16, put: &mut dyn FnMut(Event<'_>)) -> u64 {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open(&self.options.root.proc, flags, Mode::empty());
        let Some(folder) = proc.ok().and_then(|proc| access::folder(&proc, &pid.to_string()).ok()) else { return 0 };
        let mut report = Report::default();
        let mut sink = Sink { first_id, put, payload: Payload::default() };
        let mut processes = Processes::new(&self.options, &mut sink, &mut report);
        processes.build_ids = std::mem::take(&mut self.build_ids);
        let of = [pid, vpid];
        let of = if pid == vpid { &of[..1] } else { &of[..] };
        processes.new_maps(&folder, of, self.known.entry(pid).or_default());
        self.build_ids = std::mem::take(&mut processes.build_ids);
        report.maps
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
