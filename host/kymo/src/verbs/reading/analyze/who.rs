// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads a question is about: by default those of the recorded command, and never kymo's own.

use std::collections::BTreeSet;

use anyhow::bail;
use kymo_analyze::{Event, Recorders, Sample, State, Thread};
use kymo_ctf::read::{Record, Value};
use kymo_feed::recorders;
use serde_json::Value as Json;

use super::feed::Input;

/// Event of the state dump that tells of a thread.
const THREAD_STATE: &str = "lttng_statedump_process_state";
/// Priorities below are those of real-time classes.
const REAL_TIME: i16 = 100;

/// Options that select threads.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WhoArgs {
    /// Only threads of this process: its number, or the name of its main thread
    #[arg(long, value_name = "PID|NAME", help_heading = "Threads")]
    process: Option<String>,
    /// Only threads of this priority at that moment: rt, normal, a real-time priority (80), or a range (50-99)
    #[arg(long, value_name = "PRIO", help_heading = "Threads", value_parser = parse_prio)]
    prio: Option<Prio>,
    /// The whole system, instead of the recorded command and its children
    #[arg(long, help_heading = "Threads")]
    all: bool,
}

/// A range of priorities, as the kernel counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prio {
    from: i16,
    to: i16,
}

fn parse_prio(text: &str) -> Result<Prio, String> {
    let kernel = |number: &str| number.parse::<i16>().ok().filter(|prio| (1..=99).contains(prio)).map(|prio| 99 - prio);
    match text {
        "rt" => return Ok(Prio { from: i16::MIN, to: REAL_TIME - 1 }),
        "normal" => return Ok(Prio { from: REAL_TIME, to: i16::MAX }),
        _ => {}
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (kernel(low), kernel(high)) {
        (Some(low), Some(high)) if high <= low => Ok(Prio { from: high, to: low }),
        _ => Err("it is rt, normal, a real-time priority from 1 to 99, or a range of these such as 50-99".to_owned()),
    }
}

/// Whether a thread has a real-time priority.
pub fn is_real_time(prio: Option<i16>) -> bool {
    prio.is_some_and(|prio| prio < REAL_TIME)
}

/// Follows who belongs to whom. Knows the threads of a moment, so it has to see all events.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// The thread: its number, or its name.
    thread: Option<String>,
    process: Option<String>,
    prio: Option<Prio>,
    all: bool,
    /// The processes of `kymo record`, where the traces tell.
    recorders: Recorders,
    /// It recorded a command: before that runs, nobody is meant.
    has_command: bool,
    /// Recorded with `--only`: there are no records of the recorder, so nothing tells that the command is its child.
    only: bool,
    /// Threads of the recorder, and its children until they run another program.
    own: BTreeSet<i32>,
    /// The recorded command and its children.
    family: BTreeSet<i32>,
    /// Threads of `process`.
    members: BTreeSet<i32>,
    /// The recorder was met by its number: then the trace tells who its command is.
    met_recorder: bool,
}

impl Who {
    /// From the command line, and from what the traces say of their recording.
    pub fn new(input: &Input, args: &WhoArgs, thread: Option<&str>) -> Who {
        let recorders = recorders(&input.traces);
        let summary = input.named.iter().flat_map(|named| &named.parts).find_map(|dir| {
            let text = std::fs::read_to_string(dir.join(".kymo.json")).ok()?;
            let summary: Json = serde_json::from_str(&text).ok()?;
            // Who recorded the kernel knows whose command the kernel's records are about.
            summary["kernel"].is_object().then_some(summary)
        });
        let command = summary.as_ref().and_then(|summary| summary["command"].as_array());
        Who {
            thread: thread.map(str::to_owned),
            process: args.process.clone(),
            prio: args.prio,
            all: args.all,
            has_command: !recorders.pids.is_empty() && command.is_some_and(|command| !command.is_empty()),
            only: summary.as_ref().is_some_and(|summary| summary["kernel"]["only"] == true),
            own: recorders.pids.iter().copied().collect(),
            recorders,
            ..Who::default()
        }
    }

    /// A thread was asked for.
    pub fn names_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// What was asked for, in words.
    pub fn text(&self) -> String {
        let of = self.thread.as_ref().map_or(String::new(), |thread| format!(" of {thread:?}"));
        let process = self.process.as_ref().map_or(String::new(), |process| format!(" of process {process:?}"));
        let prio = if self.prio.is_some() { " of that priority" } else { "" };
        let command = if self.is_limited() { " of the recorded command (--all: of the whole system)" } else { "" };
        format!("{of}{process}{prio}{command}")
    }

    /// Only threads of the command count.
    fn is_limited(&self) -> bool {
        !self.all && self.thread.is_none() && self.process.is_none() && self.has_family()
    }

    /// Who is the command is known, or will be.
    fn has_family(&self) -> bool {
        (self.has_command && !self.only) || !self.family.is_empty()
    }

    /// Options choose threads: what is nobody's is not asked for.
    pub fn selects(&self) -> bool {
        self.thread.is_some() || self.process.is_some() || self.prio.is_some()
    }

    /// Whether what a thread began is asked for: a timer, a request, a span; `None`: it is not known who began it.
    /// The trace may not tell who is the command: its events may be without forks, or count in another PID namespace.
    pub fn wants_by(&self, thread: Option<&Thread>) -> bool {
        let is_limited = self.is_limited() && (self.met_recorder || !self.family.is_empty());
        match thread {
            Some(thread) => self.is_wanted(thread, is_limited),
            None => !self.selects() && !is_limited,
        }
    }

    /// Whether what happened on a CPU while a thread was current is asked for: it is the CPU's, unless options choose
    /// threads.
    pub fn wants_over(&self, thread: Option<&Thread>) -> bool {
        !self.selects() || thread.is_some_and(|thread| self.is_wanted(thread, false))
    }

    /// Whether interrupts or preemption that a thread switched off are asked for.
    pub fn wants_off_by(&self, thread: Option<&Thread>) -> bool {
        match thread {
            Some(thread) => self.is_wanted(thread, false),
            None => !self.selects(),
        }
    }

    /// Whether a span is asked for: by its thread as the state knows it, or as the span's records tell of it.
    pub fn wants_span(&self, sample: &Sample, state: &State) -> bool {
        let Some(tid) = sample.tid else { return self.wants_by(None) };
        let mut thread = state.thread(tid).cloned().unwrap_or_else(|| Thread::unknown(tid, sample.to));
        if !sample.name.is_empty() {
            thread.name = sample.name;
        }
        thread.process = thread.process.or(sample.process);
        thread.prio = sample.prio.or(thread.prio);
        self.wants_by(Some(&thread))
    }

    /// Whether a thread is asked for, as it is now.
    pub fn wants(&self, thread: &Thread) -> bool {
        self.is_wanted(thread, self.is_limited())
    }

    fn is_wanted(&self, thread: &Thread, is_limited: bool) -> bool {
        let is_number = self.thread.as_ref().is_some_and(|wanted| wanted.parse() == Ok(thread.tid));
        if is_number {
            return true;
        }
        let is_helper = self.recorders.own(Some(thread.tid), thread.process, thread.name.as_str());
        let is_own = (is_helper && !self.family.contains(&thread.tid))
            || self.own.contains(&thread.tid)
            || thread.process.is_some_and(|process| self.own.contains(&process));
        let is_named = self.thread.as_ref().is_none_or(|wanted| thread.name.as_str() == wanted);
        let is_member = self.process.is_none()
            || self.members.contains(&thread.tid)
            || thread.process.is_some_and(|process| self.members.contains(&process));
        let has_prio =
            self.prio.is_none_or(|wanted| thread.prio.is_some_and(|prio| (wanted.from..=wanted.to).contains(&prio)));
        !is_own && is_named && is_member && has_prio && (!is_limited || self.family.contains(&thread.tid))
    }

    fn is_recorder(&self, number: i32) -> bool {
        self.recorders.pids.contains(&number)
    }

    /// Takes an event, before the state moves by it.
    pub fn event(&mut self, event: &Event) {
        self.met_recorder |= match *event {
            Event::Fork { parent, .. } => self.is_recorder(parent),
            Event::Dumped { tid, .. } => self.is_recorder(tid),
            _ => false,
        };
        match *event {
            Event::Fork { parent, child, .. } => self.forked(parent, child),
            Event::Exec { tid, old_tid, name } => {
                let is_command = self.own.remove(&old_tid) && !self.is_recorder(old_tid);
                // Who runs a program first is the command, where nobody else is recorded.
                let is_first = self.only && self.has_command && self.family.is_empty();
                if is_command || is_first || self.family.contains(&old_tid) {
                    self.family.insert(tid);
                } else if self.is_recorder(old_tid) {
                    self.own.insert(old_tid);
                }
                self.members.remove(&tid);
                self.named(tid, name.as_str());
            }
            Event::Rename { tid: Some(tid), name, .. } | Event::Switch { next: tid, next_name: name, .. } => {
                self.named(tid, name.as_str());
            }
            Event::Dumped { tid, process, name, .. } => {
                if self.is_recorder(process) {
                    self.own.insert(tid);
                }
                if tid == process {
                    self.named(tid, name.as_str());
                }
            }
            // Its number may be another thread's from now on.
            Event::Free { tid } if !self.is_recorder(tid) => {
                self.own.remove(&tid);
            }
            _ => {}
        }
    }

    fn forked(&mut self, parent: i32, child: i32) {
        for set in [&mut self.own, &mut self.family, &mut self.members] {
            match set.contains(&parent) {
                true => set.insert(child),
                false => set.remove(&child),
            };
        }
    }

    fn named(&mut self, tid: i32, name: &str) {
        if self.process.as_deref().is_some_and(|wanted| wanted == name || wanted.parse() == Ok(tid)) {
            self.members.insert(tid);
        }
    }

    /// Whether [`Who::dumped`] takes records of an event.
    pub fn learns_of(event: &str) -> bool {
        event == THREAD_STATE
    }

    /// Takes a record of the state dump: who is whose child. A trace may begin when the command runs already.
    pub fn dumped(&mut self, event: &str, record: &Record<'_>) {
        if !Who::learns_of(event) {
            return;
        }
        let number = |name: &str| match record.payload.get(name) {
            Some(Value::Int(number, _)) => i32::try_from(i128::from(number)).ok(),
            _ => None,
        };
        let (Some(tid), Some(process), Some(parent)) = (number("tid"), number("pid"), number("ppid")) else { return };
        let name = match record.payload.get("name") {
            Some(Value::Text(name)) => name.into_owned(),
            _ => String::new(),
        };
        // The recorder's other children are its own helpers, which have its name.
        let is_command = self.is_recorder(parent) && !name.starts_with("kymo");
        if is_command || self.family.contains(&parent) || self.family.contains(&process) {
            self.family.insert(tid);
        }
    }
}

/// The one thread that is meant by a name: of several the one that has a real-time priority.
///
/// # Errors
/// There is none, or more than one.
pub fn one(name: &str, met: &[(i32, bool)]) -> anyhow::Result<i32> {
    let real_time: Vec<i32> = met.iter().filter(|(_, is_real_time)| *is_real_time).map(|(tid, _)| *tid).collect();
    match (met, &real_time[..]) {
        ([], _) => bail!("no thread {name:?} in the trace; `kymo stats --by thread` lists them"),
        ([(tid, _)], _) => Ok(*tid),
        (_, [tid]) => Ok(*tid),
        _ => {
            let tids: Vec<String> = met.iter().take(20).map(|(tid, _)| tid.to_string()).collect();
            bail!("{} threads are called {name:?}: choose one by its number: {}", met.len(), tids.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_analyze::Name;

    fn thread(tid: i32, name: &str, prio: i16) -> Thread {
        let mut thread = Thread::unknown(tid, 0);
        (thread.name, thread.prio) = (Name::new(name), Some(prio));
        thread
    }

    fn fork(parent: i32, child: i32) -> Event {
        Event::Fork { parent, child, name: Name::default(), process: None }
    }

    fn exec(tid: i32, name: &str) -> Event {
        Event::Exec { tid, old_tid: tid, name: Name::new(name) }
    }

    fn who() -> Who {
        Who { recorders: Recorders { pids: vec![50], is_kymo: true }, own: BTreeSet::from([50]), ..Who::default() }
    }

    #[test]
    fn without_a_thread_it_is_the_command_and_its_children() {
        let mut who = who();
        assert!(who.wants(&thread(9, "other", 120)), "no command was recorded, as far as the trace tells");
        who.has_command = true;
        assert!(!who.wants(&thread(9, "other", 120)), "the command has not begun yet");
        [fork(50, 51), fork(50, 60), exec(60, "app"), fork(60, 61), fork(9, 10)]
            .iter()
            .for_each(|event| who.event(event));
        let wanted = [60, 61, 50, 51, 9, 10].map(|tid| who.wants(&thread(tid, "x", 19)));
        assert_eq!(wanted, [true, true, false, false, false, false]);
        who.all = true;
        let wanted = [60, 9, 50, 51].map(|tid| who.wants(&thread(tid, "x", 19)));
        assert_eq!(wanted, [true, true, false, false], "kymo's own threads are none of the system");
        assert!(!who.wants(&thread(70, "kymo-kernel", 98)), "also before the dump has told whose they are");
    }

    #[test]
    fn with_only_it_is_who_runs_a_program_first_and_its_children() {
        let mut who = Who { has_command: true, only: true, ..who() };
        assert!(who.wants(&thread(60, "app", 19)), "what lies before its begin may not be in the trace");
        // The recorder's fork is not in such a trace; switches name other threads.
        [exec(60, "app"), fork(60, 61), exec(61, "child")].iter().for_each(|event| who.event(event));
        let wanted = [60, 61, 50, 9].map(|tid| who.wants(&thread(tid, "x", 19)));
        assert_eq!(wanted, [true, true, false, false]);
    }

    #[test]
    fn threads_are_selected_by_process_and_by_the_priority_of_the_moment() {
        let mut who = Who { process: Some("app".to_owned()), prio: Some(parse_prio("50-99").unwrap()), ..who() };
        [fork(50, 60), exec(60, "app"), fork(60, 61), exec(61, "child"), fork(60, 62)]
            .iter()
            .for_each(|e| who.event(e));
        assert!(who.wants(&thread(60, "app", 19)) && who.wants(&thread(62, "worker", 49)));
        assert!(!who.wants(&thread(61, "child", 19)), "it runs another program");
        assert!(!who.wants(&thread(60, "app", 120)), "then it was of a normal class");
        assert!(!who.wants(&thread(62, "worker", 50)), "that is rt 49");
    }

    fn span_of(tid: i32, prio: i16) -> Sample {
        Sample {
            value_ns: 5,
            from: 10,
            to: 15,
            tid: Some(tid),
            process: None,
            name: Name::new("x"),
            prio: Some(prio),
            cpu: Some(0),
            waker: None,
            owner: None,
            doubt: kymo_analyze::Doubt::NONE,
            late_ns: 0,
        }
    }

    #[test]
    fn spans_timers_and_requests_are_chosen_as_threads_are() {
        let state = State::new(&kymo_analyze::Vocabulary::default());
        let mut who = Who { has_command: true, ..who() };
        assert!(who.wants_span(&span_of(9, 120), &state), "the trace does not tell who is the command");
        [fork(50, 51), fork(50, 60), exec(60, "app"), fork(60, 61), fork(9, 10)].iter().for_each(|e| who.event(e));
        let wanted = |who: &Who| [60, 61, 50, 51, 9].map(|tid| who.wants_span(&span_of(tid, 120), &state));
        assert_eq!(wanted(&who), [true, true, false, false, false]);
        assert!(!who.wants_by(None), "nobody knows whose it is");
        // An interrupt is the CPU's; what kymo's own thread switched off is kymo's.
        let own = thread(51, "kymo-kernel", 98);
        assert!(who.wants_over(Some(&own)) && who.wants_over(None) && !who.wants_off_by(Some(&own)));
        who.all = true;
        assert_eq!(wanted(&who), [true, true, false, false, true]);
        assert!(who.wants_by(None));
        let who = Who { prio: Some(parse_prio("80").unwrap()), ..who };
        let wanted =
            [(60, 120), (61, 19), (9, 19), (51, 19)].map(|(tid, prio)| who.wants_span(&span_of(tid, prio), &state));
        assert_eq!(wanted, [false, true, true, false], "by the priority of the moment");
        assert!(!who.wants_by(None) && !who.wants_over(None) && !who.wants_off_by(None));
    }

    #[test]
    fn a_name_means_the_real_time_thread() {
        assert_eq!(one("cyclictest", &[(7, false), (8, true)]).unwrap(), 8);
        assert_eq!(one("cyclictest", &[(7, false)]).unwrap(), 7);
        assert!(one("cyclictest", &[(7, true), (8, true)]).is_err() && one("none", &[]).is_err());
    }

    #[test]
    fn priorities_as_people_write_them() {
        assert_eq!(parse_prio("80"), Ok(Prio { from: 19, to: 19 }));
        assert_eq!(parse_prio("50-99"), Ok(Prio { from: 0, to: 49 }));
        assert!(parse_prio("rt").unwrap().to == 99 && parse_prio("normal").unwrap().from == 100);
        assert!(parse_prio("0").is_err() && parse_prio("99-50").is_err() && parse_prio("x").is_err());
    }
}
