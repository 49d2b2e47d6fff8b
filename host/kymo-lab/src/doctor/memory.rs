// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel does with memory behind a program's back.

use crate::Severity;

use super::check::{Check, Look};
use super::scheduler::{NO_SETTING, number_is};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "swap",
        title: "swap",
        severity: Severity::Medium,
        wanted: "none, or every real-time program locks its memory",
        why: "A page that was written out comes back from a disk: milliseconds in the middle of an instruction.",
        now: "swapoff -a",
        keep: "no swap in /etc/fstab; mlockall() in the program",
        see: "man mlockall",
        look: |context| {
            let Some(text) = context.optional("/proc/swaps")? else {
                return Ok(Look::Ok("none: the kernel cannot swap".to_owned()));
            };
            let areas: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
            Ok(Look::when(!areas.is_empty(), if areas.is_empty() { "none".to_owned() } else { areas.join(" ") }))
        },
    },
    Check {
        id: "huge-pages",
        title: "transparent huge pages",
        severity: Severity::Medium,
        wanted: "madvise or never",
        why: "With `always`, a kernel thread rebuilds the memory of running programs: they wait for its locks and fault again.",
        now: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        keep: "transparent_hugepage=madvise on the kernel's command line",
        see: "Documentation/admin-guide/mm/transhuge.rst",
        look: |context| {
            let Some(text) = context.optional("/sys/kernel/mm/transparent_hugepage/enabled")? else {
                return Ok(Look::Ok("the kernel has none".to_owned()));
            };
            let chosen = text.split(['[', ']']).nth(1).unwrap_or(&text).to_owned();
            Ok(Look::when(chosen == "always", chosen))
        },
    },
    Check {
        id: "same-page-merging",
        title: "merging of equal pages (KSM)",
        severity: Severity::Medium,
        wanted: "0",
        why: "A merged page is copied at the next write: a page fault where none was expected.",
        now: "echo 2 > /sys/kernel/mm/ksm/run",
        keep: "disable ksm and ksmtuned",
        see: "Documentation/admin-guide/mm/ksm.rst",
        look: |context| number_is(context, "/sys/kernel/mm/ksm/run", 0),
    },
    Check {
        id: "compaction",
        title: "compaction of memory in the background",
        severity: Severity::Info,
        wanted: "vm.compaction_proactiveness = 0",
        why: "Pages are moved while programs use them, also locked ones unless vm.compact_unevictable_allowed is 0.",
        now: "sysctl vm.compaction_proactiveness=0 vm.compact_unevictable_allowed=0",
        keep: "both in /etc/sysctl.d/90-realtime.conf",
        see: "Documentation/admin-guide/sysctl/vm.rst",
        look: |context| number_is(context, "/proc/sys/vm/compaction_proactiveness", 0),
    },
    Check {
        id: "stat-interval",
        title: "statistics of virtual memory",
        severity: Severity::Info,
        wanted: "vm.stat_interval = 10 or more",
        why: "Every so many seconds a worker of the kernel runs on each CPU, the isolated ones too.",
        now: "sysctl vm.stat_interval=10",
        keep: "vm.stat_interval = 10 in /etc/sysctl.d/90-realtime.conf",
        see: "Documentation/admin-guide/sysctl/vm.rst",
        look: |context| match context.optional_number::<u64>("/proc/sys/vm/stat_interval")? {
            None => Ok(Look::Not(NO_SETTING)),
            Some(seconds) => Ok(Look::when(seconds < 10, format!("{seconds} s"))),
        },
    },
];
