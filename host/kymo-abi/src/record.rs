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

#[cfg(test)]
mod tests {
    use super::*;

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
