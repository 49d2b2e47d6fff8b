// SPDX-License-Identifier: MIT OR Apache-2.0
//! What libkymo and its helper thread do beside a program harms nobody: sandboxes, cancellation, another user, other
//! namespaces, cores, no descriptors left [spec/session.md 3].

use kymo_tests::process::text_of;
use kymo_tests::session::Session;
use kymo_tests::{Lab, Ring, skip};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_sandbox_does_not_end_the_program() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("sandbox");
        lab.ring(ring);
        let program = lab.cc("beside.c");
        let program = program.to_str().unwrap();
        // Nobody records, and somebody looks.
        let mut alone = lab.spawn(program, &["filter"]);
        assert_eq!(alone.line(), "ready");
        lab.kymo(&["list"]);
        alone.say("go on");
        assert_eq!(alone.line(), "lived", "{ring:?}");
        alone.wait().expect(0);
        // It is recorded to its end, though nobody talks any more.
        let mut recording = lab.record("trace").start(&[program, "filter", "200"]);
        recording.proc().until("ready");
        recording.proc().say("go on");
        let recorded = recording.wait().expect(0).lossless();
        assert_eq!(recorded.records(), 201, "{ring:?}");
        // A child inherits the filter: it has no helper thread, and records in its parent's rings, or counts.
        let recorded = lab.record("child").run(&[program, "child", "300"]);
        assert!(recorded.outcome.stdout.contains("lived"), "{ring:?}: {}", recorded.outcome.stderr);
        assert_eq!(recorded.records() + recorded.lost(), 300, "{ring:?}");
        assert_eq!(recorded.lost() > 0, ring == Ring::Portable);
    }
}

#[test]
fn a_tracepoint_is_no_place_where_threads_are_cancelled() {
    let lab = Lab::new("cancelled");
    let program = lab.cc("beside.c");
    let program = program.to_str().unwrap();
    for context in [&[][..], &["--context", "callstack"], &["--context", "perf:page-faults"]] {
        let recorded = lab.record("trace").args(&["--overwrite"]).args(context).run(&[program, "cancel"]);
        assert!(recorded.outcome.stdout.contains("mutex=free"), "{context:?}: {}", recorded.outcome.stderr);
        assert_eq!(recorded.records(), 1, "{context:?}");
    }
}

#[test]
fn a_child_that_gives_up_its_user_is_recorded_to_its_end() {
    if !is_root() {
        return skip("another user", "needs root");
    }
    for ring in Ring::BOTH {
        let mut lab = Lab::new("gives_up");
        lab.ring(ring);
        let program = lab.cc("beside.c");
        // Where it looks now there is nothing: the session's directory is root's.
        let recorded = lab.record("trace").run(&[program.to_str().unwrap(), "user", "500"]);
        assert_eq!(recorded.records() + recorded.lost(), 500, "{ring:?}: {}", recorded.outcome.stderr);
    }
}

#[test]
fn another_user_namespace_is_granted_as_without_kymo() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("unshare");
        lab.ring(ring);
        let program = lab.cc("beside.c");
        let program = program.to_str().unwrap();
        lab.env("KYMO_DISABLE", "1");
        let mut without = String::new();
        let mut took = || {
            let began = std::time::Instant::now();
            without = lab.run(program, &["unshare", "1"]).expect(0).stdout;
            began.elapsed()
        };
        // Where no helper thread was started, none is waited for: each time that takes a second. A busy machine
        // delays some runs.
        let fastest = (0..5).map(|_| took()).min().unwrap();
        assert!(fastest < std::time::Duration::from_millis(800), "{fastest:?}");
        if without.contains("refused") {
            return skip("another user namespace", "this system grants none");
        }
        let mut lab = Lab::new("unshare_recorded");
        lab.ring(ring);
        let recorded = lab.record("trace").run(&[program, "unshare", "200"]).expect(0).lossless();
        assert!(recorded.outcome.stdout.contains("unshare=done"), "{ring:?}");
        assert_eq!(recorded.records(), 400, "{ring:?}");
    }
}

#[test]
fn a_core_has_no_rings() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("core");
        lab.ring(ring);
        let program = lab.cc("beside.c");
        let mut recording = lab.record("trace").start(&[program.to_str().unwrap(), "sleep"]);
        let ready = recording.proc().until("ready");
        assert_eq!(ready, "ready");
        let pid = lab.wait_for("the program", || {
            lab.sockets("p.").first().map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.split('.').nth(1).unwrap().to_owned()
            })
        });
        let maps = text_of(format!("/proc/{pid}/smaps").as_ref());
        let (mut dumped_kib, mut name, mut size) = (0, String::new(), 0);
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[0] {
                "Size:" => size = words[1].parse::<u64>().unwrap(),
                "VmFlags:" if name.contains("memfd:kymo") && !words.contains(&"dd") => dumped_kib += size,
                word if word.contains('-') => name = line.to_owned(),
                _ => {}
            }
        }
        assert!(maps.contains("memfd:kymo"), "{ring:?}: no rings are mapped\n{maps}");
        // Control blocks only.
        assert!(dumped_kib < 256, "{ring:?}: {dumped_kib} KiB of rings would be in a core");
        recording.proc().say("end");
        recording.wait().expect(0);
    }
}

#[test]
fn a_collector_that_cannot_be_let_in_costs_the_program_nothing() {
    let lab = Lab::alone("no_descriptors");
    let program = lab.cc("beside.c");
    let mut program = lab.spawn(program, &["descriptors"]);
    assert_eq!(program.line(), "ready");
    let session = Session::start(&lab, "waits", &[]);
    let ticks = || {
        let stat = text_of(format!("/proc/{}/stat", program.pid()).as_ref());
        let behind = stat.rsplit(')').next().unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        behind[11].parse::<u64>().unwrap() + behind[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let used = ticks() - before;
    assert!(used < 50, "{used} ticks of the CPU in two seconds");
    drop(session);
    program.say("end");
    program.wait().expect(0);
}
