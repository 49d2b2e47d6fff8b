// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of a record: 8 bytes, `u16 event id | u48 time`, little endian [spec/ring.md 3.3].
//!
//! The same in rings, in traces, in logs of POSIX Trace and in frames of small targets. What follows it is not known
//! here.

/// The head's bytes. Of the time they have the low 48 bits ([`crate::ring::TIME_MASK`]).
#[inline]
pub const fn record_head(id: u16, time: u64) -> [u8; 8] {
    head_word(id, time).to_le_bytes()
}

/// The head as one word, as a lane's `last` has it.
#[inline]
pub const fn head_word(id: u16, time: u64) -> u64 {
    time << 16 | id as u64
}

/// The event id and the low 48 bits of the time in the word of a head.
#[inline]
pub const fn split_head(word: u64) -> (u16, u64) {
    (word as u16, word >> 16)
}

/// The id of thread records, which stand in front of others among compact records [spec/ring.md 11.1].
pub const THREAD_RECORD_ID: u16 = 0xffff;
/// Bytes of the longest header of a compact record.
pub const COMPACT_HEAD_MAX: usize = 9;
/// The 5 bits of an extended header.
const EXTENDED: u32 = 31;
/// The largest id of a short header.
const SHORT_ID_MAX: u32 = 29;
/// Bits of a short time stamp.
const SHORT_TIME_BITS: u32 = 27;

/// The header of a compact record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactHead {
    /// The event.
    pub id: u16,
    /// The low 48 bits of its time.
    pub time: u64,
    /// Bytes of the header. The thread is behind that of a thread record.
    pub bytes: usize,
    /// The header has all of these 48 bits itself.
    pub is_extended: bool,
}

/// The header in the first 9 bytes of a compact record, behind one at `before` (48 bits). Bytes that are not there may
/// be 0. `None` where there is no such header.
#[inline]
pub fn compact_head(bytes: [u8; COMPACT_HEAD_MAX], before: u64) -> Option<CompactHead> {
    let [a, rest @ ..] = bytes;
    let word = u32::from_le_bytes([a, rest[0], rest[1], rest[2]]);
    match word % 32 {
        EXTENDED => {
            let (id, time) = split_head(u64::from_le_bytes(rest));
            (id != 0).then_some(CompactHead { id, time, bytes: COMPACT_HEAD_MAX, is_extended: true })
        }
        id @ 1..=SHORT_ID_MAX => {
            let ahead = u64::from(word >> 5).wrapping_sub(before) & ((1 << SHORT_TIME_BITS) - 1);
            let time = before.wrapping_add(ahead) & crate::ring::TIME_MASK;
            Some(CompactHead { id: id as u16, time, bytes: 4, is_extended: false })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_headers_count_from_the_record_in_front() {
        let check = |bytes: &[u8], before, expect: Option<(u16, u64, usize)>| {
            let whole = std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0));
            let found = compact_head(whole, before).map(|head| (head.id, head.time, head.bytes));
            assert_eq!(found, expect, "{bytes:x?} behind {before:#x}");
        };
        let short = |id: u32, time: u32| (id | time << 5).to_le_bytes();
        let wrap = 1u64 << 27;
        check(&short(1, 5), 5, Some((1, 5, 4)));
        check(&short(29, 4), 5, Some((29, wrap + 4, 4)));
        check(&short(29, 6), 7 * wrap + 5, Some((29, 7 * wrap + 6, 4)));
        check(&short(2, 3), crate::ring::TIME_MASK, Some((2, 3, 4)));
        check(&short(0, 9), 0, None);
        check(&short(30, 9), 0, None);
        let extended = |id, time| [[31].as_slice(), &record_head(id, time)].concat();
        check(&extended(300, 77), 1 << 40, Some((300, 77, 9)));
        check(&extended(THREAD_RECORD_ID, 77), 0, Some((THREAD_RECORD_ID, 77, 9)));
        check(&extended(0, 77), 0, None);
    }

    #[test]
    fn the_id_first_then_48_bits_of_time() {
        let check = |id, time, expect| {
            assert_eq!(record_head(id, time), expect, "{id} {time:#x}");
            let word = u64::from_le_bytes(expect);
            assert_eq!(head_word(id, time), word, "{id} {time:#x}");
            assert_eq!(split_head(word), (id, time & crate::ring::TIME_MASK), "{word:#x}");
        };
        check(0, 0, [0; 8]);
        check(0x0201, 0x0807_0605_0403, [1, 2, 3, 4, 5, 6, 7, 8]);
        check(u16::MAX, 0, [0xff, 0xff, 0, 0, 0, 0, 0, 0]);
        check(1, u64::MAX, [1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        check(1, 1 << 48, [1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
