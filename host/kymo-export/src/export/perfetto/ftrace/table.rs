// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ftrace events that Perfetto has a message of its own for: numbers and names as its public `.proto` files define
//! them (protos/perfetto/trace/ftrace: ftrace_event, sched, task, irq, irq_vectors, timer, power, signal, workqueue,
//! net, ipi, ftrace)
//! [spec/exchange.md 2].

/// Field of FtraceEvent for all events that have none of their own.
pub const GENERIC: u32 = 327;

/// Fields of FtraceEvent for system calls.
pub const SYS_ENTER: u32 = 329;
pub const SYS_EXIT: u32 = 330;

/// How a field of ours becomes one of Perfetto's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A number.
    Number,
    /// Text.
    Text,
    /// A priority: LTTng's is 100 less than the kernel's.
    Priority,
    /// The thread that wrote the record, where newer kernels leave the field out.
    OwnThread,
}

/// A field of a message: all its names in traces, its number there.
#[derive(Debug)]
pub struct Field {
    pub names: &'static [&'static str],
    pub number: u32,
    pub how: How,
    /// Without it the message says nothing.
    pub is_needed: bool,
}

/// An event that Perfetto knows: the last part of its name, its field of FtraceEvent, its fields.
#[derive(Debug)]
pub struct FtraceEvent {
    pub names: &'static [&'static str],
    pub number: u32,
    pub fields: &'static [Field],
    /// Perfetto makes something of it: it is this message even where a field has no place in it. The others are that
    /// only where they hold all.
    pub is_understood: bool,
}

const fn needed(names: &'static [&'static str], number: u32, how: How) -> Field {
    Field { names, number, how, is_needed: true }
}

const fn other(names: &'static [&'static str], number: u32, how: How) -> Field {
    Field { names, number, how, is_needed: false }
}

const fn understood(names: &'static [&'static str], number: u32, fields: &'static [Field]) -> FtraceEvent {
    FtraceEvent { names, number, fields, is_understood: true }
}

const fn shown(names: &'static [&'static str], number: u32, fields: &'static [Field]) -> FtraceEvent {
    FtraceEvent { names, number, fields, is_understood: false }
}

use How::{Number, OwnThread, Priority, Text};

const TID: &[&str] = &["tid", "pid"];
const WAKE: &[Field] = &[
    other(&["comm"], 1, Text),
    needed(TID, 2, Number),
    other(&["prio"], 3, Priority),
    other(&["success"], 4, Number),
    other(&["target_cpu"], 5, Number),
];
const TASK: &[Field] = &[other(&["comm"], 1, Text), needed(TID, 2, Number), other(&["prio"], 3, Priority)];
const VEC: &[Field] = &[needed(&["vec"], 1, Number)];
const STATE: &[Field] = &[needed(&["state"], 1, Number), needed(&["cpu_id"], 2, Number)];
const REASON: &[Field] = &[needed(&["reason"], 1, Text)];
const WORK: &[Field] = &[needed(&["work"], 1, Number), needed(&["function"], 2, Number)];

const HRTIMER: &[Field] = &[needed(&["hrtimer"], 1, Number)];
const TIMER: &[Field] = &[needed(&["timer"], 1, Number)];

const SWITCH: &[Field] = &[
    other(&["prev_comm"], 1, Text),
    needed(&["prev_tid", "prev_pid"], 2, Number),
    other(&["prev_prio"], 3, Priority),
    needed(&["prev_state"], 4, Number),
    other(&["next_comm"], 5, Text),
    needed(&["next_tid", "next_pid"], 6, Number),
    other(&["next_prio"], 7, Priority),
];

/// All of them, but for system calls.
pub const EVENTS: &[FtraceEvent] = &[
    understood(&["sched_switch"], 4, SWITCH),
    understood(&["sched_waking"], 20, WAKE),
    understood(&["sched_wakeup"], 17, WAKE),
    understood(&["sched_wakeup_new"], 114, WAKE),
    understood(
        &["sched_process_fork"],
        239,
        &[
            other(&["parent_comm"], 1, Text),
            needed(&["parent_tid", "parent_pid"], 2, Number),
            other(&["child_comm"], 3, Text),
            needed(&["child_tid", "child_pid"], 4, Number),
        ],
    ),
    understood(
        &["sched_process_exec"],
        237,
        &[needed(&["filename"], 1, Text), needed(TID, 2, Number), other(&["old_tid", "old_pid"], 3, Number)],
    ),
    understood(
        &["sched_process_exit"],
        238,
        &[
            other(&["comm"], 1, Text),
            needed(TID, 2, Number),
            other(&["tgid"], 3, Number),
            other(&["prio"], 4, Priority),
        ],
    ),
    understood(&["sched_process_free"], 240, TASK),
    shown(&["sched_process_hang"], 241, &[other(&["comm"], 1, Text), needed(TID, 2, Number)]),
    shown(&["sched_process_wait"], 242, TASK),
    shown(
        &["sched_pi_setprio"],
        353,
        &[
            other(&["comm"], 1, Text),
            needed(&["newprio"], 2, Priority),
            other(&["oldprio"], 3, Priority),
            needed(TID, 4, Number),
        ],
    ),
    shown(
        &["sched_migrate_task"],
        491,
        &[
            other(&["comm"], 1, Text),
            needed(TID, 2, Number),
            other(&["prio"], 3, Priority),
            needed(&["orig_cpu"], 4, Number),
            needed(&["dest_cpu"], 5, Number),
        ],
    ),
    understood(
        &["task_newtask"],
        235,
        &[
            needed(TID, 1, Number),
            needed(&["comm"], 2, Text),
            needed(&["clone_flags"], 3, Number),
            other(&["oom_score_adj"], 4, Number),
        ],
    ),
    understood(
        &["task_rename"],
        236,
        &[
            needed(TID, 1, OwnThread),
            other(&["oldcomm"], 2, Text),
            needed(&["newcomm"], 3, Text),
            other(&["oom_score_adj"], 4, Number),
        ],
    ),
    understood(&["irq_handler_entry"], 36, &[needed(&["irq"], 1, Number), needed(&["name"], 2, Text)]),
    understood(&["irq_handler_exit"], 37, &[needed(&["irq"], 1, Number), needed(&["ret"], 2, Number)]),
    understood(&["irq_softirq_raise", "softirq_raise"], 26, VEC),
    understood(&["irq_softirq_entry", "softirq_entry"], 24, VEC),
    understood(&["irq_softirq_exit", "softirq_exit"], 25, VEC),
    understood(&["ipi_entry", "ipi_ipi_entry"], 21, REASON),
    understood(&["ipi_exit", "ipi_ipi_exit"], 22, REASON),
    understood(&["power_cpu_idle", "cpu_idle"], 13, STATE),
    understood(&["power_cpu_frequency", "cpu_frequency"], 11, STATE),
    shown(
        &["power_cpu_frequency_limits", "cpu_frequency_limits"],
        12,
        &[needed(&["min_freq"], 1, Number), needed(&["max_freq"], 2, Number), needed(&["cpu_id"], 3, Number)],
    ),
    understood(
        &["power_suspend_resume", "suspend_resume"],
        113,
        &[needed(&["action"], 1, Text), needed(&["val"], 2, Number), needed(&["start"], 3, Number)],
    ),
    understood(
        &["signal_generate"],
        325,
        &[
            other(&["code"], 1, Number),
            other(&["comm"], 2, Text),
            other(&["group"], 3, Number),
            needed(TID, 4, Number),
            other(&["result"], 5, Number),
            needed(&["sig"], 6, Number),
        ],
    ),
    understood(
        &["signal_deliver"],
        324,
        &[other(&["code"], 1, Number), other(&["sa_flags"], 2, Number), needed(&["sig"], 3, Number)],
    ),
    shown(&["workqueue_activate_work"], 56, &[needed(&["work"], 1, Number), other(&["function"], 2, Number)]),
    understood(&["workqueue_execute_start"], 58, WORK),
    understood(&["workqueue_execute_end"], 57, &[needed(&["work"], 1, Number), other(&["function"], 2, Number)]),
    shown(
        &["workqueue_queue_work"],
        59,
        &[
            needed(&["work"], 1, Number),
            needed(&["function"], 2, Number),
            other(&["workqueue"], 6, Text),
            other(&["req_cpu"], 4, Number),
            other(&["cpu"], 5, Number),
        ],
    ),
    shown(
        &["timer_hrtimer_start", "hrtimer_start"],
        551,
        &[
            needed(&["hrtimer"], 1, Number),
            other(&["function"], 2, Number),
            other(&["expires"], 3, Number),
            other(&["softexpires"], 4, Number),
            other(&["mode"], 5, Number),
        ],
    ),
    shown(&["timer_hrtimer_cancel", "hrtimer_cancel"], 552, HRTIMER),
    shown(
        &["timer_hrtimer_expire_entry", "hrtimer_expire_entry"],
        553,
        &[needed(&["hrtimer"], 1, Number), other(&["now"], 2, Number), other(&["function"], 3, Number)],
    ),
    shown(&["timer_hrtimer_expire_exit", "hrtimer_expire_exit"], 554, HRTIMER),
    shown(
        &["timer_start"],
        555,
        &[
            needed(&["timer"], 1, Number),
            other(&["function"], 2, Number),
            other(&["expires"], 3, Number),
            other(&["now"], 4, Number),
            other(&["deferrable"], 5, Number),
            other(&["flags"], 6, Number),
            other(&["bucket_expiry"], 7, Number),
        ],
    ),
    shown(&["timer_cancel"], 556, TIMER),
    shown(
        &["timer_expire_entry"],
        557,
        &[
            needed(&["timer"], 1, Number),
            other(&["now"], 2, Number),
            other(&["function"], 3, Number),
            other(&["baseclk"], 4, Number),
        ],
    ),
    shown(&["timer_expire_exit"], 558, TIMER),
    shown(&["x86_irq_vectors_local_timer_entry", "local_timer_entry"], 559, &[needed(&["vector"], 1, Number)]),
    shown(&["x86_irq_vectors_local_timer_exit", "local_timer_exit"], 560, &[needed(&["vector"], 1, Number)]),
    shown(
        &["net_dev_xmit"],
        361,
        &[
            needed(&["len"], 1, Number),
            needed(&["name"], 2, Text),
            other(&["rc"], 3, Number),
            other(&["skbaddr"], 4, Number),
        ],
    ),
    shown(
        &["net_if_receive_skb", "netif_receive_skb"],
        360,
        &[needed(&["len"], 1, Number), needed(&["name"], 2, Text), other(&["skbaddr"], 3, Number)],
    ),
    understood(&["lttng_logger", "print"], 3, &[other(&["ip"], 1, Number), needed(&["msg", "buf"], 2, Text)]),
];

/// What Perfetto knows of an event, by the event's name.
pub fn known(event: &str) -> Option<&'static FtraceEvent> {
    let name = event.rsplit(':').next()?;
    EVENTS.iter().find(|known| known.names.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_name_and_number_is_of_one_event() {
        let mut names = HashSet::new();
        let mut numbers = HashSet::from([GENERIC, SYS_ENTER, SYS_EXIT]);
        for known in EVENTS {
            assert!(numbers.insert(known.number), "{known:?}");
            assert!(known.names.iter().all(|name| names.insert(*name)), "{known:?}");
            let fields: HashSet<u32> = known.fields.iter().map(|field| field.number).collect();
            assert_eq!(fields.len(), known.fields.len(), "{known:?}");
        }
        assert_eq!(known("sched:sched_switch").map(|known| known.number), Some(4));
        assert!(known("kmem_kmalloc").is_none());
    }
}
