//! The latency laboratory [spec/lab.md]: what a latency test measured, as a complete record, and what can be said of it.
//!
//! Pure functions and plain data; who measures, and where files are, is for others.

mod compare;
mod histogram;
mod import;
mod probe;
pub mod report;
mod result;
pub mod stats;

pub use compare::{
    COMPARE_SCHEMA, CompareOptions, Compared, Comparison, Difference, FALSE_LEVEL, Merged, Metric, MetricCompared,
    NoValue, Outcome, RUNS_MIN, Side, Unmatched, compare,
};
pub use histogram::{Bucket, Histogram};
pub use import::{FORMATS, ImportError, SERIES_MAX, import};
pub use probe::{Reading, Said, caveat};
pub use result::{Caveat, Ended, Floor, Overflow, Record, SCHEMA, Series, Severity, Source, Thread, WORST_MAX, Worst};
