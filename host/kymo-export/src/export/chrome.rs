// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's JSON [spec/exchange.md 2], the object form: a record is an event, in the order of time.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

use kymo_ctf::read::{Loss, Number, Record, Trace, Value};

use super::exporter::{Done, Exporter};
use super::facts::{ContextNames, Domains, TimeOrder, all_fields, env_text, is_absolute};
use super::names::{NameBook, NamedBy, Naming, ThreadNames, text};
use super::output::Output;
use super::slices::{Edge, Own, Slices, Steps, Track, UNKNOWN_THREAD};
use super::stacks::Symbols;
use crate::{Error, json};

/// Threads of process 0 that show who ran on each CPU: this and the CPU.
const RUNS: u32 = 100_000_000;

/// The process that the CPUs are threads of.
const KERNEL: &str = "kernel";

/// Who runs on a CPU.
struct Running {
    from_ns: i128,
    name: String,
    tid: i128,
}

/// The file.
pub struct Chrome<'t> {
    traces: &'t [Trace],
    output: Output,
    /// Time of the first record.
    begin_ns: Option<i128>,
    slices: Slices,
    contexts: ContextNames,
    domains: Domains,
    symbols: Symbols,
    names: NameBook,
    running: HashMap<(usize, u32), Running>,
    order: TimeOrder,
    /// What is told of the traces as a whole.
    doubts: Vec<(String, u64)>,
    line: Vec<u8>,
    is_first: bool,
    done: Done,
}

impl<'t> Chrome<'t> {
    pub fn new(traces: &'t [Trace], path: &Path, symbols: Symbols) -> Result<Chrome<'t>, Error> {
        let mut output = Output::create(path)?;
        output.write(b"{\"traceEvents\":[")?;
        Ok(Chrome {
            traces,
            output,
            begin_ns: None,
            slices: Slices::new(traces),
            contexts: ContextNames::new(traces),
            domains: Domains::new(traces),
            symbols,
            names: NameBook::default(),
            running: HashMap::new(),
            order: TimeOrder::default(),
            doubts: Vec::new(),
            line: Vec::new(),
            is_first: true,
            done: Done { files: 1, ..Done::default() },
        })
    }

    /// Begins an event in `line`: its name and phase.
    fn begin(&mut self, name: &str, phase: &str) {
        self.line.extend_from_slice(if self.is_first { b"\n" } else { b",\n" });
        self.is_first = false;
        self.line.extend_from_slice(b"{\"name\":");
        json::push_text(&mut self.line, name);
        // Writing to a vector cannot fail.
        drop(write!(self.line, ",\"ph\":\"{phase}\""));
    }

    fn place(&mut self, ns: i128, (pid, tid): (u32, u32)) {
        let since = ns - self.begin_ns.unwrap_or(ns);
        drop(write!(self.line, ",\"pid\":{pid},\"tid\":{tid},\"ts\":"));
        push_us(&mut self.line, since);
    }

    /// An event that names a process or a thread.
    fn metadata(&mut self, what: &str, (pid, tid): (u32, u32), name: &str) {
        self.begin(what, "M");
        drop(write!(self.line, ",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":"));
        json::push_text(&mut self.line, name);
        self.line.extend_from_slice(b"}}");
    }

    /// Names a process and a thread where they have another name than before. A new name is told on the thread.
    fn name(&mut self, place: (u32, u32), names: &ThreadNames<'_>, ns: i128) {
        if self.names.process(place.0, names.process, names.by) != Naming::Same {
            self.metadata("process_name", (place.0, place.0), names.process);
        }
        let naming = self.names.thread(place, names.thread, names.by);
        if naming != Naming::Same {
            self.metadata("thread_name", place, names.thread);
        }
        if let Naming::Renamed(before) = naming {
            self.begin("renamed", "i");
            self.place(ns, place);
            self.line.extend_from_slice(b",\"cat\":\"name\",\"s\":\"t\",\"args\":{\"from\":");
            json::push_text(&mut self.line, &before);
            self.line.extend_from_slice(b",\"to\":");
            json::push_text(&mut self.line, names.thread);
            self.line.extend_from_slice(b"}}");
        }
    }

    /// Process and thread that a track is in the file.
    fn place_of(&mut self, track: Track, names: &ThreadNames<'_>, ns: i128) -> (u32, u32) {
        match track {
            Track::Cpu(cpu) => {
                self.name((0, cpu), &of_kernel(&format!("cpu {cpu}")), ns);
                (0, cpu)
            }
            Track::Thread(0, UNKNOWN_THREAD) => {
                self.name((0, UNKNOWN_THREAD), &of_kernel("unknown threads"), ns);
                (0, UNKNOWN_THREAD)
            }
            Track::Thread(pid, tid) => {
                self.name((pid, tid), names, ns);
                (pid, tid)
            }
        }
    }

    /// A begin or end without a record of its own.
    fn edge(&mut self, edge: &Edge) {
        let name = self.slices.title(edge.title).to_owned();
        self.begin(&name, if edge.begins { "B" } else { "E" });
        let place = match edge.track {
            Track::Cpu(cpu) => (0, cpu),
            Track::Thread(pid, tid) => (pid, tid),
        };
        self.place(edge.ns, place);
        // A reader that compares categories finds none that differs: an end has no category.
        self.line.extend_from_slice(if edge.begins { b",\"cat\":\"part\"" } else { b"" });
        self.line.extend_from_slice(b",\"args\":{");
        if let Some(why) = edge.why.text() {
            self.line.extend_from_slice(b"\"$end\":");
            json::push_text(&mut self.line, why);
        }
        self.line.extend_from_slice(b"}}");
    }

    /// The record's own event, whose place is known.
    fn own(&mut self, record: &Record<'_>, steps: &Steps, place: (u32, u32), of_kernel: bool) {
        let (phase, title) = match steps.own {
            Own::Begin(title) => ("B", Some(title)),
            Own::End(title) => ("E", Some(title)),
            Own::Instant => ("i", None),
        };
        let name = title.map_or_else(|| record.event.name.clone(), |title| self.slices.title(title).to_owned());
        self.begin(&name, phase);
        self.place(steps.ns, place);
        let is_end = matches!(steps.own, Own::End(_));
        if !is_end {
            drop(write!(self.line, ",\"cat\":\"{}\"", if of_kernel { "kernel" } else { "user" }));
        }
        if title.is_none() {
            self.line.extend_from_slice(b",\"s\":\"t\"");
        }
        // Viewers put what both ends of a slice say into one place.
        self.line.extend_from_slice(if is_end { b",\"args\":{\"end\":" } else { b",\"args\":" });
        let mut line = std::mem::take(&mut self.line);
        json::push_fields(&mut line, all_fields(record, &self.contexts), json::Wide::Text);
        for (name, function) in self.symbols.of_fields(record) {
            // Behind the field that it is of.
            push_arg(&mut line, &name, |line| json::push_text(line, &function));
        }
        if title.is_some() {
            push_arg(&mut line, "$event", |line| json::push_text(line, &record.event.name));
        }
        // The CPU is nowhere else where the place is a thread.
        if let (Some(cpu), Track::Thread(..)) = (record.cpu, steps.track) {
            push_arg(&mut line, "$cpu", |line| drop(write!(line, "{cpu}")));
        }
        if self.order.goes_back(record.ns) {
            self.done.change("records with a time before that of the record in front of them ($doubt)", 1);
            push_arg(&mut line, "$doubt", |line| json::push_text(line, "the time lies before an earlier record's"));
        }
        if steps.ns != record.ns {
            push_arg(&mut line, "$time", |line| drop(write!(line, "\"{}\"", record.ns)));
        }
        self.line = line;
        self.line.extend_from_slice(if is_end { b"}}" } else { b"}" });
    }

    /// Who ran up to a switch, as an event of its own.
    fn switch(&mut self, record: &Record<'_>) {
        let (Some(cpu), true) = (record.cpu, record.event.name.ends_with("sched_switch")) else { return };
        let number =
            |names: [&str; 2]| names.iter().find_map(|name| record.payload.get(name)).as_ref().and_then(integer);
        let name = text(record, "next_comm").map_or_else(String::new, |name| name.into_owned());
        let Some(tid) = number(["next_tid", "next_pid"]) else { return };
        let before = self.running.insert((record.trace, cpu), Running { from_ns: record.ns, name, tid });
        let Some(before) = before.filter(|before| before.tid != 0 && before.from_ns <= record.ns) else { return };
        let place = (0, RUNS + cpu);
        self.name(place, &of_kernel(&format!("cpu {cpu} runs")), record.ns);
        self.begin(&before.name, "X");
        self.place(before.from_ns, place);
        self.line.extend_from_slice(b",\"dur\":");
        push_us(&mut self.line, record.ns - before.from_ns);
        drop(write!(self.line, ",\"cat\":\"running\",\"args\":{{\"tid\":{}}}}}", before.tid));
    }

    fn tail(&self) -> Vec<u8> {
        let mut tail = b"\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"kymo\",\"begin_ns\":".to_vec();
        drop(write!(tail, "\"{}\",\"absolute\":{}", self.begin_ns.unwrap_or(0), is_absolute(self.traces)));
        if let Some(host) = self.traces.first().and_then(|trace| env_text(trace, "hostname")) {
            tail.extend_from_slice(b",\"hostname\":");
            json::push_text(&mut tail, host);
        }
        for (what, count) in &self.doubts {
            tail.push(b',');
            json::push_text(&mut tail, what);
            drop(write!(tail, ":{count}"));
        }
        tail.extend_from_slice(b"}}\n");
        tail
    }
}

/// Names of a thread of the process that stands for the kernel.
fn of_kernel(thread: &str) -> ThreadNames<'_> {
    ThreadNames { thread, process: KERNEL, by: NamedBy::Kernel }
}

/// One more member of the object at the end of a line.
fn push_arg(line: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    line.truncate(line.len() - 1);
    if line.last() != Some(&b'{') {
        line.push(b',');
    }
    json::push_text(line, name);
    line.push(b':');
    value(line);
    line.push(b'}');
}

fn integer(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(number, _) => Some(Number::into(*number)),
        _ => None,
    }
}

/// Nanoseconds as microseconds with three decimals: exact as text.
fn push_us(line: &mut Vec<u8>, ns: i128) {
    let (sign, size) = if ns < 0 { ("-", ns.unsigned_abs()) } else { ("", ns.unsigned_abs()) };
    drop(write!(line, "{sign}{}.{:03}", size / 1000, size % 1000));
}

impl Exporter for Chrome<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let names = ThreadNames::of(record, self.domains.is_kernel(record));
        self.named_record(record, &names)
    }

    fn named_record(&mut self, record: &Record<'_>, names: &ThreadNames<'_>) -> Result<(), Error> {
        self.line.clear();
        self.begin_ns.get_or_insert(record.ns);
        let of_kernel = self.domains.is_kernel(record);
        let track = self.slices.track(record, of_kernel);
        let steps = self.slices.steps(record, of_kernel);
        let mut place = self.place_of(track, names, record.ns);
        if steps.track != track {
            // A slice ends where it began: the thread has moved to its process since.
            place = match steps.track {
                Track::Cpu(cpu) => (0, cpu),
                Track::Thread(pid, tid) => (pid, tid),
            };
        }
        steps.before.iter().for_each(|edge| self.edge(edge));
        self.own(record, &steps, place, of_kernel);
        steps.after.iter().for_each(|edge| self.edge(edge));
        if of_kernel {
            self.switch(record);
        }
        self.output.write(&self.line)
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        self.line.clear();
        self.begin_ns.get_or_insert(loss.from_ns);
        let place = match (loss.vpid, loss.cpu) {
            (Some(pid), _) => (pid, pid),
            (None, Some(cpu)) => self.place_of(Track::Cpu(cpu), &ThreadNames::default(), loss.from_ns),
            (None, None) => self.place_of(Track::Thread(0, UNKNOWN_THREAD), &ThreadNames::default(), loss.from_ns),
        };
        self.begin(if loss.records == 0 { "packets missing" } else { "lost" }, "i");
        self.place(loss.from_ns, place);
        let (records, packets, to) = (loss.records, loss.packets, loss.to_ns);
        self.line.extend_from_slice(b",\"cat\":\"lost\",\"s\":\"p\",\"args\":{");
        drop(write!(self.line, "\"records\":{records},\"packets\":{packets},\"to_ns\":\"{to}\",\"stream\":"));
        json::push_text(&mut self.line, loss.stream);
        self.line.extend_from_slice(b"}}");
        self.output.write(&self.line)
    }

    fn doubts(&mut self, doubts: &[(&str, u64)]) -> Result<(), Error> {
        self.doubts = doubts.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Done, Error> {
        self.line.clear();
        let last = self.order.latest().or(self.begin_ns).unwrap_or(0);
        let open = self.slices.finish(last, &mut self.done);
        open.iter().for_each(|edge| self.edge(edge));
        self.output.write(&self.line)?;
        let tail = self.tail();
        self.output.write(&tail)?;
        self.output.finish()?;
        Ok(self.done)
    }
}
