// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU: its pages become batches, its losses become empty packets between them [spec/kernel.md 5].

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use kymo_ftrace::page::{Missed, PageError};
use kymo_ftrace::{Batch, Decoder, Pending};
use kymo_tracefs::{CpuReader, Stats};

use crate::clock::ClockSource;
use crate::snapshot::SnapshotPart;
use crate::stream::{Class, Packet, Refusal, Stream, Streams};

use super::access::MappedPages;
use super::summary::{KernelCause, KernelLoss, KernelLost};

/// A batch of this size becomes a packet.
const PACKET_BYTES: usize = 256 << 10;
/// So does one of this age, and a younger one while somebody looks at the trace. With a look before it and one behind
/// it, 20 ms apart at most, a record is in the file 120 ms after it was written, as those of programs are
/// [spec/session.md 7].
pub(super) const PACKET_AGE: Duration = Duration::from_millis(80);
/// A batch that waits until its end can be told apart from what was dropped waits no longer than to this size.
const PACKET_BYTES_MAX: usize = 4 << 20;
/// Losses listed for one CPU; later ones are in the totals only.
const LOSSES_MAX: usize = 1024;
/// Remarks on damage kept for one CPU.
const DAMAGE_MAX: usize = 8;
/// Between two looks at the kernel's counts of a ring that is not full.
const STATS_PERIOD: Duration = Duration::from_millis(100);

/// One CPU's ring.
#[derive(Debug)]
pub(crate) struct Ring {
    cpu: u32,
    reader: CpuReader,
    /// The same ring, if it is read where it is mapped.
    mapped: Option<MappedPages>,
    batch: Batch,
    begun: Option<Instant>,
    slot: Option<Stream>,
    /// Clock value of the newest record that was taken; the session's start before there is one.
    newest: u64,
    /// Records lost in front of the batch, not told yet.
    lost_pending: u64,
    /// Overwritten records that the pages and counts told of so far.
    overwritten: u64,
    /// Whether `overwritten` is exact up to the newest page: no page was without its number.
    is_exact: bool,
    last: Stats,
    last_looked: Instant,
    /// Clock value just before the last look at the kernel's counts.
    looked: u64,
    /// Clock value just after the first look that gave the counts of `last`: nothing was dropped between then and the
    /// last look.
    quiet_since: u64,
    /// Records that never came into the ring since the newest packet; not told yet.
    dropped_pending: u64,
    /// Clock value at which the ring was seen to be empty, behind all records that were taken.
    emptied: u64,
    /// Flight recorder: batches of the pages that were read for earlier snapshots, and what was lost in front of each.
    history: VecDeque<(u64, Batch)>,
    history_bytes: usize,
    history_max: usize,
    pub totals: Totals,
}

/// What a ring came to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub records: u64,
    /// Records of events that only keep the state dump true: not in `records`.
    pub asides: u64,
    pub bytes: u64,
    pub lost: KernelLost,
    pub losses: Vec<KernelLoss>,
    pub damage: Vec<String>,
}

/// What all rings share while they are looked at.
pub(crate) struct Pass<'a> {
    pub decoder: &'a Decoder,
    pub source: ClockSource,
    pub streams: &'a mut Streams,
    pub page: &'a mut [u8],
    /// A batch of this age becomes a packet.
    pub packet_age: Duration,
}

impl Ring {
    pub(crate) fn new(cpu: u32, reader: CpuReader, now: u64, history_max: usize) -> Ring {
        Ring {
            cpu,
            reader,
            mapped: None,
            batch: Batch::default(),
            begun: None,
            slot: None,
            newest: now,
            lost_pending: 0,
            overwritten: 0,
            is_exact: true,
            last: Stats::default(),
            last_looked: Instant::now(),
            looked: now,
            quiet_since: now,
            dropped_pending: 0,
            emptied: now,
            history: VecDeque::new(),
            history_bytes: 0,
            history_max,
            totals: Totals::default(),
        }
    }

    /// From now on the ring is read where it is mapped, if the kernel does that. Not for a flight recorder.
    pub(crate) fn map(&mut self, decoder: &Decoder) -> io::Result<()> {
        self.mapped = Some(MappedPages::of(&self.reader, decoder)?);
        Ok(())
    }

    /// Whether it is.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Takes pages until the ring is empty or `pages_max` were taken; also until it has come to the page that the
    /// kernel writes to, where `is_live`: the calls that take a few records from there would be the next few records.
    /// Returns how many pages.
    pub(crate) fn look(&mut self, pass: &mut Pass<'_>, pages_max: usize, is_live: bool) -> usize {
        let mut pages = 0;
        let mut is_behind = true;
        while pages < pages_max && is_behind {
            let (now, was_mapped) = (pass.source.read(), self.is_mapped());
            let data_bytes = match self.take_next(pass) {
                Ok(Some(data_bytes)) => data_bytes,
                Ok(None) => {
                    self.emptied = now;
                    break;
                }
                Err(error) => {
                    self.damaged(0, format!("the ring cannot be read: {error}"));
                    // One that was mapped is copied from here on.
                    match was_mapped {
                        true => continue,
                        false => break,
                    }
                }
            };
            pages += 1;
            // A batch with drops cannot end before the ring was seen to be empty.
            is_behind = !is_live || self.dropped_pending > 0 || data_bytes >= pass.page.len() / 2;
        }
        let is_old = self.begun.is_some_and(|begun| begun.elapsed() >= pass.packet_age);
        if is_old {
            self.end_batch(pass);
        }
        if self.last_looked.elapsed() >= STATS_PERIOD {
            self.count_dropped(pass);
        }
        pages
    }

    /// Takes one sub-buffer, or what is new in the one that the kernel writes to. Returns the bytes of its records.
    /// A mapped ring that does not answer as it should is read by copies from then on.
    fn take_next(&mut self, pass: &mut Pass<'_>) -> io::Result<Option<usize>> {
        let Some(mut mapped) = self.mapped.take() else { return self.take_copy(pass) };
        let decoder = pass.decoder;
        let taken = mapped.next(decoder, |opened| self.take(opened, pass))?;
        self.mapped = Some(mapped);
        Ok(taken)
    }

    fn take_copy(&mut self, pass: &mut Pass<'_>) -> io::Result<Option<usize>> {
        let bytes = self.reader.read(pass.page)?;
        if bytes == 0 {
            return Ok(None);
        }
        // The page is moved out for a moment: decoding borrows it while packets are written.
        let page = std::mem::take(&mut pass.page);
        let data_bytes = match pass.decoder.open(&page[..bytes]) {
            Ok(mut pending) => self.take(Ok(&mut pending), pass),
            Err(error) => self.take(Err(error), pass),
        };
        pass.page = page;
        Ok(Some(data_bytes))
    }

    /// The records of one sub-buffer. Returns their bytes; those of a damaged one count as all.
    fn take(&mut self, opened: Result<&mut Pending<'_>, PageError>, pass: &mut Pass<'_>) -> usize {
        let pending = match opened {
            Ok(pending) => pending,
            Err(error) => {
                self.damaged(0, error.to_string());
                return usize::MAX;
            }
        };
        match pending.missed {
            Missed::None => {}
            Missed::Some(count) => self.missed(Some(count), pass),
            Missed::Unknown => self.missed(None, pass),
        }
        while !pass.decoder.decode(pending, &mut self.batch) {
            self.flush(pass);
        }
        let outcome = &pending.outcome;
        if let Some(error) = outcome.damage {
            self.damaged(0, error.to_string());
        }
        if outcome.unknown + outcome.short > 0 {
            let what = format!("{} records of unknown events, {} too short", outcome.unknown, outcome.short);
            self.damaged(outcome.unknown + outcome.short, what);
        }
        if self.batch.records > 0 {
            self.begun.get_or_insert_with(Instant::now);
        }
        if self.batch.bytes.len() >= PACKET_BYTES {
            self.end_batch(pass);
        }
        pending.data_bytes
    }

    /// Records were overwritten in front of the page at hand. Where a page did not say how many, the kernel's own count
    /// decides, from then on: it may be ahead of the pages, and the sum stays right.
    fn missed(&mut self, told: Option<u64>, pass: &mut Pass<'_>) {
        self.flush(pass);
        let count = match told {
            Some(count) if self.is_exact => count,
            _ => {
                self.is_exact = false;
                let now = self.reader.stats().map_or(self.overwritten, |stats| stats.overrun);
                now.saturating_sub(self.overwritten)
            }
        };
        self.overwritten += count;
        self.lose(KernelCause::Overwritten, count, pass);
    }

    /// Notes a loss between the newest record and the present; its end is known when the next record is.
    fn lose(&mut self, cause: KernelCause, records: u64, pass: &Pass<'_>) {
        if records == 0 {
            return;
        }
        *self.totals.lost.of(cause) += records;
        self.lost_pending += records;
        self.list(cause, records, self.newest, pass.source.read());
    }

    fn list(&mut self, cause: KernelCause, records: u64, from: u64, to: u64) {
        if self.totals.losses.len() < LOSSES_MAX {
            self.totals.losses.push(KernelLoss { cpu: self.cpu, cause, records, from, to, from_s: 0.0, to_s: 0.0 });
        }
    }

    fn damaged(&mut self, records: u64, what: String) {
        self.totals.lost.damaged += records;
        self.lost_pending += records;
        if self.totals.damage.len() < DAMAGE_MAX {
            self.totals.damage.push(format!("CPU {}: {what}", self.cpu));
        }
    }

    /// Looks at the kernel's counts of events that never came into the ring.
    fn count_dropped(&mut self, pass: &mut Pass<'_>) {
        self.last_looked = Instant::now();
        let before = pass.source.read();
        let Ok(stats) = self.reader.stats() else { return };
        let dropped = stats.dropped.saturating_sub(self.last.dropped);
        let interrupted = stats.commit_overrun.saturating_sub(self.last.commit_overrun);
        self.last = stats;
        let from = std::mem::replace(&mut self.looked, before);
        if dropped + interrupted == 0 {
            return;
        }
        self.quiet_since = pass.source.read();
        self.dropped_pending += dropped + interrupted;
        for (cause, records) in [(KernelCause::Dropped, dropped), (KernelCause::Interrupted, interrupted)] {
            *self.totals.lost.of(cause) += records;
            if records > 0 {
                self.list(cause, records, from, self.quiet_since);
            }
        }
    }

    /// Makes the batch a packet, if what was dropped so far was dropped before its end, and nothing since. Where
    /// records are dropped nobody tells; two looks at the counts do. A later look may find that.
    fn end_batch(&mut self, pass: &mut Pass<'_>) {
        self.count_dropped(pass);
        let end = self.batch.end.max(self.emptied);
        if self.dropped_pending == 0 || end >= self.quiet_since || self.batch.bytes.len() >= PACKET_BYTES_MAX {
            self.flush(pass);
        }
    }

    /// The batch becomes a packet, behind an empty one that tells of what was lost in front of it. What was dropped
    /// meanwhile is lost between the packet in front and the end of this one, which then lasts until the ring was
    /// empty.
    fn flush(&mut self, pass: &mut Pass<'_>) {
        self.begun = None;
        if self.batch.records == 0 {
            return;
        }
        let (begin, mut end) = (self.batch.begin, self.batch.end);
        if self.dropped_pending > 0 {
            end = end.max(self.emptied);
        }
        self.tell_loss(begin, pass);
        let (records, asides) = (self.batch.records, self.batch.asides);
        let result = self.packet(pass, begin, end, self.dropped_pending, true);
        match result {
            Ok(()) => {
                self.dropped_pending = 0;
                self.totals.records += records - asides;
                self.totals.asides += asides;
                self.totals.bytes += self.batch.bytes.len() as u64;
                self.newest = end;
            }
            Err(Refusal::Backwards) => {
                self.damaged(records, format!("{records} records begin before those that they follow"))
            }
            Err(_) => self.lose(KernelCause::NotWritten, records, pass),
        }
        self.batch.clear();
    }

    /// An empty packet from the newest record to `until`.
    fn tell_loss(&mut self, until: u64, pass: &mut Pass<'_>) {
        if self.lost_pending == 0 {
            return;
        }
        let begin = self.newest.min(until);
        // The loss that was listed last ends where the records go on.
        for loss in self.totals.losses.iter_mut().rev().take_while(|loss| loss.from == self.newest) {
            loss.to = loss.to.min(until).max(loss.from);
        }
        if self.packet(pass, begin, until, self.lost_pending, false).is_ok() {
            self.lost_pending = 0;
        }
    }

    fn packet(&mut self, pass: &mut Pass<'_>, begin: u64, end: u64, lost: u64, full: bool) -> Result<(), Refusal> {
        let batch = std::mem::take(&mut self.batch);
        let result = self.packet_of(pass, if full { &batch.bytes } else { &[] }, begin, end, lost);
        self.batch = batch;
        result
    }

    fn packet_of(&mut self, pass: &mut Pass<'_>, bytes: &[u8], begin: u64, end: u64, lost: u64) -> Result<(), Refusal> {
        let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let packet = Packet { begin, end, lost, program: None, thread: None, pieces: [piece, nothing] };
        let now = pass.source.read();
        pass.streams.append(&mut self.slot, Class::Kernel(self.cpu), &packet, now)
    }

    /// Flight recorder: takes what the ring holds now, and writes what is not older than `since`. What was read for an
    /// earlier snapshot is written again where it is young enough: as much of it is kept as the ring holds.
    pub(crate) fn snapshot(&mut self, pass: &mut Pass<'_>, since: Option<u64>, part: &mut SnapshotPart) {
        let overwritten = self.read_history(pass);
        part.overwritten += overwritten;
        self.slot = None;
        let mut newest = None;
        for (lost, batch) in std::mem::take(&mut self.history) {
            if since.is_none_or(|since| batch.end >= since) {
                let begin = newest.unwrap_or(batch.begin).min(batch.begin);
                let told = lost == 0 || self.packet_of(pass, &[], begin, batch.begin, lost).is_ok();
                if told && self.packet_of(pass, &batch.bytes, batch.begin, batch.end, 0).is_ok() {
                    part.records += batch.records - batch.asides;
                    part.bytes += batch.bytes.len() as u64;
                    part.reach_back_to(batch.begin);
                    newest = Some(batch.end);
                }
            }
            self.history.push_back((lost, batch));
        }
        self.slot = None;
    }

    /// Reads the ring up to the present into `history`; how many records were overwritten since it was read last.
    fn read_history(&mut self, pass: &mut Pass<'_>) -> u64 {
        let until = pass.source.read();
        let (mut overwritten, mut lost) = (0, 0);
        while let Ok(taken @ 1..) = self.reader.read(pass.page) {
            let page = std::mem::take(&mut pass.page);
            let mut is_past = false;
            if let Ok(mut pending) = pass.decoder.open(&page[..taken]) {
                if pending.missed != Missed::None {
                    let now = self.reader.stats().map_or(self.overwritten, |stats| stats.overrun);
                    lost += now.saturating_sub(self.overwritten);
                    self.overwritten = now.max(self.overwritten);
                }
                let mut is_done = false;
                while !is_done {
                    let mut batch = Batch::default();
                    is_done = pass.decoder.decode(&mut pending, &mut batch);
                    if batch.records == 0 {
                        continue;
                    }
                    is_past = batch.end > until;
                    overwritten += lost;
                    self.totals.records += batch.records - batch.asides;
                    self.totals.asides += batch.asides;
                    self.totals.bytes += batch.bytes.len() as u64;
                    *self.totals.lost.of(KernelCause::Overwritten) += lost;
                    self.history_bytes += batch.bytes.len();
                    self.history.push_back((std::mem::take(&mut lost), batch));
                }
            }
            pass.page = page;
            if is_past {
                break;
            }
        }
        while self.history_bytes > self.history_max {
            let Some((_, batch)) = self.history.pop_front() else { break };
            self.history_bytes -= batch.bytes.len();
        }
        overwritten
    }

    /// The trace goes on in another directory: what was taken is written, the file given back. Losses that no packet
    /// tells of yet are for the next one.
    pub(crate) fn leave_file(&mut self, pass: &mut Pass<'_>) {
        self.flush(pass);
        if let Some(stream) = self.slot.take() {
            pass.streams.release(stream);
        }
    }

    /// The instance has been stopped and the ring is empty: the kernel's last word on what was lost.
    pub(crate) fn finish(&mut self, pass: &mut Pass<'_>) {
        self.count_dropped(pass);
        self.emptied = pass.source.read();
        self.flush(pass);
        self.lost_pending += std::mem::take(&mut self.dropped_pending);
        if let Ok(stats) = self.reader.stats() {
            let rest = stats.overrun.saturating_sub(self.overwritten);
            self.overwritten += rest;
            self.lose(KernelCause::Overwritten, rest, pass);
        }
        let now = pass.source.read();
        // Room for this much is kept, on a full disk too.
        pass.streams.try_again();
        self.tell_loss(now, pass);
        if let Some(stream) = self.slot.take() {
            pass.streams.release(stream);
        }
    }
}
