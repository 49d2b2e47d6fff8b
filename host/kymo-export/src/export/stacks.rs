// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call stacks of a trace [spec/exchange.md 2, 4]: those that records carry, or those that entries and exits of
//! functions make.
//! Counted by thread; written as collapsed stacks here, and by `speedscope`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use kymo_analyze::functions::Functions;
use kymo_ctf::read::{Loss, Record, Trace, Value};

use super::exporter::{Done, Exporter};
use super::facts::is_kernel;
use super::output::Output;
use crate::Error;

/// The event of samples of the kernel.
const SAMPLE: &str = "perf:cpu-clock";
/// Different stacks at most; what is beyond is counted as left out.
const STACKS_MAX: usize = 1 << 20;

/// Where an address is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// In the kernel.
    Kernel,
    /// In a process: position of its trace, and its number as it sees itself.
    Process(usize, u32),
}

/// What a frame or a function is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frame {
    /// By its address.
    Address(Space, u64),
    /// By its name, as the trace has it.
    Name(String),
}

/// Whose calls they are: trace, process, thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// Position of the trace.
    pub trace: usize,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

/// Names of addresses. Learns from the records what is mapped where; is asked when all were seen.
pub trait Naming {
    /// Sees a record.
    fn learn(&mut self, record: &Record<'_>);
    /// The function at an address, with `+0x12` where it is not its begin.
    fn name(&mut self, space: Space, address: u64) -> Option<String>;
    /// Functions at the addresses in a record's fields: `caller.function` and the function.
    fn of_fields(&mut self, _record: &Record<'_>) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Names of addresses, from wherever.
pub type Symbols = Box<dyn Naming>;

/// No names: addresses stay addresses.
pub struct NoNames;

impl Naming for NoNames {
    fn learn(&mut self, _record: &Record<'_>) {}

    fn name(&mut self, _space: Space, _address: u64) -> Option<String> {
        None
    }
}

/// An entry or an exit of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Begins.
    Enter(Frame),
    /// Ends; `None`: the innermost.
    Leave(Option<Frame>),
}

/// Whether records of an event are entries or exits of functions [spec/exchange.md 4].
pub fn is_call(event: &str) -> bool {
    CALLS.iter().any(|(name, ..)| *name == event)
}

/// Event, its field with the function, whether it is an entry, whether it is of the kernel.
const CALLS: [(&str, &str, bool, bool); 8] = [
    ("function:entry", "function", true, false),
    ("function:exit", "function", false, false),
    ("lttng_ust_cyg_profile:func_entry", "addr", true, false),
    ("lttng_ust_cyg_profile:func_exit", "addr", false, false),
    ("lttng_ust_cyg_profile_fast:func_entry", "addr", true, false),
    ("lttng_ust_cyg_profile_fast:func_exit", "addr", false, false),
    ("ftrace:funcgraph_entry", "func", true, true),
    ("ftrace:funcgraph_exit", "func", false, true),
];

/// What a record says of calls.
pub fn call_of(record: &Record<'_>) -> Option<Call> {
    let (_, field, enters, of_kernel) = CALLS.iter().find(|(name, ..)| *name == record.event.name)?;
    let space = if *of_kernel { Space::Kernel } else { Space::Process(record.trace, process(record)) };
    let frame = record.payload.get(field).and_then(|value| frame_of(&value, space));
    if *enters { frame.map(Call::Enter) } else { Some(Call::Leave(frame)) }
}

fn frame_of(value: &Value<'_>, space: Space) -> Option<Frame> {
    match value {
        Value::Int(number, _) => Some(Frame::Address(space, i128::from(*number) as u64)),
        Value::Text(name) => Some(Frame::Name(name.clone().into_owned())),
        _ => None,
    }
}

/// The process that a sample is of: its stack goes from the kernel into it.
fn sampled_process(record: &Record<'_>) -> Option<u32> {
    match record.payload.get("pid") {
        Some(Value::Int(number, _)) if record.event.name == SAMPLE => u32::try_from(i128::from(number)).ok(),
        _ => None,
    }
}

/// Whether an address is in the upper half, which is the kernel's.
fn is_in_kernel(address: &Value<'_>) -> bool {
    matches!(address, Value::Int(number, _) if (i128::from(*number) as u64) >> 63 == 1)
}

fn process(record: &Record<'_>) -> u32 {
    record.vpid.or(record.vtid).unwrap_or(0)
}

/// The thread of a record.
pub fn who(record: &Record<'_>) -> Who {
    // Each CPU has an idle thread, all with the number 0: a CPU cannot be in two of their calls.
    let tid = match (record.vtid, record.cpu) {
        (Some(0) | None, Some(cpu)) if is_kernel(record) => u32::MAX - cpu,
        (tid, _) => tid.unwrap_or(0),
    };
    Who { trace: record.trace, pid: process(record), tid }
}

/// The stack that a record carries, outermost frame first, and how much it counts.
fn stack_of(record: &Record<'_>) -> Option<(Vec<Frame>, u64)> {
    let weight = match record.payload.get("period") {
        Some(Value::Int(number, _)) => u64::try_from(i128::from(number)).unwrap_or(1),
        _ => 1,
    };
    if let Some(Value::Text(frames)) = record.payload.get("frames") {
        let names = frames.split(';').filter(|name| !name.is_empty());
        let mut stack: Vec<Frame> = names.map(|name| Frame::Name(plain(name))).collect();
        stack.reverse();
        return Some((stack, weight)).filter(|(stack, _)| !stack.is_empty());
    }
    let carried = record.common_context.get("callstack").or_else(|| record.payload.get("callstack"));
    let Some(Value::Array(addresses)) = carried else { return None };
    let of_process = Space::Process(record.trace, sampled_process(record).unwrap_or_else(|| process(record)));
    let is_of_kernel = is_kernel(record);
    let space = |address: &Value<'_>| match (is_of_kernel, is_in_kernel(address)) {
        (true, true) => Space::Kernel,
        (true, false) if sampled_process(record).is_none() => Space::Kernel,
        _ => of_process,
    };
    let mut stack: Vec<Frame> = addresses.iter().filter_map(|address| frame_of(&address, space(&address))).collect();
    stack.reverse();
    Some((stack, weight)).filter(|(stack, _)| !stack.is_empty())
}

/// `name` of `name+0x12 (module)`.
fn plain(frame: &str) -> String {
    let name = frame.rfind(" (").map_or(frame, |at| &frame[..at]);
    let offset = name.rfind("+0x").filter(|at| name[at + 3..].bytes().all(|byte| byte.is_ascii_hexdigit()));
    let name = offset.map_or(name, |at| &name[..at]);
    if name == "[unknown]" { frame.to_owned() } else { name.to_owned() }
}

/// All stacks of a trace.
pub struct Stacks {
    symbols: Symbols,
    calls: Functions<Frame, Who>,
    carried: BTreeMap<Who, HashMap<Vec<Frame>, u64>>,
    names: HashMap<Who, String>,
    different: usize,
    done: Done,
}

/// Stacks of one thread: frames from the outermost on, and what each counts.
pub struct OfThread {
    /// For people.
    pub name: String,
    /// In the order of the frames.
    pub stacks: Vec<(Vec<String>, u64)>,
}

impl Stacks {
    /// None yet.
    pub fn new(symbols: Symbols) -> Stacks {
        Stacks {
            symbols,
            calls: Functions::default(),
            carried: BTreeMap::new(),
            names: HashMap::new(),
            different: 0,
            done: Done { files: 1, ..Done::default() },
        }
    }

    /// Takes a record.
    pub fn record(&mut self, record: &Record<'_>) {
        self.symbols.learn(record);
        let who = who(record);
        let time = record.ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        match call_of(record) {
            Some(Call::Enter(function)) => self.calls.enter(who, time, function),
            Some(Call::Leave(function)) => self.calls.leave(who, time, function),
            None => match stack_of(record) {
                Some((stack, weight)) => self.add(who, stack, weight),
                None => return self.done.leave_out("records without a call stack", 1),
            },
        }
        if !record.procname.is_empty() && !self.names.contains_key(&who) {
            self.names.insert(who, record.procname.to_owned());
        }
    }

    fn add(&mut self, who: Who, stack: Vec<Frame>, weight: u64) {
        let stacks = self.carried.entry(who).or_default();
        if let Some(sum) = stacks.get_mut(&stack) {
            *sum = sum.saturating_add(weight);
        } else if self.different < STACKS_MAX {
            self.different += 1;
            stacks.insert(stack, weight);
        } else {
            self.done.leave_out("records whose stack is one more than a million different ones", 1);
        }
    }

    /// Takes a loss.
    pub fn loss(&mut self, loss: &Loss<'_>) {
        let concerned = |who: &Who| who.trace == loss.trace && loss.vpid.is_none_or(|pid| pid == who.pid);
        self.calls.lost(concerned);
        super::csv::leave_out_loss(&mut self.done, loss);
    }

    /// Stacks of all threads: of carried ones if there are any, else of calls in ns; and which it is.
    ///
    /// # Errors
    /// There are neither.
    pub fn finish(mut self) -> Result<(Vec<OfThread>, bool, Done), Error> {
        self.calls.finish();
        let are_calls = self.carried.is_empty();
        if are_calls && self.calls.is_empty() {
            return Err(Error::Nothing(
                "no record of the trace has a call stack, and there are no entries of functions: record with --context callstack \
                 or --with functions, or import a `perf script` with call chains"
                    .to_owned(),
            ));
        }
        if !are_calls {
            let calls: u64 = self.calls.trees().iter().flat_map(|tree| &tree.nodes).map(|node| node.count).sum();
            self.done.leave_out("calls of functions (`kymo functions` shows them)", calls);
        }
        let by_thread = if are_calls { self.of_calls() } else { std::mem::take(&mut self.carried) };
        let mut threads = Vec::new();
        let mut cache = HashMap::new();
        for (who, stacks) in by_thread {
            let mut named: BTreeMap<Vec<String>, u64> = BTreeMap::new();
            for (stack, weight) in stacks {
                let frames = stack.iter().map(|frame| name_of(&mut *self.symbols, &mut cache, frame)).collect();
                *named.entry(frames).or_default() += weight;
            }
            let name = self.names.get(&who).map_or("", String::as_str);
            let tid =
                if who.tid > u32::MAX - 4096 { format!("cpu {}", u32::MAX - who.tid) } else { who.tid.to_string() };
            threads.push(OfThread { name: format!("{name}[{}/{tid}]", who.pid), stacks: named.into_iter().collect() });
        }
        Ok((threads, are_calls, self.done))
    }

    fn of_calls(&mut self) -> BTreeMap<Who, HashMap<Vec<Frame>, u64>> {
        let mut by_thread: BTreeMap<Who, HashMap<Vec<Frame>, u64>> = BTreeMap::new();
        for tree in self.calls.trees() {
            let stacks = by_thread.entry(tree.thread).or_default();
            for (position, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.self_ns > 0) {
                let path: Vec<Frame> = tree.path(position).into_iter().cloned().collect();
                if !path.is_empty() {
                    *stacks.entry(path).or_default() += node.self_ns;
                }
            }
            self.done.leave_out("calls that are too deep or too many", tree.skipped);
        }
        by_thread
    }
}

/// The name of a frame, asked for once.
pub fn name_of(symbols: &mut dyn Naming, cache: &mut HashMap<Frame, String>, frame: &Frame) -> String {
    if let Some(name) = cache.get(frame) {
        return name.clone();
    }
    let name = match frame {
        Frame::Name(name) => name.clone(),
        Frame::Address(space, address) => symbols.name(*space, *address).unwrap_or_else(|| format!("{address:#x}")),
    };
    cache.insert(frame.clone(), name.clone());
    name
}

/// Collapsed stacks: `a;b;c COUNT`, those of all threads with one program added up.
pub struct Collapsed {
    output: Output,
    stacks: Stacks,
}

impl Collapsed {
    /// Begins a file.
    pub fn new(_traces: &[Trace], path: &Path, symbols: Symbols) -> Result<Collapsed, Error> {
        Ok(Collapsed { output: Output::create(path)?, stacks: Stacks::new(symbols) })
    }
}

impl Exporter for Collapsed {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.stacks.record(record);
        Ok(())
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        self.stacks.loss(loss);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Done, Error> {
        let (threads, _, done) = self.stacks.finish()?;
        self.output.write(collapsed(&threads).as_bytes())?;
        self.output.finish()?;
        Ok(done)
    }
}

/// The text of collapsed stacks.
pub fn collapsed(threads: &[OfThread]) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for thread in threads {
        let program = thread.name.split('[').next().filter(|name| !name.is_empty()).unwrap_or("-");
        for (frames, weight) in &thread.stacks {
            // A semicolon divides frames, a newline lines.
            let frames = frames.iter().map(|frame| frame.replace(';', ":").replace('\n', " "));
            let line = std::iter::once(program.replace([';', '\n'], " ")).chain(frames).collect::<Vec<_>>().join(";");
            *sums.entry(line).or_default() += weight;
        }
    }
    sums.into_iter().map(|(line, weight)| format!("{line} {weight}\n")).collect()
}
