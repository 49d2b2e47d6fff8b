// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of a trace: packets by time, counts, summaries over time, and checkpoints of the machine's state
//! [spec/index.md].
//!
//! Joins kymo-ctf, which knows packets, and kymo-analyze, which knows states. It opens no file but indexes and looks at
//! no clock; what it says is never other than what reading the trace says, only sooner.

mod build;
mod counts;
mod error;
mod fields;
mod file;
mod growing;
mod intersect;
mod latencies;
mod open;
mod pictures;
#[doc(hidden)]
pub mod probe;
mod pyramid;
pub mod range;
mod spans;
mod states;
mod statistics;
mod wakes;

pub use build::stop::Stop;
pub use build::write::{Built, How, NamedSpans, build};
pub use counts::account::{Entry, EventCount, StreamCounts};
pub use counts::buckets::{Buckets, COLUMNS_MAX};
pub use counts::cpu_times::CPU_PARTS;
pub use error::Error;
pub use fields::sums::{FieldValue, ValueSums};
pub use fields::{DamagedFields, FieldTimes};
pub use file::Piece;
pub use file::identity::{FILE_NAME, in_cache};
pub use growing::GrowingIndex;
pub use intersect::{Intersection, StreamStretch, intersection};
pub use latencies::LatencyStretch;
pub use latencies::head::LatencyPlace;
pub use latencies::part::{DensityCell, LatencyPart, LatencySeries, PastSample, Rank, cell_of, cell_range};
pub use open::{Indexes, Named, TraceIndex};
pub use pictures::head::PicturePlace;
pub use pictures::part::{
    CPU_STATES, CpuPicture, LATE_NS, Last, Late, LongCall, LongInterrupt, ShownCall, ThreadPicture,
};
pub use pictures::row::{Cell, Cells, EVER, Kind, Long, Part, Row, Shown, What};
pub use pictures::take::TakeThreads;
pub use pictures::{Gallery, Stretch};
pub use pyramid::sums::{Crossing, PartSums, Person, ThreadSums};
pub use pyramid::units::{UnitContent, UnitPart};
pub use pyramid::{Cover, DamagedSums, Pyramid};
pub use spans::flame::{FLAME_DEPTH_MAX, FlameCrossing, FlamePart, FlamePath, FlameSums, longer};
pub use spans::keeper::{KeepHow, NotKept, SpanKeeper};
pub use spans::nesting::{Asked, BegunSpan, Levels, NestedSpan, Nesting, Placed, WaitingPlaces, divided, within};
pub use spans::pairs::{SpanPairs, WaitingSpan};
pub use spans::part::{SpanCell, SpanEnd, SpanItem, SpanItems, SpanPart, SpanPlace, SpanRow};
pub use spans::parts::{OpenSpan, RowSpan};
pub use spans::whole::WholeSpans;
pub use spans::{FlamePlace, IndexedSpans, SpanPartPlace, SpanStretch, SpansAt};
pub use states::{Checkpoint, Spacing, States};
pub use statistics::StatisticsStretch;
pub use statistics::names::{WriterName, WriterNames};
pub use statistics::part::{CountedRecords, StatisticsPart, WriterRows};
pub use statistics::written_bytes::{StreamWriters, Stretch as WrittenStretch, WrittenRow};
pub use wakes::WakeStretch;
pub use wakes::part::{WakeArrow, WakeCount, WakePart, WakeRank, WakesOfThread};
