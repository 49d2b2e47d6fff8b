// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU that goes away and comes back while programs record on it.

use std::path::PathBuf;

use kymo_tests::session::{Session, ask};
use kymo_tests::{Lab, Proc, Ring, skip, trace};

/// CPU 1, which comes back whatever happens.
struct Cpu(PathBuf);

impl Cpu {
    /// None, with a visible skip, where it cannot go.
    fn find(name: &str) -> Option<Cpu> {
        let cpu = Cpu(PathBuf::from("/sys/devices/system/cpu/cpu1/online"));
        if let Err(error) = cpu.set(false).and_then(|()| cpu.set(true)) {
            skip(name, &format!("CPU 1 cannot be taken offline here: {error}"));
            return None;
        }
        Some(cpu)
    }

    fn set(&self, on: bool) -> std::io::Result<()> {
        std::fs::write(&self.0, if on { "1" } else { "0" })
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        let _ = self.set(true);
    }
}

/// Moves all threads of a program to these CPUs.
#[track_caller]
fn pin(lab: &Lab, proc: &Proc, cpus: &str) {
    lab.run("taskset", &["-acp", cpus, &proc.pid().to_string()]).expect(0);
}

#[test]
fn records_of_a_cpu_that_goes_and_comes_back() {
    for ring in Ring::BOTH {
        let mut lab = Lab::alone("offline_programs");
        lab.ring(ring);
        let Some(cpu) = Cpu::find("offline_programs") else { return };
        let program = lab.cc("runner.c");
        // It may run anywhere when it gets its rings.
        let mut proc = lab.spawn(&program, &[]);
        proc.until("ready");
        let all = Session::start(&lab, "all", &["-u", "runner:*", "--ring-size", "1M"]);
        let flight = Session::start(&lab, "flight", &["-u", "runner:*", "--ring-size", "1M", "--flight"]);
        for session in [&all, &flight] {
            session.until("it is attached", |status| status["view"]["programs"][0]["events_on"] == 1);
        }
        ask(&mut proc, "enabled", "enabled");
        pin(&lab, &proc, "1");
        ask(&mut proc, "burst 100", "done");
        cpu.set(false).expect("it goes");
        // The kernel moves the program; a session and a program that begin now do not know the CPU.
        ask(&mut proc, "burst 200", "done");
        let late_session = Session::start(&lab, "late", &["-u", "runner:*", "--ring-size", "1M"]);
        let mut late = lab.spawn(&program, &[]);
        late.until("ready");
        ask(&mut late, "burst 50", "done");
        let meanwhile = flight.ask(&["snapshot", "--wait"]);
        cpu.set(true).expect("it comes back");
        for proc in [&mut proc, &mut late] {
            pin(&lab, proc, "1");
            ask(proc, "burst 400", "done");
        }
        let at_the_end = flight.ask(&["snapshot", "--wait"]);
        let (pid, late_pid) = (u64::from(proc.pid()), u64::from(late.pid()));
        for session in [&all, &late_session, &flight] {
            session.ask(&["stop"]);
        }
        let of = |read: &trace::Read, pid: u64| -> Vec<u64> {
            read.of("runner:rec").filter(|record| record.pid == pid).map(|record| record.number("n")).collect()
        };
        // In the order of time, whatever CPU they came from: no clock of a CPU is behind.
        let read = lab.read("all");
        trace::assert_counts_up(&of(&read, pid), 700);
        trace::assert_counts_up(&of(&read, late_pid), 450);
        assert_eq!(read.lost(), 0);
        let read_late = lab.read("late");
        trace::assert_counts_up(&of(&read_late, late_pid), 450);
        if ring == Ring::Rseq {
            let is_on = |read: &trace::Read, pid: u64, from: u64, to: u64, cpu: u64| {
                let of_it = read.of("runner:rec").filter(|record| record.pid == pid);
                of_it.filter(|record| (from..to).contains(&record.number("n"))).all(|record| record.cpu == Some(cpu))
            };
            assert!(is_on(&read, pid, 0, 100, 1) && is_on(&read, pid, 100, 300, 0) && is_on(&read, pid, 300, 700, 1));
            assert!(is_on(&read_late, late_pid, 0, 50, 0) && is_on(&read_late, late_pid, 50, 450, 1));
        }
        for (taken, count) in [(meanwhile, 300), (at_the_end, 700)] {
            let read =
                trace::read(&lab, std::path::Path::new(taken["dir"].as_str().expect("a directory")), &[]).whole();
            trace::assert_counts_up(&of(&read, pid), count);
        }
        for proc in [proc, late] {
            assert_eq!(proc.wait().code, 0);
        }
    }
}
