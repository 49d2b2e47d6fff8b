// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of a source as DataFusion sees them, and the operator that reads them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{Stream, StreamExt as _};
use kymo_tables::{Batches, Partition, Scan, Source, TableFunction};

use super::plan::{self, TableNames, WAITING};
use super::pushdown::{self, Pushes};

/// The tables of a source, or those whose events begin with one name: `motor.step` for `motor:step`.
pub struct TraceSchema {
    source: Arc<Source>,
    threads: usize,
    /// Name of the table here, and in the source.
    tables: TableNames,
}

impl TraceSchema {
    /// The one with all tables, called `main`, and those of the first parts of events' names.
    pub fn all(source: &Arc<Source>, threads: usize, main: &str) -> Vec<(String, Arc<dyn SchemaProvider>)> {
        let tables = source.tables().into_iter().map(|table| (table.name, table.is_event));
        let schema = |(name, tables)| {
            let schema: Arc<dyn SchemaProvider> = Arc::new(TraceSchema { source: Arc::clone(source), threads, tables });
            (name, schema)
        };
        plan::schemas(tables, main).into_iter().map(schema).collect()
    }
}

impl fmt::Debug for TraceSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tables.keys()).finish()
    }
}

#[async_trait]
impl SchemaProvider for TraceSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(own) = self.tables.get(name) else { return Ok(None) };
        let schema = self.source.schema(own).map_err(external)?;
        let of = TableOf::Named(own.clone());
        Ok(Some(Arc::new(TraceTable { source: Arc::clone(&self.source), threads: self.threads, of, schema })))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}

/// An error of a table.
pub fn external(error: kymo_tables::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Which table.
#[derive(Clone, Debug)]
pub enum TableOf {
    /// One of the source.
    Named(String),
    /// One with arguments.
    Function(TableFunction),
}

/// One table.
pub struct TraceTable {
    source: Arc<Source>,
    threads: usize,
    of: TableOf,
    schema: SchemaRef,
}

impl TraceTable {
    /// A table with arguments.
    pub fn of_function(source: &Arc<Source>, function: TableFunction) -> TraceTable {
        let schema = source.function_schema(&function);
        TraceTable { source: Arc::clone(source), threads: 1, of: TableOf::Function(function), schema }
    }

    fn pushes(&self) -> Pushes {
        match &self.of {
            TableOf::Named(name) if name == "records" => Pushes { end_time: false, event: true },
            // Their fields may have any names.
            TableOf::Named(name) if self.source.is_event(name) => Pushes { end_time: false, event: false },
            _ => Pushes { end_time: true, event: false },
        }
    }

    fn partitions(&self) -> Result<Vec<Option<Partition>>> {
        let TableOf::Named(name) = &self.of else { return Ok(vec![None]) };
        // Without an index each part would read all that lies before it.
        let wanted = if self.source.is_indexed() { self.threads } else { 1 };
        let parts = self.source.partitions(name, wanted).map_err(external)?;
        Ok(parts.into_iter().map(Some).collect())
    }
}

impl fmt::Debug for TraceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.fmt(f)
    }
}

#[async_trait]
impl TableProvider for TraceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushes = self.pushes();
        let of = |filter: &&Expr| match pushdown::push(filter, &self.schema, pushes, &mut Scan::default()) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut scan = Scan { any_order: true, limit: limit.map(|limit| limit as u64), ..Scan::default() };
        for filter in filters {
            // It was promised that rows are chosen by it: nobody looks again.
            if !pushdown::push(filter, &self.schema, self.pushes(), &mut scan) {
                return Err(plan::not_taken(filter));
            }
        }
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        scan.projection = Some(schema.fields().iter().map(|field| field.name().clone()).collect());
        Ok(Arc::new(TraceScan::new(Arc::clone(&self.source), self.of.clone(), scan, schema, self.partitions()?)))
    }
}

/// Reads a table.
#[derive(Clone)]
pub struct TraceScan {
    source: Arc<Source>,
    of: TableOf,
    scan: Scan,
    partitions: Vec<Option<Partition>>,
    properties: Arc<PlanProperties>,
}

impl TraceScan {
    fn new(
        source: Arc<Source>,
        of: TableOf,
        scan: Scan,
        schema: Arc<Schema>,
        partitions: Vec<Option<Partition>>,
    ) -> TraceScan {
        let properties = plan::reader(schema, partitions.len());
        TraceScan { source, of, scan, partitions, properties }
    }

    /// Rows, where an index tells how many there are.
    fn rows(&self) -> Option<u64> {
        let TableOf::Named(name) = &self.of else { return None };
        let is_all = pushdown::text(&self.scan).is_empty();
        let rows = self.source.row_count(name).filter(|_| is_all)?;
        Some(self.scan.limit.map_or(rows, |limit| rows.min(limit)))
    }

    fn batches(&self, scan: &Scan) -> Result<Batches> {
        match &self.of {
            TableOf::Named(name) => self.source.scan(name, scan),
            TableOf::Function(function) => self.source.scan_function(function, scan),
        }
        .map_err(external)
    }
}

impl fmt::Debug for TraceScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceScan").field("of", &self.of).field("scan", &self.scan).finish_non_exhaustive()
    }
}

/// What is read, for EXPLAIN.
impl DisplayAs for TraceScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            TableOf::Named(name) => write!(f, "TraceScan: table={name}")?,
            TableOf::Function(function) => write!(f, "TraceScan: {function:?}")?,
        }
        let columns = self.scan.projection.as_deref().unwrap_or_default();
        write!(f, ", columns=[{}]", columns.join(", "))?;
        let pushed = pushdown::text(&self.scan);
        if !pushed.is_empty() {
            write!(f, ", pushed down=[{pushed}]")?;
        }
        if let Some(limit) = self.scan.limit {
            write!(f, ", limit={limit}")?;
        }
        let index = if self.source.is_indexed() { "used" } else { "none" };
        write!(f, ", index={index}, parts={}", self.partitions.len())
    }
}

impl ExecutionPlan for TraceScan {
    fn name(&self) -> &'static str {
        "TraceScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(rows) = self.rows().filter(|_| partition.is_none() || self.partitions.len() == 1) {
            statistics.num_rows = Precision::Exact(rows as usize);
        }
        Ok(Arc::new(statistics))
    }

    /// Of each part; an offset is left to the operators above.
    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let scan = Scan { limit: limit.map(|limit| limit as u64), ..self.scan.clone() };
        Some(Arc::new(TraceScan { scan, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.scan.limit.map(|limit| limit as usize)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let part = self.partitions.get(partition).cloned().flatten();
        // Who drops the stream ends the reader, also one that finds no row for long.
        let until_dropped = CancelOnDrop::default();
        let cancelled = Arc::clone(&until_dropped.0);
        let batches = self.batches(&Scan { partition: part, cancelled, ..self.scan.clone() })?;
        let mut stream = RecordBatchReceiverStream::builder(self.schema(), WAITING);
        let sender = stream.tx();
        stream.spawn_blocking(move || {
            for batch in batches {
                // Nobody wants more.
                if sender.blocking_send(batch.map_err(external)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        Ok(plan::until_over(Box::pin(Reading { stream: stream.build(), _until_dropped: until_dropped })))
    }
}

/// Ends a scan when it is dropped.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The rows of a part.
struct Reading {
    stream: SendableRecordBatchStream,
    _until_dropped: CancelOnDrop,
}

impl Stream for Reading {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(context)
    }
}

impl RecordBatchStream for Reading {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
