// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of a window, and where their time went [spec/view.md 4.5].

use std::cmp::Reverse;

use kymo_analyze::hash::Map;
use kymo_analyze::{Event, Head, Sink, State, Thread, ThreadSpan};
use kymo_feed::Visit;
use kymo_index::{Cover, PartSums, ThreadSums};

use crate::columns::{Answer, Table};
use crate::doing::{self, Calls, STATES};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::{Parameters, Window};
use crate::people::People;
use crate::pixels::Pixels;
use crate::questions::begun::{begin, damage_note};
use crate::walk::{Gather, Stop, Walk};

/// Times of states, as columns call them, without that of threads that are not there.
const TIMES: [(u8, &str); STATES.len() - 1] = [
    (doing::UNKNOWN, "unknown_ns"),
    (doing::RUNNING, "running_ns"),
    (doing::PREEMPTED, "preempted_ns"),
    (doing::WOKEN, "woken_ns"),
    (doing::GAVE_WAY, "gave_way_ns"),
    (doing::LOCK, "lock_ns"),
    (doing::UNINTERRUPTIBLE, "uninterruptible_ns"),
    (doing::PAGE_FAULT, "page_fault_ns"),
    (doing::WAITING, "waiting_ns"),
    (doing::SLEEPING, "sleeping_ns"),
    (doing::STOPPED, "stopped_ns"),
];

/// Time in which a thread was not running.
fn waiting_ns(sums: &ThreadSums) -> u64 {
    let is_wait = |state: &u8| ![doing::UNKNOWN, doing::RUNNING].contains(state);
    TIMES.iter().map(|(state, _)| *state).filter(is_wait).map(|state| sums.ns[usize::from(state)]).sum()
}

/// Whether a thread was there for any time.
fn is_there(sums: &ThreadSums) -> bool {
    TIMES.iter().any(|(state, _)| sums.ns[usize::from(*state)] > 0)
}

struct Gathered {
    pixels: Pixels,
    states: Calls,
    sums: Map<i32, ThreadSums>,
    people: People,
}

impl Gathered {
    fn of(&mut self, tid: i32) -> &mut ThreadSums {
        self.sums.entry(tid).or_insert_with(|| ThreadSums::new(tid))
    }

    /// Takes what the index knows of a part of the window.
    fn part(&mut self, part: &PartSums) {
        let window = self.pixels.window().pair();
        for of in part.threads() {
            self.of(of.tid).add_cut(of, window);
        }
        self.people.of_part(part);
    }
}

impl Visit for Gathered {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl Sink for Gathered {
    fn event(&mut self, _: &Head, event: &Event, _: &State) {
        if let Event::Migrate { tid, .. } = *event {
            let sums = self.of(tid);
            sums.migrations = sums.migrations.saturating_add(1);
        }
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.people.see(span.from, thread);
        let state = self.states.state(&span.doing);
        let ns = self.pixels.cut(span.from, span.to).map_or(0, |(from, to)| to.abs_diff(from));
        let sums = self.of(span.tid);
        sums.spend(state, ns);
        sums.note(span);
    }
}

impl Gather for Gathered {}

/// By what threads are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Worst,
    Running,
    Waiting,
    Wakeups,
    Name,
    Tid,
    Process,
}

const ORDERS: [(&str, Order); 7] = [
    ("worst", Order::Worst),
    ("running", Order::Running),
    ("waiting", Order::Waiting),
    ("wakeups", Order::Wakeups),
    ("name", Order::Name),
    ("tid", Order::Tid),
    ("process", Order::Process),
];

fn order(parameters: &mut Parameters) -> Result<Order, Error> {
    let Some(text) = parameters.text("by")? else { return Ok(Order::Worst) };
    let known = ORDERS.iter().find(|(name, _)| *name == text).map(|(_, order)| *order);
    let names = || ORDERS.map(|(name, _)| name).join(", ");
    known.ok_or_else(|| Error::parameter("by", format!("one of {}", names())))
}

fn sort(all: &mut [ThreadSums], by: Order, people: &People) {
    let name = |sums: &ThreadSums| people.newest(sums.tid).map(|person| person.name);
    let process = |sums: &ThreadSums| people.newest(sums.tid).and_then(|person| person.process);
    match by {
        Order::Worst => all.sort_by_key(|sums| (Reverse(sums.worst.map(|worst| worst.0)), sums.tid)),
        Order::Running => all.sort_by_key(|sums| (Reverse(sums.ns[usize::from(doing::RUNNING)]), sums.tid)),
        Order::Waiting => all.sort_by_key(|sums| (Reverse(waiting_ns(sums)), sums.tid)),
        Order::Wakeups => all.sort_by_key(|sums| (Reverse(sums.wakeups), sums.tid)),
        Order::Name => all.sort_by_key(|sums| (name(sums), sums.tid)),
        Order::Tid => all.sort_by_key(|sums| sums.tid),
        Order::Process => all.sort_by_key(|sums| (process(sums), sums.tid)),
    }
}

/// What the index has of the window; `notes`: what is wrong with it.
fn cover(of: &Opened, window: Window, notes: &mut Vec<String>) -> Option<Cover> {
    let states = of.indexes.states.as_ref().filter(|_| !window.is_empty())?;
    match states.pyramid.cover(window.pair(), window.from <= of.base()) {
        Ok(cover) => cover,
        Err(error) => {
            notes.push(damage_note(error));
            None
        }
    }
}

/// Answers `threads`.
///
/// # Errors
/// Parameters; a trace without the scheduler's events.
pub fn threads(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let by = order(parameters)?;
    let limit = parameters.limit(100)?;
    let offset = parameters.number("offset", 0..=u64::from(u32::MAX))?.unwrap_or(0) as usize;
    let wanted = parameters.text("match")?;
    if !of.has_switches() {
        return Err(Error::no_switches());
    }
    let (pixels, states) = (Pixels::new(window, 1), Calls::new(&of.classes.vocabulary));
    let nothing = || Gathered { pixels, states, sums: Map::default(), people: People::default() };
    let (mut gather, mut notes) = (nothing(), Vec::new());
    let summed = match cover(of, window, &mut notes) {
        Some(cover) => Some(Walk::new(of, window).run_around(&cover, &mut gather, Gathered::part, stop)?),
        None => None,
    };
    let (walked, source) = match summed {
        Some(Ok(walked)) => (walked, "index"),
        other => {
            notes.extend(other.and_then(Result::err).map(damage_note));
            gather = nothing();
            (Walk::new(of, window).run(&mut gather, stop)?, "records")
        }
    };
    gather.people.finish(&walked.state);
    let people = gather.people;
    let is_wanted = |sums: &ThreadSums| {
        let name = people.newest(sums.tid).map(|person| person.name).unwrap_or_default();
        let is_it = |wanted: &String| name.as_str().contains(wanted.as_str()) || sums.tid.to_string() == *wanted;
        sums.tid > 0 && is_there(sums) && wanted.as_ref().is_none_or(is_it)
    };
    let mut all: Vec<ThreadSums> = gather.sums.into_values().filter(is_wanted).collect();
    sort(&mut all, by, &people);
    let mut answer = begin("threads", of, window);
    answer.set("total", all.len());
    answer.set("source", source);
    answer.notes.extend(notes);
    let mut of_process: Map<i32, u32> = Map::default();
    for process in all.iter().filter_map(|sums| people.newest(sums.tid)?.process) {
        *of_process.entry(process).or_default() += 1;
    }
    let shown: Vec<ThreadSums> = all.into_iter().skip(offset).take(limit).collect();
    tables(&mut answer, &shown, &people, &of_process);
    walked.tell(&mut answer);
    Ok(answer)
}

fn tables(answer: &mut Answer, shown: &[ThreadSums], people: &People, of_process: &Map<i32, u32>) {
    let of_all: Vec<_> = shown.iter().map(|sums| people.newest(sums.tid)).collect();
    let (mut names, mut processes) = (Vec::new(), Vec::new());
    for person in &of_all {
        names.push(person.and_then(|person| answer.texts.name(person.name.as_str())));
        let process = person.and_then(|person| people.newest(person.process?));
        processes.push(process.and_then(|process| answer.texts.name(process.name.as_str())));
    }
    let mut table = Table::new("threads")
        .column("tid", shown.iter().map(|sums| sums.tid))
        .column("process", of_all.iter().map(|person| person.and_then(|person| person.process)))
        .column("process_name", processes)
        .column("process_threads", of_all.iter().map(|person| of_process.get(&person.as_ref()?.process?).copied()))
        .column("name", names)
        .column("prio", of_all.iter().map(|person| person.and_then(|person| person.prio())))
        .column("cpu", shown.iter().map(|sums| sums.cpu));
    for (state, name) in TIMES {
        table = table.column(name, shown.iter().map(|sums| sums.ns[usize::from(state)]));
    }
    let table = table
        .column("wakeups", shown.iter().map(|sums| sums.wakeups))
        .column("migrations", shown.iter().map(|sums| sums.migrations))
        .column("worst_ns", shown.iter().map(|sums| sums.worst.map(|worst| worst.0)))
        .column("worst_at", shown.iter().map(|sums| sums.worst.map(|worst| answer.time(worst.1))));
    answer.push(table);
    let mut over_time = Vec::new();
    for sums in shown {
        for (from, name) in people.names(sums.tid) {
            over_time.push((sums.tid, from, answer.texts.text(name.as_str())));
        }
    }
    let table = Table::new("names")
        .column("tid", over_time.iter().map(|(tid, ..)| *tid))
        .column("from", over_time.iter().map(|(_, from, _)| answer.time(*from)))
        .column("name", over_time.iter().map(|(.., name)| *name));
    answer.push(table);
}
