// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream files [spec/trace.md 1 and 2]: packets are appended whole or not at all, and files serve one lane after the
//! other.
//!
//! A write that fails (no space, an I/O error, a directory that is gone) interrupts the writing of the whole trace, at
//! a packet boundary. Once a second it is tried again; lanes count meanwhile what they could not write, for their next
//! packets.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use kymo_ctf::write::{PacketHead, Program};

use crate::clock::ClockSource;
use crate::trace_dir::{TraceDir, TraceFile};
use crate::written::Written;

/// Between two attempts to write again, and two looks at the directory.
const RETRY: Duration = Duration::from_secs(1);
/// A block of any file system has so many bytes, or a multiple of them.
const BLOCK_BYTES: u64 = 4096;

/// What a stream's lanes have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Lanes of this CPU.
    Cpu(u32),
    /// Portable and spill lanes.
    Thread,
    /// The kernel's ring of this CPU.
    Kernel(u32),
    /// State dump, of the kernel's stream class.
    State,
    /// Marks, of the kernel's stream class.
    Marks,
    /// Maps of programs that run, of the kernel's stream class: a part of the state dump.
    Maps,
    /// Samples of this CPU, of the kernel's stream class.
    Samples(u32),
    /// Maps of processes that appear while samples are taken: a part of the state dump.
    SampleMaps,
}

impl Class {
    fn cpu_field(self) -> u32 {
        match self {
            Class::Cpu(cpu) | Class::Kernel(cpu) | Class::Samples(cpu) => cpu,
            Class::Thread => u32::MAX,
            Class::State | Class::Marks | Class::Maps | Class::SampleMaps => 0,
        }
    }

    /// Number of a file within its stream class: readers take files of one number for parts of one stream. Those of the
    /// kernel's class are counted by several threads.
    fn instance(self, files: u64) -> u64 {
        match self {
            Class::Cpu(_) | Class::Thread => files,
            Class::Kernel(cpu) => cpu.into(),
            Class::State => 1 << 32,
            Class::Marks => 2 << 32,
            Class::Maps => 3 << 32,
            Class::Samples(cpu) => 4 << 32 | u64::from(cpu),
            Class::SampleMaps => 5 << 32,
        }
    }

    fn file_name(self, number: u32) -> String {
        match self {
            Class::Cpu(cpu) => format!("user_{cpu}_{number}"),
            Class::Thread => format!("user_t_{number}"),
            Class::Kernel(cpu) => format!("kernel_{cpu}_{number}"),
            Class::State => format!("state_{number}"),
            Class::Marks => format!("marks_{number}"),
            Class::Maps => format!("state_maps_{number}"),
            Class::Samples(cpu) => format!("samples_{cpu}_{number}"),
            Class::SampleMaps => format!("state_samples_{number}"),
        }
    }
}

/// Whether a file of this name is one that streams are written to.
pub fn is_stream_file(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.split('_').collect();
    match parts[..] {
        ["user", class, number] => (class == "t" || is_number(class)) && is_number(number),
        ["kernel" | "samples", cpu, number] => is_number(cpu) && is_number(number),
        ["state" | "marks", number] | ["state", "maps" | "samples", number] => is_number(number),
        _ => false,
    }
}

/// The newest packet of a file.
#[derive(Clone, Copy, Debug)]
struct Newest {
    offset: u64,
    begin: u64,
    end: u64,
}

/// One file.
#[derive(Debug)]
pub(crate) struct Stream {
    file: Box<dyn TraceFile>,
    name: String,
    class: Class,
    instance: u64,
    bytes: u64,
    seq: u64,
    discarded: u64,
    newest: Option<Newest>,
}

impl Stream {
    /// Room for one packet without records: it tells of losses, on a disk that is full. What is in the file's last
    /// block need not be reserved. Where the file system cannot do it, the summary alone may tell of them.
    fn reserve(&self) {
        const HEAD_BYTES: u64 = PacketHead::COMPACT_BYTES as u64;
        if self.bytes % BLOCK_BYTES == 0 || BLOCK_BYTES - self.bytes % BLOCK_BYTES < HEAD_BYTES {
            self.file.reserve(self.bytes, HEAD_BYTES);
        }
    }

    /// What became of the file while it was open, if it is not what was written.
    fn is_gone(&self) -> Option<String> {
        match self.file.links_and_bytes()? {
            (0, _) => Some(format!("{} was removed while it was written to", self.name)),
            (_, bytes) if bytes < self.bytes => Some(format!("{} was cut short while it was written to", self.name)),
            _ => None,
        }
    }

    /// Name and bytes, if it has any.
    pub(crate) fn content(&self) -> Option<(String, u64)> {
        (self.bytes > 0).then(|| (self.name.clone(), self.bytes))
    }
}

/// What a lane says of the packet that it wants written.
pub(crate) struct Packet {
    pub begin: u64,
    pub end: u64,
    /// Records lost since the lane's packet before.
    pub lost: u64,
    /// Whose rings; nobody's in the kernel's streams.
    pub program: Option<Program>,
    /// Of compact records: the thread in front of the first one.
    pub thread: Option<u32>,
    /// Ring bytes, as they are; lengths may be zero.
    pub pieces: [libc::iovec; 2],
}

impl Packet {
    fn content_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.iov_len as u64).sum()
    }
}

/// Whose the packet is that tells of losses, and with compact records a thread: there is no record of one.
type Teller = (Program, Option<u32>);

/// Why a packet was not written.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The trace cannot be written at present.
    Stopped,
    /// Its begin lies before the begin of the packet before [spec/trace.md 3].
    Backwards,
    /// The ring bytes cannot be read.
    Unreadable,
    /// No file could be opened for it.
    NoFile,
}

/// All files of a trace.
#[derive(Debug)]
pub(crate) struct Streams {
    dir: Box<dyn TraceDir>,
    source: ClockSource,
    uuid: [u8; 16],
    free: HashMap<Class, Vec<Stream>>,
    count: HashMap<Class, u32>,
    /// There are files of the same trace already, which are left alone.
    beside: bool,
    /// Files so far.
    pub files: u64,
    /// Packets so far.
    pub packets: u64,
    /// Bytes so far, heads included.
    pub bytes: u64,
    /// Records that packets say were lost.
    pub lost: u64,
    /// Why and since when (clock) nothing can be written, if so.
    pub stopped: Option<(String, u64)>,
    /// The same of the first time that this was so, in whatever directory, and of the present one.
    stopped_first: Option<(String, u64)>,
    stopped_here: Option<(String, u64)>,
    /// The next write tells whether there is room again.
    on_trial: bool,
    /// When the directory was looked at last.
    looked: Instant,
    /// Files that are not what was written to them.
    gone: Vec<String>,
    /// What the directories before the present one have.
    before: Written,
    /// Losses of lanes that ended while nothing could be written: one of the programs, and how many records.
    owed: HashMap<Class, (Teller, u64)>,
}

impl Streams {
    pub(crate) fn new(dir: Box<dyn TraceDir>, uuid: [u8; 16], source: ClockSource) -> Streams {
        Streams {
            dir,
            source,
            uuid,
            free: HashMap::new(),
            count: HashMap::new(),
            beside: false,
            files: 0,
            packets: 0,
            bytes: 0,
            lost: 0,
            stopped: None,
            stopped_first: None,
            stopped_here: None,
            on_trial: false,
            looked: source.now(),
            gone: Vec::new(),
            before: Written::default(),
            owed: HashMap::new(),
        }
    }

    /// What went into the present directory.
    pub(crate) fn written(&self) -> Written {
        Written {
            files: self.files - self.before.files,
            packets: self.packets - self.before.packets,
            bytes: self.bytes - self.before.bytes,
            lost: self.lost - self.before.lost,
            error: self.stopped_here.as_ref().map(|(error, _)| error.clone()),
        }
    }

    /// The trace goes on in another directory, as a trace of its own; all lanes have given their files back. Counts go
    /// on, and where writing had ended it begins again. Returns what went into the directory behind.
    pub(crate) fn go_on_in(&mut self, dir: &Path, uuid: [u8; 16]) -> Written {
        self.finish();
        let written = self.written();
        self.before.add(&Written { error: None, ..written.clone() });
        (self.dir, self.uuid) = (self.dir.another(dir), uuid);
        self.free.clear();
        self.count.clear();
        (self.stopped, self.stopped_here) = (None, None);
        written
    }

    /// Why and when something could not be written for the first time, in any directory.
    pub(crate) fn first_stop(&self) -> Option<(String, u64)> {
        self.stopped_first.clone()
    }

    /// Whether the last that was wanted could be written.
    pub(crate) fn is_writing(&self) -> bool {
        self.stopped.is_none() && !self.on_trial
    }

    /// Files that were removed or cut short by somebody else, as far as that was seen.
    pub(crate) fn gone(&self) -> &[String] {
        &self.gone
    }

    /// Once a second: stops where the directory is gone, and tries again where nothing could be written.
    pub(crate) fn look_again(&mut self, now: u64) {
        let time = self.source.now();
        if time.saturating_duration_since(self.looked) < RETRY {
            return;
        }
        self.looked = time;
        match self.dir.is_gone() {
            Some(reason) => self.stop(&io::Error::other(reason), now),
            None => self.try_again(),
        }
        self.tell_owed();
    }

    /// Where nothing could be written, the next packet is tried all the same.
    pub(crate) fn try_again(&mut self) {
        if self.dir.is_gone().is_none() && self.stopped.take().is_some() {
            self.on_trial = true;
        }
    }

    /// Files of the same trace in another directory: a snapshot's. Some of ours may be copied there, so theirs are
    /// others.
    pub(crate) fn sibling(&self, dir: &Path) -> Streams {
        let new = Streams::new(self.dir.another(dir), self.uuid, self.source);
        Streams { files: self.files, count: self.count.clone(), ..new }
    }

    /// Files that no lane has now: names and bytes.
    pub(crate) fn free_files(&self) -> impl Iterator<Item = (String, u64)> {
        self.free.values().flatten().filter_map(Stream::content)
    }

    /// Files beside those that the trace has; theirs are counted from `first` on.
    pub(crate) fn beside(dir: Box<dyn TraceDir>, uuid: [u8; 16], source: ClockSource, first: u64) -> Streams {
        Streams { beside: true, files: first, ..Streams::new(dir, uuid, source) }
    }

    /// A file for a lane whose first packet begins at `begin`: one that ended before, else a new one.
    fn claim(&mut self, class: Class, begin: u64) -> io::Result<Stream> {
        let free = self.free.entry(class).or_default();
        let fits = |stream: &Stream| stream.newest.is_none_or(|newest| newest.end <= begin);
        if let Some(at) = free.iter().rposition(|stream| fits(stream) && stream.is_gone().is_none()) {
            return Ok(free.swap_remove(at));
        }
        if let Some(reason) = self.dir.is_gone() {
            return Err(io::Error::other(reason));
        }
        let number = self.count.entry(class).or_default();
        let (file, name) = loop {
            let name = class.file_name(*number);
            *number += 1;
            match self.dir.create(&name) {
                Ok(file) => break (file, name),
                // Of the session that is being recovered.
                Err(error) if self.beside && error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let instance = class.instance(self.files);
        self.files += 1;
        Ok(Stream { file, name, class, instance, bytes: 0, seq: 0, discarded: 0, newest: None })
    }

    /// Takes back the file of a lane that has ended.
    pub(crate) fn release(&mut self, stream: Stream) {
        self.free.entry(stream.class).or_default().push(stream);
    }

    /// A lane has ended, and its last losses could not be told of: a packet does it once there is room, or at the end.
    pub(crate) fn owe(&mut self, class: Class, lost: u64, teller: Teller) {
        let (of, owed) = self.owed.entry(class).or_insert((teller, 0));
        (*of, *owed) = (teller, owed.saturating_add(lost));
    }

    fn tell_owed(&mut self) {
        const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        if self.owed.is_empty() || self.stopped.is_some() {
            return;
        }
        for (class, ((program, thread), lost)) in std::mem::take(&mut self.owed) {
            let (mut slot, now) = (None, self.source.read());
            let program_head = Some(program);
            let packet = Packet { begin: now, end: now, lost, program: program_head, thread, pieces: [NOTHING; 2] };
            if self.append(&mut slot, class, &packet, now).is_err() {
                self.owe(class, lost, (program, thread));
            }
            if let Some(stream) = slot {
                self.release(stream);
            }
        }
    }

    /// Removes files that nothing was written to, and looks at the others; all lanes have given theirs back.
    pub(crate) fn finish(&mut self) {
        if !self.owed.is_empty() {
            self.try_again();
            self.tell_owed();
        }
        for stream in self.free.values().flatten() {
            if stream.bytes > 0 {
                match stream.is_gone() {
                    Some(reason) => self.gone.push(reason),
                    // Gives back what was reserved.
                    None => stream.file.cut(stream.bytes),
                }
            } else if self.dir.remove(&stream.name).is_ok() {
                self.files -= 1;
            }
        }
        self.gone.sort();
    }

    /// Writes `packet` to the lane's file, which is claimed where the lane has none yet. `now` is the clock.
    pub(crate) fn append(
        &mut self,
        slot: &mut Option<Stream>,
        class: Class,
        packet: &Packet,
        now: u64,
    ) -> Result<(), Refusal> {
        if self.stopped.is_some() {
            return Err(Refusal::Stopped);
        }
        if let Some(reason) = slot.as_ref().and_then(Stream::is_gone) {
            // What is written from here on goes into another one.
            self.gone.push(reason);
            *slot = None;
        }
        let stream = match slot {
            Some(stream) => stream,
            None => slot.insert(self.claim(class, packet.begin).map_err(|error| self.cannot_open(error, now))?),
        };
        if let Some(newest) = stream.newest.as_mut().filter(|newest| packet.begin < newest.end) {
            if packet.begin < newest.begin {
                return Err(Refusal::Backwards);
            }
            newest.end = packet.begin;
            // A failure leaves an end that is too late, which readers report and survive.
            let _ = stream.file.write_at(newest.offset + PacketHead::END_OFFSET as u64, &packet.begin.to_le_bytes());
        }
        let opens_with_loss = stream.newest.is_none() && packet.lost > 0;
        let result = if opens_with_loss { self.opening(slot, packet, now) } else { Ok(()) };
        result.and_then(|()| self.write(slot, packet, now))
    }

    fn cannot_open(&mut self, error: io::Error, now: u64) -> Refusal {
        if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            tracing::warn!(%error, "no file could be opened for a stream");
            return Refusal::NoFile;
        }
        self.stop(&error, now);
        Refusal::Stopped
    }

    fn stop(&mut self, error: &io::Error, now: u64) {
        let why = || (error.to_string(), now);
        self.on_trial = false;
        self.stopped.get_or_insert_with(why);
        if self.stopped_here.is_none() {
            tracing::warn!(%error, "the trace cannot be written");
        }
        self.stopped_here.get_or_insert_with(why);
        self.stopped_first.get_or_insert_with(why);
    }

    /// An empty packet in front of a file's first loss: readers date a loss by the packet before, and else ignore its
    /// count.
    fn opening(&mut self, slot: &mut Option<Stream>, packet: &Packet, now: u64) -> Result<(), Refusal> {
        const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let Packet { begin, program, thread, .. } = *packet;
        let empty = Packet { begin, end: begin, lost: 0, program, thread, pieces: [NOTHING; 2] };
        self.write(slot, &empty, now)
    }

    fn write(&mut self, slot: &mut Option<Stream>, packet: &Packet, now: u64) -> Result<(), Refusal> {
        let Some(stream) = slot else { return Err(Refusal::Stopped) };
        let head = PacketHead {
            uuid: self.uuid,
            stream_instance: stream.instance,
            begin: packet.begin,
            end: packet.end,
            content_bytes: packet.content_bytes(),
            seq: stream.seq,
            discarded: stream.discarded + packet.lost,
            cpu: stream.class.cpu_field(),
            program: packet.program,
        };
        let encoded = packet.thread.map_or_else(|| head.encode(), |thread| head.encode_compact(thread));
        let bytes = encoded.len() as u64 + packet.content_bytes();
        if let Err(error) = stream.file.write_packet(stream.bytes, &encoded, &packet.pieces) {
            stream.file.cut(stream.bytes);
            stream.reserve();
            if error.raw_os_error() == Some(libc::EFAULT) {
                return Err(Refusal::Unreadable);
            }
            self.stop(&error, now);
            return Err(Refusal::Stopped);
        }
        stream.newest = Some(Newest { offset: stream.bytes, begin: packet.begin, end: packet.end });
        stream.bytes += bytes;
        stream.seq += 1;
        stream.discarded += packet.lost;
        stream.reserve();
        // Room for a packet without records is kept; it says nothing of others.
        self.on_trial &= packet.content_bytes() == 0;
        self.lost += packet.lost;
        self.packets += 1;
        self.bytes += bytes;
        Ok(())
    }
}
