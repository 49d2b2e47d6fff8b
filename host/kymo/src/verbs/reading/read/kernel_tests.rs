// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small traces of a kernel, and which threads `kymo read` says their records are of.

use kymo_abi::record_head;
use kymo_ctf::read::{Memory, Reader, Trace};
use kymo_ctf::write::{
    ClockMeta, EventClass, Field, FieldClass, Number, PacketHead, Program, StreamClass, StreamKind, TraceMeta,
    metadata_ctf18,
};

use kymo_index::{Indexes, Named};

use super::filter::Filters;
use super::select::Selection;
use super::{Begin, PrintShape};

const I32: FieldClass = FieldClass::Number(Number::signed(32));
const I64: FieldClass = FieldClass::Number(Number::signed(64));
const COMM: FieldClass = FieldClass::Chars { count: 16 };

fn event(id: u16, name: &str, fields: &[(&str, FieldClass)]) -> EventClass {
    let fields = fields.iter().map(|(name, class)| Field { name: (*name).into(), class: class.clone() }).collect();
    EventClass { id, name: name.into(), file: String::new(), line: 0, fields }
}

fn lttng_events() -> Vec<EventClass> {
    let switch = [("prev_comm", COMM), ("prev_tid", I32), ("prev_state", I64), ("next_comm", COMM), ("next_tid", I32)];
    vec![
        event(1, "sched_switch", &switch),
        event(
            2,
            "sched_process_fork",
            &[("child_comm", COMM), ("child_tid", I32), ("child_pid", I32), ("parent_tid", I32)],
        ),
        event(3, "sched_process_exec", &[("filename", FieldClass::CString), ("tid", I32), ("old_tid", I32)]),
        event(4, "sched_process_exit", &[("comm", COMM), ("tid", I32)]),
        event(5, "irq_handler_entry", &[("irq", I32)]),
        event(6, "lttng_statedump_process_state", &[("tid", I32), ("pid", I32), ("name", COMM)]),
        event(7, "lttng_statedump_end", &[]),
    ]
}

fn kernel_events() -> Vec<EventClass> {
    let switch = [("prev_comm", COMM), ("prev_pid", I32), ("prev_state", I64), ("next_comm", COMM), ("next_pid", I32)];
    vec![
        event(1, "sched:sched_switch", &switch),
        event(2, "task:task_newtask", &[("pid", I32), ("comm", COMM), ("clone_flags", I64)]),
        event(3, "sched:sched_process_fork", &[("child_comm", COMM), ("child_pid", I32)]),
        event(4, "task:task_rename", &[("oldcomm", COMM), ("newcomm", COMM)]),
        event(5, "irq:irq_handler_entry", &[("irq", I32)]),
    ]
}

fn int(value: i32) -> Vec<u8> {
    value.to_le_bytes().into()
}

fn comm(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes
}

/// One CPU's records, in packets; `tid` is left out where the trace has no such context.
struct Cpu {
    has_tid: bool,
    content: Vec<u8>,
    packets: Vec<u8>,
    time: u64,
    begin: u64,
    seq: u64,
}

impl Cpu {
    fn new(has_tid: bool) -> Self {
        Self { has_tid, content: Vec::new(), packets: Vec::new(), time: 0, begin: 1, seq: 0 }
    }

    fn record(&mut self, id: u16, tid: i32, payload: &[Vec<u8>]) -> &mut Self {
        self.time += 1;
        self.content.extend_from_slice(&record_head(id, self.time));
        if self.has_tid {
            self.content.extend_from_slice(&tid.to_le_bytes());
        }
        self.content.extend_from_slice(&[0, 0]);
        self.content.extend(payload.concat());
        self
    }

    fn switch(&mut self, before: (i32, &str), state: i64, next: (i32, &str)) -> &mut Self {
        let state = state.to_le_bytes().to_vec();
        self.record(1, before.0, &[comm(before.1), int(before.0), state, comm(next.1), int(next.0)])
    }

    fn irq(&mut self, tid: i32) -> &mut Self {
        self.record(5, tid, &[int(9)])
    }

    /// Ends a packet of CPU 2, up to whose end `discarded` records were lost.
    fn packet(&mut self, discarded: u64) -> &mut Self {
        let head = PacketHead {
            uuid: [1; 16],
            stream_instance: 0,
            begin: self.begin,
            end: self.time,
            content_bytes: self.content.len() as u64,
            seq: self.seq,
            discarded,
            cpu: 2,
            program: None,
        };
        self.packets.extend(head.encode());
        self.packets.append(&mut self.content);
        self.begin = self.time + 1;
        self.seq += 1;
        self
    }

    fn trace(&mut self, events: Vec<EventClass>) -> Vec<Trace> {
        self.trace_with(events, None)
    }

    /// `program`: a record of an event `motor:step` at a time, by the thread 12 of the process 10, which is called
    /// `bash`.
    fn trace_with(&mut self, events: Vec<EventClass>, program: Option<u64>) -> Vec<Trace> {
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
        let mut streams = vec![StreamClass { kind: StreamKind::Kernel, contexts: Vec::new(), events }];
        if program.is_some() {
            streams.insert(
                0,
                StreamClass { kind: StreamKind::User, contexts: Vec::new(), events: vec![event(1, "motor:step", &[])] },
            );
        }
        let mut metadata = metadata_ctf18(&TraceMeta { uuid: [1; 16], env: vec![], clock, streams });
        if !self.has_tid {
            let context = "int32_t _tid;";
            assert!(metadata.contains(context));
            metadata = metadata.replacen(context, "", 1);
        }
        let mut streams = vec![("kernel_2_0".into(), std::mem::take(&mut self.packets))];
        streams.extend(program.map(|time| ("user_2_0".into(), user_packet(time))));
        vec![Trace::from_files(&Memory { metadata: metadata.into(), streams }).unwrap().value]
    }
}

fn user_packet(time: u64) -> Vec<u8> {
    let content = [&record_head(1, time)[..], &12u32.to_le_bytes()].concat();
    let mut procname = [0; 16];
    procname[..4].copy_from_slice(b"bash");
    let head = PacketHead {
        uuid: [1; 16],
        stream_instance: 0,
        begin: time,
        end: time,
        content_bytes: content.len() as u64,
        seq: 0,
        discarded: 0,
        cpu: 2,
        program: Some(Program { vpid: 10, lane: 0, procname }),
    };
    [head.encode(), content].concat()
}

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: super::ReadArgs,
}

/// Lines of `kymo read` and how many records of the state dump were left out.
fn read(traces: &[Trace], arguments: &str) -> (Vec<String>, u64) {
    let words = ["read", "DIR", "--utc"].into_iter().chain(arguments.split_whitespace());
    let args = <Command as clap::Parser>::parse_from(words).args;
    let selection = Selection::new(traces, args.fields.as_deref(), &args.events.event, args.state).unwrap();
    let mut out = Vec::new();
    let mut filters = Filters::new(traces, &args.scope.expressions()).unwrap();
    let shape = PrintShape { traces, selection: &selection, args: &args };
    let totals = super::show(
        &mut Reader::new(traces),
        shape,
        &Begin::at_first(&Indexes::default()),
        &mut filters,
        None,
        1,
        &mut out,
    )
    .unwrap();
    let (mut again, mut filters) = (Vec::new(), Filters::new(traces, &args.scope.expressions()).unwrap());
    super::show(
        &mut Reader::new(traces),
        shape,
        &Begin::at_first(&Indexes::default()),
        &mut filters,
        Some(2),
        1,
        &mut again,
    )
    .unwrap();
    assert!(out == again, "with threads: {}", String::from_utf8_lossy(&again));
    (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), totals.state_records)
}

#[track_caller]
fn check(traces: &[Trace], arguments: &str, expect: &[&str]) {
    assert_eq!(read(traces, arguments).0, expect, "{arguments}");
}

const WHO: &str = "--fields proc,pid,tid,event";

#[test]
fn names_and_processes_by_lttngs_names() {
    let mut cpu = Cpu::new(true);
    cpu.irq(10).irq(0).irq(99);
    cpu.record(6, 10, &[int(10), int(10), comm("bash")]).record(6, 0, &[int(0), int(0), comm("swapper/0")]);
    cpu.record(7, 0, &[]);
    cpu.record(2, 10, &[comm("bash"), int(12), int(10), int(10)]).irq(12);
    cpu.record(2, 10, &[comm("bash"), int(11), int(-1), int(10)]).switch((10, "bash"), 1, (11, "bash")).irq(11);
    cpu.record(3, 11, &[b"/bin/ls\0".to_vec(), int(11), int(11)]).record(4, 11, &[comm("ls"), int(11)]).irq(11);
    cpu.switch((11, "ls"), 0x20, (0, "swapper/2")).irq(11).irq(-1);
    let traces = cpu.packet(0).trace(lttng_events());
    let expect = [
        "bash[10/10] irq_handler_entry",
        "swapper/2[0/0] irq_handler_entry",
        "[-/99] irq_handler_entry",
        "bash[10/10] sched_process_fork",
        "bash[10/12] irq_handler_entry",
        "bash[10/10] sched_process_fork",
        "bash[10/10] sched_switch",
        "bash[-/11] irq_handler_entry",
        "ls[11/11] sched_process_exec",
        "ls[11/11] sched_process_exit",
        "ls[11/11] irq_handler_entry",
        "ls[11/11] sched_switch",
        "[-/11] irq_handler_entry",
        "irq_handler_entry",
    ];
    let irqs: Vec<&str> = expect.into_iter().filter(|line| line.contains("irq")).collect();
    check(&traces, WHO, &expect);
    // What is not shown is learnt from all the same.
    check(&traces, &format!("{WHO} --event irq_*"), &irqs);
}

#[test]
fn names_and_processes_by_the_kernels_names() {
    let mut cpu = Cpu::new(true);
    cpu.switch((0, "swapper/2"), 0, (20, "make"));
    cpu.record(2, 20, &[int(21), comm("make"), 0x11_i64.to_le_bytes().into()]).record(3, 20, &[comm("make"), int(21)]);
    cpu.record(2, 21, &[int(22), comm("make"), 0x1_0000_i64.to_le_bytes().into()]).irq(21).irq(22).irq(20);
    cpu.record(4, 22, &[comm("make"), comm("worker")]).record(4, 20, &[comm("other"), comm("x")]).irq(22);
    check(
        &cpu.packet(0).trace(kernel_events()),
        WHO,
        &[
            "swapper/2[0/0] sched:sched_switch",
            "make[-/20] task:task_newtask",
            "make[-/20] sched:sched_process_fork",
            "make[21/21] task:task_newtask",
            "make[21/21] irq:irq_handler_entry",
            "make[21/22] irq:irq_handler_entry",
            "make[-/20] irq:irq_handler_entry",
            "worker[21/22] task:task_rename",
            "make[-/20] task:task_rename",
            "worker[21/22] irq:irq_handler_entry",
        ],
    );
}

#[test]
fn a_programs_records_tell_their_own_process_only() {
    let mut cpu = Cpu::new(true);
    cpu.switch((10, "bash"), 0, (12, "worker")).irq(12);
    cpu.time = 5;
    let traces = cpu.irq(12).irq(10).packet(0).trace_with(lttng_events(), Some(4));
    check(
        &traces,
        WHO,
        &[
            "bash[-/10] sched_switch",
            "worker[-/12] irq_handler_entry",
            "bash[10/12] motor:step",
            "worker[-/12] irq_handler_entry",
            "bash[-/10] irq_handler_entry",
        ],
    );
}

/// Two threads in turns, and an interrupt in each: as often as it takes to believe the switches.
fn turns(cpu: &mut Cpu, times: u32) {
    for _ in 0..times {
        cpu.switch((10, "a"), 0, (11, "b")).irq(11).switch((11, "b"), 0, (10, "a")).irq(10);
    }
}

#[test]
fn without_a_tid_the_switches_of_the_cpu_say_what_runs() {
    let mut cpu = Cpu::new(false);
    turns(&mut cpu, 4);
    cpu.switch((10, "a"), 0, (11, "b")).irq(11).packet(0);
    cpu.irq(0).packet(3);
    let traces = cpu.trace(lttng_events());
    let (lines, _) = read(&traces, WHO);
    assert_eq!(lines[..2], ["sched_switch", "irq_handler_entry"], "nothing is believed at first");
    assert_eq!(lines[16..18], ["a[-/10] sched_switch", "b[-/11] irq_handler_entry"]);
    assert!(lines[18].starts_with("--- lost 3 records on cpu2 (stream kernel_2_0) between "), "{}", lines[18]);
    assert_eq!(lines[19..], ["irq_handler_entry"], "a switch may be among what was lost");
}

/// Lines of `kymo read --from`, in ns.
fn read_from(traces: &[Trace], from: i64) -> Vec<String> {
    let args = <Command as clap::Parser>::parse_from(["read", "DIR", "--utc"].into_iter().chain(WHO.split(' '))).args;
    let selection = Selection::new(traces, args.fields.as_deref(), &[], false).unwrap();
    let named = [Named { dir: "DIR".into(), parts: vec!["DIR".into()] }];
    let indexes = Indexes::default();
    let begin = Begin { named: &named, indexes: &indexes, ends: (Some(from), None) };
    let shape = PrintShape { traces, selection: &selection, args: &args };
    let (mut out, mut filters) = (Vec::new(), Filters::new(traces, &[]).unwrap());
    super::show(&mut begin.reader(traces), shape, &begin, &mut filters, None, 1, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn from_any_time_on_the_threads_are_the_same() {
    for breaks in [false, true] {
        let mut cpu = Cpu::new(false);
        turns(&mut cpu, 6);
        if breaks {
            cpu.switch((12, "c"), 0, (10, "a")).irq(10);
        }
        turns(&mut cpu, 6);
        let end = cpu.time;
        let traces = cpu.packet(0).trace(lttng_events());
        let (all, _) = read(&traces, WHO);
        assert_eq!(all.last().unwrap().contains("a[-/10]"), !breaks, "{all:?}");
        for from in 1..=end {
            assert_eq!(read_from(&traces, from as i64), all[from as usize - 1..], "from {from}, breaks {breaks}");
        }
    }
}

#[test]
fn switches_that_do_not_follow_from_each_other_say_nothing() {
    let mut cpu = Cpu::new(false);
    turns(&mut cpu, 2);
    cpu.switch((12, "c"), 0, (10, "a"));
    turns(&mut cpu, 10);
    let (lines, _) = read(&cpu.packet(0).trace(lttng_events()), WHO);
    assert!(lines.iter().all(|line| !line.contains('[')), "{lines:?}");
}

#[test]
fn the_state_dump_is_shown_when_it_is_wanted() {
    let mut cpu = Cpu::new(true);
    cpu.record(6, 10, &[int(10), int(10), comm("bash")]).record(7, 0, &[]).irq(10);
    let traces = cpu.packet(0).trace(lttng_events());
    let irq = "bash[10/10] irq_handler_entry";
    let process = "bash[10/10] lttng_statedump_process_state";
    for (arguments, expect, hidden) in [
        ("", vec![irq], 2),
        ("--state", vec![process, "[-/0] lttng_statedump_end", irq], 0),
        ("--event *process_state", vec![process], 0),
        ("--event irq*", vec![irq], 0),
        ("--event irq* --state", vec![process, "[-/0] lttng_statedump_end", irq], 0),
        ("--limit 1", vec![irq], 2),
    ] {
        let (lines, left_out) = read(&traces, &format!("{WHO} {arguments}"));
        assert_eq!(
            (lines.as_slice(), left_out),
            (&*expect.iter().map(|l| l.to_string()).collect::<Vec<_>>(), hidden),
            "{arguments}"
        );
    }
    let (lines, left_out) = read(&traces, "--json");
    assert_eq!((lines.len(), left_out), (1, 2));
    assert!(lines[0].contains(r#""proc":"bash","pid":10,"tid":10,"#), "{}", lines[0]);
}

#[test]
fn filters_by_the_machines_state() {
    let mut events = lttng_events();
    events.extend([
        event(8, "irq_handler_exit", &[("irq", I32), ("ret", I32)]),
        event(9, "syscall_entry_read", &[("fd", I32)]),
        event(10, "syscall_exit_read", &[("ret", I64)]),
    ]);
    let mut cpu = Cpu::new(false);
    cpu.switch((11, "init"), 1, (12, "bash"));
    cpu.record(9, 0, &[int(3)]).irq(0);
    // For the program's record.
    cpu.time += 1;
    cpu.record(8, 0, &[int(9), int(1)]).record(10, 0, &[0i64.to_le_bytes().into()]);
    cpu.switch((12, "bash"), 1, (0, "swapper/2")).irq(0).record(8, 0, &[int(9), int(1)]).packet(0);
    let traces = cpu.trace_with(events, Some(4));
    let check = |filter: &str, expect: &[&str]| check(&traces, &format!("--fields event --filter {filter}"), expect);
    check("$doing~'irq*'", &["motor:step", "irq_handler_exit", "irq_handler_exit"]);
    check("$syscall=='read'", &["irq_handler_entry", "motor:step", "irq_handler_exit", "syscall_exit_read"]);
    check("$syscall==''&&$task=='bash'", &["syscall_entry_read", "sched_switch"]);
    check("$task~'swap*'", &["irq_handler_entry", "irq_handler_exit"]);
    check("$doing=='idle'", &["irq_handler_entry"]);
    // Who ran in front of the first switch is not known.
    check("$running!=12", &["irq_handler_entry", "irq_handler_exit"]);
    check("$task_prio<100", &[]);
}
