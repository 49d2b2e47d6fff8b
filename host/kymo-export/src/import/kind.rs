// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats of files that can be imported.

/// Formats that are known, as a message lists them.
pub const FORMATS: &str =
    "trace-cmd trace.dat (6, 7), ftrace text (trace, trace_pipe, trace-cmd report), perf script text";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `trace.dat` of trace-cmd.
    TraceDat,
    /// Text of ftrace, or of `trace-cmd report`.
    Ftrace,
    /// Text of `perf script`.
    PerfScript,
}

impl Kind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::TraceDat => "trace.dat",
            Kind::Ftrace => "ftrace text",
            Kind::PerfScript => "perf script",
        }
    }
}
