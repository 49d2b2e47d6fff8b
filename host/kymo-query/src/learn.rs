// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes what a trace tells of threads out of its records, and adds names and processes to records that only have a
//! tid.
//!
//! By the kernel's own names of events and fields (`sched:sched_switch`, `prev_pid`) and by LTTng's (`sched_switch`,
//! `prev_tid`).

use kymo_analyze::{Context, State};
use kymo_ctf::read::{Fields, Item, Loss, Number, Reader, Record, Trace, Value};

use crate::known::{Threads, Who};

/// The state dump stands at the beginning of a trace. After so many records it is not looked for any more.
const DUMP_RECORDS_MAX: u64 = 4_000_000;

/// `clone`'s flag for a thread of the same process.
const CLONE_THREAD: i128 = 0x1_0000;

/// States in which the kernel switches away from a thread for the last time: zombie and dead, by its own values and
/// LTTng's.
const DEAD: i128 = 0xF0;

/// So many switches must follow from the ones before until they are believed to be all.
const CHAINED_MIN: u32 = 8;

/// What an event says of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    Dump,
    DumpEnd,
    /// The saved command lines of an imported trace: a name, and no process.
    Named,
    Switch,
    Create,
    Fork,
    WakeNew,
    Exec,
    Rename,
    Exit,
    Free,
}

impl Tells {
    fn by_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("sched:").or_else(|| name.strip_prefix("task:")).unwrap_or(name);
        Some(match name {
            "lttng_statedump_process_state" => Self::Dump,
            "lttng_statedump_end" => Self::DumpEnd,
            "kymo_statedump_thread_name" => Self::Named,
            "sched_switch" => Self::Switch,
            "task_newtask" | "kymo_statedump_task_newtask" => Self::Create,
            "sched_process_fork" => Self::Fork,
            "sched_wakeup_new" => Self::WakeNew,
            "sched_process_exec" | "kymo_statedump_process_exec" => Self::Exec,
            "task_rename" | "kymo_statedump_task_rename" => Self::Rename,
            "sched_process_exit" => Self::Exit,
            "sched_process_free" => Self::Free,
            _ => return None,
        })
    }
}

/// What is known of the threads of several traces.
pub struct Learn(Vec<Option<Machine>>);

/// The machine that one trace is of.
struct Machine {
    /// By event.
    tells: Vec<Option<Tells>>,
    /// By event: where its common context has the kernel's number of the thread.
    tids: Vec<Option<usize>>,
    /// By event: its records say all that there is to know of their thread, also where that is nothing.
    says_all: Vec<bool>,
    threads: Threads,
    /// A switch that was shown, and holds for the records behind it.
    switch: Option<Switch>,
    /// How many switches began with the thread that the one before had ended with. `None` when one did not: where
    /// switches are left out (a trace of chosen processes only), what runs on a CPU is not known.
    chained: Option<u32>,
}

struct Switch {
    cpu: Option<u32>,
    before: u32,
    is_dead: bool,
    next: u32,
}

impl Learn {
    /// Knows what the first state dump of each trace says. `None` where no trace has events that tell of threads.
    pub fn new(traces: &[Trace]) -> Option<Self> {
        let machines: Vec<_> = traces.iter().map(Machine::new).collect();
        machines.iter().any(Option::is_some).then_some(Self(machines))
    }

    /// Knows what the records before have told, which are not shown.
    pub fn begin(&mut self, state: &State) {
        self.0.iter_mut().flatten().for_each(|machine| machine.begin(state));
    }

    /// Goes on with the same machines, whose traces may know more events now; there may be more of them, behind.
    pub fn renew(&mut self, traces: &[Trace]) {
        for (machine, trace) in self.0.iter_mut().zip(traces) {
            for machine in machine.iter_mut() {
                (machine.tells, machine.tids) = (tells(trace), tids(trace));
                machine.says_all = says_all(trace);
            }
        }
        let known = self.0.len();
        self.0.extend(traces.iter().skip(known).map(Machine::new));
    }

    /// Learns from a record, and adds what is known of its thread to it.
    pub fn record<'a>(&'a mut self, record: &mut Record<'a>) {
        if let Some(machine) = self.0.get_mut(record.trace).and_then(Option::as_mut) {
            machine.learn(record);
            machine.complete(record);
        }
    }

    /// As [`Learn::record`]. What the record's thread and its process are called, as far as the kernel's records or a
    /// state dump have told it: a program's own records have the name that the program had at first. A record of a
    /// forked child, which still has its parent's number, gets its own.
    pub fn named_record<'a>(&'a mut self, record: &mut Record<'a>) -> Option<(String, String)> {
        let machine = self.0.get_mut(record.trace).and_then(Option::as_mut)?;
        machine.learn(record);
        let (own, pid) = (machine.tid_of(record), machine.forked_of(record).or(record.vpid));
        let of_program = pid.zip(record.vtid);
        let names = machine.names(own, of_program);
        record.vpid = pid;
        machine.complete(record);
        names
    }

    /// As [`Learn::named_record`], without the names.
    pub fn whole_record<'a>(&'a mut self, record: &mut Record<'a>) {
        if let Some(machine) = self.0.get_mut(record.trace).and_then(Option::as_mut) {
            machine.learn(record);
            record.vpid = machine.forked_of(record).or(record.vpid);
            machine.complete(record);
        }
    }

    /// All threads that are known now: number, and what is known of it.
    pub fn all(&self) -> impl Iterator<Item = (u32, Who<'_>)> {
        self.0.iter().flatten().flat_map(|machine| machine.threads.all())
    }

    /// Forgets what a loss makes doubtful.
    pub fn loss(&mut self, loss: &Loss<'_>) {
        if let Some(machine) = self.0.get_mut(loss.trace).and_then(Option::as_mut) {
            machine.take_switch();
            machine.threads.lost(loss.cpu);
        }
    }
}

impl Machine {
    fn new(trace: &Trace) -> Option<Self> {
        let tells = tells(trace);
        let has_dump = tells.contains(&Some(Tells::Dump));
        let is_of_use = tells.iter().any(Option::is_some);
        let (tids, says_all) = (tids(trace), says_all(trace));
        let mut machine = Self { tells, tids, says_all, threads: Threads::default(), switch: None, chained: Some(0) };
        if has_dump {
            machine.read_dump(trace);
        }
        is_of_use.then_some(machine)
    }

    fn begin(&mut self, state: &State) {
        let number = |number: i32| u32::try_from(number).ok();
        for thread in state.threads().filter(|thread| !thread.name.is_empty() || thread.process.is_some()) {
            if let Some(tid) = number(thread.tid) {
                self.threads.known(tid, thread.process.and_then(number), thread.name.as_str());
            }
        }
        self.chained = state.chained_switches().map(|chained| chained.try_into().unwrap_or(u32::MAX));
        for cpu in state.cpus() {
            match cpu.current {
                Context::Thread(tid) => number(tid).into_iter().for_each(|tid| self.threads.runs(tid, cpu.number)),
                Context::Idle => self.threads.runs(0, cpu.number),
                Context::Unknown | Context::Interrupt(_) => {}
            }
        }
    }

    /// Reads up to the end of the first dump: its threads existed before it.
    fn read_dump(&mut self, trace: &Trace) {
        let mut reader = Reader::new(std::slice::from_ref(trace));
        let mut records = 0;
        while let Some(item) = reader.next() {
            let Item::Record(record) = item else { continue };
            match self.tells[record.event_position] {
                Some(Tells::Dump) => self.dumped(&record.payload),
                Some(Tells::DumpEnd) => return,
                _ => {}
            }
            records += 1;
            if records >= DUMP_RECORDS_MAX {
                return;
            }
        }
    }

    fn dumped(&mut self, fields: &Fields<'_>) {
        if let (Some(tid), Some(pid), Some(name)) = (id(fields, "tid"), id(fields, "pid"), fields.get("name")) {
            text(&name, |name| self.threads.dumped(tid, pid, name));
        }
    }

    fn learn(&mut self, record: &Record<'_>) {
        self.take_switch();
        match self.tells[record.event_position] {
            // A program's event that has such a name tells nothing of the kernel.
            Some(tells) if record.packet_context.get("vpid").is_none() => self.take(tells, record),
            _ => {
                if let (Some(pid), Some(tid)) = (record.vpid, record.vtid) {
                    self.threads.program(pid, record.procname, tid);
                }
            }
        }
    }

    fn take(&mut self, tells: Tells, record: &Record<'_>) {
        let fields = &record.payload;
        match (tells, own_id(fields)) {
            (Tells::Dump, _) => self.dumped(fields),
            (Tells::Switch, _) => self.switch(record),
            (Tells::Create, _) => self.create(record),
            (Tells::Fork, _) => self.fork(fields),
            (Tells::Rename, _) => self.rename(record),
            (Tells::WakeNew, Some(tid)) => named(fields, "comm", |name| self.threads.named(tid, name)),
            (Tells::Exec, Some(tid)) => {
                let old = id(fields, "old_tid").or_else(|| id(fields, "old_pid"));
                named(fields, "filename", |name| self.threads.executed(tid, old, name));
            }
            (Tells::Exit, Some(tid)) => {
                named(fields, "comm", |name| self.threads.named(tid, name));
                self.threads.exiting(tid);
            }
            (Tells::Free, Some(tid)) => self.threads.freed(tid),
            (Tells::Named, Some(tid)) => named(fields, "name", |name| self.threads.renamed(tid, name)),
            (Tells::DumpEnd | Tells::Named | Tells::WakeNew | Tells::Exec | Tells::Exit | Tells::Free, _) => {}
        }
    }

    fn switch(&mut self, record: &Record<'_>) {
        let fields = &record.payload;
        let thread = |lttng, kernel| id(fields, lttng).or_else(|| id(fields, kernel));
        let (Some(before), Some(next)) = (thread("prev_tid", "prev_pid"), thread("next_tid", "next_pid")) else {
            return;
        };
        named(fields, "prev_comm", |name| self.threads.named(before, name));
        named(fields, "next_comm", |name| self.threads.named(next, name));
        if let Some(ran) = record.cpu.and_then(|cpu| self.threads.running(cpu)) {
            self.chained = self.chained.filter(|_| ran == before).map(|chained| chained.saturating_add(1));
        }
        let state = fields.get("prev_state").and_then(|state| integer(&state));
        let is_dead = state.is_some_and(|state| state & DEAD != 0);
        self.switch = Some(Switch { cpu: record.cpu, before, is_dead, next });
    }

    /// A switch's own record is still of the thread that leaves; what is behind it is of the next.
    fn take_switch(&mut self) {
        if let Some(Switch { cpu, before, is_dead, next }) = self.switch.take() {
            self.threads.switched(cpu, before, is_dead, next);
        }
    }

    /// Adds what the record does not have itself.
    fn complete<'a>(&'a mut self, record: &mut Record<'a>) {
        let says_all = self.says_all.get(record.event_position).is_some_and(|says_all| *says_all);
        if says_all || record.vpid.is_some() && !record.procname.is_empty() {
            return;
        }
        let Some(tid) = self.tid_of(record) else { return };
        let is_of_machine = tid == 0 && is_state(&record.event.name);
        record.vtid = Some(tid);
        if is_of_machine {
            return;
        }
        let who = self.threads.who(tid, record.cpu);
        record.vpid = record.vpid.or(who.pid);
        if record.procname.is_empty() {
            record.procname = who.name;
        }
    }

    /// The thread by the kernel's id, in which a record was written.
    fn tid_of(&self, record: &Record<'_>) -> Option<u32> {
        let tid = self.tids.get(record.event_position).copied().flatten();
        match tid.and_then(|position| record.common_context.at(position)) {
            Some(tid) => small(&tid),
            // A tid of some namespace.
            None if record.vtid.is_some() => None,
            None if self.chained.is_some_and(|chained| chained >= CHAINED_MIN) => {
                record.cpu.and_then(|cpu| self.threads.running(cpu))
            }
            None => None,
        }
    }

    /// Names of a thread and of its process, by the kernel's number, or by what a program says of itself where that is
    /// the same thread.
    fn names(&self, own: Option<u32>, of_program: Option<(u32, u32)>) -> Option<(String, String)> {
        let is_same = |(pid, tid): &(u32, u32)| self.threads.is_of(*pid, *tid);
        let tid = own.or(of_program.filter(is_same).map(|(_, tid)| tid)).filter(|tid| *tid != 0)?;
        let thread = self.threads.look(tid);
        let process = thread.pid.map_or("", |pid| self.threads.look(pid).name);
        (!thread.name.is_empty()).then(|| (thread.name.to_owned(), process.to_owned()))
    }

    /// The process of a program's record, where the kernel knows better than the packet: a forked child writes into its
    /// parent's packets until it has its own.
    fn forked_of(&self, record: &Record<'_>) -> Option<u32> {
        let (pid, tid) = record.vpid.zip(record.vtid).filter(|_| record.packet_context.get("vpid").is_some())?;
        self.threads.forked_of(pid, record.procname, tid)
    }

    fn rename(&mut self, record: &Record<'_>) {
        let fields = &record.payload;
        if let Some(tid) = own_id(fields) {
            return named(fields, "newcomm", |new| self.threads.renamed(tid, new));
        }
        // Newer kernels leave the thread out, which mostly renames itself.
        let Some(tid) = self.tid_of(record) else { return };
        named(fields, "oldcomm", |old| named(fields, "newcomm", |new| self.threads.renamed_from(tid, old, new)));
    }

    fn create(&mut self, record: &Record<'_>) {
        let fields = &record.payload;
        let Some(tid) = own_id(fields) else { return };
        let pid = match fields.get("clone_flags").and_then(|flags| integer(&flags)) {
            Some(flags) if flags & CLONE_THREAD == 0 => Some(tid),
            Some(_) => self.tid_of(record).and_then(|parent| self.threads.who(parent, record.cpu).pid),
            None => None,
        };
        named(fields, "comm", |name| self.threads.created(tid, pid, name));
    }

    fn fork(&mut self, fields: &Fields<'_>) {
        // LTTng has both; in the kernel's own event `child_pid` is the tid.
        let (tid, pid) = match id(fields, "child_tid") {
            Some(tid) => (Some(tid), id(fields, "child_pid")),
            None => (id(fields, "child_pid"), None),
        };
        let Some(tid) = tid else { return };
        named(fields, "child_comm", |name| self.threads.forked(tid, pid, name));
    }
}

/// Whether records of these traces tell of threads.
pub fn tell_of_threads(traces: &[Trace]) -> bool {
    traces.iter().any(|trace| tells(trace).iter().any(Option::is_some))
}

/// Whether an event is one of a state dump, by its name: LTTng's, or one of those that only kymo writes.
pub fn is_state(name: &str) -> bool {
    name.starts_with("lttng_statedump_") || name.starts_with("kymo_statedump_")
}

/// By event.
fn tells(trace: &Trace) -> Vec<Option<Tells>> {
    trace.metadata.events.iter().map(|event| Tells::by_name(&event.name)).collect()
}

/// By event.
fn tids(trace: &Trace) -> Vec<Option<usize>> {
    let tid =
        |event| trace.metadata.contexts(event).iter().find(|field| field.name == "tid").map(|field| field.position);
    (0..trace.metadata.events.len()).map(tid).collect()
}

/// By event: whether an export of ours has written thread, process and name into each record.
fn says_all(trace: &Trace) -> Vec<bool> {
    let is_export = trace.metadata.env.iter().any(|(key, _)| key == "kymo_export");
    let has_all = |event| {
        let contexts = trace.metadata.contexts(event);
        ["tid", "pid", "procname"].iter().all(|name| contexts.iter().any(|context| context.name == *name))
    };
    (0..trace.metadata.events.len()).map(|event| is_export && has_all(event)).collect()
}

/// The thread that an event is about.
fn own_id(fields: &Fields<'_>) -> Option<u32> {
    id(fields, "tid").or_else(|| id(fields, "pid"))
}

fn id(fields: &Fields<'_>, name: &str) -> Option<u32> {
    fields.get(name).and_then(|value| small(&value))
}

fn small(value: &Value<'_>) -> Option<u32> {
    integer(value).and_then(|value| u32::try_from(value).ok())
}

fn integer(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(number, _) | Value::Enum(number, _) => Some(Number::into(*number)),
        _ => None,
    }
}

fn named(fields: &Fields<'_>, name: &str, take: impl FnOnce(&str)) {
    if let Some(value) = fields.get(name) {
        text(&value, take);
    }
}

fn text(value: &Value<'_>, take: impl FnOnce(&str)) {
    if let Value::Text(text) = value {
        take(text);
    }
}
