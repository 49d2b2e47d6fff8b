// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces made by hand, record by record, in memory; and questions about them.

#![allow(dead_code, reason = "each user needs its part")]

pub mod lives;

use std::collections::BTreeMap;

use kymo_ctf::read::{Memory, Trace};
use kymo_index::Indexes;
use kymo_query::{Error, Opened, Parameters, Stop, answer};
use serde_json::Value;

/// All events; times are ns.
const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream {
    packet.context := struct {
        u32 packet_size; u32 content_size; u32 cpu_id; u32 events_discarded; time timestamp_begin; time timestamp_end;
    };
    event.header := struct { u8 id; time timestamp; };
};
event { id = 1; name = "sched_switch"; fields := struct {
    i32 prev_tid; i32 prev_prio; i64 prev_state; string next_comm; i32 next_tid; i32 next_prio; }; };
event { id = 2; name = "sched_waking"; fields := struct { string comm; i32 tid; i32 prio; i32 target_cpu; }; };
event { id = 3; name = "irq_handler_entry"; fields := struct { i32 irq; string name; }; };
event { id = 4; name = "irq_handler_exit"; fields := struct { i32 irq; }; };
event { id = 5; name = "irq_softirq_entry"; fields := struct { u32 vec; }; };
event { id = 6; name = "irq_softirq_exit"; fields := struct { u32 vec; }; };
event { id = 7; name = "syscall_entry_futex"; fields := struct { u64 uaddr; u64 op; }; };
event { id = 8; name = "syscall_exit_futex"; fields := struct { i64 ret; }; };
event { id = 9; name = "axis:begin"; fields := struct { u32 n; }; };
event { id = 10; name = "axis:end"; fields := struct { u32 n; }; };
event { id = 11; name = "motor:step"; fields := struct {
    floating_point { exp_dig = 11; mant_dig = 53; align = 8; byte_order = le; } position; i32 axis; string note; }; };
event { id = 12; name = "cpu_frequency"; fields := struct { u32 state; u32 cpu_id; }; };
event { id = 13; name = "cpu_idle"; fields := struct { u32 state; u32 cpu_id; }; };
"#;

/// A priority that is not real-time.
pub const NICE: i32 = 20;
/// One that is, in the same numbers: the kernel counts 100 more.
pub const REAL_TIME: i32 = -91;

/// A trace on its way.
#[derive(Default)]
pub struct Made {
    cpus: BTreeMap<u32, Vec<(u64, Vec<u8>)>>,
    /// By CPU: lost records, and before which record.
    lost: BTreeMap<u32, (usize, u32)>,
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

impl Made {
    /// A record of a CPU.
    pub fn record(&mut self, cpu: u32, at: u64, id: u8, fields: &[&[u8]]) -> &mut Made {
        let mut bytes = vec![id];
        bytes.extend(at.to_le_bytes());
        fields.iter().for_each(|field| bytes.extend(*field));
        self.cpus.entry(cpu).or_default().push((at, bytes));
        self
    }

    /// From one thread, which leaves in this state, to another one.
    pub fn switch(&mut self, cpu: u32, at: u64, (prev, state): (i32, i64), next: (i32, &str, i32)) -> &mut Made {
        let (tid, name, prio) = next;
        let prev_prio = if prev == 20 { REAL_TIME } else { NICE }.to_le_bytes();
        let name = text(name);
        let (prev, state) = (prev.to_le_bytes(), state.to_le_bytes());
        self.record(cpu, at, 1, &[&prev, &prev_prio, &state, &name, &tid.to_le_bytes(), &prio.to_le_bytes()])
    }

    /// Wakes a thread.
    pub fn waking(&mut self, cpu: u32, at: u64, (tid, name, prio): (i32, &str, i32), target: i32) -> &mut Made {
        let name = text(name);
        self.record(cpu, at, 2, &[&name, &tid.to_le_bytes(), &prio.to_le_bytes(), &target.to_le_bytes()])
    }

    /// An interrupt from one time to another.
    pub fn irq(&mut self, cpu: u32, from: u64, to: u64) -> &mut Made {
        let name = text("eth0");
        self.record(cpu, from, 3, &[&24i32.to_le_bytes(), &name]).record(cpu, to, 4, &[&24i32.to_le_bytes()])
    }

    /// A begin or an end of the user.
    pub fn axis(&mut self, cpu: u32, at: u64, begins: bool) -> &mut Made {
        self.axis_of(cpu, at, begins, 7)
    }

    /// The same, of one of several.
    pub fn axis_of(&mut self, cpu: u32, at: u64, begins: bool, n: u32) -> &mut Made {
        self.record(cpu, at, if begins { 9 } else { 10 }, &[&n.to_le_bytes()])
    }

    /// A value of the user.
    pub fn step(&mut self, cpu: u32, at: u64, position: f64) -> &mut Made {
        let note = text("<b>\u{1b}\"x\"");
        self.record(cpu, at, 11, &[&position.to_le_bytes(), &2i32.to_le_bytes(), &note])
    }

    /// A CPU gets another frequency, kHz.
    pub fn frequency(&mut self, cpu: u32, at: u64, khz: u32) -> &mut Made {
        self.record(cpu, at, 12, &[&khz.to_le_bytes(), &cpu.to_le_bytes()])
    }

    /// A CPU enters an idle state; `u32::MAX`: it leaves it.
    pub fn idle(&mut self, cpu: u32, at: u64, state: u32) -> &mut Made {
        self.record(cpu, at, 13, &[&state.to_le_bytes(), &cpu.to_le_bytes()])
    }

    /// A system call on a lock, from entry to exit.
    pub fn futex(&mut self, cpu: u32, at: u64, enters: bool) -> &mut Made {
        match enters {
            true => self.record(cpu, at, 7, &[&0xF00u64.to_le_bytes(), &0u64.to_le_bytes()]),
            false => self.record(cpu, at, 8, &[&0i64.to_le_bytes()]),
        }
    }

    /// Records that were lost in front of the next one of a CPU.
    pub fn lose(&mut self, cpu: u32, count: u32) -> &mut Made {
        let before = self.cpus.get(&cpu).map_or(0, Vec::len);
        self.lost.insert(cpu, (before, count));
        self
    }

    /// A stream without a record.
    pub fn cpus_without_records(&mut self) -> &mut Made {
        self.cpus.entry(0).or_default();
        self
    }

    fn packet(cpu: u32, records: &[(u64, Vec<u8>)], discarded: u32) -> Vec<u8> {
        let content: Vec<u8> = records.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        let bits = ((32 + content.len()) * 8) as u32;
        let mut bytes = Vec::new();
        [bits, bits, cpu, discarded].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(records.first().map_or(0, |(at, _)| *at).to_le_bytes());
        bytes.extend(records.last().map_or(0, |(at, _)| *at).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    /// As files of a directory.
    pub fn write(&self, dir: &std::path::Path) {
        std::fs::write(dir.join("metadata"), METADATA).unwrap();
        self.streams().iter().for_each(|(name, bytes)| std::fs::write(dir.join(name), bytes).unwrap());
    }

    /// As a trace.
    pub fn trace(&self) -> Trace {
        self.trace_of(METADATA)
    }

    fn trace_of(&self, metadata: &str) -> Trace {
        let files = Memory { metadata: metadata.as_bytes().to_vec(), streams: self.streams() };
        Trace::from_files(&files).unwrap().value
    }

    /// For questions, as if the event of switches had another name: one that says nothing.
    pub fn open_without_switches(&self) -> Opened {
        let traces = vec![self.trace_of(&METADATA.replace("sched_switch", "other_event"))];
        Opened::new(traces, Indexes::default(), "made".to_owned(), Vec::new())
    }

    /// For questions, as if a process of kymo had recorded it.
    pub fn open_of_recorder(&self, pid: i32) -> Opened {
        let traces =
            vec![self.trace_of(&format!("{METADATA}env {{ recorder_pid = {pid}; recorded_by = \"kymo 0\"; }};"))];
        Opened::new(traces, Indexes::default(), "made".to_owned(), Vec::new())
    }

    fn streams(&self) -> Vec<(String, Vec<u8>)> {
        let mut streams = Vec::new();
        for (cpu, records) in &self.cpus {
            let (at, count) = self.lost.get(cpu).copied().unwrap_or((records.len(), 0));
            let mut bytes = Vec::new();
            let (first, second) = records.split_at(at);
            if !first.is_empty() {
                bytes.extend(Made::packet(*cpu, first, 0));
            }
            if !second.is_empty() {
                bytes.extend(Made::packet(*cpu, second, count));
            }
            streams.push((format!("kernel_{cpu}"), bytes));
        }
        streams
    }

    /// What is written of it up to a time: packets of so many records each, as far as their last record is not later.
    pub fn trace_until(&self, at: u64, count: usize) -> Trace {
        let mut streams = Vec::new();
        for (cpu, records) in &self.cpus {
            let written = records.chunks(count).take_while(|packet| packet.last().is_some_and(|(time, _)| *time <= at));
            let bytes: Vec<u8> = written.flat_map(|packet| Made::packet(*cpu, packet, 0)).collect();
            if !bytes.is_empty() {
                streams.push((format!("kernel_{cpu}"), bytes));
            }
        }
        let files = Memory { metadata: METADATA.as_bytes().to_vec(), streams };
        Trace::from_files(&files).unwrap().value
    }

    /// For questions.
    pub fn open(&self) -> Opened {
        Opened::new(vec![self.trace()], Indexes::default(), "made".to_owned(), Vec::new())
    }
}

/// Asks with parameters as in an address, not encoded.
pub fn try_ask(of: &Opened, question: &str, query: &str) -> Result<Value, Error> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    answer(of, question, Parameters::new(pairs), &Stop::default()).map(|answer| answer.json())
}

/// The same.
#[track_caller]
pub fn ask(of: &Opened, question: &str, query: &str) -> Value {
    try_ask(of, question, query).unwrap_or_else(|error| panic!("{question}?{query}: {error}"))
}

/// A column of a table.
#[track_caller]
pub fn column<'v>(answer: &'v Value, table: &str, name: &str) -> &'v Vec<Value> {
    answer["tables"][table][name].as_array().unwrap_or_else(|| panic!("{table}.{name} in {answer}"))
}

/// Some columns of a table, by row.
#[track_caller]
pub fn rows(answer: &Value, table: &str, names: &[&str]) -> Vec<Vec<Value>> {
    let columns: Vec<_> = names.iter().map(|name| column(answer, table, name)).collect();
    let count = columns.first().map_or(0, |column| column.len());
    (0..count).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

/// Of each mixed pixel of threads its shares, by state [spec/view.md 4.6].
#[track_caller]
pub fn shares_of_threads(answer: &Value) -> Vec<Vec<f64>> {
    let mut all = column(answer, "shares", "share").iter().map(|share| share.as_f64().unwrap());
    let of_pixel = |states: &Value| {
        let states = states.as_u64().unwrap();
        assert_eq!(states >> 12, 0, "states that there are not");
        (0..12).map(|state| if states >> state & 1 == 1 { all.next().unwrap() } else { 0.0 }).collect()
    };
    let found = column(answer, "mixed", "states").iter().map(of_pixel).collect();
    assert_eq!(all.next(), None, "shares of no pixel");
    found
}

/// Two CPUs, 0 to 1000 ns after 1000: `a` is preempted by `rt`, which an interrupt woke; `b` waits for a lock on CPU 1.
pub fn small() -> Made {
    let mut made = Made::default();
    made.switch(0, 1000, (0, 0), (10, "a", NICE))
        .irq(0, 1200, 1250)
        .waking(0, 1300, (20, "rt", REAL_TIME), 0)
        .switch(0, 1400, (10, 256), (20, "rt", REAL_TIME))
        .axis(0, 1420, true)
        .step(0, 1430, 1.5)
        .axis(0, 1480, false)
        .step(0, 1490, -4.0)
        .switch(0, 1600, (20, 1), (10, "a", NICE))
        .step(0, 1700, 2.5)
        .waking(0, 1750, (30, "b", NICE), 1)
        .switch(0, 2000, (10, 1), (0, "swapper/0", NICE));
    made.switch(1, 1100, (0, 0), (30, "b", NICE))
        .futex(1, 1150, true)
        .switch(1, 1160, (30, 1), (0, "swapper/1", NICE))
        .switch(1, 1800, (0, 0), (30, "b", NICE))
        .futex(1, 1850, false)
        .switch(1, 1900, (30, 1), (0, "swapper/1", NICE));
    made
}
