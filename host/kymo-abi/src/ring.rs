// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared memory of one program and one session [spec/ring.md 3]: sizes, words, and a view of a mapping.
//!
//! Nothing here maps or reads ring bytes; who does so brings a mapping and asks where things are.

use std::mem::{offset_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::{ABI_VERSION, Clock, Error, RingKind};

/// "KYMOMEM1", little endian.
pub const MEM_MAGIC: u64 = 0x314d_454d_4f4d_594b;
/// Longest record, header included.
pub const RECORD_MAX: u32 = 65_536;
/// Bytes of a record's header word.
pub const RECORD_HEADER: u32 = 8;
/// Bytes of the smallest record: header and thread id.
pub const RECORD_MIN: u32 = 12;
/// Smallest ring.
pub const RING_BYTES_MIN: u32 = 4096;
/// Largest ring.
pub const RING_BYTES_MAX: u32 = 1 << 30;
/// A writer stores up to so many bytes behind a record.
pub const STORE_PAST: u32 = 8;
/// The same of compact records [spec/ring.md 11].
pub const COMPACT_RECORD_MIN: u32 = 4;
/// Sessions that one program can serve at once.
pub const SLOTS: u32 = 16;
/// Bytes in front of the first control block.
pub const MEM_HEADER_BYTES: u32 = 4096;
/// What a record adds to the upper half of `head`.
pub const ONE_RECORD: u64 = 1 << 32;
/// Mask of the part of a clock value that a record holds.
pub const TIME_MASK: u64 = (1 << 48) - 1;

/// No record waits longer for room, nanoseconds.
pub const BLOCK_NS_MAX: u64 = 10_000_000_000;

/// First page of the memory (`struct kymo_mem`). The collector writes it before the program sees it, except
/// `lost_lane`, `lanes_used`, `block_agreed` and `block_waits`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of struct kymo_mem")]
pub struct MemHeader {
    pub magic: AtomicU64,
    pub abi: AtomicU32,
    pub kind: AtomicU32,
    pub clock: AtomicU32,
    pub lane_count: AtomicU32,
    pub ring_bytes: AtomicU32,
    pub rings_offset: AtomicU32,
    pub data_offset: AtomicU64,
    pub mem_bytes: AtomicU64,
    pub serial: AtomicU64,
    /// Records lost because no lane was free for the thread. Written by the program.
    pub lost_lane: AtomicU64,
    /// Portable: lanes at and above this were never claimed. Written by the program.
    pub lanes_used: AtomicU32,
    /// Offset of the marks of lane 0; 0 in discard mode.
    pub marks_offset: AtomicU32,
    /// Bits [`mem_flags`].
    pub flags: AtomicU32,
    /// Bits [`context`]: what stands behind a record's thread id.
    pub contexts: AtomicU32,
    /// Counters in `perf`.
    pub perf_count: AtomicU32,
    /// Portable: lanes at and above this must not be claimed; 0: all may.
    pub lanes_limit: AtomicU32,
    pub perf: [PerfCounter; PERF_MAX],
    /// With [`mem_flags::BLOCK`]: how long a record waits for room at most.
    pub block_ns: AtomicU64,
    /// Records that had to wait. Written by the program.
    pub block_waits: AtomicU64,
    /// Processes that wait. Written by the program.
    pub block_agreed: AtomicU32,
    /// 1: the program could not talk to the collector, and records no more. Written by the program.
    pub left: AtomicU32,
}

/// Bits of [`MemHeader::flags`].
pub mod mem_flags {
    /// Writers that have agreed wait for room.
    pub const BLOCK: u32 = 1;
    /// Several programs write into these rings.
    pub const SHARED: u32 = 2;
}

/// Bits of [`MemHeader::contexts`], in the order in which the contexts stand [spec/context.md].
pub mod context {
    /// u32: the process.
    pub const VPID: u32 = 1;
    /// i32: priority at the thread's first record.
    pub const PRIO: u32 = 2;
    /// i32: priority now, by a system call.
    pub const PRIO_NOW: u32 = 4;
    /// u64: number of the control group.
    pub const CGROUP: u32 = 8;
    /// 16 bytes, NUL padded.
    pub const PROCNAME: u32 = 16;
    /// u64 for each counter of the header.
    pub const PERF: u32 = 32;
    /// u16 count, then so many u64.
    pub const CALLSTACK: u32 = 64;
    /// No context: records are compact [spec/ring.md 11].
    pub const COMPACT: u32 = 1 << 30;
}

/// A counter as perf_event_open(2) knows it (`struct kymo_perf`).
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of struct kymo_perf")]
pub struct PerfCounter {
    pub r#type: AtomicU32,
    pub unused: AtomicU32,
    pub config: AtomicU64,
}

/// Counters that records can have.
pub const PERF_MAX: usize = 4;

/// What records have between thread id and payload, as the header of a memory says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Bits [`context`].
    pub bits: u32,
    /// `type` and `config` of each counter; at most [`PERF_MAX`].
    pub perf: Vec<(u32, u64)>,
}

/// What a collector notes for whoever finds the memory after its death, at [`NOTES_OFFSET`] of the header page. No
/// program reads or writes it [spec/session.md 6].
#[repr(C)]
pub struct Notes {
    /// The trace that the records belong to.
    pub uuid: [AtomicU64; 2],
    /// Process, as it sees itself.
    pub vpid: AtomicU64,
    /// Its name, NUL padded.
    pub procname: [AtomicU64; 2],
    /// Clock value when the memory was made: no record is older.
    pub made: AtomicU64,
    /// Clock value of the collector's newest look.
    pub alive: AtomicU64,
}

/// Where the notes stand.
pub const NOTES_OFFSET: usize = 1024;

/// Chunks that a ring in overwrite mode has [spec/ring.md 10].
pub const CHUNKS: u32 = 32;
/// Marks of one lane.
pub const MARKS: usize = 64;

/// Marks of one lane in overwrite mode (`struct kymo_marks`): values that head had.
#[repr(C)]
pub struct Marks {
    /// By chunk number modulo [`MARKS`].
    pub at: [AtomicU64; MARKS],
}

/// Thread and time at the mark of the same number, with compact records (`struct kymo_places`). The low half of each
/// word is that of its mark [spec/ring.md 11.4].
#[repr(C)]
pub struct Places {
    /// The thread in the upper half.
    pub thread: [AtomicU64; MARKS],
    /// The upper 24 of 48 bits of time.
    pub high: [AtomicU64; MARKS],
    /// The lower 24 bits.
    pub low: [AtomicU64; MARKS],
}

/// Thread and time at a tail (`struct kymo_cut`) [spec/ring.md 11.3].
#[repr(C)]
pub struct CutWords {
    /// As [`RingBlock::state`].
    pub state: AtomicU64,
    /// As [`RingBlock::last`].
    pub time: AtomicU64,
}

/// Control block of one lane (`struct kymo_ring`). Who writes which word: [spec/ring.md 4].
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of struct kymo_ring")]
pub struct RingBlock {
    pub head: AtomicU64,
    pub last: AtomicU64,
    pub tail: AtomicU64,
    pub lost_full: AtomicU64,
    pub lost_size: AtomicU64,
    pub lost_restart: AtomicU64,
    pub reserve: AtomicU64,
    pub unused_word: AtomicU32,
    pub owner: AtomicU32,
    pub told: AtomicU64,
    pub told_before: AtomicU64,
    pub told_at: AtomicU64,
    pub state: AtomicU64,
    pub cut: [CutWords; 2],
}

const _: () = {
    assert!(size_of::<MemHeader>() == 176);
    assert!(offset_of!(MemHeader, block_ns) == 152);
    assert!(offset_of!(MemHeader, block_waits) == 160);
    assert!(offset_of!(MemHeader, block_agreed) == 168);
    assert!(offset_of!(MemHeader, left) == 172);
    assert!(offset_of!(MemHeader, ring_bytes) == 24);
    assert!(offset_of!(MemHeader, data_offset) == 32);
    assert!(offset_of!(MemHeader, lost_lane) == 56);
    assert!(offset_of!(MemHeader, lanes_used) == 64);
    assert!(offset_of!(MemHeader, marks_offset) == 68);
    assert!(offset_of!(MemHeader, flags) == 72);
    assert!(offset_of!(MemHeader, contexts) == 76);
    assert!(offset_of!(MemHeader, lanes_limit) == 84);
    assert!(offset_of!(MemHeader, perf) == 88);
    assert!(size_of::<PerfCounter>() == 16);
    assert!(size_of::<Marks>() == 512);
    assert!(NOTES_OFFSET + size_of::<Notes>() <= MEM_HEADER_BYTES as usize);
    assert!(size_of::<RingBlock>() == 128);
    assert!(offset_of!(RingBlock, last) == 8);
    assert!(offset_of!(RingBlock, tail) == 16);
    assert!(offset_of!(RingBlock, lost_full) == 24);
    assert!(offset_of!(RingBlock, lost_restart) == 40);
    assert!(offset_of!(RingBlock, reserve) == 48);
    assert!(offset_of!(RingBlock, owner) == 60);
    assert!(offset_of!(RingBlock, told) == 64);
    assert!(offset_of!(RingBlock, told_before) == 72);
    assert!(offset_of!(RingBlock, told_at) == 80);
    assert!(offset_of!(RingBlock, state) == 88);
    assert!(offset_of!(RingBlock, cut) == 96);
    assert!(size_of::<Places>() == 1536);
};

/// A value of `head` or `tail`: bytes in the low half, records in the upper, modulo 2^64 [spec/ring.md 3.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

impl Mark {
    /// What lies between `older` and this one, if there are less than 2^32 bytes.
    pub fn since(self, older: Mark) -> Span {
        let difference = self.0.wrapping_sub(older.0);
        Span { bytes: difference as u32, records: (difference >> 32) as u32 }
    }

    /// This mark moved on by `span`.
    pub fn plus(self, span: Span) -> Mark {
        Mark(self.0.wrapping_add(u64::from(span.bytes)).wrapping_add(u64::from(span.records) << 32))
    }

    /// Byte index in a ring of `ring_bytes`, a power of two.
    pub fn index(self, ring_bytes: u32) -> u32 {
        self.0 as u32 & (ring_bytes - 1)
    }
}

/// Bytes and records between two marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Bytes of whole records.
    pub bytes: u32,
    /// Number of records.
    pub records: u32,
}

impl Span {
    /// Whether a program that keeps to the rules can have published this in a ring of `ring_bytes` [spec/ring.md 4].
    pub fn is_plausible(self, ring_bytes: u32) -> bool {
        self.is_plausible_of(RECORD_MIN, ring_bytes)
    }

    /// The same, of records that have at least `record_min` bytes.
    fn is_plausible_of(self, record_min: u32, ring_bytes: u32) -> bool {
        let (bytes, records) = (u64::from(self.bytes), u64::from(self.records));
        self.bytes <= ring_bytes && records * u64::from(record_min) <= bytes && bytes <= records * u64::from(RECORD_MAX)
    }
}

/// Numbers that describe a memory: those of `struct kymo_mem` and of the ATTACH message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How the rings are written.
    pub kind: RingKind,
    /// What the time stamps count.
    pub clock: Clock,
    /// Lanes, the spill lane included.
    pub lane_count: u32,
    /// Bytes of each lane's ring, a power of two.
    pub ring_bytes: u32,
    /// Offset of the first control block.
    pub rings_offset: u32,
    /// Offset of the marks of lane 0, a multiple of 128; 0 in discard mode. Not in the ATTACH message: the header says
    /// it.
    pub marks_offset: u32,
    /// Offset of the bytes of lane 0; a multiple of 4096.
    pub data_offset: u64,
    /// Bytes of the whole memory.
    pub mem_bytes: u64,
    /// Records are compact [spec/ring.md 11]. Not in the ATTACH message: the header says it.
    pub is_compact: bool,
}

impl Layout {
    /// The layout of a memory with `lane_count` lanes of `ring_bytes` each, for a page size of at most `page_bytes`.
    pub fn new(
        kind: RingKind,
        clock: Clock,
        lane_count: u32,
        ring_bytes: u32,
        page_bytes: u32,
    ) -> Result<Layout, Error> {
        let layout = Layout {
            kind,
            clock,
            lane_count,
            ring_bytes,
            rings_offset: MEM_HEADER_BYTES,
            marks_offset: 0,
            data_offset: 0,
            mem_bytes: 0,
            is_compact: false,
        };
        layout.with_data_at(layout.control_end(), page_bytes)
    }

    /// The same memory with compact records; before [`Self::overwriting`].
    pub fn compact(self, is_compact: bool) -> Layout {
        Layout { is_compact, ..self }
    }

    /// Whether a program that keeps to the rules can have published `span` in a ring of `ring_bytes`.
    pub fn is_plausible(&self, span: Span, ring_bytes: u32) -> bool {
        span.is_plausible_of(if self.is_compact { COMPACT_RECORD_MIN } else { RECORD_MIN }, ring_bytes)
    }

    /// The same memory in overwrite mode.
    pub fn overwriting(mut self, page_bytes: u32) -> Result<Layout, Error> {
        let rings_end = self.rings_end();
        self.marks_offset =
            u32::try_from(rings_end).map_err(|_| Error::Layout { what: "marks_offset", value: rings_end })?;
        self.with_data_at(self.control_end(), page_bytes)
    }

    fn with_data_at(mut self, control_end: u64, page_bytes: u32) -> Result<Layout, Error> {
        let page = u64::from(page_bytes.max(4096)).next_power_of_two();
        self.data_offset = control_end.next_multiple_of(page);
        self.mem_bytes = self.data_offset + u64::from(self.lane_count) * u64::from(self.ring_bytes);
        self.check()?;
        Ok(self)
    }

    fn rings_end(&self) -> u64 {
        u64::from(self.rings_offset) + u64::from(self.lane_count) * size_of::<RingBlock>() as u64
    }

    /// Where the places stand that compact records have beside the marks.
    fn places_offset(&self) -> u64 {
        u64::from(self.marks_offset) + u64::from(self.lane_count) * size_of::<Marks>() as u64
    }

    /// The end of control blocks and marks.
    fn control_end(&self) -> u64 {
        match self.marks_offset {
            0 => self.rings_end(),
            _ => {
                let of_lane = if self.is_compact { size_of::<Places>() } else { 0 };
                self.places_offset() + u64::from(self.lane_count) * of_lane as u64
            }
        }
    }

    /// What tail is at the start of overwrite mode: the first mark is left at the end of the first chunk.
    pub fn first_tail(&self) -> u64 {
        u64::from((self.ring_bytes / CHUNKS).wrapping_sub(self.ring_bytes - STORE_PAST))
    }

    /// Whether the numbers fit each other.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |what, value| Err(Error::Layout { what, value });
        if self.lane_count == 0 || self.lane_count > 1 << 20 {
            return bad("lane_count", self.lane_count.into());
        }
        if !self.ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&self.ring_bytes) {
            return bad("ring_bytes", self.ring_bytes.into());
        }
        if self.rings_offset < size_of::<MemHeader>() as u32 || self.rings_offset % 128 != 0 {
            return bad("rings_offset", self.rings_offset.into());
        }
        let marks_fit = self.marks_offset == 0
            || (u64::from(self.marks_offset) >= self.rings_end() && self.marks_offset % 128 == 0);
        if !marks_fit {
            return bad("marks_offset", self.marks_offset.into());
        }
        if self.data_offset < self.control_end() || self.data_offset % 4096 != 0 || self.data_offset > 1 << 40 {
            return bad("data_offset", self.data_offset);
        }
        if self.mem_bytes != self.data_offset + u64::from(self.lane_count) * u64::from(self.ring_bytes) {
            return bad("mem_bytes", self.mem_bytes);
        }
        Ok(())
    }

    /// Offset of the bytes of `lane`.
    pub fn lane_offset(&self, lane: u32) -> u64 {
        self.data_offset + u64::from(lane) * u64::from(self.ring_bytes)
    }
}

/// The words of a mapped memory. The ring bytes are not touched.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a MemHeader,
    rings: &'a [RingBlock],
    marks: &'a [Marks],
    places: &'a [Places],
    notes: &'a Notes,
}

impl<'a> View<'a> {
    /// A view of the memory that begins at `base`. `layout` is the caller's own, never one that was read from the
    /// memory.
    ///
    /// # Safety
    /// `base` begins a mapping, aligned to 4096, readable and writable for `'a` and at least `layout.data_offset`
    /// bytes long, which cannot shrink. Others may write to it at any time, as atomics allow.
    pub unsafe fn new(base: NonNull<u8>, layout: &Layout) -> Result<View<'a>, Error> {
        layout.check()?;
        let header = base.cast::<MemHeader>();
        let rings = base.as_ptr().wrapping_add(layout.rings_offset as usize).cast::<RingBlock>();
        // SAFETY: [spec/ring.md 3.1] the caller's mapping covers header and blocks, `check` put the blocks below
        // data_offset at a multiple of 128, and both types consist of atomics, for which every bit pattern is valid.
        let (header, rings) =
            unsafe { (header.as_ref(), std::slice::from_raw_parts(rings, layout.lane_count as usize)) };
        let marks = base.as_ptr().wrapping_add(layout.marks_offset as usize).cast::<Marks>();
        let marks_count = if layout.marks_offset == 0 { 0 } else { layout.lane_count as usize };
        // SAFETY: as above; `check` put the marks behind the blocks and below data_offset.
        let marks = unsafe { std::slice::from_raw_parts(marks, marks_count) };
        let places = base.as_ptr().wrapping_add(layout.places_offset() as usize).cast::<Places>();
        let places_count = if layout.is_compact { marks_count } else { 0 };
        let places = match places_count {
            0 => &[][..],
            // SAFETY: as above; `check` put their end, which follows the marks, below data_offset.
            count => unsafe { std::slice::from_raw_parts(places, count) },
        };
        let notes = base.as_ptr().wrapping_add(NOTES_OFFSET).cast::<Notes>();
        // SAFETY: as above; the notes lie within the header page, below the blocks, at a multiple of 8.
        let notes = unsafe { &*notes };
        Ok(View { header, rings, marks, places, notes })
    }

    /// The collector's own notes.
    pub fn notes(&self) -> &'a Notes {
        self.notes
    }

    /// Marks by lane; empty in discard mode.
    pub fn marks(&self) -> &'a [Marks] {
        self.marks
    }

    /// Places beside the marks, by lane; empty in discard mode, and where records are not compact.
    pub fn places(&self) -> &'a [Places] {
        self.places
    }

    /// The first page's words.
    pub fn header(&self) -> &'a MemHeader {
        self.header
    }

    /// Control blocks, by lane.
    pub fn rings(&self) -> &'a [RingBlock] {
        self.rings
    }

    /// The layout and serial that the header tells of, if they fit each other and `bytes`, the size of the memory.
    ///
    /// For a memory that was found, whose writers are gone. `base` begins its header page.
    ///
    /// # Safety
    /// `base` begins a readable mapping of [`MEM_HEADER_BYTES`] at least, aligned to 8.
    pub unsafe fn read_header(base: NonNull<u8>, bytes: u64) -> Result<(Layout, u64), Error> {
        use std::sync::atomic::Ordering::Relaxed;
        // SAFETY: the caller's mapping covers the header, which consists of atomics.
        let header = unsafe { base.cast::<MemHeader>().as_ref() };
        let bad = |what, value| Err(Error::Layout { what, value });
        if header.magic.load(Relaxed) != MEM_MAGIC {
            return bad("magic", header.magic.load(Relaxed));
        }
        if header.abi.load(Relaxed) != ABI_VERSION {
            return bad("abi", header.abi.load(Relaxed).into());
        }
        let (kind, clock) = (header.kind.load(Relaxed), header.clock.load(Relaxed));
        let layout = Layout {
            kind: RingKind::from_code(kind).ok_or(Error::Layout { what: "kind", value: kind.into() })?,
            clock: Clock::from_code(clock).ok_or(Error::Layout { what: "clock", value: clock.into() })?,
            lane_count: header.lane_count.load(Relaxed),
            ring_bytes: header.ring_bytes.load(Relaxed),
            rings_offset: header.rings_offset.load(Relaxed),
            marks_offset: header.marks_offset.load(Relaxed),
            data_offset: header.data_offset.load(Relaxed),
            mem_bytes: header.mem_bytes.load(Relaxed),
            is_compact: header.contexts.load(Relaxed) & context::COMPACT != 0,
        };
        layout.check()?;
        if layout.mem_bytes != bytes || layout.rings_offset < MEM_HEADER_BYTES {
            return bad("mem_bytes", layout.mem_bytes);
        }
        Ok((layout, header.serial.load(Relaxed)))
    }

    /// Says in the header that several programs write into these rings.
    pub fn share(&self) {
        self.header.flags.fetch_or(mem_flags::SHARED, std::sync::atomic::Ordering::Relaxed);
    }

    /// Writes into the header what records have besides thread id and payload, before a program sees it.
    pub fn write_contexts(&self, contexts: &Contexts) {
        use std::sync::atomic::Ordering::Relaxed;
        let header = self.header;
        header.contexts.store(contexts.bits, Relaxed);
        header.perf_count.store(contexts.perf.len().min(PERF_MAX) as u32, Relaxed);
        for (to, (kind, config)) in header.perf.iter().zip(&contexts.perf) {
            to.r#type.store(*kind, Relaxed);
            to.config.store(*config, Relaxed);
        }
    }

    /// Writes the header of a new memory, before a program sees it.
    pub fn write_header(&self, layout: &Layout, serial: u64) {
        use std::sync::atomic::Ordering::Relaxed;
        let header = self.header;
        header.abi.store(ABI_VERSION, Relaxed);
        header.kind.store(layout.kind.code(), Relaxed);
        header.clock.store(layout.clock.code(), Relaxed);
        header.lane_count.store(layout.lane_count, Relaxed);
        header.ring_bytes.store(layout.ring_bytes, Relaxed);
        header.rings_offset.store(layout.rings_offset, Relaxed);
        header.data_offset.store(layout.data_offset, Relaxed);
        header.mem_bytes.store(layout.mem_bytes, Relaxed);
        header.serial.store(serial, Relaxed);
        header.marks_offset.store(layout.marks_offset, Relaxed);
        if layout.marks_offset != 0 {
            for ring in self.rings {
                ring.tail.store(layout.first_tail(), Relaxed);
            }
        }
        header.magic.store(MEM_MAGIC, Relaxed);
    }

    /// Writers that have agreed wait for room, each record for `nanoseconds` at most; before a program sees the memory.
    pub fn let_writers_wait(&self, nanoseconds: u64) {
        use std::sync::atomic::Ordering::Relaxed;
        self.header.block_ns.store(nanoseconds.min(BLOCK_NS_MAX), Relaxed);
        self.header.flags.fetch_or(mem_flags::BLOCK, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_places_data_on_a_page() {
        let layout = Layout::new(RingKind::Rseq, Clock::Tsc, 33, 65_536, 4096).unwrap();
        assert_eq!(layout.data_offset, 12_288);
        assert_eq!(layout.mem_bytes, 12_288 + 33 * 65_536);
        assert!(Layout::new(RingKind::Rseq, Clock::Tsc, 1, 65_537, 4096).is_err());
        assert!(Layout::new(RingKind::Rseq, Clock::Tsc, 0, 65_536, 4096).is_err());
        assert!(Layout::new(RingKind::Rseq, Clock::Tsc, 1, 2048, 4096).is_err());
    }

    proptest! {
        #[test]
        fn marks_differ_by_what_was_added(start: u64, bytes in 0u32..=RING_BYTES_MAX, records in 0u32..1 << 27) {
            let span = Span { bytes, records };
            prop_assert_eq!(Mark(start).plus(span).since(Mark(start)), span);
        }

        #[test]
        fn a_head_that_goes_back_is_not_plausible(start: u64, bytes in 1u32..=RING_BYTES_MAX, records in 1u32..1 << 27) {
            let later = Mark(start).plus(Span { bytes, records });
            prop_assert!(!Mark(start).since(later).is_plausible(RING_BYTES_MAX));
        }

        #[test]
        fn any_numbers_are_checked_without_panic(lane_count: u32, ring_bytes: u32, rings_offset: u32, marks_offset: u32, data_offset: u64, mem_bytes: u64, is_compact: bool) {
            let _ = Layout { kind: RingKind::Rseq, clock: Clock::Tsc, lane_count, ring_bytes, rings_offset, marks_offset, data_offset, mem_bytes, is_compact }.check();
        }
    }
}
