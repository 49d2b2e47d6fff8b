// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of what a dump could not see.

use rustix::io::Errno;

use crate::access::Fault;

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
