//! Reports of the kernel's latency tracers as text: irqsoff, preemptoff, preemptirqsoff, wakeup, wakeup_rt, wakeup_dl,
//! of kernels from 2.6.2x to today [spec/analyze.md 11].
//!
//! Parsed by what stands in the head (which columns there are), not by a kernel's version. Bounded: a line that is not
//! understood is counted, and nothing that a report says is trusted.

mod body;
mod findings;
mod flags;
mod head;
mod text;

pub use body::{Line, Woken};
pub use findings::{Findings, Gap};
pub use flags::{Column, in_words};
pub use head::Task;

/// Bytes of a report that are looked at.
pub const BYTES_MAX: usize = 64 << 20;
/// Lines of a body that are kept.
const LINES_MAX: usize = 1 << 20;
/// Lines in which a report must be recognised.
const HEAD_LINES: usize = 64;

/// The tracers.
const TRACERS: [&str; 6] = ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup", "wakeup_rt", "wakeup_dl"];

/// What a report measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measures {
    /// Interrupts off.
    Irqs,
    /// Preemption off.
    Preemption,
    /// Either of them off, without a break.
    Either,
    /// From the wake-up of a thread until it runs.
    Wakeup,
    /// The old tracer, whose kernel could be set to any of them, and does not say to which.
    Unsaid,
}

/// How lines of the body look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `ps-6143  2d..1  259us+: function <-caller`.
    Latency,
    /// `ps-6143 [002] d..1  44.922973: function <-caller`.
    Absolute,
    /// `0 us |  0)  ps-6143  | d..1 | 0.378 us | function();`.
    Graph,
}

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The tracer's name; `preemption` where an old report does not say.
    pub tracer: String,
    /// What it measures.
    pub measures: Measures,
    /// The head is of 2.6.2x: without `#`, `+` marks gaps above 1 us.
    pub is_old: bool,
    /// Release of the kernel; may be empty.
    pub kernel: String,
    /// The length that the kernel measured, us.
    pub latency_us: Option<u64>,
    /// Entries shown, and in all.
    pub entries: Option<(u64, u64)>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// How the kernel preempts: `preempt_rt`, `desktop`, ...; may be empty.
    pub model: String,
    /// CPUs that were online.
    pub cpus: Option<u32>,
    /// The thread that was current, or that was woken.
    pub task: Option<Task>,
    /// Where it began; may be empty.
    pub started: String,
    /// Where it ended; may be empty.
    pub ended: String,
    /// The columns of flags.
    pub columns: Vec<Column>,
    /// The body.
    pub form: Form,
    /// Its lines, as they stand.
    pub lines: Vec<Line>,
    /// Lines that were not understood.
    pub odd: u64,
    /// There was more than is looked at.
    pub is_cut: bool,
}

/// Why a text is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReport {
    /// It does not look like one.
    #[error(
        "not a report of a latency tracer: neither '# tracer: irqsoff' (preemptoff, preemptirqsoff, wakeup, wakeup_rt, \
         wakeup_dl) nor 'latency trace v1' in its first {HEAD_LINES} lines"
    )]
    Unknown,
    /// Of another tracer.
    #[error(
        "a report of the tracer {0:?}; explained are those of irqsoff, preemptoff, preemptirqsoff, wakeup, wakeup_rt, \
         wakeup_dl"
    )]
    OtherTracer(String),
    /// It has no entry.
    #[error("the report of {0} has no entry: nothing was measured between its start and its reading")]
    Empty(String),
}

impl Report {
    /// Whether a text is likely to be one; looks at its first lines only.
    pub fn is_likely(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(16 << 10)]);
        text.lines().take(HEAD_LINES).any(|line| head::tracer(line).is_some() || head::title(line).is_some())
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
