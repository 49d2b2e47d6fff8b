// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts that come to isolated CPUs, counted twice with a pause between.

use std::time::Duration;

use crate::{Cpus, Severity, Unread};

use super::check::{Check, Look};
use super::context::Context;
use super::isolation::NONE_ISOLATED;

/// Between the two counts.
const PAUSE: Duration = Duration::from_millis(200);
/// Kinds that a line names.
const NAMED_MAX: usize = 8;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "interrupts-seen",
    title: "interrupts that come to isolated CPUs now",
    severity: Severity::Medium,
    wanted: "none of devices, and few of the kernel's own",
    why: "Each takes the CPU from whatever runs there; where an interrupt may go is one thing, that it comes another.",
    now: "echo OTHER_CPUS > /proc/irq/N/smp_affinity_list for those with a number; watch -d cat /proc/interrupts",
    keep: "irqaffinity=OTHER_CPUS, nohz_full=CPUS for the timer (LOC), and few processes that share memory across CPUs (IPIs)",
    see: "Documentation/admin-guide/cpu-isolation.rst",
    look: seen,
}];

/// Interrupts of a kind that came.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Came {
    /// A number for a device's, letters for the kernel's own.
    kind: String,
    name: String,
    count: u64,
}

/// What came to `cpus` between two readings of /proc/interrupts, the most frequent first. CPUs are told by the first
/// line.
fn came(before: &str, after: &str, cpus: &Cpus) -> Vec<Came> {
    let columns: Vec<Option<u32>> = before
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|word| word.strip_prefix("CPU").and_then(|digits| digits.parse().ok()))
        .collect();
    let counts = |line: &str| -> Option<(String, u64, String)> {
        let (kind, rest) = line.split_once(':')?;
        let mut words = rest.split_whitespace().peekable();
        let mut sum = 0u64;
        for column in &columns {
            // ERR and MIS have one number, of the whole machine.
            let count = words.peek().and_then(|word| word.parse::<u64>().ok())?;
            words.next();
            if column.is_some_and(|cpu| cpus.has(cpu)) {
                sum = sum.wrapping_add(count);
            }
        }
        Some((kind.trim().to_owned(), sum, words.last().unwrap_or_default().to_owned()))
    };
    let first: std::collections::BTreeMap<String, u64> =
        before.lines().skip(1).filter_map(counts).map(|(kind, sum, _)| (kind, sum)).collect();
    let mut list: Vec<Came> = after
        .lines()
        .skip(1)
        .filter_map(counts)
        .map(|(kind, sum, name)| {
            // A counter of 32 bits may have gone round, or a CPU gone: then nothing can be said.
            let count = sum.saturating_sub(*first.get(&kind).unwrap_or(&0));
            Came { kind, name, count }
        })
        .filter(|came| came.count > 0)
        .collect();
    list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kind.cmp(&b.kind)));
    list
}

fn seen(context: &Context<'_>) -> Result<Look, Unread> {
    let Some(isolated) = context.isolated()? else { return Ok(Look::Not(NONE_ISOLATED)) };
    let read = || context.text("/proc/interrupts");
    let before = read()?;
    context.machine.pause(PAUSE);
    let after = read()?;
    let head = before.lines().next().unwrap_or_default();
    let has_column = |cpu: u32| head.split_whitespace().any(|word| word == format!("CPU{cpu}"));
    if let Some(cpu) = isolated.and(context.online()?).iter().find(|cpu| !has_column(*cpu)) {
        return Err(Unread(format!("/proc/interrupts has no column of CPU {cpu}")));
    }
    let list = came(&before, &after, isolated);
    let shown: Vec<String> = list
        .iter()
        .take(NAMED_MAX)
        .map(|came| match came.kind.parse::<u32>() {
            Ok(number) => format!("{} of {number} ({})", came.count, came.name),
            Err(_) => format!("{} {}", came.count, came.kind),
        })
        .collect();
    let has_device = list.iter().any(|came| came.kind.parse::<u32>().is_ok());
    let during = format!("on CPUs {isolated} in {} ms", PAUSE.as_millis());
    Ok(match (list.is_empty(), has_device) {
        (true, _) => Look::Ok(format!("none {during}")),
        (false, false) => Look::Ok(format!("only the kernel's own {during}: {}", shown.join(", "))),
        (false, true) => Look::Problem(format!("{} {during}", shown.join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "           CPU0       CPU1       CPU3
  1:          9          5          0   IO-APIC   1-edge      i8042
 24:        100        200        300   PCI-MSI  virtio0-input.0
LOC:       1000       2000       3000   Local timer interrupts
ERR:          4
";

    #[test]
    fn only_what_grew_on_those_cpus_is_told() {
        let after = BEFORE.replace("200        300", "250        307").replace("2000       3000", "2000       3050");
        let after = after.replace(" 9 ", "99 ").replace("ERR:          4", "ERR:          9");
        let of = |list: &str| came(BEFORE, &after, &Cpus::from_list(list).unwrap());
        let one = |kind: &str, name: &str, count| Came { kind: kind.into(), name: name.into(), count };
        assert_eq!(of("3"), [one("LOC", "interrupts", 50), one("24", "virtio0-input.0", 7)]);
        assert_eq!(of("1,3"), [one("24", "virtio0-input.0", 57), one("LOC", "interrupts", 50)]);
        assert_eq!(of("2"), []);
        // CPU 0 has 90 of the first.
        assert_eq!(of("0"), [one("1", "i8042", 90)]);
    }

    #[test]
    fn nonsense_is_no_interrupt() {
        for text in ["", "CPU0", "CPU0\n1", "CPU0\n1: x", "CPU0 CPU1\n1: 5"] {
            assert_eq!(came(text, text, &Cpus::from_list("0-1").unwrap()), [], "{text}");
        }
    }
}
