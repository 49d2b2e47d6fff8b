// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata of a session's trace: gathered, and replaced by rename so that a reader never sees half of it.

use std::fs;
use std::io;
use std::path::Path;

use kymo_abi::Clock;
use kymo_ctf::write::{
    ClockMeta, EnvValue, EventClass, StreamClass, StreamKind, TraceMeta, metadata_ctf2, metadata_ctf18,
};
use kymo_ftrace::Naming;

use crate::Error;
use crate::clock::Estimate;
use crate::context::Contexts;
use crate::ids::Registry;
use crate::session::Format;
use crate::trace_dir::{TraceDir, replace};

/// What does not change over a session.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub dir: Box<dyn TraceDir>,
    pub format: Format,
    pub uuid: [u8; 16],
    pub boot: [u8; 16],
    pub clock: Clock,
    pub env: Vec<(String, EnvValue)>,
    /// Contexts of the programs' records.
    pub contexts: Contexts,
    /// Events of the kernel's stream class, where the session has one.
    pub kernel: Option<Vec<EventClass>>,
}

impl Metadata {
    /// Writes the file `metadata`, complete.
    pub(crate) fn write(&self, registry: &Registry, estimate: &Estimate) -> io::Result<()> {
        // Whatever is in the place of a trace that is gone is not ours.
        if let Some(reason) = self.dir.is_gone() {
            return Err(io::Error::other(reason));
        }
        let is_compact = self.contexts.is_compact();
        let programs = if is_compact { StreamKind::Compact } else { StreamKind::User };
        let contexts = |kind| if kind == StreamKind::Kernel { Vec::new() } else { self.contexts.fields() };
        let threads = |kind| (kind == StreamKind::Compact).then(EventClass::of_threads);
        let meta = TraceMeta {
            uuid: self.uuid,
            env: self.env.clone(),
            clock: self.clock(estimate),
            streams: [(programs, Some(&registry.events)), (StreamKind::Kernel, self.kernel.as_ref())]
                .into_iter()
                .filter_map(|(kind, events)| {
                    let events = events?.iter().cloned().chain(threads(kind)).collect();
                    Some(StreamClass { kind, contexts: contexts(kind), events })
                })
                .collect(),
        };
        let bytes = match self.format {
            Format::Ctf18 => metadata_ctf18(&meta).into_bytes(),
            Format::Ctf2 => metadata_ctf2(&meta),
        };
        self.dir.replace("metadata", &bytes)
    }

    fn clock(&self, estimate: &Estimate) -> ClockMeta {
        let description = match self.clock {
            Clock::Tsc | Clock::Cntvct => format!(
                "{}; frequency within {:.3} ppm of CLOCK_MONOTONIC_RAW over {} ms",
                if self.clock == Clock::Tsc { "time stamp counter" } else { "count of the generic timer" },
                estimate.error_ppm,
                estimate.baseline_ns / 1_000_000
            ),
            Clock::Monotonic => "CLOCK_MONOTONIC".to_owned(),
        };
        ClockMeta {
            name: self.clock.name().to_owned(),
            uuid: self.boot,
            description,
            frequency_hz: estimate.frequency_hz,
            offset_s: estimate.offset_s,
            offset_cycles: estimate.offset_cycles,
            precision_cycles: estimate.precision_cycles,
            absolute: true,
        }
    }
}

/// The metadata of the trace in `from` for another one in `to`: all of it, or none.
pub(crate) fn copy_metadata(from: &Path, to: &Path) -> Result<(), Error> {
    let path = from.join("metadata");
    fs::read(&path).and_then(|text| replace(to, "metadata", &text)).map_err(Error::file("copy", path))
}

/// The environment of a trace [spec/trace.md 5].
pub(crate) fn environment(
    session: &str,
    clock: Clock,
    created: &str,
    kernel: Option<Naming>,
) -> Vec<(String, EnvValue)> {
    let system = rustix::system::uname();
    let text = |value: &std::ffi::CStr| EnvValue::Text(value.to_string_lossy().into_owned());
    let number = |value: &str| EnvValue::Int(value.parse().unwrap_or(0));
    let version = [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
    // Viewers choose their analyses and the names that they look for by the tracer's name and version [spec/trace.md
    // 8].
    let (domain, tracer, [major, minor, patch]) = match kernel {
        None => ("ust", "kymo", version),
        Some(Naming::Kernel) => ("kernel", "kymo", version),
        Some(Naming::Lttng) => ("kernel", "lttng-modules", ["2", "13", "9"]),
    };
    let patch_key = if tracer == "kymo" { "tracer_patch" } else { "tracer_patchlevel" };
    let mut environment = [
        ("hostname", text(system.nodename())),
        ("sysname", text(system.sysname())),
        ("kernel_release", text(system.release())),
        ("kernel_version", text(system.version())),
        ("architecture", text(system.machine())),
        ("tracer_name", EnvValue::Text(tracer.to_owned())),
        ("tracer_major", number(major)),
        ("tracer_minor", number(minor)),
        (patch_key, number(patch)),
        ("domain", EnvValue::Text(domain.to_owned())),
        ("recorded_by", EnvValue::Text(concat!("kymo ", env!("CARGO_PKG_VERSION")).to_owned())),
        ("trace_name", EnvValue::Text(session.to_owned())),
        ("trace_creation_datetime", EnvValue::Text(created.to_owned())),
        ("clock_source", EnvValue::Text(clock.name().to_owned())),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .to_vec();
    let release = ["/etc/os-release", "/usr/lib/os-release"].into_iter().find_map(|path| fs::read_to_string(path).ok());
    let distribution = release.as_deref().and_then(pretty_name);
    environment.extend(distribution.map(|name| ("distribution".to_owned(), EnvValue::Text(name))));
    let pid = counts_as_kernel().then(|| EnvValue::Int(i64::from(std::process::id())));
    environment.extend(pid.map(|pid| ("recorder_pid".to_owned(), pid)));
    environment
}

/// Whether processes have the numbers here that they have in the kernel's records: not in a PID namespace of one's own.
fn counts_as_kernel() -> bool {
    // PROC_PID_INIT_INO of the kernel.
    const INITIAL: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == INITIAL)
}

/// The name of a distribution for people, of the text of an os-release file. Of a text that is longer, the begin.
fn pretty_name(text: &str) -> Option<String> {
    const LETTERS_MAX: usize = 128;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let name: String = value
        .trim()
        .trim_matches(['"', '\''])
        .chars()
        .filter(|letter| !letter.is_control() && *letter != '\\')
        .take(LETTERS_MAX)
        .collect();
    (!name.is_empty()).then_some(name)
}

/// `ns` since 1970 as `20261121T053403+0000`.
pub(crate) fn datetime(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (day, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{date:02}T{hour:02}{minute:02}{second:02}+0000")
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar: years are counted from March, in cycles
/// of 400.
fn civil(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datetimes() {
        let check = |seconds: u64, expect: &str| assert_eq!(datetime(seconds * 1_000_000_000), expect);
        check(0, "19700101T000000+0000");
        check(951_782_400, "20000229T000000+0000");
        check(1_795_239_243, "20261121T053403+0000");
        check(4_102_444_799, "20991231T235959+0000");
    }

    #[test]
    fn names_of_distributions() {
        let check = |text: &str, expect: Option<&str>| assert_eq!(pretty_name(text).as_deref(), expect, "{text:?}");
        check("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n", Some("Debian GNU/Linux 13 (trixie)"));
        check("PRETTY_NAME=Buildroot", Some("Buildroot"));
        check("PRETTY_NAME='a\u{7}b\\c'", Some("abc"));
        for none in ["", "NAME=x", "PRETTY_NAME=", "PRETTY_NAME=\"\""] {
            check(none, None);
        }
        check(&format!("PRETTY_NAME={}", "x".repeat(1000)), Some("x".repeat(128).as_str()));
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), "metadata", b"one").unwrap();
        fs::create_dir(dir.path().join(".metadata.new")).unwrap();
        assert!(replace(dir.path(), "metadata", b"two").is_err());
        assert_eq!(fs::read(dir.path().join("metadata")).unwrap(), b"one");
    }
}
