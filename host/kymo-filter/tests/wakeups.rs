// SPDX-License-Identifier: MIT OR Apache-2.0
//! `wakeup()`: records of the scheduler to latencies [spec/filter.md 5.1].

use crate::support;

use kymo_filter::{Event, Field, Matcher, ValueType, parse};
use support::*;

/// Waking, wakeup, switch of the kernel, with what matters of their fields.
#[derive(Clone, Copy)]
enum Sched {
    Waking(i128),
    Wakeup(i128),
    New(i128),
    /// From, its state, to.
    Switch(i128, i128, i128),
}

/// Latencies of `wakeup()` over records that are 10 ns apart, with `names` as events and fields are called.
fn wakeups(text: &str, names: [&str; 3], has_waking: bool, records: &[Sched]) -> Vec<i128> {
    let int = |name: &str| Field { name: name.to_owned(), kind: ValueType::Int { signed: true, bits: 32 } };
    let comm = Field { name: "comm".to_owned(), kind: ValueType::Text };
    let [prefix, thread, next] = names;
    let prev = next.replace("next", "prev");
    let woken =
        |name: &str| Event { name: format!("{prefix}{name}"), fields: vec![comm.clone(), int(thread), int("prio")] };
    let mut events = vec![woken("sched_wakeup"), woken("sched_wakeup_new")];
    let switch = vec![int(&prev), int("prev_state"), int(next), int("next_prio")];
    events.push(Event { name: format!("{prefix}sched_switch"), fields: switch });
    if has_waking {
        events.push(woken("sched_waking"));
    }
    let checked = parse(text).and_then(|filter| filter.check(&events)).unwrap_or_else(|error| panic!("{error}"));
    let mut matcher = Matcher::new(checked, 16);
    let mut found = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let of_thread =
            |tid: i128| vec![V::Text((if tid == 7 { "audio" } else { "other" }).to_owned()), V::Int(tid), V::Int(tid)];
        let (event, fields) = match *record {
            Sched::Wakeup(tid) => (0, of_thread(tid)),
            Sched::New(tid) => (1, of_thread(tid)),
            Sched::Switch(prev, state, next) => (2, vec![V::Int(prev), V::Int(state), V::Int(next), V::Int(next)]),
            Sched::Waking(tid) => (3, of_thread(tid)),
        };
        let record = Rec { fields, time: at as i128 * 10, ..Rec::default() };
        if matcher.matches(event, &record) {
            found.push(matcher.latency_ns().expect("a latency"));
        }
    }
    found
}

#[test]
fn wake_ups_and_what_is_none() {
    use Sched::{New, Switch, Wakeup, Waking};
    const RUNS: i128 = 0;
    const SLEEPS: i128 = 1;
    const PREEMPTED: i128 = 256;
    let lttng = ["", "tid", "next_tid"];
    let check = |records: &[Sched], expect: &[i128]| {
        assert_eq!(wakeups("wakeup() > 0", lttng, true, records), expect);
        assert_eq!(wakeups("wakeup() > 0", ["sched:", "pid", "next_pid"], true, records), expect);
    };
    // From the waking, not from the wakeup that says it again.
    check(&[Waking(7), Wakeup(7), Switch(0, RUNS, 7)], &[20]);
    check(&[New(7), Switch(0, RUNS, 7)], &[10]);
    // Preempted, and on again: no wake-up.
    check(&[Waking(7), Switch(0, RUNS, 7), Switch(7, PREEMPTED, 9), Switch(9, SLEEPS, 7)], &[10]);
    // Woken while it can run: for nothing.
    check(&[Switch(7, PREEMPTED, 9), Waking(7), Wakeup(7), Switch(9, SLEEPS, 7)], &[]);
    // Woken while it runs, and preempted later.
    check(&[Switch(0, RUNS, 7), Waking(7), Wakeup(7), Switch(7, RUNS, 9), Switch(9, SLEEPS, 7)], &[]);
    // Woken while it runs, asleep, woken again: the newer one counts.
    check(&[Switch(0, RUNS, 7), Waking(7), Switch(7, SLEEPS, 0), Waking(7), Switch(0, RUNS, 7)], &[10]);
    // Woken while it goes to sleep: it does not, or not for long.
    check(&[Switch(0, RUNS, 7), Waking(7), Switch(7, SLEEPS, 0), Wakeup(7), Switch(0, RUNS, 7)], &[30]);
    // Two threads at once; the one that ends leaves nothing.
    check(&[Waking(7), Waking(9), Switch(0, RUNS, 9), Switch(9, SLEEPS, 7)], &[10, 30]);
    check(&[Switch(0, RUNS, 7), Waking(7), Switch(7, 0x10, 0), Switch(0, RUNS, 7)], &[]);
    // The idle thread of a CPU is never woken, and never preempted.
    check(&[Switch(0, RUNS, 7), Switch(7, SLEEPS, 0)], &[]);
    // Kernels and sessions without sched_waking.
    let records = [Wakeup(7), Switch(0, RUNS, 7), Wakeup(7), Wakeup(7), Switch(0, RUNS, 7)];
    assert_eq!(wakeups("wakeup() > 0", lttng, false, &records), [10, 10]);
    // Restricted by the thread that is woken.
    let records = [Waking(7), Waking(9), Switch(0, RUNS, 9), Switch(9, SLEEPS, 7)];
    for text in [
        "wakeup(prio < 9) > 0",
        "wakeup($tid == 7) > 0",
        "wakeup($proc ~ \"aud*\") > 0",
        "wakeup(comm == \"audio\") > 0",
    ] {
        assert_eq!(wakeups(text, lttng, true, &records), [30], "{text}");
    }
    assert_eq!(wakeups("wakeup() > 0 && next_prio == 9", lttng, true, &records), [10]);
}

#[test]
fn a_loss_ends_what_is_known_of_wake_ups() {
    let events = {
        let int = |name: &str| Field { name: name.to_owned(), kind: ValueType::Int { signed: true, bits: 32 } };
        let event = |name: &str, fields| Event { name: name.to_owned(), fields };
        vec![event("sched_waking", vec![int("tid")]), event("sched_switch", vec![int("next_tid")])]
    };
    let mut matcher = Matcher::new(parse("wakeup() > 0").unwrap().check(&events).unwrap(), 16);
    let record = |time| Rec { fields: vec![V::Int(7)], time, ..Rec::default() };
    assert!(!matcher.matches(0, &record(0)) && matcher.matches(1, &record(5)));
    assert!(!matcher.matches(0, &record(10)));
    matcher.lost();
    assert!(!matcher.matches(1, &record(15)));
}
