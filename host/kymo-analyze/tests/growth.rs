// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a story costs grows with the records of its stretch, not with their square: a wait has as many pieces as its
//! CPU did things meanwhile, and 100,000 of them took two minutes once.

use crate::cases::{Functions, scene};
use crate::common::parse;

use kymo_analyze::cause::Machine;
use kymo_analyze::explain::Question;

const MS: usize = 1_000_000;

/// A thread of that priority can run from 1 ms on; meanwhile its CPU does something again and again, each 10 us.
fn wait(prio: i16, pieces: usize, piece: fn(usize, usize) -> String) -> (String, usize) {
    let mut text = format!(
        "0 0 sched_switch prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=0 next_comm=work next_pid=7 next_prio={prio}\n\
         {MS} 0 sched_switch prev_comm=work prev_pid=7 prev_prio={prio} prev_state=256 next_comm=a next_pid=5 next_prio=120\n"
    );
    (0..pieces).for_each(|number| text += &piece(number, MS + 10_000 * (number + 1)));
    let end = MS + 10_000 * (pieces + 2);
    text += &format!(
        "{end} 0 sched_switch prev_comm=a prev_pid=5 prev_prio=120 prev_state=1 next_comm=work next_pid=7 next_prio={prio}\n\
         {} 0 sched_switch prev_comm=work prev_pid=7 prev_prio={prio} prev_state=1 next_comm=swapper/0 next_pid=0 next_prio=120\n",
        end + 1000
    );
    (text, end)
}

/// From a thread of a normal class to another one and back.
fn switches(_: usize, at: usize) -> String {
    let switch = |at, (prev, prev_pid), (next, next_pid)| {
        format!(
            "{at} 0 sched_switch prev_comm={prev} prev_pid={prev_pid} prev_prio=120 prev_state=256 next_comm={next} \
             next_pid={next_pid} next_prio=120\n"
        )
    };
    switch(at, ("a", 5), ("b", 6)) + &switch(at + 5000, ("b", 6), ("a", 5))
}

/// To nobody and back.
fn idles(_: usize, at: usize) -> String {
    format!(
        "{at} 0 sched_switch prev_comm=a prev_pid=5 prev_prio=120 prev_state=1 next_comm=swapper/0 next_pid=0 next_prio=120\n\
         {} 0 sched_switch prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=0 next_comm=a next_pid=5 next_prio=120\n",
        at + 5000
    )
}

/// An interrupt of the thread that has the CPU.
fn interrupts(_: usize, at: usize) -> String {
    format!("{at} 0 local_timer_entry vector=236\n{} 0 local_timer_exit vector=236\n", at + 5000)
}

/// A lock of that thread's.
fn preemption(_: usize, at: usize) -> String {
    format!("{at} 0 preempt_disable caller_offs=1\n{} 0 preempt_enable caller_offs=1\n", at + 5000)
}

/// One of many threads takes the CPU, is woken there, and gives it back.
fn threads(number: usize, at: usize) -> String {
    let tid = 100 + number % 500;
    format!(
        "{at} 0 sched_waking comm=t pid={tid} prio=120 target_cpu=0\n\
         {} 0 sched_wakeup comm=t pid={tid} prio=120 target_cpu=0\n\
         {} 0 sched_switch prev_comm=a prev_pid=5 prev_prio=120 prev_state=256 next_comm=t next_pid={tid} next_prio=120\n\
         {} 0 sched_switch prev_comm=t prev_pid={tid} prev_prio=120 prev_state=1 next_comm=a next_pid=5 next_prio=120\n",
        at + 1000,
        at + 2000,
        at + 5000
    )
}

#[test]
fn a_story_costs_as_its_records_and_not_as_their_square() {
    let machine = Machine::of_uname("6.18.44", "#1 SMP PREEMPT_DYNAMIC");
    let seconds = |prio: i16, pieces: usize, piece: fn(usize, usize) -> String| {
        let (text, end) = wait(prio, pieces, piece);
        let trace = parse(&text);
        let mut kinds = 0;
        let least = kymo_testing::least_cpu_time(3, || {
            let scene = scene(&trace, Question::stretch(7, MS as i64, end as i64), machine);
            kinds = scene.story(&trace.classes, &trace.vocabulary, &Functions, 12).budget.len();
        });
        assert!(kinds > 0);
        least
    };
    type Piece = fn(usize, usize) -> String;
    let pieces: [(&str, Piece); 5] = [
        ("switches", switches),
        ("idles", idles),
        ("interrupts", interrupts),
        ("preemption", preemption),
        ("threads", threads),
    ];
    let mut slow = Vec::new();
    for (name, piece) in pieces {
        for prio in [19, 120] {
            let (few, many) = (seconds(prio, 4000, piece), seconds(prio, 32_000, piece));
            kymo_testing::tell(&format!("{name}, priority {prio}: {few:.4} s, {many:.4} s of 8 times the pieces"));
            // Eight times as much, or 64 times if each piece looks at all of them.
            if many > 24.0 * few.max(0.002) {
                slow.push(format!("{name}, priority {prio}: {few} s for 4000 pieces, {many} s for 32,000"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
