// SPDX-License-Identifier: MIT OR Apache-2.0
//! From frames to records: epochs, what is missing, and what waits for its names [spec/target.md 7].

use std::collections::{BTreeMap, VecDeque};

use crate::content::{Events, Record, StreamHead, decode_names};
use crate::frame::{Frame, FrameKind, Scanner};

/// Checksums of so many frames are remembered, to know one that comes again.
const REMEMBERED: usize = 1 << 20;
/// Bytes of records that wait for the head or for names.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Places of losses that are told one by one.
const PLACES_MAX: usize = 1000;
/// Names that an epoch may have; no target's table is longer.
const NAMES_MAX: usize = 1024;
/// Ids below are the system's own.
const USER_FIRST: u16 = 16;
/// Where nothing says how fast a clock runs.
const HZ_UNKNOWN: u32 = 1_000_000_000;

/// Names of the system's events and of the unnamed one [spec/posix.md 3.2].
const SYSTEM_NAMES: [(u16, &str); 9] = [
    (1, "posix_trace_error"),
    (2, "posix_trace_start"),
    (3, "posix_trace_stop"),
    (4, "posix_trace_overflow"),
    (5, "posix_trace_resume"),
    (6, "posix_trace_filter"),
    (7, "posix_trace_flush_start"),
    (8, "posix_trace_flush_stop"),
    (USER_FIRST, "posix_trace_unnamed_userevent"),
];

/// Where records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetGap {
    /// Stamp of the last record in front, on the target's clock.
    pub stamp: u64,
    /// Records that were lost on the target, because there was no room.
    pub lost_target: u64,
    /// Records that the target sent, and that did not come.
    pub lost_line: u64,
    /// Frames that did not come.
    pub frames_missing: u64,
}

/// What one start of a target sent of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The target's number of its start.
    pub boot: u32,
    /// The stream's name.
    pub name: String,
    /// Counts of the target's clock in a second, once a head has said so.
    pub hz: Option<u32>,
    /// User events by id.
    pub names: BTreeMap<u16, String>,
    /// Records that came.
    pub records: u64,
    /// Frames that came.
    pub frames: u64,
    /// Records that were lost on the target since it was listened to.
    pub lost_target: u64,
    /// Records that were lost on the line.
    pub lost_line: u64,
    /// Frames that were.
    pub frames_missing: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames that came when later ones had.
    pub late: u64,
    /// Frames whose checksum is right and whose content makes no sense.
    pub damaged: u64,
    /// Records that were sent before anybody listened, and lost before on the target.
    pub before: u64,
    /// The target said that the stream was shut down.
    pub is_final: bool,
    /// The version of frames that cannot be read, if some came.
    pub other_version: Option<u32>,
    /// The first places where something is missing.
    pub places: Vec<TargetGap>,
    /// The host's time, nanoseconds since 1970, where the target's clock is at `anchor_stamp`.
    pub anchor_ns: Option<u64>,
    /// See `anchor_ns`.
    pub anchor_stamp: u64,
}

impl Epoch {
    /// The clock's rate, or what stands for it.
    pub fn rate(&self) -> u32 {
        self.hz.unwrap_or(HZ_UNKNOWN)
    }

    /// The name of an event: its own, or one made of its number.
    pub fn name_of(&self, id: u16) -> String {
        match self.known(id) {
            Some(name) => name.to_owned(),
            None => format!("event_{id}"),
        }
    }

    fn known(&self, id: u16) -> Option<&str> {
        let system = SYSTEM_NAMES.iter().find(|(number, _)| *number == id).map(|(_, name)| *name);
        system.or_else(|| self.names.get(&id).map(String::as_str))
    }
}

/// Records that belong together, in the order of time. Without any: only a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Index of its epoch.
    pub epoch: usize,
    /// In front of the first record, or at the end, where there is none.
    pub lost: u64,
    /// Records.
    pub records: Vec<Record>,
}

/// What is only known while an epoch lasts.
#[derive(Debug)]
struct Progress {
    next_sequence: u32,
    /// Of `remembered[0]`.
    remembered_from: u32,
    /// Checksums by sequence number; none of frames that did not come.
    remembered: VecDeque<Option<u32>>,
    next_record: Option<u32>,
    lost_told: Option<u32>,
    last_stamp: u64,
    /// Frames missing since something was known of records.
    gap_frames: u64,
}

/// What is known of a frame by its number.
enum Order {
    Next { missing: u64 },
    Duplicate,
    Late,
    Restart,
}

impl Progress {
    fn new(sequence: u32) -> Self {
        Self {
            next_sequence: sequence,
            remembered_from: sequence,
            remembered: VecDeque::new(),
            next_record: None,
            lost_told: None,
            last_stamp: 0,
            gap_frames: 0,
        }
    }

    fn order(&self, frame: &Frame) -> Order {
        let ahead = frame.sequence.wrapping_sub(self.next_sequence) as i32;
        if ahead >= 0 {
            return Order::Next { missing: ahead as u64 };
        }
        let index = frame.sequence.wrapping_sub(self.remembered_from) as usize;
        match self.remembered.get(index) {
            Some(Some(crc)) if *crc == frame.crc => Order::Duplicate,
            Some(Some(_)) => Order::Restart,
            // Before all that is remembered, while that goes back to what was heard first: it was not heard.
            _ => Order::Late,
        }
    }

    fn remember(&mut self, frame: &Frame, missing: u64) {
        if missing >= REMEMBERED as u64 {
            self.remembered.clear();
            self.remembered_from = frame.sequence;
        } else {
            self.remembered.extend((0..missing).map(|_| None));
        }
        self.remembered.push_back(Some(frame.crc));
        while self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
            self.remembered_from = self.remembered_from.wrapping_add(1);
        }
        self.next_sequence = frame.sequence.wrapping_add(1);
    }
}

/// Takes what comes over a line, and gives records.
#[derive(Debug, Default)]
pub struct Receiver {
    scanner: Scanner,
    epochs: Vec<Epoch>,
    progress: Option<Progress>,
    /// What waits for the head of the epoch, or for names.
    waiting: VecDeque<Batch>,
    waiting_bytes: usize,
    ready: Vec<Batch>,
}

impl Receiver {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes from the line, in pieces of any size. `now_ns`: the host's time since 1970, where they come as they are
    /// sent.
    pub fn push(&mut self, bytes: &[u8], now_ns: Option<u64>) {
        let mut frames = Vec::new();
        self.scanner.push(bytes, |frame| frames.push(frame));
        frames.into_iter().for_each(|frame| self.frame(frame, now_ns));
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        let mut frames = Vec::new();
        self.scanner.finish(|frame| frames.push(frame));
        frames.into_iter().for_each(|frame| self.frame(frame, None));
        self.release_all();
    }

    /// Batches that are complete, in their order: names of their events are known, or will not be.
    pub fn take(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.ready)
    }

    /// What was heard so far, in the order of time.
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// Bytes at the end that look like the begin of a frame; asked for before [`Self::finish`].
    pub fn pending_bytes(&self) -> usize {
        self.scanner.pending_bytes()
    }

    /// Bytes that belonged to no frame.
    pub fn stray_bytes(&self) -> u64 {
        self.scanner.stray_bytes
    }

    fn frame(&mut self, frame: Frame, now_ns: Option<u64>) {
        let missing = match self.order(&frame) {
            Order::Next { missing } => missing,
            Order::Duplicate => return self.count(|epoch| epoch.duplicates += 1),
            Order::Late => return self.count(|epoch| epoch.late += 1),
            Order::Restart => {
                self.begin_epoch(&frame);
                // All of the new start's frames in front of this one are missing.
                u64::from(frame.sequence)
            }
        };
        let Some(progress) = &mut self.progress else { return };
        progress.remember(&frame, missing);
        progress.gap_frames += missing;
        self.count(|epoch| {
            epoch.frames += 1;
            epoch.frames_missing += missing;
        });
        match frame.kind {
            FrameKind::Head => self.head(&frame, now_ns),
            FrameKind::Names => self.names(&frame),
            FrameKind::Events => self.events(&frame, now_ns),
        }
        self.release();
    }

    fn count(&mut self, change: impl FnOnce(&mut Epoch)) {
        if let Some(epoch) = self.epochs.last_mut() {
            change(epoch);
        }
    }

    /// The first frame of all begins an epoch without a number in front being missed: nobody listened.
    fn order(&mut self, frame: &Frame) -> Order {
        let Some(epoch) = self.epochs.last() else {
            self.epochs.push(Epoch { boot: frame.boot, ..Epoch::default() });
            self.progress = Some(Progress::new(frame.sequence));
            return Order::Next { missing: 0 };
        };
        if epoch.boot == frame.boot {
            return self.progress.as_ref().map_or(Order::Late, |progress| progress.order(frame));
        }
        // A start that was left behind does not come back.
        if self.epochs.iter().any(|epoch| epoch.boot == frame.boot) { Order::Late } else { Order::Restart }
    }

    /// The target has started again.
    fn begin_epoch(&mut self, frame: &Frame) {
        self.release_all();
        self.epochs.push(Epoch { boot: frame.boot, ..Epoch::default() });
        let mut progress = Progress::new(frame.sequence);
        (progress.next_record, progress.lost_told) = (Some(0), Some(0));
        self.progress = Some(progress);
    }

    /// The same start has shut its stream down and made another: numbers of frames go on, and names stay.
    fn begin_stream(&mut self) {
        self.release_all();
        let Some(last) = self.epochs.last_mut() else { return };
        let next = Epoch { boot: last.boot, hz: last.hz, names: last.names.clone(), ..Epoch::default() };
        self.epochs.push(next);
        if let Some(progress) = &mut self.progress {
            (progress.next_record, progress.lost_told) = (Some(0), Some(0));
        }
    }

    /// A frame that is not taken. What it would have told of is missing to the next one.
    fn damaged(&mut self) {
        self.count(|epoch| epoch.damaged += 1);
        if let Some(progress) = &mut self.progress {
            progress.gap_frames += 1;
        }
    }

    /// Whether the counts of a frame follow from those before. Then what is missing since: on the target, on the line.
    fn missing_at(&self, records: u32, lost: u32, stamp: u64) -> Option<(u32, u32)> {
        let progress = self.progress.as_ref()?;
        let line = records.checked_sub(progress.next_record.unwrap_or(records))?;
        let target = lost.checked_sub(progress.lost_told.unwrap_or(lost))?;
        let follows = (line == 0 || progress.gap_frames > 0) && stamp >= progress.last_stamp;
        follows.then_some((target, line))
    }

    fn note(&mut self, target: u32, line: u32) {
        let Some(progress) = &mut self.progress else { return };
        let (stamp, frames_missing) = (progress.last_stamp, std::mem::take(&mut progress.gap_frames));
        let (lost_target, lost_line) = (u64::from(target), u64::from(line));
        self.count(|epoch| {
            epoch.lost_target += lost_target;
            epoch.lost_line += lost_line;
            if (lost_target, lost_line, frames_missing) != (0, 0, 0) && epoch.places.len() < PLACES_MAX {
                epoch.places.push(TargetGap { stamp, lost_target, lost_line, frames_missing });
            }
        });
    }

    /// Where the counts begin, for who listens later.
    fn begin_counts(&mut self, records: u32, lost: u32) {
        let Some(progress) = &mut self.progress else { return };
        if progress.next_record.is_none() {
            let is_first = progress.remembered_from == 0;
            (progress.next_record, progress.lost_told) =
                if is_first { (Some(0), Some(0)) } else { (Some(records), Some(lost)) };
            if !is_first {
                self.count(|epoch| epoch.before = u64::from(records) + u64::from(lost));
            }
        }
    }

    fn is_other_stream(&self, records: u32) -> bool {
        let Some((epoch, progress)) = self.epochs.last().zip(self.progress.as_ref()) else { return false };
        let has_begun = progress.next_record.is_some_and(|next| next > 0) || epoch.is_final;
        has_begun && progress.next_record.is_some_and(|next| records < next || epoch.is_final)
    }

    fn head(&mut self, frame: &Frame, now_ns: Option<u64>) {
        let Some(head) = StreamHead::decode(&frame.payload) else {
            let other = StreamHead::other_version(&frame.payload);
            self.count(|epoch| epoch.other_version = epoch.other_version.or(other));
            return self.damaged();
        };
        if head.records == 0 && self.is_other_stream(0) {
            self.begin_stream();
        }
        self.begin_counts(head.records, head.lost);
        let Some((target, line)) = self.missing_at(head.records, head.lost, head.stamp) else {
            return self.damaged();
        };
        let has_rate = |epoch: &Epoch| epoch.hz.is_some_and(|hz| hz != head.hz);
        if self.epochs.last().is_some_and(has_rate) {
            return self.damaged();
        }
        self.note(target, line);
        if let Some(progress) = &mut self.progress {
            (progress.next_record, progress.lost_told) = (Some(head.records), Some(head.lost));
        }
        self.count(|epoch| {
            epoch.hz = Some(head.hz);
            epoch.name.clone_from(&head.name);
            epoch.is_final |= head.is_final;
        });
        self.anchor(head.stamp, now_ns, true);
        if target + line > 0 {
            self.wait(Vec::new(), u64::from(target) + u64::from(line));
        }
    }

    /// The first head says when the target's clock was what; until one comes, records do, later than they were.
    fn anchor(&mut self, stamp: u64, now_ns: Option<u64>, is_head: bool) {
        let is_first_head = is_head && self.epochs.last().is_some_and(|epoch| epoch.anchor_stamp == 0);
        self.count(|epoch| {
            if epoch.anchor_ns.is_none() || is_first_head {
                epoch.anchor_ns = now_ns.or(epoch.anchor_ns);
                epoch.anchor_stamp = stamp;
            }
        });
    }

    fn names(&mut self, frame: &Frame) {
        let Some(names) = decode_names(&frame.payload) else { return self.damaged() };
        let Some(epoch) = self.epochs.last_mut() else { return };
        let fits =
            |(id, name): &(u16, String)| *id > USER_FIRST && epoch.names.get(id).is_none_or(|before| before == name);
        if !names.iter().all(fits) || epoch.names.len() + names.len() > 2 * NAMES_MAX {
            return self.damaged();
        }
        epoch.names.extend(names);
    }

    fn events(&mut self, frame: &Frame, now_ns: Option<u64>) {
        let Some(events) = Events::decode(&frame.payload) else { return self.damaged() };
        let Some((begin, end)) = events.records.first().zip(events.records.last()).map(|(a, b)| (a.stamp, b.stamp))
        else {
            return self.damaged();
        };
        let has_gap = self.progress.as_ref().is_some_and(|progress| progress.gap_frames > 0);
        if has_gap && self.is_other_stream(events.first) {
            self.begin_stream();
        }
        self.begin_counts(events.first, events.lost);
        let Some((target, line)) = self.missing_at(events.first, events.lost, begin) else { return self.damaged() };
        self.note(target, line);
        let count = events.records.len() as u32;
        if let Some(progress) = &mut self.progress {
            progress.next_record = Some(events.first.wrapping_add(count));
            progress.lost_told = Some(events.lost);
            progress.last_stamp = end;
        }
        self.count(|epoch| epoch.records += u64::from(count));
        self.anchor(begin, now_ns, false);
        self.wait(events.records, u64::from(target) + u64::from(line));
    }

    fn wait(&mut self, records: Vec<Record>, lost: u64) {
        let epoch = self.epochs.len().saturating_sub(1);
        self.waiting_bytes += bytes_of(&records);
        self.waiting.push_back(Batch { epoch, lost, records });
        while self.waiting_bytes > WAITING_BYTES_MAX {
            self.release_one();
        }
    }

    fn release_one(&mut self) {
        if let Some(batch) = self.waiting.pop_front() {
            self.waiting_bytes -= bytes_of(&batch.records);
            self.ready.push(batch);
        }
    }

    fn release_all(&mut self) {
        while !self.waiting.is_empty() {
            self.release_one();
        }
    }

    /// What waits for nothing.
    fn release(&mut self) {
        let Some(epoch) = self.epochs.last().filter(|epoch| epoch.hz.is_some()) else { return };
        let is_known = |batch: &Batch| batch.records.iter().all(|record| epoch.known(record.id).is_some());
        let count = self.waiting.iter().take_while(|batch| is_known(batch)).count();
        (0..count).for_each(|_| self.release_one());
    }
}

/// Memory that records take, about.
fn bytes_of(records: &[Record]) -> usize {
    64 + records.iter().map(|record| size_of::<Record>() + record.data.len()).sum::<usize>()
}
