// SPDX-License-Identifier: MIT OR Apache-2.0
//! What questions used goes back to the system. The C library keeps what was freed, for each of its arenas, and every
//! thread that answers has one: a server that had answered every question once had kept a hundred MiB and more.

use std::sync::atomic::{AtomicU64, Ordering};

/// So much may be kept: what most questions use is used again by the next ones, without new pages.
const KEPT_BYTES: u64 = 64 << 20;

/// Gives memory back after questions.
#[derive(Default)]
pub(crate) struct Memory {
    /// Bytes that the process had when it had given back all, or has had since.
    least: AtomicU64,
}

impl Memory {
    /// A question has been answered: gives back what is kept, if that is much.
    pub fn answered(&self) {
        let Some(now) = own_bytes() else { return };
        let least = self.least.fetch_min(now, Ordering::Relaxed);
        if now >= least.saturating_add(KEPT_BYTES) {
            give_back();
            self.least.store(own_bytes().unwrap_or(now), Ordering::Relaxed);
        }
    }
}

/// Memory of this process alone: without the files that it has mapped. `None`: the system does not tell.
fn own_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(target_env = "gnu")]
fn give_back() {
    // SAFETY: it touches memory only that the allocator knows to be free, takes the locks for that itself, and may be
    // called by any thread at any time.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other C libraries keep little.
#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Bytes of one piece; smaller ones than the C library gets from the system one by one.
    const PIECE: usize = 4096;

    /// Uses so many bytes, in pieces of which some stay: so the C library cannot give the rest back by itself.
    fn use_bytes(bytes: usize) -> Vec<Vec<u8>> {
        let pieces: Vec<Vec<u8>> = (0..bytes / PIECE).map(|_| vec![1; PIECE]).collect();
        pieces.into_iter().step_by(1000).collect()
    }

    #[test]
    fn what_a_large_question_used_is_given_back_and_what_a_small_one_used_is_kept() {
        let memory = Memory::default();
        memory.answered();
        let before = own_bytes().unwrap();
        let _stay = use_bytes(32 << 20);
        memory.answered();
        let kept = own_bytes().unwrap();
        assert!(kept > before + (24 << 20), "{before} {kept}");
        let _stay_too = std::thread::spawn(|| use_bytes(200 << 20)).join().unwrap();
        let used = own_bytes().unwrap();
        memory.answered();
        let left = own_bytes().unwrap();
        assert!(used > before + (150 << 20) && left < before + (32 << 20), "{before} {used} {left}");
    }
}
