// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a trace that is being written: counts over time, and checkpoints of the machine's state. It is kept
//! in memory, and each look reads only what was written since the one before. It never becomes a file: when the trace
//! has ended, `kymo index` builds the index that is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use kymo_analyze::compact::{Put, Take};
use kymo_ctf::read::{Item, PacketPlace, Range, Reader, Start, Trace};
use kymo_feed::{Classes, Missing, Walker, clamp};

use crate::counts::buckets::Buckets;
use crate::file::identity::clocks;

/// Records between two checkpoints at least: what a look at the edge reads twice at most.
const RECORDS_MIN: u64 = 1 << 15;
/// Records for each byte of a checkpoint at least. A record has 16 bytes or more, so all checkpoints together are a
/// 64th of the trace.
const RECORDS_FOR_BYTE: u64 = 4;
/// Of so many looks the end is kept: who follows asks again and again for the newest stretch, and reads little in front
/// of it.
const RECENT_MAX: usize = 64;
/// Bytes of their states at most.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// Rows of [`GrowingIndex::columns`].
const RECORDS: usize = 0;
const LOST: usize = 1;

/// A stream: the position of its trace, and the name of its file.
type StreamKey = (usize, String);

/// Where each stream goes on, and the state in front of that.
#[derive(Debug)]
struct Resume {
    /// Newest time of what was passed, ns.
    newest: i64,
    /// With the mark that a walker has of the stream.
    streams: HashMap<StreamKey, (PacketPlace, u8)>,
    state: Vec<u8>,
}

/// The index of a trace that is being written.
#[derive(Clone, Debug, Default)]
pub struct GrowingIndex {
    /// Of the clocks that times were computed with.
    clocks: Option<u64>,
    /// In the order of time.
    checkpoints: Vec<Arc<Resume>>,
    /// Where the next look goes on.
    last: Option<Arc<Resume>>,
    /// Where the looks before ended, the newest last.
    recent: VecDeque<Arc<Resume>>,
    records_since: u64,
    records: u64,
    lost: Missing,
    span: Option<(i64, i64)>,
    /// Records and lost records over time, ns since 1970.
    columns: Option<Buckets>,
    /// Time of the oldest of what was too new, ns.
    held: Option<i64>,
    is_over: bool,
    /// How often it began anew.
    restarts: u64,
}

impl GrowingIndex {
    /// Takes what was written since the last look and is not newer than `until`, ns since 1970. What is newer waits: a
    /// stream may still get something older. Begins anew if the trace is not the one that it was.
    pub fn advance(&mut self, traces: &[Trace], classes: &Classes, until: i64) {
        let keys = keys(traces);
        let clocks = clocks(traces);
        let is_same = |last: &Arc<Resume>| last.streams.keys().all(|key| keys.contains(key));
        if self.clocks != Some(clocks) || !self.last.as_ref().is_none_or(is_same) {
            self.restart();
        }
        self.clocks = Some(clocks);
        let begun = self.last.as_ref().and_then(|last| last.begin(traces, &keys, classes));
        let (mut reader, mut walker) = match begun {
            Some(begun) => begun,
            None => {
                self.restart();
                self.clocks = Some(clocks);
                (Reader::new(traces), Walker::new(classes))
            }
        };
        self.held = None;
        while reader.pass().is_some() {
            if let Some((ns, _)) = reader.standing().filter(|(ns, _)| *ns > i128::from(until)) {
                self.held = Some(clamp(ns));
                break;
            }
            if self.records_since >= RECORDS_MIN {
                self.keep(&keys, &reader, &walker);
            }
            self.take(&mut reader, &mut walker);
        }
        let last = Arc::new(self.resume(&keys, &reader, &walker));
        if let Some(before) = self.last.replace(last).filter(|_| !self.is_over) {
            self.remember(before);
        }
    }

    /// Keeps where a look has ended, for questions about what came soon after it.
    fn remember(&mut self, resume: Arc<Resume>) {
        let is_same = |newest: &Arc<Resume>| newest.newest == resume.newest;
        if self.recent.back().is_some_and(is_same) {
            self.recent.pop_back();
        }
        self.recent.push_back(resume);
        let mut bytes: usize = self.recent.iter().map(|resume| resume.state.len()).sum();
        while self.recent.len() > RECENT_MAX || bytes > RECENT_BYTES_MAX {
            bytes -= self.recent.pop_front().map_or(bytes, |resume| resume.state.len());
        }
    }

    fn restart(&mut self) {
        let restarts = self.restarts + u64::from(self.last.is_some());
        *self = GrowingIndex { restarts, is_over: self.is_over, ..GrowingIndex::default() };
    }

    fn resume(&self, keys: &[StreamKey], reader: &Reader<'_>, walker: &Walker<'_>) -> Resume {
        let mut put = Put::default();
        walker.encode(&mut put);
        let (marks, state) = split(&put.0);
        let mark = |stream: usize| marks.get(stream).copied().unwrap_or(0);
        let streams = keys.iter().zip(reader.places()).enumerate();
        Resume {
            newest: self.span.map_or(i64::MIN, |(_, last)| last),
            streams: streams.map(|(stream, (key, place))| (key.clone(), (place, mark(stream)))).collect(),
            state: state.to_vec(),
        }
    }

    /// Keeps a checkpoint in front of what the reader passed last, unless states are large for so few records.
    fn keep(&mut self, keys: &[StreamKey], reader: &Reader<'_>, walker: &Walker<'_>) {
        let resume = self.resume(keys, reader, walker);
        if self.records_since < RECORDS_FOR_BYTE * resume.state.len() as u64 {
            // Asked again after as many records.
            self.records_since = self.records_since.saturating_sub(RECORDS_MIN / 2);
            return;
        }
        self.records_since = 0;
        self.checkpoints.push(Arc::new(resume));
    }

    fn take(&mut self, reader: &mut Reader<'_>, walker: &mut Walker<'_>) {
        let stream = reader.stream().unwrap_or_default();
        let columns = self.columns.get_or_insert_with(|| Buckets::new(LOST + 1));
        // Before 1970 there were no traces.
        let place = |ns: i64| u64::try_from(ns).unwrap_or(0);
        if let Some(record) = reader.glance() {
            let time = walker.glance(stream, &record, &mut ());
            self.span = Some(self.span.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
            self.records += 1;
            self.records_since += 1;
            columns.add(RECORDS, place(time), 1);
        } else if let Some(Item::Loss(loss)) = reader.current() {
            walker.loss(stream, &loss, &mut ());
            self.lost.add_loss(&loss);
            columns.add(LOST, place(clamp(loss.to_ns)), loss.records);
        }
    }

    /// Nothing more is written.
    pub fn end(&mut self) {
        self.is_over = true;
        self.recent.clear();
    }

    /// Whether nothing more is written: all of it was read.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Time of the oldest that waits for a later look because it was too new, ns; `None` if nothing does.
    pub fn held(&self) -> Option<i64> {
        self.held
    }

    /// Times of the first record and of the last, ns; `None` if there is no record.
    pub fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// Records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// What was lost.
    pub fn lost(&self) -> Missing {
        self.lost
    }

    /// How often it began anew, because the trace was not the one that it was.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Ends of looks that are kept beside them.
    pub fn recent_count(&self) -> usize {
        self.recent.len()
    }

    /// Checkpoints that are kept.
    pub fn checkpoint_count(&self) -> usize {
        self.checkpoints.len()
    }

    /// Records and lost records over time: from, to [ns since 1970], records, lost.
    pub fn columns(&self) -> impl Iterator<Item = (i64, i64, u64, u64)> {
        let count = self.columns.as_ref().map_or(0, Buckets::columns);
        let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        (0..count).filter_map(move |column| {
            let of = self.columns.as_ref()?;
            let (from, to) = of.times(column);
            let value = |row: usize| of.row(row).get(column).copied().unwrap_or(0);
            Some((time(from), time(to), value(RECORDS), value(LOST)))
        })
    }

    /// The newest checkpoint of which nothing is as new as `from`.
    fn before(&self, from: i64) -> Option<&Arc<Resume>> {
        let is_before = |resume: &&Arc<Resume>| resume.newest < from;
        let behind = self.checkpoints.partition_point(|checkpoint| checkpoint.newest < from);
        let kept = behind.checked_sub(1).and_then(|newest| self.checkpoints.get(newest));
        let recent = self.recent.iter().rev().find(is_before);
        let last = self.last.as_ref().filter(is_before);
        [kept, recent, last].into_iter().flatten().max_by_key(|resume| resume.newest)
    }

    /// Where to begin with each stream to have all items from `from` on.
    pub(crate) fn starts(&self, traces: &[Trace], from: i64) -> Vec<Start> {
        let keys = keys(traces);
        self.before(from).map_or_else(|| vec![Start::Begin; keys.len()], |resume| resume.starts(&keys))
    }

    /// The same, and the state in front of that.
    pub(crate) fn state_before<'c>(
        &self,
        from: i64,
        traces: &[Trace],
        classes: &'c Classes,
    ) -> Option<(Vec<Start>, Walker<'c>)> {
        let keys = keys(traces);
        let resume = self.before(from)?;
        Some((resume.starts(&keys), resume.walker(&keys, classes)?))
    }
}

impl Resume {
    fn starts(&self, keys: &[StreamKey]) -> Vec<Start> {
        // A stream that is new since then has all its items behind it.
        keys.iter().map(|key| self.streams.get(key).map_or(Start::Begin, |(place, _)| Start::At(*place))).collect()
    }

    fn walker<'c>(&self, keys: &[StreamKey], classes: &'c Classes) -> Option<Walker<'c>> {
        let mut put = Put::default();
        put.number(keys.len() as u64);
        keys.iter().for_each(|key| put.byte(self.streams.get(key).map_or(0, |(_, mark)| *mark)));
        put.0.extend_from_slice(&self.state);
        Walker::decode(Take(&put.0), classes)
    }

    fn begin<'t, 'c>(
        &self,
        traces: &'t [Trace],
        keys: &[StreamKey],
        classes: &'c Classes,
    ) -> Option<(Reader<'t>, Walker<'c>)> {
        Some((Reader::between(traces, Range::default(), &self.starts(keys))?, self.walker(keys, classes)?))
    }
}

/// All streams, in the order of a reader.
fn keys(traces: &[Trace]) -> Vec<StreamKey> {
    let of = |(index, trace): (usize, &Trace)| {
        trace.streams().map(|(name, _)| (index, name.to_owned())).collect::<Vec<StreamKey>>()
    };
    traces.iter().enumerate().flat_map(of).collect()
}

/// A walker's bytes: its marks of streams, and the state.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut take = Take(bytes);
    let count = take.count().unwrap_or(0).min(take.0.len());
    take.0.split_at(count)
}
