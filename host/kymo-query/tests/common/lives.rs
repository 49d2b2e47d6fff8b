// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of threads that come, run other programs, get other names and end, while records are lost. Few numbers are
//! used again and again. One seed is one trace.

use std::path::Path;

use kymo_abi::record_head;
use kymo_ctf::write::{
    ClockMeta, EventClass, Field, FieldClass, Number, PacketHead, Program, StreamClass, StreamKind, TraceMeta,
    metadata_ctf18,
};
use kymo_testing::Random;

const I32: FieldClass = FieldClass::Number(Number::signed(32));
const I64: FieldClass = FieldClass::Number(Number::signed(64));
const COMM: FieldClass = FieldClass::Chars { count: 16 };
const UUID: [u8; 16] = [9; 16];

/// Names that threads have and get.
const NAMES: [&str; 5] = ["bash", "make", "cc1", "worker", "motor"];
/// Numbers of threads: below it, from 2 on.
const TIDS: i32 = 24;
const CPUS: usize = 2;

/// What a trace has.
#[derive(Clone, Copy, Debug)]
pub struct LifePlan {
    pub seed: u64,
    pub records: u64,
    /// Of so many records one begins a loss; 0: none is lost.
    pub lossy: u64,
    /// Each record names its thread.
    pub has_tid: bool,
    /// Records of new names name the thread.
    pub renames_have_tid: bool,
    /// `task_newtask` is recorded, and a state dump at the beginning.
    pub has_origins: bool,
    /// New names are recorded.
    pub has_renames: bool,
}

fn event(id: u16, name: &str, fields: &[(&str, FieldClass)]) -> EventClass {
    let fields = fields.iter().map(|(name, class)| Field { name: (*name).into(), class: class.clone() }).collect();
    EventClass { id, name: name.into(), file: String::new(), line: 0, fields }
}

fn metadata(plan: &LifePlan) -> String {
    let switch = [("prev_comm", COMM), ("prev_pid", I32), ("prev_state", I64), ("next_comm", COMM), ("next_pid", I32)];
    let mut kernel = vec![
        event(1, "sched:sched_switch", &switch),
        event(3, "sched:sched_process_fork", &[("parent_pid", I32), ("child_comm", COMM), ("child_pid", I32)]),
        event(5, "irq:irq_handler_entry", &[("irq", I32)]),
        event(6, "sched:sched_process_exec", &[("filename", FieldClass::CString), ("pid", I32), ("old_pid", I32)]),
        event(7, "sched:sched_process_exit", &[("comm", COMM), ("pid", I32)]),
        event(8, "sched:sched_process_free", &[("comm", COMM), ("pid", I32)]),
        event(9, "sched:sched_waking", &[("comm", COMM), ("pid", I32)]),
    ];
    if plan.has_origins {
        kernel.push(event(2, "task:task_newtask", &[("pid", I32), ("comm", COMM), ("clone_flags", I64)]));
        kernel.push(event(10, "lttng_statedump_process_state", &[("tid", I32), ("pid", I32), ("name", COMM)]));
        kernel.push(event(11, "lttng_statedump_end", &[]));
    }
    if plan.has_renames {
        let names = [("oldcomm", COMM), ("newcomm", COMM)];
        let fields = if plan.renames_have_tid { [&[("pid", I32)][..], &names].concat() } else { names.to_vec() };
        kernel.push(event(4, "task:task_rename", &fields));
    }
    let class = |kind, events| StreamClass { kind, contexts: Vec::new(), events };
    let clock = ClockMeta {
        name: "tsc".into(),
        uuid: [2; 16],
        description: String::new(),
        frequency_hz: 1_000_000_000,
        offset_s: 0,
        offset_cycles: 0,
        precision_cycles: 0,
        absolute: true,
    };
    let user = vec![event(1, "motor:step", &[])];
    let streams = vec![class(StreamKind::User, user), class(StreamKind::Kernel, kernel)];
    let metadata = metadata_ctf18(&TraceMeta { uuid: UUID, env: vec![], clock, streams });
    if plan.has_tid { metadata } else { metadata.replacen("int32_t _tid;", "", 1) }
}

/// A file: packets with the records that were not lost.
struct Stream {
    packets: Vec<u8>,
    content: Vec<u8>,
    head: PacketHead,
}

impl Stream {
    fn new(cpu: usize, program: Option<Program>) -> Stream {
        let head = PacketHead {
            uuid: UUID,
            stream_instance: cpu as u64,
            begin: 0,
            end: 0,
            content_bytes: 0,
            seq: 0,
            discarded: 0,
            cpu: cpu as u32,
            program,
        };
        Stream { packets: Vec::new(), content: Vec::new(), head }
    }

    fn record(&mut self, time: u64, id: u16, parts: &[&[u8]]) {
        if self.content.is_empty() {
            self.head.begin = time;
        }
        self.head.end = time;
        self.content.extend(record_head(id, time));
        parts.iter().for_each(|part| self.content.extend_from_slice(part));
    }

    fn end_packet(&mut self) {
        if !self.content.is_empty() {
            self.head.content_bytes = self.content.len() as u64;
            self.packets.extend(self.head.encode());
            self.packets.append(&mut self.content);
            self.head.seq += 1;
        }
    }
}

#[derive(Clone)]
struct Thread {
    tid: i32,
    pid: i32,
    name: &'static str,
}

fn comm(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// The machine, and what is recorded of it.
struct Life {
    plan: LifePlan,
    random: Random,
    time: u64,
    streams: Vec<Stream>,
    user: Stream,
    threads: Vec<Thread>,
    /// By CPU: the thread that runs there; none: idle.
    running: [Option<i32>; CPUS],
    /// By CPU: records that are still lost.
    losing: [u64; CPUS],
}

impl Life {
    fn thread(&self, tid: Option<i32>) -> Thread {
        let found = tid.and_then(|tid| self.threads.iter().find(|thread| thread.tid == tid));
        found.cloned().unwrap_or(Thread { tid: 0, pid: 0, name: "swapper" })
    }

    fn record(&mut self, cpu: usize, id: u16, parts: &[&[u8]]) {
        self.time += 1 + self.random.below(20u64);
        let stream = &mut self.streams[cpu];
        if self.losing[cpu] > 0 {
            self.losing[cpu] -= 1;
            stream.head.discarded += 1;
            return;
        }
        let tid = self.running[cpu].unwrap_or(0).to_le_bytes();
        let head: [&[u8]; 2] = [if self.plan.has_tid { &tid } else { &[] }, &[0, 0]];
        stream.record(self.time, id, &[&head[..], parts].concat());
        if self.plan.lossy > 0 && self.random.below(self.plan.lossy) == 0 {
            stream.end_packet();
            self.losing[cpu] = 1 + self.random.below(4u64);
        } else if self.random.below(25u8) == 0 {
            stream.end_packet();
        }
    }

    fn switch(&mut self, cpu: usize, state: i64) {
        let free: Vec<i32> =
            self.threads.iter().map(|thread| thread.tid).filter(|tid| !self.running.contains(&Some(*tid))).collect();
        let next = match self.random.below(5u8) {
            0 => None,
            _ => free.get(self.random.below(free.len())).copied(),
        };
        let (before, after) = (self.thread(self.running[cpu]), self.thread(next));
        let parts: [&[u8]; 5] = [
            &comm(before.name),
            &before.tid.to_le_bytes(),
            &state.to_le_bytes(),
            &comm(after.name),
            &after.tid.to_le_bytes(),
        ];
        self.record(cpu, 1, &parts);
        self.running[cpu] = next;
    }

    fn fork(&mut self, cpu: usize, maker: &Thread) {
        let tid = 2 + self.random.below(TIDS);
        if self.thread(Some(tid)).tid != 0 {
            return;
        }
        let is_thread = self.random.below(2u8) == 0;
        let (pid, flags) = if is_thread { (maker.pid, 0x1_0000i64) } else { (tid, 0x11) };
        let (name, number) = (comm(maker.name), tid.to_le_bytes());
        if self.plan.has_origins {
            self.record(cpu, 2, &[&number, &name, &flags.to_le_bytes()]);
        }
        self.record(cpu, 3, &[&maker.tid.to_le_bytes(), &name, &number]);
        self.threads.push(Thread { tid, pid, name: maker.name });
    }

    fn rename(&mut self, cpu: usize, own: &Thread, name: &'static str) {
        if self.plan.has_renames {
            let tid = own.tid.to_le_bytes();
            let tid: &[u8] = if self.plan.renames_have_tid { &tid } else { &[] };
            self.record(cpu, 4, &[tid, &comm(own.name), &comm(name)]);
        }
        self.threads.iter_mut().filter(|thread| thread.tid == own.tid).for_each(|thread| thread.name = name);
    }

    /// The thread is the only one of its process then, with the process's number.
    fn exec(&mut self, cpu: usize, own: &Thread, name: &'static str) {
        if self
            .threads
            .iter()
            .any(|thread| thread.pid == own.pid && thread.tid != own.tid && self.running.contains(&Some(thread.tid)))
        {
            return;
        }
        self.threads.retain(|thread| thread.pid != own.pid);
        self.threads.push(Thread { tid: own.pid, pid: own.pid, name: own.name });
        self.running[cpu] = Some(own.pid);
        self.rename(cpu, &self.thread(Some(own.pid)), name);
        let path = format!("/usr/bin/{name}\0");
        self.record(cpu, 6, &[path.as_bytes(), &own.pid.to_le_bytes(), &own.tid.to_le_bytes()]);
    }

    fn exit(&mut self, cpu: usize, own: &Thread) {
        let parts: [&[u8]; 2] = [&comm(own.name), &own.tid.to_le_bytes()];
        self.record(cpu, 7, &parts);
        // The first thread of a process stays as long as others are there.
        if own.tid == own.pid && self.threads.iter().filter(|thread| thread.pid == own.pid).count() > 1 {
            return self.switch(cpu, 1);
        }
        self.switch(cpu, 0x10);
        self.threads.retain(|thread| thread.tid != own.tid);
        if self.random.below(2u8) == 0 {
            self.record(cpu, 8, &parts);
        }
    }

    fn step(&mut self) {
        let cpu = self.random.below(CPUS);
        let own = self.thread(self.running[cpu]);
        let name = NAMES[self.random.below(NAMES.len())];
        let step = self.random.below(16u8);
        match step {
            0 if own.tid != 0 => self.fork(cpu, &own),
            1 if own.tid != 0 => self.rename(cpu, &own, name),
            2 if own.tid != 0 => self.exec(cpu, &own, name),
            3 if own.tid != 0 => self.exit(cpu, &own),
            4 if own.tid != 0 => {
                self.time += 1;
                let main = self.thread(Some(own.pid)).name;
                self.user.head.program = Some(Program { vpid: own.pid as u32, lane: 0, procname: comm(main) });
                self.user.record(self.time, 1, &[&own.tid.to_le_bytes()]);
                self.user.end_packet();
            }
            5 if !self.threads.is_empty() => {
                let other = self.threads[self.random.below(self.threads.len())].clone();
                self.record(cpu, 9, &[&comm(other.name), &other.tid.to_le_bytes()]);
            }
            6..=10 => {
                let state = [1, 1, 0, 256][self.random.below(4usize)];
                self.switch(cpu, state);
            }
            _ => self.record(cpu, 5, &[&9i32.to_le_bytes()]),
        }
        if self.threads.len() < 3 {
            let tid = 2 + self.random.below(TIDS);
            if self.thread(Some(tid)).tid == 0 {
                self.threads.push(Thread { tid, pid: tid, name: "bash" });
            }
        }
    }

    /// The threads as the state dump finds them.
    fn dump(&mut self) {
        for thread in self.threads.clone() {
            self.record(0, 10, &[&thread.tid.to_le_bytes(), &thread.pid.to_le_bytes(), &comm(thread.name)]);
            self.step();
        }
        self.record(0, 11, &[]);
    }
}

/// Writes a trace into a directory that exists.
pub fn write(dir: &Path, plan: LifePlan) -> std::io::Result<()> {
    let first = |tid, pid, name| Thread { tid, pid, name };
    let mut life = Life {
        plan,
        random: Random(plan.seed),
        time: 1000,
        streams: (0..CPUS).map(|cpu| Stream::new(cpu, None)).collect(),
        user: Stream::new(0, Some(Program { vpid: 0, lane: 0, procname: [0; 16] })),
        threads: vec![first(2, 2, "bash"), first(3, 2, "worker"), first(4, 4, "make"), first(5, 5, "motor")],
        running: [None; CPUS],
        losing: [0; CPUS],
    };
    (0..10).for_each(|_| life.step());
    if plan.has_origins {
        life.dump();
    }
    while life.time < 1000 + plan.records * 10 {
        life.step();
    }
    std::fs::write(dir.join("metadata"), metadata(&plan))?;
    for (cpu, mut stream) in life.streams.into_iter().enumerate() {
        stream.end_packet();
        std::fs::write(dir.join(format!("kernel_{cpu}_0")), stream.packets)?;
    }
    std::fs::write(dir.join("user_0_0"), life.user.packets)
}
