// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings as simulated programs write them, by spec/ring.md 4 and 10, and the books of what was written.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use kymo_abi::ring::{CHUNKS, Layout, MARKS, Mark, RingBlock, STORE_PAST, Span, View, mem_flags};
use kymo_abi::{RingKind, head_word, split_head};
use kymo_filter::Insn;
use kymo_mapping::Mapping;

/// Bytes of a record: header, thread, one number.
pub(super) const RECORD_BYTES: u32 = 20;

/// Pages of a portable memory beside its lanes, and what the file system needs.
const PAGES_BEFORE: u64 = 256 << 10;

/// What was written into the rings of one memory, lane by lane, and what its writers counted as lost.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Name of the program that was given the memory; of shared rings theirs.
    pub comm: String,
    /// User of the program.
    pub uid: u32,
    /// Numbers of the records, by lane.
    pub published: BTreeMap<u32, Vec<u64>>,
    /// Flight recorder: their times.
    pub times: BTreeMap<u32, Vec<u64>>,
    pub lost_full: u64,
    /// Records that a trigger waits for.
    pub triggering: u64,
    /// Of each ring.
    pub ring_bytes: u32,
    /// What is old in them is overwritten.
    pub is_overwritten: bool,
    /// Whoever has the memory mapped.
    mappings: Vec<Weak<Rings>>,
    /// What it counts for at most.
    pub bytes_at_most: u64,
    /// Nobody had it any more at that time, as was seen then.
    pub free_since: Option<u64>,
    /// Somebody had it when the collector died, and it was in a file.
    pub is_left: bool,
}

/// The books of a session, by serial.
pub(super) type Books = BTreeMap<u64, Book>;

impl Book {
    /// Of a memory that a program of this name and user was given.
    pub(super) fn of(comm: String, uid: u32) -> Book {
        Book { comm, uid, ..Book::default() }
    }

    /// Somebody has mapped the memory.
    pub(super) fn lend(&mut self, rings: &Arc<Rings>) {
        self.mappings.push(Arc::downgrade(rings));
        (self.ring_bytes, self.is_overwritten) = (rings.layout.ring_bytes, rings.is_overwritten());
        let layout = &rings.layout;
        self.bytes_at_most = match layout.kind {
            RingKind::Rseq => u64::from(layout.lane_count) * u64::from(layout.ring_bytes),
            // What its threads have claimed, and the pages before that.
            RingKind::Portable => layout.data_offset + 3 * u64::from(layout.ring_bytes) + PAGES_BEFORE,
        };
    }

    /// Whether somebody can write into the memory.
    pub(super) fn is_held(&self) -> bool {
        self.mappings.iter().any(|rings| rings.strong_count() > 0)
    }
}

/// Mapped ring memory. Forked children have it, too.
#[derive(Debug)]
pub(super) struct Rings {
    mapping: Mapping,
    pub layout: Layout,
    pub serial: u64,
}

impl Rings {
    pub(super) fn map(descriptor: &OwnedFd, layout: Layout, serial: u64) -> Rings {
        let mapping = Mapping::to_write(descriptor, layout.mem_bytes as usize).expect("the memory can be mapped");
        // ATTACH does not say whether rings are overwritten.
        // SAFETY: [spec/ring.md 3.1] the mapping is page aligned and has mem_bytes bytes.
        let (said, _) = unsafe { View::read_header(mapping.base(), layout.mem_bytes) }.expect("the collector's header");
        assert_eq!(Layout { marks_offset: 0, ..said }, layout, "ATTACH and the header differ");
        Rings { mapping, layout: said, serial }
    }

    pub(super) fn view(&self) -> View<'_> {
        // SAFETY: [spec/ring.md 3.1] the mapping has mem_bytes bytes and lives as long as this value.
        unsafe { View::new(self.mapping.base(), &self.layout) }.expect("the collector's layout")
    }

    /// Whether several programs write into them.
    pub(super) fn is_shared(&self) -> bool {
        self.view().header().flags.load(Ordering::Relaxed) & mem_flags::SHARED != 0
    }

    /// Whether what is old is overwritten.
    pub(super) fn is_overwritten(&self) -> bool {
        self.layout.marks_offset != 0
    }

    /// Writes a record into one of the first lanes; it is counted when the ring is full.
    pub(super) fn record(&self, wish: u32, id: u16, token: u64, now: u64, book: &mut Book) {
        let lane = match self.layout.kind {
            RingKind::Rseq => wish % (self.layout.lane_count - 1),
            RingKind::Portable => wish % 3,
        };
        self.record_in(lane, id, token, now, book);
    }

    /// Writes a record into this lane. False where the ring was full, which is counted.
    pub(super) fn record_in(&self, lane: u32, id: u16, token: u64, now: u64, book: &mut Book) -> bool {
        self.view().header().lanes_used.fetch_max(lane + 1, Ordering::Relaxed);
        let ring = &self.view().rings()[lane as usize];
        let head = Mark(ring.head.load(Ordering::Relaxed));
        let has_room = match self.is_overwritten() {
            true => self.make_room(lane, ring, head),
            false => {
                let used = head.since(Mark(ring.tail.load(Ordering::Acquire))).bytes;
                used + RECORD_BYTES.next_multiple_of(8) <= self.layout.ring_bytes
            }
        };
        if !has_room {
            ring.lost_full.fetch_add(1, Ordering::Relaxed);
            book.lost_full += 1;
            return false;
        }
        let word = head_word(id, now);
        let mut bytes = [0; RECORD_BYTES as usize];
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        bytes[12..].copy_from_slice(&token.to_le_bytes());
        for (number, byte) in bytes.into_iter().enumerate() {
            let index = head.0.wrapping_add(number as u64) as u32 & (self.layout.ring_bytes - 1);
            let offset = (self.layout.lane_offset(lane) + u64::from(index)) as usize;
            let at = self.mapping.base().as_ptr().wrapping_add(offset);
            // SAFETY: [spec/ring.md 3.1] the index is masked to the lane, which is mapped.
            unsafe { at.write_volatile(byte) };
        }
        ring.last.store(word, Ordering::Relaxed);
        ring.head.store(head.plus(Span { bytes: RECORD_BYTES, records: 1 }).0, Ordering::Release);
        book.published.entry(lane).or_default().push(token);
        if self.is_overwritten() {
            book.times.entry(lane).or_default().push(now);
        }
        true
    }

    /// Makes the kernel give memory to the first so many lanes.
    pub(super) fn touch(&self, lanes: u32) {
        for offset in (0..u64::from(lanes) * u64::from(self.layout.ring_bytes)).step_by(4096) {
            let at = self.mapping.base().as_ptr().wrapping_add((self.layout.lane_offset(0) + offset) as usize);
            // SAFETY: [spec/ring.md 3.1] lanes follow each other, and the offset lies in one of them, which is mapped.
            unsafe { at.write_volatile(at.read_volatile()) };
        }
    }

    /// Ids and numbers of the records in all rings, from which nothing was taken, in the order of the numbers.
    pub(super) fn contents(&self) -> Vec<(u16, u64)> {
        let mut records = Vec::new();
        for (lane, ring) in self.view().rings().iter().enumerate() {
            let head = Mark(ring.head.load(Ordering::Acquire));
            for record in 0..head.since(Mark(0)).bytes / RECORD_BYTES {
                let byte = |number: u32| {
                    let index = (record * RECORD_BYTES + number) & (self.layout.ring_bytes - 1);
                    let offset = (self.layout.lane_offset(lane as u32) + u64::from(index)) as usize;
                    let at = self.mapping.base().as_ptr().wrapping_add(offset);
                    // SAFETY: [spec/ring.md 3.1] the index is masked to the lane, which is mapped.
                    unsafe { at.read_volatile() }
                };
                let word = |at: u32| u64::from_le_bytes(std::array::from_fn(|number| byte(at + number as u32)));
                records.push((split_head(word(0)).0, word(12)));
            }
        }
        records.sort_by_key(|(_, number)| *number);
        records
    }

    /// Overwrite mode: gives up the oldest bytes, and a chunk more, where a record has no room.
    fn make_room(&self, lane: u32, ring: &RingBlock, head: Mark) -> bool {
        let (room, chunk_bytes) = (self.layout.ring_bytes - STORE_PAST, self.layout.ring_bytes / CHUNKS);
        let (at, tail) = (head.0 as u32, ring.tail.load(Ordering::Acquire) as u32);
        let least = at.wrapping_add(RECORD_BYTES).wrapping_sub(room);
        if least.wrapping_sub(tail) as i32 <= 0 {
            return true;
        }
        let wished = least.wrapping_add(chunk_bytes);
        let wished = if wished.wrapping_sub(at) as i32 > 0 { at } else { wished };
        let marks = &self.view().marks()[lane as usize].at;
        let (chunk, chunks) = (at / chunk_bytes, u32::MAX / chunk_bytes);
        for back in 0..MARKS as u32 {
            let mark = &marks[(chunk.wrapping_sub(back) % MARKS as u32) as usize];
            let seen = mark.load(Ordering::Acquire) as u32;
            if seen / chunk_bytes == chunk.wrapping_sub(back) & chunks {
                break;
            }
            mark.store(head.0, Ordering::Release);
        }
        ring.tail.store(wished.into(), Ordering::SeqCst);
        true
    }
}

/// A filter that a program was told.
#[derive(Clone, Debug)]
pub(super) struct ToldFilter {
    pub insns: Vec<Insn>,
    pub pool: Vec<u8>,
}

impl ToldFilter {
    /// Whether it selects the record with this number.
    pub(super) fn selects(&self, token: u64) -> bool {
        kymo_filter::run(&self.insns, &self.pool, &token.to_le_bytes())
    }
}

/// What a program records for a session: where to, which events, and which records of them.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    pub rings: Arc<Rings>,
    /// Ids by index.
    pub on: BTreeMap<u32, u16>,
    pub filters: BTreeMap<u32, ToldFilter>,
}
