// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a verb has read its traces.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kymo_ctf::read::Watch;

use super::Progress;

/// Shows each pass over traces in a line of its own time.
pub struct ReadingProgress(Mutex<Pass>);

struct Pass {
    line: Progress,
    /// Bytes, where they are known before.
    expected: Option<u64>,
    passed: u64,
}

impl ReadingProgress {
    /// No pass yet.
    pub fn new() -> ReadingProgress {
        ReadingProgress(Mutex::new(Pass { line: Progress::new(), expected: None, passed: 0 }))
    }

    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ReadingProgress {
    fn default() -> ReadingProgress {
        ReadingProgress::new()
    }
}

impl Watch for ReadingProgress {
    fn begin(&self, bytes: Option<u64>) {
        let mut pass = self.pass();
        pass.line.end();
        *pass = Pass { line: Progress::new(), expected: bytes.filter(|bytes| *bytes > 0), passed: 0 };
    }

    fn passed(&self, bytes: u64) {
        let mut pass = self.pass();
        pass.passed = pass.passed.saturating_add(bytes);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let Pass { line, expected, passed } = &mut *pass;
        match *expected {
            Some(all) => {
                line.show_share(*passed as f64 / all as f64, || format!("reading {:.1} MiB", mib(all)));
            }
            None => line.show(|| format!("{:.1} MiB read", mib(*passed))),
        }
    }

    fn end(&self) {
        self.pass().line.end();
    }
}
