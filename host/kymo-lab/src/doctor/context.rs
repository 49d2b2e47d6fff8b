// SPDX-License-Identifier: MIT OR Apache-2.0
//! What many checks ask for, read once.

use std::collections::BTreeMap;

use crate::environment::{container, cpus, hypervisor, is_realtime};
use crate::{Cpus, Machine, kernel_config};

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
    pub(super) online: Cpus,
    /// By isolcpus= or an isolated cpuset.
    pub(super) isolated: Cpus,
    /// Not in the hypervisor's or container's reach to say: `None` on the bare machine.
    pub(super) guest: Option<String>,
    pub(super) container: Option<String>,
    pub(super) is_x86: bool,
    /// Version of the kernel.
    pub(super) release: (u32, u32),
    pub(super) is_realtime: bool,
    /// CONFIG_... and its value; `None` where it cannot be read.
    pub(super) config: Option<BTreeMap<String, String>>,
    /// Words of the kernel's command line.
    pub(super) command_line: Vec<String>,
}

impl<'a> Context<'a> {
    pub(super) fn new(machine: &'a Machine, target: &'a Target) -> Context<'a> {
        let list = |path: &str| machine.text(path).ok().and_then(|text| Cpus::from_list(&text));
        let named = |name: Option<String>| name.filter(|name| name != "none");
        let online = list("/sys/devices/system/cpu/online").unwrap_or_else(|| cpus(machine).into_iter().collect());
        let isolated = list("/sys/devices/system/cpu/isolated").unwrap_or_default();
        let release = machine.text("/proc/sys/kernel/osrelease").unwrap_or_default();
        Context {
            machine,
            target,
            online,
            isolated: isolated.or(&list("/sys/fs/cgroup/cpuset.cpus.isolated").unwrap_or_else(|| partitions(machine))),
            guest: named(hypervisor(machine)),
            container: named(container(machine)),
            is_x86: machine.text("/proc/cpuinfo").is_ok_and(|text| text.contains("vendor_id")),
            release: kernel_config::version(&release),
            is_realtime: is_realtime(machine),
            config: kernel_config::config(machine, &release),
            command_line: machine
                .text("/proc/cmdline")
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }
    }

    /// The value of `name=` on the kernel's command line, the last one where there are several.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.command_line.iter().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether an option of the kernel is built in; `None` where the configuration cannot be read.
    pub(super) fn is_configured(&self, option: &str) -> Option<bool> {
        Some(self.config.as_ref()?.get(option).is_some_and(|value| value == "y" || value == "m"))
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

/// CPUs of isolated partitions, on kernels whose root group does not list them (before 6.9): of groups up to two levels
/// down.
fn partitions(machine: &Machine) -> Cpus {
    const ROOT: &str = "/sys/fs/cgroup";
    let below = |dir: &str| -> Vec<String> {
        let names = machine.list(dir).unwrap_or_default();
        let is_group = |path: &String| machine.has(&format!("{path}/cpuset.cpus.partition"));
        names.iter().map(|name| format!("{dir}/{name}")).filter(is_group).collect()
    };
    let first = below(ROOT);
    let second: Vec<String> = first.iter().flat_map(|dir| below(dir)).collect();
    let isolated = first
        .iter()
        .chain(&second)
        .filter(|dir| machine.text(&format!("{dir}/cpuset.cpus.partition")).as_deref() == Ok("isolated"));
    let cpus = isolated.filter_map(|dir| Cpus::from_list(&machine.text(&format!("{dir}/cpuset.cpus.effective")).ok()?));
    cpus.fold(Cpus::default(), |all, cpus| all.or(&cpus))
}
