// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the line that shows how far a query is has to go.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt as _;
use kymo_command::terminal::ReadingProgress;

/// The rows of a query; with the first one the line is gone.
pub fn until_first_row(stream: SendableRecordBatchStream, progress: Arc<ReadingProgress>) -> SendableRecordBatchStream {
    let schema: SchemaRef = stream.schema();
    let rows = stream.inspect(move |batch| {
        if batch.as_ref().map_or(1, RecordBatch::num_rows) > 0 {
            progress.quiet();
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
