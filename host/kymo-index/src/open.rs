// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indexes of traces that are there and hold: each is held against the trace before anything in it is believed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_analyze::compact::Take;
use kymo_ctf::read::{Clock, PacketPlace, Start, Trace};
use kymo_feed::{Classes, clamp};
use rustix::fs::OFlags;

use crate::counts::account::{Entry, StreamCounts, take_entries};
use crate::counts::buckets::Buckets;
use crate::counts::fine::FINE_COLUMNS_MAX;
use crate::counts::known_entries::KnownEntries;
use crate::fields::head::FieldsHead;
use crate::file::head::{IndexHead, StreamsHead};
use crate::file::identity::{TraceIdentity, beside, clocks, in_cache};
use crate::file::{Piece, Pieces};
use crate::growing::GrowingIndex;
use crate::pyramid::Pyramid;
use crate::spans::IndexedSpans;
use crate::states::{States, decode};

/// A trace as it was named: a directory, and the parts of it.
#[derive(Clone, Debug)]
pub struct Named {
    /// What was named.
    pub dir: PathBuf,
    /// The trace itself, or its chunks.
    pub parts: Vec<PathBuf>,
}

/// Packets and counts of one trace.
#[derive(Debug)]
pub struct TraceIndex {
    pub(crate) pieces: Arc<Pieces>,
    /// By stream file.
    pub streams: Vec<StreamCounts>,
    entries: KnownEntries,
    levels: Vec<Piece>,
    fine: Option<Piece>,
    /// Of the only trace that was named, with clocks as they are now.
    pub(crate) fields: Option<FieldsHead>,
}

/// What indexes there are of the traces of a command line.
#[derive(Debug, Default)]
pub struct Indexes {
    /// By trace: the parts of the first that was named, then of the second, and so on.
    pub traces: Vec<Option<TraceIndex>>,
    /// Where one trace was named.
    pub states: Option<States>,
    /// Where that of states is, or the only one.
    path: PathBuf,
    /// Indexes that are there and do not hold: which, and why.
    pub stale: Vec<(PathBuf, String)>,
    /// Of a trace that is being written: there are no others then.
    growing: Option<Arc<GrowingIndex>>,
}

/// An index that holds.
pub(crate) struct Loaded {
    pub path: PathBuf,
    pub pieces: Pieces,
    pub head: IndexHead,
}

/// The index of `dir`, beside it or in the cache, if one holds of traces as these. `stale`: those that do not.
pub(crate) fn load(dir: &Path, now: &[TraceIdentity], stale: &mut Vec<(PathBuf, String)>) -> Option<Loaded> {
    for path in [Some(beside(dir)), in_cache(dir)].into_iter().flatten() {
        match load_file(&path, now) {
            Ok(loaded) => return Some(loaded),
            Err(None) => {}
            Err(Some(why)) => stale.push((path, why)),
        }
    }
    None
}

/// `Err(None)`: there is none.
fn load_file(path: &Path, now: &[TraceIdentity]) -> Result<Loaded, Option<String>> {
    let file = open_file(path).map_err(|error| match error.kind() {
        // A log of a POSIX Trace stream is a file: nothing stands in it.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => None,
        _ => Some(format!("it cannot be opened: {error}")),
    })?;
    let (pieces, head) = Pieces::open(file).map_err(Some)?;
    let head = IndexHead::decode(&head).ok_or_else(|| Some("it is damaged".to_owned()))?;
    if head.traces.len() != now.len() {
        return Err(Some(format!("the trace has {} parts, not {}", now.len(), head.traces.len())));
    }
    if let Some(why) = head.traces.iter().zip(now).find_map(|(before, now)| before.difference(now)) {
        return Err(Some(why));
    }
    let counts = head.streams.as_ref().map(|streams| streams.counts.len());
    if now.len() != 1 && counts.is_some() || counts.is_some_and(|counts| counts != now[0].files.len()) {
        return Err(Some("it is damaged".into()));
    }
    Ok(Loaded { path: path.to_owned(), pieces, head })
}

/// A pipe of that name does not hold us up.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no file")),
    }
}

impl Indexes {
    /// Those of traces as named; `traces` are their parts, opened, in the same order.
    pub fn open(named: &[Named], traces: &[Trace]) -> Indexes {
        let mut indexes = Indexes::default();
        let mut first = 0;
        for of in named {
            let traces = &traces[first..first + of.parts.len()];
            first += of.parts.len();
            indexes.add(of, traces, named.len() == 1);
        }
        indexes
    }

    /// Of a trace that is being written.
    pub fn of_growing(growing: Arc<GrowingIndex>) -> Indexes {
        Indexes { growing: Some(growing), ..Indexes::default() }
    }

    /// That of a trace that is being written.
    pub fn growing(&self) -> Option<&GrowingIndex> {
        self.growing.as_deref()
    }

    fn add(&mut self, of: &Named, traces: &[Trace], with_states: bool) {
        let now: Option<Vec<TraceIdentity>> =
            of.parts.iter().zip(traces).map(|(dir, trace)| TraceIdentity::of(dir, trace)).collect();
        let Some(now) = now else {
            // It is being written.
            self.traces.extend(traces.iter().map(|_| None));
            return;
        };
        for (dir, now) in of.parts.iter().zip(&now) {
            let loaded = load(dir, std::slice::from_ref(now), &mut self.stale);
            let with_states = with_states && *dir == of.dir && traces.len() == 1;
            self.take(loaded, with_states.then_some(traces));
        }
        if with_states && (traces.len() > 1 || of.parts[0] != of.dir) {
            let loaded = load(&of.dir, &now, &mut self.stale);
            self.path = loaded.as_ref().map_or_else(PathBuf::new, |loaded| loaded.path.clone());
            self.states = loaded.and_then(|loaded| states(Arc::new(loaded.pieces), &loaded.head, traces));
        }
    }

    /// With the states, where the traces are given that they are of.
    fn take(&mut self, loaded: Option<Loaded>, with_states: Option<&[Trace]>) {
        let Some(Loaded { pieces, head, path }) = loaded else { return self.traces.push(None) };
        let pieces = Arc::new(pieces);
        if let Some(traces) = with_states {
            self.path = path;
            self.states = states(Arc::clone(&pieces), &head, traces);
        }
        let now = with_states.map(clocks);
        let index = |of: StreamsHead| TraceIndex {
            pieces,
            entries: KnownEntries::new(of.counts.len()),
            streams: of.counts,
            levels: of.levels,
            fine: of.fine,
            fields: of.fields.filter(|fields| Some(fields.clocks) == now),
        };
        self.traces.push(head.streams.map(index));
    }

    /// The same of some streams; others are passed over.
    pub fn starts_of(&self, traces: &[Trace], from_ns: Option<i128>, is_read: &[bool]) -> Vec<Start> {
        let mut all = is_read.iter();
        let mut starts = Vec::new();
        for (index, trace) in traces.iter().enumerate() {
            let known = self.traces.get(index).and_then(Option::as_ref).zip(only_clock(trace));
            let from = known.zip(from_ns).and_then(|((index, clock), from)| Some((index, clock.cycles_from(from)?)));
            for stream in 0..trace.streams().count() {
                let is_read = all.next() == Some(&true);
                let place = || from.and_then(|(index, from)| index.place_before(stream, from));
                starts.push(if is_read { place().map_or(Start::Begin, Start::At) } else { Start::Skip });
            }
        }
        starts
    }

    /// Where to begin with each stream to have all items from `from_ns` on; at its begin where nothing is known.
    pub fn starts(&self, traces: &[Trace], from_ns: i128) -> Vec<Start> {
        if let Some(growing) = self.growing() {
            return growing.starts(traces, clamp(from_ns));
        }
        let streams = traces.iter().map(|trace| trace.streams().count()).sum();
        self.starts_of(traces, Some(from_ns), &vec![true; streams])
    }

    /// Times of the first record and of the last, ns; `None` where an index is missing, or there are no records.
    pub fn bounds(&self, traces: &[Trace]) -> Option<(i64, i64)> {
        let mut bounds: Option<(i64, i64)> = None;
        for (index, trace) in traces.iter().enumerate() {
            let (index, clock) = (self.traces.get(index)?.as_ref()?, only_clock(trace)?);
            for (first, last) in index.streams.iter().filter_map(StreamCounts::span) {
                let [first, last] = [first, last].map(|cycles| clamp(clock.nanoseconds(cycles)));
                bounds = Some(bounds.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
            }
        }
        bounds
    }

    /// Looks through all of them, down to each checkpoint. The file that was looked for first, and bytes of all; or
    /// what is missing.
    pub fn check(&self, traces: &[Trace]) -> Result<(PathBuf, u64), String> {
        let classes = Classes::new(traces);
        for index in &self.traces {
            index.as_ref().ok_or("there is no index that holds")?.check()?;
        }
        let states = self.states.as_ref().ok_or("there is no index of states that holds")?;
        let streams = traces.iter().map(|trace| trace.streams().count()).sum();
        for checkpoint in &states.checkpoints {
            let bytes = states.pieces.read(&checkpoint.piece).ok_or("a checkpoint is damaged")?;
            decode(&bytes, streams, &classes).ok_or("a checkpoint makes no sense")?;
        }
        states.cpus().ok_or("the times of CPUs are damaged")?;
        states.pyramid.check().map_err(|_| "the sums over time are damaged")?;
        states.spans.as_ref().map_or(Ok(()), IndexedSpans::check).map_err(|_| "the spans are damaged")?;
        let mut bytes = states.pieces.bytes;
        for index in self.traces.iter().flatten().filter(|index| !Arc::ptr_eq(&index.pieces, &states.pieces)) {
            bytes += index.pieces.bytes;
        }
        Ok((self.path.clone(), bytes))
    }

    /// Of traces that have an index all, and no damage. `None` of no traces: nothing is known of those that there are.
    pub fn whole(&self) -> Option<Vec<&TraceIndex>> {
        let whole: Vec<&TraceIndex> = self.traces.iter().map(Option::as_ref).collect::<Option<_>>()?;
        let is_sound = |index: &&TraceIndex| index.streams.iter().all(|stream| stream.damaged == 0);
        (!whole.is_empty() && whole.iter().all(is_sound)).then_some(whole)
    }
}

fn states(pieces: Arc<Pieces>, head: &IndexHead, traces: &[Trace]) -> Option<States> {
    let of = head.states.clone().filter(|of| of.clocks == clocks(traces))?;
    let before = of.checkpoints.iter().map(|checkpoint| checkpoint.newest).collect();
    let (pictures, latencies, wakes, statistics) = (of.pictures, of.latencies, of.wakes, of.statistics);
    let (pieces_of_sums, head) = (Arc::clone(&pieces), of.pyramid);
    let pyramid = Pyramid { pieces: pieces_of_sums, head, pictures, latencies, wakes, statistics, before };
    let spans = of.spans.map(|head| IndexedSpans { pieces: Arc::clone(&pieces), head, whole: None });
    Some(States { pieces, checkpoints: of.checkpoints, cpus: of.cpus, pyramid, spans })
}

/// The clock of all its streams, if it has one only.
pub(crate) fn only_clock(trace: &Trace) -> Option<&Clock> {
    match &trace.metadata.clocks[..] {
        [clock] => Some(clock),
        _ => None,
    }
}

impl TraceIndex {
    /// The packets of a stream, in the order of the file. `None`: they are not what they were.
    pub fn entries(&self, stream: usize) -> Option<Arc<[Entry]>> {
        self.entries.of(stream, || take_entries(&self.pieces.read(&self.streams.get(stream)?.entries)?))
    }

    fn check(&self) -> Result<(), String> {
        for stream in 0..self.streams.len() {
            self.entries(stream).ok_or("packets are damaged")?;
        }
        for level in &self.levels {
            let bytes = self.pieces.read(level).ok_or("summaries are damaged")?;
            Buckets::take(&mut Take(&bytes)).ok_or("summaries make no sense")?;
        }
        if self.fine.is_some() {
            self.fine().ok_or("the fine summary is damaged")?;
        }
        self.check_fields().map_err(|_| "the values over time are damaged")?;
        Ok(())
    }

    /// In front of the last packet of which nothing, nor of those before it, is as new as `from`: what is wrong behind
    /// it is met.
    fn place_before(&self, stream: usize, from: u64) -> Option<PacketPlace> {
        let entries = self.entries(stream)?;
        let behind = entries.partition_point(|entry| entry.newest < from);
        Some(PacketPlace { packet: entries.get(behind.checked_sub(1)?)?.mark, inside: None })
    }

    /// Summaries over time, at least `columns` of them where the trace has so many: rows are the events by their
    /// position, then the records of each stream, then what each stream lost. Times are cycles.
    pub fn level(&self, columns: usize) -> Option<Buckets> {
        let mut fits = None;
        for piece in self.levels.iter().rev() {
            let level = Buckets::take(&mut Take(&self.pieces.read(piece)?))?;
            let is_fine = level.columns() >= columns;
            fits = Some(level);
            if is_fine {
                break;
            }
        }
        fits
    }

    /// Records of all streams, and what they lost, in shorter columns than any level has: two rows. Times are cycles.
    /// `None` where the finest level's are as short.
    pub fn fine(&self) -> Option<Buckets> {
        let bytes = self.pieces.read(self.fine.as_ref()?)?;
        Buckets::take_up_to(FINE_COLUMNS_MAX, &mut Take(&bytes))
    }

    /// Records of all streams.
    pub fn records(&self) -> u64 {
        self.streams.iter().map(StreamCounts::records).fold(0, u64::saturating_add)
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.pieces.bytes
    }
}
