// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter language of kymo [spec/filter.md]: one language for recording, reading, triggers and views.
//!
//! [`parse`] gives a [`Filter`], [`Filter::check`] holds it against the events that there are, [`Checked`] and
//! [`Matcher`] decide records, and [`compile`] makes a [`Program`] of it that decides packed payloads inside of a
//! traced program. The crate opens nothing, has no clock, and knows no trace format.

mod ast;
mod check;
mod compile;
mod error;
mod latency;
mod matcher;
mod necessary;
mod open;
mod pair;
mod parse;
mod plan;
mod print;
#[doc(hidden)]
pub mod probe;
mod program;
mod schema;
mod token;
mod units;
mod wakeup;

pub use ast::{
    Arith, Compare, Context, Expr, ExprKind, FieldRef, Filter, Key, Latency, Named, PathStep, Pattern, context_field,
    is_recorded_context,
};
pub use check::Checked;
pub use compile::{CompileError, compile};
pub use error::{Error, Span};
pub use matcher::{Closed, KeptBegin, KeyPart, KeyValue, Matcher, PairCounts, PairLatency, Waiting};
pub use necessary::{Necessary, Say, necessary};
pub use open::{OPEN_MAX, Open};
pub use parse::{DEPTH_MAX, TEXT_BYTES_MAX, parse, parse_of_trace};
pub use plan::{Record, Value};
pub use program::{ACCEPT, INSNS_MAX, Insn, POOL_BYTES_MAX, Program, ProgramError, REJECT, check, op, run, ty};
pub use schema::{Event, Field, FieldPath, Label, Schema, ValueType};
