// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of the kernel's latency tracers as text: irqsoff, preemptoff, preemptirqsoff, wakeup, wakeup_rt, wakeup_dl,
//! of kernels from 2.6.2x to today [spec/analyze.md 11].
//!
//! Parsed by what stands in the head (which columns there are), not by a kernel's version. Bounded: a line that is not
//! understood is counted, and nothing that a report says is trusted.

mod body;
mod content;
mod findings;
mod flags;
mod head;
mod text;

pub use content::{Form, Line, Measures, NoReport, Report, Task, Woken};
pub use findings::{Findings, Gap};
pub use flags::{Column, in_words};

/// Bytes of a report that are looked at.
pub const BYTES_MAX: usize = 64 << 20;
impl Report {
    /// Whether a text is likely to be one; looks at its first lines only.
    pub fn is_likely(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(16 << 10)]);
        text.lines().take(content::HEAD_LINES).any(|line| head::tracer(line).is_some() || head::title(line).is_some())
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`NoReport`] where the text is none, or has no entry.
    pub fn parse(bytes: &[u8]) -> Result<Report, NoReport> {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES_MAX)]);
        let mut report = head::read(&text)?;
        report.is_cut |= bytes.len() > BYTES_MAX;
        body::read(&text, &mut report);
        if report.lines.is_empty() {
            return Err(NoReport::Empty(report.tracer));
        }
        Ok(report)
    }
}
