//! The filter language of kymo [spec/filter.md]: one language for recording, reading, triggers and views.
//!
//! [`parse`] gives a [`Filter`], [`Filter::check`] holds it against the events that there are, [`Checked`] decides
//! records, and [`compile`] makes a [`Program`] of it that decides packed payloads inside of a traced program. The
//! crate opens nothing, has no clock, and knows no trace format.

mod ast;
mod error;
mod parse;
mod print;
mod token;
mod units;

pub use ast::{Arith, Compare, Context, Expr, ExprKind, FieldRef, Filter, Latency, Pattern, Step};
pub use error::{Error, Span};
pub use parse::{DEPTH_MAX, KEYS_MAX, TEXT_BYTES_MAX, parse};
