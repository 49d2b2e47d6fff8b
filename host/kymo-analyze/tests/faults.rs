// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which sleeps are page faults [spec/analyze.md 3.2]: what rows of threads say, what the causes say of the same
//! stretch, and both again behind a checkpoint at each record.

use crate::common::{Trace, parse};

use kymo_analyze::cause::{Asked, Evidence, Machine, Moment};
use kymo_analyze::shown::{Calls, STATES};
use kymo_analyze::{Doing, Sink, State, Thread, ThreadSpan};

/// The stretches in which thread 7 is blocked.
#[derive(Clone, Default)]
struct Blocked(Vec<ThreadSpan>);

impl Sink for Blocked {
    fn thread(&mut self, span: &ThreadSpan, _: &Thread) {
        if span.tid == 7 && matches!(span.doing, Doing::Blocked { .. }) {
            self.0.push(*span);
        }
    }
}

/// Any trace here has system calls, and thread 7 runs on CPU 0 from the begin.
const BEGIN: &str = "\
1 1:9 sys_enter_getpid
2 0 sched_switch prev_pid=0 prev_state=0 next_pid=7
";
const FAULT: &str = "10 0 page_fault_user address=4096\n";
const IN_KERNEL: &str = "10 0 page_fault_kernel address=4096\n";
const SLEEPS_D: &str = "20 0 sched_switch prev_pid=7 prev_state=2 next_pid=0\n";
const SLEEPS_S: &str = "20 0 sched_switch prev_pid=7 prev_state=1 next_pid=0\n";
const WOKEN: &str = "\
30 1 sched_waking pid=7
40 0 sched_switch prev_pid=0 prev_state=0 next_pid=7
";

fn play(trace: &Trace, sink: &mut impl Sink) {
    let mut state = State::new(&trace.vocabulary);
    trace.play(&mut state, 0..trace.items.len(), sink);
    state.finish(Some(1000), sink);
}

/// Sleeps of thread 7, each as its state and the system call, as rows have them.
#[track_caller]
fn check(parts: &[&str], expect: &[&str]) {
    let text = parts.concat();
    let trace = parse(&text);
    let mut blocked = Blocked::default();
    play(&trace, &mut blocked);
    let calls = Calls::new(&trace.vocabulary);
    let shown = |span: &ThreadSpan| {
        let Doing::Blocked { call, .. } = span.doing else { unreachable!() };
        let call = call.map_or(String::new(), |call| format!(" {}", trace.vocabulary.call_name(call)));
        format!("{}{call}", STATES[usize::from(calls.state(&span.doing))])
    };
    let found: Vec<String> = blocked.0.iter().map(shown).collect();
    assert_eq!(found, expect, "{text}");
    for (span, expect) in blocked.0.iter().zip(expect) {
        let mut evidence = Evidence::new(span.from, span.to, 1000, Machine::default());
        play(&trace, &mut evidence);
        let moment = Moment { tid: 7, cpu: Some(0), from: span.from, to: span.to, asked: Asked::Stretch };
        let words: Vec<&str> = evidence.segments(&moment).iter().map(|segment| segment.cause.word()).collect();
        let is_fault = words.contains(&"page_fault");
        assert_eq!(is_fault, expect.starts_with("page_fault"), "{words:?} of {span:?}\n{text}");
    }
    for cut in 0..trace.items.len() {
        let (mut state, mut again) = (State::new(&trace.vocabulary), Blocked::default());
        trace.play(&mut state, 0..cut, &mut again);
        let mut state = State::decode(&state.encode(), &trace.vocabulary).expect("a state");
        trace.play(&mut state, cut..trace.items.len(), &mut again);
        state.finish(Some(1000), &mut again);
        assert_eq!(again.0, blocked.0, "behind a checkpoint at {cut}\n{text}");
    }
}

#[test]
fn who_sleeps_behind_its_fault_sleeps_in_it() {
    check(&[BEGIN, FAULT, SLEEPS_D, WOKEN], &["page_fault"]);
    check(&[BEGIN, SLEEPS_D, WOKEN], &["uninterruptible"]);
    // LTTng's name of the same event, and a trace that ends in the sleep.
    check(&[BEGIN, "10 0 x86_exceptions_page_fault_user address=4096\n", SLEEPS_D], &["page_fault"]);
}

#[test]
fn a_fault_is_over_when_the_thread_begins_or_ends_a_call() {
    let enters = "11 0 sys_enter_fsync fd=3\n";
    check(&[BEGIN, FAULT, enters, SLEEPS_D, WOKEN], &["uninterruptible fsync"]);
    let returns = "12 0 sys_exit_fsync ret=0\n";
    check(&[BEGIN, "9 0 sys_enter_fsync fd=3\n", IN_KERNEL, returns, SLEEPS_D, WOKEN], &["uninterruptible"]);
    // A fault behind the call counts again; so does one behind a call whose return is missing.
    let again = "13 0 page_fault_user address=8192\n";
    check(&[BEGIN, FAULT, enters, returns, again, SLEEPS_D, WOKEN], &["page_fault"]);
    check(&[BEGIN, FAULT, enters, again, SLEEPS_D, WOKEN], &["page_fault"]);
}

#[test]
fn a_fault_inside_of_a_call_keeps_the_call() {
    let enters = "9 0 sys_enter_write fd=3\n";
    check(&[BEGIN, enters, IN_KERNEL, SLEEPS_D, WOKEN], &["page_fault write"]);
    // It went on, and waits for somebody in its call.
    check(&[BEGIN, enters, IN_KERNEL, SLEEPS_S, WOKEN], &["waiting write"]);
    let locks = "9 0 sys_enter_futex uaddr=4096 op=0\n";
    check(&[BEGIN, locks, IN_KERNEL, SLEEPS_S, WOKEN], &["lock futex"]);
    // It fills new memory from a file, and waits for the disk between.
    for name in ["read", "pread64", "readv", "preadv", "preadv2"] {
        let reads = format!("9 0 sys_enter_{name} fd=3\n");
        check(&[BEGIN, &reads, IN_KERNEL, SLEEPS_D, WOKEN], &[&format!("uninterruptible {name}")]);
    }
    let by_number = "machine x86_64\n9 0 sys_enter id=0 args=[3|4]\n";
    check(&[BEGIN, by_number, IN_KERNEL, SLEEPS_D, WOKEN], &["uninterruptible read"]);
    // In which call is not known: it may be one of these.
    check(&[BEGIN, IN_KERNEL, SLEEPS_D, WOKEN], &["uninterruptible"]);
}

#[test]
fn a_fault_is_known_up_to_the_first_time_that_the_thread_leaves_its_cpu() {
    let sleeps = |time: u32, state: u32| format!("{time} 0 sched_switch prev_pid=7 prev_state={state} next_pid=0\n");
    check(&[BEGIN, FAULT, SLEEPS_D, WOKEN, &sleeps(50, 2)], &["page_fault", "uninterruptible"]);
    // Preempted: it may have gone on in user space behind that.
    let back = "30 0 sched_switch prev_pid=0 prev_state=0 next_pid=7\n";
    check(&[BEGIN, FAULT, &sleeps(20, 256), back, &sleeps(50, 2)], &["uninterruptible"]);
    // Woken before it had left.
    let waking = "15 1 sched_waking pid=7\n16 1 sched_wakeup pid=7\n";
    check(&[BEGIN, FAULT, waking, SLEEPS_D, WOKEN], &["page_fault"]);
}

#[test]
fn stopped_threads_and_other_sleeps_are_no_faults() {
    check(&[BEGIN, FAULT, SLEEPS_S, WOKEN], &["waiting"]);
    for (state, expect) in [(4, "stopped"), (8, "stopped"), (0x80, "sleeping")] {
        let sleeps = format!("20 0 sched_switch prev_pid=7 prev_state={state} next_pid=0\n");
        check(&[BEGIN, FAULT, &sleeps, WOKEN], &[expect]);
    }
}

#[test]
fn a_fault_of_another_thread_or_of_an_interrupt_is_none() {
    let other_cpu = "10 1 page_fault_user address=4096\n";
    check(&[BEGIN, other_cpu, SLEEPS_D, WOKEN], &["uninterruptible"]);
    // The thread before it on its CPU.
    let before = "1 1:9 sys_enter_getpid\n1 0:8 page_fault_user address=4096\n";
    let switch = "5 0 sched_switch prev_pid=8 prev_state=0 next_pid=7\n";
    check(&[before, switch, SLEEPS_D, WOKEN], &["uninterruptible"]);
    // A record that names its thread.
    check(&[BEGIN, "10 1:8 page_fault_user address=4096\n", SLEEPS_D, WOKEN], &["uninterruptible"]);
    let enters = "9 0 sys_enter_write fd=3\n";
    let interrupt = "10 0 irq_handler_entry irq=9\n11 0 page_fault_kernel address=4096\n12 0 irq_handler_exit irq=9\n";
    check(&[BEGIN, enters, interrupt, SLEEPS_D, WOKEN], &["uninterruptible write"]);
}

#[test]
fn behind_lost_records_and_without_system_calls_nothing_is_claimed() {
    check(&[BEGIN, FAULT, "lost 0 11 12\n", SLEEPS_D, WOKEN], &["uninterruptible"]);
    check(&[BEGIN, FAULT, "lost ? 11 12\n", SLEEPS_D, WOKEN], &["uninterruptible"]);
    // Those of another CPU are not of a thread that runs here.
    check(&[BEGIN, FAULT, "lost 1 11 12\n", SLEEPS_D, WOKEN], &["page_fault"]);
    let begin = "2 0 sched_switch prev_pid=0 prev_state=0 next_pid=7\n";
    check(&[begin, FAULT, SLEEPS_D, WOKEN], &["uninterruptible"]);
}
