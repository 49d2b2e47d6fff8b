// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session of DataFusion with the tables and functions of traces, or of a lake.

use std::sync::Arc;

use anyhow::Context as _;
use arrow_schema::SchemaRef;
use datafusion::catalog::{MemoryCatalogProvider, SchemaProvider};
use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};

use datafusion::sql::parser::{DFParser, Statement};
use kymo_tables::{Source, TableInfo};

use super::functions;
use super::plan;
use super::provider::TraceSchema;
use crate::lake::catalog::Lake;
use crate::lake::provider::LakeSchema;

const CATALOG: &str = "kymo";
const SCHEMA: &str = "trace";

/// What is asked.
#[derive(Clone)]
pub enum Data {
    /// Opened traces.
    Traces(Arc<Source>),
    /// A lake.
    Lake(Arc<Lake>),
}

impl Data {
    /// All tables.
    pub fn tables(&self) -> Vec<TableInfo> {
        match self {
            Data::Traces(source) => source.tables(),
            Data::Lake(lake) => lake.tables(),
        }
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// There is none; with those that are near it.
    pub fn schema(&self, table: &str) -> anyhow::Result<SchemaRef> {
        match self {
            Data::Traces(source) => Ok(source.schema(table)?),
            Data::Lake(lake) => match lake.files().get(table) {
                Some(files) => Ok(Arc::clone(&files.schema)),
                None => Err(missing(lake, table)),
            },
        }
    }

    fn schemas(&self, threads: usize) -> Vec<(String, Arc<dyn SchemaProvider>)> {
        match self {
            Data::Traces(source) => TraceSchema::all(source, threads, SCHEMA),
            Data::Lake(lake) => LakeSchema::all(lake, threads, SCHEMA),
        }
    }
}

/// A table that a lake does not have.
fn missing(lake: &Lake, table: &str) -> anyhow::Error {
    let near = kymo_tables::near_misses(table, lake.files().keys().map(String::as_str));
    anyhow::anyhow!("the lake has no table {table:?}{near} (SHOW TABLES lists them; kymo lake add --table adds others)")
}

/// Tables and functions, ready for queries.
#[derive(Clone)]
pub struct Session {
    context: SessionContext,
    data: Data,
}

impl Session {
    /// Of traces, with so many threads, and so many bytes for operators that keep rows.
    ///
    /// # Errors
    /// DataFusion's own.
    pub fn new(source: Arc<Source>, threads: usize, memory_bytes: usize) -> anyhow::Result<Session> {
        Session::of(Data::Traces(source), threads, memory_bytes)
    }

    /// The same of traces or a lake.
    ///
    /// # Errors
    /// DataFusion's own.
    pub fn of(data: Data, threads: usize, memory_bytes: usize) -> anyhow::Result<Session> {
        let mut config = SessionConfig::new()
            .with_target_partitions(threads)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA);
        // Names of fields are as they are written, and not in lower case.
        config.options_mut().sql_parser.enable_ident_normalization = false;
        let pool = Arc::new(FairSpillPool::new(memory_bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let context = SessionContext::new_with_config_rt(config, runtime);
        let catalog = Arc::new(MemoryCatalogProvider::new());
        context.register_catalog(CATALOG, catalog.clone());
        for (name, schema) in data.schemas(threads) {
            datafusion::catalog::CatalogProvider::register_schema(&*catalog, &name, schema)?;
        }
        functions::register(&context);
        if let Data::Traces(source) = &data {
            functions::register_of_traces(&context, source);
        }
        Ok(Session { context, data })
    }

    /// What is asked.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// A table, for plans that are not made of a text.
    ///
    /// # Errors
    /// There is none.
    pub async fn table(&self, name: &str) -> anyhow::Result<DataFrame> {
        self.data.schema(name)?;
        let name = TableReference::full(CATALOG, SCHEMA, name);
        self.context.table(name).await.map_err(|error| anyhow::anyhow!(message(&error)))
    }

    /// The statements of a text.
    ///
    /// # Errors
    /// It is no SQL.
    pub fn statements(&self, text: &str) -> anyhow::Result<Vec<Statement>> {
        let parsed = DFParser::parse_sql(text).map_err(|error| anyhow::anyhow!(message(&error)));
        Ok(parsed?.into_iter().collect())
    }

    /// Plans a statement and begins with its rows.
    ///
    /// # Errors
    /// Names that are none, types that do not fit, and what fails before the first row.
    pub async fn run(&self, statement: Statement) -> anyhow::Result<SendableRecordBatchStream> {
        // Without an index, at('+1s') reads the trace while the query is planned: others wait for Ctrl-C meanwhile.
        let own = self.clone();
        tokio::spawn(async move { own.begin(statement).await }).await.context("planning broke off")?
    }

    async fn begin(&self, statement: Statement) -> anyhow::Result<SendableRecordBatchStream> {
        let state = self.context.state();
        let plan = state.statement_to_plan(statement).await.map_err(|error| anyhow::anyhow!(self.refused(&error)))?;
        let frame = self.context.execute_logical_plan(plan).await.map_err(|error| anyhow::anyhow!(message(&error)))?;
        frame.execute_stream().await.map(plan::aside).map_err(|error| anyhow::anyhow!(message(&error)))
    }

    /// Why a query is none: of a table that is none, with those that are near it.
    fn refused(&self, error: &DataFusionError) -> String {
        let text = message(error);
        let of_traces = functions::OF_TRACES.iter().find(|name| text.contains(&format!("function '{name}'")));
        if let (Data::Lake(_), Some(name)) = (&self.data, of_traces) {
            return format!(
                "{name} needs a trace, and there is none in a lake: write a time as '2026-11-27T10:00:00', or ask the \
                 trace of a row with kymo sql"
            );
        }
        let missing = text.strip_prefix("table '").and_then(|rest| rest.split_once("' not found"));
        let Some((name, _)) = missing else { return text };
        let head = format!("{CATALOG}.");
        let name = name.strip_prefix(&head).unwrap_or(name);
        let own = name.strip_prefix(&format!("{SCHEMA}.")).map(str::to_owned);
        // What stands before the dot is the first part of an event's name.
        let name = own.unwrap_or_else(|| name.replacen('.', ":", 1));
        self.data.schema(&name).err().map_or(text, |error| error.to_string())
    }

    /// The rows of one query.
    ///
    /// # Errors
    /// As of [`Session::statements`] and [`Session::run`]; several statements.
    pub async fn query(&self, text: &str) -> anyhow::Result<SendableRecordBatchStream> {
        let mut statements = self.statements(text)?;
        let statement = statements.pop().context("the query is empty")?;
        anyhow::ensure!(statements.is_empty(), "one query at a time");
        self.run(statement).await
    }
}

/// An error as people read it: without the names of DataFusion's parts.
pub fn message(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let mut text = text.as_str();
    let heads = ["Error during planning: ", "Schema error: ", "SQL error: ", "External error: ", "Execution error: "];
    while let Some(rest) = heads.iter().find_map(|head| text.strip_prefix(head)) {
        text = rest;
    }
    let text = text.strip_prefix("ParserError(\"").and_then(|text| text.strip_suffix("\")")).unwrap_or(text);
    text.replace("\\\"", "\"")
}
