// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running session, or a directory that is being written, for `kymo view`: the whole packets that its stream files
//! have so far, opened again whenever there are more. What is newer than the last of what every stream has is held
//! back (`notice`). Says nothing to the user.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use kymo_collect::{Request, SUMMARY_FILE, chunk_dirs, is_session_name, is_stream_file, remotes};
use kymo_ctf::read::{Clock, Content, Directory, Error, Files, ReadyMetadata, Trace, unite_clocks};
use kymo_ctf::write::{PACKET_MAGIC, PacketHead};
use kymo_index::GrowingIndex;
use kymo_mapping::Mapping;
use kymo_query::Opened;
use kymo_serve::{Look, Source};
use serde_json::Value;

use super::super::read::follow;
use super::notice::{Changes, DELAY, SoonWriter};
use crate::verbs::session::ask;

/// A directory whose session is not known may be being written if a file of it changed within this time.
const FRESH: Duration = Duration::from_secs(10);
/// A session learns its clock's rate ever better. Times change by less than this without being read again.
const CLOCK_NS_MAX: u128 = 10_000_000;
/// While a trace is cut its files have no place for a moment: so many looks without them are none.
const MOVING_LOOKS: u32 = 25;
/// No packet of ours is longer: a ring has 1 GiB at most.
const PACKET_BYTES_MAX: u64 = (1 << 30) + 4096;
/// Byte offset of the packet's size in bits in its head, behind that of its content [spec/trace.md 2].
const PACKET_BITS: usize = PacketHead::END_OFFSET + 16;

/// A stream file: the position of its directory, and its name.
type FileKey = (usize, String);

/// A trace that is being written.
pub struct GrowingTrace {
    /// Of the session.
    root: PathBuf,
    /// Its collector, where the session is known.
    pid: Option<u64>,
    name: String,
    /// Its chunks, and what is not in one.
    parts: Vec<PathBuf>,
    tails: BTreeMap<FileKey, Tail>,
    index: GrowingIndex,
    /// Metadata by directory, as they were understood at the last look.
    ready: BTreeMap<PathBuf, (FileStamp, ReadyMetadata)>,
    /// By which times are shown.
    clocks: Vec<Clock>,
    /// Looks at which a file had no place.
    moving: u32,
    changes: Changes,
    /// From when a page is open on.
    soon: Option<SoonWriter>,
}

/// What a file is known again by, if nobody has written to it: inode, bytes, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    bytes: u64,
    written: (i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> Option<FileStamp> {
        let about = fs::metadata(path).ok()?;
        Some(FileStamp { inode: about.ino(), bytes: about.len(), written: (about.mtime(), about.mtime_nsec()) })
    }
}

/// A stream file that grows.
struct Tail {
    file: File,
    inode: u64,
    head_bytes: u64,
    /// Bytes of its whole packets.
    whole: u64,
    /// What follows is not a packet.
    is_broken: bool,
}

/// The trace that is named, if it is being written.
///
/// # Errors
/// There is no such session or directory, or it is a flight recorder's.
pub fn find(dirs: &[PathBuf]) -> anyhow::Result<Option<GrowingTrace>> {
    let [what] = dirs else { return Ok(None) };
    let is_session = what.to_str().is_some_and(is_session_name) && !what.is_file();
    if is_session {
        match follow::find(what) {
            Ok((root, Some(pid))) => return Ok(Some(GrowingTrace::new(root, Some(pid), what.display().to_string()))),
            Ok((_, None)) => {}
            // A directory with traces below.
            Err(error) if ask::is_absent(&error) && what.is_dir() => return Ok(None),
            Err(error) if ask::is_absent(&error) => bail!("{}: no such directory, and {error}", what.display()),
            Err(error) => return Err(error),
        }
    }
    if !is_ours(what) || has_ended(what) {
        return Ok(None);
    }
    let name =
        || what.file_name().map_or_else(|| what.display().to_string(), |name| name.to_string_lossy().into_owned());
    let writer = session_of(what).or_else(|| if is_fresh(what) { writer_of(what) } else { None });
    Ok(writer.map(|pid| GrowingTrace::new(what.clone(), Some(pid), name())))
}

/// Whether its stream files are those of our collector, whose packets we know.
fn is_ours(dir: &Path) -> bool {
    let is_stream = |entry: fs::DirEntry| is_stream_file(&entry.file_name().to_string_lossy());
    let has_streams = fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(is_stream));
    dir.join("metadata").is_file() && has_streams || !chunk_dirs(dir).is_empty()
}

/// Its summary is complete.
fn has_ended(dir: &Path) -> bool {
    let text = fs::read(dir.join(SUMMARY_FILE)).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).is_ok_and(|summary| summary["complete"] == true || summary["ended"] == true)
}

/// The collector of the running session that writes here.
fn session_of(dir: &Path) -> Option<u64> {
    let own = dir.canonicalize().ok()?;
    remotes().ok()?.into_iter().find_map(|remote| {
        let status = remote.ask(&Request::Status, ask::QUICK).ok()?;
        let output = Path::new(status["output"].as_str()?).canonicalize().ok()?;
        if output == own { status["pid"].as_u64() } else { None }
    })
}

/// A directory and its chunks.
fn entries_of(dir: &Path) -> impl Iterator<Item = fs::DirEntry> {
    let dirs = [chunk_dirs(dir), vec![dir.to_owned()]].concat();
    dirs.into_iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten())
}

fn is_fresh(dir: &Path) -> bool {
    let changed = |path: PathBuf| fs::metadata(path).and_then(|about| about.modified()).ok();
    let entries = entries_of(dir);
    let newest = entries.filter_map(|entry| changed(entry.path())).max();
    newest.and_then(|newest| newest.elapsed().ok()).is_some_and(|age| age < FRESH)
}

/// A process that has a stream file open for writing, as far as this user may know: a recording without a name.
fn writer_of(dir: &Path) -> Option<u64> {
    let streams = entries_of(dir).filter(|entry| is_stream_file(&entry.file_name().to_string_lossy()));
    let files: HashSet<(u64, u64)> =
        streams.filter_map(|entry| entry.metadata().ok()).map(|about| (about.dev(), about.ino())).collect();
    let writes = |process: &Path| {
        let mut open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.any(|fd| {
            let is_own = fs::metadata(fd.path()).is_ok_and(|about| files.contains(&(about.dev(), about.ino())));
            is_own && is_for_writing(&process.join("fdinfo").join(fd.file_name()))
        })
    };
    let pid = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| Some((pid(&entry)?, entry.path()))).find(|(_, path)| writes(path)).map(|(pid, _)| pid)
}

/// By what the kernel says of a descriptor: its flags, in octal.
fn is_for_writing(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 0o3 != 0)
}

impl GrowingTrace {
    fn new(root: PathBuf, pid: Option<u64>, name: String) -> GrowingTrace {
        let (parts, tails, index) = (Vec::new(), BTreeMap::new(), GrowingIndex::default());
        let (ready, clocks, changes) = (BTreeMap::new(), Vec::new(), Changes::new());
        GrowingTrace { root, pid, name, parts, tails, index, ready, clocks, moving: 0, changes, soon: None }
    }

    /// What there is at first.
    ///
    /// # Errors
    /// The trace cannot be opened.
    pub fn first(&mut self) -> anyhow::Result<Opened> {
        // For chunks that come, and the summary.
        self.changes.watch(&self.root);
        self.take()?;
        self.open(DELAY)
    }

    /// Asked before the files are looked at: what was written before the end is there afterwards.
    fn has_ended(&self) -> bool {
        let is_gone = self.pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        is_gone || has_ended(&self.root)
    }

    /// Its directories, the oldest first.
    fn find_parts(&self) -> Vec<PathBuf> {
        let mut parts = chunk_dirs(&self.root);
        if self.root.join("metadata").is_file() {
            parts.push(self.root.clone());
        }
        parts
    }

    /// Finds whole packets that are new. Whether there are some; `None`: files are being moved, and nothing is known.
    fn take(&mut self) -> anyhow::Result<Option<bool>> {
        let parts = self.find_parts();
        let Some(found) = files_of(&parts)? else { return Ok(None) };
        let is_other = |(key, tail): (&FileKey, &Tail)| found.get(key).is_none_or(|(_, inode)| *inode != tail.inode);
        let has_changed = self.tails.iter().any(is_other);
        if has_changed {
            self.moving += 1;
            if self.moving < MOVING_LOOKS {
                return Ok(None);
            }
            // A chunk was removed, or the directory is of another session.
            self.tails.clear();
            self.index = GrowingIndex::default();
        }
        self.moving = 0;
        for dir in parts.iter().filter(|dir| !self.parts.contains(dir)) {
            self.changes.watch(dir);
        }
        let mut is_new = has_changed;
        for (key, (path, inode)) in found {
            if self.tails.contains_key(&key) {
                continue;
            }
            let file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file.with_context(|| format!("cannot open {}", path.display()))?,
            };
            let is_user = key.1.starts_with("user_");
            let head_bytes = (if is_user { PacketHead::USER_BYTES } else { PacketHead::KERNEL_BYTES }) as u64;
            self.tails.insert(key, Tail { file, inode, head_bytes, whole: 0, is_broken: false });
            is_new = true;
        }
        for ((_, name), tail) in &mut self.tails {
            is_new |= tail.take().with_context(|| format!("cannot read {name}"))?;
        }
        self.parts = parts;
        Ok(Some(is_new))
    }

    /// What was taken, without what is younger than `delay`.
    fn open(&mut self, delay: Duration) -> anyhow::Result<Opened> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = match self.index.is_over() {
            true => i64::MAX,
            false => i64::try_from(now.saturating_sub(delay).as_nanos()).unwrap_or(i64::MAX),
        };
        let (mut traces, mut caveats) = (Vec::new(), Vec::new());
        self.ready.retain(|dir, _| self.parts.contains(dir));
        for (part, dir) in self.parts.iter().enumerate() {
            let files = WholePackets { dir, part, tails: &self.tails };
            // After the streams: it knows every event that is in them.
            let opened = ready(&mut self.ready, dir, &files)?.open(&files)?;
            caveats.extend(opened.caveats.iter().map(ToString::to_string));
            traces.push(opened.value);
        }
        anyhow::ensure!(!traces.is_empty(), "{} has no trace yet", self.root.display());
        unite_clocks(&mut traces);
        keep_clocks(&mut self.clocks, &mut traces, now.as_nanos() as i128, self.index.is_over());
        let broken = self.tails.iter().filter(|(_, tail)| tail.is_broken);
        caveats
            .extend(broken.map(|((_, name), _)| format!("{name}: what was written is no packet; shown up to there")));
        Ok(Opened::growing(traces, &mut self.index, until, self.name.clone(), caveats))
    }

    fn try_look(&mut self) -> anyhow::Result<Look> {
        anyhow::ensure!(self.root.is_dir(), "the trace is gone: {} is no longer there", self.root.display());
        let has_ended = self.has_ended();
        let Some(is_new) = self.take()? else { return Ok(Look::Same) };
        if has_ended {
            self.index.end();
            return self.open(Duration::ZERO).map(Look::Ended);
        }
        if !is_new && !self.ripe_in().is_some_and(|rest| rest.is_zero()) || self.parts.is_empty() {
            return Ok(Look::Same);
        }
        let (records, lost, restarts) = (self.index.records(), self.index.lost(), self.index.restarts());
        let opened = self.open(self.delay())?;
        let is_same = (records, lost, restarts) == (self.index.records(), self.index.lost(), self.index.restarts());
        // All that is new is still held back.
        Ok(if is_same { Look::Same } else { Look::Grown(opened) })
    }

    fn delay(&self) -> Duration {
        self.soon.as_ref().map_or(DELAY, SoonWriter::delay)
    }

    /// How long until the oldest of what is held back may be shown; `None` if nothing is.
    fn ripe_in(&self) -> Option<Duration> {
        let held = Duration::from_nanos(u64::try_from(self.index.held()?).unwrap_or(0));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some((held + self.delay()).saturating_sub(now))
    }
}

impl Source for GrowingTrace {
    fn look(&mut self) -> Look {
        self.try_look().unwrap_or_else(|error| Look::Failed(format!("{error:#}")))
    }

    fn wait(&mut self, most: Duration) {
        match self.ripe_in() {
            Some(rest) if rest < most => thread::sleep(rest),
            _ => self.changes.wait(most),
        }
    }

    fn shown(&mut self, is: bool) {
        if is && self.soon.is_none() {
            // Without a thread records are shown later.
            self.soon = SoonWriter::start(self.pid).ok();
        }
        self.soon.iter().for_each(|soon| soon.shown(is));
    }
}

/// The metadata of a directory: understood anew only if the file was written since. The stamp is taken first, so that
/// what is written meanwhile is seen at the next look.
fn ready(
    known: &mut BTreeMap<PathBuf, (FileStamp, ReadyMetadata)>,
    dir: &Path,
    files: &dyn Files,
) -> Result<ReadyMetadata, Error> {
    let stamp = FileStamp::of(&dir.join("metadata"));
    if let Some((_, ready)) = known.get(dir).filter(|(known, _)| stamp == Some(*known)) {
        return Ok(ready.clone());
    }
    let ready = ReadyMetadata::of(files)?;
    if let Some(stamp) = stamp {
        known.insert(dir.to_owned(), (stamp, ready.clone()));
    }
    Ok(ready)
}

/// Gives times by the clocks that are kept, unless those of the traces differ from them by too much now, or it is over.
fn keep_clocks(kept: &mut Vec<Clock>, traces: &mut [Trace], now: i128, is_over: bool) {
    let differs = |one: &Clock, other: &Clock| {
        let cycles = other.cycles_from(now);
        cycles.is_none_or(|cycles| one.nanoseconds(cycles).abs_diff(other.nanoseconds(cycles)) > CLOCK_NS_MAX)
    };
    for clock in traces.iter_mut().flat_map(|trace| &mut trace.metadata.clocks) {
        match kept.iter_mut().find(|kept| kept.name == clock.name && kept.uuid == clock.uuid) {
            None => kept.push(clock.clone()),
            Some(kept) if is_over || differs(kept, clock) => kept.clone_from(clock),
            Some(kept) => clock.clone_from(kept),
        }
    }
}

/// The stream files of directories, with their paths and inodes. `None`: one of them is being moved.
fn files_of(parts: &[PathBuf]) -> anyhow::Result<Option<BTreeMap<FileKey, (PathBuf, u64)>>> {
    let mut found = BTreeMap::new();
    for (part, dir) in parts.iter().enumerate() {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries.with_context(|| format!("cannot look into {}", dir.display()))?,
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_stream_file(&name) {
                continue;
            }
            let about = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                about => about.with_context(|| format!("cannot look at {}", entry.path().display()))?,
            };
            found.insert((part, name), (entry.path(), about.ino()));
        }
    }
    Ok(Some(found))
}

impl Tail {
    /// Finds the whole packets behind those that are known. Whether there are some.
    fn take(&mut self) -> io::Result<bool> {
        let there = self.file.metadata()?.len();
        let before = self.whole;
        while !self.is_broken && there.saturating_sub(self.whole) >= self.head_bytes {
            let mut head = [0; PACKET_BITS + 8];
            self.file.read_exact_at(&mut head, self.whole)?;
            let (bits, size) = head.split_last_chunk::<8>().map_or((0, 0), |(_, word)| {
                let bits = u64::from_le_bytes(*word);
                (bits, bits / 8)
            });
            let is_packet = head.starts_with(&PACKET_MAGIC.to_le_bytes())
                && bits % 8 == 0
                && (self.head_bytes..=PACKET_BYTES_MAX).contains(&size);
            if !is_packet {
                self.is_broken = true;
            } else if size <= there - self.whole {
                self.whole += size;
            } else {
                break;
            }
        }
        Ok(self.whole > before)
    }
}

/// The whole packets of one directory.
struct WholePackets<'t> {
    dir: &'t Path,
    part: usize,
    tails: &'t BTreeMap<FileKey, Tail>,
}

impl Files for WholePackets<'_> {
    fn label(&self) -> String {
        self.dir.display().to_string()
    }

    fn metadata(&self) -> Result<Content, Error> {
        Directory(self.dir).metadata()
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        let own = self.tails.iter().filter(|((part, _), tail)| *part == self.part && tail.whole > 0);
        Ok(own.map(|((_, name), _)| name.clone()).collect())
    }

    fn open(&self, name: &str) -> Result<Content, Error> {
        let Some(tail) = self.tails.get(&(self.part, name.to_owned())) else { return Ok(Content::Owned(Vec::new())) };
        let bytes = usize::try_from(tail.whole).map_err(io::Error::other);
        let mapping = bytes.and_then(|bytes| Mapping::to_read(&tail.file, bytes));
        let io = |source| Error::Io { path: self.dir.join(name).display().to_string(), source };
        mapping.map(Content::Mapped).map_err(io)
    }
}

#[cfg(test)]
mod tests {
    use kymo_ctf::read::Memory;

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
            discarded: 0,
            cpu: 0,
            program: None,
        };
        let mut bytes = head.encode();
        bytes.resize(bytes.len() + content, 0xab);
        bytes
    }

    fn tail(path: &Path) -> Tail {
        let file = File::open(path).unwrap();
        let inode = file.metadata().unwrap().ino();
        Tail { file, inode, head_bytes: PacketHead::KERNEL_BYTES as u64, whole: 0, is_broken: false }
    }

    #[test]
    fn only_whole_packets_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel_0_0");
        let all: Vec<u8> = (0..3).flat_map(|seq| packet(seq, 100)).collect();
        let size = packet(0, 100).len();
        fs::write(&path, b"").unwrap();
        let mut tail = tail(&path);
        for end in 0..=all.len() {
            fs::write(&path, &all[..end]).unwrap();
            let before = tail.whole;
            assert_eq!(tail.take().unwrap(), end / size * size > before as usize, "with {end} bytes");
            assert_eq!((tail.whole as usize, tail.is_broken), (end / size * size, false), "with {end} bytes");
        }
    }

    #[test]
    fn what_is_no_packet_ends_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel_0_0");
        let good = packet(0, 10);
        fs::write(&path, [&good[..], &[1; 200]].concat()).unwrap();
        let mut tail = tail(&path);
        assert!(tail.take().unwrap() && tail.is_broken && !tail.take().unwrap());
        assert_eq!(tail.whole as usize, good.len());
    }

    #[test]
    fn a_trace_is_being_written_until_its_summary_says_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().join("t"), dir.path().join("none")];
        fs::create_dir(&dirs[0]).unwrap();
        fs::write(dirs[0].join("metadata"), "/* CTF 1.8 */").unwrap();
        fs::write(dirs[0].join("kernel_0_0"), packet(0, 10)).unwrap();
        let is_found = || find(std::slice::from_ref(&dirs[0])).unwrap().is_some();
        assert!(!is_found(), "nobody writes it");
        let reading = File::open(dirs[0].join("kernel_0_0")).unwrap();
        assert!(!is_found(), "who reads it does not write it");
        let writing = fs::OpenOptions::new().append(true).open(dirs[0].join("kernel_0_0")).unwrap();
        assert_eq!(writer_of(&dirs[0]), Some(std::process::id().into()));
        assert!(is_found());
        fs::write(dirs[0].join(SUMMARY_FILE), "{\"complete\": false}").unwrap();
        assert!(is_found());
        fs::write(dirs[0].join(SUMMARY_FILE), "{\"complete\": true}").unwrap();
        assert!(!is_found());
        assert!(find(&dirs).unwrap().is_none(), "several are not followed");
        drop((reading, writing));
    }

    #[test]
    fn a_rate_that_is_known_a_little_better_changes_no_time_until_the_end() {
        let trace = |hz: u64| {
            let metadata = format!(
                "clock {{ name = c; freq = {hz}; }}; stream {{ event.header := struct {{ integer {{ size = 64; map = \
                 clock.c.value; }} timestamp; }}; }}; event {{ name = \"e\"; fields := struct {{ integer {{ size = 8; }} n; \
                 }}; }};"
            );
            Trace::from_files(&Memory { metadata: metadata.into(), streams: Vec::new() }).unwrap().value
        };
        let mut kept = Vec::new();
        let mut shown = |hz: u64, is_over: bool| {
            let mut traces = [trace(hz)];
            keep_clocks(&mut kept, &mut traces, 1_000_000_000_000, is_over);
            traces[0].metadata.clocks[0].frequency_hz
        };
        // After 1000 s: 1 ms, then a second.
        assert_eq!([shown(1_000_000_000, false), shown(1_000_001_000, false)], [1_000_000_000; 2]);
        assert_eq!([shown(1_001_000_000, false), shown(1_001_000_001, false)], [1_001_000_000; 2]);
        assert_eq!(shown(1_001_000_001, true), 1_001_000_001);
    }

    #[test]
    fn metadata_are_understood_again_when_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let write = |hz: u64| {
            let text = format!("/* CTF 1.8 */ clock {{ name = c; freq = {hz}; }}; stream {{ }};");
            // As the collector does: a new file takes the place of the old one.
            fs::write(dir.path().join("new"), text).unwrap();
            fs::rename(dir.path().join("new"), dir.path().join("metadata")).unwrap();
        };
        let (tails, mut known) = (BTreeMap::new(), BTreeMap::new());
        let files = WholePackets { dir: dir.path(), part: 0, tails: &tails };
        let mut hz = || {
            let opened = ready(&mut known, dir.path(), &files).unwrap().open(&files).unwrap().value;
            (opened.metadata.clocks[0].frequency_hz, known.values().map(|(stamp, _)| *stamp).next())
        };
        write(1_000);
        let first = hz();
        assert_eq!((first.0, hz()), (1_000, first));
        write(2_000_000);
        let second = hz();
        assert!(second.0 == 2_000_000 && second.1 != first.1, "{second:?}");
        fs::remove_file(dir.path().join("metadata")).unwrap();
        assert!(ready(&mut known, dir.path(), &files).is_err());
    }

    #[test]
    fn files_that_move_into_a_chunk_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("t");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("metadata"), "/* CTF 1.8 */").unwrap();
        fs::write(root.join("kernel_0_0"), packet(0, 10)).unwrap();
        let mut growing = GrowingTrace::new(root.clone(), None, "t".into());
        assert_eq!((growing.take().unwrap(), growing.take().unwrap()), (Some(true), Some(false)));
        let inode = growing.tails.values().next().unwrap().inode;
        // For a moment it is nowhere: nothing is forgotten.
        fs::rename(root.join("kernel_0_0"), dir.path().join("away")).unwrap();
        assert_eq!((growing.take().unwrap(), growing.tails.len()), (None, 1));
        fs::rename(dir.path().join("away"), root.join("kernel_0_0")).unwrap();
        assert_eq!(growing.take().unwrap(), Some(false));
        assert_eq!(growing.tails.values().next().unwrap().inode, inode);
        // Another file of that name: after some time it is taken.
        fs::remove_file(root.join("kernel_0_0")).unwrap();
        fs::write(root.join("other"), b"").unwrap();
        fs::write(root.join("kernel_0_0"), packet(7, 10)).unwrap();
        let looks = (0..2 * MOVING_LOOKS).position(|_| growing.take().unwrap() == Some(true));
        assert_eq!(looks, Some(MOVING_LOOKS as usize - 1));
    }
}
