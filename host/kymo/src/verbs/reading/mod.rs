// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that are there: as text, as sums, as explanations; and the look-ups that these share.

pub mod analyze;
pub mod critical;
pub mod explain;
pub mod functions;
pub mod heap;
pub mod index;
pub mod latency;
pub mod read;
pub mod state;
pub mod stats;
pub mod symbols;
pub mod top;
pub mod view;

pub use kymo_command::hosts;
