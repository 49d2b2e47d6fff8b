// SPDX-License-Identifier: MIT OR Apache-2.0
//! A state as text and as JSON.

use kymo_analyze::{Context, Cpu, Doing, Doubt, Off, Ready, State, Thread, Waker};
use serde_json::{Value, json};

use super::moment::MachineMoment;
use crate::verbs::analyze::show::{FunctionNames as _, Times, duration, priority, table};

/// For people.
pub fn report(found: &MachineMoment<'_>, times: &Times) -> String {
    let mut text = format!("state at {} ({} ns)\n", times.text(found.at), found.at);
    if !found.cpus.is_empty() {
        text.push('\n');
    }
    for cpu in &found.cpus {
        text += &format!("cpu {:<4} {}\n", cpu.number, found.cpu(cpu));
    }
    if !found.threads.is_empty() {
        let head = ["thread", "process", "priority", "for", "state"].map(str::to_owned).to_vec();
        let rows = found.threads.iter().map(|thread| found.thread(thread));
        let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
        text += &format!("\n{}", left_at_end(&lines));
    }
    text
}

/// A table whose last column is not set to the right.
fn left_at_end(lines: &[Vec<String>]) -> String {
    let front: Vec<Vec<String>> = lines.iter().map(|line| line[..line.len() - 1].to_vec()).collect();
    let last = lines.iter().filter_map(|line| line.last());
    table(&front).lines().zip(last).map(|(front, last)| format!("{front}  {last}\n")).collect()
}

impl MachineMoment<'_> {
    fn ago(&self, since: i64) -> String {
        duration(u64::try_from(self.at.saturating_sub(since)).unwrap_or(0))
    }

    /// A thread by its number.
    fn who(&self, tid: i32) -> String {
        match self.state.thread(tid) {
            Some(thread) if !thread.name.is_empty() => format!("{}[{tid}]", thread.name),
            _ => format!("thread {tid}"),
        }
    }

    fn context(&self, context: Context) -> String {
        match context {
            Context::Unknown => "unknown".to_owned(),
            Context::Idle => "idle".to_owned(),
            Context::Thread(tid) => self.who(tid),
            Context::Interrupt(interrupt) => self.functions.interrupt(interrupt),
        }
    }

    fn waker(&self, waker: Waker) -> String {
        let who = self.context(waker.context);
        if waker.cpu == u32::MAX { who } else { format!("{who} on cpu {}", waker.cpu) }
    }

    fn cpu(&self, cpu: &Cpu) -> String {
        let mut text = self.context(cpu.current);
        if let Some(prio) = cpu.thread().and_then(|tid| self.state.thread(tid)).and_then(|thread| thread.prio) {
            text += &format!(" ({})", priority(prio));
        }
        for frame in cpu.frames() {
            let name = if frame.name.is_empty() { String::new() } else { format!(" {}", frame.name) };
            let interrupt = self.functions.interrupt(frame.interrupt);
            text += &format!(", in {interrupt}{name} for {}", self.ago(frame.since));
        }
        if cpu.frames().is_empty() {
            text += &format!(" for {}", self.ago(cpu.since));
        }
        for (what, name) in [(Off::Irqs, "interrupts"), (Off::Preemption, "preemption")] {
            text += &cpu.off(what).map_or(String::new(), |off| format!(", {name} off for {}", self.ago(off.at)));
        }
        text += &cpu.idle.map_or(String::new(), |state| format!(", idle state {state}"));
        text += &cpu.khz.map_or(String::new(), |khz| format!(", {} MHz", khz / 1000));
        text + &marks(cpu.doubt())
    }

    fn thread(&self, thread: &Thread) -> Vec<String> {
        vec![
            self.who(thread.tid),
            thread.process.map_or("-".to_owned(), |process| process.to_string()),
            thread.prio.map_or("-".to_owned(), priority),
            self.ago(thread.since),
            self.doing(thread) + &marks(thread.doubt),
        ]
    }

    fn doing(&self, thread: &Thread) -> String {
        let in_call = || {
            let call = thread.call.map(|call| (self.classes.vocabulary.call_name(call.call), call.since));
            call.map_or(String::new(), |(name, since)| format!(", in {name} for {}", self.ago(since)))
        };
        match thread.doing {
            Doing::Unknown => "unknown".to_owned(),
            Doing::Forked => "made, cannot run yet".to_owned(),
            Doing::Ended => "ended".to_owned(),
            Doing::Running { cpu } => format!("runs on cpu {cpu}{}", in_call()),
            Doing::Runnable { why, cpu } => {
                let on = cpu.map_or(String::new(), |cpu| format!(" for cpu {cpu}"));
                // It was moved to another CPU meanwhile.
                let ready = match thread.ready_from < thread.since {
                    true => format!(", in all for {}", self.ago(thread.ready_from)),
                    false => String::new(),
                };
                format!("waits{on}{ready}: {}{}", self.ready(why), in_call())
            }
            Doing::Blocked { state, in_fault, .. } => {
                let fault = if in_fault { " in a page fault" } else { "" };
                format!("blocked ({}){fault}{}", char::from(state), in_call())
            }
        }
    }

    fn ready(&self, why: Ready) -> String {
        match why {
            Ready::Woken(waker) => format!("woken by {}", self.waker(waker)),
            Ready::New(waker) => format!("new, woken by {}", self.waker(waker)),
            Ready::Preempted { by } => format!("preempted by {}", self.who(by)),
            Ready::GaveWay { to } => format!("gave way to {}", self.who(to)),
        }
    }
}

fn marks(doubt: Doubt) -> String {
    if doubt.is_none() { String::new() } else { format!("  [{doubt}]") }
}

/// For programs.
pub fn document(found: &MachineMoment<'_>) -> String {
    json!({
        "schema": "kymo-state-1",
        "at": found.at,
        "cpus": found.cpus.iter().map(|cpu| json_cpu(found, cpu)).collect::<Vec<_>>(),
        "threads": found.threads.iter().map(|thread| json_thread(found, thread)).collect::<Vec<_>>(),
    })
    .to_string()
}

fn json_context(found: &MachineMoment<'_>, context: Context) -> Value {
    match context {
        Context::Unknown => json!({ "kind": "unknown" }),
        Context::Idle => json!({ "kind": "idle" }),
        Context::Thread(tid) => json!({ "kind": "thread", "tid": tid, "name": name(found.state, tid) }),
        Context::Interrupt(interrupt) => {
            json!({ "kind": "interrupt", "interrupt": found.functions.interrupt(interrupt) })
        }
    }
}

fn name(state: &State, tid: i32) -> Value {
    state.thread(tid).map_or(Value::Null, |thread| thread.name.as_str().into())
}

fn json_cpu(found: &MachineMoment<'_>, cpu: &Cpu) -> Value {
    let frame = |frame: &kymo_analyze::Frame| {
        let interrupt = found.functions.interrupt(frame.interrupt);
        json!({ "interrupt": interrupt, "name": frame.name.as_str(), "since": frame.since })
    };
    json!({
        "cpu": cpu.number,
        "context": json_context(found, cpu.context()),
        "current": json_context(found, cpu.current),
        "since": cpu.since,
        "frames": cpu.frames().iter().map(frame).collect::<Vec<_>>(),
        "interrupts_off_since": cpu.off(Off::Irqs).map(|off| off.at),
        "preemption_off_since": cpu.off(Off::Preemption).map(|off| off.at),
        "idle_state": cpu.idle,
        "khz": cpu.khz,
        "doubt": cpu.doubt().names().collect::<Vec<_>>(),
    })
}

fn json_thread(found: &MachineMoment<'_>, thread: &Thread) -> Value {
    let waker = |waker: Waker| {
        let cpu = (waker.cpu != u32::MAX).then_some(waker.cpu);
        json!({ "cpu": cpu, "context": json_context(found, waker.context) })
    };
    let by = |tid: i32| json!({ "tid": tid, "name": name(found.state, tid) });
    let (state, detail) = match thread.doing {
        Doing::Unknown => ("unknown", Value::Null),
        Doing::Forked => ("forked", Value::Null),
        Doing::Ended => ("ended", Value::Null),
        Doing::Running { cpu } => ("running", json!({ "cpu": cpu })),
        Doing::Runnable { why, cpu } => {
            let why = match why {
                Ready::Woken(by) => json!({ "woken_by": waker(by) }),
                Ready::New(by) => json!({ "new_by": waker(by) }),
                Ready::Preempted { by: tid } => json!({ "preempted_by": by(tid) }),
                Ready::GaveWay { to } => json!({ "gave_way_to": by(to) }),
            };
            ("runnable", json!({ "cpu": cpu, "why": why, "ready_from": thread.ready_from }))
        }
        Doing::Blocked { state, in_fault, .. } => {
            ("blocked", json!({ "letter": char::from(state).to_string(), "in_page_fault": in_fault }))
        }
    };
    let call = thread.call.map(|call| {
        let name = found.classes.vocabulary.call_name(call.call);
        json!({ "name": name, "args": call.args, "since": call.since, "owner": call.owner })
    });
    json!({
        "tid": thread.tid,
        "name": thread.name.as_str(),
        "process": thread.process,
        "prio": thread.prio,
        "state": state,
        "detail": detail,
        "since": thread.since,
        "call": call,
        "doubt": thread.doubt.names().collect::<Vec<_>>(),
    })
}
