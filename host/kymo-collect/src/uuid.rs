// SPDX-License-Identifier: MIT OR Apache-2.0
//! UUIDs of traces and of the machine's boot.

use std::fs;

/// A UUID from a file of the kernel; where it cannot be read, one of version 4 from what there is.
pub(crate) fn random_uuid(path: &str, seed: u64) -> [u8; 16] {
    let text = fs::read_to_string(path).unwrap_or_default();
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| (byte as char).to_digit(16)).map(|digit| digit as u8).collect();
    if digits.len() == 32 {
        return std::array::from_fn(|index| digits[index * 2] << 4 | digits[index * 2 + 1]);
    }
    let mixed =
        u128::from(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ u128::from(std::process::id());
    let mut uuid = mixed.to_le_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
