//! Numbers that one seed repeats. The seed is printed first.

use std::io::Write as _;

/// A sequence of numbers (splitmix64).
pub struct Random(u64);

impl Random {
    /// The sequence of `KYMO_SEED`, or of `default`; says which.
    pub fn new(name: &str, default: u64) -> Random {
        let given = std::env::var("KYMO_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or(default);
        let _ = writeln!(std::io::stderr(), "{name}: KYMO_SEED={seed}");
        Random(seed)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    /// `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.word() as u8).collect()
    }
}
