// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the kernel part of a session.

use kymo_abi::Clock;
use kymo_ftrace::Naming;
use kymo_tracefs::{ProbeSpec, Wanted};

use crate::Error;
use crate::clock::ClockSource;

/// Ring memory per CPU where nothing else is said, bytes: the kernel gives it to every CPU that can exist, so it is
/// less where there are many.
pub fn kernel_ring_bytes() -> u64 {
    const PER_CPU: u64 = 8 << 20;
    const ALL: u64 = 512 << 20;
    const LEAST: u64 = 1 << 20;
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = possible.trim().rsplit(['-', ',']).next().and_then(|cpu| cpu.parse::<u64>().ok()).unwrap_or(0);
    (ALL / (last + 1)).clamp(LEAST, PER_CPU)
}

/// Bytes of a sub-buffer where nothing is said. Each is one read: fewer, larger ones take a fifth less CPU than those
/// of 4 KiB, and still larger ones gain nothing [bench/README.md]. A small ring keeps the kernel's own: what is
/// overwritten goes by whole sub-buffers.
pub(crate) fn subbuf_bytes(ring_bytes: u64) -> Option<u32> {
    const LARGE: u32 = 16 << 10;
    let is_whole_pages = rustix::param::page_size() <= LARGE as usize;
    (is_whole_pages && ring_bytes >= 64 * u64::from(LARGE)).then_some(LARGE)
}

/// First id of the state dump's events; the kernel gives its ids from 1 upwards.
pub(crate) const STATE_FIRST_ID: u16 = 65_000;

/// Which threads' events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// The whole system's.
    Everything,
    /// Those of the command and its descendants: recording begins when the command's first process says so, see
    /// [`crate::Session::child_files`].
    Command,
    /// Those of these processes, and of what they start from now on.
    Pids(Vec<u32>),
}

/// Settings of the kernel part of a session.
#[derive(Clone, Debug)]
pub struct KernelConfig {
    /// Which events.
    pub wanted: Wanted,
    /// Places in programs that become events.
    pub probes: Vec<ProbeSpec>,
    /// Whose names and layout.
    pub naming: Naming,
    /// Bytes of each CPU's ring.
    pub ring_bytes: u64,
    /// Bytes of a sub-buffer, where the kernel can choose. `None`: as it suits the ring.
    pub subbuf_bytes: Option<u32>,
    /// A full ring loses its oldest records; else new ones are dropped.
    pub overwrite: bool,
    /// These CPUs only.
    pub cpus: Option<Vec<u32>>,
    /// Whose events.
    pub only: Only,
    /// The state dump, or none.
    pub state: Option<kymo_state::Options>,
    /// Real-time priority (SCHED_RR) of the thread that reads the rings, 0 to 99; 0: none. A ring fills fastest when
    /// there is much to run, and that is when a thread without one waits longest.
    pub priority: u8,
}

impl Default for KernelConfig {
    /// No event, of the whole machine, overwritten, with a state dump.
    fn default() -> KernelConfig {
        KernelConfig {
            wanted: Wanted::default(),
            probes: Vec::new(),
            naming: Naming::default(),
            ring_bytes: kernel_ring_bytes(),
            subbuf_bytes: None,
            overwrite: true,
            cpus: None,
            only: Only::Everything,
            state: Some(kymo_state::Options::default()),
            priority: 1,
        }
    }
}

/// The clock of the kernel's rings that is the session's.
pub(super) fn clock_of(source: ClockSource) -> Result<&'static str, Error> {
    match source.clock() {
        Clock::Tsc => Ok("x86-tsc"),
        Clock::Monotonic => Ok("mono"),
        Clock::Cntvct => Err(Error::Refused(
            "no trace clock of the kernel is the generic timer's count, the session's clock: set \
             KYMO_CLOCK=monotonic for kymo and for the traced programs, which then have the portable ring"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_the_sessions_clock_or_the_error_says_what_to_do() {
        assert_eq!(clock_of(ClockSource::new(Clock::Tsc)).unwrap(), "x86-tsc");
        assert_eq!(clock_of(ClockSource::new(Clock::Monotonic)).unwrap(), "mono");
        let refused = clock_of(ClockSource::new(Clock::Cntvct)).unwrap_err().to_string();
        assert!(refused.contains("KYMO_CLOCK=monotonic"), "{refused}");
    }
}
