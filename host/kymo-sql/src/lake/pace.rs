// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes a second at most, as a mean [spec/lake.md 8].

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;

/// How long the wish to end may go unseen.
const LOOK: Duration = Duration::from_millis(50);

/// Who writes waits until what was written before had its time.
#[derive(Debug)]
pub struct Pace {
    bytes_per_s: u64,
    goes_on: fn() -> bool,
    /// When the next bytes may go.
    next: Mutex<Instant>,
}

impl Pace {
    /// So many bytes a second; waiting ends when `goes_on` says so.
    pub fn new(bytes_per_s: u64, goes_on: fn() -> bool) -> Pace {
        Pace { bytes_per_s: bytes_per_s.max(1), goes_on, next: Mutex::new(Instant::now()) }
    }

    /// Waits until these bytes may be written.
    ///
    /// # Errors
    /// Somebody wants it to end.
    pub async fn wait(&self, bytes: usize) -> anyhow::Result<()> {
        let begin = self.take(bytes, Instant::now());
        loop {
            let left = begin.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            ensure!((self.goes_on)(), "interrupted; nothing was added");
            tokio::time::sleep(left.min(LOOK)).await;
        }
    }

    /// When these bytes may be written.
    fn take(&self, bytes: usize, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*next).max(now);
        *next = begin + Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_time_of_its_bytes() {
        let pace = Pace::new(1000, || true);
        let now = Instant::now() + Duration::from_secs(1);
        let begins = [500, 250, 0, 1].map(|bytes| pace.take(bytes, now) - now);
        assert_eq!(begins.map(|time| time.as_millis()), [0, 500, 750, 750]);
        // What was not written for a while is not saved up.
        let later = now + Duration::from_secs(9);
        assert_eq!((pace.take(1000, later), pace.take(1, later)), (later, later + Duration::from_secs(1)));
    }

    #[test]
    fn waiting_ends_when_it_is_to_end() {
        let pace = Pace::new(1, || false);
        let wait = async {
            pace.wait(3600).await?;
            pace.wait(1).await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert!(runtime.block_on(wait).unwrap_err().to_string().contains("interrupted"));
    }
}
