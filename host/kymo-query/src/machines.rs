// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the machines that traces are of, record by record, for filters that ask for it [spec/filter.md 4.1].

use std::borrow::Cow;

use kymo_analyze::{Context as Doing, State, Vocabulary};
use kymo_ctf::read::{Loss, Record, Trace};
use kymo_ctf::write::EnvValue;
use kymo_feed::Classes;
use kymo_filter::{Context, Value};

/// How a machine is told from others: the boot, which clocks have as their id; else its name.
#[derive(PartialEq, Eq)]
pub enum Machine {
    /// The boot.
    Boot([u8; 16]),
    /// The name.
    Name(String),
}

/// The machine that a trace is of.
pub fn machine(trace: &Trace) -> Machine {
    let boot = trace.metadata.clocks.iter().find_map(|clock| clock.uuid);
    boot.map_or_else(|| Machine::Name(host_name(trace)), Machine::Boot)
}

/// The name of the machine that a trace is of; of the trace, where it does not say.
pub fn host_name(trace: &Trace) -> String {
    let name = trace.metadata.env.iter().find(|(key, _)| key == "hostname").map(|(_, value)| value);
    match name {
        Some(EnvValue::Text(name)) if !name.is_empty() => name.clone(),
        _ => trace.label.clone(),
    }
}

/// A state for all traces of one machine.
pub struct Machines {
    classes: Classes,
    states: Vec<State>,
    /// By trace: position of its state.
    of_trace: Vec<usize>,
}

impl Machines {
    /// In front of the first record.
    pub fn new(traces: &[Trace]) -> Machines {
        let classes = Classes::new(traces);
        let mut machines = Vec::new();
        let mut of_trace = Vec::with_capacity(traces.len());
        for trace in traces {
            let own = machine(trace);
            let known = machines.iter().position(|known| *known == own);
            of_trace.push(known.unwrap_or(machines.len()));
            if known.is_none() {
                machines.push(own);
            }
        }
        let states = machines.iter().map(|_| State::new(&classes.vocabulary)).collect();
        Machines { classes, states, of_trace }
    }

    /// Goes on from a state, if there is one machine only.
    pub fn begin(&mut self, state: &State) {
        if let [own] = &mut self.states[..] {
            *own = state.clone();
        }
    }

    /// What is known in front of a record; `None` where it was written on no CPU.
    pub fn now(&self, record: &Record<'_>) -> Option<Now<'_>> {
        Now::new(&self.states[self.of_trace[record.trace]], &self.classes.vocabulary, record.cpu)
    }

    /// Moves by a record.
    pub fn record(&mut self, record: &Record<'_>) {
        self.classes.apply(record, &mut self.states[self.of_trace[record.trace]]);
    }

    /// Records are missing. Those of a program, which say its process, do not move a state.
    pub fn lost(&mut self, loss: &Loss<'_>) {
        if loss.vpid.is_none() {
            let clamp = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            let state = &mut self.states[self.of_trace[loss.trace]];
            state.lost(loss.cpu, clamp(loss.from_ns), clamp(loss.to_ns), &mut ());
        }
    }
}

/// What a record's CPU does.
pub struct Now<'m> {
    state: &'m State,
    vocabulary: &'m Vocabulary,
    cpu: &'m kymo_analyze::Cpu,
}

impl<'m> Now<'m> {
    /// On a CPU; `None` where it is not known.
    pub fn new(state: &'m State, vocabulary: &'m Vocabulary, cpu: Option<u32>) -> Option<Now<'m>> {
        Some(Now { state, vocabulary, cpu: state.cpu(cpu?)? })
    }

    /// The value of a context of the state.
    pub fn value(&self, context: Context) -> Value<'m> {
        let found = match context {
            Context::Running => self.running().map(|tid| Value::Int(tid.into())),
            Context::Task => self.task().map(Value::Text),
            Context::TaskPrio => self.thread().and_then(|thread| thread.prio).map(|prio| Value::Int(prio.into())),
            Context::Syscall => self.syscall().map(Value::Text),
            Context::Doing => self.doing().map(Value::Text),
            _ => None,
        };
        found.unwrap_or(Value::Absent)
    }

    fn running(&self) -> Option<i32> {
        match self.cpu.current {
            Doing::Idle => Some(0),
            Doing::Thread(tid) => Some(tid),
            _ => None,
        }
    }

    fn thread(&self) -> Option<&'m kymo_analyze::Thread> {
        self.state.thread(self.running()?)
    }

    fn task(&self) -> Option<Cow<'m, str>> {
        if self.running()? == 0 {
            return Some(format!("swapper/{}", self.cpu.number).into());
        }
        let name = self.thread()?.name;
        (!name.is_empty()).then(|| name.to_string().into())
    }

    fn syscall(&self) -> Option<Cow<'m, str>> {
        self.running().filter(|_| self.vocabulary.facts().calls)?;
        let call = self.thread().and_then(|thread| thread.call.as_ref());
        Some(call.map_or("".into(), |call| self.vocabulary.call_name(call.call)))
    }

    fn doing(&self) -> Option<Cow<'m, str>> {
        match self.cpu.context() {
            Doing::Unknown => None,
            Doing::Idle => Some("idle".into()),
            Doing::Thread(_) => Some("thread".into()),
            Doing::Interrupt(interrupt) => Some(interrupt.to_string().into()),
        }
    }
}
