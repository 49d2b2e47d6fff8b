// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs built in every way that users build theirs: each traces all of its records, and behaves as without a
//! session.

use kymo_tests::{Build, Lab, Ring, trace};
use rustix::process::Signal;

/// Builds produce.c, records it, and checks that all records are there.
fn produces(name: &str, build: &Build, ring: Ring) {
    let mut lab = Lab::new(name);
    lab.ring(ring);
    let program = lab.build(build, "produce");
    let recorded = lab
        .record("trace")
        .args(&["--memory", "16G"])
        .run(&[program.to_str().unwrap(), "2", "2000", "10"])
        .expect(0)
        .lossless();
    let process = &recorded.summary["processes"][0];
    assert_eq!(process["ring"], ring.name(), "{name}");
    let read = recorded.read(&lab);
    for writer in 0..2 {
        let numbers: Vec<u64> =
            read.records.iter().filter(|r| r.number("writer") == writer).map(|r| r.number("n")).collect();
        trace::assert_counts_up(&numbers, 2000);
    }
}

/// Builds with other compilers and options; the name says which.
#[test]
fn programs_of_all_builds() {
    let base = || Build::new(&["produce.c"]);
    for ring in Ring::BOTH {
        produces("o0", &base().flag("-O0"), ring);
        produces("o3_lto", &base().flag("-O3").flag("-flto"), ring);
        produces("os", &base().flag("-Os"), ring);
        produces("c11", &base().flag("-std=gnu11").flag("-pedantic"), ring);
        produces("c2x", &base().flag("-std=gnu2x"), ring);
        produces("no_pie", &base().flag("-no-pie").flag("-fno-pic"), ring);
        produces(
            "gc_sections",
            &base().flag("-ffunction-sections").flag("-fdata-sections").flag("-Wl,--gc-sections"),
            ring,
        );
        produces("archive", &base().archive(), ring);
        produces("static", &base().fully_static(), ring);
        produces("static_pie", &base().flag("-static-pie").archive(), ring);
        produces(
            "hardened",
            &base().flag("-D_FORTIFY_SOURCE=2").flag("-fstack-protector-strong").flag("-Wl,-z,relro,-z,now"),
            ring,
        );
        if kymo_tests::has("clang") {
            produces("clang", &base().compiler("clang"), ring);
            produces("clang_o0", &base().compiler("clang").flag("-O0"), ring);
            produces("clang_static", &base().compiler("clang").fully_static(), ring);
        }
    }
    if !kymo_tests::has("clang") {
        kymo_tests::skip("programs_of_all_builds", "no clang");
    }
}

#[test]
fn source_files_that_share_a_header_of_events() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("shared_header");
        lab.ring(ring);
        let program = lab.build(&Build::new(&["shared_1.c", "shared_2.c"]), "shared");
        let recorded =
            lab.record("trace").args(&["--memory", "16G"]).run(&[program.to_str().unwrap()]).expect(0).lossless();
        let read = recorded.read(&lab);
        let part = |label: &str| -> Vec<u64> {
            read.of("shared:work")
                .filter(|record| record.fields["part"]["label"] == label)
                .map(|record| record.number("n"))
                .collect()
        };
        trace::assert_counts_up(&part("first"), 100);
        trace::assert_counts_up(&part("second"), 100);
        let notes: Vec<_> =
            read.of("shared:note").map(|record| record.fields["text"].as_str().unwrap().to_owned()).collect();
        assert_eq!(notes, ["first", "second"]);
        // One event each, though two files describe it.
        let metadata = std::fs::read_to_string(recorded.dir.join("metadata")).unwrap();
        assert_eq!(metadata.matches("\"shared:work\"").count(), 1);
    }
}

fn cxx(compiler: &str) {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("cxx");
        lab.ring(ring);
        let program = lab.build(&Build::new(&["cxx.cpp"]).compiler(compiler), "cxx");
        let recorded =
            lab.record("trace").args(&["--memory", "16G"]).run(&[program.to_str().unwrap()]).expect(0).lossless();
        let read = recorded.read(&lab);
        let count = |label: &str| read.of("cxx:at").filter(|record| record.fields["where"]["label"] == label).count();
        // The static object is made before main and ends after it; both are traced.
        assert_eq!(["constructor", "lambda", "destructor", "thrown", "templated"].map(count), [2, 4, 2, 1, 1]);
        assert_eq!(read.of("cxx:nothing").count(), 1);
        let templated = read.of("cxx:at").find(|record| record.fields["where"]["label"] == "templated").unwrap();
        assert_eq!(templated.fields["numbers"], serde_json::json!([i64::MIN, -1, i64::MAX]));
    }
}

#[test]
fn a_cxx17_program_of_gcc() {
    cxx("g++");
}

#[test]
fn a_cxx17_program_of_clang() {
    if !kymo_tests::has("clang++") {
        return kymo_tests::skip("a_cxx17_program_of_clang", "no clang++");
    }
    cxx("clang++");
}

/// Attaches at start, starts no thread, has no socket.
#[test]
fn without_a_helper_thread() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("no_thread");
        lab.ring(ring).env("KYMO_NO_THREAD", "1");
        let program = lab.cc("runner.c");
        let recorded = {
            let mut recording = lab.record("trace").args(&["--memory", "16G"]).start(&[program.to_str().unwrap()]);
            recording.proc().until("ready");
            recording.proc().say("burst 3000");
            recording.proc().until("done");
            assert_eq!(lab.sockets("p.").len(), 0);
            recording.proc().say("exit 3");
            recording.wait().expect(3).lossless()
        };
        trace::assert_counts_up(&recorded.read(&lab).numbers("runner:rec", "n"), 3000);
        // One thread in all.
        let mut alone = lab.spawn(&program, &[]);
        alone.until("ready");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", alone.pid())).unwrap().count();
        assert_eq!(tasks, 1);
        // Nobody can attach to it later; saying so is all that kymo can do.
        let pid = alone.pid().to_string();
        let late = lab.record("late").args(&["-p", &pid, "--for", "300ms"]).attach().wait().expect(1);
        assert_eq!(late.records(), 0);
        alone.say("burst 10");
        alone.until("done");
        // And it outlives a session that ends.
        let mut lab = lab;
        let session = lab.record("ends").attach();
        lab.env("KYMO_NO_THREAD", "1");
        let mut joined = lab.spawn(&program, &[]);
        joined.until("ready");
        joined.say("burst 100");
        joined.until("done 100");
        let ended = session.end(Signal::INT).expect(0);
        trace::assert_counts_up(&ended.read(&lab).numbers("runner:rec", "n"), 100);
        joined.say("burst 100000");
        joined.until("done 100100");
        assert_eq!(joined.wait().code, 0);
    }
}
