// SPDX-License-Identifier: MIT OR Apache-2.0
//! What ends in a stretch of a trace is the same whether its records are all that is read, behind a checkpoint, or not
//! [spec/index.md 6]: timers that were started before, and threads that they woke before.

use crate::common;

use common::{Item, Trace, parse};
use kymo_analyze::{Latency, Options, Sample, State, What};

/// The timer is due at 1 ms of the trace; its interrupt comes at 13.7 ms, and rt[7] runs at 14.42 ms.
const LATE: &str = "\
100000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=rt next_tid=7 next_prio=-81
200000 0 timer_hrtimer_start hrtimer=0xffff888000000010 expires=501000000 softexpires=501000000
210000 0 sched_switch prev_comm=rt prev_tid=7 prev_prio=-81 prev_state=1 next_comm=busy next_tid=5 next_prio=20
13699500 0 local_timer_entry vector=236
13700000 0 timer_hrtimer_expire_entry hrtimer=0xffff888000000010 now=513700000 function=0xffffffff81001000
13700500 0 sched_waking comm=rt tid=7 prio=-81 target_cpu=0
13701000 0 timer_hrtimer_expire_exit hrtimer=0xffff888000000010
13702000 0 local_timer_exit vector=236
14420000 0 sched_switch prev_comm=busy prev_tid=5 prev_prio=20 prev_state=256 next_comm=rt next_tid=7 next_prio=-81
";

/// Samples of the records from one position on, by a state that has seen those before.
fn samples(trace: &Trace, first: usize) -> Vec<Sample> {
    let mut state = State::new(&trace.vocabulary);
    trace.play(&mut state, 0..first, &mut ());
    let checkpoint = state.encode();
    let mut state = State::decode(&checkpoint, &trace.vocabulary).expect("a state is taken back");
    let what = vec![What::Timer, What::Wakeup];
    let mut latency = Latency::new(Options { what, ..Options::default() });
    trace.play(&mut state, first..trace.items.len(), &mut latency);
    latency.series().iter().flat_map(|(_, series)| series.worst.clone()).collect()
}

/// Two timers are due, one that nobody saw start and one at 1 ms. The interrupt reads its clock at 1.01 ms and calls
/// the first one, for 34 us, then the other one. A third one is called by an interrupt that reads its clock anew.
const BEHIND_ANOTHER: &str = "\
100000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=rt next_tid=7 next_prio=-81
200000 0 timer_hrtimer_start hrtimer=0xffff888000000010 expires=501000000 softexpires=501000000
200100 0 timer_hrtimer_start hrtimer=0xffff888000000020 expires=502000000 softexpires=502000000
210000 0 sched_switch prev_comm=rt prev_tid=7 prev_prio=-81 prev_state=1 next_comm=busy next_tid=5 next_prio=20
1010000 0 timer_hrtimer_expire_entry hrtimer=0xffff888000000030 now=501010000 function=0xffffffff81002000
1044000 0 timer_hrtimer_expire_exit hrtimer=0xffff888000000030
1044500 0 timer_hrtimer_expire_entry hrtimer=0xffff888000000010 now=501010000 function=0xffffffff81001000
1045000 0 sched_waking comm=rt tid=7 prio=-81 target_cpu=0
1045500 0 timer_hrtimer_expire_exit hrtimer=0xffff888000000010
1050000 0 sched_switch prev_comm=busy prev_tid=5 prev_prio=20 prev_state=256 next_comm=rt next_tid=7 next_prio=-81
1060000 0 sched_switch prev_comm=rt prev_tid=7 prev_prio=-81 prev_state=1 next_comm=busy next_tid=5 next_prio=20
2005000 0 timer_hrtimer_expire_entry hrtimer=0xffff888000000020 now=502005000 function=0xffffffff81001000
2005500 0 sched_waking comm=rt tid=7 prio=-81 target_cpu=0
2006000 0 timer_hrtimer_expire_exit hrtimer=0xffff888000000020
2010000 0 sched_switch prev_comm=busy prev_tid=5 prev_prio=20 prev_state=256 next_comm=rt next_tid=7 next_prio=-81
";

#[test]
fn what_ends_in_a_stretch_is_the_same_behind_a_checkpoint() {
    let trace = parse(LATE);
    check(&trace, &[(14_420_000, 13_420_000), (13_700_000, 12_700_000)]);
}

#[test]
fn a_timer_that_is_called_behind_another_one_was_due_when_both_say() {
    let trace = parse(BEHIND_ANOTHER);
    check(&trace, &[(1_050_000, 50_000), (2_010_000, 10_000), (1_044_500, 10_000), (2_005_000, 5000)]);
}

/// Times and lengths of all samples, which are from when a timer was due, and the same behind a checkpoint anywhere.
#[track_caller]
fn check(trace: &Trace, expect: &[(i64, u64)]) {
    let whole = samples(trace, 0);
    let late: Vec<(i64, u64)> = whole.iter().map(|sample| (sample.to, sample.value_ns)).collect();
    assert_eq!(late, expect, "from when the timer was due");
    for first in 1..trace.items.len() {
        let Item::Record(line) = &trace.items[first] else { panic!("records only") };
        let expect: Vec<Sample> = whole.iter().filter(|sample| sample.to >= line.head.time).copied().collect();
        assert_eq!(samples(trace, first), expect, "from record {first} on");
    }
}
