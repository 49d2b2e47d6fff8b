// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts: which device's handler an interrupt number belongs to, and how often it has come.
//!
//! As in LTTng's dump there is a record per handler; a number without a handler has none. The processor's own
//! interrupts (`LOC`, `RES` in /proc/interrupts) have no number and are left out.

use std::collections::BTreeMap;

use crate::access::Trees;
use crate::class::StateRecordClass;
use crate::process::Handler;
use crate::record::Sink;
use crate::text::{lines, number, tidy, words};

/// The kernel cuts a thread's name to this, where it does not keep the whole.
const COMM_BYTES: usize = 15;

/// What /proc/interrupts says of one number.
#[derive(Default)]
struct InterruptRow<'a> {
    count: u64,
    /// Chip, kind and handlers.
    rest: &'a [u8],
}

/// Dumps one record per handler of an interrupt. `threads` are the threads that run handlers.
pub(crate) fn dump(trees: &Trees, threads: &[Handler], sink: &mut Sink<'_>) {
    let text = trees.proc_bytes("interrupts");
    let mut rows = rows(&text);
    for irq in trees.sys_names("kernel/irq").iter().filter_map(|name| number::<u32>(name.as_bytes())) {
        rows.entry(irq).or_insert_with(|| InterruptRow { count: count(trees, irq), rest: b"" });
    }
    for (irq, row) in rows {
        let (shown_chip, shown_actions) = describe(row.rest);
        let file = |name: &str| tidy(&trees.sys_bytes(&format!("kernel/irq/{irq}/{name}")));
        let chip = Some(file("chip_name")).filter(|chip| !chip.is_empty()).unwrap_or(shown_chip);
        let actions = Some(file("actions")).filter(|actions| !actions.is_empty()).unwrap_or(shown_actions);
        for action in actions.split(',').map(str::trim).filter(|action| !action.is_empty()) {
            let tid = thread_of(threads, irq, action);
            sink.emit(StateRecordClass::Interrupt, 0, |payload| {
                payload.u32(irq).text(chip.as_bytes()).text(action.as_bytes()).i32(tid).u64(row.count);
            });
        }
    }
}

/// The rows of /proc/interrupts that have a number.
fn rows(text: &[u8]) -> BTreeMap<u32, InterruptRow<'_>> {
    let mut lines = lines(text);
    let columns = lines.next().map_or(0, |head| words(head).filter(|word| word.starts_with(b"CPU")).count());
    lines.filter_map(|line| row(line, columns)).collect()
}

/// `24:  1  0  IO-APIC  5-edge  name`, with a number for each of the `columns`.
fn row(line: &[u8], columns: usize) -> Option<(u32, InterruptRow<'_>)> {
    let colon = line.iter().position(|&b| b == b':')?;
    let irq = number(line[..colon].trim_ascii())?;
    let mut row = InterruptRow { count: 0, rest: line[colon + 1..].trim_ascii() };
    for _ in 0..columns {
        let end = row.rest.iter().position(u8::is_ascii_whitespace).unwrap_or(row.rest.len());
        let Some(count) = number::<u64>(&row.rest[..end]) else { break };
        row.count = row.count.saturating_add(count);
        row.rest = row.rest[end..].trim_ascii();
    }
    Some((irq, row))
}

/// The chip and the handlers as far as the text shows them. /sys/kernel/irq has them one by one; this is for kernels
/// without it.
fn describe(rest: &[u8]) -> (String, String) {
    let rest = tidy(rest);
    let mut parts = rest.split_ascii_whitespace();
    let chip = parts.next().unwrap_or("").to_owned();
    // The hardware's number and the kind of trigger, in one word or in two.
    let is_kind = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) || matches!(*word, "Level" | "Edge");
    (chip, parts.skip_while(is_kind).collect::<Vec<_>>().join(" "))
}

/// The sum over the CPUs from sysfs: `1,0,17`.
fn count(trees: &Trees, irq: u32) -> u64 {
    let counts = trees.sys_bytes(&format!("kernel/irq/{irq}/per_cpu_count"));
    let counts = counts.trim_ascii().split(|&b| b == b',').filter_map(number::<u64>);
    counts.fold(0, u64::saturating_add)
}

/// The thread that runs a handler; 0 if it runs in the interrupt itself.
fn thread_of(threads: &[Handler], irq: u32, action: &str) -> i32 {
    let whole = format!("irq/{irq}-{action}");
    let is_it = |thread: &&Handler| {
        let cut = thread.name.len() >= COMM_BYTES && whole.as_bytes().starts_with(&thread.name);
        cut || thread.name == whole.as_bytes()
    };
    threads.iter().find(is_it).map_or(0, |thread| thread.tid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_text() {
        let text = b"           CPU0       CPU1       \n 24:          1          2  IO-APIC   5-edge      ACPI:Ged\n\
                     LOC:    4883256    4335381   Local timer interrupts\nERR:          0\n 7:  5\n9:\n:\n";
        let rows = rows(text);
        assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [7, 9, 24]);
        assert_eq!((rows[&24].count, rows[&24].rest), (3, &b"IO-APIC   5-edge      ACPI:Ged"[..]));
        assert_eq!((rows[&7].count, rows[&7].rest), (5, &b""[..]));
    }

    #[test]
    fn descriptions() {
        let check = |text: &str, chip: &str, actions: &str| {
            assert_eq!(describe(text.as_bytes()), (chip.to_owned(), actions.to_owned()), "{text:?}");
        };
        check("IO-APIC   5-edge      ACPI:Ged", "IO-APIC", "ACPI:Ged");
        check(
            "IR-PCI-MSI-0000:00:1f.2    0-edge      ahci[0000:00:1f.2]",
            "IR-PCI-MSI-0000:00:1f.2",
            "ahci[0000:00:1f.2]",
        );
        check("GICv3  27 Level     arch_timer", "GICv3", "arch_timer");
        check("IO-APIC  16-fasteoi   ehci_hcd:usb1, i801_smbus", "IO-APIC", "ehci_hcd:usb1, i801_smbus");
        check("", "", "");
    }

    #[test]
    fn threads_of_handlers() {
        let threads = [(&b"irq/26-ttyS0"[..], 5), (b"irq/27-a-long-n", 6), (b"irq/2", 7)];
        let threads = threads.map(|(name, tid)| Handler { name: name.to_vec(), tid });
        assert_eq!(thread_of(&threads, 26, "ttyS0"), 5);
        assert_eq!(thread_of(&threads, 26, "ttyS01"), 0);
        assert_eq!(thread_of(&threads, 27, "a-long-name"), 6);
        assert_eq!(thread_of(&threads, 28, "ttyS0"), 0);
    }

    #[test]
    fn sums_do_not_overflow() {
        let text = format!("CPU0 CPU1\n1: {max} {max} chip 1-edge x\n", max = u64::MAX);
        assert_eq!(rows(text.as_bytes())[&1].count, u64::MAX);
    }
}
