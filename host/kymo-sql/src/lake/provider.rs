// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of a lake as DataFusion sees them: conditions choose files before they are opened, and `EXPLAIN` shows how
//! many are read [spec/lake.md 6].

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::arrow::compute::{cast, concat};
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{StreamExt as _, TryStreamExt as _};
use kymo_tables::Scan;

use super::catalog::{Lake, LakeFiles};
use super::names::LABEL;
use super::place::Place;
use super::scan::{FileReader, LakeFile, Stretch, partition};
use crate::sql::plan::{self, TableNames, WAITING};
use crate::sql::pushdown::{self, Pushes};

/// The tables of a lake, or those whose events begin with one name: `motor.step` for `motor:step`.
pub struct LakeSchema {
    lake: Arc<Lake>,
    threads: usize,
    /// Name of the table here, and in the lake.
    tables: TableNames,
}

impl LakeSchema {
    /// The one with all tables, called `main`, and those of the first parts of events' names.
    pub fn all(lake: &Arc<Lake>, threads: usize, main: &str) -> Vec<(String, Arc<dyn SchemaProvider>)> {
        let tables = lake.files().keys().map(|table| (table.clone(), true));
        let schema = |(name, tables)| {
            let schema: Arc<dyn SchemaProvider> = Arc::new(LakeSchema { lake: Arc::clone(lake), threads, tables });
            (name, schema)
        };
        plan::schemas(tables, main).into_iter().map(schema).collect()
    }
}

impl fmt::Debug for LakeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tables.keys()).finish()
    }
}

#[async_trait]
impl SchemaProvider for LakeSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(files) = self.tables.get(name).and_then(|own| self.lake.files().get(own)) else { return Ok(None) };
        let place = self.lake.place().clone();
        Ok(Some(Arc::new(LakeTable { place, files: Arc::clone(files), threads: self.threads })))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}

/// One table.
#[derive(Debug)]
struct LakeTable {
    place: Place,
    files: Arc<LakeFiles>,
    threads: usize,
}

/// How a condition chooses files.
enum Chooses {
    /// It is the same for all rows of a file.
    Files,
    /// Files that have no row for it are left out; rows are looked at later.
    Some(Stretch),
    Nothing,
}

/// Files of a part that are opened, and begun to be read, while the one in front of them is: an object store takes its
/// time for each request.
const FILES_AHEAD: usize = 8;

/// Whether all rows of a file have one value of a column.
fn is_of_file(name: &str) -> bool {
    matches!(name, "host" | "day") || name.starts_with(LABEL)
}

impl LakeTable {
    fn chooses(&self, filter: &Expr) -> Chooses {
        let columns = filter.column_refs();
        if !columns.is_empty() && !filter.is_volatile() && columns.iter().all(|column| is_of_file(&column.name)) {
            return Chooses::Files;
        }
        let mut scan = Scan::default();
        let pushes = Pushes { end_time: false, event: false };
        match pushdown::push(filter, &self.files.schema, pushes, &mut scan) {
            true if scan.from.is_some() || scan.to.is_some() => Chooses::Some(Stretch { from: scan.from, to: scan.to }),
            _ => Chooses::Nothing,
        }
    }

    /// Whether a condition holds for the rows of each file.
    fn holds(&self, state: &dyn Session, filter: &Expr, files: &[LakeFile]) -> Result<Vec<bool>> {
        let mut names: Vec<String> = filter.column_refs().iter().map(|column| column.name.clone()).collect();
        names.sort();
        names.dedup();
        let fields = names.iter().map(|name| self.files.schema.field_with_name(name).cloned());
        let schema = Arc::new(Schema::new(fields.collect::<std::result::Result<Vec<_>, _>>()?));
        let column = |name: &String| -> Result<ArrayRef> {
            let data_type = self.files.schema.field_with_name(name)?.data_type();
            let value = |file: &LakeFile| partition(file, name, 1).unwrap_or_else(|| new_null_array(data_type, 1));
            let values: Vec<ArrayRef> = files.iter().map(value).collect();
            Ok(concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
        };
        let columns = names.iter().map(column).collect::<Result<Vec<_>>>()?;
        let table = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        let condition = state.create_physical_expr(unqualified(filter)?, &DFSchema::try_from(schema)?)?;
        let found = condition.evaluate(&table)?.into_array(files.len())?;
        let found = cast(&found, &arrow_schema::DataType::Boolean)?;
        Ok(found.as_boolean().iter().map(|holds| holds == Some(true)).collect())
    }
}

/// A condition without the names of tables in front of columns.
fn unqualified(filter: &Expr) -> Result<Expr> {
    let plain = |of: Expr| match of {
        Expr::Column(column) if column.relation.is_some() => {
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name))))
        }
        of => Ok(Transformed::no(of)),
    };
    Ok(filter.clone().transform(plain)?.data)
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.files.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| match self.chooses(filter) {
            Chooses::Files => TableProviderFilterPushDown::Exact,
            Chooses::Some(_) => TableProviderFilterPushDown::Inexact,
            Chooses::Nothing => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut files = self.files.files.clone();
        let (mut stretch, mut chosen_by) = (Stretch::default(), Vec::new());
        let mut is_exact = true;
        for filter in filters {
            match self.chooses(filter) {
                Chooses::Files if files.is_empty() => {}
                Chooses::Files => {
                    let mut holds = self.holds(state, filter, &files)?.into_iter();
                    files.retain(|_| holds.next() == Some(true));
                    chosen_by.push(unqualified(filter)?.human_display().to_string());
                }
                Chooses::Some(own) => {
                    stretch.from = stretch.from.max(own.from);
                    stretch.to = [stretch.to, own.to].into_iter().flatten().min();
                    is_exact = false;
                }
                Chooses::Nothing => return Err(plan::not_taken(filter)),
            }
        }
        files.retain(|file| stretch.meets(file.entry.from, file.entry.to));
        let schema = match projection {
            Some(projection) => Arc::new(self.files.schema.project(projection)?),
            None => Arc::clone(&self.files.schema),
        };
        let of = self.files.files.len();
        let limit = limit.filter(|_| is_exact);
        let reading = Reading { table: self.files.table.clone(), of, stretch, chosen_by, limit, is_exact };
        Ok(Arc::new(LakeScan::new(self.place.clone(), reading, files, schema, self.threads)))
    }
}

/// What is read.
#[derive(Clone, Debug)]
struct Reading {
    table: String,
    /// Files of the table.
    of: usize,
    stretch: Stretch,
    /// Conditions that chose files.
    chosen_by: Vec<String>,
    /// Rows of each part at most.
    limit: Option<usize>,
    /// All rows of the files are rows of the result.
    is_exact: bool,
}

/// Reads files of a table.
#[derive(Clone, Debug)]
pub struct LakeScan {
    place: Place,
    reading: Reading,
    /// Of each part.
    files: Vec<Vec<LakeFile>>,
    properties: Arc<PlanProperties>,
}

impl LakeScan {
    fn new(place: Place, reading: Reading, files: Vec<LakeFile>, schema: SchemaRef, threads: usize) -> LakeScan {
        let files = parts(files, threads);
        let properties = plan::reader(schema, files.len());
        LakeScan { place, reading, files, properties }
    }
}

/// Parts of about as many bytes each.
fn parts(mut files: Vec<LakeFile>, threads: usize) -> Vec<Vec<LakeFile>> {
    files.sort_by(|a, b| b.entry.bytes.cmp(&a.entry.bytes).then_with(|| a.entry.path.cmp(&b.entry.path)));
    let count = threads.min(files.len()).max(1);
    let mut parts = vec![(0u64, Vec::new()); count];
    for file in files {
        if let Some((bytes, part)) = parts.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            *bytes += file.entry.bytes.max(1);
            part.push(file);
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// What is read, for EXPLAIN.
impl DisplayAs for LakeScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let files: usize = self.files.iter().map(Vec::len).sum();
        write!(f, "LakeScan: table={}, columns=[{}]", self.reading.table, columns.join(", "))?;
        write!(f, ", files={files} of {}", self.reading.of)?;
        if !self.reading.chosen_by.is_empty() {
            write!(f, ", chosen by=[{}]", self.reading.chosen_by.join(", "))?;
        }
        let Stretch { from, to } = self.reading.stretch;
        let bounds = [from.map(|from| format!("time >= {from}")), to.map(|to| format!("time < {to}"))];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        if !bounds.is_empty() {
            write!(f, ", row groups by=[{}]", bounds.join(", "))?;
        }
        if let Some(limit) = self.reading.limit {
            write!(f, ", limit={limit}")?;
        }
        write!(f, ", parts={}", self.files.len())
    }
}

impl ExecutionPlan for LakeScan {
    fn name(&self) -> &'static str {
        "LakeScan"
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
        let parts = match partition {
            Some(part) => self.files.get(part).map(std::slice::from_ref).unwrap_or_default(),
            None => &self.files[..],
        };
        let rows: u64 = parts.iter().flatten().map(|file| file.entry.rows).sum();
        if self.reading.is_exact && self.reading.limit.is_none() {
            statistics.num_rows = Precision::Exact(rows as usize);
        }
        Ok(Arc::new(statistics))
    }

    /// Of each part; an offset is left to the operators above.
    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // Rows are looked at later: so many of them may be none of the result.
        self.reading.is_exact.then(|| {
            let reading = Reading { limit, ..self.reading.clone() };
            Arc::new(LakeScan { reading, ..self.clone() }) as Arc<dyn ExecutionPlan>
        })
    }

    fn fetch(&self) -> Option<usize> {
        self.reading.limit
    }

    fn execute(&self, part: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let files = self.files.get(part).cloned().unwrap_or_default();
        let (place, schema, stretch) = (self.place.clone(), self.schema(), self.reading.stretch);
        let mut left = self.reading.limit.unwrap_or(usize::MAX);
        let mut stream = RecordBatchReceiverStream::builder(self.schema(), WAITING);
        let sender = stream.tx();
        stream.spawn(async move {
            let open = |file| FileReader::open(&place, file, &schema, stretch);
            let mut readers = futures::stream::iter(files).map(open).buffered(FILES_AHEAD);
            while let Some(mut reader) = readers.try_next().await? {
                while let Some(batch) = reader.next().await? {
                    let batch = if batch.num_rows() > left { batch.slice(0, left) } else { batch };
                    left -= batch.num_rows();
                    // Nobody wants more.
                    if sender.send(Ok(batch)).await.is_err() || left == 0 {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        Ok(plan::until_over(stream.build()))
    }
}
