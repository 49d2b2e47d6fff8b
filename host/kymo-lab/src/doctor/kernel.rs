// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel itself: real time or not, what slows it down, what is traced.

use crate::preemption::preemption;
use crate::{Severity, Unread};

use super::check::{Check, Look};
use super::context::Context;
use super::tracing::tracing;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "rt-kernel",
        title: "PREEMPT_RT kernel",
        severity: Severity::High,
        wanted: "a kernel with CONFIG_PREEMPT_RT",
        why: "Other kernels have parts that nothing can preempt, interrupt handlers and spinlocks among them: the worst case is milliseconds.",
        now: "boot a PREEMPT_RT kernel (Debian: apt install linux-image-rt-amd64)",
        keep: "make it the default of the boot loader",
        see: "Documentation/core-api/real-time/theory.rst",
        look: |context| {
            let version = context.machine.text("/proc/sys/kernel/version").unwrap_or_default();
            match (context.is_realtime, version.is_empty()) {
                (true, _) => Ok(Look::Ok("PREEMPT_RT".to_owned())),
                (false, true) => Err(Unread("neither /sys/kernel/realtime nor the kernel's version".to_owned())),
                (false, false) => Ok(Look::Problem(version)),
            }
        },
    },
    Check {
        id: "preemption-model",
        title: "where the kernel can be preempted (preempt=)",
        severity: Severity::High,
        wanted: "full, lazy, or PREEMPT_RT",
        why: "With none and voluntary the kernel works on for others, up to milliseconds, before it lets a real-time thread run.",
        now: "echo full > /sys/kernel/debug/sched/preempt (PREEMPT_DYNAMIC kernels)",
        keep: "preempt=full on the kernel's command line, or a kernel with CONFIG_PREEMPT=y",
        see: "Documentation/admin-guide/kernel-parameters.txt",
        look: |context| {
            let found = preemption(context.machine)?;
            Ok(Look::when(found.is_late(), found.to_string()))
        },
    },
    Check {
        id: "high-resolution-timers",
        title: "timers with a resolution of 1 ns",
        severity: Severity::Fatal,
        wanted: "CONFIG_HIGH_RES_TIMERS=y, no highres=off",
        why: "Without them a sleep ends at the next tick, 1 to 10 ms late.",
        now: "boot without highres=off",
        keep: "a kernel with CONFIG_HIGH_RES_TIMERS=y",
        see: "Documentation/timers/highres.rst",
        look: high_resolution,
    },
    Check {
        id: "debug-kernel",
        title: "debugging options of the kernel",
        severity: Severity::High,
        wanted: "none of PROVE_LOCKING, KASAN, DEBUG_KMEMLEAK, DEBUG_OBJECTS, IRQSOFF_TRACER, PREEMPT_TRACER, slub_debug",
        why: "They cost time in the kernel's innermost paths, with interrupts off.",
        now: "boot a kernel without them",
        keep: "a production kernel, and no slub_debug= on its command line",
        see: "Documentation/core-api/real-time/kernel-configuration.rst",
        look: debugging,
    },
    Check {
        id: "lockup-detector",
        title: "watchdogs of the kernel",
        severity: Severity::Medium,
        wanted: "off, or not on the real-time CPUs (watchdog_cpumask)",
        why: "On each CPU of their mask the soft one runs a timer and a thread above all others; the hard one comes as an NMI.",
        now: "sysctl kernel.watchdog=0, or write the other CPUs to kernel.watchdog_cpumask",
        keep: "/etc/sysctl.d/90-realtime.conf, or nmi_watchdog=0 nosoftlockup on the kernel's command line",
        see: "Documentation/admin-guide/lockup-watchdogs.rst",
        look: watchdogs,
    },
    Check {
        id: "tracing-on",
        title: "tracing in force",
        severity: Severity::Medium,
        wanted: "no tracer and no events, in the kernel's own trace buffer and in its instances",
        why: "Each event costs some 100 ns and more where it happens; the function tracer costs that at every function.",
        now: "echo nop > /sys/kernel/tracing/current_tracer; echo 0 > /sys/kernel/tracing/events/enable; rmdir /sys/kernel/tracing/instances/NAME, if nobody uses it",
        keep: "no ftrace= or trace_event= on the kernel's command line",
        see: "Documentation/trace/ftrace.rst",
        look: tracing,
    },
    Check {
        id: "mitigations",
        title: "mitigations of processor faults",
        severity: Severity::Info,
        wanted: "known; whoever runs only trusted code may do without (mitigations=off)",
        why: "They make each system call and interrupt slower by a fraction of a microsecond: latency against safety, your choice.",
        now: "cannot be set while the kernel runs",
        keep: "mitigations= on the kernel's command line",
        see: "Documentation/admin-guide/hw-vuln/index.rst",
        look: mitigations,
    },
    Check {
        id: "console",
        title: "messages of the kernel on a serial console",
        severity: Severity::Medium,
        wanted: "level of the console at most 4 (warnings are not printed)",
        why: "A line on a serial port takes milliseconds, on kernels before 6.12 or so with interrupts off.",
        now: "dmesg -n 3",
        keep: "kernel.printk = 3 4 1 3 in /etc/sysctl.d/90-realtime.conf, or quiet loglevel=3 on the command line",
        see: "Documentation/core-api/printk-basics.rst",
        look: console,
    },
];

/// No configuration of the kernel is to be had.
fn no_config() -> Unread {
    Unread("no configuration of the kernel (/proc/config.gz, /boot)".to_owned())
}

fn high_resolution(context: &Context<'_>) -> Result<Look, Unread> {
    match (context.parameter("highres"), context.is_configured("HIGH_RES_TIMERS")) {
        (Ok(Some("off")), _) => Ok(Look::Problem("highres=off".to_owned())),
        (_, Some(false)) => Ok(Look::Problem("CONFIG_HIGH_RES_TIMERS is not set".to_owned())),
        (Ok(_), Some(true)) => Ok(Look::Ok("on".to_owned())),
        // Where the configuration or the command line cannot be read, the timers tell, to root.
        (of_boot, _) => match context.machine.text("/proc/timer_list") {
            Ok(text) if text.contains(".resolution: 1 nsecs") => Ok(Look::Ok("on".to_owned())),
            Ok(_) => Ok(Look::Problem("coarse timers in /proc/timer_list".to_owned())),
            Err(_) => Err(of_boot.err().unwrap_or_else(no_config)),
        },
    }
}

fn debugging(context: &Context<'_>) -> Result<Look, Unread> {
    const OPTIONS: [&str; 9] = [
        "PROVE_LOCKING",
        "KASAN",
        "KCSAN",
        "DEBUG_KMEMLEAK",
        "DEBUG_OBJECTS",
        "DEBUG_ATOMIC_SLEEP",
        "IRQSOFF_TRACER",
        "PREEMPT_TRACER",
        "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    ];
    let words = ["slub_debug", "slab_debug", "debug_pagealloc"];
    let mut found: Vec<String> = OPTIONS
        .iter()
        .filter(|name| context.is_configured(name) == Some(true))
        .map(|name| (*name).to_owned())
        .collect();
    let command_line = context.command_line();
    let of_boot = command_line.as_ref().copied().unwrap_or_default();
    found.extend(of_boot.iter().filter(|word| words.iter().any(|name| word.starts_with(name))).cloned());
    if !found.is_empty() {
        return Ok(Look::Problem(found.join(" ")));
    }
    if context.config.is_none() {
        return Err(no_config());
    }
    command_line.map(|_| Look::Ok("none".to_owned()))
}

fn watchdogs(context: &Context<'_>) -> Result<Look, Unread> {
    let of = |name: &str| context.optional(&format!("/proc/sys/kernel/{name}"));
    let (nmi, soft) = match (of("nmi_watchdog")?, of("soft_watchdog")?) {
        (None, None) => return Ok(Look::Ok("the kernel has none".to_owned())),
        (nmi, soft) => (nmi.as_deref() == Some("1"), soft.as_deref() == Some("1")),
    };
    let kinds = match (nmi, soft) {
        (false, false) => return Ok(Look::Ok("off".to_owned())),
        (true, false) => "NMI",
        (false, true) => "soft",
        (true, true) => "NMI and soft",
    };
    let mask = of("watchdog_cpumask")?.and_then(|text| crate::Cpus::from_list(&text));
    let on = match &mask {
        Some(mask) => mask,
        None => context.online()?,
    };
    let is_kept_off = context.isolated()?.is_some_and(|isolated| isolated.and(on).is_empty());
    Ok(Look::when(!is_kept_off, format!("{kinds} watchdog on CPUs {on}")))
}

fn mitigations(context: &Context<'_>) -> Result<Look, Unread> {
    let dir = "/sys/devices/system/cpu/vulnerabilities";
    let Some(names) = context.optional_list(dir)? else { return Ok(Look::Not("the kernel does not list them")) };
    let (mut mitigated, mut unread) = (Vec::new(), None);
    for name in &names {
        match context.text(&format!("{dir}/{name}")) {
            Ok(text) if text.starts_with("Mitigation") => mitigated.push(name.as_str()),
            Ok(_) => {}
            Err(reason) => unread = Some(reason),
        }
    }
    match (mitigated.is_empty(), unread) {
        (false, _) => Ok(Look::Problem(mitigated.join(" "))),
        (true, Some(reason)) => Err(reason),
        (true, None) => Ok(Look::Ok("none".to_owned())),
    }
}

fn console(context: &Context<'_>) -> Result<Look, Unread> {
    let serial: Vec<&str> = context
        .command_line()?
        .iter()
        .filter_map(|word| word.strip_prefix("console="))
        .filter(|name| !name.starts_with("tty0"))
        .collect();
    if serial.is_empty() {
        return Ok(Look::Not("no serial console on the kernel's command line"));
    }
    let text = context.text("/proc/sys/kernel/printk")?;
    let level: Option<u32> = text.split_whitespace().next().and_then(|word| word.parse().ok());
    let level = level.ok_or_else(|| Unread(format!("/proc/sys/kernel/printk: {text:?} has no level")))?;
    Ok(Look::when(level > 4, format!("level {level} on {}", serial.join(" "))))
}
