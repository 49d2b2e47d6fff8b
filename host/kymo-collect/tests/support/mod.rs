// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program in the small: it connects to a session, describes one event, maps the memory and writes records by the
//! rules of spec/ring.md. One lane, one writer; it may also break any rule.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kymo_abi::desc::{Desc, EventDesc, Field, FieldType, Scalar, encode};
use kymo_abi::ring::{Layout, Mark, RingBlock, Span, View};
use kymo_abi::wire::{Attached, BYTES_MAX, ByeReason, DescEntry, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, RingKind, head_word};
use kymo_collect::{Config, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use tempfile::TempDir;

/// A runtime directory and a place for traces.
pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    pub fn runtime(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn trace(&self) -> PathBuf {
        self.dir.path().join("trace")
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(self.trace());
        config.runtime_dir = Some(self.runtime());
        config.ring_bytes = 64 << 10;
        config
    }

    pub fn start(&self) -> Session {
        Session::start(self.config()).unwrap()
    }

    /// The sockets of sessions.
    pub fn sessions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.runtime()).unwrap().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("s."))
            .collect()
    }
}

/// One connection.
pub struct Line {
    pub socket: OwnedFd,
    pub descriptor: Option<OwnedFd>,
}

impl Line {
    pub fn connect(path: &Path) -> Line {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Line { socket, descriptor: None }
    }

    pub fn say(&self, packet: &[u8]) -> bool {
        rustix::net::send(&self.socket, packet, SendFlags::NOSIGNAL).is_ok()
    }

    /// The next message; `None` at the end of the connection.
    pub fn hear(&mut self) -> Option<FromCollector> {
        self.hear_for(Duration::from_secs(120)).expect("the collector says nothing")
    }

    /// The same; the outer `None` when nothing came in time.
    pub fn hear_for(&mut self, patience: Duration) -> Option<Option<FromCollector>> {
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut set = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut set, Some(&timeout)).unwrap() == 0 {
            return None;
        }
        let mut bytes = vec![0; BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptor = descriptors.last();
            }
        }
        match got {
            // It ended before it read all of ours: what it said at last comes after the error.
            Err(rustix::io::Errno::CONNRESET) => self.hear_for(patience),
            Ok(got) if got.bytes > 0 => Some(Some(FromCollector::decode(&bytes[..got.bytes]).unwrap())),
            _ => Some(None),
        }
    }

    /// Reads up to BYE. Returns it; `None` when the connection ended without one.
    pub fn hear_bye(&mut self) -> Option<(ByeReason, String)> {
        loop {
            match self.hear() {
                Some(FromCollector::Bye { reason, text }) => return Some((reason, text)),
                Some(_) => {}
                None => return None,
            }
        }
    }
}

pub fn session_clock() -> Clock {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.unwrap_or_default().trim() {
        "tsc" if cfg!(target_arch = "x86_64") => Clock::Tsc,
        "arch_sys_counter" if cfg!(target_arch = "aarch64") => Clock::Cntvct,
        _ => Clock::Monotonic,
    }
}

pub fn hello() -> Hello {
    let pid = std::process::id();
    let (kind, clock) = (RingKind::Rseq.code(), session_clock().code());
    Hello { abi: ABI_VERSION, pid, kind, clock, cpu_count: 2, nonce: 0, comm: "fake".into(), exe: "/bin/fake".into() }
}

/// `provider:name` with one u64.
pub fn event(provider: &str, name: &str) -> Vec<u8> {
    let fields = vec![Field { name: "n".into(), ty: FieldType::Scalar(Scalar::U64) }];
    encode(&Desc::Event(EventDesc {
        provider: provider.into(),
        name: name.into(),
        file: "fake.c".into(),
        line: 1,
        fields,
    }))
}

/// A program that was given memory.
pub struct Fake {
    pub line: Line,
    base: NonNull<u8>,
    pub layout: Layout,
    pub id: u16,
    pub session: String,
}

// SAFETY: the mapping is shared memory; a fake is used by one thread at a time [spec/ring.md 4].
unsafe impl Send for Fake {}

impl Fake {
    /// Attaches to the session at `path` as the program `hello`, with the event fake:tick.
    pub fn attach(path: &Path, hello: Hello) -> Fake {
        let mut line = Line::connect(path);
        assert!(line.say(&FromProgram::Hello(hello).encode()));
        let entry = DescEntry { index: Some(0), desc: event("fake", "tick") };
        line.say(&FromProgram::Descs(vec![entry]).encode());
        line.say(&FromProgram::DescsEnd { generation: 1 }.encode());
        let (mut attach, mut id) = (None, 0);
        loop {
            match line.hear().expect("the collector hung up") {
                FromCollector::Attach { layout, serial, session } => attach = Some((layout, serial, session)),
                FromCollector::Enable(pairs) => id = pairs[0].1,
                FromCollector::Go { generation } => {
                    assert_eq!(generation, 1);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let (layout, serial, session) = attach.expect("no ATTACH");
        let descriptor = line.descriptor.take().expect("no descriptor");
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of the descriptor that the collector sent; its size is checked by the first access of
        // a test.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                layout.mem_bytes as usize,
                flags,
                MapFlags::SHARED,
                descriptor.as_fd(),
                0,
            )
        };
        let base = NonNull::new(base.unwrap().cast()).unwrap();
        line.say(
            &FromProgram::Attached(Attached { serial, error: 0, locked: false, touched_bytes: 0, late: false })
                .encode(),
        );
        Fake { line, base, layout, id, session }
    }

    pub fn view(&self) -> View<'_> {
        // SAFETY: [spec/ring.md 3.1] the mapping has mem_bytes bytes and lives as long as the fake.
        unsafe { View::new(self.base, &self.layout) }.unwrap()
    }

    pub fn ring(&self, lane: u32) -> &RingBlock {
        &self.view().rings()[lane as usize]
    }

    fn clock() -> u64 {
        #[cfg(target_arch = "x86_64")]
        if session_clock() == Clock::Tsc {
            // SAFETY: every x86-64 has the instruction.
            return unsafe { std::arch::x86_64::_rdtsc() };
        }
        #[cfg(target_arch = "aarch64")]
        if session_clock() == Clock::Cntvct {
            let ticks: u64;
            // SAFETY: Linux lets every program read it.
            unsafe { std::arch::asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nostack)) };
            return ticks;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Writes a record with the payload `n`; false, and counted, when the ring is full.
    pub fn record(&self, lane: u32, n: u64) -> bool {
        const BYTES: u32 = 20;
        let ring = self.ring(lane);
        let head = Mark(ring.head.load(Ordering::Relaxed));
        let used = head.since(Mark(ring.tail.load(Ordering::Acquire))).bytes;
        if used + BYTES.next_multiple_of(8) > self.layout.ring_bytes {
            ring.lost_full.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let word = head_word(self.id, Self::clock());
        let mut bytes = [0; BYTES as usize];
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
        bytes[12..].copy_from_slice(&n.to_le_bytes());
        for (number, byte) in bytes.into_iter().enumerate() {
            let index = head.0.wrapping_add(number as u64) as u32 & (self.layout.ring_bytes - 1);
            let at = self.base.as_ptr().wrapping_add((self.layout.lane_offset(lane) + u64::from(index)) as usize);
            // SAFETY: [spec/ring.md 3.1] the index is masked to the lane, which is mapped.
            unsafe { at.write_volatile(byte) };
        }
        ring.last.store(word, Ordering::Relaxed);
        ring.head.store(head.plus(Span { bytes: BYTES, records: 1 }).0, Ordering::Release);
        true
    }

    /// Answers BYE as a program does: nothing is written after it. Returns the reason.
    pub fn leave(mut self) -> Option<ByeReason> {
        self.line.hear_bye().map(|(reason, _)| reason)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // SAFETY: the mapping of `attach`, unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.layout.mem_bytes as usize) };
    }
}

/// A packet of a stream file.
pub struct Packet {
    pub begin: u64,
    pub end: u64,
    pub seq: u64,
    pub discarded: u64,
    pub vpid: u32,
    pub content: Vec<u8>,
}

/// The packets of a stream file, which must be whole.
pub fn packets(path: &Path) -> Vec<Packet> {
    let bytes = fs::read(path).unwrap();
    let mut at = 0;
    let mut list = Vec::new();
    while at < bytes.len() {
        let word = |offset: usize| u64::from_le_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap());
        let vpid = u32::from_le_bytes(bytes[at + 84..at + 88].try_into().unwrap());
        let size = (word(48) / 8) as usize;
        assert!(at + size <= bytes.len(), "{} ends in a torn packet", path.display());
        let content = bytes[at + 108..at + size].to_vec();
        list.push(Packet { begin: word(32), end: word(40), seq: word(64), discarded: word(72), vpid, content });
        at += size;
    }
    list
}

/// The stream files of a trace.
pub fn streams(trace: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(trace).unwrap().flatten().map(|entry| entry.path());
    let mut list: Vec<_> =
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("user_")).collect();
    list.sort();
    list
}

/// The payloads of all records in a stream, in order.
pub fn payloads(path: &Path) -> Vec<u64> {
    let content = packets(path).into_iter().flat_map(|packet| packet.content).collect::<Vec<u8>>();
    content.chunks(20).map(|record| u64::from_le_bytes(record[12..20].try_into().unwrap())).collect()
}

/// Waits until `done`, at most ten seconds.
#[track_caller]
pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
