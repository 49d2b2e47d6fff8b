// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opened traces for Python: names and columns of tables, partitions, and scans as Arrow streams.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kymo_command::named::named_silently;
use kymo_ctf::read::Trace;
use kymo_ctf::write::EnvValue;
use kymo_index::{Indexes, Named};
use kymo_query::host_name;
use kymo_tables::{Ahead, OpenOptions, Partition, Scan, TableFunction};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::{Map, Value, json};

use crate::error::KymoError;
use crate::stream::{ArrowStream, StreamState, schema_capsule};
use crate::wait::interruptible;

/// Opened traces.
#[pyclass(module = "kymotrace._native", frozen)]
pub struct Source {
    opened: Arc<kymo_tables::Source>,
    ahead: Ahead,
    paths: Vec<PathBuf>,
}

/// A choice of rows and columns, by the names of [`Scan`].
#[derive(FromPyObject, Default)]
#[pyo3(from_item_all)]
struct Chosen {
    columns: Option<Vec<String>>,
    start: Option<i64>,
    end: Option<i64>,
    end_start: Option<i64>,
    end_end: Option<i64>,
    cpus: Option<Vec<u32>>,
    tids: Option<Vec<i64>>,
    events: Option<Vec<String>>,
    names: Option<Vec<String>>,
    filter: Option<String>,
    limit: Option<u64>,
    partition: Option<String>,
    any_order: bool,
}

impl Chosen {
    fn scan(self, state: &StreamState) -> PyResult<Scan> {
        let read = |text: String| serde_json::from_str::<Partition>(&text);
        let partition = self.partition.map(read).transpose();
        let partition = partition.map_err(|error| KymoError::new_err(format!("not a partition: {error}")))?;
        Ok(Scan {
            projection: self.columns,
            from: self.start,
            to: self.end,
            cpus: self.cpus,
            tids: self.tids,
            events: self.events,
            names: self.names,
            filter: self.filter,
            limit: self.limit,
            partition,
            end_from: self.end_start,
            end_to: self.end_end,
            any_order: self.any_order,
            ahead: Ahead::default(),
            cancelled: Arc::clone(&state.cancelled),
        })
    }
}

#[pymethods]
impl Source {
    #[new]
    #[pyo3(signature = (paths, without_index=false, ignore_uuid=false, workers=None))]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        without_index: bool,
        ignore_uuid: bool,
        workers: Option<usize>,
    ) -> PyResult<Source> {
        let ahead = workers.map_or_else(Ahead::of_machine, Ahead::threads);
        let own = paths.clone();
        let options = OpenOptions { without_index, ignore_uuid, ..OpenOptions::default() };
        let open = move || kymo_tables::Source::open(&own, &options);
        let opened = interruptible(py, open, || ())?.map_err(of_tables)?;
        Ok(Source { opened: Arc::new(opened), ahead, paths })
    }

    /// All tables: name, what its rows are, whether they are records of one event.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<(String, String, bool)>> {
        let opened = Arc::clone(&self.opened);
        let tables = interruptible(py, move || opened.tables(), || ())?;
        Ok(tables.into_iter().map(|table| (table.name, table.about, table.is_event)).collect())
    }

    /// The columns of a table, as an Arrow schema.
    fn schema<'py>(&self, py: Python<'py>, table: &str) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.opened.schema(table).map_err(of_tables)?)
    }

    /// The columns of a table: name, type as Arrow writes it, and what it holds.
    fn columns(&self, table: &str) -> PyResult<Vec<(String, String, String)>> {
        let schema = self.opened.schema(table).map_err(of_tables)?;
        let column = |field: &Arc<arrow_schema::Field>| {
            let about = field.metadata().get("about").cloned().unwrap_or_default();
            (field.name().clone(), field.data_type().to_string(), about)
        };
        Ok(schema.fields().iter().map(column).collect())
    }

    /// Parts of a table, each as text that [`Source::scan`] takes.
    fn partitions(&self, py: Python<'_>, table: String, wanted: usize) -> PyResult<Vec<String>> {
        let opened = Arc::clone(&self.opened);
        let partitions = interruptible(py, move || opened.partitions(&table, wanted), || ())?.map_err(of_tables)?;
        let text = |partition: &Partition| serde_json::to_string(partition);
        partitions.iter().map(text).collect::<Result<_, _>>().map_err(|error| KymoError::new_err(error.to_string()))
    }

    /// Times of the first record and of the last, ns; none where there are no records.
    fn bounds(&self, py: Python<'_>) -> PyResult<Option<(i64, i64)>> {
        let opened = Arc::clone(&self.opened);
        interruptible(py, move || opened.bounds(), || ())
    }

    /// What the traces say of themselves: a JSON list with an object each.
    fn environment(&self, py: Python<'_>) -> PyResult<String> {
        let paths = self.paths.clone();
        let list = interruptible(py, move || environment(&paths), || ())?.map_err(KymoError::new_err)?;
        Ok(Value::Array(list).to_string())
    }

    /// Rows of a table.
    #[pyo3(signature = (table, chosen, progress=None))]
    fn scan(
        &self,
        py: Python<'_>,
        table: String,
        chosen: Chosen,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<ArrowStream> {
        let opened = Arc::clone(&self.opened);
        let ahead = self.ahead;
        begin(py, chosen, progress, move |scan| opened.scan(&table, &Scan { ahead, ..scan.clone() }))
    }

    /// Spans between two events, as `kymo latency --span` has them. `by`: fields that both have in common, with commas
    /// between them; none: the thread.
    #[pyo3(signature = (first, last, by, chosen, progress=None))]
    fn scan_span(
        &self,
        py: Python<'_>,
        first: String,
        last: String,
        by: Option<String>,
        chosen: Chosen,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<ArrowStream> {
        let opened = Arc::clone(&self.opened);
        let function = TableFunction::Span { begin: first, end: last, by };
        begin(py, chosen, progress, move |scan| opened.scan_function(&function, scan))
    }

    /// What a stretch of a thread waited for, as `kymo critical` has it.
    #[pyo3(signature = (tid, start, end, chosen, progress=None))]
    fn scan_critical_path(
        &self,
        py: Python<'_>,
        tid: i32,
        start: i64,
        end: i64,
        chosen: Chosen,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<ArrowStream> {
        let opened = Arc::clone(&self.opened);
        let function = TableFunction::CriticalPath { tid, from: start, to: end };
        begin(py, chosen, progress, move |scan| opened.scan_function(&function, scan))
    }
}

/// Begins a scan, in a thread of its own: it may have to look through the trace before the first row.
fn begin(
    py: Python<'_>,
    chosen: Chosen,
    progress: Option<Py<PyAny>>,
    scan_of: impl FnOnce(&Scan) -> Result<kymo_tables::Batches, kymo_tables::Error> + Send + 'static,
) -> PyResult<ArrowStream> {
    let state = Arc::new(StreamState::default());
    let scan = chosen.scan(&state)?;
    let cancelled = Arc::clone(&state.cancelled);
    let begin = move || scan_of(&scan);
    let batches = interruptible(py, begin, || cancelled.store(true, Ordering::Relaxed))?.map_err(of_tables)?;
    let schema = batches.schema();
    let batches = batches.map(|batch| batch.map_err(|error| error.to_string()));
    Ok(ArrowStream::new(schema, Box::new(batches), state, progress))
}

fn of_tables(error: kymo_tables::Error) -> PyErr {
    KymoError::new_err(error.to_string())
}

/// The traces below a directory, as all verbs find them. Opens none.
#[pyfunction]
pub fn find_traces(py: Python<'_>, path: PathBuf) -> PyResult<Vec<PathBuf>> {
    let found = interruptible(py, move || named_silently(&[path]), || ())?;
    let is_trace = |named: &Named| named.parts != [named.dir.clone()] || named.dir.join("metadata").exists();
    Ok(found.into_iter().filter(is_trace).map(|named| named.dir).collect())
}

/// What each trace says of itself: where it is, its streams, and what was noted when it was recorded.
fn environment(paths: &[PathBuf]) -> Result<Vec<Value>, String> {
    let (mut all, mut bad) = (Vec::new(), None);
    for named in named_silently(paths) {
        let open = |part: &PathBuf| Trace::open(part).map(|opened| opened.value).map_err(|error| error.to_string());
        let traces = match named.parts.iter().map(open).collect::<Result<Vec<Trace>, String>>() {
            Ok(traces) => traces,
            // A row of the table losses, unless no other can be opened.
            Err(error) => {
                bad.get_or_insert(error);
                continue;
            }
        };
        let indexes = Indexes::open(std::slice::from_ref(&named), &traces);
        // Without damage, so that a trace can be divided by time.
        let is_indexed = indexes.whole().is_some();
        all.extend(named.parts.iter().zip(&traces).map(|(part, trace)| about(&named, part, trace, is_indexed)));
    }
    bad.filter(|_| all.is_empty()).map_or(Ok(all), Err)
}

fn about(named: &Named, part: &PathBuf, trace: &Trace, is_indexed: bool) -> Value {
    let value = |value: &EnvValue| match value {
        EnvValue::Int(number) => json!(number),
        EnvValue::Unsigned(number) => json!(number),
        EnvValue::Text(text) => json!(text),
    };
    let env: Map<String, Value> = trace.metadata.env.iter().map(|(key, of)| (key.clone(), value(of))).collect();
    json!({
        "trace": named.dir,
        "part": part,
        "host": host_name(trace),
        "streams": trace.streams().count(),
        "bytes": trace.streams().map(|(_, bytes)| bytes as u64).sum::<u64>(),
        "clocks": trace.metadata.clocks.iter().map(|clock| json!(clock.name)).collect::<Vec<_>>(),
        "is_indexed": is_indexed,
        "env": env,
    })
}
