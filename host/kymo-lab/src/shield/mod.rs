// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs for one command alone [spec/lab.md 10]: a control group for it, everything else off those CPUs as far as it
//! goes, and all as it was in the end. What cannot be moved is said.

mod group;
mod rest;

use std::io;
use std::path::Path;

use crate::threads::set_affinity;
use crate::{Cpus, Machine, Undo};

pub use group::{Group, GroupVersion};

/// What was done, and what could not be.
#[derive(Debug)]
pub struct Shield {
    /// The shielded CPUs.
    pub cpus: Cpus,
    /// The command's control group; `None` where there is no cpuset to be had, and why.
    pub group: Result<Group, String>,
    /// Interrupts that moved.
    pub interrupts_moved: usize,
    /// Interrupts that stay: number, and why.
    pub interrupts_left: Vec<String>,
    /// Threads that moved.
    pub threads_moved: usize,
    /// Threads that stay, by name, each name once.
    pub threads_left: Vec<String>,
    /// Other things that could not be had.
    pub notes: Vec<String>,
    undo: Undo,
}

/// Why there is no shield.
#[derive(Debug, thiserror::Error)]
pub enum ShieldError {
    /// The list does not fit the machine.
    #[error("{0}")]
    Cpus(String),
    /// What is changed could not be noted, so that nothing was changed.
    #[error(
        "cannot keep a record of what is to be restored in {dir}: {source}; set KYMO_RUNTIME_DIR to a directory of your own"
    )]
    Undo {
        /// The runtime directory.
        dir: String,
        /// Why.
        source: io::Error,
    },
}

/// Checks that `cpus` are there and that others remain.
///
/// # Errors
/// They are not, or none remains.
pub fn check(machine: &Machine, cpus: &Cpus) -> Result<Cpus, ShieldError> {
    let online =
        machine.text("/sys/devices/system/cpu/online").ok().and_then(|text| Cpus::from_list(&text)).unwrap_or_default();
    let missing = cpus.without(&online);
    let rest = online.without(cpus);
    if cpus.is_empty() {
        return Err(ShieldError::Cpus("no CPU to shield; name some, such as 2-3".to_owned()));
    }
    if !missing.is_empty() {
        return Err(ShieldError::Cpus(format!("CPU {missing} does not exist or is offline; online: {online}")));
    }
    if rest.is_empty() {
        return Err(ShieldError::Cpus(format!(
            "all CPUs ({online}) shielded would leave none for everything else; leave one out"
        )));
    }
    Ok(rest)
}

impl Shield {
    /// Puts the shield up. The record for its end is in `runtime` before anything changes.
    ///
    /// # Errors
    /// [`check`] fails, or the record cannot be written.
    pub fn raise(machine: &Machine, cpus: &Cpus, runtime: &Path) -> Result<Shield, ShieldError> {
        let rest = check(machine, cpus)?;
        let in_undo = |source| ShieldError::Undo { dir: runtime.display().to_string(), source };
        let mut undo = Undo::begin(runtime, "shield").map_err(in_undo)?;
        let group = Group::make(machine, cpus, &mut undo);
        let mut shield = Shield {
            cpus: cpus.clone(),
            group,
            interrupts_moved: 0,
            interrupts_left: Vec::new(),
            threads_moved: 0,
            threads_left: Vec::new(),
            notes: Vec::new(),
            undo,
        };
        shield.move_interrupts(machine, &rest);
        shield.move_workqueues(machine, &rest);
        // A partition takes its CPUs away from all other groups by itself.
        if !shield.group.as_ref().is_ok_and(|group| group.kind.is_exclusive()) {
            shield.move_threads(cpus, &rest);
        }
        Ok(shield)
    }

    /// Puts this process into the shield, for the command that it starts next; [`Shield::leave`] takes it out again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        if let Ok(group) = &self.group {
            group.enter()?;
        }
        set_affinity(0, &self.cpus)
    }

    /// Takes this process out of the shield.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn leave(&self, machine: &Machine) -> io::Result<()> {
        if let Ok(group) = &self.group {
            group.leave()?;
        }
        let rest = check(machine, &self.cpus).map_err(io::Error::other)?;
        set_affinity(0, &rest)
    }

    /// Takes everything back. Returns what could not be.
    pub fn lower(self) -> Vec<String> {
        self.undo.restore()
    }
}
