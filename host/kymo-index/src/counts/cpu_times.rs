// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of each CPU, by what it did, over time [spec/index.md 3].

use kymo_analyze::compact::Put;
use kymo_analyze::{Context, CpuSpan, Interrupt, Sink};
use kymo_feed::Visit;

use crate::counts::buckets::Buckets;

/// What a CPU's time goes to: rows of a CPU in [`crate::States::cpus`].
pub const CPU_PARTS: [&str; 5] = ["thread", "idle", "interrupt", "softirq", "unknown"];

/// Times of CPUs, by what they did.
#[derive(Debug)]
pub(crate) struct CpuTimes(pub Buckets);

impl CpuTimes {
    /// As a piece.
    pub fn bytes(&self) -> Vec<u8> {
        let mut put = Put::default();
        self.0.put(&mut put);
        put.0
    }
}

impl Visit for CpuTimes {}

impl Sink for CpuTimes {
    #[inline]
    fn cpu(&mut self, span: &CpuSpan) {
        let part = match span.context {
            Context::Thread(_) => 0,
            Context::Idle => 1,
            Context::Interrupt(Interrupt::Softirq(_) | Interrupt::Timer(_)) => 3,
            Context::Interrupt(_) => 2,
            Context::Unknown => 4,
        };
        let row = span.cpu as usize * CPU_PARTS.len() + part;
        self.0.make_rows(row + 1);
        // Before 1970 there were no traces.
        let time = |ns: i64| u64::try_from(ns).unwrap_or(0);
        self.0.add_span(row, time(span.from), time(span.to));
    }
}
