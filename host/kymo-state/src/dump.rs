// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of a dump.

use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::access::Trees;
use crate::class::StateRecordClass;
use crate::process::Processes;
use crate::record::{Payload, Sink};
use crate::{Event, Options, Report, cpu, device, interrupt, kernel};

pub(crate) fn run(options: &Options, first_id: u16, put: &mut dyn FnMut(Event<'_>)) -> Report {
    let mut sink = Sink { first_id, put, payload: Payload::default() };
    let mut report = Report::default();
    let root = &options.root;
    let trees = Trees { proc: open(&root.proc, &mut report), sys: open(&root.sys, &mut report) };
    sink.emit(StateRecordClass::Start, 0, |_| ());
    kernel::dump(&trees, &mut sink);
    let online = cpu::dump(&trees, &mut sink);
    device::blocks(&trees, &mut sink);
    device::interfaces(&trees, &mut sink);
    let mut processes = Processes::new(options, &mut sink, &mut report);
    processes.idle(&online);
    if let Some(proc) = &trees.proc {
        processes.all(proc);
        processes.namespace(proc);
    }
    let handlers = processes.finish();
    interrupt::dump(&trees, &handlers, &mut sink);
    sink.emit(StateRecordClass::End, 0, |_| ());
    report
}

fn open(path: &Path, report: &mut Report) -> Option<std::os::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => Some(folder),
        Err(errno) => {
            let path = path.display();
            report
                .caveats
                .push(format!("{path} cannot be opened ({errno}), so nothing of it is in the state dump: mount it."));
            None
        }
    }
}
