// SPDX-License-Identifier: MIT OR Apache-2.0
//! UUIDs of traces that are written: an import, or an export, of the same content is the same trace.

/// A UUID by content (FNV-1a over both halves): the same content gives the same UUID.
pub(crate) fn uuid_of(seed: &[u8]) -> [u8; 16] {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    let start = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D_u128;
    let hash =
        seed.iter().fold(start ^ seed.len() as u128, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    let mut uuid = hash.to_be_bytes();
    // Version 8 (by whatever means), variant 1.
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}
