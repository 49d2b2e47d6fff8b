// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups that bound the CPU time of a process [spec/lab.md 9]: its own ones and those above them, of
//! cgroup v1 and v2, wherever they are mounted.

use crate::{Machine, Unread};

/// Groups that a walk looks at.
const GROUPS_MAX: usize = 4096;

/// A hierarchy that shares out CPU time, and the place of a process in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuGroup {
    is_v1: bool,
    /// Where the hierarchy is mounted.
    mount: String,
    /// The group, below that; empty for the topmost one.
    below: String,
}

/// A bound on the time of normal threads, in each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Of which group, below its mount.
    group: String,
    quota_us: u64,
    period_us: u64,
    file: &'static str,
}

impl std::fmt::Display for Quota {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Quota { group, quota_us, period_us, file } = self;
        write!(to, "{quota_us} us of every {period_us} us in {group} ({file})")
    }
}

impl CpuGroup {
    /// Its name, as /proc/PID/cgroup has it.
    pub(crate) fn name(&self) -> &str {
        if self.below.is_empty() { "/" } else { &self.below }
    }

    /// Whether it is of cgroup v1, which has a runtime of real-time threads for each group.
    pub(crate) fn is_v1(&self) -> bool {
        self.is_v1
    }

    /// A file of the group.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}{}/{name}", self.mount, self.below)
    }

    /// It and those above it that can be seen, the topmost one last.
    fn levels(&self) -> Vec<CpuGroup> {
        let mut levels = vec![self.clone()];
        while let Some((above, _)) = levels.last().and_then(|level| level.below.rsplit_once('/')) {
            let above = CpuGroup { below: above.to_owned(), ..self.clone() };
            levels.push(above);
        }
        levels
    }

    /// Whether the topmost group that can be seen has others above it: the view of a container.
    fn is_cut_off(&self, machine: &Machine) -> bool {
        // The root of v2 has no events, and only that of v1 has an agent.
        match self.is_v1 {
            true => !machine.has(&format!("{}/release_agent", self.mount)),
            false => machine.has(&format!("{}/cgroup.events", self.mount)),
        }
    }

    /// The quota of this group alone.
    fn quota(&self, machine: &Machine) -> Result<Option<Quota>, Unread> {
        let optional = |name: &str| {
            let path = self.file(name);
            match machine.text(&path) {
                Ok(text) => Ok(Some(text)),
                Err(reason) if reason.is_absent() && machine.lacks(&path) => Ok(None),
                Err(reason) => Err(reason.of(&path)),
            }
        };
        // A group whose directory is not there is none that has no quota.
        let dir = self.file("");
        machine.list(&dir).map_err(|reason| reason.of(dir.trim_end_matches('/')))?;
        let (quota, period, file) = if self.is_v1 {
            (optional("cpu.cfs_quota_us")?, optional("cpu.cfs_period_us")?, "cpu.cfs_quota_us")
        } else {
            let both = optional("cpu.max")?;
            let words: Vec<String> = both.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
            (words.first().cloned(), words.get(1).cloned(), "cpu.max")
        };
        let Some(quota) = quota.filter(|text| text != "max" && text != "-1") else { return Ok(None) };
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| Unread(format!("{file}: {text:?}")));
        let quota_us = number(&quota)?;
        let period_us = number(period.as_deref().unwrap_or("100000"))?;
        Ok(Some(Quota { group: self.name().to_owned(), quota_us, period_us, file }))
    }
}

/// The groups of the process whose directory in /proc this is; none where no hierarchy shares out CPU time.
///
/// # Errors
/// The process, or its groups, cannot be read.
pub(crate) fn of_process(machine: &Machine, process_dir: &str) -> Result<Vec<CpuGroup>, Unread> {
    let path = format!("{process_dir}/cgroup");
    let text = match machine.text(&path) {
        Ok(text) => text,
        // A kernel without control groups.
        Err(reason) if reason.is_absent() && machine.lacks(&path) && machine.has(process_dir) => return Ok(Vec::new()),
        Err(reason) => return Err(reason.of(&path)),
    };
    let mounts = machine.text("/proc/self/mountinfo").unwrap_or_default();
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let is_v1 = !controllers.is_empty();
        if is_v1 && !controllers.split(',').any(|one| one == "cpu") {
            continue;
        }
        groups.push(place(machine, &mounts, (is_v1, controllers), group)?);
    }
    Ok(groups)
}

/// Where a group is mounted.
fn place(machine: &Machine, mounts: &str, (is_v1, controllers): (bool, &str), group: &str) -> Result<CpuGroup, Unread> {
    let group = group.trim_end_matches('/');
    if let Some((root, mount)) = mounts.lines().find_map(|line| mounted(line, is_v1)) {
        // A container sees its own group as the root of the mount.
        let below =
            group.strip_prefix(root.trim_end_matches('/')).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let below = below.ok_or_else(|| Unread(format!("the control group {group} is not below what is mounted")))?;
        return Ok(CpuGroup { is_v1, mount: mount.trim_end_matches('/').to_owned(), below: below.to_owned() });
    }
    let usual = match is_v1 {
        true => vec![format!("/sys/fs/cgroup/{controllers}"), "/sys/fs/cgroup/cpu".to_owned()],
        false => vec!["/sys/fs/cgroup/unified".to_owned(), "/sys/fs/cgroup".to_owned()],
    };
    let mount = usual.iter().find(|dir| machine.has(dir)).or(usual.last()).cloned().unwrap_or_default();
    Ok(CpuGroup { is_v1, mount, below: group.to_owned() })
}

/// Root and place of a mount of control groups, from a line of mountinfo; of v1 the one that shares out CPU time.
fn mounted(line: &str, is_v1: bool) -> Option<(&str, &str)> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, mount) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1)?);
    let is_it = match is_v1 {
        true => kind == "cgroup" && options.split(',').any(|option| option == "cpu"),
        false => kind == "cgroup2",
    };
    is_it.then_some((root, mount))
}

/// Quotas of the groups and of those above them.
///
/// # Errors
/// A group cannot be read, or has others above it that cannot be seen, and none has a quota.
pub(crate) fn quotas(machine: &Machine, groups: &[CpuGroup]) -> Result<Vec<Quota>, Unread> {
    let (mut found, mut unread) = (Vec::new(), None);
    for group in groups {
        for level in group.levels() {
            match level.quota(machine) {
                Ok(quota) => found.extend(quota),
                Err(reason) => unread = unread.or(Some(reason)),
            }
        }
        if group.is_cut_off(machine) {
            let text = format!("none in the groups below {}; those above it cannot be seen from here", group.mount);
            unread = unread.or(Some(Unread(text)));
        }
    }
    match unread {
        Some(reason) if found.is_empty() => Err(reason),
        _ => Ok(found),
    }
}

/// Quotas of all groups of these hierarchies that have processes; `true`: there are more groups than were looked at.
///
/// # Errors
/// A directory cannot be read.
pub(crate) fn all_quotas(machine: &Machine, groups: &[CpuGroup]) -> Result<(Vec<Quota>, bool), Unread> {
    let mut found = Vec::new();
    let mut left: Vec<CpuGroup> =
        groups.iter().map(|group| CpuGroup { below: String::new(), ..group.clone() }).collect();
    let mut looked_at = 0;
    while let Some(group) = left.pop() {
        looked_at += 1;
        if looked_at > GROUPS_MAX {
            return Ok((found, true));
        }
        let dir = group.file("");
        let names = match machine.list(&dir) {
            Ok(names) => names,
            // It was removed meanwhile.
            Err(reason) if reason.is_absent() && !group.below.is_empty() => continue,
            Err(reason) => return Err(reason.of(dir.trim_end_matches('/'))),
        };
        match group.quota(machine) {
            Ok(quota) => found.extend(quota),
            Err(_) if !group.below.is_empty() && !machine.has(&dir) => continue,
            Err(reason) => return Err(reason),
        }
        let is_group = |name: &&String| machine.path(&group.file(name)).is_dir();
        let below = |name: &String| CpuGroup { below: format!("{}/{name}", group.below), ..group.clone() };
        left.extend(names.iter().filter(is_group).map(below));
    }
    Ok((found, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = Machine::at(root.path());
        (root, machine)
    }

    /// What is found for the process itself.
    fn check(files: &[(&str, &str)], expect: Result<&[&str], &str>) {
        let (_root, machine) = machine(files);
        let found = of_process(&machine, "/proc/self").and_then(|groups| quotas(&machine, &groups));
        match (found, expect) {
            (Ok(found), Ok(expect)) => {
                assert_eq!(found.iter().map(Quota::to_string).collect::<Vec<_>>(), expect, "{files:?}");
            }
            (Err(reason), Err(part)) => assert!(reason.0.contains(part), "{files:?}: {}", reason.0),
            (found, expect) => panic!("{files:?}: {found:?}, not {expect:?}"),
        }
    }

    const V1: &str = "30 23 0:26 / /groups/cpu rw - cgroup cgroup rw,cpuacct,cpu\n";
    const OF_CONTAINER: &str = "30 23 0:26 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";

    #[test]
    fn quotas_of_both_versions_are_found_wherever_they_are_mounted() {
        let own = |text| ("/proc/self/cgroup", text);
        let mounts = |text| ("/proc/self/mountinfo", text);
        let both = own("3:cpu,cpuacct:/a/b\n1:name=systemd:/\n0::/\n");
        let quota = ("/groups/cpu/a/b/cpu.cfs_quota_us", "10000");
        let period = ("/groups/cpu/a/b/cpu.cfs_period_us", "100000");
        let v2 = ("/sys/fs/cgroup/unified/cgroup.procs", "1");
        let none = ("/groups/cpu/a/cpu.cfs_quota_us", "-1");
        let told: &[&str] = &["10000 us of every 100000 us in /a/b (cpu.cfs_quota_us)"];
        check(&[both, mounts(V1), quota, period, none, v2], Ok(told));
        // A group above, and one of v2.
        let above = ("/groups/cpu/a/cpu.cfs_quota_us", "5000");
        let off = ("/groups/cpu/a/b/cpu.cfs_quota_us", "-1");
        check(&[both, mounts(V1), off, above, v2], Ok(&["5000 us of every 100000 us in /a (cpu.cfs_quota_us)"]));
        let max = ("/sys/fs/cgroup/x.slice/cpu.max", "50000 200000");
        check(
            &[own("0::/x.slice/y"), max, ("/sys/fs/cgroup/x.slice/y/cpu.max", "max 100000")],
            Ok(&["50000 us of every 200000 us in /x.slice (cpu.max)"]),
        );
        check(&[both, mounts(V1), off, none, v2, ("/groups/cpu/release_agent", "")], Ok(&[]));
        // A container's own group is the root of its mount.
        let container = own("4:cpu:/docker/abc\n");
        let of_mount = ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "7000");
        check(
            &[container, mounts(OF_CONTAINER), of_mount],
            Ok(&["7000 us of every 100000 us in / (cpu.cfs_quota_us)"]),
        );
    }

    #[test]
    fn a_group_that_cannot_be_seen_is_not_one_without_a_quota() {
        let own = |text| ("/proc/self/cgroup", text);
        let mounts = |text| ("/proc/self/mountinfo", text);
        let both = own("3:cpu,cpuacct:/a/b\n0::/\n");
        let none = ("/groups/cpu/a/cpu.cfs_quota_us", "-1");
        let off = ("/groups/cpu/a/b/cpu.cfs_quota_us", "-1");
        let v2 = ("/sys/fs/cgroup/unified/cgroup.procs", "1");
        check(&[own("0::/x.slice")], Err("/sys/fs/cgroup/x.slice: absent"));
        check(&[own("3:cpu:/elsewhere"), mounts(OF_CONTAINER)], Err("not below what is mounted"));
        let events = ("/sys/fs/cgroup/cgroup.events", "populated 1");
        check(&[own("0::/"), events, ("/sys/fs/cgroup/cpu.max", "max 100000")], Err("those above it cannot be seen"));
        check(&[own("0::/"), ("/sys/fs/cgroup/cpu.max", "soon")], Err("cpu.max: \"soon\""));
        check(&[both, mounts(V1), off, none, v2], Err("those above it cannot be seen"));
        check(&[], Err("/proc/self/cgroup: absent"));
        // A kernel without control groups has none.
        check(&[("/proc/self/stat", "1")], Ok(&[]));
    }

    #[test]
    fn all_groups_of_a_hierarchy_are_walked() {
        let (_root, machine) = machine(&[
            ("/proc/self/cgroup", "3:cpu:/\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "1000"),
            ("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "2000"),
        ]);
        let groups = of_process(&machine, "/proc/self").unwrap();
        let (mut found, is_cut) = all_quotas(&machine, &groups).unwrap();
        found.sort_by_key(|quota| quota.quota_us);
        let groups: Vec<&str> = found.iter().map(|quota| quota.group.as_str()).collect();
        assert_eq!((groups, is_cut), (vec!["/a/b", "/c"], false));
    }
}
