// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of spans that no trace gives: `State` ends a wait and the other context of its CPU with one record. Whoever
//! hands spans to [`Evidence`] from elsewhere may have time between the two.

use kymo_analyze::cause::{Asked, Cause, Evidence, Ground, Limit, Machine, Moment};
use kymo_analyze::{Act, Context, CpuSpan, Doing, Doubt, Ready, Sink, Thread, ThreadSpan, Until, Waker};

const WAKER: Waker = Waker { cpu: 1, context: Context::Idle };

fn span(tid: i32, from: i64, to: i64, doing: Doing, until: Until) -> ThreadSpan {
    ThreadSpan { tid, from, to, doing, ready_from: from, until, doubt: Doubt::NONE }
}

fn of_prio(tid: i32, prio: i16) -> Thread {
    let mut thread = Thread::unknown(tid, 0);
    thread.prio = Some(prio);
    thread
}

fn on_cpu(from: i64, to: i64, context: Context) -> CpuSpan {
    CpuSpan { cpu: 0, from, to, context, current: context, doubt: Doubt::NONE }
}

/// The causes of [0, 100_000) of thread 7, each with its time.
fn causes(asked: Asked, threads: &[ThreadSpan], cpus: &[CpuSpan]) -> Vec<(Cause, Ground, u64)> {
    let mut evidence = Evidence::new(0, 100_000, 100, Machine::default());
    for span in threads {
        evidence.thread(span, &Thread::unknown(span.tid, 0));
    }
    cpus.iter().for_each(|span| evidence.cpu(span));
    let moment = Moment { tid: 7, cpu: Some(0), from: 0, to: 100_000, asked };
    evidence.segments(&moment).iter().map(|segment| (segment.cause, segment.ground, segment.ns())).collect()
}

#[test]
fn a_cpu_that_has_the_thread_already_is_switching_to_it() {
    let waits = Doing::Runnable { why: Ready::Woken(WAKER), cpu: Some(0) };
    let threads = [
        span(7, 0, 60_000, waits, Until::Runs { cpu: 0 }),
        span(7, 60_000, 100_000, Doing::Running { cpu: 0 }, Until::Next),
    ];
    let cpus = [on_cpu(0, 50_000, Context::Idle), on_cpu(50_000, 100_000, Context::Thread(7))];
    let expect = [
        (Cause::IdleExit, Ground::Seen, 50_000),
        (Cause::Switching, Ground::Seen, 10_000),
        (Cause::Own, Ground::Seen, 40_000),
    ];
    assert_eq!(causes(Asked::Stretch, &threads, &cpus), expect);
}

#[test]
fn who_has_the_cpu_is_inferred_to_outrank_where_no_priority_is_known() {
    let waits = Doing::Runnable { why: Ready::Woken(WAKER), cpu: Some(0) };
    let threads = [span(7, 0, 100_000, waits, Until::Runs { cpu: 0 })];
    let cpus = [on_cpu(0, 100_000, Context::Thread(5))];
    let expect = [(Cause::Thread { by: 5 }, Ground::Inferred, 100_000)];
    assert_eq!(causes(Asked::Stretch, &threads, &cpus), expect);
}

#[test]
fn a_timer_that_is_due_while_its_thread_still_leaves_the_cpu_is_kept_by_nobody() {
    let sleeps = Doing::Blocked { state: b'S', call: None, in_fault: false };
    let threads = [span(7, 0, 100_000, sleeps, Until::Woken(WAKER))];
    let cpus = [on_cpu(0, 30_000, Context::Thread(7)), on_cpu(30_000, 100_000, Context::Thread(5))];
    let expect = [(Cause::Switching, Ground::Seen, 30_000), (Cause::IrqsOff { by: 5 }, Ground::Inferred, 70_000)];
    assert_eq!(causes(Asked::Timer, &threads, &cpus), expect);
}

#[test]
fn the_fair_server_came_with_linux_6_12() {
    let limits = [None, Some((6, 11)), Some((6, 12)), Some((7, 0))].map(|kernel| {
        let mut evidence = Evidence::new(0, 100_000, 100, Machine { kernel, ..Machine::default() });
        // 7 was preempted by 5, which is of a normal class.
        let waits = Doing::Runnable { why: Ready::Preempted { by: 5 }, cpu: Some(0) };
        let own = of_prio(7, 19);
        evidence.thread(&span(7, 0, 100_000, waits, Until::Runs { cpu: 0 }), &own);
        let runs = Doing::Running { cpu: 0 };
        let other = of_prio(5, 120);
        evidence.thread(&span(5, 0, 100_000, runs, Until::Next), &other);
        evidence.cpu(&on_cpu(0, 100_000, Context::Thread(5)));
        let moment = Moment { tid: 7, cpu: Some(0), from: 0, to: 100_000, asked: Asked::Stretch };
        evidence.segments(&moment).iter().map(|segment| (segment.cause, segment.ground)).collect::<Vec<_>>()
    });
    let by = |limit| vec![(Cause::Throttled { by: Some(5), limit }, Ground::Seen)];
    let expect = [Limit::FairServer, Limit::RealTime, Limit::FairServer, Limit::FairServer].map(by);
    assert_eq!(limits, expect);
}

#[test]
fn what_uname_says_of_a_machine() {
    let machine = Machine::of_uname("6.12.3-rt1-amd64", "#1 SMP PREEMPT_RT Debian 6.12.3-1");
    let expect = Machine { is_guest: false, kernel: Some((6, 12)), is_preempt_rt: true, quota_timer: None };
    assert_eq!(machine, expect);
    assert_eq!(Machine::of_uname("", "PREEMPT RT"), Machine { kernel: None, ..expect });
    assert_eq!(Machine::of_uname("6", "PREEMPT"), Machine::default());
}

/// Threads 0 to `count`: each sleeps until the next one wakes it at 100,000, the last one runs.
fn chain(count: i32) -> Evidence {
    let mut evidence = Evidence::new(0, 100_000, 10_000, Machine::default());
    for tid in 1..=count {
        let waker = Waker { cpu: 0, context: Context::Thread(tid + 1) };
        let sleeps = Doing::Blocked { state: b'S', call: None, in_fault: false };
        evidence.thread(&span(tid, 0, 100_000, sleeps, Until::Woken(waker)), &of_prio(tid, 120));
    }
    evidence.thread(&span(count + 1, 0, 100_000, Doing::Running { cpu: 0 }, Until::Next), &of_prio(count + 1, 120));
    evidence
}

#[test]
fn a_chain_that_is_too_deep_is_marked_as_cut() {
    let moment = Moment { tid: 1, cpu: None, from: 0, to: 100_000, asked: Asked::Stretch };
    let of = |count| {
        let evidence = chain(count);
        let path = evidence.history().critical(1, 0, 100_000);
        let [step] = path.steps[..] else { panic!("{path:?}") };
        let parts = evidence.explain(&moment).parts;
        (step, (parts[0].cause, parts[0].ns, parts[0].doubt.has(Doubt::CUT)))
    };
    let (step, cause) = of(63);
    assert_eq!((step.tid, step.act, step.doubt), (64, Act::Runs { cpu: 0 }, Doubt::NONE));
    assert_eq!(cause, (Cause::Waker { tid: 64 }, 100_000, false));
    // What the 64th of them waits for is not followed: it is no more than the last that is known.
    let (step, cause) = of(64);
    assert_eq!((step.tid, step.doubt), (64, Doubt::CUT));
    assert_eq!(cause, (Cause::WakerSleeps { tid: 64, call: None }, 100_000, true));
}

#[test]
fn a_path_of_too_many_steps_is_marked_as_cut() {
    const STEPS: i64 = 100_000;
    let mut evidence = Evidence::new(0, 2 * STEPS + 2, 1 << 20, Machine::default());
    let waker = Waker { cpu: 0, context: Context::Thread(2) };
    evidence.thread(
        &span(1, 0, 2 * STEPS + 2, Doing::Blocked { state: b'S', call: None, in_fault: false }, Until::Woken(waker)),
        &of_prio(1, 120),
    );
    // It runs and is preempted by turns.
    let mut at = 0;
    while at < 2 * STEPS + 2 {
        let waits = Doing::Runnable { why: Ready::Preempted { by: 3 }, cpu: Some(0) };
        evidence.thread(&span(2, at, at + 1, Doing::Running { cpu: 0 }, Until::Next), &of_prio(2, 120));
        evidence.thread(&span(2, at + 1, at + 2, waits, Until::Runs { cpu: 0 }), &of_prio(2, 120));
        at += 2;
    }
    let path = evidence.history().critical(1, 0, 2 * STEPS + 2);
    assert!(path.is_cut);
    assert_eq!((path.steps[0].act, path.steps[0].doubt), (Act::Unknown, Doubt::CUT));
    let moment = Moment { tid: 1, cpu: None, from: 0, to: 2 * STEPS + 2, asked: Asked::Stretch };
    let parts = evidence.explain(&moment).parts;
    let rest = parts.iter().find(|part| part.cause == Cause::Remainder).expect("the rest is not known");
    assert!(rest.doubt.has(Doubt::CUT) && rest.ns >= STEPS as u64, "{parts:?}");
    assert!(!parts.iter().any(|part| matches!(part.cause, Cause::Blocked { .. })), "{parts:?}");
}
