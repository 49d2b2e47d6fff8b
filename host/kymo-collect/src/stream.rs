//! Stream files [spec/trace.md 1 and 2]: packets are appended whole or not at all, and files serve one lane after the other.
//!
//! The first write that fails for want of space ends the writing of the whole trace, at a packet boundary.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use kymo_ctf::write::{PacketHead, Program};

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
}

impl Class {
    fn cpu_field(self) -> u32 {
        match self {
            Class::Cpu(cpu) | Class::Kernel(cpu) => cpu,
            Class::Thread => u32::MAX,
            Class::State | Class::Marks | Class::Maps => 0,
        }
    }

    /// Number of a file within its stream class: readers take files of one number for parts of one stream. Those of the kernel's
    /// class are counted by several threads.
    fn instance(self, files: u64) -> u64 {
        match self {
            Class::Cpu(_) | Class::Thread => files,
            Class::Kernel(cpu) => cpu.into(),
            Class::State => 1 << 32,
            Class::Marks => 2 << 32,
            Class::Maps => 3 << 32,
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
        }
    }
}

/// Whether a file of this name is one that streams are written to.
pub fn is_stream_file(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.split('_').collect();
    match parts[..] {
        ["user", class, number] => (class == "t" || is_number(class)) && is_number(number),
        ["kernel", cpu, number] => is_number(cpu) && is_number(number),
        ["state" | "marks", number] | ["state", "maps", number] => is_number(number),
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
    file: File,
    name: String,
    class: Class,
    instance: u64,
    bytes: u64,
    seq: u64,
    discarded: u64,
    newest: Option<Newest>,
}

impl Stream {
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
    /// Ring bytes, as they are; lengths may be zero.
    pub pieces: [libc::iovec; 2],
}

impl Packet {
    fn content_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.iov_len as u64).sum()
    }
}

/// Why a packet was not written.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The trace is no longer written.
    Stopped,
    /// Its begin lies before the begin of the packet before [spec/trace.md 3].
    Backwards,
    /// The ring bytes cannot be read.
    Unreadable,
    /// No file could be opened for it.
    NoFile,
}

/// What went into one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub files: u64,
    pub packets: u64,
    pub bytes: u64,
    /// Records that packets say were lost.
    pub lost: u64,
    /// Why writing ended, if it did.
    pub error: Option<String>,
}

impl Written {
    pub(crate) fn add(&mut self, other: &Written) {
        self.files += other.files;
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.error = self.error.take().or(other.error.clone());
    }
}

/// All files of a trace.
#[derive(Debug)]
pub(crate) struct Streams {
    dir: PathBuf,
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
    /// Why and when (clock) writing ended, if it did.
    pub stopped: Option<(String, u64)>,
    /// The same of the first directory in which it did.
    stopped_before: Option<(String, u64)>,
    /// What the directories before the present one have.
    before: Written,
}

impl Streams {
    pub(crate) fn new(dir: &Path, uuid: [u8; 16]) -> Streams {
        let dir = dir.to_owned();
        Streams {
            dir,
            uuid,
            free: HashMap::new(),
            count: HashMap::new(),
            beside: false,
            files: 0,
            packets: 0,
            bytes: 0,
            lost: 0,
            stopped: None,
            stopped_before: None,
            before: Written::default(),
        }
    }

    /// What went into the present directory.
    pub(crate) fn written(&self) -> Written {
        Written {
            files: self.files - self.before.files,
            packets: self.packets - self.before.packets,
            bytes: self.bytes - self.before.bytes,
            lost: self.lost - self.before.lost,
            error: self.stopped.as_ref().map(|(error, _)| error.clone()),
        }
    }

    /// The trace goes on in another directory, as a trace of its own; all lanes have given their files back. Counts go on, and where
    /// writing had ended it begins again. Returns what went into the directory behind.
    pub(crate) fn go_on_in(&mut self, dir: &Path, uuid: [u8; 16]) -> Written {
        self.finish();
        let written = self.written();
        self.before.add(&Written { error: None, ..written.clone() });
        (self.dir, self.uuid) = (dir.to_owned(), uuid);
        self.free.clear();
        self.count.clear();
        let stopped = self.stopped.take();
        self.stopped_before = self.stopped_before.take().or(stopped);
        written
    }

    /// Why and when writing ended first, in any directory.
    pub(crate) fn first_stop(self) -> Option<(String, u64)> {
        self.stopped_before.or(self.stopped)
    }

    /// Files of the same trace in another directory: a snapshot's. Some of ours may be copied there, so theirs are others.
    pub(crate) fn sibling(&self, dir: &Path) -> Streams {
        Streams { files: self.files, count: self.count.clone(), ..Streams::new(dir, self.uuid) }
    }

    /// Files that no lane has now: names and bytes.
    pub(crate) fn free_files(&self) -> impl Iterator<Item = (String, u64)> {
        self.free.values().flatten().filter_map(Stream::content)
    }

    /// Files beside those that the trace has; theirs are counted from `first` on.
    pub(crate) fn beside(dir: &Path, uuid: [u8; 16], first: u64) -> Streams {
        Streams { beside: true, files: first, ..Streams::new(dir, uuid) }
    }

    /// A file for a lane whose first packet begins at `begin`: one that ended before, else a new one.
    fn claim(&mut self, class: Class, begin: u64) -> io::Result<Stream> {
        let free = self.free.entry(class).or_default();
        let fits = |stream: &Stream| stream.newest.is_none_or(|newest| newest.end <= begin);
        if let Some(at) = free.iter().rposition(fits) {
            return Ok(free.swap_remove(at));
        }
        let number = self.count.entry(class).or_default();
        let (file, name) = loop {
            let name = class.file_name(*number);
            *number += 1;
            match File::options().create_new(true).read(true).write(true).open(self.dir.join(&name)) {
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

    /// Removes files that nothing was written to; all lanes have given theirs back.
    pub(crate) fn finish(&mut self) {
        for stream in self.free.values().flatten().filter(|stream| stream.bytes == 0) {
            if std::fs::remove_file(self.dir.join(&stream.name)).is_ok() {
                self.files -= 1;
            }
        }
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
        let stream = match slot {
            Some(stream) => stream,
            None => slot.insert(self.claim(class, packet.begin).map_err(|error| self.cannot_open(error, now))?),
        };
        if let Some(newest) = &mut stream.newest
            && packet.begin < newest.end
        {
            if packet.begin < newest.begin {
                return Err(Refusal::Backwards);
            }
            newest.end = packet.begin;
            // A failure leaves an end that is too late, which readers report and survive.
            let _ =
                stream.file.write_all_at(&packet.begin.to_le_bytes(), newest.offset + PacketHead::END_OFFSET as u64);
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
        tracing::warn!(%error, "the trace can no longer be written");
        self.stopped.get_or_insert_with(|| (error.to_string(), now));
    }

    /// An empty packet in front of a file's first loss: readers date a loss by the packet before, and else ignore its count.
    fn opening(&mut self, slot: &mut Option<Stream>, packet: &Packet, now: u64) -> Result<(), Refusal> {
        const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let Packet { begin, program, .. } = *packet;
        let empty = Packet { begin, end: begin, lost: 0, program, pieces: [NOTHING; 2] };
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
        let encoded = head.encode();
        let bytes = encoded.len() as u64 + packet.content_bytes();
        if let Err(error) = write_pieces(&stream.file, stream.bytes, &encoded, &packet.pieces) {
            let _ = stream.file.set_len(stream.bytes);
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
        self.lost += packet.lost;
        self.packets += 1;
        self.bytes += bytes;
        Ok(())
    }
}

/// Writes a packet head and ring bytes at `offset`, however many calls that takes.
fn write_pieces(file: &File, mut offset: u64, head: &[u8], pieces: &[libc::iovec; 2]) -> io::Result<()> {
    let head = libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() };
    let mut list = [head, pieces[0], pieces[1]];
    let mut at = 0;
    while at < list.len() {
        if list[at].iov_len == 0 {
            at += 1;
            continue;
        }
        let rest = &list[at..];
        // SAFETY: the head is a live slice, and the pieces lie in a mapping that the caller holds [spec/ring.md 3.1]. The
        // system only reads them; that another process changes the bytes meanwhile is its own loss [spec/ring.md 1.7].
        let written =
            unsafe { libc::pwritev(file.as_raw_fd(), rest.as_ptr(), rest.len() as libc::c_int, offset as libc::off_t) };
        let mut written = match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
        };
        offset += written as u64;
        for piece in &mut list[at..] {
            let step = written.min(piece.iov_len);
            piece.iov_base = piece.iov_base.wrapping_byte_add(step);
            piece.iov_len -= step;
            written -= step;
        }
    }
    Ok(())
}
