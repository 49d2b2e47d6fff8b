//! What the tests share: recorded files, and bytes that are damaged on purpose.
#![allow(dead_code)]

use std::path::PathBuf;

/// The folder of test data.
pub fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The names and bytes of all files in `tests/NAME` that end in `.EXTENSION` (or of all, if empty), by name.
pub fn files(name: &str, extension: &str) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| extension.is_empty() || path.extension().is_some_and(|it| it == extension));
    paths.sort();
    assert!(!paths.is_empty());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A small generator (splitmix64), so that one printed number repeats a run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Changes one to four places of `bytes`.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            let other = self.below(bytes.len());
            let count = self.below(40).min(bytes.len() - at);
            match self.below(7) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.next() as u8,
                2 => bytes[at..at + count].fill(0),
                3 => drop(bytes.drain(at..at + count)),
                4 => {
                    let copy = bytes[at..at + count].to_vec();
                    bytes.splice(other..other, copy);
                }
                5 => bytes.splice(at..at + count, [[0x00, 0xFF, 0x80][count % 3]].repeat(count)).for_each(drop),
                _ => {
                    let word = [0, 1, u64::MAX, 1 << 63, self.next()][self.below(5)].to_le_bytes();
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&word[..end - at]);
                }
            }
        }
    }
}
