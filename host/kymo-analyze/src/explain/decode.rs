// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flags and fields in words. What an event's fields mean is decided by their names: tracers give them the same ones.

use super::errno::{errno, signal};
use super::names::StoryNames;
use super::note::{Note, Value};
use crate::event::{Event, SOFTIRQS};
use crate::record::Class;
use crate::units::priority;

/// Bits of the kernel's allocation flags, as kernels since 4.13 number them.
const GFP: [(u32, &str); 22] = [
    (0x1, "DMA"),
    (0x2, "HIGHMEM"),
    (0x4, "DMA32"),
    (0x8, "MOVABLE"),
    (0x10, "RECLAIMABLE"),
    (0x20, "HIGH"),
    (0x40, "IO"),
    (0x80, "FS"),
    (0x100, "ZERO"),
    (0x400, "DIRECT_RECLAIM"),
    (0x800, "KSWAPD_RECLAIM"),
    (0x1000, "WRITE"),
    (0x2000, "NOWARN"),
    (0x4000, "RETRY_MAYFAIL"),
    (0x8000, "NOFAIL"),
    (0x1_0000, "NORETRY"),
    (0x2_0000, "MEMALLOC"),
    (0x4_0000, "COMP"),
    (0x8_0000, "NOMEMALLOC"),
    (0x10_0000, "HARDWALL"),
    (0x20_0000, "THISNODE"),
    (0x40_0000, "ACCOUNT"),
];

/// Sets of them that have a name, the largest first.
const GFP_SETS: [(u32, &str); 7] = [
    (0x10_0cca, "GFP_HIGHUSER_MOVABLE"),
    (0x10_0cc2, "GFP_HIGHUSER"),
    (0x10_0cc0, "GFP_USER"),
    (0xcc0, "GFP_KERNEL"),
    (0xc40, "GFP_NOFS"),
    (0xc00, "GFP_NOIO"),
    (0x820, "GFP_ATOMIC"),
];

/// Flags of `clone` that tell threads from processes.
const CLONE: [(u32, &str); 8] = [
    (0x100, "VM"),
    (0x200, "FS"),
    (0x400, "FILES"),
    (0x800, "SIGHAND"),
    (0x4000, "VFORK"),
    (0x8000, "PARENT"),
    (0x1_0000, "THREAD"),
    (0x2000_0000, "NEWPID"),
];

/// What the head of a kernel's record says of its CPU (`common_flags`, `common_preempt_count`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Interrupts are off.
    pub irqs_off: bool,
    /// A switch is wanted.
    pub need_resched: bool,
    /// A switch is wanted, but not at once.
    pub need_resched_lazy: bool,
    /// In an NMI.
    pub nmi: bool,
    /// In an interrupt.
    pub hardirq: bool,
    /// In a softirq.
    pub softirq: bool,
    /// Softirqs are off.
    pub bh_off: bool,
    /// How often preemption is off.
    pub preempt_depth: u8,
    /// How often migration is off.
    pub migrate_depth: u8,
    /// The kernel did not say: both bytes have all bits set, as records of probes have on some kernels.
    pub is_unknown: bool,
}

impl Flags {
    /// From the two bytes. All bits set is no state that a CPU can be in: then nothing of it is said.
    pub fn new(flags: u8, preempt_count: u8) -> Flags {
        const NONE: u8 = 0xff;
        if flags == NONE || preempt_count == NONE {
            return Flags { is_unknown: true, ..Flags::default() };
        }
        let has = |bit: u8| flags & bit != 0;
        Flags {
            irqs_off: has(0x01),
            // 0x20 says it of preemption's own copy of the wish.
            need_resched: has(0x04) || has(0x20),
            need_resched_lazy: has(0x02),
            nmi: has(0x40),
            hardirq: has(0x08),
            softirq: has(0x10),
            bh_off: has(0x80),
            preempt_depth: preempt_count & 0xf,
            migrate_depth: preempt_count >> 4,
            is_unknown: false,
        }
    }

    /// In words; empty where nothing is set.
    pub fn text(self) -> String {
        let words = [
            (self.is_unknown, "state of the CPU unknown"),
            (self.irqs_off, "interrupts off"),
            (self.bh_off, "softirqs off"),
            (self.need_resched, "switch wanted"),
            (self.need_resched_lazy, "switch wanted lazily"),
            (self.nmi, "in NMI"),
            (self.hardirq, "in interrupt"),
            (self.softirq, "in softirq"),
        ];
        let mut words: Vec<String> = words.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()).collect();
        for (depth, what) in [(self.preempt_depth, "preemption off"), (self.migrate_depth, "migration off")] {
            match depth {
                0 => {}
                1 => words.push(what.to_owned()),
                depth => words.push(format!("{what} {depth} times")),
            }
        }
        words.join(", ")
    }
}

/// The kernel's letter of a sleeping thread in words.
pub(super) fn state(letter: u8) -> &'static str {
    match letter {
        b'S' => "sleeps",
        b'D' => "sleeps uninterruptibly",
        b'T' => "is stopped",
        b't' => "is stopped by a tracer",
        b'P' => "is parked",
        b'I' => "sleeps as an idle kernel thread",
        b'X' | b'Z' => "ends",
        _ => "sleeps",
    }
}

/// All fields of a record: `name=value`, each decoded.
pub(super) fn fields(names: &StoryNames<'_>, note: &Note) -> String {
    let class = &names.classes[note.class];
    let shown = note.values.iter().filter_map(|(index, value)| {
        let field = class.fields.get(*index)?;
        Some(format!("{}={}", field.name, one(names, note, class, &field.name, value)))
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn one(names: &StoryNames<'_>, note: &Note, class: &Class, field: &str, value: &Value) -> String {
    let number = match value {
        Value::Text(text) => return text.clone(),
        Value::Float(value) => return value.to_string(),
        Value::Integer(number) => *number,
    };
    let bare = class.name.rsplit(':').next().unwrap_or_default();
    let plain = number.to_string();
    let word = match field {
        "ret" | "error" | "err" => returned(number as i64),
        "sig" if bare.starts_with("signal") => signal(number as i64).unwrap_or(plain),
        "vec" if bare.contains("softirq") => softirq(number),
        "gfp_flags" | "gfp" => bits(number, &GFP_SETS, &GFP, "__GFP_"),
        "clone_flags" => bits(number, &[], &CLONE, "CLONE_"),
        "prio" | "oldprio" | "newprio" | "prev_prio" | "next_prio" => priority_of(class, number),
        "function" | "caller_ip" | "call_site" | "callsite" | "location" | "parent_ip" | "work_func" => {
            names.kernel(number as u64)
        }
        "caller_offs" | "parent_offs" => names.symbols.kernel_offset(number as i64).unwrap_or(plain),
        "ip" | "address" => user(names, note, number as u64),
        "hrtimer" | "timer" | "skaddr" | "skbaddr" => hex(number),
        _ if field.ends_with("addr") || field.ends_with("ptr") => hex(number),
        // Arguments of calls are numbers to the kernel; these can only be addresses.
        _ if matches!(note.event, Some(Event::Call { .. })) && number >= 1 << 40 => hex(number),
        _ if number >= 1 << 63 => hex(number),
        _ => plain,
    };
    if word.is_empty() { number.to_string() } else { word }
}

fn hex(number: i128) -> String {
    format!("{:#x}", number as u64)
}

/// `-11 EAGAIN`, or the number as it is.
pub(super) fn returned(value: i64) -> String {
    match errno(value.saturating_neg()) {
        Some(name) => format!("{value} {name}"),
        None => value.to_string(),
    }
}

fn softirq(vec: i128) -> String {
    let name = usize::try_from(vec).ok().and_then(|vec| SOFTIRQS.get(vec));
    name.map_or(vec.to_string(), |name| (*name).to_owned())
}

/// LTTng's layout has the kernel's priority minus 100.
fn priority_of(class: &Class, number: i128) -> String {
    let of_lttng = class.fields.iter().any(|field| matches!(field.name.as_str(), "tid" | "prev_tid" | "next_tid"));
    let kernel = number.saturating_add(if of_lttng { 100 } else { 0 });
    i16::try_from(kernel).map_or(number.to_string(), priority)
}

/// Names of set bits; what has no name as a number.
fn bits(number: i128, sets: &[(u32, &str)], single: &[(u32, &str)], start: &str) -> String {
    let Ok(mut rest) = u32::try_from(number & 0xffff_ffff) else { return number.to_string() };
    let mut words = Vec::new();
    if let Some((set, name)) = sets.iter().find(|(set, _)| rest & set == *set) {
        words.push((*name).to_owned());
        rest &= !set;
    }
    for (bit, name) in single.iter().filter(|(bit, _)| number as u32 & *bit != 0) {
        if rest & bit != 0 {
            words.push(format!("{start}{name}"));
            rest &= !bit;
        }
    }
    if rest != 0 || words.is_empty() {
        words.push(format!("{rest:#x}"));
    }
    words.join("|")
}

/// An address of the program, or of the kernel.
fn user(names: &StoryNames<'_>, note: &Note, address: u64) -> String {
    const KERNEL: u64 = 1 << 63;
    if address & KERNEL != 0 {
        return names.kernel(address);
    }
    let process = note.head.tid.and_then(|tid| names.process(tid).or(Some(tid)));
    let found = process.and_then(|process| names.symbols.user(process, address, note.head.time));
    found.map_or_else(|| format!("{address:#x}"), |text| format!("{address:#x} {text}"))
}

/// The call stack of a record.
pub(super) fn stack(names: &StoryNames<'_>, note: &Note) -> Vec<String> {
    note.stack.iter().map(|address| user(names, note, *address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names() {
        for (number, expect) in [
            (0xcc0, "GFP_KERNEL"),
            (0x820, "GFP_ATOMIC"),
            (0xdc0, "GFP_KERNEL|__GFP_ZERO"),
            (0x0, "0x0"),
            (0x8000_0001, "__GFP_DMA|0x80000000"),
        ] {
            assert_eq!(bits(number, &GFP_SETS, &GFP, "__GFP_"), expect, "{number:#x}");
        }
    }

    #[test]
    fn flags_of_a_kernels_record() {
        let check = |flags: u8, count: u8, expect: &str| assert_eq!(Flags::new(flags, count).text(), expect);
        check(0, 0, "");
        check(0x0d, 0x12, "interrupts off, switch wanted, in interrupt, preemption off 2 times, migration off");
        check(0x90, 1, "softirqs off, in softirq, preemption off");
        check(0x40, 0xf, "in NMI, preemption off 15 times");
        check(0xff, 0xff, "state of the CPU unknown");
        check(0xff, 0, "state of the CPU unknown");
        check(0, 0xff, "state of the CPU unknown");
    }

    #[test]
    fn returned_errors_have_names() {
        assert_eq!((returned(-11), returned(0), returned(-5000)), ("-11 EAGAIN".into(), "0".into(), "-5000".into()));
    }
}
