// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups, as arrows from who wakes to where the woken thread runs [spec/view.md 4.8].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kymo_analyze::{Doing, Doubt, Ready, Sink, Thread, ThreadSpan, Until, Waker};
use kymo_feed::Visit;

use super::begun::{begin, doubt_bits};
use crate::columns::{Answer, Table};
use crate::doing::{self, By};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::people::People;
use crate::walk::{Gather, Stop, Walk};

/// A wake-up.
#[derive(Clone, Copy, Debug)]
struct Arrow {
    at: i64,
    to: i64,
    waker: Waker,
    tid: i32,
    /// The CPU where it runs, if it does.
    cpu: Option<u32>,
    doubt: Doubt,
}

/// The longest waits.
struct Arrows {
    tids: Option<Vec<i32>>,
    limit: usize,
    total: u64,
    /// By wait and number, the shortest wait first; of equal ones the latest.
    heap: BinaryHeap<Reverse<(u64, Reverse<usize>)>>,
    list: Vec<Arrow>,
    people: People,
}

impl Arrows {
    fn wants(&self, tid: i32, waker: &Waker) -> bool {
        let by = doing::by_waker(waker).and_then(By::tid);
        self.tids.as_ref().is_none_or(|tids| tids.contains(&tid) || by.is_some_and(|by| tids.contains(&by)))
    }

    fn take(&mut self, arrow: Arrow) {
        self.total += 1;
        let wait = arrow.to.abs_diff(arrow.at);
        if self.list.len() < self.limit {
            self.heap.push(Reverse((wait, Reverse(self.list.len()))));
            return self.list.push(arrow);
        }
        let Some(Reverse((shortest, Reverse(place)))) = self.heap.peek().copied() else { return };
        if wait > shortest {
            self.heap.pop();
            self.heap.push(Reverse((wait, Reverse(place))));
            self.list[place] = arrow;
        }
    }
}

impl Visit for Arrows {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl Sink for Arrows {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.people.see(span.from, thread);
        let Doing::Runnable { why: Ready::Woken(waker) | Ready::New(waker), .. } = span.doing else { return };
        let cpu = match span.until {
            Until::Runs { cpu } => Some(cpu),
            Until::End => None,
            // It goes on on another CPU.
            Until::Woken(_) | Until::Next => return,
        };
        if self.wants(span.tid, &waker) {
            let doubt = span.doubt.without(Doubt::END);
            self.take(Arrow { at: span.ready_from, to: span.to, waker, tid: span.tid, cpu, doubt });
        }
    }
}

impl Gather for Arrows {}

/// Answers `arrows`.
///
/// # Errors
/// Parameters; a trace without the scheduler's events.
pub fn arrows(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let (tids, limit) = (parameters.tids()?, parameters.limit(2000)?);
    if !of.has_switches() {
        return Err(Error::no_switches());
    }
    let (heap, list, people) = (BinaryHeap::new(), Vec::new(), People::default());
    let mut gather = Arrows { tids, limit, total: 0, heap, list, people };
    let walked = Walk::new(of, window).run(&mut gather, stop)?;
    gather.people.finish(&walked.state);
    let mut answer = begin("arrows", of, window);
    answer.set("total", gather.total);
    answer.set("left_out", gather.total - gather.list.len() as u64);
    gather.list.sort_by_key(|arrow| (arrow.at, arrow.tid));
    let table = table(&mut answer, &gather.list, &gather.people);
    answer.push(table);
    walked.tell(&mut answer);
    Ok(answer)
}

fn table(answer: &mut Answer, list: &[Arrow], people: &People) -> Table {
    let (mut wakers, mut names) = (Vec::new(), Vec::new());
    for arrow in list {
        let by = doing::by_waker(&arrow.waker);
        let waker = match by {
            Some(By::Thread(tid)) => people.name(tid, arrow.at).to_string(),
            Some(by) => by.other().unwrap_or_default(),
            None => String::new(),
        };
        wakers.push(answer.texts.name(&waker));
        names.push(answer.texts.name(people.name(arrow.tid, arrow.at).as_str()));
    }
    let by = |arrow: &Arrow| doing::by_waker(&arrow.waker).and_then(By::tid);
    Table::new("arrows")
        .column("at", list.iter().map(|arrow| answer.time(arrow.at)))
        .column("from_cpu", list.iter().map(|arrow| Some(arrow.waker.cpu).filter(|cpu| *cpu != u32::MAX)))
        .column("from_tid", list.iter().map(by))
        .column("from_name", wakers)
        .column("tid", list.iter().map(|arrow| arrow.tid))
        .column("name", names)
        .column("runs_at", list.iter().map(|arrow| arrow.cpu.map(|_| answer.time(arrow.to))))
        .column("cpu", list.iter().map(|arrow| arrow.cpu))
        .column("wait_ns", list.iter().map(|arrow| arrow.to.abs_diff(arrow.at)))
        .column("doubt", list.iter().map(|arrow| doubt_bits(arrow.doubt)))
}
