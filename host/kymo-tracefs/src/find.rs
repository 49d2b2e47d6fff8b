// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where tracefs is, and what it offers to all [spec/kernel.md 1].

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::{Error, EventName, file, leftovers};

/// The magic number of tracefs in `statfs`.
const TRACEFS_MAGIC: u64 = 0x7472_6163;

/// Where people mount it, in the order of trial.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The tracefs of this machine. Cheap to clone. Where the mount is our own, it ends with the last clone and instance.
#[derive(Clone, Debug)]
pub struct Tracefs {
    mount: Arc<Mount>,
}

#[derive(Debug)]
struct Mount {
    root: PathBuf,
    /// Ours, in no namespace: nobody else sees it. `root` leads through it.
    detached: Option<OwnedFd>,
}

impl Tracefs {
    /// `$KYMO_TRACEFS`, the usual places, any mount of this namespace, and at last a detached mount of our own.
    pub fn find() -> Result<Tracefs, Error> {
        Tracefs::find_with(std::env::var_os("KYMO_TRACEFS").as_deref())
    }

    /// As [`Tracefs::find`], with the value of `$KYMO_TRACEFS` given. An empty one counts as none.
    pub fn find_with(asked: Option<&OsStr>) -> Result<Tracefs, Error> {
        if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
            return Tracefs::at(Path::new(asked));
        }
        let usual = USUAL.iter().map(PathBuf::from);
        match usual.chain(mounted()).find(|path| is_tracefs(path)) {
            Some(path) => Ok(Tracefs::new(path, None)),
            None => Tracefs::detached(),
        }
    }

    /// The tracefs that is mounted at `path`, and no other.
    pub fn at(path: &Path) -> Result<Tracefs, Error> {
        match tracefs_there(path) {
            Ok(true) => Ok(Tracefs::new(path.to_owned(), None)),
            Err(Errno::ACCESS) => Err(Error::Denied { path: path.to_owned() }),
            _ => Err(Error::NotTracefs { path: path.to_owned() }),
        }
    }

    /// A mount of our own that no other process sees and that ends with us. Needs CAP_SYS_ADMIN.
    pub fn detached() -> Result<Tracefs, Error> {
        let mount = mount_detached().map_err(|error| match error {
            Errno::NODEV => Error::NoTracefs,
            error => Error::NotMounted { cause: error.into() },
        })?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        match is_tracefs(&root) {
            true => Ok(Tracefs::new(root, Some(mount))),
            false => Err(Error::NotMounted { cause: io::Error::other("/proc is not mounted either") }),
        }
    }

    fn new(root: PathBuf, detached: Option<OwnedFd>) -> Tracefs {
        Tracefs { mount: Arc::new(Mount { root, detached }) }
    }

    /// The directory. With a mount of our own it leads through `/proc/self/fd`, so only this process can use it.
    pub fn root(&self) -> &Path {
        &self.mount.root
    }

    /// A path to `path` (below [`Tracefs::root`]) that another process can open: with a mount of our own it leads
    /// through `/proc/OURPID/fd`, which needs the rights of ptrace over us (the same user, or root) and ends with us.
    pub fn shared(&self, path: &Path) -> PathBuf {
        match (&self.mount.detached, path.strip_prefix(self.root())) {
            (Some(mount), Ok(rest)) => {
                PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd())).join(rest)
            }
            _ => path.to_owned(),
        }
    }

    /// Every event of the kernel, sorted.
    pub fn events(&self) -> Result<Vec<EventName>, Error> {
        let path = self.root().join("available_events");
        let text = file::read("list the kernel's events", &path)?;
        let mut events = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            events.push(EventName::parse(line).ok_or_else(|| Error::strange(&path, line, "expected system:name"))?);
        }
        events.sort();
        events.dedup();
        Ok(events)
    }

    /// The text of an event's `format` file. Unknown events are [`Error::Feature`].
    pub fn format(&self, event: &EventName) -> Result<String, Error> {
        let path = self.root().join("events").join(&event.system).join(&event.name).join("format");
        file::read("describe the event", &path)
    }

    /// The text of `events/header_page`: the layout of a sub-buffer's head.
    pub fn header_page(&self) -> Result<String, Error> {
        file::read("describe a page of the ring", &self.root().join("events/header_page"))
    }

    /// The trace clocks of this kernel, in its own order.
    pub fn clocks(&self) -> Result<Vec<String>, Error> {
        Ok(parse_clocks(&file::read("list the trace clocks", &self.root().join("trace_clock"))?))
    }

    /// Removes what dead sessions left: instances whose lock nobody holds, and groups of probes without an instance.
    /// Gives the names of what was removed. What cannot be removed is left alone, silently: it is somebody else's.
    pub fn remove_dead(&self) -> Vec<String> {
        leftovers::remove(self.root())
    }
}

/// The names in a `trace_clock` file: `[local] global mono`.
pub(crate) fn parse_clocks(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

/// Whether `path` is a directory of tracefs. Looking below debugfs lets the kernel mount tracefs there by itself.
fn is_tracefs(path: &Path) -> bool {
    tracefs_there(path).unwrap_or(false)
}

fn tracefs_there(path: &Path) -> Result<bool, Errno> {
    Ok(u64::try_from(rustix::fs::statfs(path)?.f_type) == Ok(TRACEFS_MAGIC))
}

/// Mount points of type tracefs in this mount namespace. Empty where `/proc` cannot be read.
fn mounted() -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(mount_point).collect()
}

/// The mount point of a line of mountinfo, if it is a whole tracefs: `42 27 0:13 / /path rw - tracefs nodev rw`.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (mount, filesystem) = line.split_once(" - ")?;
    if filesystem.split(' ').next()? != "tracefs" {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    (root == "/").then(|| unescape(point))
}

/// Undoes the octal escapes of mountinfo: `\040` is a space. What is no escape stays.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let octal = bytes.get(at + 1..at + 4).filter(|_| byte == b'\\').and_then(octal);
        out.push(octal.unwrap_or(byte));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

fn mount_detached() -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines() {
        let check =
            |line: &str, expect: Option<&str>| assert_eq!(mount_point(line), expect.map(PathBuf::from), "{line}");
        check("42 27 0:13 / /tmp/tfs rw,relatime - tracefs nodev rw", Some("/tmp/tfs"));
        check("42 27 0:13 / /a\\040b rw shared:7 - tracefs nodev rw", Some("/a b"));
        check("42 27 0:13 /instances/x /mnt rw - tracefs nodev rw", None);
        check("42 27 0:13 / /sys rw - sysfs sysfs rw", None);
        check("42 27 0:13 / - tracefs", None);
        check("", None);
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape("a\\04"), PathBuf::from("a\\04"));
        assert_eq!(unescape("a\\999b\\"), PathBuf::from("a\\999b\\"));
    }

    #[test]
    fn clocks_without_the_brackets() {
        assert_eq!(parse_clocks("local [x86-tsc] mono\n"), ["local", "x86-tsc", "mono"]);
    }

    #[test]
    fn a_directory_that_is_no_tracefs_is_an_error() {
        let error = Tracefs::find_with(Some(OsStr::new("/tmp"))).unwrap_err();
        assert!(matches!(&error, Error::NotTracefs { path } if path == Path::new("/tmp")), "{error}");
    }
}
