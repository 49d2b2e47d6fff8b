// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the ids that this /proc shows, and the processes in it, are the kernel's own.

use std::os::fd::{AsFd, OwnedFd};

use crate::access;
use crate::text::{lines, words};

/// The inode of the first pid namespace, fixed in the kernel (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: &[u8] = b"pid:[4026531836]";

const MOUNTS_BYTES: usize = 1 << 20;

impl super::Processes<'_, '_> {
    /// Adds the caveats that hold for the whole of /proc.
    pub(crate) fn namespace(&mut self, proc: &OwnedFd) {
        let inside = rustix::fs::readlinkat(proc, "self/ns/pid", std::mem::take(&mut self.link));
        if inside.is_ok_and(|link| link.as_bytes() != FIRST_PID_NAMESPACE) {
            let text = "State dump: this is a pid namespace, so process and thread ids here are not those of kernel events, and \
                        threads outside are missing: run it outside of the container.";
            self.report.caveats.push(text.to_owned());
        }
        let _ = access::read(proc.as_fd(), "self/mounts", MOUNTS_BYTES, &mut self.text);
        if self.live && hides_processes(&self.text) {
            let text =
                "State dump: /proc is mounted with hidepid, so processes of other users may be missing: run as root.";
            self.report.caveats.push(text.to_owned());
        }
    }
}

/// Whether a list of mounts has a /proc with `hidepid`, and we are not one whom that option spares.
fn hides_processes(mounts: &[u8]) -> bool {
    !rustix::process::geteuid().is_root() && lines(mounts).any(mount_hides)
}

fn mount_hides(line: &[u8]) -> bool {
    let mut words = words(line);
    let (_, place, kind, options) = (words.next(), words.next(), words.next(), words.next());
    let options = options.unwrap_or(b"").split(|&b| b == b',');
    let mut hidepid = options.filter_map(|option| option.strip_prefix(b"hidepid="));
    place == Some(b"/proc") && kind == Some(b"proc") && hidepid.any(|value| value != b"0" && value != b"off")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_that_hide() {
        assert!(mount_hides(b"proc /proc proc rw,nosuid,hidepid=invisible,gid=4 0 0"));
        assert!(mount_hides(b"proc /proc proc rw,hidepid=2 0 0"));
        assert!(!mount_hides(b"proc /proc proc rw,hidepid=0 0 0"));
        assert!(!mount_hides(b"proc /proc proc rw 0 0"));
        assert!(!mount_hides(b"proc /mnt/proc proc rw,hidepid=2 0 0"));
        assert!(!mount_hides(b"proc"));
    }
}
