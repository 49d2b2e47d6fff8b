// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latency tests: each verb has its own options and says how the probe is called; `setup` has what
//! they share, `measure` runs the probe,
//! `explain` does so beside a recorder, `run` does what all tests share, `show` prints.

mod explain;
mod hwlat_kernel;
pub mod measure;
mod run;
mod setup;
mod show;
mod time_line;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use kymo_analyze::cause::Asked;
use serde_json::Value;

use hwlat_kernel::Windows;
pub(super) use measure::{FATAL, with_cause};
use setup::{Common, Explaining, Test, USUAL};
pub(super) use setup::{Conditions, PRIO_USUAL, Policy};
pub use show::text;

use crate::verbs::units;

/// Wake-up latency: how late threads wake up, as cyclictest measures it
///
/// A thread on each CPU sleeps until a time and looks at the clock when it runs again: what cyclictest measures.
/// Samples that had to be left out, because a thread was later than the next expiration, are counted as lost, not
/// forgotten.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kymo wakeup                            all CPUs, SCHED_FIFO 80, every millisecond, for 10 s\n  \
    kymo wakeup -c 2-3 -i 200us -d 1h -o night.json\n  kymo wakeup --method futex -c 1\n  \
    kymo wakeup -c 1 -d 60s --explain 20   what the 20 worst samples were made of, and whether watching changed them\n\n\
    Exit status: 0 measured, 2 errors (no permission for the class: --best-effort measures all the same)."
)]
pub struct Wakeup {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    explaining: Explaining,
    /// What wakes the thread
    #[arg(long, value_enum, default_value = "clock-nanosleep")]
    method: Method,
    /// Time between two expirations: 1ms, 200us
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = units::duration)]
    interval: Duration,
    /// Add this time to the interval of each further thread
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = units::duration)]
    distance: Duration,
    /// Number of samples of each thread
    #[arg(short, long, value_name = "N")]
    loops: Option<u64>,
}

/// What wakes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// clock_nanosleep until an absolute time
    ClockNanosleep,
    /// Reading from a timerfd
    Timerfd,
    /// Another thread, by futex
    Futex,
    /// Another thread, by a signal
    Signal,
}

/// Non-preemption test: what takes the CPU away from a busy thread
///
/// A thread reads the clock in a loop; each gap between two readings is a sample, so nothing that holds the CPU up
/// stays unseen. It writes the tracepoints npt:start, npt:loop and npt:stop where a session wants them: the difference
/// is what tracing costs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  kymo npt -c 1                          10 million turns on CPU 1\n  \
    kymo npt -c 1 --duration 10s --dma-latency 0\n  kymo record -u npt -- kymo npt -c 1     with tracepoints\n\n\
    Exit status: 0 measured, 2 errors.")]
pub struct Npt {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    explaining: Explaining,
    /// Turns of the loop [default: 10,000,000, where no duration is given]
    #[arg(short, long, value_name = "N")]
    loops: Option<u64>,
    /// The counter's frequency: `clock` evaluates it against CLOCK_MONOTONIC_RAW, `system` takes the "cpu MHz" of
    /// /proc/cpuinfo, which is wrong where the frequency is scaled; or a number of MHz
    #[arg(short = 'e', long, value_name = "HOW", num_args = 0..=1, default_value = "clock", default_missing_value = "clock")]
    #[arg(value_parser = speed)]
    eval_cpu_speed: Speed,
    /// At most this many npt:loop tracepoints a second
    #[arg(short = 'f', long, value_name = "HZ")]
    tp_max_freq: Option<f64>,
}

/// Where the frequency of the processor's counter comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    /// Evaluated against the kernel's clock.
    Clock,
    /// What the kernel says of the first CPU.
    System,
    /// Said by the user, MHz.
    Mhz(f64),
}

impl Speed {
    /// `None`: the probe evaluates it.
    fn mhz(self) -> anyhow::Result<Option<f64>> {
        match self {
            Speed::Clock => Ok(None),
            Speed::Mhz(mhz) => Ok(Some(mhz)),
            Speed::System => {
                let text = std::fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
                cpuinfo_mhz(&text)
                    .map(Some)
                    .context("/proc/cpuinfo has no \"cpu MHz\"; --eval-cpu-speed clock needs none")
            }
        }
    }
}

fn speed(text: &str) -> Result<Speed, String> {
    match (text, text.parse::<f64>()) {
        ("clock", _) => Ok(Speed::Clock),
        ("system", _) => Ok(Speed::System),
        (_, Ok(mhz)) if mhz.is_finite() && mhz > 0.0 => Ok(Speed::Mhz(mhz)),
        _ => Err("is clock, system, or a number of MHz".to_owned()),
    }
}

/// Of the first CPU in such a text.
fn cpuinfo_mhz(text: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix("cpu MHz")?.split_once(':'))?.1;
    value.trim().parse().ok().filter(|mhz: &f64| mhz.is_finite() && *mhz > 0.0)
}

/// Hardware latency: gaps caused by firmware, hypervisor or hardware
///
/// For a part of each window a thread reads the clock in a loop; gaps above the threshold are samples. From user space,
/// with interrupts on: what the kernel itself does is among them, unless --kernel-tracer. System management interrupts
/// are counted if the processor counts them.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kymo hwlat -c 1 --duration 60s --threshold 10us\n  kymo hwlat --kernel-tracer -d 60s     by the kernel's own tracer\n\nExit status: 0 measured, 2 errors."
)]
pub struct Hwlat {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    explaining: Explaining,
    /// With the kernel's hwlat tracer: interrupts are off in --width of each --window, on one CPU after the other, so
    /// not where others work. In an instance of our own; window, width and threshold are put back, after a SIGKILL by
    /// kymo doctor --restore
    #[arg(long, alias = "kernel")]
    kernel_tracer: bool,
    /// End after this many gaps of a thread, however long that takes where no duration is given
    #[arg(short, long, value_name = "N", conflicts_with = "kernel_tracer", value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// Ignore gaps shorter than this
    #[arg(short, long, value_name = "TIME", default_value = "10us", value_parser = units::duration)]
    threshold: Duration,
    /// Length of a window
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    window: Duration,
    /// Measured part of each window
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = units::duration)]
    width: Duration,
}

/// Preemption latency: how fast a higher priority preempts a lower one
///
/// Threads of rising priority on one CPU: each works, wakes the next higher one, and works on. Samples are the times
/// from the call to the higher thread's first instruction; cases in which the lower one went on first are counted.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  kymo preempt -c 1 --levels 8\n\nExit status: 0 in order, 1 not always, 2 errors.")]
pub struct Preempt {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    explaining: Explaining,
    /// Threads, from --prio upwards
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=19))]
    levels: u32,
    /// Rounds [default: 1000, where no duration is given]
    #[arg(short, long, value_name = "N")]
    loops: Option<u64>,
    /// Time that each thread works in a round
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = units::duration)]
    work: Duration,
}

/// Priority inheritance: whether it works, and how long the high thread waits
///
/// On one CPU a low thread takes a lock, a middle one comes and works long, a high one wants the lock. Its waits are
/// the samples; waits that lasted until the middle one was done are counted: with inheritance there are none.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  kymo pi -c 1\n  kymo pi -c 1 --no-inherit     what happens without it\n\n\
    Exit status: 0 inherited every time, 1 not, 2 errors.")]
pub struct Pi {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    explaining: Explaining,
    /// A lock without priority inheritance
    #[arg(long)]
    no_inherit: bool,
    /// Rounds [default: 1000, where no duration is given]
    #[arg(short, long, value_name = "N")]
    loops: Option<u64>,
    /// Time that the low thread works under the lock
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = units::duration)]
    work: Duration,
}

fn ns(time: Duration) -> Value {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).into()
}

/// Runs `kymo wakeup`.
pub fn wakeup(args: Wakeup) -> anyhow::Result<ExitCode> {
    let (method, sentence) = match args.method {
        Method::ClockNanosleep => (
            "clock_nanosleep",
            "from the time that clock_nanosleep was to end at to the thread's next reading of the clock",
        ),
        Method::Timerfd => ("timerfd", "from a timerfd's expiration to the thread's next reading of the clock"),
        Method::Futex => {
            ("futex", "from the reading of the clock in front of FUTEX_WAKE to the woken thread's next one")
        }
        Method::Signal => {
            ("signal", "from the reading of the clock in front of pthread_kill to the woken thread's next one")
        }
    };
    let mut options = BTreeMap::from([
        ("method", method.into()),
        ("interval_ns", ns(args.interval)),
        ("distance_ns", ns(args.distance)),
    ]);
    if args.explaining.inject_fault_every > 0 {
        options.insert("fault_every", args.explaining.inject_fault_every.into());
        options.insert("fault_bytes", args.explaining.inject_fault_bytes.into());
    }
    let asked = if matches!(args.method, Method::Futex | Method::Signal) { Asked::Woken } else { Asked::Timer };
    bound(&mut options, &args.common, args.loops, None);
    run::run(&Test {
        name: "wakeup",
        method: sentence.to_owned(),
        common: &args.common,
        options,
        is_busy: false,
        is_single: false,
        faults: &[],
        asked,
        explaining: &args.explaining,
    })
}

/// Runs `kymo npt`.
pub fn npt(args: Npt) -> anyhow::Result<ExitCode> {
    not_deadline("npt", args.common.policy)?;
    let mut options = BTreeMap::new();
    bound(&mut options, &args.common, args.loops, Some(10_000_000));
    if let Some(mhz) = args.eval_cpu_speed.mhz()? {
        options.insert("cycles_per_ns", (mhz / 1e3).into());
    }
    if let Some(hz) = args.tp_max_freq {
        anyhow::ensure!(hz > 0.0, "--tp-max-freq is a positive number of tracepoints a second");
        options.insert("tp_interval_ns", ((1e9 / hz) as u64).into());
    }
    run::run(&Test {
        name: "npt",
        method: "from one reading of the clock to the next, in a loop that does nothing else".to_owned(),
        common: &args.common,
        options,
        is_busy: args.common.policy.is_real_time(),
        is_single: false,
        faults: &[],
        asked: Asked::Busy,
        explaining: &args.explaining,
    })
}

/// Runs `kymo hwlat`.
pub fn hwlat(args: Hwlat) -> anyhow::Result<ExitCode> {
    not_deadline("hwlat", args.common.policy)?;
    anyhow::ensure!(args.width <= args.window, "--width is a part of --window");
    let mut options = BTreeMap::from([
        ("threshold_ns", ns(args.threshold)),
        ("window_ns", ns(args.window)),
        ("width_ns", ns(args.width)),
    ]);
    bound(&mut options, &args.common, args.loops, None);
    if args.kernel_tracer {
        let windows = Windows { threshold: args.threshold, window: args.window, width: args.width };
        return run::hwlat_kernel(&args.common, windows, options);
    }
    run::run(&Test {
        name: "hwlat",
        method: "gaps between two readings of the clock, above the threshold; from user space, interrupts on"
            .to_owned(),
        common: &args.common,
        options,
        is_busy: args.common.policy.is_real_time() && args.width * 20 > args.window * 19,
        is_single: false,
        faults: &[],
        asked: Asked::Busy,
        explaining: &args.explaining,
    })
}

/// Runs `kymo preempt`.
pub fn preempt(args: Preempt) -> anyhow::Result<ExitCode> {
    with_priorities("preempt", args.common.policy)?;
    let top = args.common.prio + args.levels as i32 - 1;
    anyhow::ensure!(
        top <= 99,
        "{} levels from priority {} go up to {top}; 99 is the highest",
        args.levels,
        args.common.prio
    );
    let mut options = BTreeMap::from([("levels", args.levels.into()), ("hold_ns", ns(args.work))]);
    bound(&mut options, &args.common, args.loops, Some(1000));
    run::run(&Test {
        name: "preempt",
        method: "from FUTEX_WAKE by a lower thread to the higher one's next reading of the clock, on one CPU"
            .to_owned(),
        common: &args.common,
        options,
        is_busy: false,
        is_single: true,
        faults: &["out_of_order"],
        asked: Asked::Woken,
        explaining: &args.explaining,
    })
}

/// Runs `kymo pi`.
pub fn pi(args: Pi) -> anyhow::Result<ExitCode> {
    with_priorities("pi", args.common.policy)?;
    anyhow::ensure!(args.common.prio <= 97, "three priorities from {} go beyond 99", args.common.prio);
    let mut options = BTreeMap::from([("inherit", u32::from(!args.no_inherit).into()), ("hold_ns", ns(args.work))]);
    bound(&mut options, &args.common, args.loops, Some(1000));
    run::run(&Test {
        name: "pi",
        method: "time that the highest of three threads waits for a lock that the lowest holds, on one CPU".to_owned(),
        common: &args.common,
        options,
        is_busy: false,
        is_single: true,
        faults: if args.no_inherit { &[] } else { &["behind_middle"] },
        asked: Asked::Lock,
        explaining: &args.explaining,
    })
}

/// A thread of SCHED_DEADLINE must sleep.
pub(super) fn not_deadline(test: &str, policy: Policy) -> anyhow::Result<()> {
    anyhow::ensure!(policy != Policy::Deadline, "--policy deadline is for wakeup: a thread of {test} does not sleep");
    Ok(())
}

/// Threads of different priorities are what the test is about.
fn with_priorities(test: &str, policy: Policy) -> anyhow::Result<()> {
    anyhow::ensure!(policy.is_real_time(), "--policy {}: {test} needs priorities: fifo or rr", policy.word());
    Ok(())
}

/// When a test ends: by count, by time, or, where nothing is said, by `loops` or after ten seconds.
fn bound(options: &mut BTreeMap<&'static str, Value>, common: &Common, count: Option<u64>, loops: Option<u64>) {
    let count = count.or(if common.duration.is_none() { loops } else { None });
    match count {
        Some(count) => drop(options.insert("count", count.into())),
        None => drop(options.insert("duration_ns", ns(common.duration.unwrap_or(USUAL)))),
    }
    if let (Some(_), Some(duration)) = (count, common.duration) {
        options.insert("duration_ns", ns(duration));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequency_comes_from_where_it_is_said() {
        for (text, expect) in [("clock", Speed::Clock), ("system", Speed::System), ("2000.5", Speed::Mhz(2000.5))] {
            assert_eq!(speed(text), Ok(expect), "{text}");
        }
        for wrong in ["", "fast", "0", "-1", "inf", "nan"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
        assert_eq!(cpuinfo_mhz("processor\t: 0\ncpu MHz\t\t: 2899.960\ncpu MHz\t\t: 1.0\n"), Some(2899.96));
        assert_eq!(cpuinfo_mhz("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }
}
