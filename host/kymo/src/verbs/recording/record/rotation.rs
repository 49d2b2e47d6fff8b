// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that goes on in a new directory by itself: the turn of whoever waits for a session's end.

use std::time::{Duration, Instant};

use kymo_collect::Session;

/// After a rotation that failed the next one is not tried before this.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What there is to remember between two turns.
#[derive(Default)]
pub struct Rotating {
    failed: Option<Instant>,
    /// What was said of the last failure: once is enough.
    said: String,
}

impl Rotating {
    /// Cuts the trace where it is time for that. A failure is said on standard error; the trace goes on where it is.
    pub fn turn(&mut self, session: &mut Session) {
        if self.failed.is_some_and(|failed| failed.elapsed() < AFTER_FAILURE) {
            return;
        }
        match session.rotate_if_due() {
            Ok(_) => self.failed = None,
            Err(error) => {
                self.failed = Some(Instant::now());
                let text = error.to_string();
                if text != self.said {
                    crate::verbs::say(&format!("the trace goes on where it is: {text}"));
                    self.said = text;
                }
            }
        }
    }

    /// How long until the next turn, if one is due by itself.
    pub fn next_turn(&self, session: &Session) -> Option<Duration> {
        let rest = self.failed.map(|failed| AFTER_FAILURE.saturating_sub(failed.elapsed())).unwrap_or_default();
        session.next_rotation().map(|next| next.max(rest))
    }
}
