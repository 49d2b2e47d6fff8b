// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers as few bits [spec/index.md 5.2, 5.3]. Whatever the bits, taking them ends, with a value or without.

/// Bits that are read in one step at least, wherever they begin.
const STEP: u32 = 57;

/// Bits of [`BitPut::order`].
const ORDER_BITS: u32 = 6;

/// How many bits a value of `0..=most` takes.
pub(crate) fn width(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

/// Puts values one behind the other, the lowest bit first.
#[derive(Debug, Default)]
pub(crate) struct BitPut {
    bytes: Vec<u8>,
    /// Bits that are no whole word yet, and how many: fewer than 64.
    last: u64,
    used: u32,
}

impl BitPut {
    /// A value of so many bits.
    #[inline]
    pub fn bits(&mut self, value: u64, width: u32) {
        debug_assert!(width == 64 || value >> width == 0, "{value} has more than {width} bits");
        self.last |= value << self.used;
        let all = self.used + width;
        if all < u64::BITS {
            self.used = all;
            return;
        }
        self.bytes.extend_from_slice(&self.last.to_le_bytes());
        let rest = all - u64::BITS;
        self.last = if rest == 0 { 0 } else { value >> (width - rest) };
        self.used = rest;
    }

    #[inline]
    pub fn flag(&mut self, is_set: bool) {
        self.bits(is_set.into(), 1);
    }

    /// An exponential Golomb code: values below 2 to the power of `small` have one bit more than that, and two more for
    /// each doubling.
    #[inline]
    pub fn number(&mut self, value: u64, small: u32) {
        // No value has all bits set but where `small` is 0, which nobody asks of large ones.
        let above = (value >> small).saturating_add(1);
        let more = above.ilog2();
        let low = value & ((1 << small) - 1);
        if 2 * more + 1 + small <= STEP {
            let high = above & ((1 << more) - 1);
            self.bits(((low << more | high) << 1 | 1) << more, 2 * more + 1 + small);
            return;
        }
        self.bits(0, more);
        self.bits(1, 1);
        self.bits(above & ((1 << more) - 1), more);
        self.bits(low, small);
    }

    /// Small ones of either sign are short.
    #[inline]
    pub fn signed(&mut self, value: i64, small: u32) {
        self.number((value << 1 ^ value >> 63) as u64, small);
    }

    /// Of numbers with this sum: what is to be `small` for them.
    pub fn order(&mut self, sum: u64, count: usize) -> u32 {
        let order = (sum / (count as u64).max(1)).max(1).ilog2();
        self.bits(order.into(), ORDER_BITS);
        order
    }

    /// Ends with a whole byte. All of it is handed over.
    pub fn finish(&mut self, to: &mut Vec<u8>) {
        to.append(&mut self.bytes);
        let bytes = self.used.div_ceil(8) as usize;
        to.extend_from_slice(&self.last.to_le_bytes()[..bytes]);
        (self.last, self.used) = (0, 0);
    }

    /// Bytes by now.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.used.div_ceil(8) as usize
    }
}

/// Takes them again. `None` where they are not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitTake<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
}

impl<'a> BitTake<'a> {
    pub fn new(bytes: &'a [u8]) -> BitTake<'a> {
        BitTake { bytes, at: 0 }
    }

    /// At least [`STEP`] bits; behind the end they are 0.
    #[inline]
    fn peek(&self) -> u64 {
        let begin = self.at / 8;
        let word = match self.bytes.get(begin..begin + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or_default()),
            None => self.peek_last(begin),
        };
        word >> (self.at % 8)
    }

    #[cold]
    fn peek_last(&self, begin: usize) -> u64 {
        let mut word = [0; 8];
        let rest = self.bytes.get(begin..).unwrap_or_default();
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    }

    #[inline]
    fn pass(&mut self, bits: u32) -> Option<()> {
        self.at += bits as usize;
        (self.at <= 8 * self.bytes.len()).then_some(())
    }

    /// As [`BitPut::bits`].
    #[inline]
    pub fn bits(&mut self, width: u32) -> Option<u64> {
        if width <= STEP {
            let value = self.peek() & ((1 << width) - 1);
            self.pass(width)?;
            return Some(value);
        }
        let low = self.bits(32)?;
        Some(self.bits(width - 32)? << 32 | low)
    }

    #[inline]
    pub fn flag(&mut self) -> Option<bool> {
        self.bits(1).map(|bit| bit == 1)
    }

    /// As [`BitPut::number`]. More than 64 bits are none.
    #[inline]
    pub fn number(&mut self, small: u32) -> Option<u64> {
        let word = self.peek();
        let more = word.trailing_zeros();
        let all = 2 * more + 1 + small;
        if all <= STEP {
            self.pass(all)?;
            let rest = word >> more >> 1;
            let high = rest & ((1 << more) - 1);
            let low = rest >> more & ((1 << small) - 1);
            return Some(((1 << more | high) - 1) << small | low);
        }
        self.long_number(small)
    }

    #[cold]
    fn long_number(&mut self, small: u32) -> Option<u64> {
        let mut more = 0;
        while !self.flag()? {
            more += 1;
        }
        if more >= u64::BITS {
            return None;
        }
        let above = (1 << more | self.bits(more)?) - 1;
        let low = self.bits(small)?;
        (above << small >> small == above).then_some(above << small | low)
    }

    /// As [`BitPut::signed`].
    #[inline]
    pub fn signed(&mut self, small: u32) -> Option<i64> {
        let value = self.number(small)?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A number that fits.
    pub fn small<T: TryFrom<u64>>(&mut self, small: u32) -> Option<T> {
        T::try_from(self.number(small)?).ok()
    }

    /// As [`BitPut::order`].
    pub fn order(&mut self) -> Option<u32> {
        self.bits(ORDER_BITS).map(|order| order as u32)
    }

    /// Bits that are left.
    pub fn left(&self) -> usize {
        (8 * self.bytes.len()).saturating_sub(self.at)
    }

    /// How many things follow, of which each has a bit at least.
    pub fn count(&mut self, small: u32) -> Option<usize> {
        self.small::<usize>(small).filter(|count| *count <= self.left())
    }

    /// Whether nothing is left but what makes the last byte whole.
    pub fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && self.peek() == 0
    }
}

#[cfg(test)]
mod tests {
    use kymo_testing::Random;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        let mut random = Random::new("bits", 1);
        for _ in 0..300 {
            let values: Vec<(u32, u32, u64)> = (0..random.below(60u32))
                .map(|_| {
                    let width = random.below(65u32);
                    let value = if width == 0 { 0 } else { random.word() >> (64 - width) };
                    (random.below(4u32), width, value)
                })
                .collect();
            let mut put = BitPut::default();
            let mut bytes = Vec::new();
            for &(kind, width, value) in &values {
                match kind {
                    0 => put.bits(value, width),
                    1 => put.flag(value & 1 == 1),
                    2 => put.number(value, 1 + width % 40),
                    _ => put.signed(value as i64, 1 + width % 40),
                }
            }
            let whole = put.len();
            put.finish(&mut bytes);
            assert_eq!((bytes.len(), put.len()), (whole, 0));
            let mut take = BitTake::new(&bytes);
            for &(kind, width, value) in &values {
                match kind {
                    0 => assert_eq!(take.bits(width), Some(value)),
                    1 => assert_eq!(take.flag(), Some(value & 1 == 1)),
                    2 => assert_eq!(take.number(1 + width % 40), Some(value), "{value} of {width}"),
                    _ => assert_eq!(take.signed(1 + width % 40), Some(value as i64), "{value} of {width}"),
                }
            }
            assert!(take.is_at_end());
            assert_eq!(take.bits(8), None);
        }
    }

    #[test]
    fn small_numbers_are_short() {
        for (value, small, bits) in
            [(0, 0, 1), (1, 0, 3), (2, 0, 3), (3, 0, 5), (7, 3, 4), (8, 3, 6), (23, 3, 6), (24, 3, 8)]
        {
            let mut put = BitPut::default();
            put.number(value, small);
            assert_eq!(put.used, bits, "{value}, {small}");
        }
    }

    #[test]
    fn what_is_none_is_not_taken() {
        assert_eq!(BitTake::new(&[0; 20]).number(3), None, "no value has so many bits");
        assert_eq!(BitTake::new(&[0, 0]).number(0), None);
        assert_eq!(BitTake::new(&[]).flag(), None);
        // A count of more than there can be.
        let mut put = BitPut::default();
        let mut bytes = Vec::new();
        put.number(100, 2);
        put.finish(&mut bytes);
        assert_eq!(BitTake::new(&bytes).count(2), None);
        assert_eq!(BitTake::new(&bytes).number(2), Some(100));
    }

    #[test]
    fn numbers_of_all_lengths_are_what_they_were() {
        for small in [0, 1, 7, 31, 32, 33, 63] {
            let numbers = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, (1 << bit) + 1]);
            let numbers: Vec<u64> = numbers.chain((small > 0).then_some(u64::MAX)).collect();
            let mut put = BitPut::default();
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put.number(*number, small));
            put.finish(&mut bytes);
            let mut take = BitTake::new(&bytes);
            for number in numbers {
                assert_eq!(take.number(small), Some(number), "small {small}");
            }
            assert!(take.is_at_end());
        }
    }

    proptest! {
        #[test]
        fn bits_of_anyone_end(bytes in prop::collection::vec(any::<u8>(), 0..100), small in 0u32..64) {
            let mut take = BitTake::new(&bytes);
            let mut left = take.left();
            while take.number(small).is_some() {
                prop_assert!(take.left() < left);
                left = take.left();
            }
        }
    }
}
