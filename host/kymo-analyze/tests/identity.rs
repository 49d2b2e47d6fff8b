// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which process a thread is of, and what it is called, after some records [spec/analyze.md 3.1].

use crate::common::parse;

use kymo_analyze::State;

/// All events that tell of threads: so the trace has their classes.
const CLASSES: &str = "\
1 0:90 task_newtask pid=91 comm=x clone_flags=17
1 0:90 task_rename pid=92 oldcomm=x newcomm=y
";

/// Number, process and name of a thread after the records; `-`: not known.
#[track_caller]
fn check(records: &str, tid: i32, expect: &str) {
    let trace = parse(records);
    let mut state = State::new(&trace.vocabulary);
    trace.play(&mut state, 0..trace.items.len(), &mut ());
    let who = state.thread(tid).map(|thread| thread.identity()).unwrap_or_default();
    let process = who.process.map_or("-".to_owned(), |process| process.to_string());
    let name = if who.name.is_empty() { "-" } else { who.name.as_str() };
    assert_eq!(format!("{process} {name}"), expect, "{records}");
}

fn switch(time: u32, prev: (i32, &str), state: i32, next: (i32, &str)) -> String {
    format!(
        "{time} 0 sched_switch prev_comm={} prev_pid={} prev_state={state} next_comm={} next_pid={}\n",
        prev.1, prev.0, next.1, next.0
    )
}

#[test]
fn a_name_that_nothing_explains_makes_the_process_unknown() {
    let dump = "2 0 lttng_statedump_process_state tid=10 pid=9 name=bash\n";
    let same = switch(3, (0, "idle"), 0, (10, "bash"));
    check(&format!("{CLASSES}{dump}{same}"), 10, "9 bash");
    let other = switch(3, (0, "idle"), 0, (10, "cc1"));
    check(&format!("{CLASSES}{dump}{other}"), 10, "- cc1");
    let leaves = switch(3, (10, "cc1"), 1, (0, "idle"));
    check(&format!("{CLASSES}{dump}{leaves}"), 10, "- cc1");
    let woken = "3 0 sched_waking comm=cc1 pid=10\n";
    check(&format!("{CLASSES}{dump}{woken}"), 10, "- cc1");
    let renamed = "3 0:10 task_rename pid=10 oldcomm=bash newcomm=cc1\n";
    check(&format!("{CLASSES}{dump}{renamed}{}", switch(4, (0, "idle"), 0, (10, "cc1"))), 10, "9 cc1");
}

#[test]
fn where_new_names_are_not_recorded_and_nothing_was_lost_a_thread_may_have_one() {
    let creations = "1 0:90 task_newtask pid=91 comm=x clone_flags=17\n";
    let dump = "2 0 lttng_statedump_process_state tid=10 pid=9 name=bash\n";
    let other = switch(3, (0, "idle"), 0, (10, "cc1"));
    check(&format!("{creations}{dump}{other}"), 10, "9 cc1");
    check(&format!("{dump}{other}"), 10, "- cc1");
    check(&format!("{creations}{dump}lost 1 2 3\n{other}"), 10, "- cc1");
}

#[test]
fn who_runs_another_program_is_the_only_thread_of_its_process() {
    let dump = "2 0 lttng_statedump_process_state tid=20 pid=20 name=main\n\
                2 0 lttng_statedump_process_state tid=21 pid=20 name=side\n";
    let runs = switch(3, (0, "idle"), 0, (21, "side"));
    let exec = |path: &str, old: i32| format!("4 0:20 sched_process_exec filename={path} pid=20 old_pid={old}\n");
    let of_side = format!("{dump}{runs}{}", exec("/opt/a-very-long-program-name", 21));
    check(&of_side, 20, "20 a-very-long-pro");
    check(&of_side, 21, "- -");
    // Also where who ran it is not known, and the process was not, or another.
    check(&format!("{dump}{}", exec("/bin/ls", 21)), 21, "- -");
    check(&exec("/bin/ls", 20), 20, "20 ls");
    let other = "2 0 lttng_statedump_process_state tid=20 pid=7 name=main\n";
    check(&format!("{other}{}", exec("/bin/ls", 20)), 20, "20 ls");
    // A file without a path has a name that only the kernel knows.
    check(&format!("{dump}{}", exec("/dev/fd/5", 20)), 20, "20 -");
    let named = switch(5, (20, "script"), 1, (0, "idle"));
    check(&format!("{dump}{}{named}", exec("/dev/fd/5", 20)), 20, "20 script");
}

#[test]
fn who_has_ended_is_nobody() {
    let dump = "2 0 lttng_statedump_process_state tid=10 pid=9 name=bash\n";
    let ends = switch(4, (10, "bash"), 16, (0, "idle"));
    let runs = format!("{CLASSES}{dump}{}", switch(3, (0, "idle"), 0, (10, "bash")));
    check(&format!("{runs}{ends}"), 10, "- -");
    // Its number is another's, also of the same name.
    let again = switch(5, (0, "idle"), 0, (10, "bash"));
    check(&format!("{runs}{ends}{again}"), 10, "- bash");
    check(
        &format!("{runs}{}4 0 sched_process_free comm=bash pid=10\n", switch(4, (10, "bash"), 1, (0, "idle"))),
        10,
        "- -",
    );
}

#[test]
fn creation_says_what_fork_does_not() {
    let dump = "2 0 lttng_statedump_process_state tid=9 pid=9 name=motor\n";
    let created = format!(
        "{dump}{}4 0:9 task_newtask pid=11 comm=motor clone_flags=65536\n",
        switch(3, (0, "idle"), 0, (9, "motor"))
    );
    let fork = |time: i32| format!("{time} 0:9 sched_process_fork parent_pid=9 child_pid=11 child_comm=motor\n");
    check(&format!("{created}{}", fork(5)), 11, "9 motor");
    // The same number again, of a thread whose creation is not in the trace.
    check(&format!("{created}{}{}", fork(5), fork(6)), 11, "- motor");
}

#[test]
fn a_rename_without_a_thread_is_that_of_its_writer_if_the_old_name_fits() {
    let dump = "2 0 lttng_statedump_process_state tid=10 pid=9 name=old\n";
    check(&format!("{dump}3 0:10 task_rename oldcomm=other newcomm=new\n"), 10, "9 old");
    check(&format!("{dump}3 0:10 task_rename oldcomm=old newcomm=new\n"), 10, "9 new");
    check(
        &format!("{dump}{}4 0 task_rename oldcomm=old newcomm=new\n", switch(3, (0, "idle"), 0, (10, "old"))),
        10,
        "9 new",
    );
}

#[test]
fn what_events_have_told_wins_over_a_dump() {
    let runs = switch(1, (0, "idle"), 0, (10, "cc1"));
    let dump = |name: &str| format!("2 0 lttng_statedump_process_state tid=10 pid=9 name={name}\n");
    check(&format!("{runs}{}", dump("cc1")), 10, "9 cc1");
    check(&format!("{runs}{}", dump("bash")), 10, "- cc1");
    // A dump looks a moment before it is written; a thread that is new since then would be told of.
    check(&format!("{CLASSES}{runs}{}", dump("bash")), 10, "9 cc1");
}
