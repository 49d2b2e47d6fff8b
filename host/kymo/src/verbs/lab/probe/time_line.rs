// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line of progress of a test that has a duration: how much of it is over, and what is left.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kymo_command::terminal::Progress;
use serde_json::Value;

use super::measure::Beside;
use super::setup::Test;

/// Time between two lines.
const STEP: Duration = Duration::from_millis(200);

/// Shows the line while the probe measures.
pub(super) struct TimeLine {
    name: &'static str,
    duration: Option<Duration>,
    /// The thread that shows it, and what ends it by being dropped.
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl TimeLine {
    /// No line yet. None at all without a duration, or where standard error is no terminal.
    pub(super) fn new(test: &Test<'_>) -> TimeLine {
        let ns = test.options.get("duration_ns").and_then(Value::as_u64);
        TimeLine { name: test.name, duration: ns.map(Duration::from_nanos), shown: None }
    }
}

impl Beside for TimeLine {
    fn ready(&mut self, _tids: &[u32]) -> anyhow::Result<()> {
        let mut progress = Progress::new();
        let Some(duration) = self.duration.filter(|_| progress.is_shown()) else { return Ok(()) };
        let (name, begun) = (self.name, Instant::now());
        let (stop, stopped) = channel();
        let show = move || {
            while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                progress.show_share(begun.elapsed().as_secs_f64() / duration.as_secs_f64(), || name.to_owned());
            }
        };
        self.shown = Some((stop, thread::spawn(show)));
        Ok(())
    }

    fn over(&mut self) {
        if let Some((stop, thread)) = self.shown.take() {
            drop(stop);
            // It has removed its line when it ends.
            let _ = thread.join();
        }
    }
}
