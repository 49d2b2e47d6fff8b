//! Traces and results of other tools, and for them.

pub mod export;
pub mod import;
