// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs of one's own: what is isolated, and what still comes in.

use crate::{Cpus, Severity, Unread};

use super::check::{Check, Look};
use super::context::Context;

pub(super) const NONE_ISOLATED: &str = "no CPU is isolated";

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
        look: |context| match (context.isolated()?, context.online()?.len()) {
            (_, 0 | 1) => Ok(Look::Not("a machine with one CPU has none to spare")),
            (Some(isolated), _) => Ok(Look::Ok(isolated.to_string())),
            (None, _) => Ok(Look::Problem("none".to_owned())),
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
        look: |context| {
            let Some(isolated) = context.isolated()? else { return Ok(Look::Not(NONE_ISOLATED)) };
            let Some(text) = context.optional("/sys/devices/system/cpu/nohz_full")? else {
                return Ok(Look::Problem("kernel without CONFIG_NO_HZ_FULL".to_owned()));
            };
            let without = Cpus::from_list(&text).unwrap_or_default();
            let rest = isolated.without(&without);
            let current = if rest.is_empty() { format!("off on {without}") } else { format!("runs on {rest}") };
            Ok(Look::when(!rest.is_empty(), current))
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
        look: |context| match (super::threads::find(context, "irqbalance")?, context.isolated()) {
            (None, _) => Ok(Look::Ok("not running".to_owned())),
            (Some(pid), Ok(Some(_))) => {
                let text = format!("runs (process {pid}); it leaves isolcpus= alone, not cpusets");
                Ok(Look::Graded(Severity::Info, text))
            }
            (Some(pid), _) => Ok(Look::Problem(format!("runs (process {pid})"))),
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
        look: |context| {
            let Some(isolated) = context.isolated()? else { return Ok(Look::Not(NONE_ISOLATED)) };
            let path = "/sys/devices/virtual/workqueue/cpumask";
            let mask = context.text(path)?;
            let on = Cpus::from_mask(&mask).ok_or_else(|| Unread(format!("{path}: {mask:?} is no mask of CPUs")))?;
            let on = on.and(isolated);
            Ok(Look::when(!on.is_empty(), if on.is_empty() { "none".to_owned() } else { format!("on CPUs {on}") }))
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
        look: |context| match context.online()?.len() {
            0..=3 => Ok(Look::Not("with so few CPUs it does not matter")),
            _ => match context.parameter("skew_tick")? {
                Some("1") => Ok(Look::Ok("skewed".to_owned())),
                _ => Ok(Look::Problem("at the same moment".to_owned())),
            },
        },
    },
];

/// CPUs of `isolcpus=` or `nohz_full=`, without the flags in front.
fn asked(value: &str) -> Option<Cpus> {
    let flags = ["domain", "managed_irq", "nohz"];
    let list: Vec<&str> = value.split(',').filter(|part| !flags.contains(part)).collect();
    Cpus::from_list(&list.join(","))
}

fn in_effect(context: &Context<'_>) -> Result<Look, Unread> {
    let mut missing = Vec::new();
    let mut fine = Vec::new();
    for (parameter, path) in
        [("isolcpus", "/sys/devices/system/cpu/isolated"), ("nohz_full", "/sys/devices/system/cpu/nohz_full")]
    {
        let Some(value) = context.parameter(parameter)? else { continue };
        // With managed_irq or nohz alone the CPUs stay in the scheduler's domains.
        let is_hidden =
            parameter == "isolcpus" && value.starts_with(['m', 'n']) && !value.split(',').any(|part| part == "domain");
        if is_hidden {
            continue;
        }
        let Some(wanted) = asked(value) else {
            missing.push(format!("{parameter}={value} cannot be read as a list"));
            continue;
        };
        let real = context.optional(path)?.and_then(|text| Cpus::from_list(&text)).unwrap_or_default();
        let rest = wanted.and(context.online()?).without(&real);
        match rest.is_empty() {
            true => fine.push(format!("{parameter}={value}")),
            false => missing.push(format!("{parameter}={value}, but not in effect for {}", wanted.without(&real))),
        }
    }
    Ok(match (missing.is_empty(), fine.is_empty()) {
        (false, _) => Look::Problem(missing.join("; ")),
        (true, false) => Look::Ok(fine.join(" ")),
        (true, true) => Look::Not("the command line isolates no CPU"),
    })
}

fn rcu(context: &Context<'_>) -> Result<Look, Unread> {
    let Some(isolated) = context.isolated()? else { return Ok(Look::Not(NONE_ISOLATED)) };
    if context.is_configured("RCU_NOCB_CPU_DEFAULT_ALL") == Some(true) {
        return Ok(Look::Ok("off all CPUs".to_owned()));
    }
    let list = |name: &str| -> Result<Cpus, Unread> {
        Ok(match context.parameter(name)? {
            Some("all") => context.online()?.clone(),
            other => other.and_then(asked).unwrap_or_default(),
        })
    };
    let rest = isolated.without(&list("rcu_nocbs")?.or(&list("nohz_full")?));
    Ok(Look::when(!rest.is_empty(), if rest.is_empty() { "off them".to_owned() } else { format!("on CPUs {rest}") }))
}

fn cache(context: &Context<'_>) -> Result<Look, Unread> {
    const ROOT: &str = "/sys/fs/resctrl";
    let Some(isolated) = context.isolated()? else { return Ok(Look::Not(NONE_ISOLATED)) };
    context.text("/proc/cpuinfo")?;
    let flags = crate::environment::cpuinfo(context.machine, "flags").unwrap_or_default();
    if !flags.split_whitespace().any(|flag| flag == "cat_l3" || flag == "cat_l2") {
        return Ok(Look::Not("the processor cannot divide its cache, or does not say so"));
    }
    if context.is_configured("X86_CPU_RESCTRL") == Some(false) {
        let text = "the processor can, but the kernel was built without CONFIG_X86_CPU_RESCTRL";
        return Ok(Look::Problem(text.to_owned()));
    }
    let names = match context.machine.list(ROOT) {
        Ok(names) if names.iter().any(|name| name == "schemata") => names,
        Err(reason) if !reason.is_absent() => return Err(reason.of(ROOT)),
        _ => return Ok(Look::Problem("the processor can, but resctrl is not mounted".to_owned())),
    };
    let text = |group: &str, file: &str| context.machine.text(&format!("{ROOT}/{group}/{file}")).ok();
    let has_ours = |group: &&String| {
        let cpus = text(group, "cpus_list").and_then(|list| Cpus::from_list(&list)).unwrap_or_default();
        !cpus.and(isolated).is_empty()
    };
    let groups: Vec<String> = names
        .iter()
        .filter(has_ours)
        .map(|group| format!("{group}: {}", text(group, "schemata").unwrap_or_default().replace('\n', " ")))
        .collect();
    Ok(match groups.is_empty() {
        true => Look::Problem(format!("no group of resctrl has a CPU of {isolated}")),
        false => Look::Ok(groups.join("; ")),
    })
}

fn interrupts(context: &Context<'_>) -> Result<Look, Unread> {
    let Some(isolated) = context.isolated()? else { return Ok(Look::Not(NONE_ISOLATED)) };
    let names = context.machine.list("/proc/irq").map_err(|reason| reason.of("/proc/irq"))?;
    let (mut on, mut unread) = (Vec::new(), None);
    for name in names.iter().filter(|name| name.parse::<u32>().is_ok()) {
        let dir = format!("/proc/irq/{name}");
        let is_here = |what: &str| {
            let text = context.machine.text(&format!("{dir}/{what}")).ok().filter(|text| !text.is_empty());
            text.and_then(|text| Cpus::from_list(&text)).is_none_or(|cpus| !cpus.and(isolated).is_empty())
        };
        let entries = match context.machine.list(&dir) {
            Ok(entries) => entries,
            // Its driver was unloaded meanwhile.
            Err(reason) if reason.is_absent() => continue,
            Err(reason) => {
                unread = Some(reason.of(&dir));
                continue;
            }
        };
        // An interrupt without a handler never comes.
        let has_handler = entries.iter().any(|entry| context.machine.path(&format!("{dir}/{entry}")).is_dir());
        // Where it goes now changes only when it comes the next time: both must be here.
        if has_handler && is_here("smp_affinity_list") && is_here("effective_affinity_list") {
            on.push(name.as_str());
        }
    }
    match (on.is_empty(), unread) {
        (false, _) => Ok(Look::Problem(format!("interrupts {}", on.join(" ")))),
        (true, Some(reason)) => Err(reason),
        (true, None) => Ok(Look::Ok("none".to_owned())),
    }
}
