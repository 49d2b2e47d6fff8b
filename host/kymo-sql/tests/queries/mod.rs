// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries of traces and lakes, and what they answer.

#![allow(dead_code, reason = "each user needs its part")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kymo_command::sql::SqlFormat;
use kymo_sql::lake::catalog::Lake;
use kymo_sql::lake::place::Place;
use kymo_sql::sql::output::Output;
use kymo_sql::sql::session::{Data, Session};
use kymo_tables::{OpenOptions, Source};
use serde_json::Value;
use tempfile::TempDir;

/// Bytes that operators may take.
const MEMORY_BYTES: usize = 64 << 20;

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A session that is asked.
pub struct Sql {
    session: Session,
    /// A trace that is there for this session alone.
    _dir: Option<TempDir>,
}

impl Sql {
    /// Of traces or a lake, on so many threads.
    pub fn new(data: Data, threads: usize) -> Sql {
        Sql { session: Session::of(data, threads, MEMORY_BYTES).unwrap(), _dir: None }
    }

    pub fn lake(place: &Place) -> anyhow::Result<Sql> {
        Ok(Sql::new(Data::Lake(Arc::new(runtime().block_on(Lake::open(place.clone()))?)), 2))
    }

    pub fn source(source: Source, threads: usize) -> Sql {
        Sql::new(Data::Traces(Arc::new(source)), threads)
    }

    pub fn trace(dir: &Path) -> Sql {
        Sql::source(Source::open(&[dir.to_owned()], &OpenOptions::default()).unwrap(), 2)
    }

    /// The same, which removes the directory at its end.
    pub fn with_dir(self, dir: TempDir) -> Sql {
        Sql { _dir: Some(dir), ..self }
    }

    pub fn is_indexed(&self) -> bool {
        matches!(self.session.data(), Data::Traces(source) if source.is_indexed())
    }

    /// Tables with the names of their columns.
    pub fn tables(&self) -> BTreeMap<String, Vec<String>> {
        let names = |info: &kymo_tables::TableInfo| {
            info.schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
        };
        self.session.data().tables().iter().map(|info| (info.name.clone(), names(info))).collect()
    }

    /// The result as a file has it.
    pub fn write(&self, query: &str, format: SqlFormat) -> anyhow::Result<Vec<u8>> {
        let written = Shared::default();
        let sink = written.clone();
        let all = async {
            let stream = self.session.query(query).await?;
            let mut output = Output::new(Box::new(sink), format, stream.schema(), true)?;
            output.write_all(stream, &|| false).await?;
            output.close()
        };
        runtime().block_on(all)?;
        let bytes = written.0.lock().unwrap().clone();
        Ok(bytes)
    }

    pub fn try_rows(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        Ok(serde_json::from_slice(&self.write(query, SqlFormat::Json)?)?)
    }

    #[track_caller]
    pub fn rows(&self, query: &str) -> Vec<Value> {
        self.try_rows(query).unwrap_or_else(|error| panic!("{query}: {error:#}"))
    }

    #[track_caller]
    pub fn error(&self, query: &str) -> String {
        self.write(query, SqlFormat::Json).expect_err(query).to_string()
    }

    pub fn explain(&self, query: &str) -> String {
        let rows = self.rows(&format!("EXPLAIN {query}"));
        let plan = rows.iter().find(|row| row["plan_type"] == "physical_plan").unwrap();
        plan["plan"].as_str().unwrap().to_owned()
    }
}

/// What was written, for who looks later.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
