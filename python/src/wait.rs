// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for other threads: without the GIL, and with Ctrl-C. Python's own signal handlers run in its main thread
//! only, and only while that runs Python: so the work is done elsewhere, and who waits for it looks after signals.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::KymoError;

/// How long Ctrl-C may go unseen.
pub const LOOK: Duration = Duration::from_millis(50);

/// Does work in a thread of its own. When the caller is interrupted it goes on, and nobody looks at what it gives:
/// whoever can end it does so in `stop`.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    stop: impl FnOnce(),
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let worker = move || drop(sender.send(work()));
    let thread = thread::Builder::new().name("kymotrace".to_owned()).spawn(worker);
    thread.map_err(|error| KymoError::new_err(format!("no thread to read with: {error}")))?;
    loop {
        let waiting = &mut receiver;
        match py.detach(move || waiting.recv_timeout(LOOK)) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals() {
                    stop();
                    return Err(signal);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(KymoError::new_err("the thread that read the trace ended without an answer"));
            }
        }
    }
}
