// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel itself: real time or not, what slows it down, what is traced.

use crate::Severity;

use super::check::{Check, Look};
use super::context::Context;

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
                (true, _) => Look::Ok("PREEMPT_RT".to_owned()),
                (false, true) => Look::Unread("neither /sys/kernel/realtime nor the kernel's version".to_owned()),
                (false, false) => Look::Problem(version),
            }
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
        look: |context| match (context.parameter("highres"), context.is_configured("HIGH_RES_TIMERS")) {
            (Some("off"), _) => Look::Problem("highres=off".to_owned()),
            (_, Some(is_on)) => Look::when(!is_on, if is_on { "on" } else { "CONFIG_HIGH_RES_TIMERS is not set" }),
            // Where the configuration cannot be read, the timers tell, to root.
            (_, None) => match context.machine.text("/proc/timer_list") {
                Ok(text) if text.contains(".resolution: 1 nsecs") => Look::Ok("on".to_owned()),
                Ok(_) => Look::Problem("coarse timers in /proc/timer_list".to_owned()),
                Err(_) => Look::Unread("no configuration of the kernel (/proc/config.gz, /boot)".to_owned()),
            },
        },
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
        wanted: "no tracer, no events, in the kernel's own trace buffer",
        why: "Each event costs some 100 ns and more where it happens; the function tracer costs that at every function.",
        now: "echo nop > /sys/kernel/tracing/current_tracer; echo 0 > /sys/kernel/tracing/events/enable",
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

fn debugging(context: &Context<'_>) -> Look {
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
    found.extend(context.command_line.iter().filter(|word| words.iter().any(|name| word.starts_with(name))).cloned());
    match (context.config.is_some(), found.is_empty()) {
        (_, false) => Look::Problem(found.join(" ")),
        (true, true) => Look::Ok("none".to_owned()),
        (false, true) => Look::Unread("no configuration of the kernel (/proc/config.gz, /boot)".to_owned()),
    }
}

fn watchdogs(context: &Context<'_>) -> Look {
    let of = |name: &str| context.machine.text(&format!("/proc/sys/kernel/{name}"));
    let (nmi, soft) = match (of("nmi_watchdog"), of("soft_watchdog")) {
        (Err(_), Err(_)) => return Look::Ok("the kernel has none".to_owned()),
        (nmi, soft) => (nmi.as_deref() == Ok("1"), soft.as_deref() == Ok("1")),
    };
    let on = of("watchdog_cpumask")
        .ok()
        .and_then(|text| crate::Cpus::from_list(&text))
        .unwrap_or_else(|| context.online.clone());
    let is_kept_off = !context.isolated.is_empty() && context.isolated.and(&on).is_empty();
    let kinds = match (nmi, soft) {
        (false, false) => return Look::Ok("off".to_owned()),
        (true, false) => "NMI",
        (false, true) => "soft",
        (true, true) => "NMI and soft",
    };
    Look::when(!is_kept_off, format!("{kinds} watchdog on CPUs {on}"))
}

fn tracing(context: &Context<'_>) -> Look {
    let dir = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .find(|dir| context.machine.has(&format!("{dir}/current_tracer")));
    let Some(dir) = dir else { return Look::Unread("tracefs is not mounted".to_owned()) };
    let (tracer, events) =
        (context.machine.text(&format!("{dir}/current_tracer")), context.machine.text(&format!("{dir}/events/enable")));
    match (tracer, events) {
        (Err(reason), _) => reason.into(),
        (Ok(tracer), _) if tracer != "nop" => Look::Graded(Severity::High, format!("tracer {tracer}")),
        (_, Ok(events)) if events != "0" => Look::Problem("events are on".to_owned()),
        _ => Look::Ok("none".to_owned()),
    }
}

fn mitigations(context: &Context<'_>) -> Look {
    let dir = "/sys/devices/system/cpu/vulnerabilities";
    let names = match context.machine.list(dir) {
        Ok(names) => names,
        Err(reason) => return reason.into(),
    };
    let is_mitigated = |name: &&String| {
        context.machine.text(&format!("{dir}/{name}")).is_ok_and(|text| text.starts_with("Mitigation"))
    };
    let mitigated: Vec<&str> = names.iter().filter(is_mitigated).map(String::as_str).collect();
    let current = if mitigated.is_empty() { "none".to_owned() } else { mitigated.join(" ") };
    Look::when(!mitigated.is_empty(), current)
}

fn console(context: &Context<'_>) -> Look {
    let serial: Vec<&str> = context
        .command_line
        .iter()
        .filter_map(|word| word.strip_prefix("console="))
        .filter(|name| !name.starts_with("tty0"))
        .collect();
    if serial.is_empty() {
        return Look::Not("no serial console on the kernel's command line");
    }
    match context.machine.text("/proc/sys/kernel/printk") {
        Err(reason) => reason.into(),
        Ok(text) => {
            let level: u32 = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(7);
            Look::when(level > 4, format!("level {level} on {}", serial.join(" ")))
        }
    }
}
