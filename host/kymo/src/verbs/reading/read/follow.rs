// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read --follow`: prints a trace while it is being written.
//!
//! Ten times a second the whole packets that were appended are taken from the stream files. What is older than
//! [`DELAY`] is printed in the order of time (`growing`). What comes later than that is printed when it comes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use kymo_collect::{Request, SUMMARY_FILE, chunk_dirs, is_stream_file};
use kymo_command::unknown;
use kymo_ctf::write::{PACKET_MAGIC, PacketHead};
use serde_json::Value;

use super::args::ReadArgs;
use super::growing::{Growing, Horizon, check};
use crate::verbs::session::ask;

/// The collector takes a lane's bytes within 100 ms and a poll; what is older than this was written.
const DELAY: Duration = Duration::from_millis(300);
/// Between two looks at the files.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes that are taken from one file at one look.
const TAKE_BYTES: u64 = 8 << 20;
/// No packet of ours is longer: a ring has 1 GiB at most.
const PACKET_BYTES_MAX: u64 = (1 << 30) + 4096;
/// Byte offset of the packet's size in bits in its head, behind that of its content [spec/trace.md 2].
const PACKET_BITS: usize = PacketHead::END_OFFSET + 16;
/// The only trace that is followed.
const TRACE: usize = 0;

/// A stream file that grows.
struct Tail {
    file: File,
    head_bytes: usize,
    /// Bytes that were taken.
    taken: u64,
    /// There is more in the file than was taken; then the end (clock) of the last packet that was.
    limit: Option<u64>,
    /// Whole packets that nobody has taken yet, and what there is of a further one.
    bytes: Vec<u8>,
    /// How many of `bytes` are whole packets.
    whole: usize,
    /// What is in the file is not a packet.
    is_broken: bool,
}

/// What is followed, and how far it is.
struct Followed {
    /// Of the session.
    root: PathBuf,
    /// Of the trace, or of its chunk that is read now.
    dir: PathBuf,
    /// The metadata were read once: a chunk may be removed while it is followed.
    has_metadata: bool,
    /// Collector, where a name was given.
    pid: Option<u64>,
    tails: BTreeMap<String, Tail>,
    /// What was taken: one trace.
    growing: Growing,
}

/// Runs `kymo read --follow`.
pub(super) fn run(args: &ReadArgs) -> anyhow::Result<ExitCode> {
    let [what] = &args.traces.dirs[..] else { anyhow::bail!("--follow takes one session or one directory") };
    check(args)?;
    let mut followed = match find(what) {
        Ok((root, pid)) => Followed::new(root, pid),
        Err(error) => return ask::or_absent(Err(error)),
    };
    loop {
        // Asked first: what was written before the end is there afterwards.
        let has_ended = followed.has_ended();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
        let is_all = followed.take()?;
        let horizon = if has_ended && is_all { i128::MAX } else { now - DELAY.as_nanos() as i128 };
        match followed.print(args, horizon) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => return Err(error),
        }
        if has_ended && is_all && !followed.go_on() {
            break;
        }
        if is_all {
            std::thread::sleep(PAUSE);
        }
    }
    unknown::lines_of_trace(&followed.root).iter().for_each(|line| eprintln!("kymo: {line}"));
    let code = followed.growing.conclude();
    let broken: Vec<&str> =
        followed.tails.iter().filter(|(_, tail)| tail.is_broken).map(|(name, _)| name.as_str()).collect();
    if broken.is_empty() {
        return Ok(code);
    }
    eprintln!(
        "kymo: {}: followed no further, what was written is no packet; kymo read shows the rest",
        broken.join(", ")
    );
    Ok(ExitCode::from(1))
}

/// The directory of a session, or `what` itself; and the session's collector. A name without a slash is that of a
/// session that runs, else a directory.
pub fn find(what: &Path) -> anyhow::Result<(PathBuf, Option<u64>)> {
    let is_trace = what.join("metadata").is_file() || !chunk_dirs(what).is_empty();
    let Some(name) = what.to_str().filter(|name| kymo_collect::is_session_name(name)) else {
        anyhow::ensure!(is_trace, "{} is no trace, and no session has such a name", what.display());
        return Ok((what.to_owned(), None));
    };
    let status = match ask::ask(name, &Request::Status, ask::QUICK) {
        Ok(status) => status,
        Err(error) if is_trace && ask::is_absent(&error) => return Ok((what.to_owned(), None)),
        Err(error) => return Err(error),
    };
    anyhow::ensure!(
        status["mode"] != "flight",
        "session {name} is a flight recorder, which writes snapshots only: kymo session snapshot {name}"
    );
    let dir = status["output"].as_str().context("the session does not say where its trace is")?;
    Ok((dir.into(), status["pid"].as_u64()))
}

impl Followed {
    /// At the beginning of the oldest chunk, if the trace has been cut.
    fn new(root: PathBuf, pid: Option<u64>) -> Followed {
        let first = chunk_dirs(&root).into_iter().next().filter(|_| !root.join("metadata").is_file());
        let dir = first.unwrap_or_else(|| root.clone());
        let mut growing = Growing::default();
        growing.add(root.display().to_string());
        Followed { root, dir, has_metadata: false, pid, tails: BTreeMap::new(), growing }
    }

    /// Whether nothing more comes into the directory: its summary is complete, or that of the session, or the collector
    /// is gone.
    fn has_ended(&self) -> bool {
        let is_complete = |dir: &Path| {
            let text = std::fs::read(dir.join(SUMMARY_FILE)).unwrap_or_default();
            serde_json::from_slice::<Value>(&text)
                .is_ok_and(|summary| summary["complete"] == true || summary["ended"] == true)
        };
        let is_gone = self.pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        is_gone || !self.dir.exists() || is_complete(&self.dir) || is_complete(&self.root)
    }

    /// The directory has been read to its end: goes on in the next chunk, if there is one.
    fn go_on(&mut self) -> bool {
        let order = |dir: &Path| (dir.as_os_str().len(), dir.to_owned());
        let is_behind = |next: &PathBuf| self.dir == self.root || order(next) > order(&self.dir);
        let Some(next) = chunk_dirs(&self.root).into_iter().find(is_behind) else { return false };
        self.dir = next;
        self.tails.clear();
        self.growing.restart(TRACE);
        true
    }

    /// The first cut moves what lies in the session's own directory: the files are the same.
    fn find_moved(&mut self) {
        if self.dir != self.root || self.root.join("metadata").exists() {
            return;
        }
        if let Some(first) = chunk_dirs(&self.root).into_iter().next() {
            self.dir = first;
        }
    }

    /// Takes what the files have. Whether that was all.
    fn take(&mut self) -> anyhow::Result<bool> {
        self.find_moved();
        let dir = &self.dir;
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound || self.tails.is_empty() => {
                return Err(error).with_context(|| format!("cannot look into {}", dir.display()));
            }
            entries => entries.into_iter().flatten().flatten(),
        };
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_stream_file(&name) && !self.tails.contains_key(&name) {
                let path = entry.path();
                let file = match File::open(&path) {
                    // Moved, or removed with its chunk, since the directory was read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    file => file.with_context(|| format!("cannot open {}", path.display()))?,
                };
                let is_user = name.starts_with("user_");
                let head_bytes = if is_user { PacketHead::USER_BYTES } else { PacketHead::KERNEL_BYTES };
                self.tails.insert(name, Tail::new(file, head_bytes));
            }
        }
        let mut is_all = true;
        for (name, tail) in &mut self.tails {
            tail.take().with_context(|| format!("cannot read {}", dir.join(name).display()))?;
            is_all &= tail.limit.is_none();
        }
        Ok(is_all)
    }

    /// Prints what is not after `horizon`, nanoseconds since 1970. False when --limit is reached.
    fn print(&mut self, args: &ReadArgs, horizon: i128) -> anyhow::Result<bool> {
        for (name, tail) in &mut self.tails {
            let whole = tail.drain();
            if !whole.is_empty() {
                self.growing.append(TRACE, name, &whole);
            }
        }
        if self.growing.is_empty() {
            return Ok(true);
        }
        // After the streams: it knows every event that is in them.
        self.find_moved();
        let path = self.dir.join("metadata");
        match std::fs::read(&path) {
            Ok(metadata) => {
                self.growing.set_metadata(TRACE, metadata);
                self.has_metadata = true;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.has_metadata => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
        let cycles = self.tails.values().filter_map(|tail| tail.limit).min().unwrap_or(u64::MAX);
        self.growing.print(args, &Horizon { ns: horizon, cycles, of_traces: Vec::new() })
    }
}

impl Tail {
    fn new(file: File, head_bytes: usize) -> Tail {
        Tail { file, head_bytes, taken: 0, limit: None, bytes: Vec::new(), whole: 0, is_broken: false }
    }

    /// Reads on, and finds the whole packets.
    fn take(&mut self) -> io::Result<()> {
        self.limit = None;
        if self.is_broken {
            return Ok(());
        }
        let there = self.file.metadata()?.len();
        let wanted = there.saturating_sub(self.taken).min(TAKE_BYTES.max(self.missing())) as usize;
        let old = self.bytes.len();
        self.bytes.resize(old + wanted, 0);
        let mut got = 0;
        while got < wanted {
            match self.file.read_at(&mut self.bytes[old + got..], self.taken)? {
                0 => break,
                bytes => {
                    got += bytes;
                    self.taken += bytes as u64;
                }
            }
        }
        self.bytes.truncate(old + got);
        let mut newest = None;
        while let Some(bytes) = self.packet_at(self.whole) {
            newest = word(&self.bytes[self.whole..], PacketHead::END_OFFSET);
            self.whole += bytes;
        }
        let is_more = there > self.taken && !self.is_broken;
        self.limit = is_more.then(|| newest.unwrap_or(0));
        Ok(())
    }

    /// Bytes that the packet which is not whole yet still needs.
    fn missing(&self) -> u64 {
        let begun = &self.bytes[self.whole..];
        let said = word(begun, PACKET_BITS).map_or(0, |bits| (bits / 8).min(PACKET_BYTES_MAX));
        said.saturating_sub(begun.len() as u64)
    }

    /// Size of the packet at `at`, if it is whole. What is no packet ends the following of this file.
    fn packet_at(&mut self, at: usize) -> Option<usize> {
        let bytes = &self.bytes[at..];
        let bits = word(bytes, PACKET_BITS)?;
        let is_packet = bytes.starts_with(&PACKET_MAGIC.to_le_bytes())
            && bits % 8 == 0
            && (self.head_bytes as u64..=PACKET_BYTES_MAX).contains(&(bits / 8));
        self.is_broken |= !is_packet;
        let size = (bits / 8) as usize;
        (is_packet && size <= bytes.len()).then_some(size)
    }

    /// The whole packets, which are somebody else's from now on.
    fn drain(&mut self) -> Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.whole)).collect()
    }
}

/// The word at `at`, if it is there.
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of the kernel's class with `content` bytes.
    fn packet(seq: u64, content: usize) -> Vec<u8> {
        let head = PacketHead {
            uuid: [7; 16],
            stream_instance: 0,
            begin: seq * 10,
            end: seq * 10 + 5,
            content_bytes: content as u64,
            seq,
            discarded: 3 * seq,
            cpu: 0,
            program: None,
        };
        let mut bytes = head.encode();
        bytes.resize(bytes.len() + content, 0xab);
        bytes
    }

    #[test]
    fn packets_that_come_in_pieces_are_taken_when_they_are_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel_0_0");
        let all: Vec<u8> = (0..3).flat_map(|seq| packet(seq, 100)).collect();
        std::fs::write(&path, b"").unwrap();
        let mut tail = Tail::new(File::open(&path).unwrap(), PacketHead::KERNEL_BYTES);
        let size = packet(0, 100).len();
        for end in 0..=all.len() {
            std::fs::write(&path, &all[..end]).unwrap();
            tail.take().unwrap();
            assert_eq!(tail.whole, end / size * size, "with {end} bytes");
        }
        assert_eq!(tail.drain(), all);
        assert_eq!((tail.whole, tail.bytes.len(), tail.drain().len()), (0, 0, 0));
    }

    #[test]
    fn what_is_no_packet_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel_0_0");
        let mut sizes = packet(0, 8);
        sizes[PACKET_BITS..PACKET_BITS + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        for bad in [vec![1; 200], sizes] {
            let mut bytes = packet(0, 10);
            let good = bytes.len();
            bytes.extend(bad);
            std::fs::write(&path, &bytes).unwrap();
            let mut tail = Tail::new(File::open(&path).unwrap(), PacketHead::KERNEL_BYTES);
            tail.take().unwrap();
            assert_eq!((tail.whole, tail.is_broken), (good, true));
            tail.take().unwrap();
            assert_eq!(tail.limit, None);
        }
    }
}
