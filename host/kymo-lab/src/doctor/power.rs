// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle states, frequencies, siblings and heat.

use std::collections::BTreeMap;

use crate::environment::{dma_latency_us, idle_states_of};
use crate::{Cpus, Severity};

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
        look: |context| match dma_latency_us(context.machine) {
            None => Look::Unread("/dev/cpu_dma_latency is absent, or not for you".to_owned()),
            Some(us) => {
                Look::when(us < NO_BOUND_US, if us < NO_BOUND_US { format!("at {us} us") } else { "nobody".to_owned() })
            }
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
            let of = |path: &str| context.machine.number::<u32>(&format!("/sys/devices/system/cpu/{path}"));
            match (of("intel_pstate/no_turbo"), of("cpufreq/boost")) {
                _ if context.guest.is_some() => Look::Not(GUEST),
                (Ok(off), _) => Look::when(off == 0, if off == 0 { "on" } else { "off" }),
                (_, Ok(on)) => Look::when(on != 0, if on != 0 { "on" } else { "off" }),
                _ => Look::Not("no such frequencies, or no say in them"),
            }
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
            let of = |cpu| {
                context
                    .machine
                    .number::<u64>(&format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"))
                    .ok()
            };
            let counts: Vec<u64> = context.online.iter().filter_map(of).collect();
            match counts.iter().max() {
                None => Look::Not("this processor does not tell"),
                Some(most) => Look::when(*most > 0, format!("{most} times")),
            }
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
            let devices = context.machine.list(dir).unwrap_or_default();
            let is_managed = |name: &&String| {
                context.machine.text(&format!("{dir}/{name}/power/control")).is_ok_and(|text| text == "auto")
            };
            let managed: Vec<&str> = devices.iter().filter(is_managed).map(String::as_str).collect();
            match (devices.is_empty(), managed.is_empty()) {
                (true, _) => Look::Not("no i915 graphics"),
                (_, true) => Look::Ok("on".to_owned()),
                (_, false) => Look::Problem(format!("auto for {}", managed.join(" "))),
            }
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
        look: |context| match context.machine.text("/sys/module/pcie_aspm/parameters/policy") {
            _ if context.guest.is_some() => Look::Not(GUEST),
            Err(_) => Look::Not("no such links, or no say in them"),
            Ok(text) => {
                let chosen = text.split(['[', ']']).nth(1).unwrap_or(&text).to_owned();
                Look::when(chosen != "performance", chosen)
            }
        },
    },
];

fn idle(context: &Context<'_>) -> Look {
    if !context.machine.has("/sys/devices/system/cpu/cpuidle") {
        return Look::Not(if context.guest.is_some() { GUEST } else { "the kernel has no idle states" });
    }
    let bound = dma_latency_us(context.machine).unwrap_or(NO_BOUND_US);
    let mut deepest: Option<(u64, String, u32)> = None;
    let mut states = 0;
    for cpu in context.online.iter() {
        for state in idle_states_of(context.machine, cpu) {
            states += 1;
            let is_reached = !state.is_disabled && i128::from(state.latency_us) <= i128::from(bound);
            if is_reached && deepest.as_ref().is_none_or(|(latency, ..)| state.latency_us > *latency) {
                deepest = Some((state.latency_us, state.name, cpu));
            }
        }
    }
    match deepest {
        _ if states == 0 && context.guest.is_some() => Look::Not(GUEST),
        None => Look::Ok("none in use".to_owned()),
        Some((latency, name, cpu)) => Look::when(latency > DEEP_US, format!("{name}: {latency} us on CPU {cpu}")),
    }
}

fn governors(context: &Context<'_>) -> Look {
    let of = |cpu| context.machine.text(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")).ok();
    let mut by_name = BTreeMap::<String, Vec<u32>>::new();
    for cpu in context.online.iter() {
        if let Some(governor) = of(cpu) {
            by_name.entry(governor).or_default().push(cpu);
        }
    }
    let slow: Vec<String> = by_name
        .iter()
        .filter(|(name, _)| *name != "performance")
        .map(|(name, cpus)| format!("{name} on CPUs {}", cpus.iter().copied().collect::<Cpus>()))
        .collect();
    match (by_name.is_empty(), slow.is_empty()) {
        (true, _) => Look::Not(if context.guest.is_some() { GUEST } else { "the kernel does not scale the frequency" }),
        (_, true) => Look::Ok("performance".to_owned()),
        (_, false) => Look::Problem(slow.join(", ")),
    }
}

fn siblings(context: &Context<'_>) -> Look {
    let of =
        |cpu| context.machine.text(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok();
    let shared: Vec<(u32, Cpus)> = context
        .online
        .iter()
        .filter_map(|cpu| Some((cpu, Cpus::from_list(&of(cpu)?)?.and(&context.online))))
        .filter(|(_, cpus)| cpus.len() > 1)
        .collect();
    if shared.is_empty() {
        return Look::Ok("one thread a core".to_owned());
    }
    if context.isolated.is_empty() {
        return Look::Problem(format!("{} CPUs share their cores", shared.len()));
    }
    let noisy = |(cpu, cpus): &&(u32, Cpus)| context.isolated.has(*cpu) && !cpus.without(&context.isolated).is_empty();
    match shared.iter().find(noisy) {
        None => Look::Ok("isolated CPUs share cores only with each other".to_owned()),
        Some((cpu, cpus)) => Look::Graded(
            Severity::High,
            format!("isolated CPU {cpu} shares its core with CPU {}", cpus.without(&context.isolated)),
        ),
    }
}
