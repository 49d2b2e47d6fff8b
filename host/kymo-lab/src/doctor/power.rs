// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle states, frequencies, siblings and heat.

use std::collections::BTreeMap;

use crate::environment::dma_latency_us;
use crate::{Cpus, Severity, Unread};

use super::check::{Check, Look};
use super::context::Context;

/// An idle state that takes longer to leave counts as deep, microseconds.
const DEEP_US: u64 = 10;
/// Nobody asks for a bound on idle states.
const NO_BOUND_US: i32 = 2_000_000_000;

const GUEST: &str = "a guest has no say in it: look at the host";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "deep-idle",
        title: "idle states that take long to leave",
        severity: Severity::High,
        wanted: "none that takes more than 10 us, at least while it matters",
        why: "A CPU that sleeps deeply answers late, by up to the exit latency; caches may be empty as well.",
        now: "keep /dev/cpu_dma_latency open with a 0 written to it (the program, or kymo wakeup, does so)",
        keep: "the program itself; or processor.max_cstate=1 intel_idle.max_cstate=0 on the kernel's command line",
        see: "Documentation/admin-guide/pm/cpuidle.rst",
        look: idle,
    },
    Check {
        id: "dma-latency-held",
        title: "somebody bounds the idle states (/dev/cpu_dma_latency)",
        severity: Severity::Info,
        wanted: "known: what you measure now is true only while it is held",
        why: "Latencies look better than they are without that program: cyclictest itself is one.",
        now: "fuser /dev/cpu_dma_latency names the program",
        keep: "let the real-time program hold it",
        see: "Documentation/power/pm_qos_interface.rst",
        look: |context| {
            let us = dma_latency_us(context.machine);
            let us = us.ok_or_else(|| Unread("/dev/cpu_dma_latency is absent, or not for you".to_owned()))?;
            let current = if us < NO_BOUND_US { format!("at {us} us") } else { "nobody".to_owned() };
            Ok(Look::when(us < NO_BOUND_US, current))
        },
    },
    Check {
        id: "governor",
        title: "governor of the frequency",
        severity: Severity::Medium,
        wanted: "performance",
        why: "Others clock an idle CPU down: what follows a wake-up runs slowly first, and the change itself takes time.",
        now: "cpupower frequency-set -g performance",
        keep: "cpufreq.default_governor=performance on the kernel's command line",
        see: "Documentation/admin-guide/pm/cpufreq.rst",
        look: governors,
    },
    Check {
        id: "smt",
        title: "two threads of the hardware on one core",
        severity: Severity::Medium,
        wanted: "off, or siblings isolated together",
        why: "The sibling shares pipelines and caches: whatever runs there makes yours up to twice as slow.",
        now: "echo off > /sys/devices/system/cpu/smt/control",
        keep: "nosmt on the kernel's command line, or whole cores in isolcpus=",
        see: "Documentation/core-api/real-time/hardware.rst",
        look: siblings,
    },
    Check {
        id: "turbo",
        title: "frequencies above the nominal one",
        severity: Severity::Info,
        wanted: "off where a steady pace matters more than a fast one",
        why: "How long they last depends on heat and on what the other cores do.",
        now: "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        keep: "a unit that writes it at boot, or the firmware's setup",
        see: "Documentation/admin-guide/pm/intel_pstate.rst",
        look: |context| {
            if context.is_guest() {
                return Ok(Look::Not(GUEST));
            }
            let of = |path: &str| context.optional_number::<u32>(&format!("/sys/devices/system/cpu/{path}"));
            let is_on = match of("intel_pstate/no_turbo")? {
                Some(off) => Some(off == 0),
                None => of("cpufreq/boost")?.map(|on| on != 0),
            };
            Ok(is_on.map_or(Look::Not("no such frequencies, or no say in them"), |is_on| {
                Look::when(is_on, if is_on { "on" } else { "off" })
            }))
        },
    },
    Check {
        id: "thermal",
        title: "cores slowed down by heat since boot",
        severity: Severity::Medium,
        wanted: "0 times",
        why: "A core that is too hot is clocked down, or stopped for moments, whatever runs on it.",
        now: "look at fans, dust, and limits of the power supply",
        keep: "cooling for the load that you run",
        see: "Documentation/arch/x86/x86_64/machinecheck.rst",
        look: |context| {
            let mut most = None;
            for cpu in context.online()?.iter() {
                let path = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count");
                most = most.max(context.optional_number::<u64>(&path)?);
            }
            Ok(match most {
                None => Look::Not("this processor does not tell"),
                Some(most) => Look::when(most > 0, format!("{most} times")),
            })
        },
    },
    Check {
        id: "graphics-power",
        title: "power management of Intel graphics (i915)",
        severity: Severity::High,
        wanted: "power/control = on",
        why: "Its changes of power state were seen to hold up all CPUs for about a millisecond.",
        now: "echo on > /sys/bus/pci/drivers/i915/*/power/control",
        keep: "a udev rule that sets power/control, or no graphics driver at all",
        see: "Documentation/core-api/real-time/hardware.rst",
        look: |context| {
            let dir = "/sys/bus/pci/drivers/i915";
            let devices = context.optional_list(dir)?.unwrap_or_default();
            let (mut managed, mut steady) = (Vec::new(), 0);
            for name in &devices {
                // Beside devices there are the driver's own files.
                match context.optional(&format!("{dir}/{name}/power/control"))?.as_deref() {
                    Some("auto") => managed.push(name.as_str()),
                    Some(_) => steady += 1,
                    None => {}
                }
            }
            Ok(match (managed.is_empty(), steady) {
                (false, _) => Look::Problem(format!("auto for {}", managed.join(" "))),
                (true, 0) => Look::Not("no i915 graphics"),
                (true, _) => Look::Ok("on".to_owned()),
            })
        },
    },
    Check {
        id: "pcie-aspm",
        title: "power management of PCI Express links",
        severity: Severity::Info,
        wanted: "performance, or off",
        why: "A link that sleeps makes the next access of a device wait for microseconds.",
        now: "echo performance > /sys/module/pcie_aspm/parameters/policy",
        keep: "pcie_aspm.policy=performance on the kernel's command line",
        see: "Documentation/admin-guide/kernel-parameters.txt",
        look: |context| {
            if context.is_guest() {
                return Ok(Look::Not(GUEST));
            }
            let Some(text) = context.optional("/sys/module/pcie_aspm/parameters/policy")? else {
                return Ok(Look::Not("no such links, or no say in them"));
            };
            let chosen = text.split(['[', ']']).nth(1).unwrap_or(&text).to_owned();
            Ok(Look::when(chosen != "performance", chosen))
        },
    },
];

fn idle(context: &Context<'_>) -> Result<Look, Unread> {
    const DIR: &str = "/sys/devices/system/cpu/cpuidle";
    if context.optional_list(DIR)?.is_none() {
        return Ok(Look::Not(if context.is_guest() { GUEST } else { "the kernel has no idle states" }));
    }
    let bound = dma_latency_us(context.machine).unwrap_or(NO_BOUND_US);
    let mut deepest: Option<(u64, String, u32)> = None;
    let mut states = 0;
    for cpu in context.online()?.iter() {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        for state in context.optional_list(&dir)?.unwrap_or_default().iter().filter(|name| name.starts_with("state")) {
            states += 1;
            let path = format!("{dir}/{state}/latency");
            let latency: u64 = context.machine.number(&path).map_err(|reason| reason.of(&path))?;
            let is_disabled = context.optional(&format!("{dir}/{state}/disable"))?.is_some_and(|text| text != "0");
            let is_reached = !is_disabled && i128::from(latency) <= i128::from(bound);
            if is_reached && deepest.as_ref().is_none_or(|(deep, ..)| latency > *deep) {
                deepest = Some((latency, context.text(&format!("{dir}/{state}/name"))?, cpu));
            }
        }
    }
    match deepest {
        None if states > 0 => Ok(Look::Ok("none in use".to_owned())),
        None if context.is_guest() => Ok(Look::Not(GUEST)),
        None => match context.text(&format!("{DIR}/current_driver"))?.as_str() {
            "none" => Ok(Look::Ok("none: no driver for them".to_owned())),
            driver => Err(Unread(format!("no CPU lists the idle states of {driver}"))),
        },
        Some((latency, name, cpu)) => Ok(Look::when(latency > DEEP_US, format!("{name}: {latency} us on CPU {cpu}"))),
    }
}

fn governors(context: &Context<'_>) -> Result<Look, Unread> {
    let mut by_name = BTreeMap::<String, Vec<u32>>::new();
    for cpu in context.online()?.iter() {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        if let Some(governor) = context.optional(&path)? {
            by_name.entry(governor).or_default().push(cpu);
        }
    }
    let slow: Vec<String> = by_name
        .iter()
        .filter(|(name, _)| *name != "performance")
        .map(|(name, cpus)| format!("{name} on CPUs {}", cpus.iter().copied().collect::<Cpus>()))
        .collect();
    Ok(match (by_name.is_empty(), slow.is_empty()) {
        (true, _) => Look::Not(if context.is_guest() { GUEST } else { "the kernel does not scale the frequency" }),
        (_, true) => Look::Ok("performance".to_owned()),
        (_, false) => Look::Problem(slow.join(", ")),
    })
}

fn siblings(context: &Context<'_>) -> Result<Look, Unread> {
    let online = context.online()?;
    if online.len() == 1 {
        return Ok(Look::Not("a machine with one CPU"));
    }
    let mut shared: Vec<(u32, Cpus)> = Vec::new();
    for cpu in online.iter() {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let text = context.text(&path)?;
        let cpus = Cpus::from_list(&text).ok_or_else(|| Unread(format!("{path}: {text:?} is no list of CPUs")))?;
        shared.extend(Some((cpu, cpus.and(online))).filter(|(_, cpus)| cpus.len() > 1));
    }
    if shared.is_empty() {
        return Ok(Look::Ok("one thread a core".to_owned()));
    }
    let Some(isolated) = context.isolated()? else {
        return Ok(Look::Problem(format!("{} CPUs share their cores", shared.len())));
    };
    let noisy = |(cpu, cpus): &&(u32, Cpus)| isolated.has(*cpu) && !cpus.without(isolated).is_empty();
    Ok(match shared.iter().find(noisy) {
        None => Look::Ok("isolated CPUs share cores only with each other".to_owned()),
        Some((cpu, cpus)) => Look::Graded(
            Severity::High,
            format!("isolated CPU {cpu} shares its core with CPU {}", cpus.without(isolated)),
        ),
    })
}
