// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session that is killed leaves nothing in tracefs: its guard stops and removes at once what it made, with no
//! session after it.

use kymo_tests::{Kernel, Lab, Random, times};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Waits until nothing of the session is left in tracefs, and no guard runs.
#[track_caller]
fn wait_clean(lab: &Lab, kernel: &Kernel, pid: u32, guards: &[u32]) {
    lab.wait_for("the guard removes what was left", || {
        let is_clean = kernel.instances_of(pid).is_empty() && kernel.probes_of(pid).is_empty();
        let has_ended = guards.iter().all(|guard| !std::path::Path::new(&format!("/proc/{guard}")).exists());
        (is_clean && has_ended).then_some(())
    });
}

/// SIGKILL to the collector alone, and to its whole process group with the command, at random moments of a session's
/// life: before its instance is made, while events are switched on, while it records, while it ends.
#[test]
fn killed_at_any_moment() {
    let Some(kernel) = Kernel::find("guard_kill") else { return };
    let mut random = Random::new("guard_kill", 11);
    let lab = Lab::new("guard_kill");
    let program = lab.cc("calls.c");
    let place = format!("{}:main", program.display());
    let mut met = 0;
    for turn in 0..times(12, 60) {
        let mut command = lab.command(kymo_tests::paths::kymo());
        command.args(["record", "-q", "-o", &format!("trace{turn}"), "--state", "none", "-k", "sched:sched_switch"]);
        command.args(["-U", &place, "--", "sh", "-c", "sleep 0.05"]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let collector = lab.start(command);
        let pid = collector.pid();
        // A moment of the session's life, not a wait for anything.
        std::thread::sleep(std::time::Duration::from_micros(random.below(300_000)));
        let guards = kernel.guards_of(pid);
        met += usize::from(!kernel.instances_of(pid).is_empty());
        let id = Pid::from_raw(pid as i32).unwrap();
        let _ = if turn % 2 == 0 { kill_process(id, Signal::KILL) } else { kill_process_group(id, Signal::KILL) };
        collector.wait();
        wait_clean(&lab, &kernel, pid, &guards);
    }
    println!("{met} sessions had an instance when they were killed");
}

/// A flight recorder has two instances; a session in the background has them, too.
#[test]
fn every_instance_has_a_guard() {
    let Some(kernel) = Kernel::find("guard_all") else { return };
    let lab = Lab::new("guard_all");
    let options = ["--flight", "--trigger", "wakeup() > 10s", "-k", "sched:sched_switch", "--state", "none"];
    let mut flight = lab.record("flight").args(&options).attach();
    let pid = flight.proc().pid();
    let guards = kernel.guards_of(pid);
    assert_eq!((kernel.instances_of(pid).len(), guards.len()), (2, 2));
    flight.end(Signal::KILL);
    wait_clean(&lab, &kernel, pid, &guards);
    let session =
        kymo_tests::session::Session::start(&lab, "background", &["-k", "sched:sched_switch", "--state", "none"]);
    let pid = session.ask(&["status"])["pid"].as_u64().unwrap() as u32;
    let guards = kernel.guards_of(pid);
    assert_eq!((kernel.instances_of(pid).len(), guards.len()), (1, 1));
    session.kill();
    wait_clean(&lab, &kernel, pid, &guards);
}

/// A session that ends as it should takes its guard with it, and a guard is deaf to what ends a session.
#[test]
fn a_guard_ends_with_its_session() {
    let Some(kernel) = Kernel::find("guard_end") else { return };
    let lab = Lab::new("guard_end");
    let mut session = lab.record("trace").args(&["-k", "sched:sched_switch", "--state", "none"]).attach();
    let pid = session.proc().pid();
    let guards = kernel.guards_of(pid);
    assert_eq!(guards.len(), 1);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let _ = kill_process(Pid::from_raw(guards[0] as i32).unwrap(), signal);
    }
    assert_eq!(kernel.guards_of(pid), guards, "a guard takes no signal for its session's");
    let open = std::fs::read_dir(format!("/proc/{}/fd", guards[0])).unwrap().count();
    assert!(open <= 4, "a guard holds {open} descriptors: whoever waits for their end would wait for it");
    let recorded = session.end(Signal::INT).expect(0);
    kernel.assert_clean(recorded.pid);
    assert!(!std::path::Path::new(&format!("/proc/{}", guards[0])).exists(), "the guard is still there");
}

/// Without its guard, what is left is removed by the next session.
#[test]
fn a_guard_that_was_killed_too() {
    let Some(kernel) = Kernel::find("guard_none") else { return };
    // Another session would remove what this one is to find.
    let lab = Lab::alone("guard_none");
    let mut session = lab.record("trace").args(&["-k", "sched:sched_switch", "--state", "none"]).attach();
    let pid = session.proc().pid();
    for guard in kernel.guards_of(pid) {
        kill_process(Pid::from_raw(guard as i32).unwrap(), Signal::KILL).unwrap();
    }
    session.end(Signal::KILL);
    let left = kernel.instances_of(pid);
    let next = lab.record("next").args(&["-k", "sched:sched_switch", "--state", "none"]).run(&["true"]).expect(0);
    kernel.assert_clean(pid);
    kernel.assert_clean(next.pid);
    // Another session of this machine may have come meanwhile, and removed it as it should.
    if let Some(left) = left.first() {
        super::says(&next.outcome.stderr, &["dead session", left.file_name().unwrap().to_str().unwrap()]);
    }
}
