// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a trace cannot be opened, or a table not read.

use arrow_schema::ArrowError;
use kymo_names::{Containing, Near};

/// Why a trace cannot be opened, or a table not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No path was given.
    #[error("no trace was given")]
    NoTrace,
    /// A trace cannot be opened.
    #[error("{0}")]
    Open(#[from] kymo_ctf::read::Error),
    /// There is no such table.
    #[error("there is no table {name:?}{}", near_text(near))]
    UnknownTable {
        /// As it was asked for.
        name: String,
        /// Tables with a similar name.
        near: Vec<String>,
    },
    /// A table has no such column.
    #[error("table {table:?} has no column {name:?}{}", near_text(near))]
    UnknownColumn {
        /// The table.
        table: String,
        /// As it was asked for.
        name: String,
        /// Columns with a similar name.
        near: Vec<String>,
    },
    /// A filter that is none, or names what the traces do not have.
    #[error("{0}")]
    Filter(String),
    /// A part of a scan that this table does not have.
    #[error("table {table:?}: {message}")]
    Scan {
        /// The table.
        table: String,
        /// What is wrong.
        message: String,
    },
    /// A partition is of other traces than these.
    #[error("the partition is of trace {0}, which is not open: partitions are of a source with the same paths")]
    Partition(usize),
    /// Arrow's arrays cannot hold what was read.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// No thread could be started.
    #[error("no thread to read with: {0}")]
    Thread(#[from] std::io::Error),
    /// A defect of the reader, or too little memory: what came so far is not all.
    #[error("the reader of the table broke off, what was read so far is not all: {0}")]
    Panicked(String),
    /// [`crate::Scan::cancelled`] was set: what came so far is not all.
    #[error("cancelled")]
    Cancelled,
}

fn near_text(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => {
            format!("; did you mean {}?", near.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" or "))
        }
    }
}

/// What comes behind a name that there is not: names that are near to it.
const NEAR: Near = Near { edits_max: |characters| 1 + characters / 4, containing: Containing::Last, count: 3 };

/// Those of `names` that are nearly `wanted`, the nearest first.
pub(crate) fn near<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    // `step`, `motor.step` and `motor_step` may mean `motor:step`.
    let called: Vec<(&str, [String; 3])> = names
        .map(|name| {
            let last = name.rsplit(':').next().unwrap_or(name).to_owned();
            (name, [last, name.replace(':', "."), name.replace(':', "_")])
        })
        .collect();
    let texts = called.iter().map(|(name, called)| (*name, called.iter().map(String::as_str).chain([*name])));
    NEAR.of(wanted, texts).into_iter().map(str::to_owned).collect()
}

/// "; did you mean ...?", where one of `names` is near to `wanted`.
pub fn near_misses<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> String {
    near_text(&near(wanted, names))
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn mistyped_names_are_found() {
        let names = ["motor:step", "losses", "sched:sched_switch", "threads"];
        for (wanted, expect) in [
            ("motor:stp", &["motor:step"][..]),
            ("Motor:Step", &["motor:step"]),
            ("motor_step", &["motor:step"]),
            ("motor.step", &["motor:step"]),
            ("sched_switch", &["sched:sched_switch"]),
            ("loses", &["losses"]),
            ("nothing like it", &[]),
        ] {
            assert_eq!(near(wanted, names.into_iter()), expect, "{wanted}");
        }
    }
}
