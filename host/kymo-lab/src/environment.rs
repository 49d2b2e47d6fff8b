// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a test ran [spec/lab.md 9]: what of a machine bears on its latency, as names and values.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Machine;
use crate::kernel_config::is_realtime;
use crate::preemption::preemption;

/// Files whose text is a value as it stands: name, path.
const TEXTS: [(&str, &str); 24] = [
    ("kernel.release", "/proc/sys/kernel/osrelease"),
    ("kernel.version", "/proc/sys/kernel/version"),
    ("kernel.command_line", "/proc/cmdline"),
    ("kernel.tainted", "/proc/sys/kernel/tainted"),
    ("host", "/proc/sys/kernel/hostname"),
    ("cpu.online", "/sys/devices/system/cpu/online"),
    ("cpu.isolated", "/sys/devices/system/cpu/isolated"),
    ("cpu.isolated_at_run_time", "/sys/fs/cgroup/cpuset.cpus.isolated"),
    ("cpu.nohz_full", "/sys/devices/system/cpu/nohz_full"),
    ("cpu.smt", "/sys/devices/system/cpu/smt/control"),
    ("clock.source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("clock.available", "/sys/devices/system/clocksource/clocksource0/available_clocksource"),
    ("power.frequency_driver", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
    ("power.idle_driver", "/sys/devices/system/cpu/cpuidle/current_driver"),
    ("power.idle_governor", "/sys/devices/system/cpu/cpuidle/current_governor"),
    ("power.no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("scheduler.rt_runtime_us", "/proc/sys/kernel/sched_rt_runtime_us"),
    ("scheduler.rt_period_us", "/proc/sys/kernel/sched_rt_period_us"),
    ("scheduler.timer_migration", "/proc/sys/kernel/timer_migration"),
    ("scheduler.numa_balancing", "/proc/sys/kernel/numa_balancing"),
    ("scheduler.watchdog", "/proc/sys/kernel/watchdog"),
    ("memory.huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("memory.swappiness", "/proc/sys/vm/swappiness"),
    ("load.average", "/proc/loadavg"),
];

/// Finds a value that is not simply the text of a file.
type Compute = fn(&Machine) -> Option<Value>;

/// Names and values. What could not be read is listed under `unread`, as name and reason; nothing here fails.
pub fn environment(machine: &Machine) -> BTreeMap<String, Value> {
    let mut values = BTreeMap::new();
    let mut unread = BTreeMap::new();
    for (name, path) in TEXTS {
        match machine.text(path) {
            Ok(text) => drop(values.insert(name.to_owned(), json!(text))),
            Err(reason) => drop(unread.insert(name.to_owned(), json!(reason.0))),
        }
    }
    let computed: [(&str, Compute); 10] = [
        ("kernel.realtime", |machine| Some(json!(is_realtime(machine)))),
        ("kernel.preemption", |machine| preemption(machine).ok().map(|found| json!(found.model))),
        ("cpu.model", |machine| cpuinfo(machine, "model name").map(Value::from)),
        ("hypervisor", |machine| hypervisor(machine).map(Value::from)),
        ("container", |machine| container(machine).map(Value::from)),
        ("power.governor", governors),
        ("power.idle_states", idle_states),
        ("power.dma_latency_us", |machine| dma_latency_us(machine).map(Value::from)),
        ("scheduler.fair_server", fair_server),
        ("load.steal_ticks", |machine| steal(machine).map(|(steal, _)| json!(steal))),
    ];
    for (name, compute) in computed {
        match compute(machine) {
            Some(value) => drop(values.insert(name.to_owned(), value)),
            None => drop(unread.insert(name.to_owned(), json!("not told by this system"))),
        }
    }
    values.insert("unread".to_owned(), json!(unread));
    values
}

/// The first value of a key in /proc/cpuinfo.
pub(crate) fn cpuinfo(machine: &Machine, key: &str) -> Option<String> {
    let text = machine.text("/proc/cpuinfo").ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

/// What the machine runs under: its name where it tells one, else `unknown`; `none` on the bare machine.
pub(crate) fn hypervisor(machine: &Machine) -> Option<String> {
    let flags = cpuinfo(machine, "flags").or_else(|| cpuinfo(machine, "Features"))?;
    let named = machine.text("/sys/hypervisor/type").ok();
    let vendor = machine.text("/sys/class/dmi/id/sys_vendor").ok().filter(|vendor| {
        ["QEMU", "KVM", "VMware", "Xen", "innotek", "Microsoft Corporation", "Amazon EC2", "Google", "Parallels"]
            .iter()
            .any(|name| vendor.contains(name))
    });
    let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let is_device_tree_guest = machine.has("/proc/device-tree/hypervisor");
    if is_guest || is_device_tree_guest || named.is_some() {
        return Some(named.or(vendor).unwrap_or_else(|| "unknown".to_owned()));
    }
    Some("none".to_owned())
}

/// Whether this is a virtual machine, as far as it can be told.
pub fn is_guest(machine: &Machine) -> bool {
    hypervisor(machine).is_some_and(|name| name != "none")
}

/// The container that we are in, as its manager marks it; `none` where nothing does.
pub(crate) fn container(machine: &Machine) -> Option<String> {
    // The image of a container may be the root of a virtual machine: there we are in the first namespace of processes.
    if machine.link("/proc/self/ns/pid").is_some_and(|name| name == "pid:[4026531836]") {
        return Some("none".to_owned());
    }
    if machine.has("/.dockerenv") {
        return Some("docker".to_owned());
    }
    if let Ok(text) = machine.text("/run/.containerenv") {
        return Some(if text.contains("podman") { "podman".to_owned() } else { "container".to_owned() });
    }
    if let Ok(name) = machine.text("/run/systemd/container") {
        return Some(name);
    }
    let groups = machine.text("/proc/1/cgroup").ok()?;
    let mark = ["docker", "lxc", "kubepods", "libpod", "containerd"].iter().find(|mark| groups.contains(**mark));
    // Without a mark, another namespace of processes than the first one is a container all the same.
    let other = if machine.link("/proc/self/ns/pid").is_some() { "unknown" } else { "none" };
    Some(mark.map_or_else(|| other.to_owned(), |mark| (*mark).to_owned()))
}

/// CPUs as the directories of sysfs name them.
pub(crate) fn cpus(machine: &Machine) -> Vec<u32> {
    let names = machine.list("/sys/devices/system/cpu").unwrap_or_default();
    let mut cpus: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    cpus.sort_unstable();
    cpus
}

/// Governor and how many CPUs have it.
fn governors(machine: &Machine) -> Option<Value> {
    let mut count = BTreeMap::<String, u32>::new();
    for cpu in cpus(machine) {
        if let Ok(governor) = machine.text(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")) {
            *count.entry(governor).or_default() += 1;
        }
    }
    (!count.is_empty()).then(|| json!(count))
}

/// An idle state of a CPU.
pub(crate) struct IdleState {
    pub(crate) name: String,
    /// Time that it takes to leave it, microseconds.
    pub(crate) latency_us: u64,
    pub(crate) is_disabled: bool,
}

pub(crate) fn idle_states_of(machine: &Machine, cpu: u32) -> Vec<IdleState> {
    let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let names = machine.list(&dir).unwrap_or_default();
    let state = |name: &String| {
        let of = |what: &str| machine.text(&format!("{dir}/{name}/{what}")).ok();
        Some(IdleState {
            name: of("name")?,
            latency_us: of("latency")?.parse().ok()?,
            is_disabled: of("disable").is_some_and(|text| text != "0"),
        })
    };
    names.iter().filter(|name| name.starts_with("state")).filter_map(state).collect()
}

/// Names and exit latencies of CPU 0's states that are not disabled.
fn idle_states(machine: &Machine) -> Option<Value> {
    let states = idle_states_of(machine, 0);
    let list: Vec<Value> =
        states.iter().filter(|state| !state.is_disabled).map(|state| json!([state.name, state.latency_us])).collect();
    (!states.is_empty()).then(|| json!(list))
}

/// The longest time to leave an idle state that anybody allows now; 2,000,000,000 where nobody asks for less.
pub(crate) fn dma_latency_us(machine: &Machine) -> Option<i32> {
    let bytes = machine.bytes("/dev/cpu_dma_latency").ok()?;
    Some(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Runtime of the fair server on CPU 0 in nanoseconds a period, Linux 6.12 and later.
fn fair_server(machine: &Machine) -> Option<Value> {
    machine.number::<u64>("/sys/kernel/debug/sched/fair_server/cpu0/runtime").ok().map(Value::from)
}

/// Ticks that a hypervisor took since boot, and all ticks.
pub(crate) fn steal(machine: &Machine) -> Option<(u64, u64)> {
    let text = machine.text("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is in user time already.
    Some((*ticks.get(7)?, ticks.iter().take(8).fold(0u64, |sum, ticks| sum.saturating_add(*ticks))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_machine_is_all_unread() {
        let dir = tempfile::tempdir().unwrap();
        let values = environment(&Machine::at(dir.path()));
        assert_eq!(values["kernel.realtime"], json!(false));
        assert_eq!(values["unread"]["kernel.release"], "absent");
        assert!(values["unread"]["power.governor"].is_string());
        assert_eq!(values.len(), 2, "{values:?}");
    }

    #[test]
    fn steal_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/stat"), "cpu  10 0 5 80 0 0 0 5 7 0\ncpu0 1\n").unwrap();
        assert_eq!(steal(&Machine::at(dir.path())), Some((5, 100)));
    }
}
