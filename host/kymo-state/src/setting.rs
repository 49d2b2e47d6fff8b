// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a dump says of how the kernel is set: names of the fields, and where each text is found.

/// Where a text comes from.
pub(crate) enum Source {
    /// A file of /proc.
    Proc(&'static str),
    /// A file of /sys.
    Sys(&'static str),
    /// A file of /sys that lists the choices, the one in force in brackets.
    Choice(&'static str),
    /// Several places, see `kernel::preemption`.
    Preemption,
}

/// A field of the kernel's record.
pub(crate) struct Setting {
    pub name: &'static str,
    pub source: Source,
}

const fn setting(name: &'static str, source: Source) -> Setting {
    Setting { name, source }
}

/// In the order of the record.
pub(crate) const SETTINGS: [Setting; 15] = [
    setting("release", Source::Proc("sys/kernel/osrelease")),
    setting("version", Source::Proc("sys/kernel/version")),
    setting("cmdline", Source::Proc("cmdline")),
    setting("clocksource", Source::Sys("devices/system/clocksource/clocksource0/current_clocksource")),
    setting("preempt", Source::Preemption),
    setting("sched_rt_runtime_us", Source::Proc("sys/kernel/sched_rt_runtime_us")),
    setting("sched_rt_period_us", Source::Proc("sys/kernel/sched_rt_period_us")),
    setting("transparent_hugepage", Source::Choice("kernel/mm/transparent_hugepage/enabled")),
    setting("swappiness", Source::Proc("sys/vm/swappiness")),
    setting("numa_balancing", Source::Proc("sys/kernel/numa_balancing")),
    setting("timer_migration", Source::Proc("sys/kernel/timer_migration")),
    setting("nmi_watchdog", Source::Proc("sys/kernel/nmi_watchdog")),
    setting("smt", Source::Sys("devices/system/cpu/smt/control")),
    setting("idle_driver", Source::Sys("devices/system/cpu/cpuidle/current_driver")),
    setting("idle_governor", Source::Sys("devices/system/cpu/cpuidle/current_governor")),
];
