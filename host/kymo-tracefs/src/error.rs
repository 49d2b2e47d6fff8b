// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps kernel events from being recorded: where, what, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::{EventName, ProbeError};

/// Every message names the cause and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No tracefs, and none may be mounted.
    #[error(
        "tracefs is not mounted, and mounting it is refused here ({cause}): run as root, or have root do \
         'mount -t tracefs nodev /sys/kernel/tracing'"
    )]
    NotMounted {
        /// What the kernel answered to our own mount.
        cause: io::Error,
    },
    /// The kernel has no tracefs at all.
    #[error("this kernel has no tracefs: kernel events need one built with CONFIG_FTRACE and CONFIG_EVENT_TRACING")]
    NoTracefs,
    /// `$KYMO_TRACEFS` is something else.
    #[error("KYMO_TRACEFS is {}, where no tracefs is mounted: unset it, or mount tracefs there", path.display())]
    NotTracefs {
        /// Its value.
        path: PathBuf,
    },
    /// A file may not be opened.
    #[error(
        "{}: permission denied: run as root or with CAP_DAC_OVERRIDE (tracefs lets a group that is given by its mount \
         option gid= read events, but not record them)",
        path.display()
    )]
    Denied {
        /// Which.
        path: PathBuf,
    },
    /// Kernel lockdown.
    #[error(
        "{}: not permitted while the kernel is locked down ([{state}] in /sys/kernel/security/lockdown): boot without \
         lockdown=, or with Secure Boot off",
        path.display()
    )]
    Lockdown {
        /// The file that was refused.
        path: PathBuf,
        /// `integrity` or `confidentiality`.
        state: String,
    },
    /// The kernel lacks a file that is needed.
    #[error("{}: this kernel does not have it, so it cannot {what}", path.display())]
    Feature {
        /// What would have been done, as a verb phrase.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Some other refusal by a file.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The verb of the sentence.
        doing: &'static str,
        /// What it was about.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of the kernel does not read as it should.
    #[error(
        "{} reads {text:?}, which is not understood ({why}): please report it with your kernel's version",
        path.display()
    )]
    Strange {
        /// The file.
        path: PathBuf,
        /// What it holds, at most its first 100 characters.
        text: String,
        /// What was expected.
        why: &'static str,
    },
    /// `mkdir` in `instances` failed for want of memory or number.
    #[error(
        "the kernel can make no further instance in {} ({cause}); it asks for its default ring of about \
         {default_kib} KiB for each of {cpus} CPUs: free memory, or remove instances that are no longer used",
        path.display()
    )]
    NoInstance {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
        /// Of the top-level buffer, KiB per CPU: a new instance begins with as much.
        default_kib: u64,
        /// CPUs that the kernel may have.
        cpus: usize,
    },
    /// The ring does not fit into memory.
    #[error(
        "a ring of {asked_kib} KiB for each of {cpus} CPUs ({} MiB together) is more than the kernel can give now: \
         ask for a smaller one", asked_kib.saturating_mul(*cpus as u64) / 1024
    )]
    RingTooLarge {
        /// KiB per CPU.
        asked_kib: u64,
        /// CPUs.
        cpus: usize,
    },
    /// The kernel does not make sub-buffers of this size.
    #[error(
        "sub-buffers of {asked} bytes are refused by this kernel: use a power of two of pages, from {page} bytes up"
    )]
    SubbufSize {
        /// Bytes.
        asked: u32,
        /// Bytes of a page.
        page: usize,
    },
    /// An unknown trace clock.
    #[error("this kernel has no trace clock {clock:?}: it has {}", have.join(", "))]
    Clock {
        /// Asked for.
        clock: String,
        /// What there is.
        have: Vec<String>,
    },
    /// A CPU that does not exist.
    #[error("CPU {cpu} is not one of this machine: it has {have}")]
    Cpu {
        /// Asked for.
        cpu: u32,
        /// What there is, as a list with ranges.
        have: String,
    },
    /// A list of CPUs without one.
    #[error("the list of CPUs is empty: name at least one, or leave it out for all")]
    NoCpu,
    /// Other instances won the race for the lock again and again.
    #[error("new instances in {} were removed by another session as fast as they were made: try again", path.display())]
    Raced {
        /// The directory.
        path: PathBuf,
    },
    /// The instance cannot be removed: files of it are open.
    #[error(
        "{} is still in use, so it stays until the next session removes it: close its readers and whatever else has \
         its files open", path.display()
    )]
    Busy {
        /// The instance.
        path: PathBuf,
    },
    /// An argument of `-k` that cannot be understood.
    #[error("in {argument:?}, at character {at}: {why}")]
    Selection {
        /// As it was given.
        argument: String,
        /// Counted in characters from 1.
        at: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A pattern that no event matches.
    #[error("no kernel event matches {pattern:?}{}", nearest(near))]
    UnknownEvent {
        /// As it was given.
        pattern: String,
        /// At most 5, the nearest first.
        near: Vec<String>,
    },
    /// The kernel refuses a filter.
    #[error("{event}: the kernel refuses the filter {filter:?}:\n{words}")]
    Filter {
        /// The event.
        event: EventName,
        /// The filter.
        filter: String,
        /// The kernel's own lines, caret included.
        words: String,
    },
    /// An event cannot be enabled.
    #[error("{event} cannot be enabled: {source}; leave it out, or see the kernel's log (dmesg)")]
    Enable {
        /// The event.
        event: EventName,
        /// What the kernel said.
        source: io::Error,
    },
    /// Process ids of a namespace are not those of the kernel.
    #[error(
        "limiting to processes needs their ids in the kernel's first pid namespace, and this process is in another: \
         run outside of the container, or with the host's pid namespace"
    )]
    PidNamespace,
    /// A probe in a program.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A process id that the kernel refuses.
    #[error("the kernel refuses the process id {pid}: {source}")]
    Pid {
        /// The id.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// What the failure of doing something with a file of tracefs means.
    pub(crate) fn file(doing: &'static str, path: &Path, source: io::Error) -> Error {
        Error::file_under(doing, path, source, lockdown)
    }

    /// As [`Error::file`], with the lockdown given: it is only looked at where it may be the cause.
    fn file_under(doing: &'static str, path: &Path, source: io::Error, lockdown: fn() -> Option<String>) -> Error {
        let path = path.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS) => Error::Denied { path },
            Some(Errno::NOENT) => Error::Feature { what: doing, path },
            Some(Errno::PERM) => match lockdown() {
                Some(state) => Error::Lockdown { path, state },
                None => Error::Denied { path },
            },
            // In confidentiality mode files of tracefs cannot be made, and Linux 6.1 answers so to mkdir.
            Some(Errno::INVAL) => match lockdown() {
                Some(state) if state == "confidentiality" => Error::Lockdown { path, state },
                _ => Error::File { doing, path, source },
            },
            _ => Error::File { doing, path, source },
        }
    }

    /// A file of the kernel that is not as it should be.
    pub(crate) fn strange(path: &Path, text: &str, why: &'static str) -> Error {
        Error::Strange { path: path.to_owned(), text: text.chars().take(100).collect(), why }
    }
}

/// The tail of a message about something unknown. Empty where nothing is near.
pub(crate) fn nearest(near: &[String]) -> String {
    match near {
        [] => "; /sys/kernel/tracing/available_events has all that there are".to_owned(),
        near => format!("; near it: {}", near.join(", ")),
    }
}

/// The lockdown that is in force; `None` without one, and where securityfs cannot be read.
fn lockdown() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    lockdown_state(&text)
}

/// The word in brackets of `none [integrity] confidentiality`, unless it is `none`.
fn lockdown_state(text: &str) -> Option<String> {
    let state = text.split_once('[')?.1.split_once(']')?.0;
    (state != "none").then(|| state.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        assert_eq!(lockdown_state("none [integrity] confidentiality\n").as_deref(), Some("integrity"));
        assert_eq!(lockdown_state("[none] integrity confidentiality\n"), None);
        assert_eq!(lockdown_state("[broken"), None);
    }

    #[test]
    fn refusals_are_told_apart() {
        let path = Path::new("/x/y");
        let open = |errno: Errno| Error::file_under("record", path, errno.into(), || None);
        let locked = |errno: Errno| Error::file_under("record", path, errno.into(), || Some("confidentiality".into()));
        assert!(matches!(open(Errno::ACCESS), Error::Denied { .. }));
        assert!(matches!(open(Errno::PERM), Error::Denied { .. }));
        assert!(matches!(open(Errno::NOENT), Error::Feature { .. }));
        assert!(matches!(open(Errno::INVAL), Error::File { .. }));
        assert!(matches!(locked(Errno::ACCESS), Error::Denied { .. }));
        assert!(matches!(locked(Errno::PERM), Error::Lockdown { .. }));
        assert!(matches!(locked(Errno::INVAL), Error::Lockdown { .. }));
        assert!(open(Errno::ACCESS).to_string().contains("/x/y"));
    }
}
