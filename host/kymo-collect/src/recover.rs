// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a dead session left in the files of its rings goes into its trace [spec/session.md 6].
//!
//! Every published record that was not taken is between a lane's tail and head. A packet that the collector was writing
//! when it died, or had written without telling the ring, is cut off first: its records are still in the ring.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use kymo_abi::ring::{MEM_HEADER_BYTES, Mark, RingBlock, TIME_MASK};
use kymo_ctf::write::{PACKET_MAGIC, PacketHead};
use rustix::time::ClockId;
use serde::Serialize;

use crate::Error;
use crate::chunks::chunk_dirs;
use crate::clock::{ClockSource, nanoseconds};
use crate::compact::{self, Cut};
use crate::lane::{Lane, Pass, Program, TAKE_NS};
use crate::memory::{FILE_PREFIX, Memory};
use crate::snapshot::SnapshotPart;
use crate::stream::{Streams, is_stream_file};
use crate::trace_dir::DiskDir;

/// Programs need no longer than this to see that the collector is dead and to write no more, in ticks of any clock: a
/// minute at 5 GHz.
const AFTERLIFE: u64 = 60 * 5_000_000_000;

/// What was recovered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recovered {
    /// The trace.
    pub trace: PathBuf,
    /// Files with rings.
    pub files: u64,
    /// Records that were in them and not in the trace.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Half packets, and packets whose records were still in the rings, that were cut off.
    pub packets_cut: u64,
    /// What could not be recovered, and why.
    pub caveats: Vec<String>,
}

/// Brings the records in the ring files of `ring_dir` into `trace`, the directory of the session that made them, and
/// removes the files. Rings of other traces are left alone, with a caveat. The session must be dead.
pub fn recover(ring_dir: &Path, trace: &Path) -> Result<Recovered, Error> {
    let mut recovered = Recovered { trace: trace.to_owned(), ..Recovered::default() };
    let mut paths: Vec<PathBuf> = fs::read_dir(ring_dir)
        .map_err(Error::file("look into", ring_dir))?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(FILE_PREFIX))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let mut left = Vec::new();
    for path in paths {
        match Memory::open(&path) {
            // The collector died before it had made it, or had noted whose it is: no program was told of it.
            Ok(memory) if uuid_of(&memory) == [0; 16] => remove_unborn(&path)?,
            Err(_) if is_unborn(&path) => remove_unborn(&path)?,
            Ok(memory) => left.push((path, memory)),
            Err(error) => recovered.caveats.push(format!("{}: {error}", path.display())),
        }
    }
    // Rings belong to the chunk that was the newest when they were looked at last: one of the last two.
    let mut dirs = chunk_dirs(trace);
    let metadata = trace.join("metadata");
    if dirs.is_empty() || metadata.exists() {
        fs::metadata(&metadata).map_err(Error::file("find", &metadata))?;
        dirs.push(trace.to_owned());
    }
    check_room(trace, &left)?;
    cut_untold(&dirs, &left, &mut recovered)?;
    for dir in dirs.iter().rev() {
        left = recover_into(dir, left, &mut recovered)?;
    }
    let strangers = left.iter().map(|(path, _)| format!("{} belongs to another trace", path.display()));
    recovered.caveats.extend(strangers);
    Ok(recovered)
}

/// An error where the rings have more than there is room for: nothing was touched then.
fn check_room(trace: &Path, files: &[(PathBuf, Memory)]) -> Result<(), Error> {
    let bytes_of = |memory: &Memory, ring: &RingBlock| {
        let head = Mark(ring.head.load(Ordering::Relaxed));
        let waiting = head.since(Mark(ring.tail.load(Ordering::Relaxed))).bytes;
        let is_used = head != Mark(0);
        let bytes = if memory.layout().marks_offset == 0 { waiting } else { memory.layout().ring_bytes };
        if is_used {
            u64::from(bytes.min(memory.layout().ring_bytes)) + 2 * PacketHead::COMPACT_BYTES as u64
        } else {
            0
        }
    };
    let needed = files.iter().flat_map(|(_, memory)| memory.view().rings().iter().map(|ring| bytes_of(memory, ring)));
    let needed: u64 = needed.sum();
    let Ok(disk) = rustix::fs::statvfs(trace) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed > free {
        let text = format!("it has room for {free} bytes, and up to {needed} are in the rings; nothing was changed");
        return Err(Error::file("recover into", trace)(io::Error::new(io::ErrorKind::StorageFull, text)));
    }
    Ok(())
}

fn remove_unborn(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(Error::file("remove", path))
}

/// Whether this file has a ring file's name and nothing in it, not even a header.
fn is_unborn(path: &Path) -> bool {
    let serial = path.file_name().and_then(|name| name.to_str()?.strip_prefix(FILE_PREFIX));
    let is_named =
        serial.is_some_and(|serial| serial.len() == 16 && serial.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_plain = fs::symlink_metadata(path).is_ok_and(|of| of.is_file());
    let mut head = Vec::new();
    let mut read = || File::open(path).and_then(|file| file.take(MEM_HEADER_BYTES.into()).read_to_end(&mut head));
    is_named && is_plain && read().is_ok() && head.iter().all(|byte| *byte == 0)
}

/// The rings of one trace. Returns those that are of another.
fn recover_into(
    trace: &Path,
    files: Vec<(PathBuf, Memory)>,
    recovered: &mut Recovered,
) -> Result<Vec<(PathBuf, Memory)>, Error> {
    let metadata = trace.join("metadata");
    let ends = packet_ends(trace)?;
    let mut streams = None;
    let mut others = Vec::new();
    for (path, memory) in files {
        let uuid = uuid_of(&memory);
        if ends.iter().any(|end| end.uuid != uuid)
            || (streams.is_none() && ends.is_empty() && !says_uuid(&metadata, uuid))
        {
            others.push((path, memory));
            continue;
        }
        let streams = streams.get_or_insert_with(|| {
            let source = ClockSource::new(memory.layout().clock);
            Streams::beside(DiskDir::boxed(trace), uuid, source, 1 << 20)
        });
        if streams.stopped.is_none() {
            take(&memory, streams, recovered);
        }
        if streams.stopped.is_some() {
            // What is in it is nowhere else.
            continue;
        }
        if memory.is_damaged() {
            recovered.caveats.push(format!(
                "{}: it was cut short, or could not be read, while it was recovered; what was in it from there on is missing; the file stays",
                path.display()
            ));
            continue;
        }
        recovered.files += 1;
        drop(memory);
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    cut_torn(&ends, recovered);
    if let Some(mut streams) = streams {
        streams.finish();
        recovered.caveats.extend(streams.stopped.map(|(error, _)| {
            format!("writing ended ({error}); the ring files that are left can be recovered once there is room")
        }));
    }
    Ok(others)
}

/// Half packets that no ring file has the records of: of programs of other users, whose rings are no files. They end
/// the files that they are in.
fn cut_torn(ends: &[PacketEnd], recovered: &mut Recovered) {
    let is_there = |end: &&PacketEnd| end.is_torn && fs::metadata(&end.path).is_ok_and(|of| of.len() > end.offset);
    for end in ends.iter().filter(is_there) {
        if end.cut() {
            recovered.packets_cut += 1;
            recovered.caveats.push(format!(
                "{}: a half packet of process {}, lane {}, was cut off; its records are missing: its rings were not in this directory",
                end.path.display(), end.vpid, end.lane
            ));
        }
    }
}

/// All lanes of one program.
fn take(memory: &Memory, streams: &mut Streams, recovered: &mut Recovered) {
    let notes = memory.view().notes();
    let word = |at: usize| notes.procname[at].load(Ordering::Relaxed).to_le_bytes();
    let procname: [u8; 16] = std::array::from_fn(|at| word(at / 8)[at % 8]);
    let vpid = notes.vpid.load(Ordering::Relaxed) as u32;
    let (made, alive) = (notes.made.load(Ordering::Relaxed), notes.alive.load(Ordering::Relaxed));
    let layout = *memory.layout();
    let source = ClockSource::new(layout.clock);
    let end = alive.wrapping_add(AFTERLIFE);
    let program = Program { memory, vpid, procname };
    for number in 0..layout.lane_count {
        let ring = &memory.view().rings()[number as usize];
        let head = Mark(ring.head.load(Ordering::Relaxed));
        if head == Mark(0) && !has_losses(memory, number) {
            continue;
        }
        let mut lane = Lane::new(memory, number, made, nanoseconds(ClockId::Monotonic));
        let mut pass =
            Pass { source, streams, ns: u64::MAX, cycles: end, force: true, take_ns: TAKE_NS, stopped_at: Some(end) };
        let tail = Mark(ring.tail.load(Ordering::Relaxed));
        if layout.marks_offset == 0 {
            lane.losses_are_told(memory, told(ring, tail), made, end);
            lane.nobody_writes();
            lane.look(&program, &mut pass);
            if pass.streams.stopped.is_some() {
                ring.tail.store(tail.0, Ordering::Relaxed);
                return;
            }
            recovered.records += lane.records;
            recovered.bytes += lane.bytes;
            lane.finish(&program, &mut pass);
        } else {
            let mut part = SnapshotPart::default();
            if let Some(intact) = lane.freeze(&program, &mut pass, None, Vec::new()) {
                lane.write_frozen(&program, &mut pass, &intact, &mut part);
            }
            recovered.records += part.records;
            recovered.bytes += part.bytes;
        }
        recovered
            .caveats
            .extend(lane.damage.iter().map(|damage| format!("process {vpid}, lane {number}: {}", damage.what)));
    }
}

/// Cuts off packets, half or whole, of which their ring was not told: their records are still in the ring. In any
/// chunk: the collector may have died before it had noted that a ring goes on in a newer one.
fn cut_untold(chunks: &[PathBuf], files: &[(PathBuf, Memory)], recovered: &mut Recovered) -> Result<(), Error> {
    let ends: Vec<Vec<PacketEnd>> = chunks.iter().map(|dir| packet_ends(dir)).collect::<Result<_, _>>()?;
    let has = |(dir, ends): (&PathBuf, &Vec<PacketEnd>), uuid| {
        ends.iter().any(|end| end.uuid == uuid) || says_uuid(&dir.join("metadata"), uuid)
    };
    let is_ours = |memory: &Memory| chunks.iter().zip(&ends).any(|chunk| has(chunk, uuid_of(memory)));
    for (_, memory) in files.iter().filter(|(_, memory)| memory.layout().marks_offset == 0 && is_ours(memory)) {
        let vpid = memory.view().notes().vpid.load(Ordering::Relaxed) as u32;
        for (number, ring) in (0..).zip(memory.view().rings()) {
            let tail = Mark(ring.tail.load(Ordering::Relaxed));
            if Mark(ring.head.load(Ordering::Relaxed)).since(tail).bytes > 0 {
                let cut = Cut::of_tail(memory.layout(), ring, tail);
                let (_, time) = compact::first(memory, number, tail, cut);
                let untold = ends.iter().flatten().filter(|end| end.is_of(vpid, number, time));
                recovered.packets_cut += untold.filter(|end| end.cut()).count() as u64;
            }
        }
    }
    Ok(())
}

/// Whether a lane, or for the first one the memory, counts lost records.
fn has_losses(memory: &Memory, number: u32) -> bool {
    let view = memory.view();
    let ring = &view.rings()[number as usize];
    let of_memory = (number == 0).then_some(&view.header().lost_lane);
    let counters = [&ring.lost_full, &ring.lost_size, &ring.lost_restart].into_iter().chain(of_memory);
    counters.into_iter().any(|count| count.load(Ordering::Relaxed) > 0)
}

/// Lost records that packets tell of which were written, as the collector noted it: the packet in front of which it
/// died has been cut off, and tail says so [spec/session.md 6].
fn told(ring: &RingBlock, tail: Mark) -> u64 {
    let is_written = tail.0.wrapping_sub(ring.told_at.load(Ordering::Relaxed)) as i64 >= 0;
    let word = if is_written { &ring.told } else { &ring.told_before };
    word.load(Ordering::Relaxed)
}

fn uuid_of(memory: &Memory) -> [u8; 16] {
    let notes = memory.view().notes();
    let words: [[u8; 8]; 2] = std::array::from_fn(|at| notes.uuid[at].load(Ordering::Relaxed).to_le_bytes());
    std::array::from_fn(|at| words[at / 8][at % 8])
}

/// Whether the metadata names the trace; a trace without a packet says it nowhere else.
fn says_uuid(metadata: &Path, uuid: [u8; 16]) -> bool {
    let text = fs::read(metadata).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let plain: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = uuid.map(|byte| byte.to_string()).join(",");
    text.replace('-', "").contains(&plain) || text.contains(&list)
}

/// The last packet of a stream file, whole or not.
struct PacketEnd {
    path: PathBuf,
    offset: u64,
    uuid: [u8; 16],
    begin: u64,
    vpid: u32,
    lane: u32,
    /// There is a head, and it is whole.
    is_headed: bool,
    is_torn: bool,
}

impl PacketEnd {
    /// Whether it begins with the record of this time (48 bits) on the lane.
    fn is_of(&self, vpid: u32, lane: u32, time: u64) -> bool {
        self.is_headed && self.vpid == vpid && self.lane == lane && self.begin & TIME_MASK == time
    }

    fn cut(&self) -> bool {
        File::options().write(true).open(&self.path).and_then(|file| file.set_len(self.offset)).is_ok()
    }
}

/// The last packets of all files of programs. What is torn in the middle of its head is cut off at once.
fn packet_ends(trace: &Path) -> Result<Vec<PacketEnd>, Error> {
    let mut ends = Vec::new();
    for entry in fs::read_dir(trace).map_err(Error::file("look into", trace))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("user_") || !is_stream_file(&name) {
            continue;
        }
        let path = entry.path();
        let end = last_packet(&path).map_err(Error::file("read", &path))?;
        if let Some(end) = end {
            if end.is_headed {
                ends.push(end);
            } else if end.is_torn {
                end.cut();
            }
        }
    }
    Ok(ends)
}

fn last_packet(path: &Path) -> io::Result<Option<PacketEnd>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let (mut at, mut last) = (0, None);
    while at < bytes {
        let mut head = [0; PacketHead::USER_BYTES];
        let (path, offset) = (path.to_owned(), at);
        if file.read_exact_at(&mut head, at).is_err() || head[..4] != PACKET_MAGIC.to_le_bytes() {
            let end =
                PacketEnd { path, offset, uuid: [0; 16], begin: 0, vpid: 0, lane: 0, is_headed: false, is_torn: true };
            // The packet in front of a torn head is whole, and was told to the ring.
            return Ok(Some(end));
        }
        let head = PacketHead::decode_user(&head);
        let size = head.content_bytes + PacketHead::USER_BYTES as u64;
        let (vpid, lane) = head.program.map_or((0, 0), |program| (program.vpid, program.lane));
        let is_torn = at + size > bytes;
        last =
            Some(PacketEnd { path, offset, uuid: head.uuid, begin: head.begin, vpid, lane, is_headed: true, is_torn });
        at += size;
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simulation found it: KYMO_SEED 1586 and 2614 of the time.
    #[test]
    fn a_half_packet_whose_rings_are_nowhere_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let (trace, rings) = (dir.path().join("trace"), dir.path().join("rings"));
        fs::create_dir(&trace).unwrap();
        fs::create_dir(&rings).unwrap();
        fs::write(trace.join("metadata"), "").unwrap();
        let program = Some(kymo_ctf::write::Program { vpid: 7, lane: 1, procname: [0; 16] });
        let packet = |seq| {
            let head = PacketHead {
                uuid: [1; 16],
                stream_instance: 0,
                begin: 10,
                end: 20,
                content_bytes: 40,
                seq,
                discarded: 0,
                cpu: 1,
                program,
            };
            [head.encode(), vec![0; 40]].concat()
        };
        let (whole, half) = (packet(0), &packet(1)[..PacketHead::USER_BYTES + 13]);
        fs::write(trace.join("user_1_0"), [&whole, half].concat()).unwrap();
        let recovered = recover(&rings, &trace).unwrap();
        assert_eq!(fs::read(trace.join("user_1_0")).unwrap(), whole);
        assert_eq!((recovered.packets_cut, recovered.caveats.len()), (1, 1));
        assert!(recovered.caveats[0].contains("process 7, lane 1"), "{:?}", recovered.caveats);
        // Once.
        assert_eq!(recover(&rings, &trace).unwrap().packets_cut, 0);
    }
}
