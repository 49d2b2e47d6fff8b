// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers as few bits, where bytes are too many: exponential Golomb codes. Whatever the bits, taking them ends.

/// Bits that the order of a code takes.
const ORDER_BITS: u32 = 6;

/// Puts numbers one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct PutBits {
    bytes: Vec<u8>,
    /// The bits that fill no byte yet, the oldest highest.
    rest: u64,
    count: u32,
}

impl PutBits {
    /// The lowest `count` bits of a number, at most 32 of them.
    fn few(&mut self, bits: u64, count: u32) {
        self.rest = self.rest << count | bits & ((1 << count) - 1);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.bytes.push((self.rest >> self.count) as u8);
        }
    }

    /// The lowest `count` bits of a number, at most 64 of them.
    pub fn bits(&mut self, bits: u64, count: u32) {
        if count > 32 {
            self.few(bits >> 32, count - 32);
        }
        self.few(bits, count.min(32));
    }

    /// A number: those near 2 to the power of `order`, and below, are short.
    pub fn number(&mut self, order: u32, number: u64) {
        let high = u128::from(number >> order) + 1;
        let length = high.ilog2();
        self.bits(0, length);
        self.bits(1, 1);
        self.bits(high as u64, length);
        self.bits(number, order);
    }

    /// The order that fits numbers with this sum, for [`TakeBits::order`].
    pub fn order(&mut self, sum: u64, count: usize) -> u32 {
        let order = (sum / (count as u64).max(1)).max(1).ilog2();
        self.bits(order.into(), ORDER_BITS);
        order
    }

    /// All of it.
    pub fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.few(0, 8 - self.count);
        }
        self.bytes
    }
}

/// Takes them again. `None` where they are not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakeBits<'a> {
    bytes: &'a [u8],
    rest: u64,
    count: u32,
}

impl<'a> TakeBits<'a> {
    pub fn new(bytes: &'a [u8]) -> TakeBits<'a> {
        TakeBits { bytes, rest: 0, count: 0 }
    }

    /// Bits that are left.
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_mul(8).saturating_add(self.count as usize)
    }

    /// Fills up `rest`, whose bits beyond `count` are 0.
    #[inline]
    fn fill(&mut self) {
        while self.count <= 56 {
            let Some((first, rest)) = self.bytes.split_first() else { return };
            self.bytes = rest;
            self.rest = self.rest << 8 | u64::from(*first);
            self.count += 8;
        }
    }

    #[inline]
    fn few(&mut self, count: u32) -> Option<u64> {
        if count == 0 {
            return Some(0);
        }
        if self.count < count {
            self.fill();
        }
        self.count = self.count.checked_sub(count)?;
        let bits = self.rest >> self.count;
        self.rest &= (1 << self.count) - 1;
        Some(bits)
    }

    /// As [`PutBits::bits`].
    #[inline]
    pub fn bits(&mut self, count: u32) -> Option<u64> {
        let high = if count > 32 { self.few(count - 32)? << 32 } else { 0 };
        Some(high | self.few(count.min(32))?)
    }

    /// As [`PutBits::number`].
    #[inline]
    pub fn number(&mut self, order: u32) -> Option<u64> {
        let mut length = 0u32;
        loop {
            if self.count == 0 {
                self.fill();
            }
            let zeros = self.count.min(self.rest.leading_zeros() - (64 - self.count));
            length += zeros;
            self.count -= zeros;
            if self.count > 0 {
                break;
            }
            if self.bytes.is_empty() || length > 64 {
                return None;
            }
        }
        self.few(1)?;
        if length > 64 {
            return None;
        }
        let high = (1u128 << length | u128::from(self.bits(length)?)) - 1;
        let number = high.checked_mul(1 << order)? | u128::from(self.bits(order)?);
        u64::try_from(number).ok()
    }

    /// As [`PutBits::order`].
    pub fn order(&mut self) -> Option<u32> {
        self.bits(ORDER_BITS).map(|order| order as u32)
    }

    /// Whether nothing is left but what fills the last byte.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.count < 8 && self.rest == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_all_lengths_are_what_they_were() {
        for order in [0, 1, 7, 31, 32, 33, 63] {
            let numbers = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, (1 << bit) + 1]);
            let numbers: Vec<u64> = numbers.chain([u64::MAX, u64::MAX - 1]).collect();
            let mut put = PutBits::default();
            numbers.iter().for_each(|number| put.number(order, *number));
            let bytes = put.finish();
            let mut take = TakeBits::new(&bytes);
            for number in numbers {
                assert_eq!(take.number(order), Some(number), "order {order}");
            }
            assert!(take.is_empty());
        }
    }

    #[test]
    fn bits_that_are_no_number_are_not_taken() {
        assert_eq!(TakeBits::new(&[0; 40]).number(0), None);
        assert_eq!(TakeBits::new(&[]).number(3), None);
        assert_eq!(TakeBits::new(&[0x01]).number(0), None);
        assert!(!TakeBits::new(&[0, 0]).is_empty() && TakeBits::new(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_put_is_taken(list in prop::collection::vec((0u32..64, any::<u64>(), 0u32..64), 0..50)) {
            let mut put = PutBits::default();
            for (order, number, shift) in &list {
                put.number(*order, number >> shift);
                put.bits(*number, *shift);
            }
            let bytes = put.finish();
            let mut take = TakeBits::new(&bytes);
            for (order, number, shift) in &list {
                prop_assert_eq!(take.number(*order), Some(number >> shift));
                prop_assert_eq!(take.bits(*shift), Some(number & ((1u64 << shift) - 1)));
            }
            prop_assert!(take.is_empty());
        }

        #[test]
        fn bits_of_anyone_end(bytes in prop::collection::vec(any::<u8>(), 0..100), order in 0u32..64) {
            let mut take = TakeBits::new(&bytes);
            let mut left = take.left();
            while take.number(order).is_some() {
                prop_assert!(take.left() < left);
                left = take.left();
            }
        }
    }
}
