// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs under other tools: Valgrind, gdb single-stepping through a record, and a C library that keeps rseq to
//! itself.

use kymo_tests::{Lab, Ring, has, skip, trace};

#[test]
fn under_valgrind() {
    if !has("valgrind") {
        return skip("under_valgrind", "no valgrind");
    }
    let lab = Lab::new("valgrind");
    let program = lab.cc("produce.c");
    let args = ["--ring-size", "4M", "--memory", "16G"];
    let command = [
        "valgrind",
        "--error-exitcode=33",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        program.to_str().unwrap(),
        "3",
        "1000",
        "24",
    ];
    let recorded = lab.record("trace").args(&args).run(&command).expect(0).lossless();
    // Valgrind has no rseq.
    assert_eq!(recorded.summary["processes"][0]["ring"], "portable");
    let read = recorded.read(&lab);
    for writer in 0..3 {
        let numbers: Vec<u64> =
            read.records.iter().filter(|r| r.number("writer") == writer).map(|r| r.number("n")).collect();
        trace::assert_counts_up(&numbers, 1000);
    }
}

/// Every sequence that is stepped through begins again, until the record takes another way: it is there, or its loss
/// is.
#[test]
fn under_gdb_that_steps_through_records() {
    if !has("gdb") {
        return skip("under_gdb", "no gdb");
    }
    for ring in Ring::BOTH {
        let mut lab = Lab::new("gdb");
        lab.ring(ring);
        let program = lab.cc_text("stepped", "#include \"common.h\"\n\
            KYMO_EVENT(stepped, word, (u64, n))\nKYMO_EVENT(stepped, text, (u64, n), (str, text), (seq(u32), numbers))\n\
            __attribute__((noinline)) void from_here(void) { __asm__ volatile(\"\"); }\n\
            int main(void) { static const uint32_t numbers[] = { 1, 2, 3 };\n\
            for (uint64_t n = 0; n < 500; n++) {\n\
            \tif (n == 5) from_here();\n\
            \tkymo_trace(stepped, word, 2 * n); kymo_trace(stepped, text, 2 * n + 1, \"stepped through\", numbers, 3); }\n\
            puts(\"produced=1000\"); return 0; }\n");
        let script = lab.write(
            "script",
            "set pagination off\nset confirm off\nset breakpoint pending on\nbreak from_here\nrun\n\
            stepi 20000\ncontinue\nquit\n",
        );
        let command = ["gdb", "-q", "-nx", "-batch", "-x", script.to_str().unwrap(), program.to_str().unwrap()];
        // The status of gdb is not looked at: it may miss the end of a program whose helper thread ends with it.
        let recorded = lab.record("trace").args(&["--memory", "16G"]).run(&command);
        assert!(recorded.outcome.stdout.contains("hit Breakpoint 1"), "{}", recorded.outcome.stdout);
        assert_eq!(recorded.outcome.number("produced"), 1000);
        let read = recorded.read(&lab);
        assert_eq!(recorded.records() + recorded.lost(), 1000, "{}", recorded.outcome.stderr);
        let mut numbers: Vec<u64> = read.records.iter().map(|record| record.number("n")).collect();
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len() as u64, recorded.records());
        for record in read.of("stepped:text") {
            assert_eq!(record.fields["text"], "stepped through");
            assert_eq!(record.fields["numbers"], serde_json::json!([1, 2, 3]));
        }
        assert!(read.records.iter().all(|record| record.tid == record.pid));
        if ring == Ring::Rseq {
            // What was stepped through came by the spill lane, whose CPU is not known; else nothing was stepped
            // through.
            assert!(
                read.records.iter().any(|record| record.cpu.is_none() || record.cpu == Some(u64::from(u32::MAX))),
                "{:?}",
                recorded.summary["losses"]
            );
        }
    }
}

#[test]
fn without_rseq_by_glibc_tunables() {
    let mut lab = Lab::new("tunables");
    lab.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let program = lab.cc("produce.c");
    let recorded = lab
        .record("trace")
        .args(&["--memory", "16G"])
        .run(&[program.to_str().unwrap(), "4", "5000", "8", "200"])
        .expect(0)
        .lossless();
    assert_eq!(recorded.summary["processes"][0]["ring"], "portable");
    assert_eq!(recorded.read(&lab).records.len(), 20_000);
}

/// The clock of machines without a usable TSC, for both sides.
#[test]
fn with_the_monotonic_clock() {
    let mut lab = Lab::new("monotonic");
    lab.env("KYMO_CLOCK", "monotonic");
    let program = lab.cc("produce.c");
    let recorded = lab
        .record("trace")
        .args(&["--memory", "16G"])
        .run(&[program.to_str().unwrap(), "2", "5000", "8", "200"])
        .expect(0)
        .lossless();
    assert_eq!(recorded.summary["clock"]["name"], "monotonic");
    assert_eq!(recorded.summary["processes"][0]["ring"], "portable");
    let read = recorded.read(&lab);
    assert_eq!(read.records.len(), 10_000);
    kymo_tests::babeltrace::agrees(&lab, &recorded.dir, &read);
}
