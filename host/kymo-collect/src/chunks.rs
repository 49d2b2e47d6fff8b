// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rotation [spec/session.md 14]: a trace that goes on in a new directory, chunk by chunk, of which the old ones may
//! go.

mod rotation;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Error;
use crate::clock::ClockSource;
use crate::metadata::copy_metadata;
use crate::private::make_private_dir;
use crate::stream::is_stream_file;
use crate::summary::SUMMARY_FILE;
use crate::trace_dir::replace;
use crate::written::Written;

pub use rotation::{Chunk, Rotation};
pub(crate) use rotation::{RotateJob, RotatedPart};

/// Directories of chunks, below that of the session, begin with this.
const PREFIX: &str = "chunk-";
/// A chunk that is being removed.
const GOING_PREFIX: &str = ".going-";
/// Chunks that the summary lists; of older ones the totals have all.
const LISTED_MAX: usize = 1000;

/// The chunks of a session.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Directory of the session.
    root: PathBuf,
    source: ClockSource,
    pub rotation: Rotation,
    /// The newest chunk, which is written to: its directory, number, clock value and time of its begin.
    current: PathBuf,
    number: u32,
    start: u64,
    begun: Instant,
    /// Bytes of records that the session had then.
    bytes_before: u64,
    /// Closed ones, the oldest first.
    closed: Vec<Chunk>,
    left_out: u64,
    records_closed: u64,
}

impl Chunks {
    /// The first chunk: a directory of its own where the session is to rotate, else that of the session.
    pub(crate) fn begin(root: PathBuf, rotation: Rotation, source: ClockSource, now: u64) -> Result<Chunks, Error> {
        let current = if rotation.is_wanted() { chunk_dir(&root, 1) } else { root.clone() };
        make_private_dir(&current).map_err(Error::file("make directory", &current))?;
        Ok(Chunks {
            root,
            rotation,
            current,
            number: 1,
            start: now,
            begun: source.now(),
            source,
            bytes_before: 0,
            closed: Vec::new(),
            left_out: 0,
            records_closed: 0,
        })
    }

    /// For how long the newest chunk has been written.
    fn age(&self) -> Duration {
        self.source.now().saturating_duration_since(self.begun)
    }

    /// Where the trace is written to now.
    pub(crate) fn current(&self) -> &Path {
        &self.current
    }

    /// Whether there is, or will be, more than one.
    pub(crate) fn is_cut(&self) -> bool {
        self.current != self.root
    }

    /// Why it is time for a new one, if it is; `bytes` are those of the session so far.
    pub(crate) fn due(&self, bytes: u64) -> Option<&'static str> {
        let Rotation { bytes: size, time, .. } = self.rotation;
        let is_long = size.is_some_and(|size| bytes.saturating_sub(self.bytes_before) >= size);
        let is_old = time.is_some_and(|time| self.age() >= time);
        if is_long { Some("size") } else { is_old.then_some("time") }
    }

    /// When a chunk will be old enough, or may be long enough.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        const SIZE_PERIOD: Duration = Duration::from_millis(50);
        let by_time = self.rotation.time.map(|time| time.saturating_sub(self.age()));
        let by_size = self.rotation.bytes.map(|_| SIZE_PERIOD);
        [by_time, by_size].into_iter().flatten().min()
    }

    /// There was no room for a new chunk: removes one more of the old ones than would have to go then. Whether it did.
    pub(crate) fn make_room(&mut self) -> bool {
        let there = |chunks: &Chunks| chunks.closed.iter().filter(|chunk| !chunk.removed).count();
        let before = there(self);
        self.remove_beyond(self.rotation.keep.map(|keep| (keep as usize).saturating_sub(1)));
        there(self) < before
    }

    /// Makes the directory of the next chunk.
    pub(crate) fn make_next(&mut self) -> Result<PathBuf, Error> {
        let dir = chunk_dir(&self.root, self.number + 1);
        fs::create_dir(&dir).map_err(Error::file("make directory", &dir))?;
        Ok(dir)
    }

    /// The trace goes on in `next`, since the clock value `now` and with `bytes` of records in the session: what is
    /// behind becomes a trace that is complete.
    pub(crate) fn go_on(
        &mut self,
        next: PathBuf,
        now: u64,
        bytes: u64,
        part: &RotatedPart,
        reason: &str,
    ) -> Result<Chunk, Error> {
        let mut dir = std::mem::replace(&mut self.current, next);
        if dir == self.root {
            dir = self.move_first()?;
        }
        let chunk = Chunk {
            number: self.number,
            dir,
            reason: reason.to_owned(),
            start: self.start,
            end: now,
            records: part.records,
            bytes: part.written.bytes,
            lost: part.written.lost,
            streams: part.written.files,
            write_error: part.written.error.clone(),
            removed: false,
        };
        self.number += 1;
        (self.start, self.begun, self.bytes_before) = (now, self.source.now(), bytes);
        Ok(self.close(chunk))
    }

    /// The newest chunk ends with the session, which has `records` in all.
    pub(crate) fn end(mut self, now: u64, written: Written, records: u64) -> (Vec<Chunk>, u64) {
        if self.is_cut() {
            let chunk = Chunk {
                number: self.number,
                dir: self.current.clone(),
                reason: "the end of the session".to_owned(),
                start: self.start,
                end: now,
                records: records.saturating_sub(self.records_closed),
                bytes: written.bytes,
                lost: written.lost,
                streams: written.files,
                write_error: written.error,
                removed: false,
            };
            self.close(chunk);
        }
        (self.closed, self.left_out)
    }

    fn close(&mut self, mut chunk: Chunk) -> Chunk {
        self.records_closed += chunk.records;
        if self.closed.len() >= LISTED_MAX {
            self.closed.remove(0);
            self.left_out += 1;
        }
        // First of all, for the room. The chunk that ends with the session is there beside those that are kept.
        let stay = self.rotation.keep.map(|keep| keep as usize + usize::from(chunk.dir == self.current));
        self.remove_beyond(stay.map(|stay| stay.saturating_sub(1)));
        if stay == Some(0) {
            chunk.removed = remove(&chunk.dir).is_ok();
        } else if let Err(error) = write_summary(&chunk) {
            chunk.write_error.get_or_insert(format!("its summary could not be written: {error}"));
        }
        self.closed.push(chunk.clone());
        chunk
    }

    /// The first chunk of a session that nobody said would be cut lies in the session's directory: moves it. At every
    /// moment each file lies in a directory with its metadata.
    fn move_first(&self) -> Result<PathBuf, Error> {
        let dir = chunk_dir(&self.root, self.number);
        fs::create_dir(&dir).map_err(Error::file("make directory", &dir))?;
        let metadata = self.root.join("metadata");
        copy_metadata(&self.root, &dir)?;
        for entry in fs::read_dir(&self.root).map_err(Error::file("look into", &self.root))?.flatten() {
            let name = entry.file_name();
            if is_stream_file(&name.to_string_lossy()) {
                fs::rename(entry.path(), dir.join(&name)).map_err(Error::file("move", entry.path()))?;
            }
        }
        fs::remove_file(&metadata).map_err(Error::file("remove", metadata))?;
        Ok(dir)
    }

    /// Removes the oldest closed chunks, so that `keep` stay. What cannot be removed stays, and is tried again next
    /// time.
    fn remove_beyond(&mut self, keep: Option<usize>) {
        let Some(keep) = keep else { return };
        let there = self.closed.iter().filter(|chunk| !chunk.removed).count();
        for chunk in self.closed.iter_mut().filter(|chunk| !chunk.removed).take(there.saturating_sub(keep)) {
            match remove(&chunk.dir) {
                Ok(()) => chunk.removed = true,
                Err(error) => tracing::warn!(%error, dir = %chunk.dir.display(), "a chunk could not be removed"),
            }
        }
    }
}

fn write_summary(chunk: &Chunk) -> io::Result<()> {
    let text = serde_json::json!({
        "tool": "kymo", "version": env!("CARGO_PKG_VERSION"), "complete": true, "trace": chunk.dir, "chunk": chunk,
    });
    replace(&chunk.dir, SUMMARY_FILE, format!("{text:#}\n").as_bytes())
}

fn chunk_dir(root: &Path, number: u32) -> PathBuf {
    root.join(format!("{PREFIX}{number:04}"))
}

/// Under another name first: nobody finds half a trace.
fn remove(dir: &Path) -> io::Result<()> {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let going = dir.with_file_name(format!("{GOING_PREFIX}{name}"));
    fs::rename(dir, &going)?;
    fs::remove_dir_all(going)
}

/// Whether a directory of this name, below that of a session, is a chunk.
pub fn is_chunk_dir(name: &str) -> bool {
    let number = name.strip_prefix(GOING_PREFIX).unwrap_or(name).strip_prefix(PREFIX);
    number.is_some_and(|number| number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The traces of a session that was cut into chunks, the oldest first; none where `dir` is not the directory of one.
pub fn chunk_dirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_chunk = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        is_chunk_dir(&name) && !name.starts_with(GOING_PREFIX) && entry.path().join("metadata").is_file()
    };
    let mut dirs: Vec<PathBuf> = entries.filter(is_chunk).map(|entry| entry.path()).collect();
    // By number: the tenth thousandth has one digit more.
    dirs.sort_by_key(|dir| (dir.as_os_str().len(), dir.clone()));
    dirs
}

#[cfg(test)]
mod tests {
    use kymo_abi::Clock;

    use super::*;
    use crate::clock::SimulatedTime;

    fn source() -> ClockSource {
        ClockSource::new(Clock::Monotonic)
    }

    fn part(records: u64) -> RotatedPart {
        RotatedPart { records, ..RotatedPart::default() }
    }

    fn names(root: &Path) -> Vec<String> {
        chunk_dirs(root).iter().map(|dir| dir.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    fn rotate(chunks: &mut Chunks, now: u64) -> Chunk {
        let next = chunks.make_next().unwrap();
        fs::write(next.join("metadata"), "new").unwrap();
        chunks.go_on(next, now, 0, &part(1), "asked for").unwrap()
    }

    #[test]
    fn a_trace_that_nobody_said_would_be_cut_becomes_its_first_chunk() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let mut chunks = Chunks::begin(root.to_owned(), Rotation::default(), source(), 7).unwrap();
        assert!(!chunks.is_cut());
        for name in ["metadata", "user_0_0", "kernel_1_0", "notes.txt"] {
            fs::write(root.join(name), name).unwrap();
        }
        let chunk = rotate(&mut chunks, 9);
        assert_eq!((chunk.number, chunk.start, chunk.end, chunk.records), (1, 7, 9, 1));
        assert_eq!(names(root), ["chunk-0001", "chunk-0002"]);
        assert!(chunk.dir.join("user_0_0").exists() && chunk.dir.join("metadata").exists());
        assert!(root.join("notes.txt").exists() && !root.join("metadata").exists());
        let (closed, left_out) = chunks.end(20, Written::default(), 5);
        assert_eq!((closed.len(), left_out, closed[1].records, closed[1].start), (2, 0, 4, 9));
    }

    #[test]
    fn as_many_stay_as_are_to_be_kept() {
        for keep in [0, 1, 3] {
            let dir = tempfile::tempdir().unwrap();
            let rotation = Rotation { keep: Some(keep), ..Rotation::default() };
            let mut chunks = Chunks::begin(dir.path().to_owned(), rotation, source(), 0).unwrap();
            fs::write(chunks.current().join("metadata"), "").unwrap();
            for now in 1..6 {
                rotate(&mut chunks, now);
                let expect = (now as usize).min(keep as usize) + 1;
                assert_eq!(names(dir.path()).len(), expect, "keep {keep}, after {now}");
            }
            assert_eq!(names(dir.path()).last().unwrap(), "chunk-0006");
        }
    }

    #[test]
    fn it_is_time_by_size_and_by_age() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation { bytes: Some(100), time: Some(Duration::from_secs(3600)), keep: None };
        let time = SimulatedTime::new();
        let mut chunks = Chunks::begin(dir.path().to_owned(), rotation, ClockSource::simulated(time), 0).unwrap();
        assert_eq!((chunks.due(99), chunks.due(100)), (None, Some("size")));
        let ns = |seconds: u64| seconds * 1_000_000_000;
        // It began in the second after zero.
        time.advance_to(ns(3600));
        assert_eq!(chunks.due(99), None);
        time.advance_to(ns(3602));
        assert_eq!((chunks.due(0), chunks.next_look()), (Some("time"), Some(Duration::ZERO)));
        let next = chunks.make_next().unwrap();
        fs::write(next.join("metadata"), "new").unwrap();
        chunks.go_on(next, 1, 100, &part(1), "time").unwrap();
        assert_eq!((chunks.due(199), chunks.due(200)), (None, Some("size")), "the new chunk is young and empty");
        chunks.rotation = Rotation::default();
        assert_eq!((chunks.due(u64::MAX), chunks.next_look()), (None, None));
    }

    #[test]
    fn chunks_are_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["chunk-10000", "chunk-9999", "chunk-0002", ".going-chunk-0001", "chunk-x", "chunk-0003"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("metadata"), "").unwrap();
        }
        fs::remove_file(dir.path().join("chunk-0003/metadata")).unwrap();
        assert_eq!(names(dir.path()), ["chunk-0002", "chunk-9999", "chunk-10000"]);
        assert!(is_chunk_dir(".going-chunk-0001") && !is_chunk_dir("chunk-") && !is_chunk_dir("chunks-0001"));
    }
}
