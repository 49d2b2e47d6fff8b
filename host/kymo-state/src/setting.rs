// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a dump says of how the kernel is set: names of the fields, and where each text is found.

/// Where a text comes from.
pub(crate) enum SettingSource {
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
    pub source: SettingSource,
}

const fn setting(name: &'static str, source: SettingSource) -> Setting {
    Setting { name, source }
}

/// In the order of the record.
pub(crate) const SETTINGS: [Setting; 15] = [
    setting("release", SettingSource::Proc("sys/kernel/osrelease")),
    setting("version", SettingSource::Proc("sys/kernel/version")),
    setting("cmdline", SettingSource::Proc("cmdline")),
    setting("clocksource", SettingSource::Sys("devices/system/clocksource/clocksource0/current_clocksource")),
    setting("preempt", SettingSource::Preemption),
    setting("sched_rt_runtime_us", SettingSource::Proc("sys/kernel/sched_rt_runtime_us")),
    setting("sched_rt_period_us", SettingSource::Proc("sys/kernel/sched_rt_period_us")),
    setting("transparent_hugepage", SettingSource::Choice("kernel/mm/transparent_hugepage/enabled")),
    setting("swappiness", SettingSource::Proc("sys/vm/swappiness")),
    setting("numa_balancing", SettingSource::Proc("sys/kernel/numa_balancing")),
    setting("timer_migration", SettingSource::Proc("sys/kernel/timer_migration")),
    setting("nmi_watchdog", SettingSource::Proc("sys/kernel/nmi_watchdog")),
    setting("smt", SettingSource::Sys("devices/system/cpu/smt/control")),
    setting("idle_driver", SettingSource::Sys("devices/system/cpu/cpuidle/current_driver")),
    setting("idle_governor", SettingSource::Sys("devices/system/cpu/cpuidle/current_governor")),
];
