// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything else: interrupts, kernel work and threads, off the shielded CPUs.

use std::collections::BTreeSet;
use std::io;

use super::Shield;
use crate::threads::{affinity, set_affinity, threads};
use crate::undo::UndoStep;
use crate::{Cpus, Machine};

impl Shield {
    pub(super) fn move_interrupts(&mut self, machine: &Machine, rest: &Cpus) {
        let default = machine.path("/proc/irq/default_smp_affinity");
        let mask = machine.text("/proc/irq/default_smp_affinity").ok().and_then(|text| Cpus::from_mask(&text));
        if let Some(mask) = mask {
            let kept = mask.without(&self.cpus);
            let kept = if kept.is_empty() { rest.clone() } else { kept };
            if let Err(error) = self.undo.write(&default, &kept.mask()) {
                self.notes.push(format!(
                    "interrupts that are requested from now on may come here: {}: {error}",
                    default.display()
                ));
            }
        }
        for name in machine.list("/proc/irq").unwrap_or_default().into_iter().filter(|name| name.parse::<u32>().is_ok())
        {
            self.move_interrupt(machine, &name, rest);
        }
    }

    fn move_interrupt(&mut self, machine: &Machine, name: &str, rest: &Cpus) {
        let file = format!("/proc/irq/{name}/smp_affinity_list");
        let Some(cpus) = machine.text(&file).ok().and_then(|text| Cpus::from_list(&text)) else { return };
        if cpus.and(&self.cpus).is_empty() {
            return;
        }
        let kept = cpus.without(&self.cpus);
        let kept = if kept.is_empty() { rest.clone() } else { kept };
        match self.undo.write(&machine.path(&file), &kept.to_string()) {
            Ok(()) => self.interrupts_moved += 1,
            Err(error) => self.interrupts_left.push(format!("{name} ({error})")),
        }
    }

    pub(super) fn move_workqueues(&mut self, machine: &Machine, rest: &Cpus) {
        for file in ["/sys/devices/virtual/workqueue/cpumask", "/sys/bus/workqueue/devices/writeback/cpumask"] {
            let Some(cpus) = machine.text(file).ok().and_then(|text| Cpus::from_mask(&text)) else { continue };
            if cpus.and(&self.cpus).is_empty() {
                continue;
            }
            let kept = cpus.without(&self.cpus);
            let kept = if kept.is_empty() { rest.clone() } else { kept };
            if let Err(error) = self.undo.write(&machine.path(file), &kept.mask()) {
                self.notes.push(format!("kernel work that is not bound may run here: {file}: {error}"));
            }
        }
    }

    /// Takes the CPUs out of the affinity of every thread that has others, too. Twice: a thread may start another one
    /// meanwhile.
    pub(super) fn move_threads(&mut self, cpus: &Cpus, rest: &Cpus) {
        let mut left = BTreeSet::new();
        for _ in 0..2 {
            let mut moves = Vec::new();
            let mut steps = Vec::new();
            for thread in threads().into_iter().filter(|thread| !thread.cpus.and(cpus).is_empty()) {
                let kept = thread.cpus.and(rest);
                if kept.is_empty() {
                    left.insert(thread.name);
                    continue;
                }
                let (old, new) = (thread.cpus.to_string(), kept.to_string());
                steps.push(UndoStep::Affinity { tid: thread.tid, start: thread.start, old, new });
                moves.push((thread, kept));
            }
            if let Err(error) = self.undo.note(steps) {
                self.notes.push(format!("threads stay where they are, because what they had cannot be kept: {error}"));
                return;
            }
            for (thread, kept) in moves {
                match set_affinity(thread.tid, &kept) {
                    Ok(()) => self.threads_moved += 1,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                    Err(_) if affinity(thread.tid).is_none() => (),
                    Err(_) => drop(left.insert(thread.name)),
                }
            }
        }
        self.threads_left = left.into_iter().collect();
    }
}
