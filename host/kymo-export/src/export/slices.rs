// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices made of records [spec/exchange.md 2]: each that begins also ends, on the same track, and those of a track are
//! nested. Which begin is of which end is kymo-filter's answer, as for `kymo latency --span` [spec/analyze.md 5.1]; a
//! system call ends with its return, or with what shows that it has none.

mod track;

use std::collections::HashMap;

use kymo_analyze::syscall::CallNumbers;
use kymo_ctf::read::{Record, Trace, Value};
use kymo_filter::Open;

use super::exporter::Done;
use super::facts::env_text;
use super::pairs::{Role, Roles};
use track::{Owner, Processes, is_interrupt, machines};
pub use track::{Track, UNKNOWN_THREAD};

/// Slices that one track may be in at a time; what is deeper is shown as instants.
const DEPTH_MAX: usize = 10_000;

/// Slices that the end of one around them may divide; an end inside of more is an instant.
const DIVIDED_MAX: usize = 64;

/// A track of a machine.
type Place = (usize, Track);

/// Why a slice ends or begins without a record of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The one around it ends: it goes on at the same time.
    Part,
    /// A system call whose return is not in the trace.
    NoReturn,
    /// The thread or its program ends.
    Ended,
    /// The trace ends.
    Open,
}

impl Why {
    /// What is said in the output where a slice ends; parts need no word.
    pub fn text(self) -> Option<&'static str> {
        match self {
            Why::Part => None,
            Why::NoReturn => Some("not in the trace: shown up to the next call of the thread"),
            Why::Ended => Some("the thread or its program ended"),
            Why::Open => Some("not in the trace: shown up to the end of the trace"),
        }
    }
}

/// A begin or an end that is not a record's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub begins: bool,
    pub title: u32,
    pub track: Track,
    pub ns: i128,
    pub why: Why,
}

/// What a record itself is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Begins a slice of this title.
    Begin(u32),
    /// Ends one.
    End(u32),
    /// Neither.
    Instant,
}

/// What is to be written for a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// In front of it.
    pub before: Vec<Edge>,
    pub own: Own,
    /// Where it is shown: a slice's end where the slice began.
    pub track: Track,
    /// When it is shown: slices do not go back in time on their track. Of an instant: the record's time.
    pub ns: i128,
    /// Behind it.
    pub after: Vec<Edge>,
}

impl Steps {
    fn instant(track: Track, ns: i128) -> Steps {
        Steps { before: Vec::new(), own: Own::Instant, track, ns, after: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    title: u32,
    number: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    title: u32,
    number: u64,
    place: Place,
}

/// What was met beside slices that nest.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    unmatched: u64,
    without_thread: u64,
    too_deep: u64,
    divided: u64,
    without_return: u64,
    return_missing: u64,
    entry_missing: u64,
    ended: u64,
    late: u64,
}

/// The slices of traces.
pub struct Slices {
    roles: Roles,
    /// By trace.
    machines: Vec<usize>,
    /// By trace: the numbers of its machine's calls.
    numbers: Vec<Option<CallNumbers>>,
    processes: Processes,
    /// Number and place of slices.
    open: Open<(usize, Owner, u32), (u64, Place)>,
    /// System calls, by thread, and whether they are told by number: both kinds of events may be there.
    calls: HashMap<(usize, Owner, bool), OpenCall>,
    /// By track: the slices that are shown as open, the innermost last.
    shown: HashMap<Place, Vec<Shown>>,
    /// By track: the time of its last begin or end.
    latest: HashMap<Place, i128>,
    next: u64,
    counts: Counts,
}

/// What one record is about.
struct Subject {
    place: Place,
    owner: Owner,
    ns: i128,
}

impl Slices {
    pub fn new(traces: &[Trace]) -> Slices {
        let numbers = |trace: &Trace| env_text(trace, "architecture").and_then(CallNumbers::of_machine);
        Slices::of_roles(Roles::new(traces), machines(traces), traces.iter().map(numbers).collect())
    }

    fn of_roles(roles: Roles, machines: Vec<usize>, numbers: Vec<Option<CallNumbers>>) -> Slices {
        Slices {
            roles,
            machines,
            numbers,
            processes: Processes::default(),
            open: Open::default(),
            calls: HashMap::new(),
            shown: HashMap::new(),
            latest: HashMap::new(),
            next: 0,
            counts: Counts::default(),
        }
    }

    /// The name of slices.
    pub fn title(&self, title: u32) -> &str {
        self.roles.titles.name(title)
    }

    /// Whether an event is a probe at the entry or the return of a function, of which there are both.
    pub fn is_probe(&self, record: &Record<'_>) -> bool {
        matches!(self.role(record), Some(Role::Pair { is_probe: true, .. }))
    }

    /// Whether an event ends slices that are not its own.
    pub fn is_end_of_others(&self, record: &Record<'_>) -> bool {
        matches!(self.role(record), Some(Role::ThreadEnds | Role::ProgramStarts))
    }

    fn role(&self, record: &Record<'_>) -> Option<Role> {
        self.roles.of(record.trace, record.event_position)
    }

    /// Where a record is shown.
    pub fn track(&mut self, record: &Record<'_>, is_kernel: bool) -> Track {
        self.processes.track(record, self.machines[record.trace], is_kernel)
    }

    /// What is to be written for a record. They come in the order of the reader.
    pub fn steps(&mut self, record: &Record<'_>, is_kernel: bool) -> Steps {
        let track = self.track(record, is_kernel);
        let mut steps = Steps::instant(track, record.ns);
        let Some(role) = self.role(record) else { return steps };
        let is_of_cpu = matches!(track, Track::Cpu(_)) && is_interrupt(&record.event.name);
        let (true, Some(owner)) = (record.vtid.is_some() || is_of_cpu, owner(record, track, is_kernel)) else {
            self.counts.without_thread += 1;
            return steps;
        };
        let subject = Subject { place: (self.machines[record.trace], track), owner, ns: record.ns };
        match role {
            Role::Pair { title, begins, .. } => self.pair(&subject, title, begins, &mut steps),
            Role::Call { title, is_entry, returns } => {
                let is_by_number = title.is_none();
                match title.or_else(|| self.call_by_number(record)) {
                    Some(title) if is_entry => self.enter(&subject, title, is_by_number, returns, &mut steps),
                    title => self.leave(&subject, title, is_by_number, &mut steps),
                }
            }
            Role::ThreadEnds => self.thread_ends(&subject, number(record, &["tid", "pid"]), &mut steps),
            Role::ProgramStarts => {
                let (new, old) = (number(record, &["tid", "pid"]), number(record, &["old_tid", "old_pid"]));
                self.program_starts(&subject, new, old, &mut steps);
            }
        }
        steps
    }

    /// The title of a call of which the record has the number.
    fn call_by_number(&mut self, record: &Record<'_>) -> Option<u32> {
        let Some(Value::Int(id, _)) = record.payload.get("id") else { return None };
        let id = i128::from(id);
        let known = u16::try_from(id).ok().and_then(|id| self.numbers[record.trace].as_ref()?.name(id));
        let title = |name: &str, roles: &mut Roles| roles.titles.call(name);
        match known {
            Some(name) => Some(title(name, &mut self.roles)),
            // What the kernel says where a signal was returned from.
            None if id < 0 => None,
            None => Some(title(&format!("syscall_{id}"), &mut self.roles)),
        }
    }

    fn pair(&mut self, subject: &Subject, title: u32, begins: bool, steps: &mut Steps) {
        let key = (subject.place.0, subject.owner, title);
        if begins {
            if let Some(number) = self.begin(subject, title, steps) {
                self.open.push(key, (number, subject.place));
            }
            return;
        }
        // What was ended with its thread is still among those that wait.
        while let Some((number, place)) = self.open.pop(&key) {
            if self.position(place, number).is_some() {
                return self.end(title, number, place, subject.ns, steps);
            }
        }
        self.counts.unmatched += 1;
    }

    fn enter(&mut self, subject: &Subject, title: u32, is_by_number: bool, returns: bool, steps: &mut Steps) {
        let key = (subject.place.0, subject.owner, is_by_number);
        self.end_call(key, subject.ns, steps);
        if !returns || !kymo_analyze::syscall::returns(self.title(title)) {
            self.counts.without_return += 1;
            return;
        }
        if let Some(number) = self.begin(subject, title, steps) {
            self.calls.insert(key, OpenCall { title, number, place: subject.place });
        }
    }

    fn leave(&mut self, subject: &Subject, title: Option<u32>, is_by_number: bool, steps: &mut Steps) {
        let key = (subject.place.0, subject.owner, is_by_number);
        match self.calls.get(&key).copied() {
            Some(call) if Some(call.title) == title => {
                self.calls.remove(&key);
                self.end(call.title, call.number, call.place, subject.ns, steps);
            }
            _ => {
                self.end_call(key, subject.ns, steps);
                self.counts.entry_missing += 1;
            }
        }
    }

    /// Ends a call whose return is not in the trace.
    fn end_call(&mut self, key: (usize, Owner, bool), ns: i128, steps: &mut Steps) {
        let Some(call) = self.calls.remove(&key) else { return };
        if self.cut(call.place, call.number, ns, Why::NoReturn, &mut steps.before) {
            self.counts.return_missing += 1;
        }
    }

    fn begin(&mut self, subject: &Subject, title: u32, steps: &mut Steps) -> Option<u64> {
        let shown = self.shown.entry(subject.place).or_default();
        if shown.len() >= DEPTH_MAX {
            self.counts.too_deep += 1;
            return None;
        }
        let number = self.next;
        shown.push(Shown { title, number });
        self.next += 1;
        (steps.own, steps.ns) = (Own::Begin(title), self.time(subject.place, subject.ns));
        Some(number)
    }

    /// The record ends a slice. Those in it go on behind its end.
    fn end(&mut self, title: u32, number: u64, place: Place, ns: i128, steps: &mut Steps) {
        let Some(inner) = self.take(place, number) else {
            self.counts.unmatched += 1;
            return;
        };
        let ns = self.time(place, ns);
        let edge = |begins, title| Edge { begins, title, track: place.1, ns, why: Why::Part };
        steps.before.extend(inner.iter().rev().map(|title| edge(false, *title)));
        steps.after.extend(inner.iter().map(|title| edge(true, *title)));
        (steps.own, steps.track, steps.ns) = (Own::End(title), place.1, ns);
    }

    /// A slice ends without a record of its own. Whether it was shown.
    fn cut(&mut self, place: Place, number: u64, ns: i128, why: Why, edges: &mut Vec<Edge>) -> bool {
        let Some(at) = self.position(place, number) else { return false };
        let title = self.shown[&place][at].title;
        let Some(inner) = self.take(place, number) else { return false };
        let ns = self.time(place, ns);
        let edge = |begins, title, why| Edge { begins, title, track: place.1, ns, why };
        edges.extend(inner.iter().rev().map(|title| edge(false, *title, Why::Part)));
        edges.push(edge(false, title, why));
        edges.extend(inner.iter().map(|title| edge(true, *title, Why::Part)));
        true
    }

    fn position(&self, place: Place, number: u64) -> Option<usize> {
        self.shown.get(&place)?.iter().rposition(|shown| shown.number == number)
    }

    /// Takes a slice out of those that are shown as open: the titles of those in it, the outermost first.
    fn take(&mut self, place: Place, number: u64) -> Option<Vec<u32>> {
        let at = self.position(place, number)?;
        let shown = self.shown.get_mut(&place)?;
        if shown.len() - at > DIVIDED_MAX {
            return None;
        }
        shown.remove(at);
        let inner: Vec<u32> = shown[at..].iter().map(|shown| shown.title).collect();
        self.counts.divided += inner.len() as u64;
        Some(inner)
    }

    /// The time at which a begin or end is shown.
    fn time(&mut self, place: Place, ns: i128) -> i128 {
        let latest = self.latest.entry(place).or_insert(ns);
        self.counts.late += u64::from(ns < *latest);
        *latest = ns.max(*latest);
        *latest
    }

    fn thread_ends(&mut self, subject: &Subject, tid: Option<u32>, steps: &mut Steps) {
        let machine = subject.place.0;
        let place = tid.map_or(subject.place, |tid| self.place_of(machine, tid));
        self.end_all(place, subject.ns, None, steps);
    }

    /// A program is executed. What the thread was in before is over, but for the call itself; where another thread than
    /// the first one made the call, that one is gone, and the call returns in the first one.
    fn program_starts(&mut self, subject: &Subject, new: Option<u32>, old: Option<u32>, steps: &mut Steps) {
        let machine = subject.place.0;
        if let Some(old) = old.filter(|old| new.is_some_and(|new| new != *old)) {
            let place = self.place_of(machine, old);
            self.end_all(place, subject.ns, None, steps);
        }
        let tid = new.or(match subject.owner {
            Owner::Kernel(tid) => Some(tid),
            _ => None,
        });
        let Some(tid) = tid else { return };
        let is_same = old.is_none_or(|old| old == tid);
        let calls = [false, true].map(|is_by_number| self.calls.get(&(machine, Owner::Kernel(tid), is_by_number)));
        let kept: Vec<u64> = calls.iter().flatten().filter(|_| is_same).map(|call| call.number).collect();
        let place = self.place_of(machine, tid);
        self.end_all(place, subject.ns, Some(&kept), steps);
    }

    fn place_of(&self, machine: usize, tid: u32) -> Place {
        (machine, Track::Thread(self.processes.of(machine, tid), tid))
    }

    /// Ends all slices of a track but for some.
    fn end_all(&mut self, place: Place, ns: i128, kept: Option<&[u64]>, steps: &mut Steps) {
        let Some(shown) = self.shown.get(&place) else { return };
        let is_kept = |shown: &&Shown| kept.is_some_and(|kept| kept.contains(&shown.number));
        let over: Vec<u64> = shown.iter().rev().filter(|shown| !is_kept(shown)).map(|shown| shown.number).collect();
        for number in over {
            self.counts.ended += u64::from(self.cut(place, number, ns, Why::Ended, &mut steps.before));
        }
    }

    /// The ends of what is open when the trace ends, and what is shown otherwise than nested slices.
    pub fn finish(&mut self, last_ns: i128, done: &mut Done) -> Vec<Edge> {
        let mut places: Vec<Place> = self.shown.keys().copied().collect();
        places.sort_unstable();
        let mut edges = Vec::new();
        for place in places {
            let ns = self.latest.get(&place).map_or(last_ns, |latest| last_ns.max(*latest));
            let shown = self.shown.remove(&place).unwrap_or_default();
            let edge = |shown: &Shown| Edge { begins: false, title: shown.title, track: place.1, ns, why: Why::Open };
            edges.extend(shown.iter().rev().map(edge));
        }
        self.tell(edges.len() as u64, done);
        edges
    }

    fn tell(&self, open: u64, done: &mut Done) {
        let counts = &self.counts;
        done.change("ends without a begin in their thread, shown as instants", counts.unmatched);
        done.change("begins and ends of unknown threads, shown as instants", counts.without_thread);
        done.change("begins inside of too many others, shown as instants", counts.too_deep);
        done.change("slices that begin in another one and end behind it, shown in parts", counts.divided);
        done.change("begins without end, shown up to the end of the trace", open);
        done.change("system calls that do not return (exit, rt_sigreturn), shown as instants", counts.without_return);
        done.change(
            "system calls whose return is not in the trace, shown up to the next call of their thread",
            counts.return_missing,
        );
        done.change(
            "returns of system calls without their entry (new threads, calls before the trace), shown as instants",
            counts.entry_missing,
        );
        done.change("slices that were open when their thread or its program ended, shown up to there", counts.ended);
        done.change(
            "begins and ends with a time before an earlier one of their track, shown at that time ($time: their own)",
            counts.late,
        );
    }
}

/// Whose slices a record is about.
fn owner(record: &Record<'_>, track: Track, is_kernel: bool) -> Option<Owner> {
    match track {
        Track::Cpu(cpu) => Some(Owner::Cpu(cpu)),
        Track::Thread(_, UNKNOWN_THREAD) => None,
        Track::Thread(_, tid) if is_kernel => Some(Owner::Kernel(tid)),
        Track::Thread(pid, tid) => Some(Owner::User(record.vpid.unwrap_or(pid), tid)),
    }
}

fn number(record: &Record<'_>, names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| match record.payload.get(name) {
        Some(Value::Int(number, _)) => u32::try_from(i128::from(number)).ok(),
        _ => None,
    })
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
