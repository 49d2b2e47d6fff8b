// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about a stretch of a trace, answered in columns no larger than what is asked for [spec/view.md].
//!
//! Pure functions over an opened trace and its index: no file is opened, no clock is read, nothing is decided about who
//! may ask. States, latencies, pairs and filters are those of kymo-analyze and kymo-filter, so that the picture of a
//! viewer and the text of a verb are the same. What verbs and questions share of choosing records is here too.
//!
//! An answer from records can become one from summaries in an index without a change for who asks: what zoomed-out
//! windows get are sums.

mod choose;
mod columns;
pub mod doing;
mod error;
mod event_counts;
pub mod filter;
mod keep;
mod kept;
pub mod learn;
mod machines;
mod names;
mod opened;
mod pace;
mod pairs;
mod parameters;
mod path;
mod people;
mod pixels;
mod questions;
mod record_columns;
mod slice_row;
mod span;
mod surroundings;
mod symbolize;
mod walk;

pub use choose::Chosen;
pub use columns::{Answer, Cell, Column, Lost, Table, Text, Texts, VERSION};
pub use error::{Error, Refused};
pub use event_counts::{EventCounts, event_counts};
pub use filter::Filters;
pub use keep::{Keep, cause_line};
pub use kept::KeepSpans;
pub use learn::{Learn, Who};
pub use machines::{Machine, Machines, Now, host_name, machine};
pub use names::{FunctionNames, NameTable};
pub use opened::{MakeSymbols, Opened};
pub use pairs::named_spans;
pub use parameters::{Parameters, Window};
pub use path::PathNames;
pub use questions::{QUESTIONS, Question, answer, keep_spans};
pub use span::{EndedSpan, SpanCounts, SpanKeys, Spans};
pub use surroundings::Surroundings;
pub use symbolize::Symbolize;
pub use walk::Stop;
