// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integers and floating point numbers of more than 64 bits: where their bits lie, and what they are. A value is a view
//! on the bytes; digits are made when somebody asks for them.

use std::fmt;

use super::bits::extract;
use super::class::{Base, Order, WideClass};

/// Widest number that is read: decimal digits cost the square of the bits.
pub(crate) const WIDE_BITS_MAX: u32 = 1 << 16;

/// An integer of more than 64 bits.
#[derive(Clone, Copy)]
pub struct WideInt<'a> {
    data: &'a [u8],
    /// Its first bit in `data`.
    at: u64,
    class: &'a WideClass,
}

/// The `bits` bits from bit `at` of `data` on, as a number: 64 at a time, the lowest first.
pub(crate) fn limbs(data: &[u8], at: u64, bits: u32, order: Order) -> Vec<u64> {
    let limb = |low: u32| {
        let size = (bits - low).min(64);
        let begin = match order {
            Order::Little | Order::BigReversed => low,
            Order::Big | Order::LittleReversed => bits - low - size,
        };
        extract(data, at + u64::from(begin), size as u8, order)
    };
    (0..bits).step_by(64).map(limb).collect()
}

impl<'a> WideInt<'a> {
    pub(crate) fn new(data: &'a [u8], at: u64, class: &'a WideClass) -> Self {
        Self { data, at, class }
    }

    /// More than 64.
    pub fn bits(&self) -> u32 {
        self.class.bits
    }

    /// With a sign.
    pub fn is_signed(&self) -> bool {
        self.class.signed
    }

    /// The base to show it in.
    pub fn base(&self) -> Base {
        self.class.base
    }

    /// The labels that it has; `None` where it is no enumeration.
    pub fn labels(&self) -> Option<Vec<&'a str>> {
        let labels = self.class.labels.as_ref()?;
        // Labels have 65 bits at most, sign included.
        Some(self.to_i128().map_or_else(Vec::new, |number| labels.find(number).all(number)))
    }

    pub(crate) fn is_zero(&self) -> bool {
        limbs(self.data, self.at, self.class.bits, self.class.order).iter().all(|limb| *limb == 0)
    }

    /// Whether it is below zero, and its distance from zero: 64 bits at a time, the lowest first.
    fn magnitude(&self) -> (bool, Vec<u64>) {
        let mut limbs = limbs(self.data, self.at, self.class.bits, self.class.order);
        let top = self.class.bits as usize - 1;
        let is_negative = self.class.signed && limbs[top / 64] >> (top % 64) & 1 == 1;
        if is_negative {
            if let (Some(last), used @ 1..) = (limbs.last_mut(), self.class.bits % 64) {
                *last |= u64::MAX << used;
            }
            let mut carry = true;
            for limb in &mut limbs {
                (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
            }
        }
        (is_negative, limbs)
    }

    /// The value, where 128 bits with a sign have it.
    pub fn to_i128(&self) -> Option<i128> {
        let (is_negative, limbs) = self.magnitude();
        if limbs.iter().skip(2).any(|limb| *limb != 0) {
            return None;
        }
        let limb = |index: usize| u128::from(limbs.get(index).copied().unwrap_or(0));
        let size = limb(1) << 64 | limb(0);
        match is_negative {
            false => i128::try_from(size).ok(),
            true => (size <= 1 << 127).then(|| (size as i128).wrapping_neg()),
        }
    }

    /// The value, or of those that 128 bits with a sign have the one that is nearest.
    pub fn saturated(&self) -> i128 {
        self.to_i128().unwrap_or_else(|| if self.magnitude().0 { i128::MIN } else { i128::MAX })
    }

    /// The digits in its own base, with the prefix of the base: `0x`, `0o`, `0b`.
    pub fn in_base(&self) -> String {
        let (is_negative, limbs) = self.magnitude();
        let sign = if is_negative { "-" } else { "" };
        match self.class.base {
            Base::Decimal => format!("{sign}{}", decimal(limbs)),
            Base::Hexadecimal => format!("{sign}0x{}", digits(&limbs, 4)),
            Base::Octal => format!("{sign}0o{}", digits(&limbs, 3)),
            Base::Binary => format!("{sign}0b{}", digits(&limbs, 1)),
        }
    }
}

impl fmt::Display for WideInt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_negative, limbs) = self.magnitude();
        write!(f, "{}{}", if is_negative { "-" } else { "" }, decimal(limbs))
    }
}

impl fmt::Debug for WideInt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Digits in base 10.
fn decimal(mut limbs: Vec<u64>) -> String {
    /// The largest power of 10 in 64 bits.
    const PART: u128 = 10_000_000_000_000_000_000;
    let mut parts = Vec::new();
    loop {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        if limbs.is_empty() {
            break;
        }
        let mut rest = 0u128;
        for limb in limbs.iter_mut().rev() {
            let value = rest << 64 | u128::from(*limb);
            // The rest is below PART, so that this fits.
            *limb = (value / PART) as u64;
            rest = value % PART;
        }
        parts.push(rest);
    }
    let mut text = parts.pop().unwrap_or(0).to_string();
    for part in parts.iter().rev() {
        text.push_str(&format!("{part:019}"));
    }
    text
}

/// Digits in base 2, 8 or 16, without zeros in front. `size`: bits of a digit.
fn digits(limbs: &[u64], size: usize) -> String {
    let bit = |at: usize| limbs.get(at / 64).map_or(0, |limb| limb >> (at % 64) & 1);
    let digit = |index: usize| (0..size).map(|i| bit(index * size + i) << i).sum::<u64>() as u32;
    let count = (limbs.len() * 64).div_ceil(size);
    let all = (0..count).rev().map(digit).skip_while(|digit| *digit == 0);
    let text: String = all.filter_map(|digit| char::from_digit(digit, 16)).collect();
    if text.is_empty() { "0".into() } else { text }
}

/// Bits of the exponent in IEEE 754's interchange format of so many bits; `None` where there is no such format of more
/// than 64 bits.
pub(crate) fn exponent_bits(bits: u32) -> Option<u32> {
    match bits {
        128 => Some(15),
        129..=WIDE_BITS_MAX if bits % 32 == 0 => Some((4.0 * f64::from(bits).log2()).round() as u32 - 13),
        _ => None,
    }
}

/// The float of 64 bits that is nearest to one of `bits` bits in IEEE 754's format; of two the even one. `limbs`: its
/// bits, 64 at a time.
pub(crate) fn nearest_f64(limbs: &[u64], bits: u32) -> f64 {
    let Some(exponent_bits) = exponent_bits(bits) else { return f64::NAN };
    let bit = |at: u32| limbs.get(at as usize / 64).map_or(0, |limb| limb >> (at % 64) & 1);
    let field = |low: u32, size: u32| (0..size).map(|i| bit(low + i) << i).sum::<u64>();
    let fraction_bits = bits - 1 - exponent_bits;
    let sign = bit(bits - 1) << 63;
    let exponent = field(fraction_bits, exponent_bits);
    let exponent_max = (1 << exponent_bits) - 1;
    // The first 63 bits behind the point, and whether there is more.
    let top = field(fraction_bits - 63, 63);
    let has_more = (0..fraction_bits - 63).any(|at| bit(at) == 1);
    let size = match exponent {
        // Far below the least one.
        0 => 0,
        _ if exponent == exponent_max && (top != 0 || has_more) => return f64::NAN,
        _ => {
            let power = exponent as i64 - (exponent_max >> 1) as i64;
            rounded(1 << 63 | top, has_more, power)
        }
    };
    f64::from_bits(sign | size)
}

/// The bits of the float nearest to `significand` times 2^(power - 63), and somewhat more where `has_more`. The
/// significand has its highest bit.
fn rounded(significand: u64, has_more: bool, power: i64) -> u64 {
    const INFINITY: u64 = 0x7FF << 52;
    if power > 1023 {
        return INFINITY;
    }
    // Below the least normal number bits are lost one by one.
    let kept_bits = if power >= -1022 { 53 } else { 53 - (-1022 - power) };
    if kept_bits < 0 {
        return 0;
    }
    let dropped_bits = 64 - kept_bits as u32;
    let kept = significand.checked_shr(dropped_bits).unwrap_or(0);
    let dropped = if dropped_bits == 64 { significand } else { significand & ((1 << dropped_bits) - 1) };
    let half = 1 << (dropped_bits - 1);
    let is_up = dropped > half || dropped == half && (has_more || kept & 1 == 1);
    let rounded = kept + u64::from(is_up);
    // A carry goes on into the exponent, as far as infinity.
    if power >= -1022 { (((power + 1023) as u64) << 52) + (rounded - (1 << 52)) } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::super::class::View;
    use super::*;

    fn class(bits: u32, signed: bool, order: Order, base: Base) -> WideClass {
        WideClass { bits, signed, order, base, view: View::Number, labels: None }
    }

    #[test]
    fn digits_of_any_width_and_base() {
        let most = u128::MAX.to_le_bytes();
        let check = |data: &[u8], bits, signed, base, expect: &str| {
            let class = class(bits, signed, Order::Little, base);
            assert_eq!(WideInt::new(data, 0, &class).in_base(), expect);
        };
        check(&most, 128, false, Base::Decimal, "340282366920938463463374607431768211455");
        check(&most, 128, true, Base::Decimal, "-1");
        check(&most, 128, false, Base::Hexadecimal, "0xffffffffffffffffffffffffffffffff");
        check(&most, 127, false, Base::Decimal, "170141183460469231731687303715884105727");
        check(&most, 65, false, Base::Octal, "0o3777777777777777777777");
        check(&most, 65, false, Base::Binary, &format!("0b{}", "1".repeat(65)));
        check(&[0; 16], 100, false, Base::Hexadecimal, "0x0");
        check(&[0; 16], 100, true, Base::Decimal, "0");
        let least = i128::MIN.to_le_bytes();
        check(&least, 128, true, Base::Decimal, "-170141183460469231731687303715884105728");
        check(&least, 128, true, Base::Hexadecimal, "-0x80000000000000000000000000000000");
        // 2^199 and one.
        let mut wide = [0; 25];
        (wide[0], wide[24]) = (1, 0x80);
        let digits = "803469022129495137770981046170581301261101496891396417650689";
        check(&wide, 200, false, Base::Decimal, digits);
        check(&wide, 200, true, Base::Decimal, "-803469022129495137770981046170581301261101496891396417650687");
    }

    #[test]
    fn numbers_that_fit_are_those() {
        for value in [0, 1, -1, i128::MAX, i128::MIN, 1 << 64, -(1 << 64), 12_345_678_901_234_567_890_123] {
            for (order, data) in [(Order::Little, value.to_le_bytes()), (Order::Big, value.to_be_bytes())] {
                let class = class(128, true, order, Base::Decimal);
                let int = WideInt::new(&data, 0, &class);
                assert_eq!((int.to_i128(), int.to_string()), (Some(value), value.to_string()));
                assert_eq!(int.is_zero(), value == 0);
            }
        }
        let all = [0xFF; 40];
        let unsigned = class(128, false, Order::Little, Base::Decimal);
        assert_eq!(
            (WideInt::new(&all, 0, &unsigned).to_i128(), WideInt::new(&all, 0, &unsigned).saturated()),
            (None, i128::MAX)
        );
        let mut low = [0; 40];
        low[39] = 0x80;
        let signed = class(320, true, Order::Little, Base::Decimal);
        assert_eq!(
            (WideInt::new(&low, 0, &signed).to_i128(), WideInt::new(&low, 0, &signed).saturated()),
            (None, i128::MIN)
        );
    }

    /// Bit by bit, at all places in a byte, in all orders.
    #[test]
    fn bits_lie_where_the_specification_has_them() {
        let data: Vec<u8> = (0..40u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for (at, bits) in (0..16u64).flat_map(|at| (65..=200u32).map(move |bits| (at, bits))) {
            for (order, is_big, is_last_first) in [
                (Order::Little, false, false),
                (Order::LittleReversed, false, true),
                (Order::Big, true, true),
                (Order::BigReversed, true, false),
            ] {
                let mut expect = vec![0u64; bits.div_ceil(64) as usize];
                for i in 0..bits {
                    let place = at + u64::from(i);
                    let shift = if is_big { 7 - place % 8 } else { place % 8 };
                    let bit = u64::from(data[(place / 8) as usize] >> shift & 1);
                    let index = if is_last_first { bits - i - 1 } else { i };
                    expect[index as usize / 64] |= bit << (index % 64);
                }
                assert_eq!(limbs(&data, at, bits, order), expect, "{at} {bits} {order:?}");
            }
        }
    }

    /// A float of 64 bits as one of 128 has the same value.
    fn quad(value: f64) -> u128 {
        let bits = value.to_bits();
        let (sign, exponent, fraction) = (u128::from(bits >> 63) << 127, bits >> 52 & 0x7FF, bits << 12 >> 12);
        sign | u128::from(exponent + 16383 - 1023) << 112 | u128::from(fraction) << 60
    }

    #[test]
    fn floats_of_128_bits_become_the_nearest_ones() {
        let nearest = |bits: u128| nearest_f64(&[bits as u64, (bits >> 64) as u64], 128);
        for value in [1.0, -2.5, 0.1, f64::MAX, f64::MIN_POSITIVE, 1e-300] {
            assert_eq!(nearest(quad(value)), value);
        }
        // Half of the last place: to the even one; with one bit more it is nearer to the next.
        let half = 1u128 << 59;
        assert_eq!(nearest(quad(1.0) + half), 1.0);
        assert_eq!(nearest(quad(1.0) + half + 1), 1.0 + f64::EPSILON);
        assert_eq!(nearest(quad(1.0 + f64::EPSILON) + half), 1.0 + 2.0 * f64::EPSILON);
        assert_eq!(nearest(quad(f64::MAX) + half), f64::INFINITY);
        assert_eq!(nearest(0), 0.0);
        assert!(nearest(1 << 127).is_sign_negative());
        assert_eq!(nearest(0x7FFF << 112), f64::INFINITY);
        assert_eq!(nearest(0xFFFF << 112), f64::NEG_INFINITY);
        assert!(nearest(0x7FFF << 112 | 1).is_nan());
        // Subnormal ones, down to half of the least.
        let power = |exponent: i64| ((exponent + 16383) as u128) << 112;
        assert_eq!(nearest(power(-1074)), f64::from_bits(1));
        assert_eq!(nearest(power(-1075)), 0.0);
        assert_eq!(nearest(power(-1075) + 1), f64::from_bits(1));
        assert_eq!(nearest(power(-1076) | ((1 << 112) - 1)), 0.0);
        assert_eq!(nearest(power(-1060)), f64::from_bits(1 << 14));
        assert_eq!(nearest(power(1024)), f64::INFINITY);
        // 256 bits: 19 of the exponent.
        let mut limbs = [0; 4];
        limbs[3] = ((1u64 << 18) - 1) << (64 - 1 - 19);
        assert_eq!((exponent_bits(256), nearest_f64(&limbs, 256)), (Some(19), 1.0));
        assert_eq!([96, 130, 80].map(exponent_bits), [None; 3]);
    }
}
