// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of a trace: packets by time, counts, summaries over time, and checkpoints of the machine's state
//! [spec/index.md].
//!
//! Joins kymo-ctf, which knows packets, and kymo-analyze, which knows states. It opens no file but indexes and looks at
//! no clock; what it says is never other than what reading the trace says, only sooner.

mod account;
mod bits;
mod buckets;
mod build;
mod checksum;
mod cpu_times;
mod error;
mod field_bytes;
mod field_columns;
mod field_head;
mod field_taker;
mod fields;
mod file;
mod fine;
mod flame_part;
mod growing;
mod head;
mod identity;
mod intersect;
mod known_entries;
mod latencies;
mod latency_bytes;
mod latency_head;
mod latency_maker;
mod latency_part;
mod latency_samples;
mod latency_who;
mod measuring;
mod nesting;
mod open;
mod painter;
mod picture;
mod picture_head;
mod picture_put;
mod picture_row;
mod picture_take;
#[cfg(test)]
mod picture_tests;
mod picture_words;
mod pictures;
#[doc(hidden)]
pub mod probe;
mod pyramid;
pub mod range;
mod samples_taken;
mod span_bytes;
mod span_head;
mod span_keeper;
mod span_maker;
mod span_pairs;
mod span_part;
mod span_parts;
#[cfg(test)]
mod span_tests;
mod span_whole;
mod spans;
mod states;
mod statistics;
mod statistics_bytes;
mod statistics_head;
mod statistics_maker;
mod statistics_names;
mod statistics_part;
#[cfg(test)]
mod statistics_tests;
mod stop;
mod sums;
mod units;
mod value_sums;
mod wake_bytes;
mod wake_head;
mod wake_maker;
mod wake_part;
mod wakes;
mod waking;
mod worker;
mod write;
mod written;
mod written_bytes;

pub use account::{Entry, EventCount, StreamCounts};
pub use buckets::{Buckets, COLUMNS_MAX};
pub use cpu_times::CPU_PARTS;
pub use error::Error;
pub use fields::{DamagedFields, FieldTimes};
pub use file::Piece;
pub use flame_part::{FLAME_DEPTH_MAX, FlameCrossing, FlamePart, FlamePath, FlameSums, longer};
pub use growing::GrowingIndex;
pub use identity::{FILE_NAME, in_cache};
pub use intersect::{Intersection, StreamStretch, intersection};
pub use latencies::LatencyStretch;
pub use latency_head::LatencyPlace;
pub use latency_part::{DensityCell, LatencyPart, LatencySeries, PastSample, Rank, cell_of, cell_range};
pub use nesting::{Asked, BegunSpan, Levels, NestedSpan, Nesting, Placed, WaitingPlaces, divided, within};
pub use open::{Indexes, Named, TraceIndex};
pub use picture::{CPU_STATES, CpuPicture, LATE_NS, Last, Late, LongCall, LongInterrupt, ShownCall, ThreadPicture};
pub use picture_head::PicturePlace;
pub use picture_row::{Cell, Cells, EVER, Kind, Long, Part, Row, Shown, What};
pub use picture_take::TakeThreads;
pub use pictures::{Gallery, Stretch};
pub use pyramid::{Cover, DamagedSums, Pyramid};
pub use span_keeper::{KeepHow, NotKept, SpanKeeper};
pub use span_pairs::{SpanPairs, WaitingSpan};
pub use span_part::{SpanCell, SpanEnd, SpanItem, SpanItems, SpanPart, SpanPlace, SpanRow};
pub use span_parts::{OpenSpan, RowSpan};
pub use span_whole::WholeSpans;
pub use spans::{FlamePlace, IndexedSpans, SpanPartPlace, SpanStretch, SpansAt};
pub use states::{Checkpoint, Spacing, States};
pub use statistics::StatisticsStretch;
pub use statistics_names::{WriterName, WriterNames};
pub use statistics_part::{CountedRecords, StatisticsPart, WriterRows};
pub use stop::Stop;
pub use sums::{Crossing, PartSums, Person, ThreadSums};
pub use units::{UnitContent, UnitPart};
pub use value_sums::{FieldValue, ValueSums};
pub use wake_part::{WakeArrow, WakeCount, WakePart, WakeRank, WakesOfThread};
pub use wakes::WakeStretch;
pub use write::{Built, How, NamedSpans, build};
pub use written_bytes::{StreamWriters, Stretch as WrittenStretch, WrittenRow};
