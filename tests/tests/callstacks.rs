// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call stacks of code without frame pointers, by the tables that compilers write for exceptions [spec/context.md 4],
//! through the whole pipe. What one stack must be is held against backtrace() in emit/tests/unwind.c.

use kymo_tests::{Build, Lab, Ring};
use serde_json::Value;

const FLAGS: [&str; 2] = ["-fomit-frame-pointer", "-fno-optimize-sibling-calls"];

fn build(lab: &Lab, source: &str, flags: &[&str]) -> String {
    let build = FLAGS.iter().chain(flags).fold(Build::new(&[source]), |build, flag| build.flag(flag));
    lab.build(&build, "program").to_str().unwrap().to_owned()
}

/// The names of each record's call stack, where the record is of an event and has a field of a value.
fn stacks(lab: &Lab, trace: &str, event: &str, field: (&str, &Value)) -> Vec<Vec<String>> {
    let outcome = lab.kymo(&["read", trace, "--symbols", "--json"]).expect(0);
    let records = outcome.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let wanted = records.filter(|record| record["event"] == event && record["fields"][field.0] == *field.1);
    let names = |record: Value| -> Vec<String> {
        let frames = record["symbols"]["callstack"].as_array().unwrap_or_else(|| panic!("{record}"));
        frames.iter().map(|name| name.as_str().unwrap_or("?").to_owned()).collect()
    };
    wanted.map(names).collect()
}

/// Whether names are in a stack in this order, others between them.
#[track_caller]
fn has_in_order(stack: &[String], names: &[&str]) {
    let mut frames = stack.iter();
    let is_there = names.iter().all(|name| frames.any(|frame| frame.split([' ', '+']).next() == Some(name)));
    assert!(is_there, "{names:?} are not in {stack:?} in this order");
}

#[test]
fn a_malloc_stack_has_the_programs_own_functions() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("callstacks_malloc");
        lab.ring(ring);
        let program = build(&lab, "allocs.c", &[]);
        let args = ["--with", "malloc", "--context", "callstack", "--memory", "16G"];
        let recorded = lab.record("trace").args(&args).run(&[&program]).expect(0).lossless();
        let trace = recorded.dir.to_str().unwrap();
        let direct = stacks(&lab, trace, "libc:malloc", ("size", &4711.into()));
        assert_eq!(direct.len(), 1, "{direct:?}");
        has_in_order(&direct[0], &["alloc_inner", "alloc_middle", "alloc_outer", "main"]);
        // Through qsort, which has no frame pointers either: whoever calls it has none to offer.
        let back = stacks(&lab, trace, "libc:malloc", ("size", &4713.into()));
        assert!(!back.is_empty());
        back.iter().for_each(|stack| has_in_order(stack, &["alloc_inner", "alloc_in_callback", "main"]));
    }
}

#[test]
fn stacks_of_threads_and_signal_handlers_are_whole() {
    let lab = Lab::new("callstacks_places");
    let program = build(&lab, "contexts.c", &["-O3"]);
    let args = ["--context", "callstack", "--memory", "16G"];
    let recorded = lab.record("trace").args(&args).run(&[&program, "stacks"]).expect(0).lossless();
    let stacks = |place: &str| {
        stacks(&lab, recorded.dir.to_str().unwrap(), "ctx:place", ("where", &Value::String(place.to_owned())))
    };
    let main = stacks("main");
    assert_eq!(main.len(), 2);
    main.iter().for_each(|stack| has_in_order(stack, &["inner", "middle", "outer", "main"]));
    has_in_order(&stacks("thread")[0], &["inner", "middle", "outer", "stack_thread"]);
    // From the signal stack back to what was interrupted.
    has_in_order(&stacks("signal stack")[0], &["inner", "middle", "outer", "on_signal", "main"]);
    let deep = stacks("deep");
    assert_eq!(deep[0].len(), 32, "it is bounded: {deep:?}");
    // It leaves its table's rules behind; the program lives.
    assert_eq!(stacks("astray").len(), 10);
}

/// Nobody makes tables, or there are none: frame pointers are what there is.
#[test]
fn without_tables_frame_pointers_serve() {
    let frames = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    let shared = frames.iter().fold(Build::new(&["contexts.c"]), |build, flag| build.flag(flag));
    for (kind, build) in [("no_thread", shared.clone()), ("static", shared.fully_static())] {
        let mut lab = Lab::new(&format!("callstacks_{kind}"));
        if kind == "no_thread" {
            lab.env("KYMO_NO_THREAD", "1");
        }
        let program = lab.build(&build, "program");
        let args = ["--context", "callstack", "--memory", "16G"];
        let recorded = lab.record("trace").args(&args).run(&[program.to_str().unwrap(), "stacks"]).expect(0).lossless();
        let trace = recorded.dir.to_str().unwrap();
        for stack in stacks(&lab, trace, "ctx:place", ("where", &"main".into())) {
            has_in_order(&stack, &["inner", "middle", "outer", "stacks", "main"]);
        }
        let thread = stacks(&lab, trace, "ctx:place", ("where", &"thread".into()));
        has_in_order(&thread[0], &["inner", "middle", "outer", "stack_thread"]);
    }
}
