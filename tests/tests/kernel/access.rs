// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may, and what is said to who may not.

use kymo_tests::{Kernel, Lab, Outcome, Recorded, paths, skip};

use super::says;

/// What runs before a command as nobody, or why it cannot.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `script` by a shell in a mount namespace without any tracefs, where `$K` is kymo.
fn without_tracefs(lab: &Lab, script: &str) -> Outcome {
    let unmount = "while t=$(grep -m1 ' tracefs ' /proc/mounts | cut -d' ' -f2) && [ -n \"$t\" ]; do umount \"$t\" || exit 98; done; \
                   while t=$(grep -m1 ' debugfs ' /proc/mounts | cut -d' ' -f2) && [ -n \"$t\" ]; do umount -l \"$t\" || exit 98; done";
    let script = format!("K={}; {unmount}; {script}", paths::kymo().display());
    lab.run("unshare", &["-m", "sh", "-c", &script])
}

/// The lab's directories may be used by anyone.
fn open_to_all(lab: &Lab) {
    std::fs::create_dir_all(lab.path("nobody")).unwrap();
    lab.run("chmod", &["777", ".", "nobody"]).expect(0);
}

#[test]
fn without_rights() {
    if !is_root() || !kymo_tests::has("setpriv") {
        return skip("without_rights", "needs root and setpriv to become nobody");
    }
    let lab = Lab::new("without_rights");
    open_to_all(&lab);
    let nobody = |script: &str| {
        without_tracefs(&lab, &format!("export KYMO_RUNTIME_DIR=$PWD/nobody/rt; exec {NOBODY} sh -c \"{script}\""))
    };
    let can_run = nobody("$K --version");
    if can_run.code != 0 {
        return skip("without_rights", &format!("nobody cannot run kymo here: {}", can_run.stderr));
    }
    let outcome = nobody("exec $K record -o nobody/trace -k sched -- echo ran").expect(2);
    says(&outcome.stderr, &["tracefs is not mounted", "run as root", "mount -t tracefs"]);
    assert_eq!(outcome.stdout, "", "the command is not run");
    assert!(!lab.path("nobody/trace").exists());
    // With a tracefs that root mounted for root: what is missing is another thing.
    let outcome = without_tracefs(
        &lab,
        &format!(
            "mkdir mnt; mount -t tracefs nodev mnt || exit 97; KYMO_RUNTIME_DIR=$PWD/nobody/rt KYMO_TRACEFS=$PWD/mnt \
             exec {NOBODY} $K record -o nobody/trace -k sched -- echo ran"
        ),
    )
    .expect(2);
    says(&outcome.stderr, &["mnt", "ermission", "root"]);
    assert_eq!(outcome.stdout, "");
}

#[test]
fn the_user_part_without_the_kernel() {
    if !is_root() || !kymo_tests::has("setpriv") {
        return skip("optional", "needs root and setpriv to become nobody");
    }
    let lab = Lab::new("optional");
    open_to_all(&lab);
    let program = lab.cc("produce.c");
    let script = format!(
        "export KYMO_RUNTIME_DIR=$PWD/nobody/rt; exec {NOBODY} $K record -o nobody/trace --kernel-optional -k sched -- {} 1 70",
        program.display()
    );
    let outcome = without_tracefs(&lab, &script);
    if outcome.code == 126 || outcome.code == 127 {
        return skip("optional", &format!("nobody cannot run programs of the tests: {}", outcome.stderr));
    }
    let outcome = outcome.expect(0);
    says(&outcome.stderr, &["no kernel events", "tracefs is not mounted", "run as root"]);
    let dir = lab.path("nobody/trace");
    let summary = serde_json::from_str(&std::fs::read_to_string(dir.join(".kymo.json")).unwrap()).unwrap();
    let recorded = Recorded { outcome, dir, summary, pid: 0 };
    assert_eq!(recorded.read(&lab).numbers("produce:rec", "n"), (0..70).collect::<Vec<_>>());
    assert!(recorded.summary["kernel"].is_null(), "{}", recorded.summary["kernel"]);
    // Optional is not careless: what is wrong with the request is an error all the same.
    let recorded = lab.record("wrong").args(&["--kernel-optional", "-k", "sched["]).run(&["true"]);
    assert_eq!(recorded.outcome.code, 2, "{}", recorded.outcome.stderr);
}

/// No tracefs is mounted, and root needs none: kymo has a mount of its own, which nobody sees.
#[test]
fn without_a_mount() {
    let Some(_kernel) = Kernel::find("without_a_mount") else { return };
    let lab = Lab::new("without_a_mount");
    let script = "$K record -o trace -k sched:sched_process_exec,mark -- sh -c 'echo seen >$KYMO_MARK; /bin/true' || exit; \
                  ! grep tracefs /proc/mounts";
    let outcome = without_tracefs(&lab, script);
    if outcome.code == 98 {
        return skip("without_a_mount", "tracefs cannot be unmounted in a namespace of its own");
    }
    outcome.expect(0);
    let read = lab.read("trace");
    assert!(read.of("sched_process_exec").count() > 0);
    assert_eq!(read.of("lttng_logger").count(), 1, "{:?}", read.records);
}

/// The kernel's list of processes has ids of its first pid namespace, which those of another do not know.
#[test]
fn in_a_pid_namespace() {
    let Some(_kernel) = Kernel::find("pid_namespace") else { return };
    let lab = Lab::new("pid_namespace");
    let kymo = paths::kymo().display();
    let run = |name: &str, args: &str| {
        let script = format!("{kymo} record -o {name} {args} -- sh -c 'echo ran; sh -c :'; exit $?");
        lab.run("unshare", &["-p", "-f", "--mount-proc", "sh", "-c", &script])
    };
    let outcome = run("only", "--only -k sched");
    if outcome.stderr.contains("unshare") {
        return skip("pid_namespace", &outcome.stderr);
    }
    let outcome = outcome.expect(2);
    says(&outcome.stderr, &["limiting to processes", "namespace"]);
    assert_eq!(outcome.stdout, "");
    assert!(!lab.path("only").exists());
    // The whole system can be recorded from there.
    run("all", "-k sched:sched_process_exec").expect(0);
    assert!(lab.read("all").of("sched_process_exec").count() > 0);
}

#[test]
fn a_tracefs_that_is_none() {
    let mut lab = Lab::new("no_tracefs");
    let path = lab.path("").to_str().unwrap().to_owned();
    for place in [&*path, "/no/such/place", "/dev/null"] {
        lab.env("KYMO_TRACEFS", place);
        let recorded = lab.record("trace").args(&["-k", "sched"]).run(&["true"]).expect(2);
        says(&recorded.outcome.stderr, &["KYMO_TRACEFS", place]);
        assert!(!recorded.dir.exists());
        let recorded =
            lab.record("optional").args(&["-k", "sched", "--kernel-optional", "--overwrite"]).run(&["true"]).expect(0);
        says(&recorded.outcome.stderr, &["no kernel events", place]);
    }
}

#[test]
fn a_ring_that_memory_does_not_hold() {
    let Some(kernel) = Kernel::find("ring_too_large") else { return };
    let lab = Lab::new("ring_too_large");
    for size in ["1024G", "1T", "18446744073709551615", "0", "many"] {
        let recorded = lab.record("trace").args(&["-k", "sched", "--kernel-ring", size]).run(&["echo", "ran"]);
        let said = &recorded.outcome.stderr;
        if size == "0" && recorded.outcome.code == 0 {
            // The kernel makes it two pages.
            std::fs::remove_dir_all(&recorded.dir).unwrap();
            continue;
        }
        assert_eq!((recorded.outcome.code, &*recorded.outcome.stdout), (2, ""), "{size}: {said}");
        assert!(said.contains("ring") && !said.contains("panicked"), "{size}: {said}");
        assert!(!recorded.dir.exists(), "{size}");
        kernel.assert_clean(recorded.pid);
    }
}
