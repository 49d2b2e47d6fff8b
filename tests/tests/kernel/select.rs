// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events, records and fields `-k` chooses, and what it says when it cannot.

use std::collections::BTreeSet;

use kymo_tests::{Kernel, Lab, Read, Recorded, babeltrace, trace};

use super::says;

/// A short command under `-k` with each of `patterns`.
fn record(lab: &Lab, name: &str, args: &[&str]) -> Recorded {
    let script = "for n in 1 2 3 4 5 6 7 8; do sleep 0.002; done";
    lab.record(name).args(&["--state", "none"]).args(args).run(&["sh", "-c", script])
}

fn events(read: &Read) -> BTreeSet<&str> {
    read.records.iter().map(|record| record.event.as_str()).collect()
}

/// The events that the summary says were on.
fn chosen(recorded: &Recorded) -> BTreeSet<String> {
    let list = recorded.kernel()["events"].as_array().unwrap();
    list.iter().map(|event| event.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_filter_lets_through_what_it_names() {
    let Some(kernel) = Kernel::find("filter") else { return };
    let lab = Lab::new("filter");
    // The kernel's own numbers: 120 is a thread without a policy of its own, 0 to 99 are real time.
    for (filter, low, high) in [("prev_prio < 50", 0, 49), ("prev_prio >= 120 && prev_prio < 125", 120, 124)] {
        let pattern = format!("sched:sched_switch[{filter}]");
        let name = format!("trace{low}");
        let script = "chrt -f 55 sh -c 'for n in 1 2 3 4; do sleep 0.002; done'; sleep 0.01";
        let recorded = lab
            .record(&name)
            .args(&["--names", "kernel", "--state", "none", "-k", &pattern])
            .run(&["sh", "-c", script]);
        let recorded = recorded.expect(0);
        let prios = recorded.read(&lab).numbers("sched:sched_switch", "prev_prio");
        assert!(!prios.is_empty(), "{filter}: no record");
        assert!(prios.iter().all(|prio| (low..=high).contains(prio)), "{filter}: {prios:?}");
        kernel.assert_clean(recorded.pid);
    }
}

#[test]
fn a_filter_that_the_kernel_refuses() {
    let Some(kernel) = Kernel::find("refused") else { return };
    let lab = Lab::new("refused");
    for (filter, words) in [("prev_prioo < 50", "Field not found"), ("prev_prio <", "parse_error")] {
        let recorded = record(&lab, "trace", &["-k", &format!("sched:sched_switch[{filter}]")]).expect(2);
        let said = &recorded.outcome.stderr;
        says(said, &["sched:sched_switch", filter, if words == "parse_error" { "error" } else { words }]);
        assert!(said.lines().any(|line| line.trim() == "^"), "no caret in:\n{said}");
        assert!(!recorded.dir.exists(), "a trace of nothing is left");
        kernel.assert_clean(recorded.pid);
    }
}

#[test]
fn unknown_events_have_neighbours() {
    let Some(kernel) = Kernel::find("unknown") else { return };
    let lab = Lab::new("unknown");
    for (pattern, near) in [
        ("sched:sched_swich", "sched:sched_switch"),
        ("shced:sched_switch", "sched:sched_switch"),
        ("syscals", "syscalls"),
        ("sched_wakup", "sched_wakeup"),
        ("sched:nothing_like_it_at_all", "sched"),
    ] {
        let recorded = record(&lab, "trace", &["-k", &format!("irq,{pattern}")]).expect(2);
        says(&recorded.outcome.stderr, &[pattern]);
        if pattern.contains("like_it") {
            continue;
        }
        says(&recorded.outcome.stderr, &["near it", near]);
        assert!(!recorded.dir.exists());
        kernel.assert_clean(recorded.pid);
    }
}

#[test]
fn patterns_that_make_no_sense() {
    let Some(kernel) = Kernel::find("no_sense") else { return };
    let lab = Lab::new("no_sense");
    for pattern in
        ["sched[", "sched:sched_switch[prev_prio < 50", "sched:sched_switch{", "sched:sched_switch{}", "", ",", "a:b:c"]
    {
        let recorded = record(&lab, "trace", &["-k", pattern]);
        assert_eq!(recorded.outcome.code, 2, "{pattern:?}: {}", recorded.outcome.stderr);
        assert!(!recorded.outcome.stderr.contains("panicked"), "{}", recorded.outcome.stderr);
        kernel.assert_clean(recorded.pid);
    }
}

#[test]
fn fields_that_are_named_are_the_fields() {
    let Some(kernel) = Kernel::find("fields") else { return };
    let lab = Lab::new("fields");
    let recorded = record(
        &lab,
        "trace",
        &["--only", "--names", "kernel", "-k", "sched:sched_switch{next_pid,prev_state},sched:sched_process_exit"],
    );
    let read = recorded.expect(0).read(&lab);
    let of_switch: BTreeSet<Vec<&String>> = read.of("sched:sched_switch").map(|r| r.fields.keys().collect()).collect();
    assert_eq!(format!("{of_switch:?}"), r#"{["next_pid", "prev_state"]}"#);
    let exit = read.of("sched:sched_process_exit").next().expect("the shell ends");
    assert!(exit.fields.len() >= 3, "{exit:?}");
    // With --names lttng, a field still goes by the kernel's name on the command line.
    let recorded = record(&lab, "lttng", &["--only", "-k", "sched:sched_switch{next_pid,prev_prio}"]).expect(0);
    let read = recorded.read(&lab);
    let keys: BTreeSet<Vec<&String>> = read.of("sched_switch").map(|r| r.fields.keys().collect()).collect();
    assert_eq!(format!("{keys:?}"), r#"{["next_tid", "prev_prio"]}"#);
    babeltrace::agrees(&lab, &recorded.dir, &read);
    kernel.assert_clean(recorded.pid);
}

#[test]
fn a_field_that_the_event_lacks() {
    let Some(kernel) = Kernel::find("no_field") else { return };
    let lab = Lab::new("no_field");
    let recorded = record(&lab, "trace", &["-k", "sched:sched_switch{prev_pid,nxt_pid}"]);
    says(&recorded.outcome.stderr, &["nxt_pid", "near it: next_pid"]);
    assert_eq!(recorded.outcome.code, 2, "{}", recorded.outcome.stderr);
    kernel.assert_clean(recorded.pid);
}

#[test]
fn groups_globs_and_commas() {
    let Some(kernel) = Kernel::find("groups") else { return };
    let lab = Lab::new("groups");
    let all = std::fs::read_to_string(kernel.root().join("available_events")).unwrap();
    let expect = |systems: &[&str]| -> BTreeSet<String> {
        let wanted = |event: &&str| systems.iter().any(|system| event.starts_with(&format!("{system}:")));
        all.lines().filter(wanted).map(str::to_owned).collect()
    };
    for (number, (args, systems)) in [
        (&["-k", "sched"][..], &["sched", "task"][..]),
        (&["-k", "irq"], &["irq", "irq_vectors"]),
        (&["-k", "timer,sched"], &["timer", "sched", "task"]),
        (&["-k", "timer", "-k", "sched:*"], &["timer", "sched"]),
        (&["-k", "net"], &["net", "napi", "skb", "sock"]),
        (&["-k", "power"], &["power"]),
    ]
    .into_iter()
    .enumerate()
    {
        let recorded = record(&lab, &format!("trace{number}"), args).expect(0);
        assert_eq!(chosen(&recorded), expect(systems), "{args:?}");
        kernel.assert_clean(recorded.pid);
    }
    let recorded =
        record(&lab, "glob", &["--only", "-k", "sched:sched_process_f*,sched_process_exit", "-k", "sched:*_exec"]);
    let recorded = recorded.expect(0);
    let is_it = |event: &&str| {
        event.starts_with("sched:sched_process_f")
            || *event == "sched:sched_process_exit"
            || event.starts_with("sched:") && event.ends_with("_exec")
    };
    assert_eq!(chosen(&recorded), all.lines().filter(is_it).map(str::to_owned).collect());
    let read = recorded.read(&lab);
    let seen = events(&read);
    assert!(
        ["sched_process_fork", "sched_process_exit", "sched_process_exec"].iter().all(|name| seen.contains(name)),
        "{seen:?}"
    );
    assert!(!seen.contains("sched_switch"), "{seen:?}");
}

/// Every event of this kernel at once.
#[test]
fn all_events() {
    let Some(kernel) = Kernel::find("all_events") else { return };
    let lab = Lab::new("all_events");
    let recorded = lab
        .record("trace")
        .args(&["--only", "-k", "all", "--kernel-ring", "32M"])
        .run(&["sh", "-c", "ls -l /proc/self/fd >list; sleep 0.01"])
        .expect(0);
    lab.kernel_lossless(&recorded);
    kernel.assert_clean(recorded.pid);
    let read = trace::read(&lab, &recorded.dir, &["--state"]).whole();
    assert!(events(&read).len() > 20, "{:?}", events(&read));
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

/// Only the marker file, and no event.
#[test]
fn the_group_mark() {
    let Some(kernel) = Kernel::find("group_mark") else { return };
    let lab = Lab::new("group_mark");
    let recorded = lab
        .record("trace")
        .args(&["-k", "mark", "--state", "none"])
        .run(&["sh", "-c", "echo one >$KYMO_MARK; echo two >$KYMO_MARK"])
        .expect(0);
    let read = recorded.read(&lab);
    let texts: Vec<_> =
        read.records.iter().map(|r| (r.event.as_str(), r.fields["msg"].as_str().unwrap().trim_end())).collect();
    assert_eq!(texts, [("lttng_logger", "one"), ("lttng_logger", "two")]);
    kernel.assert_clean(recorded.pid);
}
