// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where facts about a machine are read: a root directory above /proc, /sys and /dev, so that tests can bring a machine
//! of their own.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read.
const FILE_MAX: u64 = 4 << 20;

/// A machine that is read, and never written.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

/// Why something could not be read: `absent`, `no permission`, or the system's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread(pub String);

impl Unread {
    /// There is no such file. That it is missing for certain, [`Machine::lacks`] says.
    pub fn is_absent(&self) -> bool {
        self.0 == "absent"
    }

    /// The same with the file in front.
    pub fn of(self, path: &str) -> Unread {
        Unread(format!("{path}: {}", self.0))
    }
}

impl From<std::io::Error> for Unread {
    fn from(error: std::io::Error) -> Unread {
        Unread(match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => "absent".to_owned(),
            std::io::ErrorKind::PermissionDenied => "no permission".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { root: "/".into() }
    }
}

impl Machine {
    /// The machine below a directory.
    pub fn at(root: impl Into<PathBuf>) -> Machine {
        Machine { root: root.into() }
    }

    /// Where a path such as `/proc/stat` is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A text file without blanks at its end; at most 4 MiB of it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn text(&self, path: &str) -> Result<String, Unread> {
        let bytes = self.bytes(path)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// A file; at most 4 MiB of it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, Unread> {
        let mut bytes = Vec::new();
        File::open(self.path(path))?.take(FILE_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Eight bytes at `offset`: a register in /dev/cpu/N/msr.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn register(&self, path: &str, offset: u64) -> Result<u64, Unread> {
        let mut bytes = [0; 8];
        File::open(self.path(path))?.read_exact_at(&mut bytes, offset)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// A file with one number.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Result<T, Unread> {
        let text = self.text(path)?;
        text.trim().parse().map_err(|_| Unread(format!("{text:?} is no number")))
    }

    /// Names in a directory, sorted, numbers by value.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        let entries = std::fs::read_dir(self.path(path))?;
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by_cached_key(|name| (name.parse::<u64>().unwrap_or(u64::MAX), name.clone()));
        Ok(names)
    }

    /// Where a symbolic link leads.
    pub fn link(&self, path: &str) -> Option<String> {
        Some(std::fs::read_link(self.path(path)).ok()?.to_string_lossy().into_owned())
    }

    /// Whether there is such a file, or directory.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether a file is missing for certain: the nearest directory above it that is there can be listed, and does not
    /// have it. An empty directory says nothing: it is the place of a file system that is not mounted.
    pub fn lacks(&self, path: &str) -> bool {
        let mut path = path.trim_end_matches('/');
        while let Some((above, name)) = path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
            match self.list(above) {
                Ok(names) => return !names.is_empty() && !names.iter().any(|known| known == name),
                Err(reason) if reason.is_absent() => path = above,
                Err(_) => return false,
            }
        }
        false
    }

    /// Whether this is the machine that runs, not one in files: what changes can be looked at twice.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Waits, where anything can happen meanwhile.
    pub fn pause(&self, time: std::time::Duration) {
        if self.is_live() {
            std::thread::sleep(time);
        }
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_from_what_is_not_mounted() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["sys/kernel/mm/ksm", "sys/kernel/debug", "proc"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        std::fs::write(root.path().join("proc/stat"), "").unwrap();
        let machine = Machine::at(root.path());
        for (path, expect) in [
            ("/sys/kernel/mm/transparent_hugepage/enabled", true),
            ("/proc/swaps", true),
            ("/proc/stat", false),
            // Empty: nothing is mounted there. Nothing above: not even sysfs is.
            ("/sys/kernel/debug/sched/preempt", false),
            ("/sys/kernel/mm/ksm/run", false),
            ("/dev/cpu/0/msr", false),
            ("/dev", false),
        ] {
            assert_eq!(machine.lacks(path), expect, "{path}");
        }
    }
}
