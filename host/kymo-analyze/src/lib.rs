// SPDX-License-Identifier: MIT OR Apache-2.0
//! From records to findings [spec/analyze.md]: the state of a machine over time, and what is found from it.
//!
//! Pure: no file, no clock, no trace format. A reader describes its classes to a [`Vocabulary`], decodes records by
//! the [`Plan`]s that it
//! gives, and moves a [`State`] by the [`Event`]s; a [`Sink`] takes the spans.
//!
//! ```
//! use kymo_analyze::{Class, Field, Head, ValueKind, Record, Sink, State, ThreadSpan, Thread, Vocabulary};
//!
//! struct Numbers([i128; 3]);
//! impl Record for Numbers {
//!     fn integer(&self, position: usize) -> Option<i128> { self.0.get(position).copied() }
//!     fn float(&self, _: usize) -> Option<f64> { None }
//!     fn text(&self, _: usize) -> Option<std::borrow::Cow<'_, str>> { None }
//! }
//! struct Print;
//! impl Sink for Print {
//!     fn thread(&mut self, span: &ThreadSpan, thread: &Thread) { println!("{} {:?}", thread.tid, span.doing); }
//! }
//!
//! let field = |(position, name): (usize, &&str)| Field { name: name.to_string(), kind: ValueKind::Integer, position };
//! let fields = ["prev_pid", "prev_state", "next_pid"].iter().enumerate().map(field).collect();
//! let mut vocabulary = Vocabulary::new();
//! let plan = vocabulary.learn(&Class { name: "sched:sched_switch".into(), fields }).unwrap();
//! let mut state = State::new(&vocabulary);
//! let head = Head { time: 1_000, cpu: Some(0), tid: Some(7) };
//! let event = plan.decode(&Numbers([7, 1, 8])).unwrap();
//! state.apply(&head, &event, &mut Print);
//! assert_eq!(state.cpu(0).unwrap().thread(), Some(8));
//! ```

mod align;
mod budget;
pub mod calls;
pub mod cause;
pub mod compact;
mod critical;
mod distribution;
mod doubt;
mod event;
pub mod explain;
mod form;
pub mod functions;
pub mod hash;
pub mod heap;
mod history;
mod latency;
mod lost_until;
mod name;
mod names;
mod plan;
mod record;
mod recorders;
mod series;
pub mod shown;
mod sink;
mod span;
mod state;
mod stats;
pub mod syscall;
mod units;
pub mod usage;

pub use align::{Interval, Message, Refusal, Relation, align_common, align_messages};
pub use budget::{BudgetPart, Piece, Share};
pub use critical::{Act, Path, PathStep};
pub use distribution::{Distribution, Number};
pub use doubt::Doubt;
pub use event::{CallId, Event, Interrupt, Io, Leaves, Off, SOFTIRQS, VECTORS, Wake};
pub use history::{History, SPANS_MAX};
pub use latency::{Begun, By, Key, Latency, Left, Of, Options, Request, SampleGroup, Sampler, TakeSamples, What};
pub use lost_until::LostUntil;
pub use name::Name;
pub use names::{Facts, Vocabulary};
pub use plan::Plan;
pub use record::{Class, Field, Head, Record, ValueKind};
pub use recorders::Recorders;
pub use series::{QUANTILES, Quantile, Sample, SampleSums, Series};
pub use sink::Sink;
pub use span::{CallSpan, Context, CpuSpan, Doing, InterruptSpan, OffSpan, Ready, ThreadSpan, Unmatched, Until, Waker};
pub use state::{Call, Cpu, Frame, Identity, STATE_VERSION, Since, State, Thread, Threads};
pub use stats::{LEVELS_MAX, Level, Stats, StatsRow, Writer};
pub use units::{duration, priority, signed_duration};
