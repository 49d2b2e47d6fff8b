// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks, and what the firmware and the machine check do behind the kernel's back.

use crate::environment::cpuinfo;
use crate::{Severity, Unread};

use super::check::{Check, Look};
use super::context::Context;

const NOT_X86: &str = "only on x86";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const GUEST: &str = "a guest does not see it: look at the host";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "clock-source",
        title: "clock of the kernel",
        severity: Severity::High,
        wanted: "tsc on x86 (kvm-clock in a guest), arch_sys_counter on Arm",
        why: "Others take a microsecond for each reading, outside of the processor, and one reader at a time.",
        now: "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, if it is available",
        keep: "tsc=reliable on the kernel's command line, if the TSC is; dmesg | grep -i tsc says why it was given up",
        see: "Documentation/admin-guide/kernel-parameters.txt",
        look: |context| {
            let name = context.text(CLOCK)?;
            let is_slow = matches!(name.as_str(), "hpet" | "acpi_pm" | "pit" | "jiffies" | "refined-jiffies");
            Ok(Look::when(is_slow, name))
        },
    },
    Check {
        id: "tsc-watchdog",
        title: "watchdog of the TSC",
        severity: Severity::Medium,
        wanted: "tsc=reliable or tsc=nowatchdog on the command line, where the TSC is sound",
        why: "Twice a second a timer on one CPU after the other compares the clocks, on isolated CPUs, too.",
        now: "cannot be set while the kernel runs",
        keep: "tsc=reliable on the kernel's command line",
        see: "Documentation/admin-guide/kernel-parameters.txt",
        look: tsc_watchdog,
    },
    Check {
        id: "firmware-interrupts",
        title: "interrupts of the firmware (SMI) since boot",
        severity: Severity::Medium,
        wanted: "a count that stands still",
        why: "The firmware stops all CPUs for them, up to milliseconds, and no kernel can hold them off.",
        now: "kymo hwlat shows whether they come while you measure",
        keep: "the firmware's setup (USB legacy support, power capping, memory scrubbing), or a newer firmware",
        see: "Documentation/trace/hwlat_detector.rst",
        look: smi,
    },
    Check {
        id: "machine-check",
        title: "polling for corrected errors",
        severity: Severity::Info,
        wanted: "check_interval = 0 while it matters",
        why: "A timer on each CPU reads the error banks every five minutes.",
        now: "echo 0 > /sys/devices/system/machinecheck/machinecheck0/check_interval",
        keep: "mce=ignore_ce on the kernel's command line",
        see: "Documentation/arch/x86/x86_64/machinecheck.rst",
        look: |context| {
            let path = "/sys/devices/system/machinecheck/machinecheck0/check_interval";
            Ok(match context.optional_number::<u64>(path)? {
                None => Look::Not("this kernel does not poll"),
                Some(seconds) => Look::when(seconds > 0, format!("every {seconds} s")),
            })
        },
    },
];

fn tsc_watchdog(context: &Context<'_>) -> Result<Look, Unread> {
    if !context.is_x86()? {
        return Ok(Look::Not(NOT_X86));
    }
    if context.text(CLOCK)? != "tsc" {
        return Ok(Look::Not("the clock is not the TSC"));
    }
    if matches!(context.parameter("tsc")?, Some("reliable" | "nowatchdog")) {
        return Ok(Look::Ok("off by the command line".to_owned()));
    }
    let flags = cpuinfo(context.machine, "flags").unwrap_or_default();
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    // Since 5.16 the kernel trusts such a TSC by itself, on machines with few sockets.
    if has("tsc_known_freq") && context.is_guest() {
        return Ok(Look::Not(GUEST));
    }
    let is_trusted = context.release()? >= (5, 16) && has("constant_tsc") && has("nonstop_tsc") && has("tsc_adjust");
    Ok(Look::when(!is_trusted, if is_trusted { "off: the kernel trusts this TSC" } else { "on" }))
}

fn smi(context: &Context<'_>) -> Result<Look, Unread> {
    /// MSR_SMI_COUNT.
    const COUNT: u64 = 0x34;
    if !context.is_x86()? {
        return Ok(Look::Not(NOT_X86));
    }
    if context.is_guest() {
        return Ok(Look::Not(GUEST));
    }
    if cpuinfo(context.machine, "vendor_id").as_deref() != Some("GenuineIntel") {
        return Err(Unread("only Intel's processors count them".to_owned()));
    }
    let value = context
        .machine
        .register("/dev/cpu/0/msr", COUNT)
        .map_err(|reason| Unread(format!("/dev/cpu/0/msr: {} (modprobe msr)", reason.0)))?;
    Ok(Look::when(value & 0xffff_ffff != 0, (value & 0xffff_ffff).to_string()))
}
