// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that is nearly full.

use std::path::PathBuf;
use std::process::Command;

use crate::Lab;

/// A file system of 1 MiB, unmounted at the end.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, with a visible skip, where we may not mount.
    pub fn mount(lab: &Lab) -> Option<SmallDisk> {
        let at = lab.path("small");
        std::fs::create_dir(&at).expect("a directory");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&at).output();
        if !mount.is_ok_and(|output| output.status.success()) {
            crate::skip(lab.name(), "cannot mount a small file system (not root?)");
            return None;
        }
        Some(SmallDisk(at))
    }

    /// A path on it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Leaves `bytes` free.
    pub fn fill_but(&self, bytes: u64) {
        let _ = std::fs::remove_file(self.0.join("filler"));
        let disk = rustix::fs::statvfs(&self.0).expect("it is mounted");
        let free = disk.f_bavail * disk.f_frsize;
        std::fs::write(self.0.join("filler"), vec![1; (free - bytes) as usize]).expect("room");
    }

    /// Removes what fills it.
    pub fn make_room(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("it was filled");
    }

    /// Names on it, but for the filler.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("it is mounted").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name != "filler").collect()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
