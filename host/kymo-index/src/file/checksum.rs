// SPDX-License-Identifier: MIT OR Apache-2.0
//! A checksum of 64 bits against torn and damaged files. It keeps nobody from writing a file with the right one.

const START: u64 = 0x6b79_6d6f_2d69_6478;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = START ^ bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        sum = mixed(sum, u64::from_le_bytes(word));
    }
    let mut word = [0; 8];
    word[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mixed(sum, u64::from_le_bytes(word))
}

fn mixed(sum: u64, word: u64) -> u64 {
    let product = u128::from(sum.rotate_left(23) ^ word) * u128::from(FACTOR);
    (product >> 64) as u64 ^ product as u64 ^ word
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn each_bit_counts() {
        let bytes: Vec<u8> = (0..67).collect();
        let whole = checksum(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&other), whole, "bit {bit}");
        }
        assert_ne!(checksum(&bytes[..66]), whole);
        assert_ne!(checksum(&[0; 8]), checksum(&[0; 9]));
    }
}
