// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that a process can be moved to, by the kernel's word.

use std::path::Path;

/// CPUs that are online and that the cpuset of a process allows; all online ones where that cannot be seen.
pub(crate) fn reachable(pid: u32) -> Vec<u32> {
    let list =
        |path: &Path| std::fs::read(path).ok().map(|text| kymo_state::cpu_list(&text)).filter(|cpus| !cpus.is_empty());
    let online = list(Path::new("/sys/devices/system/cpu/online")).unwrap_or_default();
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let allowed = cpuset_files(&groups).iter().find_map(|path| list(Path::new(path)));
    match allowed {
        Some(allowed) => online.into_iter().filter(|cpu| allowed.contains(cpu)).collect(),
        None => online,
    }
}

/// The files that may say which CPUs a group has, the nearest first: of version 2, where a group without a cpuset has
/// its parent's, and of version 1.
fn cpuset_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(mut path)) = (parts.next(), parts.next()) else { continue };
        let roots: &[(&str, &str)] = match controllers {
            "" => &[("/sys/fs/cgroup", "cpuset.cpus.effective"), ("/sys/fs/cgroup/unified", "cpuset.cpus.effective")],
            "cpuset" => &[("/sys/fs/cgroup/cpuset", "cpuset.effective_cpus")],
            _ => continue,
        };
        loop {
            path = path.trim_end_matches('/');
            files.extend(roots.iter().map(|(root, file)| format!("{root}{path}/{file}")));
            match path.rfind('/') {
                Some(end) if !path.contains("..") => path = &path[..end],
                _ => break,
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_group_is_asked_first() {
        let files = cpuset_files("0::/a/b\n");
        assert_eq!(files[0], "/sys/fs/cgroup/a/b/cpuset.cpus.effective");
        assert_eq!(files[2], "/sys/fs/cgroup/a/cpuset.cpus.effective");
        assert_eq!(files[4], "/sys/fs/cgroup/cpuset.cpus.effective");
        assert_eq!(files.len(), 6);
        let files = cpuset_files("4:cpuset:/x\n2:cpu,cpuacct:/y\n");
        assert_eq!(
            files,
            ["/sys/fs/cgroup/cpuset/x/cpuset.effective_cpus", "/sys/fs/cgroup/cpuset/cpuset.effective_cpus"]
        );
        assert_eq!(cpuset_files("nonsense\n"), Vec::<String>::new());
        // Outside of a control group namespace: nothing above it.
        assert_eq!(cpuset_files("0::/../x\n").len(), 2);
    }

    #[test]
    fn this_process_can_be_moved_to_a_cpu() {
        assert!(!reachable(std::process::id()).is_empty());
    }
}
