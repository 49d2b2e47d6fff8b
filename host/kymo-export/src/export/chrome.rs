// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's JSON [spec/exchange.md 2], the object form: a record is an event, in the order of time.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

use kymo_ctf::read::{Loss, Number, Record, Trace, Value};

use super::csv::leave_out_contexts;
use super::exporter::{Done, Exporter};
use super::facts::{ContextNames, all_fields, env_text, is_absolute, is_kernel};
use super::output::Output;
use super::pairs::{Pairs, Phase, Track, track_of};
use super::stacks::Symbols;
use crate::{Error, json};

/// Threads of process 0 that show who ran on each CPU: this and the CPU.
const RUNS: u64 = 100_000_000;

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
    pairs: Pairs,
    contexts: ContextNames,
    symbols: Symbols,
    /// By process and thread, as the file numbers them: the name that was written last.
    names: HashMap<(u64, u64), String>,
    running: HashMap<(usize, u32), Running>,
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
            pairs: Pairs::new(traces),
            contexts: ContextNames::new(traces),
            symbols,
            names: HashMap::new(),
            running: HashMap::new(),
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

    fn place(&mut self, ns: i128, (pid, tid): (u64, u64)) {
        let since = ns - self.begin_ns.unwrap_or(ns);
        drop(write!(self.line, ",\"pid\":{pid},\"tid\":{tid},\"ts\":"));
        push_us(&mut self.line, since);
    }

    /// Names a process and a thread where they have another name than before.
    fn name(&mut self, place: (u64, u64), process: &str, thread: &str) {
        if self.names.get(&place).is_some_and(|known| known == thread) || thread.is_empty() {
            return;
        }
        for (what, name) in [("process_name", process), ("thread_name", thread)] {
            let is_known =
                what == "process_name" && self.names.keys().any(|(pid, _)| *pid == place.0) && place.0 != place.1;
            if name.is_empty() || is_known {
                continue;
            }
            self.begin(what, "M");
            drop(write!(self.line, ",\"pid\":{},\"tid\":{},\"args\":{{\"name\":", place.0, place.1));
            json::push_text(&mut self.line, name);
            self.line.extend_from_slice(b"}}");
        }
        self.names.insert(place, thread.to_owned());
    }

    fn place_of(&mut self, track: Track, record: &Record<'_>) -> (u64, u64) {
        match track {
            Track::Cpu(cpu) => {
                let place = (0, u64::from(cpu));
                self.name(place, "kernel", &format!("cpu {cpu}"));
                place
            }
            Track::Thread(pid, tid) => {
                let place = (u64::from(pid), u64::from(tid));
                let process = if pid == 0 { "kernel" } else { record.procname };
                self.name(place, process, record.procname);
                place
            }
        }
    }

    /// Ends or goes on with a slice that is shown in parts.
    fn part(&mut self, ns: i128, place: (u64, u64), pair: u32, phase: &str) {
        let name = self.pairs.begin_name(pair).to_owned();
        self.begin(&name, phase);
        self.place(ns, place);
        self.line.extend_from_slice(b",\"cat\":\"part\",\"args\":{}}");
    }

    /// Who ran up to a switch, as an event of its own.
    fn switch(&mut self, record: &Record<'_>) {
        let (Some(cpu), true) = (record.cpu, record.event.name.ends_with("sched_switch")) else { return };
        let number =
            |names: [&str; 2]| names.iter().find_map(|name| record.payload.get(name)).as_ref().and_then(integer);
        let next = record.payload.get("next_comm");
        let name = if let Some(Value::Text(name)) = next { name.into_owned() } else { String::new() };
        let Some(tid) = number(["next_tid", "next_pid"]) else { return };
        let before = self.running.insert((record.trace, cpu), Running { from_ns: record.ns, name, tid });
        let Some(before) = before.filter(|before| before.tid != 0) else { return };
        let place = (0, RUNS + u64::from(cpu));
        self.name(place, "kernel", &format!("cpu {cpu} runs"));
        self.begin(&before.name, "X");
        self.place(before.from_ns, place);
        self.line.extend_from_slice(b",\"dur\":");
        push_us(&mut self.line, record.ns - before.from_ns);
        drop(write!(self.line, ",\"cat\":\"running\",\"args\":{{\"tid\":{}}}}}", before.tid));
    }
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
        self.line.clear();
        self.begin_ns.get_or_insert(record.ns);
        leave_out_contexts(&mut self.done, record);
        let of_kernel = is_kernel(record);
        let track = track_of(record, of_kernel);
        let place = self.place_of(track, record);
        let (phase, inner) = match self.pairs.phase(record, track) {
            Phase::Begin => ("B", Vec::new()),
            Phase::End(inner) => ("E", inner),
            Phase::Instant => ("i", Vec::new()),
        };
        inner.iter().for_each(|pair| self.part(record.ns, place, *pair, "E"));
        self.begin(&record.event.name, phase);
        self.place(record.ns, place);
        drop(write!(self.line, ",\"cat\":\"{}\"", if of_kernel { "kernel" } else { "user" }));
        if phase == "i" {
            self.line.extend_from_slice(b",\"s\":\"t\"");
        }
        self.line.extend_from_slice(b",\"args\":");
        let from = self.line.len();
        let mut line = std::mem::take(&mut self.line);
        json::push_fields(&mut line, all_fields(record, &self.contexts), json::Wide::Text);
        for (name, function) in self.symbols.of_fields(record) {
            // Behind the field that it is of.
            line.truncate(line.len() - 1);
            line.push(b',');
            json::push_text(&mut line, &name);
            line.push(b':');
            json::push_text(&mut line, &function);
            line.push(b'}');
        }
        self.line = line;
        // The CPU is nowhere else where the place is a thread.
        if let (Some(cpu), Track::Thread(..)) = (record.cpu, track) {
            self.line.truncate(self.line.len() - 1);
            let comma = if self.line.len() > from + 1 { "," } else { "" };
            drop(write!(self.line, "{comma}\"$cpu\":{cpu}}}"));
        }
        self.line.push(b'}');
        inner.iter().rev().for_each(|pair| self.part(record.ns, place, *pair, "B"));
        if of_kernel {
            self.switch(record);
        }
        self.output.write(&self.line)
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        self.line.clear();
        self.begin_ns.get_or_insert(loss.from_ns);
        self.begin("lost", "i");
        let place = (u64::from(loss.vpid.unwrap_or(0)), u64::from(loss.vpid.or(loss.cpu).unwrap_or(0)));
        self.place(loss.from_ns, place);
        let to = loss.to_ns;
        drop(write!(
            self.line,
            ",\"cat\":\"lost\",\"s\":\"p\",\"args\":{{\"records\":{},\"packets\":{},\"to_ns\":\"{to}\"}}}}",
            loss.records, loss.packets
        ));
        self.output.write(&self.line)
    }

    fn finish(mut self: Box<Self>) -> Result<Done, Error> {
        let mut tail = b"\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"kymo\",\"begin_ns\":".to_vec();
        drop(write!(tail, "\"{}\",\"absolute\":{}", self.begin_ns.unwrap_or(0), is_absolute(self.traces)));
        if let Some(host) = self.traces.first().and_then(|trace| env_text(trace, "hostname")) {
            tail.extend_from_slice(b",\"hostname\":");
            json::push_text(&mut tail, host);
        }
        tail.extend_from_slice(b"}}\n");
        self.output.write(&tail)?;
        self.output.finish()?;
        self.pairs.finish(&mut self.done);
        Ok(self.done)
    }
}
