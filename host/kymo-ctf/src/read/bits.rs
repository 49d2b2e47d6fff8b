// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bits of a packet: integers at any place, and a cursor that never leaves the packet.

use super::class::{Encoding, Int, Order};

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    PastEnd,
    Bad(&'static str),
}

/// The integer of 1 to 64 `bits` that begins `at` bits behind the first of `data`; bits behind the last are 0. Little
/// endian fills bytes from their low end, big endian from their high end; the reversed ones are the same with their
/// bits in the opposite order.
#[inline]
pub(crate) fn extract(data: &[u8], at: u64, bits: u8, order: Order) -> u64 {
    let byte = (at / 8) as usize;
    let (shift, bits) = ((at % 8) as u32, u32::from(bits));
    match data.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(window) if shift + bits <= 64 => match order {
            Order::Little => u64::from_le_bytes(*window) >> shift & (u64::MAX >> (64 - bits)),
            Order::Big => u64::from_be_bytes(*window) << shift >> (64 - bits),
            Order::LittleReversed | Order::BigReversed => extract_wide(data, byte, shift, bits, order),
        },
        _ => extract_wide(data, byte, shift, bits, order),
    }
}

/// The same of nine bytes, or where fewer than eight are left, or with bits in the opposite order.
#[cold]
fn extract_wide(data: &[u8], byte: usize, shift: u32, bits: u32, order: Order) -> u64 {
    let mut window = [0; 16];
    let rest = data.get(byte..).unwrap_or_default();
    let there = rest.len().min(16);
    window[..there].copy_from_slice(&rest[..there]);
    let value = match order {
        Order::Little | Order::LittleReversed => {
            (u128::from_le_bytes(window) >> shift) as u64 & (u64::MAX >> (64 - bits))
        }
        Order::Big | Order::BigReversed => (u128::from_be_bytes(window) << shift >> (128 - bits)) as u64,
    };
    match order {
        Order::Little | Order::Big => value,
        Order::LittleReversed | Order::BigReversed => value.reverse_bits() >> (64 - bits),
    }
}

/// The low `bits` of an integer as 64 bits of either sign.
#[inline]
pub(crate) fn extended(value: u64, bits: u8, signed: bool) -> u64 {
    if !signed {
        return value;
    }
    let spare = 64 - u32::from(bits);
    ((value << spare) as i64 >> spare) as u64
}

/// A position in a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    base: usize,
    /// Bits from the packet's first.
    pub at: u64,
    /// The same; decoding stops there.
    end: u64,
}

impl<'a> Cursor<'a> {
    /// At the first bit of a packet at byte `base` of `data`, which may have all bytes up to `end_byte`.
    #[inline]
    pub fn new(data: &'a [u8], base: usize, end_byte: usize) -> Self {
        let end_byte = end_byte.min(data.len()).max(base.min(data.len()));
        let base = base.min(data.len());
        Self { data, base, at: 0, end: (end_byte - base) as u64 * 8 }
    }

    /// Moves the end nearer.
    #[inline]
    pub fn limit(&mut self, bits: u64) {
        self.end = self.end.min(bits);
    }

    #[inline]
    pub fn at_end(&self) -> bool {
        self.at >= self.end
    }

    /// Bit in the file.
    #[inline]
    pub fn bit(&self) -> u64 {
        self.base as u64 * 8 + self.at
    }

    /// The bits that may be read: in the packet, from its first.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether so many bits are left.
    #[inline]
    pub fn check(&self, bits: u64) -> Result<(), Stop> {
        if bits > self.end.saturating_sub(self.at) { Err(Stop::PastEnd) } else { Ok(()) }
    }

    /// Passes over bits.
    #[inline]
    pub fn skip(&mut self, bits: u64) -> Result<(), Stop> {
        self.check(bits)?;
        self.at += bits;
        Ok(())
    }

    /// Byte in the file.
    #[inline]
    pub fn byte(&self) -> u64 {
        self.base as u64 + self.at / 8
    }

    #[inline]
    pub fn align(&mut self, bits: u32) -> Result<(), Stop> {
        let mask = u64::from(bits) - 1;
        self.at = (self.at + mask) & !mask;
        if self.at > self.end { Err(Stop::PastEnd) } else { Ok(()) }
    }

    /// `count` whole bytes at a byte boundary, as their offset in the file.
    pub fn bytes(&mut self, count: u64) -> Result<u64, Stop> {
        if count > (self.end - self.at) / 8 {
            return Err(Stop::PastEnd);
        }
        let offset = self.byte();
        self.at += count * 8;
        Ok(offset)
    }

    #[inline]
    pub fn fixed(&mut self, bits: u8, order: Order) -> Result<u64, Stop> {
        self.check(u64::from(bits))?;
        let value = extract(self.data, self.base as u64 * 8 + self.at, bits, order);
        self.at += u64::from(bits);
        Ok(value)
    }

    /// LEB128 of at most 10 bytes; what does not fit into 64 bits is refused.
    pub fn variable(&mut self, signed: bool) -> Result<u64, Stop> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.fixed(8, Order::Little)?;
            let part = byte & 0x7F;
            let kept = if shift < 64 { part << shift >> shift } else { 0 };
            let extends = signed && shift >= 63 && part == 0x7F;
            if kept != part && !extends {
                return Err(Stop::Bad("an integer of variable length has more than 64 bits"));
            }
            if shift < 64 {
                value |= part << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                let negative = signed && shift < 64 && part & 0x40 != 0;
                return Ok(if negative { value | u64::MAX << shift } else { value });
            }
            if shift >= 70 {
                return Err(Stop::Bad("an integer of variable length has more than 10 bytes"));
            }
        }
    }

    pub fn int(&mut self, int: &Int) -> Result<u64, Stop> {
        if int.bits == 0 {
            return self.variable(int.signed);
        }
        Ok(extended(self.fixed(int.bits, int.order)?, int.bits, int.signed))
    }
}

/// Bytes in front of the first byte of 0. Most texts are short.
#[inline]
pub(super) fn text_bytes(data: &[u8]) -> Option<usize> {
    const SHORT_WORDS: usize = 4;
    for (index, word) in data.chunks_exact(8).take(SHORT_WORDS).enumerate() {
        let word = u64::from_le_bytes(word.try_into().ok()?);
        // The lowest byte that is 0 has the lowest high bit: borrows only go upwards.
        let zeros = word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
        if zeros != 0 {
            return Some(8 * index + zeros.trailing_zeros() as usize / 8);
        }
    }
    std::ffi::CStr::from_bytes_until_nul(data).ok().map(std::ffi::CStr::count_bytes)
}

/// Offset and bytes of text up to its NUL character, which is passed too.
pub(crate) fn nul_text(cursor: &mut Cursor<'_>, encoding: Encoding) -> Result<(u64, u64), Stop> {
    let unit = match encoding {
        Encoding::Utf8 => 1,
        Encoding::Wide { bytes, .. } => usize::from(bytes.max(1)),
    };
    let offset = cursor.byte();
    let left = ((cursor.end - cursor.at) / 8) as usize;
    let rest = &cursor.data[offset as usize..offset as usize + left];
    let nul = match unit {
        1 => text_bytes(rest),
        _ => rest.chunks_exact(unit).position(|c| c.iter().all(|&b| b == 0)),
    };
    let nul = nul.ok_or(Stop::PastEnd)?;
    cursor.at += (nul as u64 + 1) * unit as u64 * 8;
    Ok((offset, (nul * unit) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_odd_size_and_place() {
        let data = [0b1010_0101, 0b1100_0011, 0xFF, 0x00];
        for (skip, bits, order, expect) in [
            (0, 4, Order::Little, 0b0101),
            (4, 8, Order::Little, 0b0011_1010),
            (0, 4, Order::Big, 0b1010),
            (4, 8, Order::Big, 0b0101_1100),
            (0, 16, Order::Little, 0xC3A5),
            (0, 16, Order::Big, 0xA5C3),
            (7, 18, Order::Little, 0b01_1111_1111_1000_0111),
            (8, 24, Order::Little, 0x00FFC3),
            (1, 31, Order::Big, 0x25C3_FF00),
            (31, 1, Order::Big, 0),
        ] {
            let mut cursor = Cursor::new(&data, 0, 4);
            cursor.at = skip;
            assert_eq!(cursor.fixed(bits, order), Ok(expect), "{skip} {bits} {order:?}");
        }
        let mut cursor = Cursor::new(&data, 0, 4);
        cursor.at = 25;
        assert_eq!(cursor.fixed(8, Order::Little), Err(Stop::PastEnd));
    }

    /// Bit by bit, for all places and sizes, near the end and far from it.
    #[test]
    fn integers_are_what_their_bits_say() {
        let data: Vec<u8> = (0..30u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for (at, bits) in (0..176u64).flat_map(|at| (1..=64u8).map(move |bits| (at, bits))) {
            let bit = |i: u64, from_top: bool| {
                let place = if from_top { 7 - (at + i) % 8 } else { (at + i) % 8 };
                u64::from(data[((at + i) / 8) as usize] >> place & 1)
            };
            let little = (0..u64::from(bits)).fold(0, |value, i| value | bit(i, false) << i);
            let big = (0..u64::from(bits)).fold(0, |value, i| value << 1 | bit(i, true));
            assert_eq!(extract(&data, at, bits, Order::Little), little, "{at} {bits}");
            assert_eq!(extract(&data, at, bits, Order::Big), big, "{at} {bits}");
            let last_first = (0..u64::from(bits)).fold(0, |value, i| value << 1 | bit(i, false));
            let first_last = (0..u64::from(bits)).fold(0, |value, i| value | bit(i, true) << i);
            assert_eq!(extract(&data, at, bits, Order::LittleReversed), last_first, "{at} {bits}");
            assert_eq!(extract(&data, at, bits, Order::BigReversed), first_last, "{at} {bits}");
        }
    }

    #[test]
    fn integers_of_variable_length() {
        let check = |bytes: &[u8], signed, expect| {
            assert_eq!(Cursor::new(bytes, 0, bytes.len()).variable(signed), expect, "{bytes:?}");
        };
        check(&[0x00], false, Ok(0));
        check(&[0xE5, 0x8E, 0x26], false, Ok(624_485));
        check(&[0xC0, 0xBB, 0x78], true, Ok(-123_456i64 as u64));
        check(&[0x7F], true, Ok(-1i64 as u64));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], false, Ok(u64::MAX));
        check(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F], true, Ok(i64::MIN as u64));
        check(&[0x80, 0x80, 0x00], false, Ok(0));
        let long = Stop::Bad("an integer of variable length has more than 64 bits");
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], false, Err(long));
        // Eleven bytes, even where they have no more bits than zeros.
        let eleven = Stop::Bad("an integer of variable length has more than 10 bytes");
        check(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], false, Err(eleven));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], true, Err(eleven));
        check(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], false, Ok(0));
        check(&[0x80, 0x80], false, Err(Stop::PastEnd));
    }

    #[test]
    fn texts_end_at_their_first_zero() {
        for len in 0..70usize {
            for spare in 0..20usize {
                let mut data = vec![0x80; len];
                data.push(0);
                data.extend((0..spare).map(|i| (i % 2) as u8));
                assert_eq!(text_bytes(&data), Some(len), "{len} {spare}");
                assert_eq!(text_bytes(&data[..len]), None);
            }
        }
    }
}
