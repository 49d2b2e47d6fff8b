// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line on a terminal that says how far a verb is. It is written over, cut to the terminal's width, and removed at
//! the end. The share and the time left are shown where the whole amount is known.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Least time between two lines.
const STEP: Duration = Duration::from_millis(200);
/// Before this much time and this share the rest is a guess.
const GUESS_AFTER: Duration = Duration::from_secs(1);
const GUESS_SHARE: f64 = 0.01;
/// Where the terminal does not tell its width.
const WIDTH: usize = 80;
/// Clears the line that the cursor is in.
const CLEAR: &str = "\r\x1b[K";

/// The line.
pub struct Progress {
    is_shown: bool,
    begun: Instant,
    next: Instant,
    has_line: bool,
}

impl Progress {
    /// Shown where standard error is a terminal.
    pub fn new() -> Progress {
        Progress::wanted(true)
    }

    /// The same, and only where it is wanted.
    pub fn wanted(is_wanted: bool) -> Progress {
        let now = Instant::now();
        let is_shown = is_wanted && std::io::stderr().is_terminal();
        Progress { is_shown, begun: now, next: now + STEP, has_line: false }
    }

    /// Whether there is anybody to show it to.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Shows a line unless the last one is too young.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_shown && Instant::now() >= self.next {
            self.show_now(&text());
        }
    }

    /// The same for a part of a known amount: per cent and the time left are added.
    pub fn show_share(&mut self, done: f64, text: impl FnOnce() -> String) {
        let elapsed = self.begun.elapsed();
        self.show(|| format!("{}: {}", text(), share(done, elapsed)));
    }

    /// Shows a line at once.
    pub fn show_now(&mut self, text: &str) {
        if !self.is_shown {
            return;
        }
        self.next = Instant::now() + STEP;
        self.has_line = true;
        let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(WIDTH, |(width, _)| width.0.into());
        let _ = write!(std::io::stderr(), "{CLEAR}{}", fitted(&format!("kymo: {text}"), width));
    }

    /// The same for a part of a known amount.
    pub fn show_share_now(&mut self, done: f64, text: &str) {
        let elapsed = self.begun.elapsed();
        self.show_now(&format!("{text}: {}", share(done, elapsed)));
    }

    /// Removes the line, for the output that follows.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.has_line) {
            let _ = write!(std::io::stderr(), "{CLEAR}");
        }
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// `40 %, 12 s left`; without the time where it would be a guess. `done` is a share, 0 to 1.
fn share(done: f64, elapsed: Duration) -> String {
    let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
    let mut text = format!("{:.0} %", (done * 100.0).floor());
    if elapsed >= GUESS_AFTER && done >= GUESS_SHARE {
        let left = elapsed.as_secs_f64() * (1.0 - done) / done;
        text += &format!(", {} left", time(left));
    }
    text
}

/// Seconds as a person reads them.
fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// No wider than the terminal: a line that wraps could not be removed. One column stays free for the cursor.
fn fitted(text: &str, width: usize) -> String {
    let width = width.saturating_sub(1);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.chars().count() > width {
        true => text.chars().take(width).collect(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_the_time_left() {
        let check = |done: f64, seconds: f64, expect: &str| {
            assert_eq!(share(done, Duration::from_secs_f64(seconds)), expect, "{done} {seconds}");
        };
        check(0.0, 10.0, "0 %");
        check(0.5, 0.5, "50 %");
        check(0.25, 5.0, "25 %, 15 s left");
        check(0.999, 60.0, "99 %, 1 s left");
        check(1.0, 60.0, "100 %, 0 s left");
        check(0.01, 30.0, "1 %, 49 min 30 s left");
        check(0.01, 3600.0, "1 %, 99 h 00 min left");
        check(f64::NAN, 5.0, "0 %");
        check(7.0, 5.0, "100 %, 0 s left");
    }

    #[test]
    fn a_line_is_no_wider_than_the_terminal() {
        assert_eq!(fitted("kymo: abc", 80), "kymo: abc");
        assert_eq!(fitted("kymo: abc", 8), "kymo: a");
        assert_eq!(fitted("äöü", 3), "äö");
        assert_eq!(fitted("a\x1b[2Jb\n", 80), "a [2Jb ");
        assert_eq!(fitted("x", 0), "");
    }
}
