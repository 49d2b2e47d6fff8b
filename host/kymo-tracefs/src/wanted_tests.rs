// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which arguments choose which events.

use proptest::prelude::*;

use super::*;

const EVENTS: [&str; 18] = [
    "block:block_rq_issue",
    "exceptions:page_fault_kernel",
    "exceptions:page_fault_user",
    "irq:irq_handler_entry",
    "irq_vectors:local_timer_entry",
    "kmem:kmalloc",
    "kmem:mm_page_alloc",
    "kymo_77_00000000:work",
    "napi:napi_poll",
    "net:netif_rx",
    "raw_syscalls:sys_enter",
    "sched:sched_migrate_task",
    "sched:sched_switch",
    "sched:sched_waking",
    "syscalls:sys_enter_openat",
    "syscalls:sys_exit_openat",
    "task:task_newtask",
    "timer:timer_start",
];

fn events() -> Vec<EventName> {
    EVENTS.iter().map(|text| EventName::parse(text).unwrap()).collect()
}

fn choose(args: &[&str]) -> Result<Vec<Chosen>, Error> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Wanted::parse(&args)?.choose(&events())
}

fn check(args: &[&str], expect: &[&str]) {
    let chosen = choose(args).unwrap();
    let names: Vec<String> = chosen.iter().map(|chosen| chosen.event.to_string()).collect();
    assert_eq!(names, expect, "{args:?}");
}

#[test]
fn groups_systems_names_and_globs() {
    let sched = ["sched:sched_migrate_task", "sched:sched_switch", "sched:sched_waking", "task:task_newtask"];
    check(&["sched"], &sched);
    check(&["sched:*"], &sched[..3]);
    check(&["irq"], &["irq:irq_handler_entry", "irq_vectors:local_timer_entry"]);
    check(&["net"], &["napi:napi_poll", "net:netif_rx"]);
    check(&["faults"], &["exceptions:page_fault_kernel", "exceptions:page_fault_user", "kmem:mm_page_alloc"]);
    check(&["kmem"], &["kmem:kmalloc", "kmem:mm_page_alloc"]);
    check(&["sched_switch"], &["sched:sched_switch"]);
    check(&["sys_*_openat"], &["syscalls:sys_enter_openat", "syscalls:sys_exit_openat"]);
    check(&["raw_*"], &["raw_syscalls:sys_enter"]);
    check(&["timer,kmalloc", "kmalloc"], &["kmem:kmalloc", "timer:timer_start"]);
    check(&["power"], &[]);
    check(&["mark"], &[]);
    check(&[], &[]);
}

#[test]
fn all_leaves_the_probes_of_other_sessions_out() {
    let mine: Vec<&str> = EVENTS.iter().copied().filter(|name| !name.starts_with("kymo_")).collect();
    check(&["all"], &mine);
    check(&["*:*"], &mine);
    check(&["kymo_77_00000000:*"], &["kymo_77_00000000:work"]);
}

#[test]
fn filters_and_fields_are_taken_off() {
    let chosen = choose(&["sched:sched_switch[prev_prio < 50 && comm ~ \"a],[*\"]{prev_pid, next_pid},timer"]).unwrap();
    assert_eq!(chosen[0].filter.as_deref(), Some("prev_prio < 50 && comm ~ \"a],[*\""));
    assert_eq!(chosen[0].fields.as_deref().unwrap(), ["prev_pid", "next_pid"]);
    assert_eq!(chosen[1], Chosen::whole(EventName::new("timer", "timer_start")));
    let chosen = choose(&["sched_switch { prev_pid } [ CPU & CPUS{0-1} ]"]).unwrap();
    assert_eq!(chosen[0].filter.as_deref(), Some("CPU & CPUS{0-1}"));
    assert_eq!(chosen[0].fields.as_deref().unwrap(), ["prev_pid"]);
}

#[test]
fn choices_of_one_event_join() {
    let chosen = choose(&["sched:*,sched_switch[a==1]{x}", "sched_switch[b==2]{y,x}", "sched_switch[a==1]"]).unwrap();
    let switch = chosen.iter().find(|chosen| chosen.event.name == "sched_switch").unwrap();
    assert_eq!(switch.filter.as_deref(), Some("((a==1) || (b==2)) || (a==1)"));
    assert_eq!(switch.fields.as_deref().unwrap(), ["x", "y"]);
    assert_eq!(chosen.len(), 3);
}

#[test]
fn unknown_patterns_give_what_is_near() {
    let near_to = |arg: &str| match choose(&[arg]) {
        Err(Error::UnknownEvent { near, .. }) => near,
        other => panic!("{arg}: {other:?}"),
    };
    assert_eq!(near_to("sched:sched_swich"), ["sched:sched_switch", "sched:sched_waking"]);
    assert_eq!(near_to("sched_swtich")[0], "sched:sched_switch");
    assert_eq!(near_to("scheed")[0], "sched");
    assert_eq!(near_to("migrate"), ["sched:sched_migrate_task"]);
    assert_eq!(near_to("qqqqqqqqqq"), [""; 0]);
    let message = choose(&["shed_switch"]).unwrap_err().to_string();
    assert_eq!(message, "no kernel event matches \"shed_switch\"; near it: sched:sched_switch");
}

#[test]
fn the_marker_alone() {
    let parse = |arg: &str| Wanted::parse(&[arg.to_owned()]).unwrap();
    assert!(parse("mark").wants_marker_only());
    assert!(!parse("mark,sched").wants_marker_only());
    assert!(parse("mark,sched").wants_marker());
    assert!(!Wanted::parse(&[]).unwrap().wants_marker_only());
}

#[test]
fn what_cannot_be_understood_says_where() {
    let check = |arg: &str, at: usize, part: &str| match choose(&[arg]) {
        Err(Error::Selection { at: got, why, .. }) => {
            assert_eq!(got, at, "{arg}: {why}");
            assert!(why.contains(part), "{arg}: {why}");
        }
        other => panic!("{arg}: {other:?}"),
    };
    check("", 1, "missing");
    check("sched,,irq", 7, "missing");
    check("sched,", 7, "missing");
    check("a:b:c", 1, "colon");
    check(":b", 1, "colon");
    check("sched irq", 1, "comma");
    check("sched_switch[a==1", 13, "not closed");
    check("sched_switch[a==\"1]", 13, "quote");
    check("sched_switch[ ]", 13, "nothing between");
    check("sched_switch[a==1][b==1]", 19, "second filter");
    check("sched_switch{a}{b}", 16, "second list");
    check("sched_switch{a b}", 13, "names of fields");
    check("sched_switch[a==1]x", 19, "comma");
    check("mark[a==1]", 1, "marks");
    check("a/b", 2, "system:name");
}

proptest! {
    #[test]
    fn no_argument_panics(arg in "\\PC{0,40}", hard in "[a:*,{}\\[\\]\" ]{0,20}") {
        for arg in [arg, hard] {
            let _ = Wanted::parse(&[arg]).map(|wanted| wanted.choose(&events()));
        }
    }
}

#[test]
fn samples_are_no_events() {
    let parse = |arg: &str| Wanted::parse(&[arg.to_owned()]);
    let frequency = |arg: &str| parse(arg).unwrap().sample_frequency();
    assert_eq!(frequency("sched"), None);
    assert_eq!(frequency("sched,perf:cpu-clock"), Some(997));
    assert_eq!(frequency("perf:cpu-clock@99, sched:*"), Some(99));
    check(&["sched_switch,perf:cpu-clock@1"], &["sched:sched_switch"]);
    assert!(!parse("perf:cpu-clock").unwrap().is_empty());
    for (arg, part) in [
        ("perf:cpu-clock@0", "1 to 10000"),
        ("perf:cpu-clock@", "1 to 10000"),
        ("perf:cpu-clock@99999", "1 to 10000"),
        ("perf:cycles", "samples are perf:cpu-clock"),
        ("perf:cpu-clock[pid > 3]", "no filter"),
        ("sched@3", "system:name"),
    ] {
        let error = parse(arg).unwrap_err().to_string();
        assert!(error.contains(part), "{arg}: {error}");
    }
}
