// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes in programs that are compiled here, on a real tracefs.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_testing::skip_this;
use kymo_tracefs::{Chosen, Error, EventName, Instance, Probe, ProbeError, Tracefs, parse_probe};
use support::{Helper, compile, ready_and_wait, remove_until, settings, trace, tracefs};

/// A function with two arguments and a value.
const PLAIN: &str = r#"
#include <stdint.h>
__attribute__((noinline, noclone)) int work(int count, const char *text)
{
	__asm__ volatile("" ::: "memory");
	return count * 2 + text[0];
}
__attribute__((noinline, noclone)) int work_more(int count)
{
	__asm__ volatile("" ::: "memory");
	return count + 1;
}
int main(void)
{
	int sum = 0;
	for (int i = 0; i < 3; i++)
		sum += work(10 + i, "hello");
	return work_more(sum) == 0;
}
"#;

/// Notes of type stapsdt, written out: `quiet` has a semaphore, `go` two sites that are alike and one that is not.
const USDT: &str = r#"
#include <stdint.h>
__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n");
__attribute__((section(".probes"))) volatile unsigned short quiet_semaphore;
#define SITE(name, semaphore, args, ...) __asm__ volatile( \
	"990: nop\n" \
	".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n" \
	".4byte 992f-991f, 994f-993f, 3\n" \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n" \
	"993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " semaphore "\n" \
	".asciz \"app\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n" \
	"994: .balign 4\n.popsection\n" :: __VA_ARGS__)
static volatile int global = 5;
int main(void)
{
	int32_t negative = -7;
	uint64_t big = 0x123456789aULL;
	volatile int16_t on_stack = -300;
	double real = 1.5;
	for (int i = 0; i < 2; i++)
		SITE("go", "0", "-4@%0 8@%1", "r"(negative), "r"(big));
	SITE("go", "0", "-4@%0 8@$77", "r"(negative + 1));
	SITE("go", "0", "-2@%0 8@%1 4@global(%%rip) -4@$-9", "m"(on_stack), "x"(real));
	int seen = quiet_semaphore;
	if (seen)
		SITE("quiet", "quiet_semaphore", "-4@%0", "r"(seen));
	return seen + (global - 5);
}
"#;

fn built(name: &str, source: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), name, source, &[])?;
    Some((folder, program))
}

fn resolve(binary: &Path, place: &str) -> Result<Vec<Probe>, Error> {
    parse_probe(&format!("{}:{place}", binary.display())).and_then(|spec| spec.resolve())
}

fn enable(instance: &Instance, events: &[EventName]) {
    let chosen: Vec<Chosen> = events.iter().cloned().map(Chosen::whole).collect();
    instance.enable(&chosen).unwrap();
    instance.start().unwrap();
}

/// Runs a program, gives its exit status and what was recorded.
fn run(instance: &Instance, program: &Path) -> (i32, String) {
    let status = Command::new(program).status().unwrap();
    (status.code().unwrap(), trace(instance))
}

fn listed(tracefs: &Tracefs, group: &str) -> usize {
    let text = std::fs::read_to_string(tracefs.root().join("uprobe_events")).unwrap();
    text.lines().filter(|line| line.contains(&format!(":{group}/"))).count()
}

#[test]
fn entry_return_and_arguments() {
    let Some(tracefs) = tracefs() else { return };
    // The name has what the kernel's parser would split at.
    let Some((_folder, program)) = built("a program#1", PLAIN) else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let mut probes = resolve(&program, "work count=%di:s32 text=+0(%si):string").unwrap();
    probes.extend(resolve(&program, "work%return value=$retval:s32").unwrap());
    // Asked for twice, recorded once.
    probes.extend(resolve(&program, "work%return value=$retval:s32").unwrap());
    let events = instance.add_probes(&probes).unwrap();
    let group = instance.probe_group();
    assert_eq!(events, [EventName::new(&group, "work"), EventName::new(&group, "work_return")]);
    assert!(tracefs.events().unwrap().contains(&events[0]));
    assert!(tracefs.format(&events[0]).unwrap().contains("count"));
    enable(&instance, &events);
    let (_, text) = run(&instance, &program);
    for count in 10..13 {
        assert!(text.contains(&format!("count={count} text=\"hello\"")), "{text}");
        assert!(text.contains(&format!("value={}", count * 2 + i32::from(b'h'))), "{text}");
    }
    assert_eq!(text.lines().count(), 6, "{text}");
    instance.remove().unwrap();
    assert_eq!(listed(&tracefs, &group), 0);
}

#[test]
fn a_probe_takes_a_filter() {
    let Some(tracefs) = tracefs() else { return };
    let Some((_folder, program)) = built("program", PLAIN) else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let events = instance.add_probes(&resolve(&program, "work+0 count=%di:s32").unwrap()).unwrap();
    let filter = Some("count == 11".to_owned());
    instance.enable(&[Chosen { event: events[0].clone(), filter, fields: None }]).unwrap();
    instance.start().unwrap();
    let (_, text) = run(&instance, &program);
    assert!(text.lines().count() == 1 && text.contains("count=11"), "{text}");
    instance.remove().unwrap();
}

#[test]
fn usdt_sites_arguments_and_semaphore() {
    let Some(tracefs) = tracefs() else { return };
    if !cfg!(target_arch = "x86_64") {
        return skip_this("the program's notes are for x86-64");
    }
    let Some((_folder, program)) = built("program", USDT) else { return };
    let instance = tracefs.create(&settings()).unwrap();
    assert_eq!(run(&instance, &program).0, 0, "the semaphore is 0 where nobody looks");
    let probes = resolve(&program, "app:go").unwrap();
    let caveats: Vec<&String> = probes.iter().flat_map(Probe::caveats).collect();
    assert_eq!(caveats.len(), 2, "{caveats:?}");
    assert!(caveats[0].contains("%xmm") && caveats[1].contains("global(%rip)"), "{caveats:?}");
    let mut events = instance.add_probes(&probes).unwrap();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["go", "go_2"], "sites that are alike share an event");
    events.extend(instance.add_probes(&resolve(&program, "app:quiet").unwrap()).unwrap());
    enable(&instance, &events);
    let (status, text) = run(&instance, &program);
    assert_eq!(status, 1, "the kernel counts the semaphore");
    let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count("arg1=-7 arg2=78187493530"), 2, "{text}");
    assert_eq!(count("arg1=-6 arg2=77"), 1, "{text}");
    assert_eq!(count("arg1=-300 arg4=-9"), 1, "{text}");
    assert_eq!(count("quiet: "), 1, "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
    let group = instance.probe_group();
    instance.remove().unwrap();
    assert_eq!(listed(&tracefs, &group), 0);
}

#[test]
fn names_that_are_not_there_have_neighbours() {
    let Some((folder, program)) = built("program", PLAIN) else { return };
    let message = |binary: &Path, place: &str| resolve(binary, place).unwrap_err().to_string();
    let unknown = message(&program, "wrok");
    assert!(unknown.contains("no function \"wrok\"; near it: work"), "{unknown}");
    assert!(message(&program, "work_mre").contains("work_more"));
    assert!(message(&program, "work+100000").contains("is not in it"));
    assert!(message(&program, "app:go").contains("no USDT probes"));
    assert!(message(&folder.path().join("none"), "work").contains("cannot read"));
    assert!(message(&folder.path().join("program.c"), "work").contains("not an ELF file"));
    let stripped = folder.path().join("stripped");
    match Command::new("strip").args(["-s", "-o"]).arg(&stripped).arg(&program).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return skip_this(&format!("strip: {error}")),
    }
    let message = message(&stripped, "work");
    assert!(message.contains("is stripped") && message.contains("debug symbols"), "{message}");
    let Some(usdt) = compile(folder.path(), "usdt", USDT, &[]) else { return };
    let unknown = resolve(&usdt, "app:og").unwrap_err().to_string();
    assert!(unknown.contains("near it: app:go"), "{unknown}");
}

#[test]
fn links_and_libraries_are_followed() {
    let Some(tracefs) = tracefs() else { return };
    let Some((folder, program)) = built("program", PLAIN) else { return };
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let probes = resolve(&link, "work").unwrap();
    assert_eq!(probes[0].binary(), program.canonicalize().unwrap());
    assert!(probes[0].offset() > 0);
    let instance = tracefs.create(&settings()).unwrap();
    enable(&instance, &instance.add_probes(&probes).unwrap());
    assert_eq!(run(&instance, &program).1.lines().count(), 3);
    instance.remove().unwrap();
}

#[test]
fn what_the_kernel_refuses_is_told_and_leaves_nothing() {
    let Some(tracefs) = tracefs() else { return };
    let Some((_folder, program)) = built("program", PLAIN) else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let mut probes = resolve(&program, "work").unwrap();
    probes.extend(resolve(&program, "work_more count=%nothing:s32").unwrap());
    let error = instance.add_probes(&probes).unwrap_err();
    assert!(matches!(error, Error::Probe(ProbeError::Refused { .. })), "{error}");
    let message = error.to_string();
    assert!(message.contains('^') && message.contains("%nothing"), "{message}");
    assert_eq!(listed(&tracefs, &instance.probe_group()), 0);
    instance.remove().unwrap();
}

#[test]
fn probes_of_the_dead_go_too() {
    if let Some(program) = std::env::var_os("KYMO_TEST_PROBE") {
        let Some(tracefs) = tracefs() else { return };
        let instance = tracefs.create(&settings()).unwrap();
        enable(&instance, &instance.add_probes(&resolve(Path::new(&program), "work").unwrap()).unwrap());
        return ready_and_wait(&instance.probe_group());
    }
    let Some(tracefs) = tracefs() else { return };
    let Some((_folder, program)) = built("program", PLAIN) else { return };
    let holder = Helper::start("probes_of_the_dead_go_too", "KYMO_TEST_PROBE", program.to_str().unwrap());
    let group = holder.said.clone();
    tracefs.remove_dead();
    assert_eq!(listed(&tracefs, &group), 1, "its session lives");
    holder.kill();
    remove_until(&tracefs, || listed(&tracefs, &group) == 0);
}

#[test]
fn a_group_without_an_instance_is_a_leftover() {
    let Some(tracefs) = tracefs() else { return };
    let Some((_folder, program)) = built("program", PLAIN) else { return };
    let offset = resolve(&program, "work").unwrap()[0].offset();
    let group = format!("kymo_{}_0badcafe", std::process::id());
    let path = tracefs.root().join("uprobe_events");
    let mut events = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    let line = format!("p:{group}/left {}:{offset:#x}", program.display());
    std::io::Write::write_all(&mut events, line.as_bytes()).unwrap();
    drop(events);
    remove_until(&tracefs, || listed(&tracefs, &group) == 0);
}
