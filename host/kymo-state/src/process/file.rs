// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open files of a process.

use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};

use rustix::path::DecInt;

use crate::access::{self, Fault};
use crate::class::StateRecordClass;
use crate::text::{find, number, number_in};

/// `pos` and `flags` are the first two lines; what follows grows with what an epoll or inotify file watches.
const FDINFO_BYTES: usize = 256;

const O_ACCMODE: u64 = 0o3;
const O_PATH: u64 = 0o10_000_000;
const FMODE_PATH: u64 = 0x4000;

impl super::Processes<'_, '_> {
    /// Dumps the open files of a process, in the order of their descriptors.
    pub(super) fn files(&mut self, process: &OwnedFd, pid: u32) {
        let mut fds = std::mem::take(&mut self.fds);
        let folder = access::folder(process, "fd");
        match folder.and_then(|folder| access::numbers(&folder, &mut fds).map(|()| folder)) {
            Ok(folder) => {
                for &fd in &fds {
                    let Err(fault) = self.file(process, &folder, pid, fd) else { continue };
                    self.missing.note(fault, || format!("/proc/{pid}/fd/{fd}"), |missing| &mut missing.files);
                    // Permissions are those of the process: they hide its other files too.
                    if fault == Fault::Hidden {
                        break;
                    }
                }
            }
            Err(fault) => self.missing.note(fault, || format!("/proc/{pid}/fd"), |missing| &mut missing.files),
        }
        self.fds = fds;
    }

    fn file(&mut self, process: &OwnedFd, folder: &OwnedFd, pid: u32, fd: u32) -> Result<(), Fault> {
        let target = rustix::fs::readlinkat(folder, DecInt::new(fd), std::mem::take(&mut self.link))?;
        self.path.clear();
        let _ = write!(self.path, "fdinfo/{fd}");
        access::read(process.as_fd(), &self.path, FDINFO_BYTES, &mut self.text)?;
        let pos = find(&self.text, "pos").and_then(number::<u64>).unwrap_or(0);
        let flags = find(&self.text, "flags").and_then(|flags| number_in(flags, 8)).unwrap_or(0);
        self.sink.emit(StateRecordClass::File, pid, |payload| {
            payload.u64(0).i32(fd as i32).u32(flags as u32).u32(mode(flags) as u32).text(target.as_bytes());
            payload.i32(pid as i32).u64(pos);
        });
        self.report.files += 1;
        self.link = target.into_bytes();
        Ok(())
    }
}

/// The kernel's mode of a file as far as its flags tell: 1 reads, 2 writes, 0x4000 only names a place.
fn mode(flags: u64) -> u64 {
    if flags & O_PATH != 0 { FMODE_PATH } else { (flags + 1) & O_ACCMODE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        for (flags, expect) in [(0, 1), (1, 2), (2, 3), (0o2_100_001, 2), (O_PATH, FMODE_PATH)] {
            assert_eq!(mode(flags), expect, "{flags:o}");
        }
    }
}
