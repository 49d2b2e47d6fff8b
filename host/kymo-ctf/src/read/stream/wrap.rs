// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times and counters of few bits, which wrap [spec/read.md 2, 4].

#[inline]
pub(super) fn low_mask(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// How far a counter of `bits` bits has come since it was `before`. It runs freely, so one of few bits wraps at its
/// width [spec/read.md 4]. `None` where it has gone back: a wrap over more than half of its range is not believed.
pub(super) fn counted(before: u64, now: u64, bits: u8) -> Option<u64> {
    let mask = low_mask(bits);
    let (before, now) = (before & mask, now & mask);
    let way = now.wrapping_sub(before) & mask;
    (now >= before || bits < 64 && way <= mask / 2).then_some(way)
}

/// The first time at or after `before` whose low `bits` are `low`.
#[inline]
pub(super) fn extended(before: u64, low: u64, bits: u8) -> u64 {
    let mask = low_mask(bits);
    let time = before & !mask | low & mask;
    if bits < 64 && time < before { time.wrapping_add(mask.wrapping_add(1)) } else { time }
}

/// The time of `bits` bits at which a packet begins: the first one at or after the last record, `before`, and after the
/// end of the packet before, where that has one. A step back from that end by at most half of the range of the bits
/// is no wrap: those packets overlap.
pub(super) fn goes_on(before: u64, previous_end: Option<u64>, low: u64, bits: u8) -> u64 {
    let begin = extended(before, low, bits);
    match previous_end {
        Some(end) if bits < 64 && begin < end && end - begin > low_mask(bits) / 2 => extended(end, low, bits),
        _ => begin,
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, extended, goes_on};

    #[test]
    fn packets_go_on_from_the_end_of_the_one_before() {
        for (before, end, low, bits, expect) in [
            (280, None, 638, 16, 638),
            (280, Some(65_816), 638, 16, 66_174),
            (280, Some(600), 638, 16, 638),
            // An end that lies behind the begin of the next packet.
            (280, Some(700), 638, 16, 638),
            (280, Some(638 + 0x7FFF), 638, 16, 638),
            (280, Some(638 + 0x8000), 638, 16, 0x1_0000 + 638),
            (280, Some(u64::MAX), 638, 64, 638),
            (280, Some(5 << 16), 638, 16, (5 << 16) + 638),
        ] {
            assert_eq!(goes_on(before, end, low, bits), expect, "{before} {end:?} {low} {bits}");
        }
    }

    #[test]
    fn counters_of_few_bits_wrap() {
        for (before, now, bits, expect) in [
            (0, 0, 8, Some(0)),
            (3, 250, 8, Some(247)),
            (250, 4, 8, Some(10)),
            (255, 0, 8, Some(1)),
            (200, 71, 8, Some(127)),
            (200, 72, 8, None),
            (9, 8, 8, None),
            (u32::MAX.into(), 6, 32, Some(7)),
            (u32::MAX.into(), 6, 64, None),
            (1 << 40, 5, 64, None),
            (u64::MAX, 0, 64, None),
            (1, 0, 1, None),
            (3, 0, 2, Some(1)),
            // Of integers with a sign, all bits of a word come.
            (0x7F, 0xFFFF_FFFF_FFFF_FF81, 8, Some(2)),
        ] {
            assert_eq!(counted(before, now, bits), expect, "{before} {now} {bits}");
        }
    }

    #[test]
    fn short_time_stamps_are_extended() {
        const WRAP: u64 = 1 << 48;
        for (before, low, bits, expect) in [
            (0, 0, 48, 0),
            (5, 5, 48, 5),
            (5, 4, 48, WRAP + 4),
            (WRAP * 7 + WRAP - 1, 0, 48, WRAP * 8),
            (WRAP * 7 + 9, WRAP - 1, 48, WRAP * 8 - 1),
            (u64::MAX, 0, 48, 0),
            (100, 7, 64, 7),
            (0xFFFF_FFFF, 0, 32, 0x1_0000_0000),
            (3, 0, 1, 4),
        ] {
            assert_eq!(extended(before, low, bits), expect, "{before} {low} {bits}");
        }
    }
}
