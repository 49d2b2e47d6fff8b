// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo functions`: a program that was compiled with -finstrument-functions, and whose calls are known.

use kymo_tests::{Build, Lab, Outcome};
use serde_json::Value;

const PROGRAM: &str = "#include <setjmp.h>\n#include <pthread.h>\n#include <stdlib.h>\n\
    static jmp_buf back;\n\
    __attribute__((noinline)) void leaf(void) { __asm__ volatile(\"\"); }\n\
    __attribute__((noinline)) int down(int n) { int r = n ? down(n - 1) + 1 : 0; leaf(); return r; }\n\
    __attribute__((noinline)) void inner(void) { longjmp(back, 1); }\n\
    __attribute__((noinline)) void jumps(void) { if (!setjmp(back)) inner(); leaf(); }\n\
    __attribute__((noinline)) void *other(void *unused) { for (int i = 0; i < 5; i++) leaf(); return unused; }\n\
    __attribute__((noinline)) void ends(void) { exit(0); }\n\
    int main(void) { pthread_t t; for (int i = 0; i < 3; i++) down(2); jumps();\n\
    \tpthread_create(&t, NULL, other, NULL); pthread_join(t, NULL); ends(); }\n";

/// Compiled as anybody's program: without anything of kymo.
fn recorded(lab: &Lab) -> String {
    let source = lab.write("prog.c", PROGRAM);
    let program = lab.path("prog");
    let flags =
        ["-O1", "-finstrument-functions", "-pthread", "-o", program.to_str().unwrap(), source.to_str().unwrap()];
    lab.run("cc", &flags).expect(0);
    let args = ["--with", "functions", "--memory", "16G"];
    let recorded = lab.record("trace").args(&args).run(&[program.to_str().unwrap()]).expect(0).lossless();
    recorded.dir.to_str().unwrap().to_owned()
}

fn functions(lab: &Lab, trace: &str, more: &[&str]) -> Outcome {
    lab.kymo(&[&["functions", trace], more].concat()).expect(0)
}

#[track_caller]
fn called<'v>(calls: &'v Value, name: &str) -> &'v Value {
    let found = calls["calls"].as_array().unwrap().iter().find(|call| call["function"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {calls}"))
}

#[test]
fn calls_of_a_program_become_its_tree() {
    let lab = Lab::new("functions");
    let trace = recorded(&lab);
    let found: Value = serde_json::from_str(&functions(&lab, &trace, &["--json"]).stdout).unwrap();
    let threads = found["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2, "{found}");
    let main = called(&threads[0], "main");
    // Never left: it calls exit.
    assert_eq!((&main["count"], &main["open"]), (&1.into(), &1.into()));
    assert_eq!(called(main, "ends")["open"], 1);
    let mut down = called(main, "down");
    let mut total = main["total_ns"].as_u64().unwrap();
    for depth in 0..3 {
        assert_eq!(down["count"], 3, "depth {depth}: {down}");
        assert_eq!(called(down, "leaf")["count"], 3);
        let own = down["total_ns"].as_u64().unwrap();
        assert!(own <= total && down["self_ns"].as_u64().unwrap() <= own);
        total = own;
        if depth < 2 {
            down = called(down, "down");
        }
    }
    let jumps = called(main, "jumps");
    // What longjmp left ends at the latest with its caller, and takes in what the caller did then.
    let inner = called(jumps, "inner");
    assert_eq!((&inner["count"], &inner["cut"]), (&1.into(), &1.into()), "{jumps}");
    assert_eq!(jumps["cut"], 0);
    let other = called(&threads[1], "other");
    assert_eq!((&other["count"], &called(other, "leaf")["count"]), (&1.into(), &5.into()));
}

/// A program of its own tracepoints, every kind of field, in C and C++: what the headers bring in is not the program's.
#[test]
fn the_functions_of_kymo_are_not_the_programs() {
    const TRACED: &str = "#include <kymo/tracepoint.h>\n#include <kymo/snapshot.h>\n\
        KYMO_EVENT(own, words, (u64, i), (f64, j), (bool, k))\n\
        KYMO_EVENT(own, pieces, (str, text), (seq(u16), list), (bytes, blob), (array(u32, 2), two), (i8, last))\n\
        static void __attribute__((noinline)) work(int i)\n{\n\
        \tstatic const uint16_t list[] = { 1, 2 };\n\tstatic const uint32_t two[] = { 3, 4 };\n\
        \tkymo_trace(own, words, (uint64_t)i, 1.5, true);\n\
        \tkymo_trace(own, pieces, \"text\", list, 2, \"blob\", 4, two, -1);\n}\n\
        int main(void)\n{\n\tfor (int i = 0; i < 50; i++)\n\t\twork(i);\n\treturn 0;\n}\n";
    let lab = Lab::new("functions_of_kymo");
    for (compiler, level, name) in [
        ("gcc", "-O0", "a.c"),
        ("gcc", "-O2", "b.c"),
        ("clang", "-O0", "c.c"),
        ("g++", "-O1", "d.cc"),
        ("clang++", "-O0", "e.cc"),
    ] {
        if !kymo_tests::has(compiler) {
            kymo_tests::skip("the_functions_of_kymo_are_not_the_programs", &format!("no {compiler}"));
            continue;
        }
        let source = lab.write(name, TRACED);
        let build = Build::new(&[source.to_str().unwrap()]).compiler(compiler);
        let program = lab.build(&build.flag(level).flag("-finstrument-functions"), &format!("{name}.out"));
        let record = lab.record(&format!("{name}.trace")).args(&["--with", "functions", "--memory", "16G"]);
        let recorded = record.run(&[program.to_str().unwrap()]).expect(0).lossless();
        let trace = recorded.dir.to_str().unwrap();
        let entries = lab.kymo(&["read", trace, "--event", "function:entry", "--fields", "event"]).expect(0).stdout;
        let all = functions(&lab, trace, &["--min", "0"]).stdout;
        assert!(all.contains("work") && !all.contains("kymo_"), "{compiler} {level}: {all}");
        assert_eq!(entries.lines().count(), 51, "{compiler} {level}: main once, work 50 times: {all}");
    }
}

#[test]
fn text_collapsed_and_picture_say_the_same() {
    let lab = Lab::new("functions_text");
    let trace = recorded(&lab);
    let text = functions(&lab, &trace, &["--min", "0"]).stdout;
    for name in ["main", "down", "inner", "leaf", "other"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let svg = lab.path("flame.svg");
    let collapsed = functions(&lab, &trace, &["--collapsed", "-", "--svg", svg.to_str().unwrap()]).stdout;
    assert!(collapsed.lines().any(|line| line.contains(";main;down;down;down;leaf ")), "{collapsed}");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("main") && !svg.contains("href"), "{svg}");
    // The export has the same stacks.
    let out = lab.path("stacks");
    lab.kymo(&["export", &trace, "--to", "collapsed", "-o", out.to_str().unwrap()]).expect(0);
    assert_eq!(std::fs::read_to_string(out).unwrap(), collapsed);
}

#[test]
fn function_graph_as_text_has_a_tree_too() {
    let lab = Lab::new("functions_graph");
    let graph = "# tracer: function_graph\n#\n 0)               |  vfs_read() {\n 0)   0.500 us    |    rw_verify_area();\n\
        \x200)   1.000 us    |    rw_verify_area();\n 0)   5.000 us    |  }\n";
    let file = lab.write("graph.txt", graph);
    let dir = lab.path("t");
    lab.kymo(&["import", file.to_str().unwrap(), "-o", dir.to_str().unwrap()]).expect(0);
    let found: Value = serde_json::from_str(&functions(&lab, dir.to_str().unwrap(), &["--json"]).stdout).unwrap();
    let read = called(&found["threads"][0], "vfs_read");
    assert_eq!((&read["total_ns"], &read["self_ns"]), (&5000.into(), &3500.into()), "{found}");
    let below = called(read, "rw_verify_area");
    assert_eq!((&below["count"], &below["total_ns"]), (&2.into(), &1500.into()));
}

#[test]
fn a_program_that_was_not_compiled_for_it_says_so() {
    let lab = Lab::new("functions_plain");
    let program = lab.cc_text("plain", "int main(void) { return 0; }\n");
    let args = ["--with", "functions", "-u", "function:entry"];
    let recorded = lab.record("trace").args(&args).run(&[program.to_str().unwrap()]).expect(0);
    assert!(recorded.outcome.stderr.contains("-finstrument-functions"), "{}", recorded.outcome.stderr);
}

#[test]
fn a_trace_without_functions_says_what_to_do() {
    let lab = Lab::new("functions_none");
    let program = lab.cc("produce.c");
    let recorded = lab.record("trace").run(&[program.to_str().unwrap(), "1", "10", "8"]).expect(0);
    let outcome = lab.kymo(&["functions", recorded.dir.to_str().unwrap()]).expect(2);
    assert!(outcome.stderr.contains("-finstrument-functions"), "{}", outcome.stderr);
}
