// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a record is shown: on its thread, or on its CPU.

use std::collections::HashMap;

use kymo_ctf::read::{Record, Trace};
use kymo_ctf::write::EnvValue;

/// What slices are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// A CPU of a kernel: interrupts.
    Cpu(u32),
    /// A thread: process and thread.
    Thread(u32, u32),
}

/// Records of a thread that is not known.
pub const UNKNOWN_THREAD: u32 = u32::MAX;

/// Whose slices belong together: a slice ends where it began by this, wherever it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A thread, by the kernel's number.
    Kernel(u32),
    /// A thread as its program sees it: process and thread.
    User(u32, u32),
    /// A CPU.
    Cpu(u32),
}

/// Beginnings of the names of events of interrupts, softirqs and timers.
const INTERRUPTS: [&str; 8] = [
    "irq_",
    "softirq_",
    "tasklet_",
    "x86_irq_vectors_",
    "timer_hrtimer_expire",
    "hrtimer_expire",
    "timer_expire",
    "local_timer",
];

/// Whether an event is of an interrupt, by its name.
pub fn is_interrupt(event: &str) -> bool {
    let (system, name) = event.split_once(':').unwrap_or(("", event));
    system == "irq_vectors" || INTERRUPTS.iter().any(|start| name.starts_with(start))
}

/// The processes of threads, by the kernel's numbers, as records have told them so far. A thread stays where it was
/// shown when a record does not tell its process.
#[derive(Debug, Default)]
pub struct Processes(HashMap<(usize, u32), u32>);

impl Processes {
    /// The process of a thread of a machine; the thread itself where it is not known.
    pub fn of(&self, machine: usize, tid: u32) -> u32 {
        self.0.get(&(machine, tid)).copied().unwrap_or(tid)
    }

    /// A thread is of this process.
    pub fn tell(&mut self, machine: usize, tid: u32, pid: u32) {
        self.0.insert((machine, tid), pid);
    }

    /// The track of a record: interrupts are on their CPU, as are the idle threads; all else on its thread.
    pub fn track(&mut self, record: &Record<'_>, machine: usize, is_kernel: bool) -> Track {
        let tid = record.vtid.or(record.vpid);
        match (record.cpu, tid) {
            (Some(cpu), Some(0)) if is_kernel => Track::Cpu(cpu),
            (Some(cpu), _) if is_kernel && is_interrupt(&record.event.name) => Track::Cpu(cpu),
            (_, Some(tid)) if is_kernel => {
                if let Some(pid) = record.vpid {
                    self.tell(machine, tid, pid);
                }
                Track::Thread(self.of(machine, tid), tid)
            }
            (_, Some(tid)) => Track::Thread(record.vpid.unwrap_or(tid), tid),
            (Some(cpu), None) if is_kernel => Track::Cpu(cpu),
            (_, None) => Track::Thread(0, UNKNOWN_THREAD),
        }
    }
}

/// A boot or a name.
type Machine = (Option<[u8; 16]>, Option<String>);

/// What tells the machine of a trace: the boot that its clock names, else its name.
fn machine(trace: &Trace) -> Machine {
    let boot = trace.metadata.clocks.iter().find_map(|clock| clock.uuid);
    let name = trace.metadata.env.iter().find_map(|(key, value)| match value {
        EnvValue::Text(name) if key == "hostname" => Some(name.clone()),
        _ => None,
    });
    let name = name.unwrap_or_else(|| trace.label.clone());
    (boot, boot.is_none().then_some(name))
}

/// By trace: the first one of the same machine. A slice may begin in one part of a trace and end in the next.
pub fn machines(traces: &[Trace]) -> Vec<usize> {
    let machines: Vec<_> = traces.iter().map(machine).collect();
    let first = |of: &Machine| machines.iter().position(|machine| machine == of).unwrap_or_default();
    machines.iter().map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_known_by_either_naming() {
        for name in ["irq_handler_entry", "irq:softirq_entry", "x86_irq_vectors_local_timer_entry"] {
            assert!(is_interrupt(name), "{name}");
        }
        assert!(is_interrupt("irq_vectors:reschedule_entry") && is_interrupt("timer:hrtimer_expire_entry"));
        assert!(!is_interrupt("sched:sched_switch") && !is_interrupt("motor:irq"));
    }
}
