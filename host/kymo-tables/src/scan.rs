// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is asked of a table, and its rows as they come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::ahead::Ahead;
use crate::error::Error;
use crate::partition::Partition;

/// What is asked of a table. By default: all.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Columns, in this order; none: all.
    pub projection: Option<Vec<String>>,
    /// Rows whose `time` is not before this, ns.
    pub from: Option<i64>,
    /// Rows whose `time` is before this, ns.
    pub to: Option<i64>,
    /// Rows of these CPUs.
    pub cpus: Option<Vec<u32>>,
    /// Rows of these threads.
    pub tids: Option<Vec<i64>>,
    /// Records of events that match one of these names or globs.
    pub events: Option<Vec<String>>,
    /// Records of events with one of these names, as they are.
    pub names: Option<Vec<String>>,
    /// Records for which this holds: kymo's filter language [spec/filter.md].
    pub filter: Option<String>,
    /// Rows at most.
    pub limit: Option<u64>,
    /// A part of the table.
    pub partition: Option<Partition>,
    /// Rows whose `end_time` is not before this, ns: of tables of stretches.
    pub end_from: Option<i64>,
    /// Rows whose `end_time` is before this, ns: of tables of stretches.
    pub end_to: Option<i64>,
    /// Rows may come in any order, which is faster; else records come in the order of time.
    pub any_order: bool,
    /// Threads that read at once, in parts of the table, where indexes say where these begin.
    pub ahead: Ahead,
    /// Ends the scan as soon as it is set.
    pub cancelled: Arc<AtomicBool>,
}

impl Scan {
    /// Whether a row of this thread is asked for.
    #[inline]
    pub(crate) fn wants_tid(&self, tid: Option<i64>) -> bool {
        self.tids.as_ref().is_none_or(|tids| tid.is_some_and(|tid| tids.contains(&tid)))
    }

    /// Whether a row of this CPU is asked for.
    #[inline]
    pub(crate) fn wants_cpu(&self, cpu: Option<u32>) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpu.is_some_and(|cpu| cpus.contains(&cpu)))
    }

    /// Whether a row of this time is asked for.
    #[inline]
    pub(crate) fn wants_time(&self, time: Option<i64>) -> bool {
        let Some(time) = time.filter(is_time) else { return self.from.is_none() && self.to.is_none() };
        self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time < to)
    }

    /// Whether a row that ends then is asked for.
    #[inline]
    pub(crate) fn wants_end(&self, end: Option<i64>) -> bool {
        let Some(end) = end.filter(is_time) else { return self.end_from.is_none() && self.end_to.is_none() };
        self.end_from.is_none_or(|from| end >= from) && self.end_to.is_none_or(|to| end < to)
    }

    /// The stretch of time of its partition: from, to.
    pub(crate) fn part(&self) -> (Option<i64>, Option<i64>) {
        self.partition.as_ref().map_or((None, None), |part| (part.from, part.to))
    }
}

/// Whether a column has such a time: clamped ones, behind the year 2262, are null.
pub(crate) fn is_time(ns: &i64) -> bool {
    !matches!(*ns, i64::MIN | i64::MAX)
}

/// Rows of a table, as they are read: by a thread that ends with this.
pub struct Batches {
    schema: SchemaRef,
    receiver: Receiver<Result<RecordBatch, Error>>,
    /// The thread has ended.
    is_read: Arc<AtomicBool>,
    /// Nobody wants more.
    is_dropped: Arc<AtomicBool>,
}

impl Batches {
    pub(crate) fn new(
        schema: SchemaRef,
        receiver: Receiver<Result<RecordBatch, Error>>,
        is_read: Arc<AtomicBool>,
        is_dropped: Arc<AtomicBool>,
    ) -> Batches {
        Batches { schema, receiver, is_read, is_dropped }
    }

    /// Whether all of them were read, and only wait.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.receiver.recv().ok()
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
    }
}
