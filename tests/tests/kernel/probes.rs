// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-U`: functions and USDT probes of programs that know nothing of kymo.

use kymo_tests::{Kernel, Lab, Record, babeltrace, has, paths};
use rustix::process::Signal;
use serde_json::json;

use super::says;

/// A function with arguments of many kinds, and notes of type stapsdt, written out.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <string.h>
__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n");
#define SITE(name, args, ...) __asm__ volatile("990: nop\n" \
	".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n" \
	".asciz \"app\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n994: .balign 4\n.popsection\n" :: __VA_ARGS__)
static uint16_t numbers[4] = { 1, 2, 300, 65535 };
__attribute__((noinline)) long kinds(long small, long big, const char *text, const uint16_t *array)
{
	__asm__ volatile("" :: "r"(small), "r"(big), "r"(text), "r"(array) : "memory");
	return small * 2;
}
int main(int argc, char **argv)
{
	long sum = 0;
	char text[64] = "text ";

	strcat(text, argc > 1 ? argv[1] : "none");
	for (long n = -2; n < 3; n++) {
		sum += kinds(n, n << 40, text, numbers);
		SITE("go", "-8@%0 4@%1", "r"(n), "r"(77));
	}
	return sum != 0;
}
"#;

fn program(lab: &Lab) -> String {
    lab.cc_text("probed", PROGRAM).to_str().unwrap().to_owned()
}

#[test]
fn arguments_of_every_kind() {
    let Some(kernel) = Kernel::find("probe_kinds") else { return };
    let lab = Lab::new("probe_kinds");
    let program = program(&lab);
    let place = format!(
        "{program}:kinds s8=%di:s8 u16=%di:u16 s32=%di:s32 big=%si:s64 hex=%si:x64 text=+0(%dx):string array=+0(%cx):u16[4]"
    );
    let recorded = lab.record("trace").args(&["-U", &place, "--state", "none"]).run(&[&program, "one"]).expect(0);
    kernel.assert_clean(recorded.pid);
    lab.kernel_lossless(&recorded);
    let read = recorded.read(&lab);
    let records: Vec<&Record> = read.records.iter().filter(|record| record.event.contains("kinds")).collect();
    assert_eq!(records.len(), 5, "{:?}", read.records);
    for (n, record) in (-2i64..3).zip(records) {
        let expect = json!({
            "s8": n, "u16": n as u16, "s32": n, "big": n << 40, "hex": (n << 40) as u64, "text": "text one",
            "array": [1, 2, 300, 65535],
        });
        for (name, value) in expect.as_object().unwrap() {
            assert_eq!(record.fields.get(name), Some(value), "{name} of {record:?}");
        }
    }
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

#[test]
fn entry_return_and_usdt() {
    let Some(kernel) = Kernel::find("probe_return") else { return };
    let lab = Lab::new("probe_return");
    let program = program(&lab);
    let places =
        ["kinds n=%di:s64", "kinds%return twice=$retval:s64", "app:go"].map(|place| format!("{program}:{place}"));
    let recorded = lab
        .record("trace")
        .args(&["-U", &places[0], "-U", &places[1], "-U", &places[2], "--state", "none", "--names", "kernel"])
        .run(&[&program])
        .expect(0);
    kernel.assert_clean(recorded.pid);
    let read = recorded.read(&lab);
    let rounds: Vec<&[Record]> = read.records.chunks(3).collect();
    assert_eq!(rounds.len(), 5, "{:?}", read.records);
    for (n, round) in (-2i64..3).zip(rounds) {
        assert_eq!((&round[0].fields["n"], &round[1].fields["twice"]), (&json!(n), &json!(2 * n)), "{round:?}");
        let values: Vec<_> =
            round[2].fields.iter().filter(|(name, _)| name.starts_with("arg")).map(|(_, value)| value).collect();
        assert_eq!(values, [&json!(n), &json!(77)], "{round:?}");
        assert!(round.iter().all(|record| record.event.starts_with("uprobe:")), "{round:?}");
    }
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

/// Two processes of the program, and one that is none of the session's business.
#[test]
fn two_processes() {
    let Some(kernel) = Kernel::find("probe_two") else { return };
    let lab = Lab::new("probe_two");
    let program = program(&lab);
    let place = format!("{program}:kinds text=+0(%dx):string");
    let other = lab.spawn("sh", &["-c", &format!("while :; do {program} other; done")]);
    for (name, args, others) in [("only", &["--only"][..], false), ("all", &[], true)] {
        let script = format!("{program} one & {program} two; wait; sleep 0.1");
        let recorded =
            lab.record(name).args(&["-U", &place, "--state", "none"]).args(args).run(&["sh", "-c", &script]).expect(0);
        kernel.assert_clean(recorded.pid);
        let read = recorded.read(&lab);
        let tids = |text: &str| -> Vec<u64> {
            let text = json!(format!("text {text}"));
            read.records.iter().filter(|record| record.fields["text"] == text).map(|record| record.tid).collect()
        };
        let (one, two) = (tids("one"), tids("two"));
        assert_eq!((one.len(), two.len()), (5, 5), "{name}");
        assert!(one.iter().all(|tid| *tid == one[0] && !two.contains(tid)), "{one:?} and {two:?}");
        assert_eq!(!tids("other").is_empty(), others, "{name}");
    }
    drop(other);
}

/// Sessions on one function: each has a probe of its own, and the end of one is not the other's.
#[test]
fn two_sessions() {
    let Some(kernel) = Kernel::find("probe_sessions") else { return };
    let lab = Lab::new("probe_sessions");
    let program = program(&lab);
    let place = format!("{program}:kinds n=%di:s64");
    let mut sessions = ["first", "second"].map(|name| {
        let session = lab.record(name).args(&["-U", &place, "--state", "none", "--names", "kernel"]).attach();
        lab.run(&program, &[]);
        Some(session)
    });
    for (at, calls) in [(0, 10), (1, 10)] {
        let recorded = sessions[at].take().unwrap().end(Signal::INT).expect(0);
        kernel.assert_clean(recorded.pid);
        let read = recorded.read(&lab);
        assert_eq!(read.of("uprobe:kinds").count(), calls, "session {at}: {:?}", read.records);
        lab.run(&program, &[]);
    }
}

#[test]
fn places_that_are_not_there() {
    let Some(kernel) = Kernel::find("probe_none") else { return };
    let lab = Lab::new("probe_none");
    let program = program(&lab);
    for (place, parts) in [
        (format!("{program}:kindz"), &["kindz", "near it: kinds"][..]),
        (format!("{program}:app:gone"), &["app:gone", "app:go"]),
        (format!("{program}:kinds n=%nosuch:s64"), &["nosuch"]),
        (format!("{program}:kinds+99999999"), &["\"kinds\"", "+99999999"]),
        ("/no/such/file:main".to_owned(), &["/no/such/file"]),
        (lab.write("text.txt", "x").to_str().unwrap().to_owned() + ":main", &["text.txt", "ELF"]),
        ("nocolon".to_owned(), &["nocolon"]),
    ] {
        // What is asked for besides it is not left behind either.
        let good = format!("{program}:kinds");
        let recorded = lab.record("trace").args(&["-k", "sched", "-U", &good, "-U", &place]).run(&[&program]);
        assert_eq!(recorded.outcome.code, 2, "{place}: {}", recorded.outcome.stderr);
        says(&recorded.outcome.stderr, parts);
        assert!(!recorded.dir.exists(), "{place}");
        kernel.assert_clean(recorded.pid);
    }
}

/// A program that was stripped still has what its dynamic symbols name.
#[test]
fn a_stripped_program() {
    if !has("strip") {
        return kymo_tests::skip("probe_stripped", "no strip (Debian: binutils)");
    }
    let Some(kernel) = Kernel::find("probe_stripped") else { return };
    let lab = Lab::new("probe_stripped");
    let program = program(&lab);
    lab.run("strip", &["-s", "-o", "stripped", &program]).expect(0);
    let stripped = lab.path("stripped");
    let stripped = stripped.to_str().unwrap();
    let recorded = lab.record("trace").args(&["-U", &format!("{stripped}:kinds")]).run(&[stripped]).expect(2);
    says(&recorded.outcome.stderr, &["stripped"]);
    kernel.assert_clean(recorded.pid);
    // Notes are there all the same.
    let recorded =
        lab.record("usdt").args(&["-U", &format!("{stripped}:app:go"), "--state", "none"]).run(&[stripped]).expect(0);
    assert_eq!(recorded.read(&lab).records.len(), 5);
    kernel.assert_clean(recorded.pid);
    // A function of a shared library, by every process that uses it.
    let library = paths::library().join("libkymo.so");
    let said =
        lab.kymo(&["record", "-o", "lib", "-U", &format!("{}:no_function_like_it", library.display()), "--", "true"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
}
