// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a verb has read its traces.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kymo_ctf::read::Watch;

use super::Progress;

/// The line about passes over traces. Passes that overlap are counted together.
pub struct ReadingProgress(Mutex<Passes>);

struct Passes {
    line: Progress,
    /// Also passes that follow each other are counted together.
    adds_up: bool,
    /// Bytes of all passes so far; none where one did not know them before.
    expected: Option<u64>,
    passed: u64,
    /// Passes that are not over.
    open: usize,
    /// Something else is on the terminal: there is no line any more.
    is_quiet: bool,
}

impl Passes {
    fn new(adds_up: bool) -> Passes {
        Passes { line: Progress::new(), adds_up, expected: Some(0), passed: 0, open: 0, is_quiet: false }
    }

    fn restart(&mut self) {
        self.line.end();
        *self = Passes::new(self.adds_up);
    }
}

impl ReadingProgress {
    /// Of a verb: a pass that begins when no other one is open has a line of its own.
    pub fn new() -> ReadingProgress {
        ReadingProgress(Mutex::new(Passes::new(false)))
    }

    /// Of queries, which begin with [`ReadingProgress::restart`]: all passes of one are counted together.
    pub fn of_queries() -> ReadingProgress {
        ReadingProgress(Mutex::new(Passes::new(true)))
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is read yet. There is a line again after [`ReadingProgress::quiet`].
    pub fn restart(&self) {
        self.passes().restart();
    }

    /// Removes the line; there is none from now on.
    pub fn quiet(&self) {
        let mut passes = self.passes();
        passes.line.end();
        passes.is_quiet = true;
    }
}

impl Default for ReadingProgress {
    fn default() -> ReadingProgress {
        ReadingProgress::new()
    }
}

impl Watch for ReadingProgress {
    fn begin(&self, bytes: Option<u64>) {
        let mut passes = self.passes();
        if passes.open == 0 && !passes.adds_up && !passes.is_quiet {
            passes.restart();
        }
        passes.open += 1;
        passes.expected = passes.expected.zip(bytes).map(|(all, bytes)| all.saturating_add(bytes));
    }

    fn passed(&self, bytes: u64) {
        let mut passes = self.passes();
        passes.passed = passes.passed.saturating_add(bytes);
        let Passes { line, expected, passed, is_quiet, .. } = &mut *passes;
        if *is_quiet {
            return;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        match expected.filter(|expected| *expected > 0) {
            Some(all) => {
                line.show_share(*passed as f64 / all as f64, || format!("reading {:.1} MiB", mib(all)));
            }
            None => line.show(|| format!("{:.1} MiB read", mib(*passed))),
        }
    }

    fn end(&self) {
        let mut passes = self.passes();
        passes.open = passes.open.saturating_sub(1);
        if passes.open == 0 {
            passes.line.end();
        }
    }
}
