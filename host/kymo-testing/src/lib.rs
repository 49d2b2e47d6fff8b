// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of all crates share: numbers that a seed repeats, mutations of good input, skips that are seen, and
//! a check of results against their schema, a reader of protobuf messages, programs that can be run at once.
//! For tests only.

pub mod protobuf;
pub mod schema;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

static SKIPS: AtomicUsize = AtomicUsize::new(0);

/// Says that a test, or a part of one, is not run here, and why. On a line of its own that begins with SKIP, past the
/// capture of the test runner: `make test` counts these lines and lists them at its end.
pub fn skip(name: &str, reason: &str) {
    let count = SKIPS.fetch_add(1, Ordering::Relaxed) + 1;
    let reason = reason.trim().replace('\n', "; ");
    let _ = writeln!(std::io::stderr(), "\nSKIP {name}: {reason} (skips so far: {count})");
}

/// The same of the test that runs in this thread.
pub fn skip_this(reason: &str) {
    skip(std::thread::current().name().unwrap_or("a test"), reason);
}

/// Says something on a line of its own, past the capture of the test runner.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "\n{text}");
}

/// Makes a copy of a file, at `path`, that anybody may run. A child process writes it: what this process has open for
/// writing is open in a child that another thread forks, too, until that executes its program, and nobody can run the
/// file meanwhile (`ETXTBSY`).
///
/// # Panics
/// It cannot be copied.
pub fn copy_program(from: &Path, path: &Path) {
    let status = Command::new("install").args(["-m", "755", "--"]).args([from, path]).status().expect("coreutils");
    assert!(status.success(), "install {} {}: {status}", from.display(), path.display());
}

/// A number from the environment: `KYMO_SEED`, `KYMO_ROUNDS`.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The least CPU time that some calls of a function take in this thread, s: others on the machine count little.
pub fn least_cpu_time(calls: u32, mut run: impl FnMut()) -> f64 {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let taken = (0..calls).map(|_| {
        let begin = now();
        run();
        now() - begin
    });
    taken.fold(f64::INFINITY, f64::min)
}

/// Numbers that one seed repeats (splitmix64).
pub struct Random(pub u64);

/// What a random number can be: an integer.
pub trait Integer: Copy {
    /// From a random word, below `limit`; 0 where the limit is none.
    fn below(word: u64, limit: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Integer for $type {
            fn below(word: u64, limit: $type) -> $type {
                (word % u64::try_from(limit).unwrap_or(0).max(1)) as $type
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i32, i64);

impl Random {
    /// The sequence of `KYMO_SEED`, or of `default`; says which.
    pub fn new(name: &str, default: u64) -> Random {
        let seed = setting("KYMO_SEED", default);
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

    /// A number below `limit`.
    pub fn below<T: Integer>(&mut self, limit: T) -> T {
        T::below(self.word(), limit)
    }

    /// One of a list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.word() as u8).collect()
    }

    /// Changes one to four places of `bytes`: bits, bytes, pieces that go, come again, move or become zero, and the
    /// end.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            let other = self.below(bytes.len());
            let count = self.below(40).min(bytes.len() - at);
            match self.below(8) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.word() as u8,
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..at + count)),
                4 => {
                    let copy = bytes[at..at + count].to_vec();
                    bytes.splice(other..other, copy);
                }
                5 => bytes.splice(at..at + count, [[0x00, 0xFF, 0x80][count % 3]].repeat(count)).for_each(drop),
                6 => bytes[at..at + count].fill(0),
                _ => {
                    let word = [0, 1, u64::MAX, 1 << 63, self.word()][self.below(5usize)].to_le_bytes();
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&word[..end - at]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    /// Where this process itself writes the file, some of the 400 cannot be run (9, when it was tried).
    #[test]
    fn a_copied_program_can_be_run_while_others_start_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        Command::new("true").status().expect("coreutils");
                    }
                });
            }
            let mut refused = 0;
            for number in 0..400 {
                let path = folder.path().join(number.to_string());
                copy_program(Path::new("/bin/true"), &path);
                refused += u32::from(Command::new(&path).status().is_err());
            }
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0, "of 400");
        });
    }
}
