// SPDX-License-Identifier: MIT OR Apache-2.0
//! Libraries that come and go: traced from their first record, in programs that know of kymo and in those that do not.

use kymo_tests::{Build, Lab, Recorded, Ring, times, trace};

/// Portable lanes of one program count for more than the usual cap on a small machine.
const MEMORY: [&str; 2] = ["--memory", "16G"];

/// A lab with the plugins a and b and both loaders.
fn lab(name: &str, ring: Ring) -> Lab {
    let mut lab = Lab::new(name);
    lab.ring(ring);
    for (name, tag) in [("a.so", 1), ("b.so", 2)] {
        lab.build(&Build::new(&["plugin.c"]).library().flag(&format!("-DTAG={tag}")), name);
    }
    lab.build(&Build::new(&["loader.c"]).flag("-DWITH_EVENTS"), "knowing");
    lab.build(&Build::new(&["loader.c"]), "ignorant");
    lab
}

/// Runs a loader under `kymo record`: operations name the libraries a and b.
fn record(lab: &Lab, loader: &str, operations: &str) -> Recorded {
    let mut words = vec![lab.path(loader).to_str().unwrap().to_owned()];
    for operation in operations.split_whitespace() {
        let mut parts = operation.splitn(3, ':');
        let (word, library) = (parts.next().unwrap(), parts.next().unwrap());
        let count = parts.next().map(|count| format!(":{count}")).unwrap_or_default();
        words.push(format!("{word}:{}/{library}.so{count}", lab.path("").display().to_string().trim_end_matches('/')));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let recorded = lab.record("trace").args(&MEMORY).run(&words).expect(0).lossless();
    assert!(recorded.outcome.stdout.ends_with("ok\n"), "{:?}", recorded.outcome);
    recorded
}

fn of_tag(read: &kymo_tests::Read, tag: u64) -> Vec<u64> {
    read.of("plug:rec").filter(|record| record.number("tag") == tag).map(|record| record.number("n")).collect()
}

#[test]
fn a_library_is_traced_from_its_first_record() {
    for ring in Ring::BOTH {
        for loader in ["knowing", "ignorant"] {
            let lab = lab("dlopen", ring);
            let recorded = record(&lab, loader, "open:a run:a:1000");
            let read = recorded.read(&lab);
            trace::assert_counts_up(&of_tag(&read, 1), 1000);
            let operations = read.of("loader:op").count();
            assert_eq!(operations, if loader == "knowing" { 2 } else { 0 });
        }
    }
}

#[test]
fn a_library_is_closed_and_opened_again() {
    for ring in Ring::BOTH {
        for loader in ["knowing", "ignorant"] {
            let lab = lab("dlclose", ring);
            let recorded = record(
                &lab,
                loader,
                "open:a run:a:100 close:a open:a run:a:50 close:a open:b run:b:20 close:b open:a run:a:10",
            );
            let read = recorded.read(&lab);
            // It counts from 0 whenever it was really gone.
            let expect: Vec<u64> = (0..100).chain(0..50).chain(0..10).collect();
            assert_eq!(of_tag(&read, 1), expect, "{ring:?} {loader}");
            trace::assert_counts_up(&of_tag(&read, 2), 20);
        }
    }
}

/// The same with libkymo.a inside the library, which then stays in memory for its helper thread's sake.
#[test]
fn a_library_with_the_archive_is_closed_and_opened_again() {
    for ring in Ring::BOTH {
        let lab = lab("dlclose_archive", ring);
        let library = Build::new(&["plugin.c"]).archive().flag("-shared").flag("-fPIC").flag("-DTAG=1");
        lab.build(&library, "a.so");
        let recorded =
            record(&lab, "ignorant", "open:a run:a:100 close:a open:a run:a:50 close:a open:b run:b:20 close:b");
        let read = recorded.read(&lab);
        assert_eq!(of_tag(&read, 1).len(), 150);
        assert_eq!(of_tag(&read, 2).len(), 20);
    }
}

#[test]
fn two_libraries_with_the_same_event() {
    for ring in Ring::BOTH {
        let lab = lab("same_event", ring);
        let recorded = record(&lab, "knowing", "open:a open:b run:a:100 run:b:200 close:a run:b:300");
        let read = recorded.read(&lab);
        trace::assert_counts_up(&of_tag(&read, 1), 100);
        trace::assert_counts_up(&of_tag(&read, 2), 500);
        // One event for both.
        let metadata = std::fs::read_to_string(recorded.dir.join("metadata")).unwrap();
        assert_eq!(metadata.matches("\"plug:rec\"").count(), 1, "{metadata}");
    }
}

#[test]
fn a_library_that_is_linked() {
    let lab = lab("linked", Ring::Rseq);
    let lib = lab.path("a.so");
    let main = lab.write(
        "main.c",
        "#include \"common.h\"\nKYMO_EVENT(linked, main, (u32, n))\nvoid plug_run(uint64_t count);\n\
        int main(void) { kymo_trace(linked, main, 1); plug_run(10); kymo_trace(linked, main, 2); return 0; }\n",
    );
    let program = lab.build(&Build::new(&[main.to_str().unwrap(), lib.to_str().unwrap()]), "linked");
    let read = lab.record("trace").run(&[program.to_str().unwrap()]).expect(0).lossless().read(&lab);
    trace::assert_counts_up(&of_tag(&read, 1), 10);
    assert_eq!(read.numbers("linked:main", "n"), [1, 2]);
}

/// Two different events of one name, in two libraries: two events, both written [spec/event.md 3.3].
#[test]
fn different_events_with_one_name() {
    let lab = lab("different_events", Ring::Rseq);
    for (name, field) in [("a", "(u64, number)"), ("b", "(str, text)")] {
        let value = if name == "a" { "7" } else { "\"seven\"" };
        let source = lab.write(&format!("{name}.c"), &format!(
            "#include \"common.h\"\nKYMO_EVENT(plug, rec, {field})\nvoid plug_run(uint64_t count);\n\
             void plug_run(uint64_t count) {{ for (uint64_t n = 0; n < count; n++) {{ kymo_trace(plug, rec, {value}); }} }}\n"));
        lab.build(&Build::new(&[source.to_str().unwrap()]).library(), &format!("{name}.so"));
    }
    let read = record(&lab, "ignorant", "open:a open:b run:a:3 run:b:2").read(&lab);
    let numbers = read.records.iter().filter(|record| record.fields.get("number") == Some(&7.into())).count();
    let texts = read.records.iter().filter(|record| record.fields.get("text") == Some(&"seven".into())).count();
    assert_eq!((numbers, texts, read.records.len()), (3, 2, 5));
}

/// Opens, uses and closes a library as often as it can for so many milliseconds.
const STORM: &str = r#"
#include "common.h"
#include <dlfcn.h>
static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
int main(int argc, char **argv)
{
	uint64_t end = now_ms() + strtoull(argv[2], NULL, 10), opened = 0, slowest = 0;

	(void)argc;
	live_shortly();
	while (now_ms() < end) {
		uint64_t before = now_ms();
		void *library = dlopen(argv[1], RTLD_NOW), *run;

		if (!library)
			die(dlerror());
		if (now_ms() - before > slowest)
			slowest = now_ms() - before;
		run = dlsym(library, "plug_run");
		((void (*)(uint64_t))run)(1);
		dlclose(library);
		opened++;
	}
	printf("opened=%" PRIu64 " slowest=%" PRIu64 "\n", opened, slowest);
	return 0;
}
"#;

/// Thousands of times a second: the recording goes on to the end.
#[test]
fn a_library_comes_and_goes_all_the_time() {
    for ring in Ring::BOTH {
        let lab = lab("storm", ring);
        let storm = lab.cc_text("storm", STORM);
        let (storm, library) = (storm.to_str().unwrap().to_owned(), lab.path("a.so").display().to_string());
        let time = times(1500, 14_000).to_string();
        let recorded = lab.record("trace").args(&MEMORY).run(&[&storm, &library, &time]);
        let (opened, records) = (recorded.outcome.number("opened"), recorded.records());
        // On a machine with no time to spare a library may not have been waited for; then that is said.
        let is_known = recorded.summary["unknown"] == serde_json::json!([]);
        assert_eq!(recorded.outcome.code, if is_known { 0 } else { 3 }, "{}", recorded.outcome.stderr);
        assert!(opened > times(100, 1000) as u64, "{opened}");
        assert!(records == opened || !is_known && records > opened * 9 / 10, "{records} of {opened}");
        assert_eq!(recorded.lost(), 0);
        let refused = recorded.summary["processes"].as_array().unwrap().iter().filter(|of| of["outcome"].is_object());
        assert_eq!(refused.count(), 0, "{}", recorded.summary["processes"]);
    }
}
