// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's events and fields are called in a trace [spec/trace.md 8.2]: one table from the kernel's names to
//! LTTng's, which the viewers know.

/// Whose names a trace uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// LTTng's names, layout and values: viewers run their kernel analyses on the trace.
    #[default]
    Lttng,
    /// `system:event` and fields as in the kernel's format files.
    Kernel,
}

/// How a field's value becomes that of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convert {
    /// As it is.
    Plain,
    /// A priority: 100 less, so that 0 divides real-time priorities from the others.
    Priority,
    /// The letters of a block request as bits.
    Rwbs,
    /// A system call's argument, which the kernel keeps in a long: cut to its own type.
    Argument,
}

/// Events whose name follows no rule.
const EVENTS: &[(&str, &str, &str)] = &[
    ("ftrace", "print", "lttng_logger"),
    ("kvm", "kvm_entry", "kvm_x86_entry"),
    ("kvm", "kvm_exit", "kvm_x86_exit"),
    ("net", "netif_receive_skb", "net_if_receive_skb"),
    ("net", "netif_rx", "net_if_rx"),
    ("skb", "consume_skb", "skb_consume"),
    ("skb", "kfree_skb", "skb_kfree"),
];

/// Systems whose prefix is not their own name.
const PREFIXES: &[(&str, &str)] =
    &[("exceptions", "x86_exceptions"), ("irq_vectors", "x86_irq_vectors"), ("vmscan", "mm_vmscan")];

/// Fields that have another name or value, by system: (system, kernel's name, name in the trace, value).
const FIELDS: &[(&str, &str, &str, Convert)] = &[
    ("sched", "pid", "tid", Convert::Plain),
    ("sched", "prev_pid", "prev_tid", Convert::Plain),
    ("sched", "next_pid", "next_tid", Convert::Plain),
    ("sched", "parent_pid", "parent_tid", Convert::Plain),
    ("sched", "child_pid", "child_tid", Convert::Plain),
    ("sched", "old_pid", "old_tid", Convert::Plain),
    ("sched", "prio", "prio", Convert::Priority),
    ("sched", "prev_prio", "prev_prio", Convert::Priority),
    ("sched", "next_prio", "next_prio", Convert::Priority),
    ("sched", "oldprio", "oldprio", Convert::Priority),
    ("sched", "newprio", "newprio", Convert::Priority),
    ("block", "rwbs", "rwbs", Convert::Rwbs),
    ("ftrace", "buf", "msg", Convert::Plain),
];

/// Fields that LTTng's events do not have.
const DROPPED: &[(&str, &str)] = &[("syscalls", "__syscall_nr"), ("ftrace", "ip")];

/// Fields that LTTng's events have and the kernel's lack; readers ask for them. Their value is -1: the kernel does not
/// say.
const UNKNOWN: &[(&str, &str, &[&str])] = &[("sched", "sched_process_fork", &["parent_pid", "child_pid"])];

impl Naming {
    /// Fields (`i32`, -1) behind those of the kernel.
    pub(crate) fn unknown_fields(self, system: &str, event: &str) -> &'static [&'static str] {
        let row = UNKNOWN.iter().find(|(of, name, _)| self == Naming::Lttng && *of == system && *name == event);
        row.map_or(&[], |(_, _, fields)| fields)
    }

    /// Name of an event in the trace.
    pub fn event(self, system: &str, event: &str) -> String {
        if self == Naming::Kernel {
            return format!("{system}:{event}");
        }
        if let Some((_, _, name)) = EVENTS.iter().find(|(of, name, _)| *of == system && *name == event) {
            return (*name).to_owned();
        }
        if system == "syscalls" {
            let renamed = event
                .strip_prefix("sys_enter_")
                .map(|call| format!("syscall_entry_{call}"))
                .or_else(|| event.strip_prefix("sys_exit_").map(|call| format!("syscall_exit_{call}")));
            if let Some(name) = renamed {
                return name;
            }
        }
        let prefix = PREFIXES.iter().find(|(of, _)| *of == system).map_or(system, |(_, prefix)| prefix);
        match event.strip_prefix(prefix) {
            Some(rest) if rest.is_empty() || rest.starts_with('_') => event.to_owned(),
            _ => format!("{prefix}_{event}"),
        }
    }

    /// Name of a field in the trace and what becomes of its value; `None` where the trace has no such field.
    pub fn field(self, system: &str, field: &str) -> Option<(String, Convert)> {
        if self == Naming::Kernel {
            return Some((field.to_owned(), Convert::Plain));
        }
        if DROPPED.contains(&(system, field)) {
            return None;
        }
        let row = FIELDS.iter().find(|(of, name, _, _)| *of == system && *name == field);
        let other = if system == "syscalls" { Convert::Argument } else { Convert::Plain };
        Some(row.map_or_else(|| (field.to_owned(), other), |(_, _, name, convert)| ((*name).to_owned(), *convert)))
    }

    /// The kernel's names behind those of the trace, for the documentation and its test: rows of the tables above.
    pub fn table() -> impl Iterator<Item = (String, String)> {
        let events = EVENTS.iter().map(|(system, event, name)| (format!("{system}:{event}"), (*name).to_owned()));
        let prefixes = PREFIXES.iter().map(|(system, prefix)| (format!("{system}:*"), format!("{prefix}_*")));
        let fields = FIELDS.iter().map(|(system, field, name, convert)| {
            let value = match convert {
                Convert::Priority => " - 100",
                Convert::Rwbs => " as bits",
                Convert::Plain | Convert::Argument => "",
            };
            (format!("{system}:*.{field}"), format!("{name}{value}"))
        });
        events.chain(prefixes).chain(fields)
    }
}

/// The bits of a block request's letters, as LTTng gives them.
pub(crate) fn rwbs_bits(letters: &[u8]) -> u32 {
    const WRITE: u32 = 1;
    const DISCARD: u32 = 1 << 1;
    const READ: u32 = 1 << 2;
    const READ_AHEAD: u32 = 1 << 3;
    const SYNC: u32 = 1 << 5;
    const META: u32 = 1 << 6;
    const SECURE: u32 = 1 << 7;
    const FLUSH: u32 = 1 << 8;
    const FUA: u32 = 1 << 9;
    const PREFLUSH: u32 = 1 << 10;
    let mut bits = 0;
    for (at, letter) in letters.iter().take_while(|letter| **letter != 0).enumerate() {
        bits |= match letter {
            b'W' => WRITE,
            b'D' => DISCARD,
            b'R' => READ,
            b'A' => READ_AHEAD,
            b'S' => SYNC,
            b'M' => META,
            b'E' => SECURE,
            // In front of the others it is a flush before the request; alone, a flush; behind them, forced unit access.
            b'F' if at == 0 && letters.get(1).is_none_or(|next| *next == 0 || *next == b'F') => FLUSH,
            b'F' if at == 0 => PREFLUSH,
            b'F' => FUA,
            _ => 0,
        };
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_get_lttngs_names() {
        for (system, event, expect) in [
            ("sched", "sched_switch", "sched_switch"),
            ("irq", "irq_handler_entry", "irq_handler_entry"),
            ("irq", "softirq_entry", "irq_softirq_entry"),
            ("irq_vectors", "local_timer_entry", "x86_irq_vectors_local_timer_entry"),
            ("exceptions", "page_fault_user", "x86_exceptions_page_fault_user"),
            ("timer", "hrtimer_start", "timer_hrtimer_start"),
            ("timer", "timer_start", "timer_start"),
            ("kmem", "mm_page_alloc", "kmem_mm_page_alloc"),
            ("kmem", "kmem_cache_alloc", "kmem_cache_alloc"),
            ("power", "cpu_frequency", "power_cpu_frequency"),
            ("preemptirq", "irq_disable", "preemptirq_irq_disable"),
            ("net", "netif_receive_skb", "net_if_receive_skb"),
            ("net", "net_dev_queue", "net_dev_queue"),
            ("block", "block_rq_issue", "block_rq_issue"),
            ("syscalls", "sys_enter_openat", "syscall_entry_openat"),
            ("syscalls", "sys_exit_openat", "syscall_exit_openat"),
            ("kvm", "kvm_exit", "kvm_x86_exit"),
            ("vmscan", "mm_vmscan_wakeup_kswapd", "mm_vmscan_wakeup_kswapd"),
        ] {
            assert_eq!(Naming::Lttng.event(system, event), expect);
            assert_eq!(Naming::Kernel.event(system, event), format!("{system}:{event}"));
        }
    }

    /// spec/trace.md has the same table.
    #[test]
    fn the_table_is_documented() {
        let spec = include_str!("../../../spec/trace.md");
        let mut count = 0;
        for (kernel, trace) in Naming::table() {
            assert!(
                spec.contains(&format!("| `{kernel}` | `{trace}`")),
                "{kernel} -> {trace} is not in spec/trace.md 8.2"
            );
            count += 1;
        }
        let section = spec.split("### 8.2").nth(1).and_then(|rest| rest.split("### 8.3").next()).unwrap_or_default();
        assert_eq!(
            section.lines().filter(|line| line.starts_with("| `")).count(),
            count,
            "rows without a place in the table"
        );
    }

    #[test]
    fn fields_get_lttngs_names() {
        let field = |system, name| Naming::Lttng.field(system, name);
        assert_eq!(field("sched", "prev_pid"), Some(("prev_tid".to_owned(), Convert::Plain)));
        assert_eq!(field("sched", "prio"), Some(("prio".to_owned(), Convert::Priority)));
        assert_eq!(field("signal", "pid"), Some(("pid".to_owned(), Convert::Plain)));
        assert_eq!(field("syscalls", "__syscall_nr"), None);
        assert_eq!(Naming::Kernel.field("sched", "prio"), Some(("prio".to_owned(), Convert::Plain)));
    }

    #[test]
    fn letters_of_block_requests() {
        for (letters, bits) in
            [("W", 1), ("R", 4), ("RA", 12), ("WS", 33), ("FF", 0x300), ("FWFS", 0x621), ("N", 0), ("DS\0W", 34)]
        {
            assert_eq!(rwbs_bits(letters.as_bytes()), bits, "{letters}");
        }
    }
}
