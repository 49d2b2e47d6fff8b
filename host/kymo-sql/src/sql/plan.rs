// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tables of traces and those of a lake have in common as parts of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{Partitioning, PlanProperties};

/// Batches that wait between a reader and the operators.
pub const WAITING: usize = 2;

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
