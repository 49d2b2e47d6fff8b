// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a perf ring as records. Sizes are checked: what does not fit is skipped and counted.

/// The kernel's types of records.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
/// `misc` of a map: it has a build id in place of device and inode.
const MISC_BUILD_ID: u16 = 1 << 14;
/// Addresses from here on are none: they say whose the next ones are.
const CONTEXT_MIN: u64 = u64::MAX - 4094;
/// Bytes behind a record that is no sample: pid, tid, time, CPU.
const TRAILER: usize = 24;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub pid: i32,
    pub tid: i32,
    /// Where it was.
    pub ip: u64,
    /// In the clock that the event was opened with.
    pub time_ns: u64,
    /// Of the CPU's time since the sample before, ns.
    pub period: u64,
    /// Addresses, the innermost first, with marks between them.
    pub chain: &'a [u8],
}

impl Sample<'_> {
    /// The addresses without the marks.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let words = self.chain.chunks_exact(8).map(|word| number(word, 0));
        words.filter(|word| *word < CONTEXT_MIN)
    }
}

/// A process maps code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Map<'a> {
    pub pid: i32,
    pub start: u64,
    pub bytes: u64,
    /// In the file, bytes.
    pub offset: u64,
    pub inode: u64,
    pub path: &'a [u8],
    pub build_id: &'a [u8],
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PerfRecord<'a> {
    Sample(Sample<'a>),
    /// A map, and its time.
    Map(Map<'a>, u64),
    /// So many records did not fit into the ring.
    Lost(u64),
    /// Anything else.
    Other,
    /// It makes no sense.
    Damaged,
}

/// The records of whole bytes of a ring.
pub(super) struct Records<'a>(pub &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = PerfRecord<'a>;

    fn next(&mut self) -> Option<PerfRecord<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let size = self.0.get(6..8).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
        if size < 8 || size > self.0.len() {
            self.0 = &[];
            return Some(PerfRecord::Damaged);
        }
        let (record, rest) = self.0.split_at(size);
        self.0 = rest;
        let kind = half(record, 0);
        let misc = u16::from_le_bytes([record[4], record[5]]);
        Some(parse(kind, misc, &record[8..]).unwrap_or(PerfRecord::Damaged))
    }
}

fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<PerfRecord<'_>> {
    match kind {
        SAMPLE => sample(body).map(PerfRecord::Sample),
        MMAP2 => map(misc, body),
        // An id is in front of the count.
        LOST => body.get(..16).map(|body| PerfRecord::Lost(number(body, 8))),
        LOST_SAMPLES => body.get(..8).map(|body| PerfRecord::Lost(number(body, 0))),
        _ => Some(PerfRecord::Other),
    }
}

/// `ip`, `pid tid`, `time`, `cpu -`, `period`, count and addresses: in the order of the bits that were asked for.
fn sample(body: &[u8]) -> Option<Sample<'_>> {
    let fixed = body.get(..48)?;
    let count = usize::try_from(number(fixed, 40)).ok()?;
    let chain = body.get(48..count.checked_mul(8)?.checked_add(48)?)?;
    Some(Sample {
        ip: number(fixed, 0),
        pid: half(fixed, 8) as i32,
        tid: half(fixed, 12) as i32,
        time_ns: number(fixed, 16),
        period: number(fixed, 32),
        chain,
    })
}

/// `pid tid`, address, length, offset, 24 bytes of build id or device and inode, protection, flags, path.
fn map(misc: u16, body: &[u8]) -> Option<PerfRecord<'_>> {
    let end = body.len().checked_sub(TRAILER)?;
    let (fixed, trailer) = (body.get(..64)?, &body[end..]);
    let path = body.get(64..end)?;
    let path = &path[..path.iter().position(|&byte| byte == 0).unwrap_or(path.len())];
    let has_build_id = misc & MISC_BUILD_ID != 0;
    let build_id = match has_build_id {
        true => fixed.get(36..36 + usize::from(fixed[32]).min(20))?,
        false => &[],
    };
    let map = Map {
        pid: half(fixed, 0) as i32,
        start: number(fixed, 8),
        bytes: number(fixed, 16),
        offset: number(fixed, 24),
        inode: if has_build_id { 0 } else { number(fixed, 40) },
        path,
        build_id,
    };
    Some(PerfRecord::Map(map, number(trailer, 8)))
}

/// 8 bytes; the caller has checked that they are there.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// 4 bytes.
fn half(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().copied().map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = (body.len() + 8) as u16;
        [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn samples_have_their_addresses_without_marks() {
        let tids = 7 | 8 << 32;
        let chain = [CONTEXT_MIN + 10, 0xffff_ffff_8100_0000, u64::MAX - 511, 0x1000, 0x2000];
        let bytes = record(SAMPLE, 2, &[words(&[0x1000, tids, 99, 3, 1_000_000, 5]), words(&chain)].concat());
        let mut records = Records(&bytes);
        let Some(PerfRecord::Sample(sample)) = records.next() else { panic!("no sample") };
        assert_eq!((sample.pid, sample.tid, sample.ip), (7, 8, 0x1000));
        assert_eq!((sample.time_ns, sample.period), (99, 1_000_000));
        assert_eq!(sample.addresses().collect::<Vec<_>>(), [0xffff_ffff_8100_0000, 0x1000, 0x2000]);
        assert_eq!(records.next(), None);
    }

    #[test]
    fn maps_have_a_build_id_or_an_inode() {
        let front = words(&[5 | 5 << 32, 0x40_0000, 0x2000, 0x1000]);
        let behind = [&[5u8, 0, 0, 0, 2, 0, 0, 0][..], b"/bin/x\0\0", &words(&[5 | 5 << 32, 77, 1])].concat();
        let with_id = [&[20u8, 0, 0, 0][..], &[9; 20]].concat();
        for (misc, middle, inode, id) in [(MISC_BUILD_ID, with_id, 0, 20), (0, words(&[1 | 2 << 32, 42, 0]), 42, 0)] {
            let bytes = record(MMAP2, misc, &[front.clone(), middle, behind.clone()].concat());
            let Some(PerfRecord::Map(map, time)) = Records(&bytes).next() else { panic!("no map") };
            assert_eq!((map.pid, map.start, map.bytes, map.offset), (5, 0x40_0000, 0x2000, 0x1000));
            assert_eq!((map.path, map.inode, map.build_id.len(), time), (&b"/bin/x"[..], inode, id, 77));
        }
    }

    #[test]
    fn losses_are_counted_and_damage_ends_the_bytes() {
        let lost = [record(LOST, 0, &words(&[1, 5, 0, 0, 0])), record(LOST_SAMPLES, 0, &words(&[3, 0, 0, 0]))].concat();
        assert_eq!(Records(&lost).collect::<Vec<_>>(), [PerfRecord::Lost(5), PerfRecord::Lost(3)]);
        assert_eq!(Records(&record(3, 0, &[0; 16])).collect::<Vec<_>>(), [PerfRecord::Other]);
        let chain_too_long = record(SAMPLE, 0, &words(&[1, 2, 3, 4, 5, u64::MAX]));
        for bytes in [&[9u8, 0, 0][..], &[9, 0, 0, 0, 0, 0, 4, 0], &[9, 0, 0, 0, 0, 0, 200, 0], &chain_too_long] {
            assert_eq!(Records(bytes).collect::<Vec<_>>(), [PerfRecord::Damaged], "{bytes:?}");
        }
        for length in 0..80 {
            let _no_panic: Vec<_> = Records(&record(MMAP2, MISC_BUILD_ID, &vec![0xff; length])).collect();
            let _no_panic: Vec<_> = Records(&record(SAMPLE, 0, &vec![0; length])).collect();
        }
    }
}
