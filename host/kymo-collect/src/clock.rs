// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of a session [spec/trace.md 3]: which one, reading it, and its frequency and offset from paired readings.
//!
//! Nothing here decides when to read; the callers bring the moments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kymo_abi::Clock;
use kymo_abi::ring::TIME_MASK;
use rustix::time::{ClockId, clock_gettime};

/// Readings tried for one pair; the one with the smallest bracket counts.
const PAIR_TRIES: u32 = 30;

/// Allowed difference between the clocks of two CPUs, in cycles.
pub(crate) const SKEW: u64 = 1 << 20;

/// Which clock programs and collector use here. The C side decides by the same rules.
pub(crate) fn choose() -> Clock {
    let wish = std::env::var_os("KYMO_CLOCK");
    let is_wished = |name: &str| wish.as_ref().is_some_and(|wish| wish == name);
    let is_steady = counter::is_steady() || is_wished("tsc") && cfg!(target_arch = "x86_64");
    if is_steady && !is_wished("monotonic") && kernel_trusts(counter::SOURCE) {
        counter::CLOCK
    } else {
        Clock::Monotonic
    }
}

/// False only where the kernel says that it uses another clock than `source`.
fn kernel_trusts(source: &str) -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .map_or(true, |name| name.trim() == source)
}

/// The processor's counter, as libkymo reads it.
#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

    use kymo_abi::Clock;

    pub(super) const CLOCK: Clock = Clock::Tsc;
    /// The kernel's name of it.
    pub(super) const SOURCE: &str = "tsc";

    pub(super) fn is_steady() -> bool {
        // Later versions of Rust call it safe.
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 has the instruction, and each leaf is asked for where it exists.
        unsafe {
            __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
        }
    }

    /// Between loads before and loads after, so that it does not run ahead of the load of a head.
    pub(super) fn read() -> u64 {
        // SAFETY: both instructions exist on every x86-64; the clock is chosen only where the TSC may be read
        // [spec/trace.md 3].
        unsafe {
            _mm_lfence();
            let cycles = _rdtsc();
            _mm_lfence();
            cycles
        }
    }
}

/// The same for 64-bit Arm.
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod counter {
    use kymo_abi::Clock;

    pub(super) const CLOCK: Clock = Clock::Cntvct;
    pub(super) const SOURCE: &str = "arch_sys_counter";

    /// By the architecture.
    pub(super) fn is_steady() -> bool {
        true
    }

    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: Linux lets every program read it, or does so for it [spec/trace.md 3].
        unsafe {
            std::arch::asm!("isb", "mrs {ticks}, cntvct_el0", "isb", ticks = out(reg) ticks, options(nostack));
        }
        ticks
    }
}

/// Elsewhere there is none that libkymo reads.
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod counter {
    use kymo_abi::Clock;

    pub(super) const CLOCK: Clock = Clock::Monotonic;
    pub(super) const SOURCE: &str = "";

    pub(super) fn is_steady() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        super::nanoseconds(rustix::time::ClockId::Monotonic)
    }
}

/// Reads the clocks of a session: the one of its records, and those that it waits by. In the simulation of sessions all
/// of them are one counter of nanoseconds, which only the simulation moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSource {
    clock: Clock,
    simulated: Option<&'static SimulatedTime>,
}

/// Time in the simulation of sessions. Each reading takes one nanosecond.
#[derive(Debug)]
pub(crate) struct SimulatedTime {
    ns: AtomicU64,
    origin: Instant,
}

impl SimulatedTime {
    /// Begins a second after zero.
    #[cfg(test)]
    pub(crate) fn new() -> &'static SimulatedTime {
        Box::leak(Box::new(SimulatedTime { ns: AtomicU64::new(1_000_000_000), origin: Instant::now() }))
    }

    /// The present, which goes on by a nanosecond.
    pub(crate) fn read(&self) -> u64 {
        self.ns.fetch_add(1, Ordering::Relaxed)
    }

    /// Goes on to this moment; it never goes back.
    pub(crate) fn advance_to(&self, ns: u64) {
        self.ns.fetch_max(ns, Ordering::Relaxed);
    }
}

impl ClockSource {
    /// The clocks of this machine.
    pub(crate) fn new(clock: Clock) -> ClockSource {
        ClockSource { clock, simulated: None }
    }

    /// Simulated ones.
    #[cfg(test)]
    pub(crate) fn simulated(time: &'static SimulatedTime) -> ClockSource {
        ClockSource { clock: Clock::Monotonic, simulated: Some(time) }
    }

    /// The clock of records.
    pub(crate) fn clock(self) -> Clock {
        self.clock
    }

    /// The clock of records: full 64-bit value, cycles or nanoseconds.
    pub(crate) fn read(self) -> u64 {
        match (self.simulated, self.clock) {
            (Some(time), _) => time.read(),
            (None, Clock::Tsc | Clock::Cntvct) => counter::read(),
            (None, Clock::Monotonic) => nanoseconds(ClockId::Monotonic),
        }
    }

    /// CLOCK_MONOTONIC, to wait by.
    pub(crate) fn now(self) -> Instant {
        match self.simulated {
            Some(time) => time.origin + Duration::from_nanos(time.read()),
            None => Instant::now(),
        }
    }

    /// A clock of the system, in nanoseconds.
    pub(crate) fn nanoseconds(self, id: ClockId) -> u64 {
        self.simulated.map_or_else(|| nanoseconds(id), SimulatedTime::read)
    }

    /// Sleeps.
    pub(crate) fn sleep(self, duration: Duration) {
        match self.simulated {
            Some(time) => time.advance_to(time.read() + duration.as_nanos() as u64),
            None => std::thread::sleep(duration),
        }
    }
}

/// The full value of a clock of which a record holds the low 48 bits: the newest one that is not after `now`, but for
/// [`SKEW`].
pub(crate) fn extend(low: u64, now: u64) -> u64 {
    let bound = now.wrapping_add(SKEW);
    bound.wrapping_sub(bound.wrapping_sub(low) & TIME_MASK)
}

pub(crate) fn nanoseconds(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The session's clock.
    pub cycles: u64,
    /// The system's clock, nanoseconds.
    pub ns: u64,
    /// The true `cycles` is at most this far away.
    pub error_cycles: u64,
}

impl Pair {
    /// Reads both, the closest of several times.
    pub(crate) fn take(source: ClockSource, id: ClockId) -> Pair {
        let one = || {
            let before = source.read();
            let ns = source.nanoseconds(id);
            let after = source.read();
            let error_cycles = after.saturating_sub(before) / 2 + 1;
            Pair { cycles: before + after.saturating_sub(before) / 2, ns, error_cycles }
        };
        (1..PAIR_TRIES).fold(one(), |best, _| {
            let next = one();
            if next.error_cycles < best.error_cycles { next } else { best }
        })
    }
}

/// What the metadata says of the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub frequency_hz: u64,
    /// Bound of the relative error of the frequency against CLOCK_MONOTONIC_RAW, parts per million.
    pub error_ppm: f64,
    /// Uncertainty of the offset, cycles.
    pub precision_cycles: u64,
    /// Seconds from 1970 to `-offset_cycles`.
    pub offset_s: i64,
    pub offset_cycles: u64,
    /// Time between the readings that the frequency comes from, nanoseconds.
    pub baseline_ns: u64,
}

/// Paired readings over a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    source: ClockSource,
    raw: Pair,
    real: Pair,
    latest: Pair,
}

impl Calibration {
    /// Baseline of the first estimate.
    pub(crate) const FIRST: Duration = Duration::from_millis(5);
    /// Baseline of the last estimate, at least.
    pub(crate) const LAST: Duration = Duration::from_millis(50);

    /// Reads the pairs that a session begins with. Follow with [`Self::refine`] after [`Self::FIRST`].
    pub(crate) fn start(source: ClockSource) -> Calibration {
        let raw = Pair::take(source, ClockId::MonotonicRaw);
        Calibration { source, raw, real: Pair::take(source, ClockId::Realtime), latest: raw }
    }

    /// Reads another pair; the longest baseline counts.
    pub(crate) fn refine(&mut self) {
        self.latest = Pair::take(self.source, ClockId::MonotonicRaw);
    }

    /// Time since the first pair.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_nanos(self.source.nanoseconds(ClockId::MonotonicRaw).saturating_sub(self.raw.ns))
    }

    /// Clock value of the start.
    pub(crate) fn start_cycles(&self) -> u64 {
        self.real.cycles
    }

    /// CLOCK_REALTIME of the start, nanoseconds.
    pub(crate) fn start_realtime_ns(&self) -> u64 {
        self.real.ns
    }

    pub(crate) fn source(&self) -> ClockSource {
        self.source
    }

    pub(crate) fn estimate(&self) -> Estimate {
        if self.source.clock == Clock::Monotonic {
            let (offset_s, offset_cycles) = offset(self.real, 1_000_000_000);
            let precision_cycles = self.real.error_cycles;
            return Estimate {
                frequency_hz: 1_000_000_000,
                error_ppm: 0.0,
                precision_cycles,
                offset_s,
                offset_cycles,
                baseline_ns: self.latest.ns - self.raw.ns,
            };
        }
        let (frequency_hz, error_ppm) = frequency(self.raw, self.latest);
        let (offset_s, offset_cycles) = offset(self.real, frequency_hz);
        let baseline_ns = self.latest.ns.saturating_sub(self.raw.ns);
        Estimate {
            frequency_hz,
            error_ppm,
            precision_cycles: self.real.error_cycles,
            offset_s,
            offset_cycles,
            baseline_ns,
        }
    }
}

/// Cycles per second between two pairs, and the bound of its relative error in parts per million.
fn frequency(first: Pair, last: Pair) -> (u64, f64) {
    let ns = u128::from(last.ns.saturating_sub(first.ns).max(1));
    let cycles = u128::from(last.cycles.saturating_sub(first.cycles).max(1));
    let hz = (cycles * 1_000_000_000 + ns / 2) / ns;
    let error = (first.error_cycles + last.error_cycles) as f64 / cycles as f64;
    (u64::try_from(hz).unwrap_or(u64::MAX).max(1), error * 1e6)
}

/// Seconds and cycles such that `seconds + (cycles + value) / frequency` is the wall time of `value`.
fn offset(real: Pair, frequency_hz: u64) -> (i64, u64) {
    let frequency = i128::from(frequency_hz);
    let total = i128::from(real.ns) * frequency / 1_000_000_000 - i128::from(real.cycles);
    (total.div_euclid(frequency) as i64, total.rem_euclid(frequency) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_are_extended_to_the_newest_value_that_is_not_in_the_future() {
        let check = |low, now, expect| assert_eq!(extend(low & TIME_MASK, now), expect, "{low:#x} at {now:#x}");
        check(5, 10, 5);
        check(1 << 40, (1 << 40) + 1, 1 << 40);
        check(0xffff_ffff_fff0, (3 << 48) + 7, (3 << 48) - 16);
        check((3 << 48) + 7, (3 << 48) + 7, (3 << 48) + 7);
        // A clock that is a little ahead on the writer's CPU.
        check((3 << 48) + 100, (3 << 48) + 7, (3 << 48) + 100);
    }

    #[test]
    fn frequency_and_offset_come_from_pairs() {
        let first = Pair { cycles: 1_000, ns: 5_000_000_000, error_cycles: 30 };
        let last = Pair { cycles: 1_000 + 3_000_000_003, ns: 6_000_000_000, error_cycles: 30 };
        let (hz, ppm) = frequency(first, last);
        assert_eq!(hz, 3_000_000_003);
        assert!((ppm - 0.02).abs() < 1e-6, "{ppm}");
        let real = Pair { cycles: 500, ns: 1_700_000_000_250_000_000, error_cycles: 1 };
        assert_eq!(offset(real, 1_000_000_000), (1_700_000_000, 250_000_000 - 500));
        // A machine that has been up for longer than since 1970 has a negative offset.
        assert_eq!(offset(Pair { cycles: 3, ns: 0, error_cycles: 1 }, 2), (-2, 1));
    }

    #[test]
    fn this_machines_clock_is_consistent() {
        let source = ClockSource::new(choose());
        let mut calibration = Calibration::start(source);
        while calibration.age() < Calibration::FIRST {
            std::hint::spin_loop();
        }
        calibration.refine();
        let estimate = calibration.estimate();
        assert!(estimate.frequency_hz >= 1_000_000, "{estimate:?}");
        assert!(estimate.offset_cycles < estimate.frequency_hz, "{estimate:?}");
    }
}
