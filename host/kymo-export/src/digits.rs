// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digits into a line.

/// Decimal digits of the largest number, and its sign.
pub const DIGITS_MAX: usize = 21;

/// Decimal digits.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    const WORD: u64 = 100_000_000;
    if value < WORD {
        let (word, used) = word_digits(value);
        let end = out.len() + used;
        out.extend_from_slice(&word);
        out.truncate(end);
    } else {
        push_u64(out, value / WORD);
        out.extend_from_slice(&eight_digits(value % WORD));
    }
}

/// The digits of a number below 10^8 at the begin of a word, and how many they are.
#[inline]
pub fn word_digits(value: u64) -> ([u8; 8], usize) {
    let word = digits(value);
    // Zeros in front, of which the last one stands for the number 0.
    let leading = (word.trailing_zeros() / 8).min(7);
    (((word | ZEROS) >> (8 * leading)).to_le_bytes(), 8 - leading as usize)
}

/// The number, below 10^8, as eight decimal digits.
#[inline]
pub fn eight_digits(value: u64) -> [u8; 8] {
    (digits(value) | ZEROS).to_le_bytes()
}

/// The number, below 10^9, as nine decimal digits.
#[inline]
pub fn nine_digits(number: u32) -> [u8; 9] {
    let mut nine = [b'0' + (number / 100_000_000) as u8; 9];
    nine[1..].copy_from_slice(&eight_digits(u64::from(number % 100_000_000)));
    nine
}

/// The same, into a line.
#[inline]
pub fn push_nine(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&nine_digits(number));
}

/// `00000000`
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The eight decimal digits of a number below 10^8, the first one in the lowest byte. All at once: they are divided
/// side by side, by multiplication, and stored as one word, which is several times as fast as one by one.
#[inline]
fn digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | ((twos - tens * 10) << 8)
}

/// Hexadecimal digits of bytes.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_all_lengths() {
        let edges = (0..20).flat_map(|power| [10u64.pow(power) - 1, 10u64.pow(power), 10u64.pow(power) + 1]);
        let all =
            (0..100_000).chain((0..100_000_000).step_by(9973)).chain(edges).chain([u64::MAX, 12_345_678_987_654_321]);
        for number in all {
            let (mut plain, mut nine) = (b"x".to_vec(), Vec::new());
            push_u64(&mut plain, number);
            assert_eq!(String::from_utf8(plain).unwrap(), format!("x{number}"));
            let fraction = (number % 1_000_000_000) as u32;
            push_nine(&mut nine, fraction);
            assert_eq!(String::from_utf8(nine).unwrap(), format!("{fraction:09}"));
        }
    }
}
