// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tables of traces and those of a lake have in common as parts of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{Partitioning, PlanProperties};
use futures::StreamExt as _;
use kymo_command::interrupt::is_over;

/// Batches that wait between a reader and the operators.
pub const WAITING: usize = 2;

/// What is said after Ctrl-C.
pub const INTERRUPTED: &str = "interrupted: the result is not whole";

/// Names of tables in a schema, each with its name in the source.
pub type TableNames = BTreeMap<String, String>;

/// Schemas: the one with all tables, called `main`, and those of the first parts of events' names, in which
/// `motor:step` is `step`. `tables`: names, and whether a table is of one event.
pub fn schemas(tables: impl Iterator<Item = (String, bool)>, main: &str) -> BTreeMap<String, TableNames> {
    let mut schemas: BTreeMap<String, TableNames> = BTreeMap::new();
    for (table, is_event) in tables {
        if let Some((first, rest)) = table.split_once(':').filter(|_| is_event) {
            schemas.entry(first.to_owned()).or_default().insert(rest.to_owned(), table.clone());
        }
        schemas.entry(main.to_owned()).or_default().insert(table.clone(), table);
    }
    schemas
}

/// The same rows, which end with an error after Ctrl-C: operators that look at nothing but their rows end then, too,
/// and remove their temporary files.
pub fn until_over(stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let rows = stream.map(|batch| match is_over() {
        true => Err(DataFusionError::Execution(INTERRUPTED.to_owned())),
        false => batch,
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// The same rows, computed by another thread: who waits for them sees what else happens.
pub fn aside(mut stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let mut aside = RecordBatchReceiverStream::builder(stream.schema(), WAITING);
    let sender = aside.tx();
    aside.spawn(async move {
        while let Some(batch) = stream.next().await {
            // Nobody wants more.
            if sender.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    aside.build()
}

/// What an operator that reads so many parts says of itself: its rows come in no order, and end.
pub fn reader(schema: SchemaRef, parts: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(parts),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// A condition was pushed down although `supports_filters_pushdown` did not offer it.
pub fn not_taken(filter: &Expr) -> DataFusionError {
    DataFusionError::Internal(format!("{filter} was pushed down to a table that does not take it"))
}
