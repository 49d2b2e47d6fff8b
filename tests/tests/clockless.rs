// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that the kernel takes the clock from (strict seccomp, PR_SET_TSC) lives on: its records are counted as
//! lost, those of others are recorded [spec/ring.md 5.7].

use kymo_tests::{Lab, Ring, trace};

#[test]
fn a_thread_without_a_clock_is_counted_and_lives_on() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("clockless");
        lab.ring(ring);
        let program = lab.cc("clockless.c");
        let archive = lab.build(&kymo_tests::Build::new(&["clockless.c"]).archive(), "archive");
        let fixed = lab.build(&kymo_tests::Build::new(&["clockless.c"]).fully_static(), "static");
        for (build, program) in [("shared", &program), ("archive", &archive), ("static", &fixed)] {
            for how in ["strict", "strict_call", "tsc"] {
                let name = format!("{build}_{how}");
                let recorded = lab.record(&name).args(&["--ring-size", "8M"]).run(&[program.to_str().unwrap(), how]);
                let (wanted, lost) = (recorded.outcome.number("recorded"), recorded.outcome.number("lost"));
                assert_eq!((recorded.records(), recorded.lost()), (wanted, lost), "{ring:?} {name}");
                let read = recorded.read(&lab);
                assert_eq!(read.of("clockless:without").count(), 0, "{ring:?} {name}");
                trace::assert_counts_up(&read.numbers("clockless:beside", "n"), 30000);
            }
        }
        // Nobody listens: nothing happens.
        for how in ["strict", "tsc"] {
            lab.run(&program, &[how]).expect(0);
        }
    }
}
