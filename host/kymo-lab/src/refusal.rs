// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the kernel refuses a real-time class to a thread of ours: what it decides by is looked at, in its order.

use crate::kernel_config::is_configured;
use crate::throttling::{Throttling, share_of_group, throttling};
use crate::{Machine, cgroup};

/// The capability to choose any policy and priority, by its bit.
const CAP_SYS_NICE: u32 = 23;

/// What stands in the way, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A sentence without its end.
    pub cause: String,
    /// What to do about it.
    pub next: String,
}

/// Why a thread of this process cannot have a real-time class with this priority.
pub fn refusal(machine: &Machine, priority: u32) -> Refusal {
    let told = |cause: String, next: &str| Refusal { cause, next: next.to_owned() };
    if let Some(refusal) = by_group(machine) {
        return refusal;
    }
    let status = |name: &str| {
        let text = machine.text("/proc/self/status").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
        line.map(|value| value.trim().to_owned())
    };
    let mask = status("CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok());
    let has_capability = mask.is_some_and(|mask| mask >> CAP_SYS_NICE & 1 == 1);
    let limit = limit(machine);
    if !has_capability && limit.is_some_and(|limit| limit < u64::from(priority)) {
        let cause = format!(
            "the limit of the real-time priority is {} here (ulimit -r), and CAP_SYS_NICE is missing",
            limit.unwrap_or(0)
        );
        return told(cause, "run as root or with CAP_SYS_NICE, or raise `ulimit -r` (RLIMIT_RTPRIO)");
    }
    let is_first = |text: String| text.split_whitespace().eq(["0", "0", "4294967295"]);
    if has_capability && machine.text("/proc/self/uid_map").is_ok_and(|map| !is_first(map)) {
        let cause = "in a user namespace CAP_SYS_NICE does not count for real-time classes".to_owned();
        return told(cause, "start it outside of the user namespace, or raise `ulimit -r` (RLIMIT_RTPRIO) there");
    }
    if status("Seccomp").is_some_and(|mode| mode != "0") {
        let cause = "neither limit nor control group forbids it; a seccomp filter is in force".to_owned();
        return told(cause, "a container: docker run --cap-add sys_nice --ulimit rtprio=99");
    }
    let cause = match limit {
        None => "why is not known: /proc/self/limits cannot be read".to_owned(),
        Some(_) => "neither limit, capability nor control group forbids it".to_owned(),
    };
    told(cause, "look for a security module (dmesg, ausearch), or run kymo doctor -- COMMAND")
}

/// The soft limit of /proc/self/limits.
fn limit(machine: &Machine) -> Option<u64> {
    let text = machine.text("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max realtime priority"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// A control group without real-time runtime refuses everybody, root among them.
fn by_group(machine: &Machine) -> Option<Refusal> {
    // Where the machine's setting is -1 the kernel looks at no group.
    if matches!(throttling(machine), Throttling::Off(share) if share.runtime_us < 0) {
        return None;
    }
    if let Ok(Some((name, share))) = share_of_group(machine, "/proc/self") {
        return share.is_nothing().then(|| Refusal {
            cause: format!(
                "the control group {name} has no real-time runtime (cpu.rt_runtime_us is 0), which refuses root, too"
            ),
            next: "give the group runtime (echo 950000 > cpu.rt_runtime_us in it, and in those above it first), or leave it: \
                   echo $$ > cgroup.procs of the topmost group"
                .to_owned(),
        });
    }
    let groups = cgroup::of_process(machine, "/proc/self").ok()?;
    let is_bound = |group: &cgroup::CpuGroup| group.name() != "/" && machine.has(&group.file("cpu.max"));
    let group = groups.iter().find(|group| !group.is_v1() && is_bound(group))?;
    let of_boot = machine.text("/proc/cmdline").unwrap_or_default();
    let is_off = of_boot.split_whitespace().any(|word| word == "rt_group_sched=0");
    let is_in_force = is_configured(machine, "RT_GROUP_SCHED") == Some(true) && !is_off;
    is_in_force.then(|| Refusal {
        cause: format!(
            "the kernel has CONFIG_RT_GROUP_SCHED, and cgroup v2 gives the group {} no real-time runtime, which refuses \
             root, too",
            group.name()
        ),
        next: "move to the topmost group (echo $$ > /sys/fs/cgroup/cgroup.procs), or sysctl kernel.sched_rt_runtime_us=-1"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], part: &str) {
        let root = tempfile::tempdir().unwrap();
        let whole =
            [("/proc/sys/kernel/sched_rt_runtime_us", "950000"), ("/proc/sys/kernel/sched_rt_period_us", "1000000")];
        for (path, text) in whole.iter().chain(files) {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = refusal(&Machine::at(root.path()), 80);
        assert!(found.cause.contains(part) && !found.next.is_empty(), "{files:?}: {found:?}");
    }

    #[test]
    fn the_cause_is_the_one_that_refuses() {
        let group = ("/proc/self/cgroup", "1:cpu:/job\n0::/\n");
        let share = |runtime| ("/sys/fs/cgroup/cpu/job/cpu.rt_runtime_us", runtime);
        let period = ("/sys/fs/cgroup/cpu/job/cpu.rt_period_us", "1000000");
        let root = ("/proc/self/status", "Name:\tkymo\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n");
        let user = ("/proc/self/status", "Name:\tkymo\nCapEff:\t0000000000000000\nSeccomp:\t0\n");
        let filtered = ("/proc/self/status", "Name:\tkymo\nCapEff:\t000001ffffffffff\nSeccomp:\t2\n");
        let limits = |number| ("/proc/self/limits", number);
        let (none, some) = ("Max realtime priority     0   0\n", "Max realtime priority     99   99\n");
        let first = ("/proc/self/uid_map", "         0          0 4294967295\n");
        let other = ("/proc/self/uid_map", "         0       1000          1\n");
        // Not ulimit: root is refused.
        check(&[group, share("0"), period, root, limits(none), first], "group /job has no real-time runtime");
        check(&[group, share("0"), period, user, limits(none), first], "group /job has no real-time runtime");
        let all = ("/proc/sys/kernel/sched_rt_runtime_us", "-1");
        check(&[group, share("0"), period, user, limits(none), first, all], "ulimit -r");
        check(&[group, share("1000"), period, user, limits(none), first], "real-time priority is 0 here (ulimit -r)");
        check(&[group, share("1000"), period, user, limits(some), first], "neither limit");
        check(&[root, limits(none), first], "neither limit, capability nor control group");
        check(&[root, limits(none), other], "user namespace");
        check(&[filtered, limits(none), first], "seccomp");
        check(&[], "why is not known");
        let v2 = [("/proc/self/cgroup", "0::/x\n"), ("/sys/fs/cgroup/x/cpu.max", "max 100000")];
        let config = [("/proc/sys/kernel/osrelease", "6.1.0"), ("/boot/config-6.1.0", "CONFIG_RT_GROUP_SCHED=y\n")];
        check(&[v2[0], v2[1], config[0], config[1], root, first], "cgroup v2 gives the group /x no real-time runtime");
        let off = ("/proc/cmdline", "rt_group_sched=0");
        check(&[v2[0], v2[1], config[0], config[1], root, first, off, limits(none)], "neither limit");
    }
}
