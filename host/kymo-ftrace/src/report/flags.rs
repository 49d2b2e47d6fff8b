// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of flags, in words.

/// A column of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Interrupts off.
    Irqs,
    /// Interrupts off, softirqs off, or both, of kernels since 5.12.
    IrqsOrSoftirqs,
    /// A switch is wanted.
    NeedResched,
    /// A switch is wanted lazily.
    NeedReschedLazy,
    /// NMI, interrupt, softirq.
    Context,
    /// How often preemption is off.
    PreemptDepth,
    /// How often lazy preemption is off.
    PreemptLazyDepth,
    /// How often migration is off.
    MigrateDepth,
    /// The big kernel lock, of kernels before 2.6.39.
    LockDepth,
    /// One that is not known.
    Other,
}

impl Column {
    /// By its name in the head. `None` for the CPU, which is a number of its own in each line.
    pub(super) fn by_legend(name: &str) -> Option<Column> {
        Some(match name {
            "CPU#" | "delay" => return None,
            "irqs-off/BH-disabled" => Column::IrqsOrSoftirqs,
            _ if name.starts_with("irqs-off") => Column::Irqs,
            "need-resched" => Column::NeedResched,
            "need-resched-lazy" | "need-resched_lazy" => Column::NeedReschedLazy,
            "hardirq/softirq" => Column::Context,
            "preempt-depth" => Column::PreemptDepth,
            "preempt-lazy-depth" => Column::PreemptLazyDepth,
            "lock-depth" => Column::LockDepth,
            "migrate-disable" => Column::MigrateDepth,
            _ => Column::Other,
        })
    }

    /// One character of it. Empty: nothing is set.
    fn word(self, flag: char) -> String {
        let known = match (self, flag) {
            (_, '.') => "",
            (Column::Irqs | Column::IrqsOrSoftirqs, 'd') => "interrupts off",
            (Column::IrqsOrSoftirqs, 'D') => "interrupts and softirqs off",
            (Column::IrqsOrSoftirqs, 'b') => "softirqs off",
            (Column::Irqs, 'D') => "interrupts off in hardware",
            (Column::Irqs | Column::IrqsOrSoftirqs, 'X') => "interrupts: not told by this architecture",
            (Column::NeedResched, 'N') => "switch wanted",
            (Column::NeedResched, 'n') => "switch wanted (by the thread's flag only)",
            (Column::NeedResched, 'p') => "switch wanted (by preemption's flag only)",
            (Column::NeedResched, 'B') => "switch wanted (at once, and lazily)",
            (Column::NeedResched, 'b') => "switch wanted (by the thread's flag, and lazily)",
            (Column::NeedResched, 'L') => "switch wanted (by preemption's flag, and lazily)",
            (Column::NeedResched | Column::NeedReschedLazy, 'l' | 'L' | 'N') => "switch wanted lazily",
            (Column::Context, 'Z') => "in NMI over an interrupt",
            (Column::Context, 'z') => "in NMI",
            (Column::Context, 'H') => "in interrupt over a softirq",
            (Column::Context, 'h') => "in interrupt",
            (Column::Context, 's') => "in softirq",
            (Column::LockDepth, _) => "big kernel lock held",
            (Column::PreemptDepth, depth) => return times("preemption off", depth),
            (Column::PreemptLazyDepth, depth) => return times("lazy preemption off", depth),
            (Column::MigrateDepth, depth) => return times("migration off", depth),
            (_, other) => return format!("{other:?}"),
        };
        known.to_owned()
    }
}

fn times(what: &str, depth: char) -> String {
    match depth.to_digit(16) {
        Some(0) => String::new(),
        Some(1) => what.to_owned(),
        Some(depth) => format!("{what} {depth} times"),
        None => format!("{what} {depth:?} times"),
    }
}

/// Flags in words; `nothing off, nothing wanted` where none is set.
pub fn in_words(columns: &[Column], flags: &str) -> String {
    // A line may have more characters than the head has columns, where a report was put together by hand.
    let columns = columns.iter().copied().chain(std::iter::repeat(Column::Other));
    let words = columns.zip(flags.chars()).map(|(column, flag)| column.word(flag)).filter(|word| !word.is_empty());
    let words: Vec<String> = words.collect();
    if words.is_empty() { "nothing off, nothing wanted".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_in_words() {
        use Column::{Context, IrqsOrSoftirqs, MigrateDepth, NeedResched, PreemptDepth};
        let five = [IrqsOrSoftirqs, NeedResched, Context, PreemptDepth, MigrateDepth];
        for (flags, expect) in [
            (".....", "nothing off, nothing wanted"),
            ("dNh2.", "interrupts off, switch wanted, in interrupt, preemption off 2 times"),
            ("b.s.1", "softirqs off, in softirq, migration off"),
            ("D..1.?", "interrupts and softirqs off, preemption off, '?'"),
            ("d..a.", "interrupts off, preemption off 10 times"),
        ] {
            assert_eq!(in_words(&five, flags), expect, "{flags}");
        }
    }
}
