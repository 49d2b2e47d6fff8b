// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of rows from the thread that reads to who asked for them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::Error;
use crate::scan::{Batches, Scan};

/// Batches that wait to be taken at most.
const WAITING_MAX: usize = 2;
/// The same of a part of a table that is read in front of its turn: all of it.
const WAITING_AHEAD_MAX: usize = 1024;

/// Why a scan ends before its table does.
pub(crate) enum Ended {
    /// There are as many rows as were asked for, or nobody wants more.
    Enough,
    /// It cannot go on.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended::Failed(error.into())
    }
}

/// Where rows go.
pub(crate) struct Emit {
    sender: SyncSender<Result<RecordBatch, Error>>,
    /// Rows that are still wanted.
    left: u64,
    cancelled: Arc<AtomicBool>,
    is_dropped: Arc<AtomicBool>,
}

impl Emit {
    /// Whether somebody wants more.
    pub fn goes_on(&self) -> bool {
        !self.cancelled.load(Ordering::Relaxed) && !self.is_dropped.load(Ordering::Relaxed)
    }

    /// The same, as a result.
    pub fn check(&self) -> Result<(), Ended> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Ended::Failed(Error::Cancelled));
        }
        if self.is_dropped.load(Ordering::Relaxed) { Err(Ended::Enough) } else { Ok(()) }
    }

    /// How many rows are still wanted.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Hands on some rows.
    pub fn send(&mut self, batch: RecordBatch) -> Result<(), Ended> {
        self.check()?;
        let rows = batch.num_rows() as u64;
        if rows == 0 {
            return Ok(());
        }
        let batch = if rows > self.left { batch.slice(0, self.left as usize) } else { batch };
        self.left -= self.left.min(rows);
        self.sender.send(Ok(batch)).map_err(|_| Ended::Enough)?;
        if self.left == 0 { Err(Ended::Enough) } else { Ok(()) }
    }
}

/// What a panic said.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a word").to_owned()
}

/// Runs `read` in a thread of its own.
pub(crate) fn start(
    schema: SchemaRef,
    scan: &Scan,
    read: impl FnOnce(&mut Emit) -> Result<(), Ended> + Send + 'static,
) -> Result<Batches, Error> {
    let (sender, receiver) = sync_channel(if scan.ahead.is_part { WAITING_AHEAD_MAX } else { WAITING_MAX });
    let is_read = Arc::new(AtomicBool::new(false));
    let own_is_read = Arc::clone(&is_read);
    let is_dropped = Arc::new(AtomicBool::new(false));
    let left = scan.limit.unwrap_or(u64::MAX);
    let mut emit = Emit { sender, left, cancelled: scan.cancelled.clone(), is_dropped: is_dropped.clone() };
    let work = move || {
        let _ends = SetAtEnd(own_is_read);
        if emit.left == 0 {
            return;
        }
        // Whoever takes the rows must not see the end of the table where the reader broke off.
        let error = match catch_unwind(AssertUnwindSafe(|| read(&mut emit))) {
            Ok(Ok(()) | Err(Ended::Enough)) => return,
            Ok(Err(Ended::Failed(error))) => error,
            Err(panic) => Error::Panicked(text_of(&*panic)),
        };
        // Who does not take it wants no rows either.
        let _ = emit.sender.send(Err(error));
    };
    std::thread::Builder::new().name("kymo-tables".to_owned()).spawn(work)?;
    Ok(Batches::new(schema, receiver, is_read, is_dropped))
}

/// Sets a flag when a thread ends, however it does.
struct SetAtEnd(Arc<AtomicBool>);

impl Drop for SetAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::Schema;

    use super::*;

    /// What breaks off does not look like the end.
    #[test]
    fn a_reader_that_panics_is_an_error() {
        let schema = SchemaRef::new(Schema::empty());
        let mut batches = start(schema, &Scan::default(), |_| panic!("arrow's array is full")).unwrap();
        let error = batches.next().map(|batch| batch.map_err(|error| error.to_string()));
        assert!(matches!(&error, Some(Err(message)) if message.contains("arrow's array is full")), "{error:?}");
        assert!(batches.next().is_none());
    }
}
