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

/// handlers.c, whose function has this name.
fn handlers(lab: &Lab, handler: &str, build: Build) -> String {
    let name = format!("prog_{handler}");
    lab.build(&build.flag(&format!("-DHANDLER={handler}")).flag("-Wl,--build-id"), &name).to_str().unwrap().to_owned()
}

/// The functions of the field `handler`, by whose address it is.
fn named_handlers(lab: &Lab, trace: &str) -> Vec<(String, Value)> {
    let (records, _) = named(lab, trace);
    let records = records.iter().filter(|record| record["event"] == "addr:code");
    records
        .map(|record| {
            let whose = record["fields"]["whose"].as_str().unwrap_or_else(|| panic!("{record}")).to_owned();
            (whose, record["symbols"]["handler"].clone())
        })
        .collect()
}

#[test]
fn addresses_in_any_field_of_programs_that_are_moved_or_not_or_static() {
    // Without a call stack and without the kernel: the field alone is the reason to tell what is mapped.
    for (kind, build) in [
        ("pie", Build::new(&["handlers.c"]).flag("-fPIE").flag("-pie")),
        ("fixed", Build::new(&["handlers.c"]).flag("-fno-pie").flag("-no-pie")),
        ("static", Build::new(&["handlers.c"]).fully_static()),
    ] {
        let lab = Lab::new(&format!("symbols_{kind}"));
        let program = handlers(&lab, "on_timer", build);
        let recorded = lab.record("trace").args(&["--memory", "16G"]).run(&[&program]).expect(0).lossless();
        let trace = recorded.dir.to_str().unwrap();
        let args = ["stats", trace, "--by", "handler", "--json"];
        let found: Value = serde_json::from_str(&lab.kymo(&args).expect(0).stdout).unwrap();
        let names: Vec<&str> =
            found["rows"].as_array().unwrap().iter().filter_map(|row| row["handler"].as_str()).collect();
        assert!(names.len() == 1 && names[0].starts_with("on_timer at handlers.c:"), "{kind}: {found}");
        let handlers = named_handlers(&lab, trace);
        assert!(handlers[0].1.as_str().is_some_and(|name| name.starts_with("on_timer")), "{kind}: {handlers:?}");
    }
}

#[test]
fn an_address_is_of_the_program_that_ran_then() {
    let lab = Lab::new("symbols_exec");
    let fixed = || Build::new(&["handlers.c"]).flag("-fno-pie").flag("-no-pie");
    let (first, second) = (handlers(&lab, "first_handler", fixed()), handlers(&lab, "other_handler", fixed()));
    let recording = lab.record("trace").args(&["--memory", "16G"]);
    let recorded = recording.run(&[&first, "exec", &second]).expect(0).lossless();
    let trace = recorded.dir.to_str().unwrap();
    let addresses: Vec<Value> = named(&lab, trace).0.iter().map(|record| record["fields"]["handler"].clone()).collect();
    assert!(addresses.len() == 2 && addresses[0] == addresses[1], "they are not in one place: {addresses:?}");
    let names: Vec<Value> = named_handlers(&lab, trace).into_iter().map(|(_, name)| name).collect();
    assert!(names[0].as_str().is_some_and(|name| name.starts_with("first_handler at")), "{names:?}");
    assert!(names[1].as_str().is_some_and(|name| name.starts_with("other_handler at")), "{names:?}");
}

#[test]
fn a_library_in_the_place_of_one_that_is_gone() {
    let lab = Lab::new("symbols_unloaded");
    let library = |name: &str, function: &str| {
        let text = format!(
            "__attribute__((noinline)) void {function}(void) {{ __asm__ volatile(\"\"); }}\n\
             extern void entry(void) __attribute__((alias(\"{function}\")));\n"
        );
        let source = lab.write(&format!("{name}.c"), &text);
        let build = Build::new(&[source.to_str().unwrap()]).library().flag("-Wl,--build-id");
        lab.build(&build, &format!("{name}.so")).to_str().unwrap().to_owned()
    };
    let (one, two) = (library("lib_one", "function_one"), library("lib_two", "function_two"));
    let program = handlers(&lab, "own_handler", Build::new(&["handlers.c"]));
    let mut recording = lab.record("trace").args(&["--memory", "16G"]).start(&[&program, "load", &one, &two]);
    let maps = lab.path("trace").join("state_maps_0");
    for path in [&one, &two] {
        recording.proc().until(path);
        let has_it = || {
            let bytes = std::fs::read(&maps).unwrap_or_default();
            bytes.windows(path.len()).any(|part| part == path.as_bytes()).then_some(())
        };
        lab.wait_for("the library in the trace", has_it);
        recording.proc().say("go");
    }
    let recorded = recording.wait().expect(0).lossless();
    let found = named_handlers(&lab, recorded.dir.to_str().unwrap());
    let name_of = |whose: &str| {
        let found = found.iter().find(|(known, _)| known == whose);
        found.unwrap_or_else(|| panic!("no {whose} in {found:?}")).1.as_str().map(str::to_owned)
    };
    assert!(name_of("own").is_some_and(|name| name.starts_with("own_handler")), "{found:?}");
    // Between two looks at what is mapped it may have been either: then it has no name, and never a wrong one.
    assert!(name_of(&one).is_none_or(|name| name.starts_with("function_one")), "{found:?}");
    let last = name_of(&two);
    assert!(last.is_some_and(|name| name.starts_with("function_two")), "{found:?}");
}
