// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes as events of the kernel: one line of `uprobe_events` each, in the group of one instance.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Probe;
use super::error::ProbeError;
use crate::refused::Watch;
use crate::{Error, EventName, file};

/// Events that may want one name.
const SAME_NAME_MAX: usize = 1000;

/// Makes `probes` in `group`; gives the events, each once, in the order of their first probes. All, or none.
/// `log` is the instance's error log.
pub(crate) fn add(root: &Path, group: &str, log: &Path, probes: &[Probe]) -> Result<Vec<EventName>, Error> {
    let list = root.join("uprobe_events");
    let text = file::read("set probes in programs", &list)?;
    let prefix = format!(":{group}/");
    let taken = text.lines().filter_map(|line| line.split_whitespace().next()?.split_once(&prefix));
    let mut names = ProbeNames { taken: taken.map(|(_, event)| event.to_owned()).collect(), given: BTreeMap::new() };
    let logs = [log.to_owned(), root.join("error_log")];
    let mut made: Vec<EventName> = Vec::new();
    for (index, probe) in probes.iter().enumerate() {
        // One place asked for twice is still one.
        if probes[..index].contains(probe) {
            continue;
        }
        match add_one(&list, group, &logs, probe, &mut names) {
            Ok(event) if made.iter().any(|made| made.name == event) => {}
            Ok(event) => made.push(EventName::new(group, event)),
            Err(error) => {
                for event in &made {
                    // The first error is the one to be told; what stays goes with the instance.
                    let _ = file::append_raw(&list, &format!("-:{group}/{}", event.name));
                }
                return Err(error);
            }
        }
    }
    Ok(made)
}

fn add_one(list: &Path, group: &str, logs: &[PathBuf], probe: &Probe, names: &mut ProbeNames) -> Result<String, Error> {
    let path = KernelPath::of(&probe.binary)?;
    let mut event = names.of(probe)?;
    loop {
        let line = line(probe, group, &event, &path.text);
        let watch = Watch::begin(logs);
        let error = match file::append_raw(list, &line) {
            Ok(()) => return Ok(event),
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            // Kernels before 5.5 take one probe per event only.
            Some(Errno::EXIST) => event = names.another(probe)?,
            Some(Errno::ACCESS | Errno::PERM) => return Err(Error::file("set probes in programs", list, error)),
            _ => return Err(refused(probe, event, &watch, &line, &error)),
        }
    }
}

fn refused(probe: &Probe, event: String, watch: &Watch, line: &str, error: &io::Error) -> Error {
    let words = watch.words(line).unwrap_or_else(|| error.to_string());
    ProbeError::Refused { event, path: probe.binary.clone(), words }.into()
}

/// `p:GROUP/EVENT PATH:OFFSET(SEMAPHORE) ARGS`; `r` for returns.
fn line(probe: &Probe, group: &str, event: &str, path: &str) -> String {
    let kind = if probe.at_return { 'r' } else { 'p' };
    let mut line = format!("{kind}:{group}/{event} {path}:{:#x}", probe.offset);
    if let Some(semaphore) = probe.semaphore_offset {
        line.push_str(&format!("({semaphore:#x})"));
    }
    for arg in &probe.args {
        line.push(' ');
        line.push_str(arg);
    }
    line
}

/// A file by a path that the kernel's parser takes whole. It splits at spaces and ends at `#`, so files with such
/// characters are given through a file descriptor; the kernel keeps the file, not the path.
struct KernelPath {
    text: String,
    _open: Option<File>,
}

impl KernelPath {
    fn of(binary: &Path) -> Result<KernelPath, ProbeError> {
        let plain = |text: &&str| text.chars().all(|char| char.is_ascii_graphic() && !"#:\\\"'".contains(char));
        if let Some(text) = binary.to_str().filter(plain) {
            return Ok(KernelPath { text: text.to_owned(), _open: None });
        }
        let open = File::open(binary).map_err(|source| ProbeError::Unreadable { path: binary.to_owned(), source })?;
        Ok(KernelPath { text: format!("/proc/self/fd/{}", open.as_raw_fd()), _open: Some(open) })
    }
}

/// Names that are taken, and which probes share one.
struct ProbeNames {
    taken: Vec<String>,
    given: BTreeMap<(String, bool, Vec<String>), String>,
}

impl ProbeNames {
    /// The event of a probe: that of others which have its origin and the same names and types of arguments (the
    /// kernel wants these alike in one event), else a new one.
    fn of(&mut self, probe: &Probe) -> Result<String, ProbeError> {
        match self.given.get(&key(probe)) {
            Some(event) => Ok(event.clone()),
            None => self.another(probe),
        }
    }

    /// A name that is not taken: with a suffix, if need be.
    fn another(&mut self, probe: &Probe) -> Result<String, ProbeError> {
        let plain = std::iter::once(probe.event.clone());
        let suffixed = (2..=SAME_NAME_MAX).map(|number| format!("{}_{number}", probe.event));
        let free = plain.chain(suffixed).find(|name| !self.taken.contains(name));
        let name = free.ok_or_else(|| ProbeError::TooMany { event: probe.event.clone(), limit: SAME_NAME_MAX })?;
        self.taken.push(name.clone());
        self.given.insert(key(probe), name.clone());
        Ok(name)
    }
}

fn key(probe: &Probe) -> (String, bool, Vec<String>) {
    let signature = |arg: &String| match (arg.split_once('='), arg.rsplit_once(':')) {
        (Some((name, _)), Some((_, kind))) => format!("{name}:{kind}"),
        _ => arg.clone(),
    };
    (probe.origin.clone(), probe.at_return, probe.args.iter().map(signature).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(origin: &str, args: &[&str]) -> Probe {
        Probe {
            event: "go".to_owned(),
            origin: origin.to_owned(),
            binary: PathBuf::from("/usr/bin/x"),
            offset: 0x1234,
            at_return: false,
            semaphore_offset: Some(0x10),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            caveats: Vec::new(),
        }
    }

    #[test]
    fn lines_for_the_kernel() {
        let mut probe = probe("x", &["arg1=%di:s32", "arg2=\\5:u8"]);
        assert_eq!(line(&probe, "g", "go", "/x"), "p:g/go /x:0x1234(0x10) arg1=%di:s32 arg2=\\5:u8");
        (probe.at_return, probe.semaphore_offset) = (true, None);
        assert_eq!(line(&probe, "g", "go", "/x"), "r:g/go /x:0x1234 arg1=%di:s32 arg2=\\5:u8");
    }

    #[test]
    fn sites_share_an_event_if_their_arguments_are_alike() {
        let mut names = ProbeNames { taken: vec!["go_2".to_owned()], given: BTreeMap::new() };
        assert_eq!(names.of(&probe("x", &["arg1=%di:s32"])).unwrap(), "go");
        assert_eq!(names.of(&probe("x", &["arg1=+8(%sp):s32"])).unwrap(), "go");
        assert_eq!(names.of(&probe("x", &["arg1=%di:u64"])).unwrap(), "go_3");
        assert_eq!(names.of(&probe("y", &["arg1=%di:s32"])).unwrap(), "go_4");
    }

    #[test]
    fn paths_that_the_kernel_would_split_go_through_a_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b");
        assert!(KernelPath::of(&path).is_err());
        std::fs::write(&path, "").unwrap();
        assert!(KernelPath::of(&path).unwrap().text.starts_with("/proc/self/fd/"));
        assert_eq!(KernelPath::of(Path::new("/usr/bin/x-1.2+3")).unwrap().text, "/usr/bin/x-1.2+3");
    }
}
