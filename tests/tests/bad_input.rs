// SPDX-License-Identifier: MIT OR Apache-2.0
//! What users get wrong, and what machines run out of: a message that helps, an exit code, and the trace so far.

use std::path::Path;
use std::process::Command;

use kymo_tests::process::number;
use kymo_tests::{Lab, Recorded, babeltrace, paths, process, skip, trace};

fn produce(lab: &Lab) -> String {
    lab.cc("produce.c").to_str().unwrap().to_owned()
}

/// Fails unless `text` has all of `parts`.
#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn an_unknown_pattern_names_what_is_near() {
    let lab = Lab::new("near");
    let program = produce(&lab);
    let recorded = lab.record("trace").args(&["-u", "produce:rce"]).run(&[&program]).expect(0);
    says(&recorded.outcome.stderr, &["nothing was recorded", "produce:rec"]);
    // The same where another pattern matches.
    let recorded = lab.record("both").args(&["-u", "produce:*", "-u", "prodce:rec"]).run(&[&program]).expect(0);
    assert_eq!(recorded.records(), 1000);
    says(&recorded.outcome.stderr, &["'prodce:rec' matches none", "near it: produce:rec"]);
    // And where an exclusion takes all away.
    let recorded = lab.record("none").args(&["-x", "produce"]).run(&[&program]).expect(0);
    says(&recorded.outcome.stderr, &["nothing was recorded", "-x takes them away"]);
    // A pattern that can be none at all.
    let outcome = lab.record("bad").args(&["-u", "a[b"]).run(&[&program]);
    assert_eq!(outcome.outcome.code, 2, "{}", outcome.outcome.stderr);
    assert!(!outcome.dir.exists());
}

#[test]
fn a_runtime_directory_that_is_not_absolute_is_refused() {
    let mut lab = Lab::new("relative");
    let program = produce(&lab);
    lab.env("KYMO_RUNTIME_DIR", "relative/rt");
    let recorded = lab.record("trace").run(&[&program]).expect(2);
    says(&recorded.outcome.stderr, &["relative/rt", "absolute path"]);
    assert_eq!(recorded.outcome.stdout, "", "the command is not run");
    // A program makes nothing where it happens to be.
    lab.run(&program, &[]).expect(0);
    assert!(!lab.path("relative").exists());
}

#[test]
fn an_output_directory_that_is_not_empty_is_left_alone() {
    let lab = Lab::new("not_empty");
    let program = produce(&lab);
    let dir = lab.path("trace");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("thesis.txt"), "ten years").unwrap();
    for args in [&[][..], &["--overwrite"]] {
        let recorded = lab.record("trace").args(args).run(&[&program]).expect(2);
        says(&recorded.outcome.stderr, &[dir.to_str().unwrap(), "-o"]);
        assert_eq!(recorded.outcome.stdout, "", "the command is not run");
        let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["thesis.txt"]);
    }
    // A file in its place.
    std::fs::write(lab.path("file"), "x").unwrap();
    let recorded = lab.record("file").run(&[&program]).expect(2);
    says(&recorded.outcome.stderr, &["is not a directory"]);
    // An earlier trace is replaced when the user says so.
    lab.record("again").run(&[&program]).expect(0);
    lab.record("again").run(&[&program]).expect(2);
    let recorded = lab.record("again").args(&["--overwrite"]).run(&[&program, "1", "7"]).expect(0);
    assert_eq!(recorded.read(&lab).records.len(), 7);
}

#[test]
fn a_directory_that_cannot_be_made() {
    let lab = Lab::new("no_directory");
    lab.write("file", "");
    let recorded = lab.record("file/trace").run(&[&produce(&lab)]).expect(2);
    says(&recorded.outcome.stderr, &["file/trace"]);
}

/// What is wrong with an option is said before the command runs, and nothing is left.
#[test]
fn options_are_checked_before_anything_runs() {
    let lab = Lab::new("early");
    let program = produce(&lab);
    for (options, parts) in [
        (&["--flight", "--trigger", "200us"][..], &["--trigger", "a condition is wanted"][..]),
        (&["--flight", "--trigger", "\"text\""], &["--trigger", "a condition is wanted"]),
        (&["--flight", "--trigger", "2 > 1"], &["--trigger", "the same for every record"]),
        (&["--flight", "--trigger", "produce:rec.n < \"a\""], &["--trigger", "compares numbers"]),
        (&["--flight", "--trigger", "produce:rec.n >"], &["--trigger", "expected"]),
        (&["--flight", "--trigger", "$state == 3"], &["--trigger"]),
        (&["--flight", "--on-trigger", ""], &["--on-trigger", "snapshot"]),
        (&["--flight", "--trigger-limit", "0"], &["--trigger-limit"]),
        (&["--trigger", "produce:rec.n > 3"], &["--flight"]),
        (&["--filter", "200us"], &["--filter", "a condition is wanted"]),
        (&["--filter", "produce:rec: n < \"a\""], &["--filter", "compares numbers"]),
        (&["--filter", "n ==="], &["--filter"]),
        (&["--context", "colour"], &["--context"]),
        (&["--keep", "3"], &["--keep", "--rotate-size"]),
        (&["--memory", "4K"], &["--memory", "--ring-size"]),
        (&["--memory", "much"], &["4M"]),
        (&["--for", "soon"], &["500ms"]),
        (&["--ring-size", "0"], &["out of range"]),
        (&["-k", "sched:sched_switch[next_prio"], &["not closed"]),
        (&["-U", "nocolon"], &["no colon"]),
        (&["-U", "/bin/sh:main n:i128"], &["i128"]),
        (&["--cpus", "3-1", "-k", "sched"], &["0-3,6"]),
        (&["-o", "/dev/null/x"], &["/dev/null/x"]),
    ] {
        let mut command = lab.command(paths::kymo());
        command.arg("record").args(options);
        if !options.contains(&"-o") {
            command.args(["-o", "trace"]);
        }
        command.args(["--", &program]);
        let outcome = lab.start(command).wait();
        assert_eq!((outcome.code, &*outcome.stdout), (2, ""), "{options:?}: {}", outcome.stderr);
        says(&outcome.stderr, parts);
        assert!(!lab.path("trace").exists(), "{options:?}");
    }
}

/// A program that no library can be preloaded into is told so, and what can be done instead.
#[test]
fn preloading_into_a_static_program() {
    let lab = Lab::new("static_preload");
    let program = lab.path("static");
    let source = lab.write("static.c", "#include <stdlib.h>\nint main(void) { free(malloc(3)); return 0; }\n");
    lab.run("cc", &["-static", "-o", program.to_str().unwrap(), source.to_str().unwrap()]).expect(0);
    let program = program.to_str().unwrap();
    for options in [&["--with", "malloc"][..], &["--with", "pthread"], &["--with", "functions"], &[]] {
        let recorded = lab.record(&format!("trace{}", options.concat())).args(options).run(&[program]).expect(0);
        let said = &recorded.outcome.stderr;
        says(said, &["nothing was recorded", "linked statically", "-lkymo", "kymo record -U"]);
        assert!(!said.contains("--with malloc"), "what cannot work is not advised:\n{said}");
    }
}

/// The trace so far, and what was lost, when the place for it ended: the program made `produced` records.
fn check_full(lab: &Lab, recorded: &Recorded, read: &kymo_tests::Read) {
    let lost_by = |cause: &str| recorded.outcome.stderr.contains(&format!("{cause}: "));
    let stderr = &recorded.outcome.stderr;
    says(stderr, &["LOST", "not written", "writing ended"]);
    let produced = recorded.outcome.number("produced");
    assert!(!read.records.is_empty(), "the trace so far\n{stderr}");
    // Each lane has what it had written when writing ended; up to the first of those ends, nothing is missing.
    let mut ends = std::collections::BTreeMap::new();
    for record in &read.records {
        ends.insert(record.cpu, record.time);
    }
    let whole = ends.values().min().copied().unwrap_or(0);
    for writer in 0..2 {
        let of_it = read.records.iter().filter(|record| record.number("writer") == writer);
        let numbers: Vec<u64> = of_it.clone().map(|record| record.number("n")).collect();
        assert!(numbers.is_sorted(), "writer {writer}: {numbers:?}");
        let sure = of_it.filter(|record| record.time <= whole).count() as u64;
        assert!(
            lost_by("ring full") || numbers.iter().copied().take(sure as usize).eq(0..sure),
            "{writer}: {numbers:?}"
        );
    }
    assert!((read.records.len() as u64) < produced, "{}: nothing was full", lab.name());
    assert!(read.code == 0, "the trace so far is whole:\n{}", read.stderr);
    // The summary may not have found a place either; what is said at the end is the account.
    assert_eq!(read.records.len() as u64 + process::count_behind(stderr, "LOST "), produced, "{stderr}");
}

#[test]
fn no_space_left() {
    let lab = Lab::new("no_space");
    let program = produce(&lab);
    let small = lab.path("small");
    std::fs::create_dir(&small).unwrap();
    // In a mount namespace of its own: nobody else sees the file system, and it goes with the shell.
    let mount = format!("mount -t tmpfs -o size=1m none {}", small.display());
    let can =
        Command::new("unshare").args(["-m", "sh", "-c", &mount]).output().is_ok_and(|output| output.status.success());
    if !can {
        return skip("no_space_left", "cannot mount in a namespace of its own (not root?)");
    }
    let script = format!(
        "{mount} && {kymo} record -o {dir}/trace --ring-size 16M -- {program} 2 20000 64 300; code=$?; \
         {kymo} read --json {dir}/trace >read.json 2>read.err; echo $? >read.code; cp -r {dir}/trace copy; exit $code",
        kymo = paths::kymo().display(),
        dir = small.display(),
    );
    let outcome = lab.run("unshare", &["-m", "sh", "-c", &script]).expect(0);
    let text = |name: &str| std::fs::read_to_string(lab.path(name)).unwrap();
    let read = trace::parse(text("read.code").trim().parse().unwrap(), &text("read.json"), text("read.err"));
    let recorded = Recorded { outcome, dir: lab.path("copy"), summary: serde_json::Value::Null, pid: 0 };
    check_full(&lab, &recorded, &read);
    let copy = trace::read(&lab, &lab.path("copy"), &[]);
    assert_eq!(copy.records.len(), read.records.len());
    babeltrace::agrees(&lab, &lab.path("copy"), &copy);
}

#[test]
fn a_file_size_limit() {
    let lab = Lab::new("ulimit");
    let program = produce(&lab);
    // In blocks of 512 bytes. The limit is for the rings' memory too, so they must be small.
    let script = format!(
        "ulimit -f 600; exec {} record -o trace --ring-size 64K -- {program} 2 10000 64 3000",
        paths::kymo().display()
    );
    let outcome = lab.run("sh", &["-c", &script]).expect(0);
    let recorded = Recorded { outcome, dir: lab.path("trace"), summary: serde_json::Value::Null, pid: 0 };
    let read = trace::read(&lab, &recorded.dir, &[]);
    check_full(&lab, &recorded, &read);
}

#[test]
fn a_program_that_is_not_instrumented() {
    let lab = Lab::new("uninstrumented");
    let recorded = lab.record("trace").run(&["sh", "-c", "exit 3"]).expect(3);
    says(
        &recorded.outcome.stderr,
        &["nothing was recorded", "not instrumented", "#include <kymo/tracepoint.h>", "--with malloc"],
    );
    let script = lab.path("script.sh");
    kymo_testing::copy_program(&lab.write("text.sh", "#!/bin/sh\nexit 0\n"), &script);
    let recorded = lab.record("script").run(&[script.to_str().unwrap()]).expect(0);
    says(&recorded.outcome.stderr, &["is not an ELF file"]);
    // Instrumented, but with another runtime directory.
    let program = produce(&lab);
    let recorded = lab
        .record("elsewhere")
        .run(&["env", &format!("KYMO_RUNTIME_DIR={}", lab.path("other").display()), &program])
        .expect(0);
    says(&recorded.outcome.stderr, &["nothing was recorded"]);
}

#[test]
fn commands_that_cannot_be_run() {
    let lab = Lab::new("cannot_run");
    let plain = lab.write("plain", "text").to_str().unwrap().to_owned();
    let dir = lab.path("").to_str().unwrap().to_owned();
    for (command, code) in [("no-such-command-of-kymo", 127), ("/no/such/file", 127), (&*plain, 126), (&*dir, 126)] {
        let recorded = lab.record("trace").run(&[command]).expect(code);
        says(&recorded.outcome.stderr, &["cannot run", command]);
        assert!(!recorded.dir.exists(), "no trace of what did not run");
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    let lab = Lab::new("status");
    for status in [0, 1, 7, 126, 127, 255] {
        lab.record(&format!("exit{status}")).run(&["sh", "-c", &format!("exit {status}")]).expect(status);
    }
    for signal in [1, 6, 9, 11, 15] {
        lab.record(&format!("signal{signal}")).run(&["sh", "-c", &format!("kill -{signal} $$")]).expect(128 + signal);
    }
    // What a program traced before it was killed is there.
    let program = lab.cc_text(
        "crash",
        "#include \"common.h\"\nKYMO_EVENT(crash, rec, (u32, n))\n\
        int main(void) { for (uint32_t n = 0; n < 100; n++) { kymo_trace(crash, rec, n); } abort(); }\n",
    );
    let recorded = lab.record("crashed").run(&[program.to_str().unwrap()]).expect(134).lossless();
    trace::assert_counts_up(&recorded.read(&lab).numbers("crash:rec", "n"), 100);
}

#[test]
fn arguments_that_make_no_sense() {
    let lab = Lab::new("arguments");
    let program = produce(&lab);
    for args in [
        &["--ring-size", "0"][..],
        &["--ring-size", "4X"],
        &["--poll-us", "1"],
        &["--for", "soon"],
        &["--with", "magic"],
        &["--no-such-option"],
    ] {
        let recorded = lab.record("trace").args(args).run(&[&program]).expect(2);
        assert!(recorded.outcome.stderr.contains(args.last().unwrap()), "{args:?}: {}", recorded.outcome.stderr);
        assert_eq!(recorded.outcome.stdout, "", "the command is not run");
    }
    says(
        &lab.record("trace").args(&["--ring-size", "2G"]).run(&[&program]).expect(2).outcome.stderr,
        &["--ring-size 2147483648", "4K and 1G"],
    );
    // What stands behind the command is the command's.
    let recorded = lab.record("own").run(&["echo", "--ring-size", "--no-such-option"]).expect(0);
    assert_eq!(recorded.outcome.stdout, "--ring-size --no-such-option\n");
    let without_dashes = lab.kymo(&["record", "-q", "-o", "plain", "echo", "--ring-size"]).expect(0);
    assert_eq!(without_dashes.stdout, "--ring-size\n");
    let missing = lab.kymo(&["record", "-o", "trace", "-p", "999999999"]).expect(2);
    says(&missing.stderr, &["there is no process 999999999", "kymo list"]);
    assert!(!Path::new(&lab.path("trace")).exists());
    for (args, part) in [(&["read", "nowhere"][..], "nowhere"), (&["list", "./nowhere"], "nowhere"), (&["read"], "DIR")]
    {
        says(&lab.kymo(args).expect(2).stderr, &[part]);
    }
}

/// Children may have the summary in JSON: it is on standard output, and parses.
#[test]
fn the_summary_as_json() {
    let lab = Lab::new("summary_json");
    let program = produce(&lab);
    let recorded = lab.record("trace").args(&["--json", "-q"]).run(&[&program, "1", "50"]).expect(0);
    assert_eq!(number(&recorded.outcome.stdout, "produced"), 50);
    let json = &recorded.outcome.stdout[recorded.outcome.stdout.find('{').unwrap()..];
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!((&value["records"], &value["exit_status"], &value["lost"]["full"]), (&50.into(), &0.into(), &0.into()));
    assert_eq!(recorded.outcome.stderr, "");
}
