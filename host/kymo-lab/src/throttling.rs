// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stops a real-time thread that never sleeps [spec/lab.md 6]: throttling, of the machine or of its control group,
//! and the fair server of Linux 6.12 and later. The doctor and the tests ask here, so that they say the same.

use crate::cgroup;
use crate::kernel_config::{is_configured, release};
use crate::probe::caveat;
use crate::{Caveat, Machine, Unread};

/// Linux version that brought the fair server, and left throttling to kernels with CONFIG_RT_GROUP_SCHED.
const FAIR_SERVER_SINCE: (u32, u32) = (6, 12);
const FAIR_SERVER_DIR: &str = "/sys/kernel/debug/sched/fair_server";

/// A share of time that real-time threads may use, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) runtime_us: i64,
    pub(crate) period_us: i64,
}

impl Share {
    /// Its threads cannot become real-time ones at all.
    pub(crate) fn is_nothing(self) -> bool {
        self.runtime_us == 0
    }

    fn part(self) -> f64 {
        self.runtime_us as f64 / self.period_us.max(1) as f64
    }

    fn is_all(self) -> bool {
        self.runtime_us < 0 || self.runtime_us >= self.period_us
    }
}

/// The machine's setting, `kernel.sched_rt_runtime_us`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Throttling {
    /// Set to be off.
    Off(Share),
    /// The kernel stops threads by it.
    InForce(Share),
    /// This kernel uses it only when a deadline thread is admitted.
    AdmissionOnly(Share),
    /// One of the two: the kernel's configuration cannot be read.
    Unsure(Share),
    /// The setting cannot be read.
    Unread(Unread),
}

/// The time that ordinary threads get where a real-time one never sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FairServer {
    /// A kernel before it.
    None,
    /// Why it is not known: then it is the kernel's default.
    Unread(String),
    /// The longest of the CPUs, nanoseconds a period; 0 is off.
    RuntimeNs(u64),
}

pub(crate) fn throttling(machine: &Machine) -> Throttling {
    let of = |name: &str| machine.number::<i64>(&format!("/proc/sys/kernel/sched_rt_{name}_us"));
    let share = match (of("runtime"), of("period")) {
        (Ok(runtime_us), Ok(period_us)) => Share { runtime_us, period_us },
        (Err(reason), _) | (_, Err(reason)) => return Throttling::Unread(reason),
    };
    if share.is_all() {
        return Throttling::Off(share);
    }
    match (release(machine) >= FAIR_SERVER_SINCE, is_configured(machine, "RT_GROUP_SCHED")) {
        (true, Some(false)) => Throttling::AdmissionOnly(share),
        (true, None) => Throttling::Unsure(share),
        _ => Throttling::InForce(share),
    }
}

/// The real-time share of the group that a process is in, where groups have one (cgroup v1, CONFIG_RT_GROUP_SCHED).
///
/// # Errors
/// There may be one, and it cannot be read.
pub(crate) fn share_of_group(machine: &Machine, process_dir: &str) -> Result<Option<(String, Share)>, Unread> {
    let groups = cgroup::of_process(machine, process_dir)?;
    let Some(group) = groups.iter().find(|group| group.is_v1()) else { return Ok(None) };
    let dir = group.file("");
    machine.list(&dir).map_err(|reason| reason.of(dir.trim_end_matches('/')))?;
    let of = |name: &str| {
        let path = group.file(&format!("cpu.rt_{name}_us"));
        match machine.number::<i64>(&path) {
            Ok(number) => Ok(Some(number)),
            Err(reason) if reason.is_absent() => Ok(None),
            Err(reason) => Err(reason.of(&path)),
        }
    };
    let (Some(runtime_us), Some(period_us)) = (of("runtime")?, of("period")?) else { return Ok(None) };
    Ok(Some((group.name().to_owned(), Share { runtime_us, period_us })))
}

/// The same where it is less than what the machine's setting leaves. Where that is -1 the kernel looks at no group.
///
/// # Errors
/// As [`share_of_group`].
pub(crate) fn group(machine: &Machine, process_dir: &str) -> Result<Option<(String, Share)>, Unread> {
    let of_machine = match throttling(machine) {
        Throttling::Off(share) if share.runtime_us < 0 => return Ok(None),
        Throttling::Unread(_) => Share { runtime_us: -1, period_us: 1 },
        Throttling::Off(share) | Throttling::InForce(share) => share,
        Throttling::AdmissionOnly(_) => return Ok(None),
        Throttling::Unsure(share) => share,
    };
    let of_group = share_of_group(machine, process_dir)?;
    let is_less = |share: Share| !share.is_all() && (of_machine.is_all() || share.part() < of_machine.part());
    Ok(of_group.filter(|(_, share)| is_less(*share)))
}

/// Of these CPUs, or of all.
pub(crate) fn fair_server(machine: &Machine, cpus: Option<&[u32]>) -> FairServer {
    match release(machine) {
        (0, _) => return FairServer::Unread("the kernel does not tell its version".to_owned()),
        release if release < FAIR_SERVER_SINCE => return FairServer::None,
        _ => {}
    }
    let names = match machine.list(FAIR_SERVER_DIR) {
        Ok(names) => names,
        Err(_) if !machine.has("/sys/kernel/debug/sched") => {
            let text = "debugfs is not mounted, locked, or not for you; the default is 50 ms of each second";
            return FairServer::Unread(text.to_owned());
        }
        Err(reason) => return FairServer::Unread(reason.0),
    };
    let is_wanted = |name: &&String| {
        let number = name.strip_prefix("cpu").and_then(|digits| digits.parse().ok());
        cpus.is_none_or(|cpus| number.is_some_and(|cpu: u32| cpus.contains(&cpu)))
    };
    let runtime = |name: &String| machine.number::<u64>(&format!("{FAIR_SERVER_DIR}/{name}/runtime"));
    let (read, refused): (Vec<_>, Vec<_>) = names.iter().filter(is_wanted).map(runtime).partition(Result::is_ok);
    match (read.into_iter().flatten().max(), refused.into_iter().find_map(Result::err)) {
        // Those that cannot be read may be on where the others are off.
        (Some(ns), unread) if ns > 0 || unread.is_none() => FairServer::RuntimeNs(ns),
        (_, Some(reason)) => FairServer::Unread(format!(
            "{FAIR_SERVER_DIR}/cpuN/runtime: {}; the default is 50 ms of each second",
            reason.0
        )),
        (_, None) => FairServer::Unread(format!("{FAIR_SERVER_DIR} has none of these CPUs")),
    }
}

/// What stops a thread of a real-time class that keeps one of these CPUs busy: to be said before such a run.
pub fn busy_loop(machine: &Machine, cpus: &[u32]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let stops = |share: Share| {
        let Share { runtime_us: runtime, period_us: period } = share;
        let (of, part, gap) = (period as f64 / 1e3, runtime as f64 / 1e3, (period - runtime) as f64 / 1e3);
        format!("{part:.1} of every {of:.1} ms at most, so a busy one is stopped for {gap:.1} ms")
    };
    let setting = |share: Share| format!("sched_rt_runtime_us {}", share.runtime_us);
    let group = group(machine, "/proc/self").unwrap_or_default();
    match throttling(machine) {
        // What is said of the group is stricter.
        _ if group.is_some() => {}
        Throttling::InForce(share) => {
            let text = format!("real-time threads get {} ({})", stops(share), setting(share));
            caveats.push(caveat("rt-throttling", &text));
        }
        Throttling::Unsure(share) => {
            let text = format!(
                "real-time threads get {} ({}), if the kernel has CONFIG_RT_GROUP_SCHED, which cannot be read",
                stops(share),
                setting(share)
            );
            caveats.push(caveat("rt-throttling", &text));
        }
        Throttling::Off(_) | Throttling::AdmissionOnly(_) | Throttling::Unread(_) => {}
    }
    if let Some((path, share)) = group {
        let text = format!("real-time threads of the control group {path} get {} (cpu.rt_runtime_us)", stops(share));
        caveats.push(caveat("rt-throttling", &text));
    }
    let waits = "on CPUs where ordinary threads wait, they get";
    match fair_server(machine, Some(cpus)) {
        FairServer::RuntimeNs(ns) if ns > 0 => {
            let text = format!("{waits} {:.1} ms of every period of the fair server (1 s)", ns as f64 / 1e6);
            caveats.push(caveat("fair-server", &text));
        }
        FairServer::Unread(why) => {
            let text = format!("{waits} time by the fair server; how much cannot be read: {why}");
            caveats.push(caveat("fair-server", &text));
        }
        FairServer::None | FairServer::RuntimeNs(_) => {}
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of files, and what a busy loop on CPU 1 is told on it.
    fn caveats(files: &[(&str, &str)]) -> Vec<Caveat> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        busy_loop(&Machine::at(root.path()), &[1])
    }

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        caveats(files).into_iter().map(|caveat| caveat.id).collect()
    }

    fn text_of(files: &[(&str, &str)]) -> Vec<String> {
        caveats(files).into_iter().map(|caveat| caveat.text).collect()
    }

    #[test]
    fn each_setting_is_told_before_a_busy_loop() {
        const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
        const PERIOD: (&str, &str) = ("/proc/sys/kernel/sched_rt_period_us", "1000000");
        const SERVER: &str = "/sys/kernel/debug/sched/fair_server/cpu1/runtime";
        let release = |text| ("/proc/sys/kernel/osrelease", text);
        let config = |release: &str| format!("/boot/config-{release}");
        let with = ("6.18.1", config("6.18.1"));
        // Before 6.12 the setting alone decides.
        assert_eq!(told(&[release("6.1.0"), (RUNTIME, "950000"), PERIOD]), ["rt-throttling"]);
        for off in ["-1", "1000000"] {
            assert_eq!(told(&[release("6.1.0"), (RUNTIME, off), PERIOD]), [""; 0], "{off}");
        }
        // From then on the configuration does, and the server comes to it.
        let group = (with.1.as_str(), "CONFIG_RT_GROUP_SCHED=y\n");
        let no_group = (with.1.as_str(), "# CONFIG_RT_GROUP_SCHED is not set\nCONFIG_SMP=y\n");
        for (config, runtime, server, expect) in [
            (Some(group), "950000", "50000000", &["rt-throttling", "fair-server"][..]),
            (Some(group), "950000", "0", &["rt-throttling"]),
            (Some(group), "-1", "50000000", &["fair-server"]),
            (Some(group), "-1", "0", &[]),
            (Some(no_group), "950000", "50000000", &["fair-server"]),
            (Some(no_group), "950000", "0", &[]),
            (None, "950000", "0", &["rt-throttling"]),
        ] {
            let mut files = vec![release(with.0), (RUNTIME, runtime), PERIOD, (SERVER, server)];
            files.extend(config);
            assert_eq!(told(&files), expect, "{config:?} {runtime} {server}");
        }
        // A server that cannot be read is there; one of other CPUs does not matter.
        assert_eq!(told(&[release(with.0), (RUNTIME, "-1"), PERIOD]), ["fair-server"]);
        let other = ("/sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000");
        assert_eq!(told(&[release(with.0), (RUNTIME, "-1"), PERIOD, (SERVER, "0"), other]), [""; 0]);
    }

    #[test]
    fn a_control_group_has_a_share_of_its_own() {
        let files = |runtime, group| {
            [
                ("/proc/sys/kernel/osrelease", "5.10.0"),
                ("/proc/sys/kernel/sched_rt_runtime_us", runtime),
                ("/proc/sys/kernel/sched_rt_period_us", "1000000"),
                ("/proc/self/cgroup", "4:memory:/\n3:cpu,cpuacct:/jobs\n0::/\n"),
                ("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.rt_runtime_us", group),
                ("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.rt_period_us", "1000000"),
            ]
        };
        let text = |runtime, group| text_of(&files(runtime, group)).join("; ");
        assert!(text("950000", "300000").contains("/jobs get 300.0 of every 1000.0 ms"));
        assert!(text("1000000", "300000").contains("/jobs get 300.0 of every 1000.0 ms"));
        assert!(text("950000", "950000").contains("sched_rt_runtime_us 950000"));
        // Nothing is throttled then, whatever a group has.
        assert_eq!(text("-1", "300000"), "");
        assert_eq!(told(&files("950000", "300000")), ["rt-throttling"]);
        assert_eq!(told(&files("1000000", "-1")), [""; 0]);
    }
}
