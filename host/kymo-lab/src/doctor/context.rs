// SPDX-License-Identifier: MIT OR Apache-2.0
//! What many checks ask for, read once; and how they read files: what is missing for certain is an answer, what cannot
//! be read is none.

use std::collections::BTreeMap;

use crate::environment::{container, cpus, hypervisor};
use crate::kernel_config::is_realtime;
use crate::{Cpus, Machine, Unread, kernel_config};

/// Whose fitness is asked for, besides the machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Only the machine.
    Machine,
    /// A process that runs.
    Process(u32),
    /// What a command would inherit from this process, which is `0`'s stand-in in /proc: `self`.
    Command,
}

impl Target {
    pub(super) fn has_process(&self) -> bool {
        *self != Target::Machine
    }
}

pub(super) struct Context<'a> {
    pub(super) machine: &'a Machine,
    pub(super) target: &'a Target,
    online: Result<Cpus, Unread>,
    /// By isolcpus= or an isolated cpuset.
    isolated: Result<Cpus, Unread>,
    /// The hypervisor; `None` on the bare machine.
    pub(super) guest: Result<Option<String>, Unread>,
    pub(super) container: Result<Option<String>, Unread>,
    cpuinfo: Result<String, Unread>,
    /// Version of the kernel.
    release: Result<(u32, u32), Unread>,
    pub(super) is_realtime: bool,
    /// CONFIG_... and its value; `None` where it cannot be read.
    pub(super) config: Option<BTreeMap<String, String>>,
    /// Words of the kernel's command line.
    command_line: Result<Vec<String>, Unread>,
}

impl<'a> Context<'a> {
    pub(super) fn new(machine: &'a Machine, target: &'a Target) -> Context<'a> {
        let text = |path: &str| machine.text(path).map_err(|reason| reason.of(path));
        let cpuinfo = text("/proc/cpuinfo");
        let unnamed = |path: &str, what: &str| text(path).err().unwrap_or_else(|| Unread(format!("{path}: {what}")));
        let named = |name: String| Some(name).filter(|name| name != "none");
        let release = text("/proc/sys/kernel/osrelease");
        Context {
            machine,
            target,
            online: online(machine),
            isolated: isolated(machine),
            guest: hypervisor(machine)
                .map(named)
                .ok_or_else(|| unnamed("/proc/cpuinfo", "it has no list of the processor's features")),
            container: container(machine).map(named).ok_or_else(|| unnamed("/proc/1/cgroup", "nothing in it")),
            cpuinfo,
            config: kernel_config::config(machine, release.as_deref().unwrap_or_default()),
            release: release.map(|text| kernel_config::version(&text)),
            is_realtime: is_realtime(machine),
            command_line: text("/proc/cmdline").map(|text| text.split_whitespace().map(str::to_owned).collect()),
        }
    }

    pub(super) fn online(&self) -> Result<&Cpus, Unread> {
        self.online.as_ref().map_err(Clone::clone)
    }

    /// `None`: no CPU is isolated.
    pub(super) fn isolated(&self) -> Result<Option<&Cpus>, Unread> {
        Ok(Some(self.isolated.as_ref().map_err(Clone::clone)?).filter(|cpus| !cpus.is_empty()))
    }

    /// Whether it is known that this is a virtual machine.
    pub(super) fn is_guest(&self) -> bool {
        matches!(self.guest, Ok(Some(_)))
    }

    /// Whether it is known that this is a container.
    pub(super) fn is_contained(&self) -> bool {
        matches!(self.container, Ok(Some(_)))
    }

    pub(super) fn is_x86(&self) -> Result<bool, Unread> {
        Ok(self.cpuinfo.as_ref().map_err(Clone::clone)?.contains("vendor_id"))
    }

    pub(super) fn release(&self) -> Result<(u32, u32), Unread> {
        self.release.clone()
    }

    /// Words of the kernel's command line.
    pub(super) fn command_line(&self) -> Result<&[String], Unread> {
        self.command_line.as_deref().map_err(Clone::clone)
    }

    /// The value of `name=` on the kernel's command line, the last one where there are several.
    pub(super) fn parameter(&self, name: &str) -> Result<Option<&str>, Unread> {
        let words = self.command_line()?;
        Ok(words.iter().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')))
    }

    /// Whether an option of the kernel is built in; `None` where the configuration cannot be read.
    pub(super) fn is_configured(&self, option: &str) -> Option<bool> {
        Some(self.config.as_ref()?.get(option).is_some_and(|value| value == "y" || value == "m"))
    }

    /// A file that must be there.
    pub(super) fn text(&self, path: &str) -> Result<String, Unread> {
        self.machine.text(path).map_err(|reason| reason.of(path))
    }

    /// A file that a kernel or machine may lack: `None` only where it is missing for certain.
    pub(super) fn optional(&self, path: &str) -> Result<Option<String>, Unread> {
        self.known(path, self.machine.text(path))
    }

    /// A file with one number, likewise.
    pub(super) fn optional_number<T: std::str::FromStr>(&self, path: &str) -> Result<Option<T>, Unread> {
        self.known(path, self.machine.number(path))
    }

    /// A directory, likewise.
    pub(super) fn optional_list(&self, path: &str) -> Result<Option<Vec<String>>, Unread> {
        self.known(path, self.machine.list(path))
    }

    fn known<T>(&self, path: &str, read: Result<T, Unread>) -> Result<Option<T>, Unread> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(reason) if reason.is_absent() && self.machine.lacks(path) => Ok(None),
            Err(reason) => Err(reason.of(path)),
        }
    }

    /// Numbers of the processes; an error where only some are to be seen.
    pub(super) fn processes(&self) -> Result<Vec<u32>, Unread> {
        let names = self.machine.list("/proc").map_err(|reason| reason.of("/proc"))?;
        let pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        // The first process is always there; whoever does not see it sees his own only (hidepid=).
        if !pids.contains(&1) {
            return Err(Unread("/proc does not show the processes of others (hidepid)".to_owned()));
        }
        Ok(pids)
    }

    /// The directory of the target in /proc.
    pub(super) fn process_dir(&self) -> String {
        match self.target {
            Target::Process(pid) => format!("/proc/{pid}"),
            _ => "/proc/self".to_owned(),
        }
    }

    /// The value of a line `Name: value` in the target's status.
    pub(super) fn status(&self, name: &str) -> Option<String> {
        let text = self.machine.text(&format!("{}/status", self.process_dir())).ok()?;
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim().to_owned())
    }
}

/// A list of CPUs in a file.
fn list(machine: &Machine, path: &str) -> Result<Cpus, Unread> {
    let text = machine.text(path).map_err(|reason| reason.of(path))?;
    Cpus::from_list(&text).ok_or_else(|| Unread(format!("{path}: {text:?} is no list of CPUs")))
}

fn online(machine: &Machine) -> Result<Cpus, Unread> {
    list(machine, "/sys/devices/system/cpu/online").or_else(|reason| {
        let listed: Cpus = cpus(machine).into_iter().collect();
        if listed.is_empty() { Err(reason) } else { Ok(listed) }
    })
}

fn isolated(machine: &Machine) -> Result<Cpus, Unread> {
    const OF_BOOT: &str = "/sys/devices/system/cpu/isolated";
    const OF_GROUPS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";
    let of_boot = list(machine, OF_BOOT).or_else(|reason| match machine.lacks(OF_BOOT) {
        true => Ok(Cpus::default()),
        false => Err(reason),
    })?;
    match machine.text(OF_GROUPS) {
        Err(reason) if reason.is_absent() => Ok(of_boot.or(&partitions(machine)?)),
        _ => Ok(of_boot.or(&list(machine, OF_GROUPS)?)),
    }
}

/// CPUs of isolated partitions, on kernels whose root group does not list them (before 6.9): of groups up to two levels
/// down.
fn partitions(machine: &Machine) -> Result<Cpus, Unread> {
    const ROOT: &str = "/sys/fs/cgroup";
    let below = |dir: &str| -> Vec<String> {
        let names = machine.list(dir).unwrap_or_default();
        let is_group = |path: &String| machine.has(&format!("{path}/cpuset.cpus.partition"));
        names.iter().map(|name| format!("{dir}/{name}")).filter(is_group).collect()
    };
    let first = below(ROOT);
    let second: Vec<String> = first.iter().flat_map(|dir| below(dir)).collect();
    let mut all = Cpus::default();
    for dir in first.iter().chain(&second) {
        let path = format!("{dir}/cpuset.cpus.partition");
        match machine.text(&path) {
            Ok(kind) if kind == "isolated" => all = all.or(&list(machine, &format!("{dir}/cpuset.cpus.effective"))?),
            // It was removed meanwhile.
            Ok(_) => {}
            Err(reason) if reason.is_absent() => {}
            Err(reason) => return Err(reason.of(&path)),
        }
    }
    Ok(all)
}
