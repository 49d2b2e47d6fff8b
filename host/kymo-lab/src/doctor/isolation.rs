// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs of one's own: what is isolated, and what still comes in.

use crate::{Cpus, Severity};

use super::check::{Check, Look};
use super::context::Context;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cpu-isolated",
        title: "CPUs kept free for real time",
        severity: Severity::Medium,
        wanted: "the real-time CPUs in an isolated cpuset, or in isolcpus=",
        why: "On a shared CPU, other threads, their kernel work and their cache misses add to every latency.",
        now: "kymo shield CPUS -- COMMAND",
        keep: "isolcpus=managed_irq,domain,CPUS on the kernel's command line, or AllowedCPUs= of systemd",
        see: "Documentation/admin-guide/cpu-isolation.rst",
        look: |context| match (context.isolated.is_empty(), context.online.len()) {
            (_, 0 | 1) => Look::Not("a machine with one CPU has none to spare"),
            (false, _) => Look::Ok(context.isolated.to_string()),
            (true, _) => Look::Problem("none".to_owned()),
        },
    },
    Check {
        id: "isolation-in-effect",
        title: "what the command line asks for is in effect",
        severity: Severity::High,
        wanted: "isolcpus= and nohz_full= as sysfs shows them",
        why: "A list with a mistake, or a kernel without the option, is ignored without an error.",
        now: "look for the reason in dmesg | grep -iE 'isolcpus|nohz'",
        keep: "correct the command line; check the boot loader's own configuration",
        see: "Documentation/admin-guide/kernel-parameters.txt",
        look: in_effect,
    },
    Check {
        id: "tick",
        title: "tick of isolated CPUs (nohz_full)",
        severity: Severity::Info,
        wanted: "nohz_full= for long computations without system calls; not for loops that sleep",
        why: "The tick interrupts a busy CPU 100 to 1000 times a second; without it each system call is a little slower.",
        now: "cannot be set while the kernel runs",
        keep: "nohz_full=CPUS on the kernel's command line (CONFIG_NO_HZ_FULL)",
        see: "Documentation/timers/no_hz.rst",
        look: |context| match (context.isolated.is_empty(), context.machine.text("/sys/devices/system/cpu/nohz_full")) {
            (true, _) => Look::Not("no CPU is isolated"),
            (_, Err(_)) => Look::Problem("kernel without CONFIG_NO_HZ_FULL".to_owned()),
            (_, Ok(text)) => {
                let without = Cpus::from_list(&text).unwrap_or_default();
                let rest = context.isolated.without(&without);
                Look::when(
                    !rest.is_empty(),
                    if rest.is_empty() { format!("off on {without}") } else { format!("runs on {rest}") },
                )
            }
        },
    },
    Check {
        id: "rcu-callbacks",
        title: "RCU callbacks off the isolated CPUs",
        severity: Severity::Medium,
        wanted: "rcu_nocbs= (or nohz_full=) with all isolated CPUs",
        why: "Callbacks that a CPU queued run on it in a soft interrupt, as many as there are.",
        now: "cannot be set while the kernel runs",
        keep: "rcu_nocbs=CPUS on the kernel's command line",
        see: "Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
        look: rcu,
    },
    Check {
        id: "irq-affinity",
        title: "device interrupts on isolated CPUs",
        severity: Severity::High,
        wanted: "none",
        why: "A device's handler runs before any thread of the CPU, for as long as it takes.",
        now: "echo OTHER_CPUS > /proc/irq/N/smp_affinity_list for each; kymo shield does it",
        keep: "irqaffinity=OTHER_CPUS on the kernel's command line, isolcpus=managed_irq,... for those that refuse",
        see: "Documentation/core-api/irq/irq-affinity.rst",
        look: interrupts,
    },
    Check {
        id: "irqbalance",
        title: "irqbalance",
        severity: Severity::Medium,
        wanted: "not running, or IRQBALANCE_BANNED_CPULIST with the real-time CPUs",
        why: "It moves interrupts between CPUs every ten seconds, back onto those that you cleared.",
        now: "systemctl stop irqbalance",
        keep: "IRQBALANCE_BANNED_CPULIST=CPUS in /etc/default/irqbalance (it leaves isolcpus= and nohz_full= alone by itself)",
        see: "man irqbalance",
        look: |context| match super::threads::find(context.machine, "irqbalance") {
            Err(reason) => reason.into(),
            Ok(None) => Look::Ok("not running".to_owned()),
            Ok(Some(pid)) if context.isolated.is_empty() => Look::Problem(format!("runs (process {pid})")),
            Ok(Some(pid)) => {
                Look::Graded(Severity::Info, format!("runs (process {pid}); it leaves isolcpus= alone, not cpusets"))
            }
        },
    },
    Check {
        id: "workqueues",
        title: "unbound kernel work on isolated CPUs",
        severity: Severity::Medium,
        wanted: "a mask without them",
        why: "Writeback, encryption and drivers queue work that runs wherever the mask lets it.",
        now: "echo MASK > /sys/devices/virtual/workqueue/cpumask",
        keep: "workqueue.unbound_cpus=OTHER_CPUS on the kernel's command line, or a unit that writes it at boot",
        see: "Documentation/core-api/workqueue.rst",
        look: |context| match (
            context.isolated.is_empty(),
            context.machine.text("/sys/devices/virtual/workqueue/cpumask"),
        ) {
            (true, _) => Look::Not("no CPU is isolated"),
            (_, Err(reason)) => reason.into(),
            (_, Ok(mask)) => {
                let on = Cpus::from_mask(&mask).unwrap_or_default().and(&context.isolated);
                Look::when(!on.is_empty(), if on.is_empty() { "none".to_owned() } else { format!("on CPUs {on}") })
            }
        },
    },
    Check {
        id: "cache-partition",
        title: "cache that isolated CPUs have for themselves (resctrl)",
        severity: Severity::Info,
        wanted: "a group of resctrl with the isolated CPUs, and ways of the cache that no other group has",
        why: "Others push your data out of the last-level cache; what comes from memory instead takes several times as long.",
        now: "mount -t resctrl resctrl /sys/fs/resctrl; mkdir a group; write cpus_list and schemata",
        keep: "a unit that does it at boot",
        see: "Documentation/filesystems/resctrl.rst",
        look: cache,
    },
    Check {
        id: "skew-tick",
        title: "ticks of all CPUs at the same moment",
        severity: Severity::Info,
        wanted: "skew_tick=1 on machines with several CPUs",
        why: "All CPUs take the same locks at the same time at each tick.",
        now: "cannot be set while the kernel runs",
        keep: "skew_tick=1 on the kernel's command line",
        see: "Documentation/admin-guide/kernel-parameters.txt",
        look: |context| match (context.online.len(), context.parameter("skew_tick")) {
            (0..=3, _) => Look::Not("with so few CPUs it does not matter"),
            (_, Some("1")) => Look::Ok("skewed".to_owned()),
            _ => Look::Problem("at the same moment".to_owned()),
        },
    },
];

/// CPUs of `isolcpus=` or `nohz_full=`, without the flags in front.
fn asked(value: &str) -> Option<Cpus> {
    let flags = ["domain", "managed_irq", "nohz"];
    let list: Vec<&str> = value.split(',').filter(|part| !flags.contains(part)).collect();
    Cpus::from_list(&list.join(","))
}

fn in_effect(context: &Context<'_>) -> Look {
    let mut missing = Vec::new();
    let mut fine = Vec::new();
    for (parameter, path) in
        [("isolcpus", "/sys/devices/system/cpu/isolated"), ("nohz_full", "/sys/devices/system/cpu/nohz_full")]
    {
        let Some(value) = context.parameter(parameter) else { continue };
        // With managed_irq or nohz alone the CPUs stay in the scheduler's domains.
        let is_hidden =
            parameter == "isolcpus" && value.starts_with(['m', 'n']) && !value.split(',').any(|part| part == "domain");
        if is_hidden {
            continue;
        }
        let real = context.machine.text(path).ok().and_then(|text| Cpus::from_list(&text)).unwrap_or_default();
        match asked(value) {
            None => missing.push(format!("{parameter}={value} cannot be read as a list")),
            Some(wanted) if wanted.and(&context.online).without(&real).is_empty() => {
                fine.push(format!("{parameter}={value}"))
            }
            Some(wanted) => {
                missing.push(format!("{parameter}={value}, but not in effect for {}", wanted.without(&real)))
            }
        }
    }
    match (missing.is_empty(), fine.is_empty()) {
        (false, _) => Look::Problem(missing.join("; ")),
        (true, false) => Look::Ok(fine.join(" ")),
        (true, true) => Look::Not("the command line isolates no CPU"),
    }
}

fn rcu(context: &Context<'_>) -> Look {
    if context.isolated.is_empty() {
        return Look::Not("no CPU is isolated");
    }
    let list = |name: &str| match context.parameter(name) {
        Some("all") => context.online.clone(),
        other => other.and_then(asked).unwrap_or_default(),
    };
    let rest = context.isolated.without(&list("rcu_nocbs").or(&list("nohz_full")));
    if context.is_configured("RCU_NOCB_CPU_DEFAULT_ALL") == Some(true) {
        return Look::Ok("off all CPUs".to_owned());
    }
    Look::when(!rest.is_empty(), if rest.is_empty() { "off them".to_owned() } else { format!("on CPUs {rest}") })
}

fn cache(context: &Context<'_>) -> Look {
    const ROOT: &str = "/sys/fs/resctrl";
    if context.isolated.is_empty() {
        return Look::Not("no CPU is isolated");
    }
    let flags = crate::environment::cpuinfo(context.machine, "flags").unwrap_or_default();
    if !flags.split_whitespace().any(|flag| flag == "cat_l3" || flag == "cat_l2") {
        return Look::Not("the processor cannot divide its cache, or does not say so");
    }
    if context.is_configured("X86_CPU_RESCTRL") == Some(false) {
        return Look::Problem("the processor can, but the kernel was built without CONFIG_X86_CPU_RESCTRL".to_owned());
    }
    let names = match context.machine.list(ROOT) {
        Ok(names) if names.iter().any(|name| name == "schemata") => names,
        _ => return Look::Problem("the processor can, but resctrl is not mounted".to_owned()),
    };
    let text = |group: &str, file: &str| context.machine.text(&format!("{ROOT}/{group}/{file}")).ok();
    let has_ours = |group: &&String| {
        let cpus = text(group, "cpus_list").and_then(|list| Cpus::from_list(&list)).unwrap_or_default();
        !cpus.and(&context.isolated).is_empty()
    };
    let groups: Vec<String> = names
        .iter()
        .filter(has_ours)
        .map(|group| format!("{group}: {}", text(group, "schemata").unwrap_or_default().replace('\n', " ")))
        .collect();
    if groups.is_empty() {
        return Look::Problem(format!("no group of resctrl has a CPU of {}", context.isolated));
    }
    Look::Ok(groups.join("; "))
}

fn interrupts(context: &Context<'_>) -> Look {
    if context.isolated.is_empty() {
        return Look::Not("no CPU is isolated");
    }
    let names = match context.machine.list("/proc/irq") {
        Ok(names) => names,
        Err(reason) => return reason.into(),
    };
    let is_on = |name: &&String| {
        let dir = format!("/proc/irq/{name}");
        let is_here = |what: &str| {
            let text = context.machine.text(&format!("{dir}/{what}")).ok().filter(|text| !text.is_empty());
            text.and_then(|text| Cpus::from_list(&text)).is_none_or(|cpus| !cpus.and(&context.isolated).is_empty())
        };
        // An interrupt without a handler never comes.
        let entries = context.machine.list(&dir).unwrap_or_default();
        let has_handler = entries.iter().any(|entry| context.machine.path(&format!("{dir}/{entry}")).is_dir());
        // Where it goes now changes only when it comes the next time: both must be here.
        has_handler && is_here("smp_affinity_list") && is_here("effective_affinity_list")
    };
    let on: Vec<&str> =
        names.iter().filter(|name| name.parse::<u32>().is_ok()).filter(is_on).map(String::as_str).collect();
    Look::when(!on.is_empty(), if on.is_empty() { "none".to_owned() } else { format!("interrupts {}", on.join(" ")) })
}
