// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending a build.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// Ends a build before it is done; shared with who wants that.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Not wanted yet.
    pub const fn new() -> Stop {
        Stop(AtomicBool::new(false))
    }

    /// Wanted from now on. May be called by a signal handler.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// An error where it is wanted.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }
}
