// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as tables [spec/tables.md]: one for each event, and those that follow from the records. One definition for
//! SQL, Python and Parquet: names, types and units are decided here, values come from kymo-ctf, kymo-analyze and
//! kymo-query, as in the verbs. No SQL, and nothing is written.
//!
//! ```no_run
//! use kymo_tables::{OpenOptions, Scan, Source};
//!
//! let source = Source::open(&["trace".into()], &OpenOptions::default())?;
//! let scan = Scan { projection: Some(vec!["time".into(), "axis".into()]), ..Scan::default() };
//! for batch in source.scan("motor:step", &scan)? {
//!     println!("{} rows", batch?.num_rows());
//! }
//! # Ok::<(), kymo_tables::Error>(())
//! ```

mod ahead;
mod asked;
pub mod columns;
mod derived;
mod direct;
mod emit;
mod error;
mod functions;
mod hosts;
mod in_order;
mod known;
mod lab;
mod losses;
mod marks;
mod open;
mod partition;
mod people;
mod records;
mod reference;
mod scan;
mod shape;
mod source;

pub use ahead::Ahead;
pub use asked::TableFunction;
pub use error::{Error, near_misses};
pub use open::{OpenOptions, Watcher};
pub use partition::Partition;
pub use reference::reference;
pub use scan::{Batches, Scan};
pub use source::{Source, TableInfo};
