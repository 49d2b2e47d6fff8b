// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the machines that traces are of, record by record: for filters that ask for it [spec/filter.md 4.1],
//! and for the names and processes of threads.

use std::borrow::Cow;

use kymo_analyze::{Context as Doing, Event, Head, State, Vocabulary};
use kymo_ctf::read::{Loss, Record, Trace};
use kymo_ctf::write::EnvValue;
use kymo_feed::{Classes, clamp, is_by_writer, is_of_samples};
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
    /// What they are.
    known: Vec<Machine>,
    states: Vec<State>,
    /// By trace: position of its state.
    of_trace: Vec<usize>,
    /// By trace: whether it has records of a kernel.
    of_kernel: Vec<bool>,
    /// Losses up to then are in the states that were given.
    begun: i64,
}

impl Machines {
    /// In front of the first record.
    pub fn new(traces: &[Trace]) -> Machines {
        let classes = Classes::new(traces);
        let mut machines = Machines {
            classes,
            known: Vec::new(),
            states: Vec::new(),
            of_trace: Vec::new(),
            of_kernel: Vec::new(),
            begun: i64::MIN,
        };
        machines.place(traces);
        machines
    }

    /// Goes on with the same machines, whose traces may have more classes now; there may be more of them, behind.
    pub fn renew(&mut self, traces: &[Trace]) {
        self.classes = Classes::new(traces);
        self.states.iter_mut().for_each(|state| state.renew(&self.classes.vocabulary));
        self.place(traces);
    }

    /// Which trace is of which machine.
    fn place(&mut self, traces: &[Trace]) {
        self.of_trace.clear();
        for trace in traces {
            let own = machine(trace);
            let position = self.known.iter().position(|known| *known == own).unwrap_or(self.known.len());
            self.of_trace.push(position);
            if position == self.known.len() {
                self.known.push(own);
                self.states.push(State::new(&self.classes.vocabulary));
            }
        }
        let is_of_kernel = |(number, trace): (usize, &Trace)| {
            (0..trace.metadata.events.len()).any(|event| self.classes.is_of_kernel(number, event))
        };
        self.of_kernel = traces.iter().enumerate().map(is_of_kernel).collect();
    }

    /// Goes on from a state, if there is one machine only, or records of one kernel only.
    pub fn begin(&mut self, state: &State) {
        let kernels = self.of_trace.iter().zip(&self.of_kernel).filter(|(_, of_kernel)| **of_kernel);
        let mut machines: Vec<usize> = kernels.map(|(machine, _)| *machine).collect();
        machines.sort_unstable();
        machines.dedup();
        match (&machines[..], &mut self.states[..]) {
            ([only], states) => states[*only] = state.clone(),
            ([], [own]) => *own = state.clone(),
            _ => return,
        }
        self.begun = state.now().unwrap_or(i64::MIN);
    }

    /// The state of the machine that a trace is of.
    pub fn state(&self, trace: usize) -> &State {
        &self.states[self.of_trace[trace]]
    }

    /// The states of all machines.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Where and when a record was written, and what it says of the state.
    pub fn decode(&self, record: &Record<'_>) -> (Head, Option<Event>) {
        self.classes.decode(record)
    }

    /// Whether [`Machines::apply`] may move a state by a record.
    #[inline]
    pub fn follows(&self, record: &Record<'_>) -> bool {
        self.classes.says_something(self.classes.of(record))
    }

    /// What is known in front of a record; `None` where it was written on no CPU.
    pub fn now(&self, record: &Record<'_>) -> Option<Now<'_>> {
        Now::new(&self.states[self.of_trace[record.trace]], &self.classes.vocabulary, record.cpu)
    }

    /// Moves by a record.
    pub fn record(&mut self, record: &Record<'_>) {
        let (head, event) = self.decode(record);
        self.apply(record, &head, event.as_ref());
    }

    /// The same, of what [`Machines::decode`] has found.
    pub fn apply(&mut self, record: &Record<'_>, head: &Head, event: Option<&Event>) {
        let state = &mut self.states[self.of_trace[record.trace]];
        match event {
            Some(event) => state.apply(head, event, &mut ()),
            None if head.tid.is_some() && is_by_writer(record.stream) => state.pass(head, &mut ()),
            None => {}
        }
    }

    /// Records are missing. Those of a program, which say its process, do not move a state, nor do samples.
    pub fn lost(&mut self, loss: &Loss<'_>) {
        let is_of_kernel = loss.vpid.is_none() && self.of_kernel[loss.trace] && !is_of_samples(loss.stream);
        let (from, to) = (clamp(loss.from_ns), clamp(loss.to_ns));
        if is_of_kernel && from > self.begun {
            self.states[self.of_trace[loss.trace]].lost(loss.cpu, from, to, &mut ());
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
