// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds names and processes to records that only have a tid: those that the machine's state has [spec/analyze.md 3.1].
//!
//! Knows nothing of its own that an earlier record has told: so it does not matter where reading begins.

use std::collections::HashMap;

use kymo_analyze::{Context, Doing, Event, Identity, State};
use kymo_ctf::read::{Item, Loss, Reader, Record, Trace, Value};

use crate::machines::Machines;

/// The state dump stands at the beginning of a trace. After so many records it is not looked for any more.
const DUMP_RECORDS_MAX: u64 = 4_000_000;

/// So many switches must follow from the ones before until they are believed to be all.
const CHAINED_MIN: u64 = 8;

/// CPUs whose idle threads have names of their own.
const CPUS_MAX: u32 = 8192;

/// Characters of a thread's name in the kernel.
const NAME_BYTES_MAX: usize = 15;

/// The event of a state dump that names a thread, and the one behind the last of them.
const DUMP: &str = "lttng_statedump_process_state";
const DUMP_END: &str = "lttng_statedump_end";

/// Events that tell of threads, without the system in front.
const TELLS: [&str; 14] = [
    DUMP,
    DUMP_END,
    "kymo_statedump_thread_name",
    "sched_switch",
    "task_newtask",
    "kymo_statedump_task_newtask",
    "sched_process_fork",
    "sched_wakeup_new",
    "sched_process_exec",
    "kymo_statedump_process_exec",
    "task_rename",
    "kymo_statedump_task_rename",
    "sched_process_exit",
    "sched_process_free",
];

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// Its process.
    pub pid: Option<u32>,
    /// Its name; empty where it is not known.
    pub name: &'a str,
}

/// What is known of the threads of several traces.
pub struct Learn {
    machines: Machines,
    /// By trace; none where it has no events that tell of threads.
    traces: Vec<Option<TraceThreads>>,
    /// Who leaves a CPU by the record that was taken last.
    leaving: Option<(u32, Identity)>,
    /// By CPU: the name of its idle thread. All idle threads have tid 0.
    idle: Vec<String>,
}

/// What a trace's own records and contexts have of threads.
struct TraceThreads {
    /// By event: where its common context has the kernel's number of the thread.
    tids: Vec<Option<usize>>,
    /// By event: its records say all that there is to know of their thread, also where that is nothing.
    says_all: Vec<bool>,
    /// The first state dump: its threads existed before it.
    dump: Dump,
    /// Newest time of a record, ns.
    now: i128,
}

/// The threads of a state dump.
#[derive(Default)]
struct Dump {
    threads: HashMap<u32, Identity>,
    /// Time of its last record, ns: from there on the state has them.
    end: Option<i128>,
}

impl Learn {
    /// Knows what the first state dump of each trace says. `None` where no trace has events that tell of threads.
    pub fn new(traces: &[Trace]) -> Option<Self> {
        if !tell_of_threads(traces) {
            return None;
        }
        let machines = Machines::new(traces);
        let mut learn = Self { machines, traces: Vec::new(), leaving: None, idle: Vec::new() };
        learn.add(traces);
        Some(learn)
    }

    /// Knows what the records before have told, which are not shown.
    pub fn begin(&mut self, state: &State) {
        self.machines.begin(state);
    }

    /// Goes on with the same machines, whose traces may know more events now; there may be more of them, behind.
    pub fn renew(&mut self, traces: &[Trace]) {
        self.machines.renew(traces);
        for (known, trace) in self.traces.iter_mut().zip(traces) {
            if let Some(known) = known {
                (known.tids, known.says_all) = (tids(trace), says_all(trace));
            }
        }
        self.add(traces);
    }

    /// Traces behind those that are known.
    fn add(&mut self, traces: &[Trace]) {
        for (number, trace) in traces.iter().enumerate().skip(self.traces.len()) {
            let tells = || TraceThreads {
                tids: tids(trace),
                says_all: says_all(trace),
                dump: Dump::read(trace, number, &self.machines),
                now: i128::MIN,
            };
            let tells = tells_of_threads(trace).then(tells);
            self.traces.push(tells);
        }
    }

    /// Learns from a record, and adds what is known of its thread to it.
    pub fn record<'a>(&'a mut self, record: &mut Record<'a>) {
        self.take(record);
        self.complete(record);
    }

    /// As [`Learn::record`]. What the record's thread and its process are called, as far as the kernel's records or a
    /// state dump have told it: a program's own records have the name that the program had at first. A record of a
    /// forked child, which still has its parent's number, gets its own.
    pub fn named_record<'a>(&'a mut self, record: &mut Record<'a>) -> Option<(String, String)> {
        self.take(record);
        let tid = self.tid_of(record);
        let pid = self.forked_of(record).or(record.vpid);
        let names = self.names(record, tid, pid);
        record.vpid = pid;
        self.complete(record);
        names
    }

    /// As [`Learn::named_record`], without the names.
    pub fn whole_record<'a>(&'a mut self, record: &mut Record<'a>) {
        self.take(record);
        record.vpid = self.forked_of(record).or(record.vpid);
        self.complete(record);
    }

    /// All threads that are known now: number, and what is known of it.
    pub fn all(&self) -> impl Iterator<Item = (u32, Who<'_>)> {
        let of_state = self.machines.states().iter().flat_map(State::threads).filter_map(|thread| {
            let name = thread.name.as_str();
            let is_known = thread.doing != Doing::Ended && (thread.process.is_some() || !name.is_empty());
            let tid = u32::try_from(thread.tid).ok().filter(|_| is_known)?;
            Some((tid, Who { pid: thread.process.and_then(small), name }))
        });
        let of_dumps = self.traces.iter().enumerate().flat_map(move |(number, trace)| {
            let dump =
                trace.iter().filter(|trace| trace.dump.is_ahead(trace.now)).flat_map(|trace| &trace.dump.threads);
            dump.filter(move |(tid, _)| self.machines.state(number).thread(**tid as i32).is_none())
                .map(|(tid, dumped)| (*tid, who(dumped)))
        });
        of_state.chain(of_dumps)
    }

    /// Forgets what a loss makes doubtful.
    pub fn loss(&mut self, loss: &Loss<'_>) {
        self.leaving = None;
        self.machines.lost(loss);
    }

    fn of(&self, record: &Record<'_>) -> Option<&TraceThreads> {
        self.traces.get(record.trace)?.as_ref()
    }

    /// Moves the state by a record. Its own thread is the one that leaves by it, as it was before.
    #[inline]
    fn take(&mut self, record: &Record<'_>) {
        match self.machines.follows(record) {
            true => self.follow(record),
            // Most records of programs.
            false => self.leaving = None,
        }
        if let Some(Some(trace)) = self.traces.get_mut(record.trace) {
            trace.now = trace.now.max(record.ns);
        }
        if let Some(cpu) = record.cpu.filter(|cpu| *cpu < CPUS_MAX && *cpu as usize >= self.idle.len()) {
            self.idle.extend((self.idle.len()..=cpu as usize).map(|cpu| format!("swapper/{cpu}")));
        }
    }

    fn follow(&mut self, record: &Record<'_>) {
        let (head, event) = self.machines.decode(record);
        self.leaving = match event {
            Some(Event::Switch { prev, prev_name, .. }) => {
                let state = self.machines.state(record.trace);
                let mut identity = state.thread(prev).map(|thread| thread.identity()).unwrap_or_default();
                identity.call(prev_name, state.allows_new_names());
                u32::try_from(prev).ok().map(|prev| (prev, identity))
            }
            _ => None,
        };
        self.machines.apply(record, &head, event.as_ref());
    }

    /// Adds what the record does not have itself.
    fn complete<'a>(&'a self, record: &mut Record<'a>) {
        let says_all = self.of(record).is_none_or(|of| of.says_all.get(record.event_position) == Some(&true));
        if says_all || record.vpid.is_some() && !record.procname.is_empty() {
            return;
        }
        let Some(tid) = self.tid_of(record) else { return };
        let is_of_machine = tid == 0 && is_state(&record.event.name);
        record.vtid = Some(tid);
        if is_of_machine {
            return;
        }
        let who = self.who(record, tid);
        record.vpid = record.vpid.or(who.pid);
        if record.procname.is_empty() {
            record.procname = who.name;
        }
    }

    /// The thread by the kernel's id, in which a record was written.
    fn tid_of(&self, record: &Record<'_>) -> Option<u32> {
        let tid = self.of(record)?.tids.get(record.event_position).copied().flatten();
        match tid.and_then(|position| record.common_context.at(position)) {
            Some(tid) => number(&tid),
            // A tid of some namespace.
            None if record.vtid.is_some() => None,
            None => self.running(record),
        }
    }

    /// The thread that ran on a record's CPU, where the switches are believed to be all.
    fn running(&self, record: &Record<'_>) -> Option<u32> {
        let state = self.machines.state(record.trace);
        if state.chained_switches().is_none_or(|chained| chained < CHAINED_MIN) {
            return None;
        }
        match (&self.leaving, state.cpu(record.cpu?)?.current) {
            (Some((leaving, _)), _) => Some(*leaving),
            (None, Context::Idle) => Some(0),
            (None, Context::Thread(tid)) => small(tid),
            (None, Context::Unknown | Context::Interrupt(_)) => None,
        }
    }

    /// What is known of the thread `tid` at a record, which it has written.
    fn who<'a>(&'a self, record: &Record<'_>, tid: u32) -> Who<'a> {
        if tid != 0 {
            return self.look(record, tid);
        }
        let own = record.cpu.and_then(|cpu| self.idle.get(cpu as usize));
        Who { pid: Some(0), name: own.map_or("swapper", String::as_str) }
    }

    /// What is known of a thread that is not an idle one, at a record.
    fn look<'a>(&'a self, record: &Record<'_>, tid: u32) -> Who<'a> {
        let thread = self.machines.state(record.trace).thread(tid as i32);
        let known = match (&self.leaving, thread) {
            (Some((leaving, identity)), _) if *leaving == tid => who(identity),
            (_, Some(thread)) if thread.doing == Doing::Ended => return Who { pid: None, name: "" },
            (_, Some(thread)) => Who { pid: thread.process.and_then(small), name: thread.name.as_str() },
            (_, None) => Who { pid: None, name: "" },
        };
        let dump = self.of(record).map(|of| &of.dump).filter(|dump| dump.is_ahead(record.ns));
        match dump.and_then(|dump| dump.threads.get(&tid)).map(who) {
            Some(dumped) if known.name.is_empty() || known.name == dumped.name => {
                Who { pid: known.pid.or(dumped.pid), name: dumped.name }
            }
            _ => known,
        }
    }

    /// Names of a thread and of its process, by the kernel's number, or by what a program says of itself where that is
    /// the same thread.
    fn names(&self, record: &Record<'_>, own: Option<u32>, pid: Option<u32>) -> Option<(String, String)> {
        let of_program = pid.zip(record.vtid).filter(|(pid, tid)| self.is_of(record, *pid, *tid));
        let tid = own.or(of_program.map(|(_, tid)| tid)).filter(|tid| *tid != 0)?;
        let thread = self.look(record, tid);
        let process = thread.pid.or(of_program.map(|(pid, _)| pid)).map_or("", |pid| self.look(record, pid).name);
        (!thread.name.is_empty()).then(|| (thread.name.to_owned(), process.to_owned()))
    }

    /// Whether `tid` is a thread of `pid`, as a program's record tells. In a container it sees other ids than the
    /// kernel: where the kernel does not know the process, the record is believed if the kernel's events give its main
    /// thread the same name.
    fn is_of(&self, record: &Record<'_>, pid: u32, tid: u32) -> bool {
        let thread = self.look(record, tid);
        let has_name = || !thread.name.is_empty() && !record.procname.is_empty();
        match thread.pid {
            Some(known) => known == pid,
            None => has_name() && self.look(record, pid).name == cut(record.procname),
        }
    }

    /// The process of a program's record, where the kernel knows better than the packet: a forked child writes into its
    /// parent's packets until it has its own. The kernel is believed if both know the program's main thread by one
    /// name.
    fn forked_of(&self, record: &Record<'_>) -> Option<u32> {
        self.of(record)?;
        let (pid, tid) = record.vpid.zip(record.vtid)?;
        let other = self.look(record, tid).pid.filter(|other| *other != pid)?;
        // By name, so only where it matters.
        record.packet_context.get("vpid")?;
        let main = self.look(record, pid);
        let is_same = main.pid == Some(pid) && !record.procname.is_empty() && main.name == cut(record.procname);
        is_same.then_some(other)
    }
}

impl Dump {
    /// Reads up to the end of the first dump.
    fn read(trace: &Trace, number: usize, machines: &Machines) -> Dump {
        let mut dump = Dump::default();
        let names: Vec<bool> = trace.metadata.events.iter().map(|event| event.name == DUMP).collect();
        if !names.contains(&true) {
            return dump;
        }
        let mut reader = Reader::new(std::slice::from_ref(trace));
        let mut records = 0;
        while let Some(item) = reader.next() {
            let Item::Record(record) = item else { continue };
            if names[record.event_position] {
                dump.take(&Record { trace: number, ..record }, machines);
            } else if record.event.name == DUMP_END {
                dump.end = Some(record.ns);
                break;
            }
            records += 1;
            if records >= DUMP_RECORDS_MAX {
                break;
            }
        }
        dump
    }

    fn take(&mut self, record: &Record<'_>, machines: &Machines) {
        if let (_, Some(Event::Dumped { tid, process, name, .. })) = machines.decode(record) {
            self.end = Some(record.ns);
            let tid = small(tid).filter(|tid| *tid != 0);
            tid.map(|tid| self.threads.insert(tid, Identity { process: Some(process), name }));
        }
    }

    fn is_ahead(&self, ns: i128) -> bool {
        self.end.is_some_and(|end| ns < end)
    }
}

fn who(identity: &Identity) -> Who<'_> {
    Who { pid: identity.process.and_then(small), name: identity.name.as_str() }
}

/// A name as the kernel keeps it.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Whether records of these traces tell of threads.
pub fn tell_of_threads(traces: &[Trace]) -> bool {
    traces.iter().any(tells_of_threads)
}

fn tells_of_threads(trace: &Trace) -> bool {
    trace.metadata.events.iter().any(|event| {
        let name = event.name.strip_prefix("sched:").or_else(|| event.name.strip_prefix("task:"));
        TELLS.contains(&name.unwrap_or(&event.name))
    })
}

/// Whether an event is one of a state dump, by its name: LTTng's, or one of those that only kymo writes.
pub fn is_state(name: &str) -> bool {
    name.starts_with("lttng_statedump_") || name.starts_with("kymo_statedump_")
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

fn small(number: i32) -> Option<u32> {
    u32::try_from(number).ok()
}

fn number(value: &Value<'_>) -> Option<u32> {
    match value {
        Value::Int(number, _) | Value::Enum(number, _) => u32::try_from(i128::from(*number)).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_characters() {
        for (name, expect) in [("", ""), ("exactly15bytes_", "exactly15bytes_"), ("fourteen_bytesü", "fourteen_bytes")]
        {
            assert_eq!(cut(name), expect);
        }
    }
}
