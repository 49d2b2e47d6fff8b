//! The order of a dump, and the account of what it could not see.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::access::{Fault, Trees};
use crate::class::Kind;
use crate::process::Processes;
use crate::record::{Payload, Sink};
use crate::{Event, Options, Report, cpu, device, interrupt, kernel};

pub(crate) fn run(options: &Options, first_id: u16, put: &mut dyn FnMut(Event<'_>)) -> Report {
    let mut sink = Sink { first_id, put, payload: Payload::default() };
    let mut report = Report::default();
    let root = &options.root;
    let trees = Trees { proc: open(&root.proc, &mut report), sys: open(&root.sys, &mut report) };
    sink.emit(Kind::Start, 0, |_| ());
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
    sink.emit(Kind::End, 0, |_| ());
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

/// What was looked for and not seen.
#[derive(Default)]
pub(crate) struct Missing {
    /// Threads whose state permissions hide.
    pub threads: u64,
    /// Processes whose open files permissions hide.
    pub files: u64,
    /// Processes whose maps permissions hide.
    pub maps: u64,
    /// Mapped files that could not be opened to look for a build id.
    pub build_ids: u64,
    /// Processes whose list of maps was longer than what is read.
    pub cut_maps: u64,
    /// Files of /proc that were not as the kernel writes them.
    pub odd: u64,
    failed: u64,
    failed_first: Option<(String, Errno)>,
}

impl Missing {
    /// Takes note of `fault`: what permissions hide counts in `hidden`; what is gone does not count.
    pub(crate) fn note(&mut self, fault: Fault, path: impl FnOnce() -> String, hidden: fn(&mut Missing) -> &mut u64) {
        match fault {
            Fault::Gone => {}
            Fault::Hidden => *hidden(self) += 1,
            Fault::Failed(errno) => {
                self.failed += 1;
                self.failed_first.get_or_insert_with(|| (path(), errno));
            }
        }
    }

    pub(crate) fn into_caveats(self, caveats: &mut Vec<String>) {
        let counted = [
            (self.threads, "thread(s) are hidden by permissions: root sees them"),
            (
                self.files,
                "process(es) hide their open files: CAP_SYS_PTRACE is needed, which root has outside of containers",
            ),
            (
                self.maps,
                "process(es) hide their memory maps: CAP_SYS_PTRACE is needed, which root has outside of containers",
            ),
            (
                self.build_ids,
                "mapped file(s) could not be opened for their build ids: CAP_SYS_PTRACE and CAP_SYS_ADMIN are needed",
            ),
            (self.cut_maps, "process(es) have more memory maps than are read; the rest is left out"),
            (self.odd, "file(s) of /proc were not as this version knows them, and were left out"),
        ];
        let counted = counted.into_iter().filter(|&(count, _)| count > 0);
        caveats.extend(counted.map(|(count, what)| format!("State dump: {count} {what}.")));
        if let Some((path, errno)) = self.failed_first {
            let failed = self.failed;
            let advice = match errno {
                Errno::MFILE | Errno::NFILE => ": raise the limit of open files",
                _ => "",
            };
            caveats.push(format!("State dump: {failed} file(s) could not be read, the first {path}: {errno}{advice}."));
        }
    }
}
