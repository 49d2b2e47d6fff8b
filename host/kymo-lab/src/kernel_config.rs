// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernel runs, and what is built into it.

use std::collections::BTreeMap;
use std::io::Read as _;

use crate::Machine;

/// Bytes of a kernel's configuration that are read.
const CONFIG_MAX: u64 = 4 << 20;

/// Version of the kernel that runs.
pub(crate) fn release(machine: &Machine) -> (u32, u32) {
    version(&machine.text("/proc/sys/kernel/osrelease").unwrap_or_default())
}

/// Whether the kernel is a PREEMPT_RT one.
pub fn is_realtime(machine: &Machine) -> bool {
    machine.number("/sys/kernel/realtime") == Ok(1)
        || machine.text("/proc/sys/kernel/version").is_ok_and(|version| version.contains("PREEMPT_RT"))
}

/// Whether an option of the kernel is built in; `None` where its configuration cannot be read.
pub(crate) fn is_configured(machine: &Machine, option: &str) -> Option<bool> {
    let config = config(machine, &machine.text("/proc/sys/kernel/osrelease").unwrap_or_default())?;
    Some(config.get(option).is_some_and(|value| value == "y" || value == "m"))
}

/// `6.12.43+deb13-amd64`: 6 and 12; zeros for what is no version.
pub(crate) fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// The configuration of the kernel that runs, where it keeps one itself or the distribution does.
pub(crate) fn config(machine: &Machine, release: &str) -> Option<BTreeMap<String, String>> {
    let own = machine.bytes("/proc/config.gz").ok().and_then(|bytes| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).take(CONFIG_MAX).read_to_string(&mut text).ok().map(|_| text)
    });
    let paths = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/usr/lib/modules/{release}/config"),
    ];
    let text = own.or_else(|| paths.iter().find_map(|path| machine.text(path).ok()))?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='));
    Some(lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
