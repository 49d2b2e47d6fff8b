// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether simulated programs are like real ones: a program with libkymo and a simulated one live the same life, say
//! the same messages, field by field, and write the same records.
//!
//! Not compared, because the machine decides them: numbers of processes and nonces (which of them are equal is), the
//! clock, how many CPUs there are, and which pages were touched in advance or locked.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use kymo_abi::desc;
use kymo_abi::ring::Layout;
use kymo_abi::wire::{ByeReason, DescEntry, Filter, FromCollector, FromProgram, Hello};
use kymo_abi::{Clock, RingKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::outside::SharedLine;
use super::program::{Program, SessionBooks};
use super::rings::{Books, Rings};
use crate::filters::{Decision, Filters};
use crate::ids::Registry;
use crate::memory::Memory;
use crate::runtime::RuntimeDir;
use crate::socket::{self, PACKET_ROOM};

const RING_BYTES: u32 = 4096;
const PAGE_BYTES: u32 = 4096;
/// Nonce of the session.
const NONCE: u32 = 0x51e5_0001;
/// How long a real program has for each step.
const PATIENCE: Duration = Duration::from_secs(60);
/// A simulated one: milliseconds.
const STEPS: u32 = 5000;

/// A program, its children, and what it executes.
trait Living {
    /// Tells whoever listens to do something: `record INDEX NUMBER`, `load LIBRARY`, `unload`, `fork`, `exec MS`,
    /// `exit`.
    fn tell(&mut self, what: &str);
    /// Waits until it is done, or until a program runs.
    fn wait(&mut self);
    /// The next connection.
    fn accept(&mut self) -> usize;
    /// The next message on a connection; none at its end.
    fn hear(&mut self, connection: usize) -> Option<FromProgram>;
    fn say(&mut self, connection: usize, message: &FromCollector, descriptor: Option<OwnedFd>);
}

/// What happens, with numbers of processes and nonces replaced by the order in which they were met.
struct Story<'a> {
    living: &'a mut dyn Living,
    lines: Vec<String>,
    pids: Vec<u32>,
    nonces: Vec<u32>,
    layout: Option<Layout>,
    serial: u64,
}

impl Story<'_> {
    /// Hears one message, and tells of it.
    fn hear(&mut self, connection: usize) -> Option<FromProgram> {
        let message = self.living.hear(connection);
        let line = match &message {
            None => "hangs up".to_owned(),
            Some(FromProgram::Hello(hello)) => self.greeting(hello),
            Some(FromProgram::Descs(entries)) => descriptions(entries),
            Some(FromProgram::Attached(attached)) => {
                format!("ATTACHED {} error {} late {}", attached.serial, attached.error, attached.late)
            }
            Some(other) => format!("{other:?}"),
        };
        self.lines.push(format!("{connection}: {line}"));
        message
    }

    fn greeting(&mut self, hello: &Hello) -> String {
        assert!(hello.nonce != 0 && hello.cpu_count > 0, "{hello:?}");
        let (kind, clock) = (RingKind::from_code(hello.kind), Clock::from_code(hello.clock));
        let (kind, clock) = (kind.expect("a kind of rings"), clock.expect("a clock"));
        let lanes = if kind == RingKind::Rseq { hello.cpu_count + 1 } else { 16 };
        self.layout = Some(Layout::new(kind, clock, lanes, RING_BYTES, PAGE_BYTES).expect("a layout"));
        let (pid, nonce) = (place(&mut self.pids, hello.pid), place(&mut self.nonces, hello.nonce));
        let exe = hello.exe.rsplit('/').next().unwrap_or_default();
        format!("HELLO abi {} process {pid} nonce {nonce} {kind:?} {} {exe}", hello.abi, hello.comm)
    }

    /// Hears all descriptions.
    fn hear_descriptions(&mut self, connection: usize) {
        while !matches!(self.hear(connection), Some(FromProgram::DescsEnd { .. }) | None) {}
    }

    fn kind(&self) -> RingKind {
        self.layout.expect("it said HELLO").kind
    }

    /// Gives memory, and hears how it was taken. Whatever was said before has been obeyed then.
    fn attach(&mut self, connection: usize) -> Rings {
        self.serial += 1;
        let layout = self.layout.expect("it said HELLO");
        let memory = Memory::create(layout, self.serial).expect("memory");
        let session = format!("sim.{NONCE:08x}");
        let rings = Rings::map(&memory.grant().expect("a descriptor"), layout, self.serial);
        let attach = FromCollector::Attach { layout, serial: self.serial, session };
        self.living.say(connection, &attach, Some(memory.grant().expect("a descriptor")));
        self.hear(connection);
        rings
    }

    fn say(&mut self, connection: usize, message: &FromCollector) {
        self.living.say(connection, message, None);
    }

    /// Records, and says what is in these rings then.
    fn record(&mut self, rings: &Rings, what: &[(u32, u64)]) {
        for (index, number) in what {
            self.living.tell(&format!("record {index} {number}"));
            self.living.wait();
        }
        self.lines.push(format!("memory {}: {:?}", rings.serial, rings.contents()));
    }

    fn load(&mut self, connection: usize, library: u32, id: u16, generation: u32) {
        self.living.tell(&format!("load e{library}"));
        self.hear_descriptions(connection);
        self.say(connection, &FromCollector::Enable(vec![(library, id)]));
        self.say(connection, &FromCollector::Go { generation });
        self.living.wait();
    }
}

/// A number's place among those that were met.
fn place(met: &mut Vec<u32>, number: u32) -> usize {
    met.iter().position(|other| *other == number).unwrap_or_else(|| {
        met.push(number);
        met.len() - 1
    })
}

fn descriptions(entries: &[DescEntry]) -> String {
    let of = |entry: &DescEntry| format!("{:?} {:?}", entry.index, desc::parse(&entry.desc));
    format!("DESCS {:?}", entries.iter().map(of).collect::<Vec<_>>())
}

/// The filter of the simulated sessions, as their control thread makes it.
fn even_numbers() -> FromCollector {
    let filter = kymo_filter::parse("sim:e1: n & 1 == 0").expect("a filter");
    let mut registry = Registry::default();
    let fields = vec![desc::Field { name: "n".into(), ty: desc::FieldType::Scalar(desc::Scalar::U64) }];
    let (provider, name, file) = ("sim".to_owned(), "e1".to_owned(), "sim.c".to_owned());
    let event = desc::EventDesc { provider, name, file, line: 1, fields };
    let id = registry.id(&event, |_| None, true).expect("an id");
    let mut filters = Filters::new(&[filter]);
    filters.learn(&registry.events);
    let Decision::Some(program) = filters.decide(id).0 else { panic!("the filter fits") };
    FromCollector::Filter(Filter {
        index: 1,
        insns: program.insns.iter().map(|insn| insn.to_bytes()).collect(),
        pool: program.pool.clone(),
        payload_min_bytes: program.payload_min_bytes,
    })
}

/// A program starts, records with and without a filter, gets other rings, loads and unloads libraries, forks, executes
/// another one that does not wait for its answer, and is told to go.
fn live(living: &mut dyn Living) -> (RingKind, Vec<String>) {
    let (lines, pids, nonces) = (Vec::new(), Vec::new(), Vec::new());
    let mut story = Story { living, lines, pids, nonces, layout: None, serial: 0 };
    let first = story.living.accept();
    story.hear_descriptions(first);
    let rings = story.attach(first);
    story.say(first, &FromCollector::Enable(vec![(0, 1), (1, 2)]));
    story.say(first, &FromCollector::Go { generation: 1 });
    story.living.wait();
    story.record(&rings, &[(0, 1), (1, 2), (0, 3)]);
    story.say(first, &even_numbers());
    let rings = story.attach(first);
    story.record(&rings, &[(1, 4), (1, 5), (0, 6)]);
    story.say(first, &FromCollector::Disable(vec![0]));
    let rings = story.attach(first);
    story.record(&rings, &[(0, 7), (1, 8)]);
    story.load(first, 2, 3, 2);
    story.record(&rings, &[(2, 9)]);
    story.living.tell("unload");
    story.living.wait();
    story.load(first, 3, 4, 3);
    story.record(&rings, &[(3, 10)]);
    fork(&mut story, &rings);
    execute(&mut story, first);
    (story.kind(), story.lines)
}

fn fork(story: &mut Story<'_>, parents: &Rings) {
    let kind = story.kind();
    story.living.tell("fork");
    let child = story.living.accept();
    story.hear_descriptions(child);
    if kind == RingKind::Rseq {
        story.living.wait();
        story.record(parents, &[(1, 12)]);
    }
    let rings = story.attach(child);
    story.say(child, &FromCollector::Enable(vec![(0, 1)]));
    story.say(child, &FromCollector::Go { generation: 4 });
    if kind == RingKind::Portable {
        story.living.wait();
    }
    // What it had from its parent is on, if it had that.
    story.record(&rings, &[(1, 14)]);
    let rings = story.attach(child);
    story.record(&rings, &[(0, 15)]);
    story.living.tell("exit");
    story.hear(child);
    story.living.wait();
}

fn execute(story: &mut Story<'_>, before: usize) {
    story.living.tell("exec 200");
    story.hear(before);
    let after = story.living.accept();
    story.hear_descriptions(after);
    // It is not answered, and says that it goes on.
    story.hear(after);
    story.living.wait();
    story.attach(after);
    story.say(after, &FromCollector::Enable(vec![(0, 1)]));
    story.say(after, &FromCollector::Go { generation: 1 });
    let rings = story.attach(after);
    story.record(&rings, &[(0, 17)]);
    story.say(after, &FromCollector::Bye { reason: ByeReason::End, text: "the session is over".to_owned() });
    story.hear(after);
    story.living.tell("exit");
}

/// SimulatedLife ones.
struct SimulatedLife {
    now: u64,
    kind: RingKind,
    /// Who listens is the last.
    programs: Vec<Program>,
    books: Vec<Books>,
    coming: VecDeque<SharedLine>,
    lines: Vec<SharedLine>,
    next_nonce: u32,
}

impl SimulatedLife {
    fn new(kind: RingKind) -> SimulatedLife {
        let (programs, lines, coming) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut living = SimulatedLife {
            now: 1_000_000_000,
            kind,
            programs,
            books: vec![Books::new()],
            coming,
            lines,
            next_nonce: 77,
        };
        let program = Program::new(100, 76, kind, living.now);
        living.begin(program);
        living
    }

    fn begin(&mut self, mut program: Program) {
        program.comm = "sim".to_owned();
        let line = SharedLine::new(program.pid, program.uid);
        program.introduce(0, line.clone(), false);
        self.coming.push_back(line);
        self.programs.push(program);
    }

    fn step(&mut self) {
        self.now += 1_000_000;
        for program in &mut self.programs {
            program.read(self.now, &mut self.books);
            if !program.runs {
                program.wait(self.now);
            }
        }
    }

    fn actor(&mut self) -> &mut Program {
        self.programs.last_mut().expect("somebody lives")
    }
}

impl Living for SimulatedLife {
    fn tell(&mut self, what: &str) {
        let (now, nonce) = (self.now, self.next_nonce);
        let words: Vec<&str> = what.split(' ').collect();
        match words[..] {
            ["record", index, number] => {
                let mut token = number.parse::<u64>().expect("a number") - 1;
                let mut sessions = SessionBooks { books: &mut self.books, filtered: vec![true] };
                let program = self.programs.last_mut().expect("somebody lives");
                program.hit(index.parse().expect("an index"), 0, &mut token, now, &mut sessions);
            }
            ["load", _] => self.actor().load_library(now),
            ["unload"] => self.actor().unload_library(),
            ["fork"] => {
                self.next_nonce += 1;
                let child = self.actor().fork(101, nonce, now);
                self.begin(child);
            }
            ["exec", _] => {
                self.next_nonce += 1;
                let mut before = self.programs.pop().expect("somebody lives");
                before.end();
                self.begin(Program::new(before.pid, nonce, self.kind, now));
            }
            _ => _ = self.programs.pop().expect("somebody lives").end(),
        }
    }

    fn wait(&mut self) {
        for _ in 0..STEPS {
            self.step();
            if self.actor().runs {
                return;
            }
        }
        panic!("it waits for ever");
    }

    fn accept(&mut self) -> usize {
        self.lines.push(self.coming.pop_front().expect("somebody has come"));
        self.lines.len() - 1
    }

    fn hear(&mut self, connection: usize) -> Option<FromProgram> {
        for _ in 0..STEPS {
            let line = self.lines[connection].clone();
            if let Some(packet) = line.get().to_collector.pop_front() {
                return Some(FromProgram::decode(&packet).expect("a message"));
            }
            if line.get().program_has_closed {
                return None;
            }
            self.step();
        }
        panic!("it says nothing");
    }

    fn say(&mut self, connection: usize, message: &FromCollector, descriptor: Option<OwnedFd>) {
        self.lines[connection].get().to_program.push_back((message.encode(), descriptor));
    }
}

/// RealLife ones.
struct RealLife {
    dir: PathBuf,
    listener: OwnedFd,
    connections: Vec<OwnedFd>,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl RealLife {
    /// Starts the program that was compiled in `dir`.
    fn new(dir: &Path, kind: RingKind) -> RealLife {
        let runtime = RuntimeDir::make(&dir.join("run")).expect("a runtime directory");
        let name = format!("s.{}.{NONCE:08x}", std::process::id());
        let listener = socket::listen(&runtime.through_fd(&name)).expect("a socket");
        let mut command = Command::new(dir.join("sim"));
        command.env("KYMO_RUNTIME_DIR", runtime.path()).env("KYMO_START_WAIT", "10000");
        command.env("KYMO_RING", if kind == RingKind::Portable { "portable" } else { "rseq" });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be run");
        let (stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        RealLife {
            dir: dir.to_owned(),
            listener,
            connections: Vec::new(),
            child,
            stdin,
            stdout: BufReader::new(stdout),
        }
    }
}

impl Drop for RealLife {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(descriptor: &OwnedFd) {
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut set = [PollFd::new(descriptor, PollFlags::IN)];
    assert_eq!(poll(&mut set, Some(&timeout)).expect("poll"), 1, "the program says nothing");
}

impl Living for RealLife {
    fn tell(&mut self, what: &str) {
        let what = what.replace("load e", &format!("load {}/e", self.dir.display()));
        writeln!(self.stdin, "{what}").expect("it listens");
    }

    fn wait(&mut self) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        assert!(["ready\n", "done\n"].contains(&line.as_str()), "{line:?}");
    }

    fn accept(&mut self) -> usize {
        wait_for(&self.listener);
        self.connections.push(socket::accept(&self.listener).expect("a connection"));
        self.connections.len() - 1
    }

    fn hear(&mut self, connection: usize) -> Option<FromProgram> {
        let connection = &self.connections[connection];
        wait_for(connection);
        let mut room = Box::new([0; PACKET_ROOM]);
        let packet = socket::receive(connection, &mut room).ok().flatten();
        packet.map(|packet| FromProgram::decode(packet).expect("a message"))
    }

    fn say(&mut self, connection: usize, message: &FromCollector, descriptor: Option<OwnedFd>) {
        let descriptor = descriptor.as_ref().map(std::os::fd::AsFd::as_fd);
        socket::send(&self.connections[connection], &message.encode(), descriptor).expect("it is told");
    }
}

/// Compiles the program and its two libraries into `dir`. False, with a visible skip, where there is no compiler.
fn compile(dir: &Path) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new("make").args(["-s", "-C"]).arg(root.join("emit")).status();
    if !made.is_ok_and(|status| status.success()) {
        kymo_testing::skip_this("libkymo cannot be built here");
        return false;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/simulation/conformance");
    let library = root.join("build/emit");
    let cc = |args: &[&str], source: &Path, to: &str| {
        let mut command = Command::new("cc");
        // Events stand in the order in which they are declared.
        command
            .args(["-O1", "-g", "-fno-toplevel-reorder", "-I"])
            .arg(root.join("emit/include"))
            .args(args)
            .arg(source)
            .arg("-o");
        command.arg(dir.join(to)).arg("-L").arg(&library).args(["-lkymo", "-ldl", "-pthread"]);
        let output = command.arg(format!("-Wl,-rpath,{}", library.display())).output().expect("cc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    cc(&[], &source.join("sim.c"), "sim");
    for event in ["e2", "e3"] {
        cc(&["-shared", "-fPIC", &format!("-DEVENT={event}")], &source.join("library.c"), event);
    }
    true
}

#[test]
fn a_simulated_program_says_what_a_real_one_says() {
    let dir = tempfile::tempdir().expect("a directory");
    if !compile(dir.path()) {
        return;
    }
    for wanted in [RingKind::Rseq, RingKind::Portable] {
        let own = dir.path().join(wanted.name());
        std::fs::create_dir(&own).expect("a directory");
        for file in ["sim", "e2", "e3"] {
            std::fs::hard_link(dir.path().join(file), own.join(file)).expect("another name");
        }
        let (kind, real) = live(&mut RealLife::new(&own, wanted));
        if kind != wanted {
            kymo_testing::skip_this("restartable sequences are not there: programs with them are not compared");
            continue;
        }
        let (_, simulated) = live(&mut SimulatedLife::new(kind));
        assert_eq!(simulated.join("\n"), real.join("\n"), "{kind:?}: simulated, and real");
        assert!(real.len() > 30, "{real:#?}");
    }
}
