// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a query has read its traces, in a line on a terminal. A query has several readers at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt as _;
use kymo_command::terminal::Progress;
use kymo_ctf::read::Watch;

/// The line. Removed before the first row is written where rows go to a terminal, too.
pub struct QueryProgress(Mutex<Passes>);

struct Passes {
    line: Progress,
    /// Bytes of all passes so far; none where one did not know them before.
    expected: Option<u64>,
    passed: u64,
    /// Passes that are not over.
    open: usize,
    /// Rows are being written: there is no line any more.
    is_quiet: bool,
}

impl QueryProgress {
    /// Nothing is read yet.
    pub fn new() -> QueryProgress {
        let (line, expected) = (Progress::new(), Some(0));
        QueryProgress(Mutex::new(Passes { line, expected, passed: 0, open: 0, is_quiet: false }))
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another query begins.
    pub fn begin_query(&self) {
        let mut passes = self.passes();
        passes.line.end();
        *passes = Passes { line: Progress::new(), expected: Some(0), passed: 0, open: 0, is_quiet: false };
    }

    /// No line from now on.
    pub fn quiet(&self) {
        let mut passes = self.passes();
        passes.line.end();
        passes.is_quiet = true;
    }
}

impl Default for QueryProgress {
    fn default() -> QueryProgress {
        QueryProgress::new()
    }
}

impl Watch for QueryProgress {
    fn begin(&self, bytes: Option<u64>) {
        let mut passes = self.passes();
        passes.open += 1;
        passes.expected = passes.expected.zip(bytes).map(|(all, bytes)| all.saturating_add(bytes));
    }

    fn passed(&self, bytes: u64) {
        let mut passes = self.passes();
        passes.passed = passes.passed.saturating_add(bytes);
        let Passes { line, expected, passed, is_quiet, .. } = &mut *passes;
        if *is_quiet {
            return;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        match expected.filter(|expected| *expected > 0) {
            Some(all) => {
                line.show_share(*passed as f64 / all as f64, || format!("reading {:.1} MiB", mib(all)));
            }
            None => line.show(|| format!("{:.1} MiB read", mib(*passed))),
        }
    }

    fn end(&self) {
        let mut passes = self.passes();
        passes.open = passes.open.saturating_sub(1);
        if passes.open == 0 {
            passes.line.end();
        }
    }
}

/// The rows of a query; with the first one the line is gone.
pub fn until_first_row(stream: SendableRecordBatchStream, progress: Arc<QueryProgress>) -> SendableRecordBatchStream {
    let schema: SchemaRef = stream.schema();
    let rows = stream.inspect(move |_| progress.quiet());
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
