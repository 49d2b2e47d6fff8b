// SPDX-License-Identifier: MIT OR Apache-2.0
//! kymo shield: the command is alone, and the machine is as it was afterwards, also after SIGKILL. CPU 1 is shielded
//! for moments only, and every other program is kept off it: these tests run alone.

use std::collections::BTreeMap;
use std::fs;

use kymo_tests::{Lab, Outcome, skip};
use rustix::process::Signal;

fn may_shield(name: &str) -> bool {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !online.trim().starts_with("0-") {
        skip(name, "needs root, and a second CPU");
    }
    is_root && online.trim().starts_with("0-")
}

/// Interrupts and kernel work, by file.
fn settings() -> BTreeMap<String, String> {
    let irqs = fs::read_dir("/proc/irq").into_iter().flatten().flatten();
    let mut paths: Vec<String> = irqs.map(|entry| format!("{}/smp_affinity_list", entry.path().display())).collect();
    paths.push("/proc/irq/default_smp_affinity".to_owned());
    paths.push("/sys/devices/virtual/workqueue/cpumask".to_owned());
    paths.into_iter().filter_map(|path| Some((path.clone(), fs::read_to_string(&path).ok()?))).collect()
}

fn allowed(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    line.trim().to_owned()
}

fn groups() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let roots = text.lines().filter(|line| line.contains(" cgroup")).filter_map(|line| line.split(' ').nth(1));
    let names = roots.flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
    let names = names.map(|entry| entry.path().display().to_string());
    names.filter(|name| name.contains("/kymo-shield-")).collect()
}

#[test]
fn the_command_is_alone_and_everything_comes_back() {
    if !may_shield("the_command_is_alone_and_everything_comes_back") {
        return;
    }
    let lab = Lab::alone("shield");
    let before = settings();
    let other = lab.spawn("sleep", &["60"]);
    let of_other = allowed(other.pid());
    let script = format!(
        "grep Cpus_allowed_list /proc/self/status; grep Cpus_allowed_list /proc/{}/status; cat /proc/irq/default_smp_affinity; exit 7",
        other.pid()
    );
    let outcome: Outcome = lab.kymo(&["shield", "1", "--", "sh", "-c", &script]).expect(7);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0].split_whitespace().last(), Some("1"), "the command: {}", outcome.stdout);
    // A partition takes its CPU away without a change of the mask that is shown.
    if !outcome.stderr.contains("partition, ") && !outcome.stderr.contains("isolated partition") {
        assert!(!lines[1].ends_with('1'), "the other one: {}", outcome.stdout);
    }
    assert!(outcome.stderr.contains("CPUs 1 shielded by"), "{}", outcome.stderr);
    assert_eq!((settings(), allowed(other.pid())), (before, of_other));
    assert_eq!(groups(), Vec::<String>::new());
    assert_eq!(
        fs::read_dir(lab.runtime_dir()).map_or(0, |dir| dir
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("undo"))
            .count()),
        0
    );
    other.end(Signal::KILL);
}

#[test]
fn what_a_killed_kymo_left_is_taken_back() {
    if !may_shield("what_a_killed_kymo_left_is_taken_back") {
        return;
    }
    let lab = Lab::alone("shield_killed");
    let before = settings();
    let other = lab.spawn("sleep", &["60"]);
    let of_other = allowed(other.pid());
    // The command tells its own id, and goes on after its kymo.
    let shield = lab.spawn(kymo_tests::paths::kymo(), &["shield", "1", "--", "sh", "-c", "echo $$; exec sleep 60"]);
    let inside: u32 = shield.line().trim().parse().expect("the command's id");
    assert_eq!(allowed(inside), "1");
    let moved = settings() != before || allowed(other.pid()) != of_other;
    assert!(moved, "the shield changed nothing, so that nothing could be told");
    shield.end(Signal::KILL);
    let restored = lab.kymo(&["shield", "--restore"]).expect(0);
    assert!(restored.stderr.contains("changes of shield"), "{}", restored.stderr);
    assert_eq!((settings(), allowed(other.pid())), (before, of_other));
    assert_eq!(groups(), Vec::<String>::new());
    let again = lab.kymo(&["shield", "--restore"]).expect(0);
    assert!(again.stderr.contains("nothing to restore"), "{}", again.stderr);
    rustix::process::kill_process(rustix::process::Pid::from_raw(inside as i32).expect("an id"), Signal::KILL).ok();
    other.end(Signal::KILL);
}

#[test]
fn a_shield_that_cannot_be_is_refused_before_anything_changes() {
    let lab = Lab::alone("shield_refused");
    let before = settings();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("CPUs");
    if rustix::process::geteuid().is_root() {
        for (cpus, why) in [("4000", "does not exist or is offline"), (online.trim(), "would leave none")] {
            let refused = lab.kymo(&["shield", cpus, "--", "true"]).expect(2);
            assert!(refused.stderr.contains(why), "{}", refused.stderr);
        }
        lab.kymo(&["shield", "0", "--", "/no/such/command"]).expect(2);
    }
    assert_eq!(settings(), before);
    lab.kymo(&["shield"]).expect(2);
}
