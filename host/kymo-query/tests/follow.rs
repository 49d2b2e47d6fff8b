// SPDX-License-Identifier: MIT OR Apache-2.0
//! A state that is moved without a look at records, on two threads, is told the same as one that is shown each record.

use std::cell::Cell;

use kymo_analyze::{CallSpan, CpuSpan, Event, Head, InterruptSpan, Sink, State, Thread, ThreadSpan, Threads};
use kymo_ctf::read::{Loss, Reader, Trace};
use kymo_feed::{Choose, Classes, LossAt, Seen, Visit, Walker};

use crate::random_trace::{Plan, write};

/// All that is told, and records of some classes, and of a stretch of time.
#[derive(Default)]
struct Told(Vec<String>, Vec<bool>, Option<(i64, i64)>);

impl Visit for Told {
    fn looks_at(&self, class: usize) -> bool {
        self.1.get(class) == Some(&true)
    }

    fn looks_within(&self) -> Vec<(i64, i64)> {
        self.2.into_iter().collect()
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        let is_within = self.2.is_some_and(|(from, to)| (from..=to).contains(&seen.head.time));
        if is_within || self.looks_at(seen.class) {
            let Seen { record, class, head, is_selected } = seen;
            let (bits, fields, vtid) = (record.bits, &record.payload, record.vtid);
            let running = state.cpu(0).map(|cpu| cpu.current);
            self.0.push(format!("{class} {head:?} {is_selected} {bits} {fields:?} {vtid:?} {running:?}"));
        }
    }

    fn loss(&mut self, loss: &LossAt) {
        self.0.push(format!("{loss:?}"));
    }
}

impl Sink for Told {
    fn event(&mut self, head: &Head, event: &Event, _: &State) {
        self.0.push(format!("{head:?} {event:?}"));
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.0.push(format!("{span:?} {:?}", thread.name));
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.0.push(format!("{span:?}"));
    }

    fn interrupt(&mut self, span: &InterruptSpan, _: Threads<'_>) {
        self.0.push(format!("{span:?}"));
    }

    fn call(&mut self, span: &CallSpan, _: &Thread) {
        self.0.push(format!("{span:?}"));
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.0.push(format!("lost {cpu:?} {from} {to}"));
    }
}

/// Losses, as they come.
#[derive(Default)]
struct Losses(Vec<LossAt>);

impl Choose for Losses {
    fn lost(&mut self, loss: &Loss<'_>) {
        self.0.push(LossAt::of(loss));
    }
}

/// Events whose records are looked at.
const LOOKED_AT: [&[&str]; 3] = [&["motor:step", "sched_waking"], &[], &["sched_switch", "other_event"]];

fn trace(records: u64) -> Trace {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &Plan { records, user: records, lossy: 4, ..Plan::default() }).unwrap();
    Trace::open(dir.path()).unwrap().value
}

#[test]
fn who_follows_is_told_what_who_looks_is_told() {
    for (records, names) in [0, 5, 3000, 6826, 6827, 30_000, 30_001].into_iter().zip(LOOKED_AT.iter().cycle()) {
        let traces = [trace(records)];
        let classes = Classes::new(&traces);
        let looked: Vec<bool> = classes.list.iter().map(|class| names.contains(&&*class.name)).collect();
        let (mut bounds, mut walker) = (Walker::new(&classes), Walker::new(&classes));
        bounds.go(&mut Reader::new(&traces), &mut (), &mut ());
        let within = bounds.totals.span.map(|(first, last)| (first + (last - first) / 3, last - (last - first) / 3));
        let told = || Told(Vec::new(), looked.clone(), within);
        let (mut told, mut followed) = (told(), told());
        let mut losses = Losses::default();
        walker.go(&mut Reader::new(&traces), &mut losses, &mut told);

        let (mut lost, mut follower) = (Vec::new(), Walker::new(&classes));
        let mut lose = |loss: &LossAt| lost.push(*loss);
        assert!(follower.follow_while(&mut Reader::new(&traces), &mut lose, &mut followed, &|| true));

        assert_eq!(told.0.len(), followed.0.len(), "{records}");
        for (at, (a, b)) in told.0.iter().zip(&followed.0).enumerate() {
            assert_eq!(a, b, "{records}: {at}");
        }
        assert_eq!((losses.0, walker.state.encode()), (lost, follower.state.encode()), "{records}");
        assert_eq!((walker.totals, walker.totals), (follower.totals, bounds.totals), "{records}");
    }
}

#[test]
fn who_follows_ends_when_nobody_waits() {
    let traces = [trace(30_000)];
    let classes = Classes::new(&traces);
    let asked_until = |most: u32| {
        let asked = Cell::new(0);
        let goes_on = || asked.replace(asked.get() + 1) < most;
        let (mut told, mut walker) = (Told::default(), Walker::new(&classes));
        let is_whole = walker.follow_while(&mut Reader::new(&traces), &mut |_| (), &mut told, &goes_on);
        (is_whole, told.0.len())
    };
    let (is_whole, all) = asked_until(u32::MAX);
    assert!(is_whole);
    // Before the other thread begins, and beside it.
    for most in [0, 1, 4, 5, 6, 9] {
        let (is_whole, told) = asked_until(most);
        assert!(!is_whole && told < all, "{most}: {told} of {all}");
    }
}

/// Who has enough after so many records.
struct Few(Told, usize);

impl Sink for Few {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.0.event(head, event, state);
    }
}

impl Visit for Few {
    fn looks_at(&self, _: usize) -> bool {
        false
    }

    fn is_enough(&self) -> bool {
        self.0.0.len() >= self.1
    }
}

#[test]
fn who_has_enough_is_told_no_more() {
    let traces = [trace(30_000)];
    let classes = Classes::new(&traces);
    // Before the other thread begins, and beside it.
    for most in [1, 10_000, 35_000, usize::MAX] {
        let (mut told, mut followed) = (Few(Told::default(), most), Few(Told::default(), most));
        let mut walker = Walker::new(&classes);
        assert!(walker.go_while(&mut Reader::new(&traces), &mut (), &mut told, &|| true));
        let mut follower = Walker::new(&classes);
        assert!(follower.follow_while(&mut Reader::new(&traces), &mut |_| (), &mut followed, &|| true));
        for seen in [told.0.0.len(), followed.0.0.len()] {
            assert!(most == usize::MAX || seen >= most && seen < most + 10_000, "{seen} of {most}");
        }
    }
}
