// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-U` by the names of the source: parameters from debug information, text, C++, patterns; who the records are of; and
//! returns that would crash a program.

use kymo_tests::{Build, Kernel, Lab, Record, babeltrace, has, skip};
use serde_json::{Value, json};

use super::says;

const C: &str = r#"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <pthread.h>
struct pair { long a, b; };
struct large { long a[4]; };
enum state { idle, moving = 7 };
#define KEEP __attribute__((noinline, noclone, noipa))
KEEP int kinds(int n, const char *text, bool flag, unsigned char small, enum state state, double ratio, short last, long eighth,
	       int64_t ninth)
{
	__asm__ volatile("" :: "r"(text), "r"(n), "x"(ratio) : "memory");
	return n + flag + small + (int)state + last + (int)eighth + (int)ninth;
}
KEEP struct large hidden(int n, const char *text)
{
	struct large made = { { n, text != NULL, 0, 0 } };
	return made;
}
KEEP int behind(struct pair pair, int n)
{
	return (int)pair.a + n;
}
KEEP int plain(void)
{
	__asm__ volatile("");
	return 1;
}
static void *thread(void *unused)
{
	plain();
	return unused;
}
int main(void)
{
	pthread_t other;
	struct pair pair = { 1, 2 };
	int sum = 0;

	for (int n = -1; n < 2; n++)
		sum += kinds(n, n ? "some text" : "", true, 200, moving, 0.5, -3, 1l << 40, -9);
	sum += (int)hidden(5, "there").a[0] + behind(pair, 6) + plain();
	pthread_create(&other, NULL, thread, NULL);
	pthread_setname_np(other, "second");
	pthread_join(other, NULL);
	return sum == 12345;
}
"#;

fn program(lab: &Lab, name: &str, flags: &[&str]) -> String {
    let source = lab.write(&format!("{name}.c"), &format!("#define _GNU_SOURCE\n{C}"));
    let output = lab.path(name);
    let all = [&["-g", "-pthread", "-o", output.to_str().unwrap(), source.to_str().unwrap()], flags].concat();
    lab.run("cc", &all).expect(0);
    output.to_str().unwrap().to_owned()
}

fn records<'r>(read: &'r kymo_tests::Read, part: &str) -> Vec<&'r Record> {
    read.records.iter().filter(|record| record.event.contains(part)).collect()
}

#[track_caller]
fn fields(record: &Record, expect: Value) {
    for (name, value) in expect.as_object().unwrap() {
        assert_eq!(record.fields.get(name), Some(value), "{name} of {record:?}");
    }
}

/// With and without optimisation, in registers and on the stack, by gcc and clang, with debug information beside and
/// within.
#[test]
fn parameters_by_their_names() {
    let Some(kernel) = Kernel::find("probe_parameters") else { return };
    let lab = Lab::new("probe_parameters");
    for (name, flags) in
        [("o0", &["-O0"][..]), ("o2", &["-O2"]), ("dwarf4", &["-O1", "-gdwarf-4"]), ("packed", &["-O2", "-gz"])]
    {
        let program = program(&lab, name, flags);
        let places = [
            format!("{program}:kinds $params"),
            format!("{program}:hidden n again=text text:x64"),
            format!("{program}:kinds%return r=$retval:i32"),
        ];
        let args = ["-U", &places[0], "-U", &places[1], "-U", &places[2]];
        let recorded = lab.record(&format!("{name}.trace")).args(&args).run(&[&program]).expect(0);
        kernel.assert_clean(recorded.pid);
        lab.kernel_lossless(&recorded);
        let read = recorded.read(&lab);
        let entries: Vec<&Record> =
            records(&read, "kinds").into_iter().filter(|of| !of.event.contains("return")).collect();
        assert_eq!(entries.len(), 3, "{name}: {:?}", read.records);
        for (n, record) in (-1i64..2).zip(entries) {
            let text = if n == 0 { "" } else { "some text" };
            fields(
                record,
                json!({ "n": n, "text": text, "flag": 1, "small": 200, "state": 7, "last": -3, "eighth": 1i64 << 40, "ninth": -9 }),
            );
        }
        fields(records(&read, "hidden")[0], json!({ "n": 5, "again": "there" }));
        assert_eq!(records(&read, "kinds_return").len(), 3);
        // What cannot be had is named.
        says(&recorded.outcome.stderr, &["kinds: parameter ratio is left out", "floating"]);
        babeltrace::agrees(&lab, &recorded.dir, &read);
    }
    let program = program(&lab, "more", &["-O0"]);
    for (place, parts) in [
        (format!("{program}:kinds nosuch"), &["no parameter \"nosuch\"", "n, text, flag"][..]),
        (format!("{program}:kinds ratio"), &["ratio", "floating"]),
        (format!("{program}:behind n"), &["parameter n", "passed before it"]),
        (format!("{program}:plain x"), &["none at all"]),
        (format!("{program}:kinds%return n"), &["$retval"]),
        (format!("{program}:kinds n:i128"), &["i128", "s8 to s64"]),
    ] {
        let outcome = lab.record("none").args(&["-U", &place]).run(&[&program]).outcome;
        assert_eq!(outcome.code, 2, "{place}: {}", outcome.stderr);
        says(&outcome.stderr, parts);
    }
    lab.run("strip", &["-g", "-o", "nodebug", &program]).expect(0);
    let stripped = lab.path("nodebug");
    let outcome = lab.record("none").args(&["-U", &format!("{}:kinds n", stripped.display())]).run(&[&program]).outcome;
    says(&outcome.stderr, &["no debug information", "-g"]);
}

/// Nothing but a probe is asked for: records have their process and thread, whatever happened to them since the start.
#[test]
fn records_of_a_probe_have_a_process() {
    let Some(kernel) = Kernel::find("probe_process") else { return };
    let lab = Lab::new("probe_process");
    let program = program(&lab, "named", &["-O1"]);
    let place = format!("{program}:plain");
    for names in [&[][..], &["--names", "kernel"]] {
        let recorded = lab.record(&format!("trace{}", names.len())).args(&["-U", &place]).args(names).run(&[
            "sh",
            "-c",
            &format!("{program}; true"),
        ]);
        let recorded = recorded.expect(0);
        kernel.assert_clean(recorded.pid);
        let read = lab.kymo(&["read", recorded.dir.to_str().unwrap(), "--json"]).expect(0);
        let records: Vec<Value> = read.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), 2, "records that nobody asked for are not shown: {}", read.stdout);
        assert_eq!((&records[0]["proc"], &records[0]["pid"]), (&json!("named"), &records[0]["tid"]), "{}", read.stdout);
        assert_eq!(records[1]["pid"], records[0]["pid"], "a thread of the same process");
        assert_ne!(records[1]["tid"], records[0]["tid"]);
        assert!(records[1]["proc"] == "second" || records[1]["proc"] == "named", "{}", read.stdout);
        // Nor are they counted.
        assert_eq!((recorded.records(), &recorded.kernel()["events"]), (2, &json!(["uprobe:plain"])));
    }
    // The state of a CPU at a probe is not known on kernels that leave all bits set: nothing is made of it.
    let read = lab.kymo(&["explain", lab.path("trace0").to_str().unwrap()]);
    assert!(!read.stdout.contains("in NMI") && !read.stdout.contains("15 times"), "{}", read.stdout);
}

const CXX: &str = r#"
#include <cstdio>
#include <stdexcept>
#define KEEP __attribute__((noinline))
namespace motor {
struct Axis {
	int id;
	KEEP int step(int n, const char *why) { __asm__ volatile("" :: "r"(why) : "memory"); return n + id; }
	KEEP int step(double by) { __asm__ volatile("" ::: "memory"); return id + (int)by; }
	KEEP void fail(int n) { __asm__ volatile("" ::: "memory"); if (n == 1) throw std::runtime_error("one"); }
};
template <typename T> KEEP T turn(T a) { __asm__ volatile("" ::: "memory"); return a + 1; }
}
KEEP int operator+(const motor::Axis &a, int n) { __asm__ volatile("" ::: "memory"); return a.id + n; }
int main()
{
	motor::Axis axis{ 3 };
	int sum = 0;
	for (int n = 0; n < 3; n++) {
		sum += axis.step(n, "reason") + axis.step(0.5) + motor::turn(n) + (int)motor::turn(2L) + (axis + n);
		try { axis.fail(n); } catch (std::exception &) { sum++; }
	}
	std::printf("whole %d\n", sum);
}
"#;

fn cxx(lab: &Lab) -> String {
    let source = lab.write("cxx.cc", CXX);
    let program = lab.path("cxx");
    lab.run("c++", &["-g", "-O1", "-o", program.to_str().unwrap(), source.to_str().unwrap()]).expect(0);
    program.to_str().unwrap().to_owned()
}

#[test]
fn names_and_patterns_of_cxx() {
    if !has("c++") {
        return skip("probe_cxx", "no c++");
    }
    let Some(kernel) = Kernel::find("probe_cxx") else { return };
    let lab = Lab::new("probe_cxx");
    let program = cxx(&lab);
    for (at, (place, event, expect)) in [
        ("motor::Axis::step", "motor__Axis__step", 6),
        ("motor::Axis::step(int, char const*) n why", "motor__Axis__step", 3),
        ("motor::Axis::step(double)", "motor__Axis__step", 3),
        ("motor::Axis::st*", "motor__Axis__step", 6),
        ("motor::turn<long>", "motor__turn_long_", 3),
        ("motor::turn*", "motor__turn", 6),
        ("*Axis*", "motor__Axis", 9),
        ("operator+", "operator_", 3),
        ("_ZN5motor4Axis4stepEd", "motor__Axis__step", 3),
    ]
    .into_iter()
    .enumerate()
    {
        let place = format!("{program}:{place}");
        let recorded =
            lab.record(&format!("trace{at}")).args(&["-U", &place, "--state", "none"]).run(&[&program]).expect(0);
        kernel.assert_clean(recorded.pid);
        let read = recorded.read(&lab);
        assert_eq!((records(&read, event).len(), read.records.len()), (expect, expect), "{place}: {:?}", read.records);
        if place.ends_with("why") {
            fields(&read.records[0], json!({ "n": 0, "why": "reason" }));
        }
    }
    for (place, parts) in [
        ("motor::Axis::stp", &["no function", "near it: motor::Axis::step"][..]),
        ("nothing_like_it*", &["no function"]),
        ("motor::Axis::step(char)", &["no function"]),
    ] {
        let outcome = lab.record("none").args(&["-U", &format!("{program}:{place}")]).run(&[&program]).outcome;
        assert_eq!(outcome.code, 2, "{place}: {}", outcome.stderr);
        says(&outcome.stderr, parts);
    }
}

/// An exception that passes a probed return finds no way on: refused, unless it is wanted.
#[test]
fn a_return_that_exceptions_pass() {
    if !has("c++") {
        return skip("probe_exception", "no c++");
    }
    let Some(kernel) = Kernel::find("probe_exception") else { return };
    let lab = Lab::new("probe_exception");
    let program = cxx(&lab);
    let place = format!("{program}:motor::Axis::fail%return");
    let refused = lab.record("refused").args(&["-U", &place]).run(&[&program]);
    assert_eq!(refused.outcome.code, 2, "{}", refused.outcome.stderr);
    says(&refused.outcome.stderr, &["exceptions", "--force-return", "entry"]);
    assert!(!refused.outcome.stdout.contains("whole"), "nothing ran");
    kernel.assert_clean(refused.pid);
    // A function that none leaves may be probed by who knows it.
    let place = format!("{program}:motor::turn<int>%return r=$retval:s32");
    let args = ["--force-return", "-U", &place, "--state", "none"];
    let recorded = lab.record("forced").args(&args).run(&[&program]).expect(0);
    assert_eq!(recorded.read(&lab).records.len(), 3);
    kernel.assert_clean(recorded.pid);
}

/// Without a package of the library: the compiler would build that first, for a minute.
const GO: &str = "package main\n\n//go:noinline\nfunc work(n int, deep int) int {\n\tvar room [2000]byte\n\
    \troom[n%2000] = byte(deep)\n\tif deep > 0 {\n\t\treturn work(n, deep-1) + int(room[n%2000])\n\t}\n\treturn n\n}\n\n\
    func main() {\n\tdone := make(chan int)\n\tfor i := 0; i < 4; i++ {\n\t\tgo func(n int) { done <- work(n, 300) }(i)\n\t}\n\
    \tsum := 0\n\tfor i := 0; i < 4; i++ {\n\t\tsum += <-done\n\t}\n\tprintln(\"the sum is above 0:\", sum > 0)\n}\n";

#[test]
fn a_return_in_a_go_program() {
    let Some(kernel) = Kernel::find("probe_go") else { return };
    if std::process::Command::new("go").arg("version").output().is_err() {
        return skip("probe_go", "no go");
    }
    let lab = Lab::new("probe_go").within(std::time::Duration::from_secs(300));
    let source = lab.write("work.go", GO);
    for (name, flags) in [("whole", &[][..]), ("stripped", &["-ldflags=-s -w"])] {
        let program = lab.path(name);
        let mut command = lab.command("go");
        command.args(["build", "-o"]).arg(&program).args(flags).arg(&source);
        // The compiler's own cache and settings stay as they are.
        command
            .env("GOCACHE", lab.path("cache"))
            .env("GO111MODULE", "off")
            .env("GOFLAGS", "")
            .env("HOME", lab.path("."));
        lab.start(command).wait().expect(0);
        let program = program.to_str().unwrap();
        for place in ["main.work%return", "main.work*%return"] {
            let refused = lab.record("refused").args(&["-U", &format!("{program}:{place}")]).run(&[program]);
            assert_eq!(refused.outcome.code, 2, "{}", refused.outcome.stderr);
            let parts = if name == "whole" { &["Go program", "--force-return"][..] } else { &["main.work"] };
            says(&refused.outcome.stderr, parts);
            assert!(!refused.outcome.stderr.contains("the sum is"));
            kernel.assert_clean(refused.pid);
        }
    }
    // Its entry can be probed.
    let program = lab.path("whole");
    let program = program.to_str().unwrap();
    let place = format!("{program}:main.work");
    let recorded = lab.record("entry").args(&["-U", &place, "--state", "none"]).run(&[program]).expect(0);
    says(&recorded.outcome.stderr, &["the sum is above 0: true"]);
    // A function that finds its stack too small begins again.
    assert!(recorded.read(&lab).records.len() >= 4 * 301);
    kernel.assert_clean(recorded.pid);
}

/// What a file offers to `-U`.
#[test]
fn what_a_file_offers() {
    let lab = Lab::new("probe_list");
    let source = r#"__asm__(".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 8, 994f-993f, 3\n.asciz \"stapsdt\"\n993: .8byte work\n"
        ".8byte 0\n.8byte 0\n.asciz \"app\"\n.asciz \"go\"\n.asciz \"-4@%edi\"\n994: .balign 4\n.popsection\n");
        int work_one(int n) { return n; } int work(int n) { return work_one(n); } int main(void) { return work(0); }"#;
    let program = lab.build(
        &Build::new(&[lab.write("offers.c", source).to_str().unwrap()]).flag("-O0").flag("-Wno-missing-prototypes"),
        "offers",
    );
    let program = program.to_str().unwrap();
    let said = lab.kymo(&["list", program]).expect(0);
    says(&said.stdout, &["1 USDT probe", "app:go  -4@%edi", "work_one", "main"]);
    let said = lab.kymo(&["list", program, "work*"]).expect(0);
    assert!(said.stdout.contains("work_one") && !said.stdout.contains("main"), "{}", said.stdout);
    let said = lab.kymo(&["list", program, "app:*"]).expect(0);
    assert!(said.stdout.contains("app:go") && !said.stdout.contains("work_one"), "{}", said.stdout);
    lab.kymo(&["list", program, "nothing_like_it"]).expect(1);
    let json: Value = serde_json::from_str(&lab.kymo(&["list", "--json", program]).expect(0).stdout).unwrap();
    assert_eq!(json[0]["usdt"], json!([{ "name": "app:go", "sites": 1, "args": "-4@%edi" }]));
    assert!(json[0]["functions"].as_array().unwrap().contains(&json!("work_one")), "{json}");
}
