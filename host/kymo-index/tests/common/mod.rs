// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of a machine that there is not: threads that wake each other on a few CPUs, interrupts, softirqs, system
//! calls, and a program's own records. One seed is one trace.

#![allow(dead_code, reason = "each user needs its part")]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub use kymo_testing::Random;

use kymo_abi::record_head;
use kymo_ctf::write::{
    ClockMeta, EnvValue, EventClass, Field, FieldClass, Number, PacketHead, Program, StreamClass, StreamKind,
    TraceMeta, metadata_ctf18,
};

const I32: FieldClass = FieldClass::Number(Number::signed(32));
const I64: FieldClass = FieldClass::Number(Number::signed(64));
const U32: FieldClass = FieldClass::Number(Number::unsigned(32));
const COMM: FieldClass = FieldClass::Chars { count: 16 };
const UUID: [u8; 16] = [7; 16];

/// What is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Random numbers begin with it.
    pub seed: u64,
    /// Streams of a kernel.
    pub cpus: u32,
    /// Threads of all CPUs.
    pub threads: u32,
    /// The scheduler's events are left out, but threads change.
    pub calm: bool,
    /// Records of each CPU.
    pub records: u64,
    /// Records of a packet.
    pub packet: u64,
    /// Of so many packets one tells of a loss; 0: none does.
    pub lossy: u64,
    /// Records of a program, on CPU 0.
    pub user: u64,
    /// They have short headers, and their packets say which thread wrote [spec/trace.md 4].
    pub compact: bool,
    /// First time of a record, cycles.
    pub begin: u64,
    /// Of so many records of a CPU one is of a request, a timer, or interrupts that are off; 0: none is.
    pub devices: u64,
    /// Of so many records of a CPU one is a page fault, and its thread mostly leaves the CPU behind it; 0: none is.
    pub faults: u64,
    /// Threads of the program whose records are the begins and ends of spans, on two CPUs; 0: there are none.
    pub spans: u64,
    /// Of so many ends of spans one is missing.
    pub unended: u64,
    /// Of so many spans one ends that is not the innermost; 0: none does.
    pub overlapping: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            seed: 1,
            cpus: 2,
            threads: 20,
            calm: false,
            records: 2000,
            packet: 100,
            lossy: 0,
            user: 300,
            compact: false,
            begin: 1_000_000,
            devices: 0,
            faults: 0,
            spans: 0,
            unended: 100,
            overlapping: 16,
        }
    }
}

fn event(id: u16, name: &str, fields: &[(&str, FieldClass)]) -> EventClass {
    let fields = fields.iter().map(|(name, class)| Field { name: (*name).into(), class: class.clone() }).collect();
    EventClass { id, name: name.into(), file: String::new(), line: 0, fields }
}

fn metadata(plan: &Plan) -> String {
    let switch = [
        ("prev_tid", I32),
        ("prev_prio", I32),
        ("prev_state", I64),
        ("next_comm", COMM),
        ("next_tid", I32),
        ("next_prio", I32),
    ];
    let mut kernel = vec![
        event(1, "sched_switch", &switch),
        event(2, "sched_waking", &[("comm", COMM), ("tid", I32), ("prio", I32), ("target_cpu", I32)]),
        event(3, "irq_handler_entry", &[("irq", I32)]),
        event(4, "irq_handler_exit", &[("irq", I32)]),
        event(5, "irq_softirq_raise", &[("vec", U32)]),
        event(6, "irq_softirq_entry", &[("vec", U32)]),
        event(7, "irq_softirq_exit", &[("vec", U32)]),
        event(8, "syscall_entry_futex", &[("uaddr", I64), ("op", I64)]),
        event(9, "syscall_exit_futex", &[("ret", I64)]),
        event(10, "other_event", &[("x", I32)]),
    ];
    if plan.calm {
        kernel.retain(|event| !event.name.starts_with("sched_"));
    }
    if plan.devices > 0 {
        kernel.extend(device_events());
    }
    if plan.faults > 0 {
        kernel.push(event(23, "x86_exceptions_page_fault_user", &[("address", I64)]));
        kernel.push(event(24, "x86_exceptions_page_fault_kernel", &[("address", I64)]));
    }
    let class = |kind, events| StreamClass { kind, contexts: Vec::new(), events };
    let clock = ClockMeta {
        name: "tsc".into(),
        uuid: [2; 16],
        description: String::new(),
        frequency_hz: 1_700_000_000,
        offset_s: 1_700_000_000,
        offset_cycles: 12_345,
        precision_cycles: 0,
        absolute: true,
    };
    let mut user = vec![event(1, "motor:step", &[("axis", I32)])];
    if plan.spans > 0 {
        let names = ["axis:begin", "axis:end", "load:begin", "load:end"];
        user.extend((2..).zip(names).map(|(id, name)| event(id, name, &[])));
    }
    let kind = if plan.compact { StreamKind::Compact } else { StreamKind::User };
    user.extend(plan.compact.then(EventClass::of_threads));
    let streams = vec![class(kind, user), class(StreamKind::Kernel, kernel)];
    // A trace with devices was recorded by one of its threads, whose latencies do not count.
    let recorder = [("recorded_by", EnvValue::Text("kymo 0".into())), ("recorder_pid", EnvValue::Int(5))];
    let env = recorder.into_iter().filter(|_| plan.devices > 0).map(|(key, value)| (key.into(), value)).collect();
    metadata_ctf18(&TraceMeta { uuid: UUID, env, clock, streams })
}

/// One thread of four is a real-time one.
fn prio(tid: i32) -> [u8; 4] {
    if tid % 4 == 1 { 20i32 } else { 120 }.to_le_bytes()
}

fn device_events() -> Vec<EventClass> {
    let (request, packet) = ([("dev", U32), ("sector", I64)], [("skbaddr", I64), ("name", COMM)]);
    vec![
        event(11, "block_rq_issue", &request),
        event(12, "block_rq_complete", &request),
        event(13, "net_dev_queue", &packet),
        event(14, "net_dev_xmit", &packet),
        event(15, "timer_hrtimer_start", &[("hrtimer", I64), ("expires", I64)]),
        event(16, "timer_hrtimer_expire_entry", &[("hrtimer", I64), ("now", I64), ("function", I64)]),
        event(17, "timer_hrtimer_expire_exit", &[("hrtimer", I64)]),
        event(18, "preemptirq_irq_disable", &[("caller", I64)]),
        event(19, "preemptirq_irq_enable", &[("caller", I64)]),
        event(20, "x86_irq_vectors_local_timer_entry", &[("vector", I32)]),
        event(21, "x86_irq_vectors_local_timer_exit", &[("vector", I32)]),
        event(22, "lttng_statedump_block_device", &[("dev", U32), ("diskname", COMM)]),
    ]
}

/// One stream file.
struct Stream {
    to: BufWriter<File>,
    head: PacketHead,
    content: Vec<u8>,
    count: u64,
    is_compact: bool,
    /// Of compact records: the thread that a packet begins with, and that of the last record.
    threads: (u32, u32),
}

/// A short header has so many cycles.
const WRAP: u64 = 1 << 27;

impl Stream {
    fn create(path: &Path, cpu: u32, program: Option<Program>) -> io::Result<Stream> {
        let head = PacketHead {
            uuid: UUID,
            stream_instance: cpu.into(),
            begin: 0,
            end: 0,
            content_bytes: 0,
            seq: 0,
            discarded: 0,
            cpu,
            program,
        };
        let to = BufWriter::with_capacity(1 << 20, File::create(path)?);
        Ok(Stream { to, head, content: Vec::new(), count: 0, is_compact: false, threads: (0, 0) })
    }

    /// A record of a thread of a program.
    fn user_record(&mut self, (time, id): (u64, u16), tid: u32, fields: &[&[u8]]) {
        if !self.is_compact {
            let tid = tid.to_le_bytes();
            return self.record(time, id, &[&[&tid[..]], fields].concat());
        }
        if self.count == 0 {
            // Every second packet does not know who writes first.
            self.threads = if self.head.seq % 2 == 0 { (tid, tid) } else { (0, 0) };
        }
        if self.threads.1 != tid {
            let before = self.content.len();
            self.record(time, 0xffff, &[&tid.to_le_bytes()]);
            self.content.insert(before, 31);
            self.threads.1 = tid;
        }
        let is_short = self.count > 0 && time - self.head.end < WRAP;
        let before = self.content.len();
        self.record(time, id, fields);
        match is_short {
            false => self.content.insert(before, 31),
            true => {
                let head = (u32::from(id) | ((time % WRAP) as u32) << 5).to_le_bytes();
                drop(self.content.splice(before..before + record_head(id, time).len(), head));
            }
        }
    }

    /// Some records are missing in front of the next packet.
    fn lose(&mut self, plan: &Plan, random: &mut Random) {
        if plan.lossy > 0 && random.below(plan.lossy) == 0 {
            self.head.discarded += 1 + random.below(5);
        }
    }

    fn record(&mut self, time: u64, id: u16, parts: &[&[u8]]) {
        if self.count == 0 {
            self.head.begin = time;
        }
        self.head.end = time;
        self.count += 1;
        self.content.extend_from_slice(&record_head(id, time));
        parts.iter().for_each(|part| self.content.extend_from_slice(part));
    }

    fn end_packet(&mut self) -> io::Result<()> {
        self.head.content_bytes = self.content.len() as u64;
        let head = if self.is_compact { self.head.encode_compact(self.threads.0) } else { self.head.encode() };
        self.to.write_all(&head)?;
        self.to.write_all(&self.content)?;
        self.content.clear();
        self.head.seq += 1;
        self.count = 0;
        Ok(())
    }
}

/// A CPU and who runs there.
struct Cpu {
    stream: Stream,
    time: u64,
    current: i32,
    /// What comes next, of a round of records.
    step: u64,
}

fn text(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len().min(15)].copy_from_slice(&name.as_bytes()[..name.len().min(15)]);
    bytes
}

fn comm(tid: i32) -> [u8; 16] {
    text(&format!("thread-{tid}"))
}

impl Cpu {
    fn record(&mut self, id: u16, parts: &[&[u8]]) {
        let tid = self.current.to_le_bytes();
        let mut all: Vec<&[u8]> = vec![&tid, &[0, 0]];
        all.extend(parts);
        self.stream.record(self.time, id, &all);
    }

    /// Requests and packets that begin and are over, on any CPU; timers that are started and call; interrupts off.
    fn device(&mut self, chosen: i32, number: u32, random: &mut Random) {
        let (disk, request) = ((8 << 20 | (16 * random.below(2u32))).to_le_bytes(), random.below(8u64).to_le_bytes());
        let name = text(if random.below(2) == 0 { "eth0" } else { "eth1" });
        let (timer, now) = (random.below(5u64).to_le_bytes(), self.time + random.below(4000));
        match random.below(13) {
            0 | 1 => self.record(11, &[&disk, &request]),
            2 | 3 => self.record(12, &[&disk, &request]),
            4 => self.record(13, &[&request, &name]),
            5 => self.record(14, &[&request, &name]),
            6 | 7 => self.record(15, &[&timer, &(now + random.below(9000)).to_le_bytes()]),
            8 | 9 => {
                self.record(16, &[&timer, &now.to_le_bytes(), &(random.below(3u64) << 6).to_le_bytes()]);
                self.time += random.below(200);
                self.record(2, &[&comm(chosen), &chosen.to_le_bytes(), &prio(chosen), &number.to_le_bytes()]);
                self.time += 1 + random.below(200);
                self.record(17, &[&timer]);
            }
            10 => self.record(18 + random.below(2) as u16, &[&timer]),
            11 => self.record(20 + random.below(2) as u16, &[&236i32.to_le_bytes()]),
            _ if random.below(20) == 0 => {
                self.record(22, &[&disk, &text(if random.below(3) == 0 { "sda" } else { "sdb" })])
            }
            _ => self.record(21, &[&236i32.to_le_bytes()]),
        }
    }

    /// The next record of a round: a call, an interrupt that wakes a thread, the switch to it.
    fn step(&mut self, number: u32, plan: &Plan, random: &mut Random) {
        self.time += 1 + random.below(3000);
        let (irq, vec) = (random.below(3i32).to_le_bytes(), (random.below(3) as u32).to_le_bytes());
        let chosen = 1 + number as i32 + plan.cpus as i32 * random.below((plan.threads / plan.cpus).max(1)) as i32;
        if plan.devices > 0 && random.below(plan.devices) == 0 {
            return self.device(chosen, number, random);
        }
        if plan.faults > 0 && self.current != 0 && random.below(plan.faults) == 0 {
            self.step = 6;
            return self.record(23 + random.below(2) as u16, &[&4096i64.to_le_bytes()]);
        }
        self.step += 1;
        match (self.step + random.below(8) / 7) % 10 {
            0 => self.record(8, &[&0xF00u64.to_le_bytes(), &(random.below(2u64)).to_le_bytes()]),
            1 => self.record(3, &[&irq]),
            2 => self.record(5, &[&vec]),
            3 => self.record(4, &[&irq]),
            4 => self.record(6, &[&vec]),
            5 if plan.calm => self.record(10, &[&irq]),
            5 => self.record(2, &[&comm(chosen), &chosen.to_le_bytes(), &prio(chosen), &number.to_le_bytes()]),
            6 => self.record(7, &[&vec]),
            7 | 8 => {
                let state = [0i64, 1, 2, 256][random.below(4) as usize].to_le_bytes();
                let next = if random.below(4) == 0 { 0 } else { chosen };
                let name = comm(next);
                let before = self.current.to_le_bytes();
                if plan.calm {
                    self.current = next;
                    return self.record(10, &[&irq]);
                }
                self.record(1, &[&before, &prio(self.current), &state, &name, &next.to_le_bytes(), &prio(next)]);
                self.current = next;
            }
            _ if random.below(3) == 0 => self.record(10, &[&irq]),
            _ => self.record(9, &[&0i64.to_le_bytes()]),
        }
    }
}

/// Writes a trace into a directory that exists.
pub fn write(dir: &Path, plan: &Plan) -> io::Result<()> {
    std::fs::write(dir.join("metadata"), metadata(plan))?;
    let mut random = Random(plan.seed);
    for number in 0..plan.cpus {
        let stream = Stream::create(&dir.join(format!("kernel_{number}_0")), number, None)?;
        let mut cpu = Cpu { stream, time: plan.begin, current: 0, step: 0 };
        for record in 1..=plan.records {
            cpu.step(number, plan, &mut random);
            if record % plan.packet == 0 || record == plan.records {
                cpu.stream.lose(plan, &mut random);
                cpu.stream.end_packet()?;
            }
        }
        cpu.stream.to.flush()?;
    }
    write_user(dir, plan, &mut random)
}

/// Threads with spans in each other. Of some the end is missing, and some end behind what they lie in.
fn write_spans(dir: &Path, plan: &Plan, random: &mut Random) -> io::Result<()> {
    let program = Program { vpid: 10, lane: 0, procname: *b"program\0\0\0\0\0\0\0\0\0" };
    let stream = |cpu: u32| -> io::Result<Stream> {
        let stream = Stream::create(&dir.join(format!("user_{cpu}_0")), cpu, Some(program))?;
        Ok(Stream { is_compact: plan.compact, ..stream })
    };
    let mut streams = [stream(0)?, stream(1)?];
    let mut open: Vec<Vec<u16>> = vec![Vec::new(); plan.spans as usize];
    let (mut time, mut last) = (plan.begin, vec![0; plan.spans as usize]);
    for record in 1..=plan.user {
        // Some are of the same time, but none of one thread, by the ns.
        let thread = random.below(plan.spans) as usize;
        time = (time + random.below(8).min(1) * random.below(11_430)).max(last[thread] + 2);
        last[thread] = time;
        let (stream, tid) = (&mut streams[random.below(2u32) as usize], 12 + thread as u32);
        let own = &mut open[thread];
        match random.below(8) {
            0 | 1 => stream.user_record((time, 1), tid, &[&(record as i32).to_le_bytes()]),
            choice if own.is_empty() || own.len() < 5 && choice < 5 => {
                own.push(random.below(2u32) as u16);
                stream.user_record((time, 2 + 2 * own.last().unwrap()), tid, &[]);
            }
            _ => {
                let is_outer = plan.overlapping > 0 && random.below(plan.overlapping) == 0;
                let at = if is_outer { random.below(own.len()) } else { own.len() - 1 };
                let kind = own.remove(at);
                if random.below(plan.unended) > 0 {
                    stream.user_record((time, 3 + 2 * kind), tid, &[]);
                }
            }
        }
        if stream.count >= plan.packet {
            stream.lose(plan, random);
            stream.end_packet()?;
        }
    }
    for stream in &mut streams {
        if stream.count > 0 {
            stream.end_packet()?;
        }
        stream.to.flush()?;
    }
    Ok(())
}

fn write_user(dir: &Path, plan: &Plan, random: &mut Random) -> io::Result<()> {
    if plan.spans > 0 {
        return write_spans(dir, plan, random);
    }
    let program = Program { vpid: 10, lane: 0, procname: *b"program\0\0\0\0\0\0\0\0\0" };
    let stream = Stream::create(&dir.join("user_0_0"), 0, Some(program))?;
    let mut stream = Stream { is_compact: plan.compact, ..stream };
    let mut time = plan.begin;
    for record in 1..=plan.user {
        time += 1 + random.below(10_000);
        stream.user_record((time, 1), 12 + u32::from(record % 7 == 0), &[&(record as i32).to_le_bytes()]);
        if record % plan.packet == 0 || record == plan.user {
            stream.lose(plan, random);
            stream.end_packet()?;
        }
    }
    stream.to.flush()
}

/// Changes single bytes of the streams, so that some packets are damaged.
pub fn damage(dir: &Path, random: &mut Random, changes: u64) -> io::Result<()> {
    let mut files: Vec<_> = std::fs::read_dir(dir)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with(['.', 'm'])));
    files.sort();
    for _ in 0..changes {
        let path = &files[random.below(files.len() as u64) as usize];
        let mut bytes = std::fs::read(path)?;
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.word() as u8;
        if random.below(8) == 0 {
            bytes.truncate(at.max(1));
        }
        std::fs::write(path, bytes)?;
    }
    Ok(())
}
