// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses to functions and lines: programs that are recorded tell what is mapped in them, libraries that they load
//! later too.

use std::path::Path;
use std::process::Command;

use kymo_tests::{Build, Lab, skip};
use serde_json::Value;

fn program(lab: &Lab, flags: &[&str]) -> String {
    let build = flags.iter().fold(Build::new(&["addresses.c"]), |build, flag| build.flag(flag));
    let build = build.flag("-fno-omit-frame-pointer").flag("-fno-optimize-sibling-calls").flag("-Wl,--build-id");
    lab.build(&build, "addresses").to_str().unwrap().to_owned()
}

fn library(lab: &Lab) -> String {
    let build = Build::new(&["addresses_lib.c"]).library();
    let build = build.flag("-fno-omit-frame-pointer").flag("-fno-optimize-sibling-calls").flag("-Wl,--build-id");
    lab.build(&build, "libaddresses.so").to_str().unwrap().to_owned()
}

/// Records the program; it goes on into the library when the collector has looked at what is mapped, and ends when a
/// record has a call stack through the library, whose table is made a moment after it was loaded.
fn recorded(lab: &Lab, program: &str, library: &str, args: &[&str]) -> String {
    let args = [&["--context", "callstack", "--memory", "16G"], args].concat();
    let mut recording = lab.record("trace").args(&args).start(&[program, library]);
    recording.proc().until("loaded");
    let maps = lab.path("trace").join("state_maps_0");
    let has_library = || {
        let bytes = std::fs::read(&maps).unwrap_or_default();
        bytes.windows(15).any(|part| part == b"libaddresses.so").then_some(())
    };
    lab.wait_for("the library in the trace", has_library);
    recording.proc().say("go");
    let trace = lab.path("trace");
    let is_whole = || {
        let text = lab.kymo(&["read", trace.to_str().unwrap(), "--json", "--event", "addr:back"]).stdout;
        let newest: Value = serde_json::from_str(text.lines().last()?).ok()?;
        (newest["contexts"]["callstack"].as_array()?.len() > 4).then_some(())
    };
    lab.wait_for("a call stack through the library", is_whole);
    recording.proc().say("end");
    recording.wait().expect(0).lossless().dir.to_str().unwrap().to_owned()
}

/// The named call stack of the last record of an event, without kymo's own part.
#[track_caller]
fn stack(records: &[Value], event: &str) -> Vec<String> {
    let record = records.iter().rfind(|record| record["event"] == event);
    let record = record.unwrap_or_else(|| panic!("no {event} in {records:?}"));
    let names = record["symbols"]["callstack"].as_array().unwrap_or_else(|| panic!("{record}")).iter();
    let names = names.map(|name| name.as_str().unwrap_or("?").to_owned());
    names.filter(|name| !name.starts_with("kymo__")).collect()
}

fn named(lab: &Lab, trace: &str) -> (Vec<Value>, String) {
    let outcome = lab.kymo(&["read", trace, "--symbols", "--json"]).expect(0);
    let records = outcome.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    (records, outcome.stderr)
}

#[track_caller]
fn begins(stack: &[String], expect: &[&str]) {
    let fits = expect.iter().zip(stack).all(|(expect, found)| found.contains(expect));
    assert!(fits && stack.len() >= expect.len(), "{stack:?} does not begin with {expect:?}");
}

#[test]
fn frames_of_a_program_and_of_a_library_that_it_loads() {
    // One that is moved, and one that is not.
    for flags in [&["-fPIE", "-pie"][..], &["-no-pie", "-fno-pie"]] {
        let lab = Lab::new("symbols");
        let (program, library) = (program(&lab, flags), library(&lab));
        let trace = recorded(&lab, &program, &library, &[]);
        let (records, _) = named(&lab, &trace);
        begins(
            &stack(&records, "addr:own"),
            &["own_step at addresses.c:", "own_loop at addresses.c:", "main at addresses.c:"],
        );
        let back = stack(&records, "addr:back");
        let expect =
            ["called_back at addresses.c:", "library_inner at addresses_lib.c:", "library_call at addresses_lib.c:"];
        begins(&back, &[&expect[..], &["main at addresses.c:"]].concat());
        // As text: a line for each frame, below the record's.
        let text = lab.kymo(&["read", &trace, "--symbols", "--event", "addr:back"]).expect(0).stdout;
        assert!(text.lines().count() > 4 && text.contains("\n    #"), "{text}");
        // Exported stacks have the same names.
        let folded = lab.kymo(&["export", &trace, "--to", "collapsed", "-o", "-"]).expect(0).stdout;
        assert!(folded.contains("library_call") && folded.contains("own_loop"), "{folded}");
    }
}

#[test]
fn another_build_is_refused_and_a_stripped_one_says_so() {
    let lab = Lab::new("symbols_builds");
    let (path, library) = (program(&lab, &["-fPIE", "-pie"]), library(&lab));
    let trace = recorded(&lab, &path, &library, &[]);
    // The same program, built otherwise: its lines would be wrong.
    program(&lab, &["-fPIE", "-pie", "-DOTHER", "-O0"]);
    let (records, said) = named(&lab, &trace);
    assert!(said.contains("addresses on this machine is another build"), "{said}");
    let own = stack(&records, "addr:own");
    assert!(own.iter().all(|name| !name.contains("own_step")), "{own:?}");
    // The library is still what it was.
    assert!(stack(&records, "addr:back").iter().any(|name| name.contains("library_call")), "{records:?}");
    std::fs::remove_file(&path).unwrap();
    let (_, said) = named(&lab, &trace);
    assert!(said.contains("is not on this machine"), "{said}");
}

#[test]
fn a_debug_file_apart_has_the_lines() {
    let lab = Lab::new("symbols_debug");
    let (path, library) = (program(&lab, &["-fPIE", "-pie"]), library(&lab));
    let debug = format!("{path}.debug");
    if !kymo_tests::has("objcopy") {
        return skip(lab.name(), "no objcopy");
    }
    let split = |args: &[&str]| assert!(Command::new("objcopy").args(args).status().unwrap().success(), "{args:?}");
    split(&["--only-keep-debug", &path, &debug]);
    split(&["--strip-all", &format!("--add-gnu-debuglink={debug}"), &path]);
    let trace = recorded(&lab, &path, &library, &[]);
    let (records, _) = named(&lab, &trace);
    begins(&stack(&records, "addr:own"), &["own_step at addresses.c:", "own_loop at addresses.c:"]);
    std::fs::remove_file(&debug).unwrap();
    let (_, said) = named(&lab, &trace);
    assert!(said.contains("it was stripped"), "{said}");
}

#[test]
fn snapshots_know_what_is_mapped() {
    let lab = Lab::new("symbols_snapshot");
    let (program, library) = (program(&lab, &["-fPIE", "-pie"]), library(&lab));
    let recording = lab.record("trace").args(&["--context", "callstack", "--flight", "--memory", "16G"]);
    let mut attached = recording.start(&[&program, &library]);
    attached.proc().until("loaded");
    attached.proc().say("go");
    attached.proc().say("end");
    let recorded = attached.wait().expect(0);
    let snapshot = snapshot_below(&recorded.dir);
    let (records, _) = named(&lab, snapshot.as_deref().and_then(Path::to_str).expect("a snapshot"));
    begins(&stack(&records, "addr:own"), &["own_step at addresses.c:", "own_loop at addresses.c:"]);
}

fn snapshot_below(dir: &Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("metadata").is_file()).min()
}
