// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a lake says of itself: manifests of additions, and additions on their way [spec/lake.md 3].

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use arrow_schema::{DataType, Schema};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::place::{Place, STAGING};
use super::upload::put;

/// The version of the layout.
pub const VERSION: u32 = 1;

/// The object that makes a place a lake.
const MARK: &str = "_kymo/lake.json";

/// Manifests that are read at once.
const READS_MAX: usize = 16;

/// An addition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The version of the layout.
    pub kymo_lake: u32,
    /// Identity of the trace.
    pub trace: String,
    /// The run that wrote it.
    pub token: String,
    /// Where the trace is.
    pub place: String,
    /// It is a copy in the lake.
    pub is_copy: bool,
    /// By key.
    pub labels: BTreeMap<String, String>,
    /// Tables that were asked for; empty: the default.
    pub wanted: Vec<String>,
    /// Chunks of the same session before it that were removed before they were in a lake.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_before: Vec<String>,
    /// When.
    pub added: String,
    /// Host whose path `place` is.
    pub added_on: String,
    /// Program and version.
    pub by: String,
    /// Bytes of the trace's files.
    pub trace_bytes: u64,
    /// Times count from 1970.
    pub has_wall_clock: bool,
    /// What is missing in the trace.
    pub lost: Lost,
    /// Columns by table.
    pub schemas: BTreeMap<String, Vec<FileColumn>>,
    /// The files with rows.
    pub files: Vec<FileEntry>,
    /// Files of the copied trace.
    pub copied: Vec<String>,
}

/// Sums of the table `losses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lost {
    /// Records that were counted as lost.
    pub records: u64,
    /// Packets that are missing.
    pub packets: u64,
    /// Rows of other kinds: damage, odd times, a trace that cannot be opened.
    pub damaged: u64,
}

/// A column of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileColumn {
    /// Its name.
    pub name: String,
    /// Its type, as Arrow writes it.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// A file with rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileEntry {
    /// Name of the table.
    pub table: String,
    /// None: it is not known.
    pub host: Option<String>,
    /// `YYYY-MM-DD`; none: it is not known.
    pub day: Option<String>,
    /// Below the lake.
    pub path: String,
    /// Rows.
    pub rows: u64,
    /// Size.
    pub bytes: u64,
    /// Least `time`, ns.
    pub from: Option<i64>,
    /// Greatest `time`, ns.
    pub to: Option<i64>,
}

/// An addition on its way, or what a killed one left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adding {
    /// Identity of the trace.
    pub trace: String,
    /// The run.
    pub token: String,
    /// Where the trace is.
    pub place: String,
    /// Who runs it.
    pub owner: Owner,
    /// Files that it makes visible, below the lake.
    pub files: Vec<String>,
    /// Files of the addition that it replaces.
    pub replaces: Vec<String>,
    /// Somebody removes what it left.
    pub abandoned: bool,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// Its host.
    pub host: String,
    /// Id of the host's boot.
    pub boot: String,
    /// Its number.
    pub pid: u32,
    /// When it started, as /proc tells it.
    pub started: u64,
}

impl FileColumn {
    /// Columns of a schema.
    pub fn of(schema: &Schema) -> Vec<FileColumn> {
        let column = |field: &arrow_schema::FieldRef| FileColumn {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
        };
        schema.fields().iter().map(column).collect()
    }

    /// Its type; none where the text does not tell it: members of structures with odd characters in their names.
    pub fn data_type(&self) -> Option<DataType> {
        let parsed: DataType = self.data_type.parse().ok()?;
        // With a quotation mark in it, a name is read as another one.
        (parsed.to_string() == self.data_type).then_some(parsed)
    }
}

impl Manifest {
    /// Where it is below the lake.
    pub fn path(trace: &str) -> String {
        format!("_kymo/additions/{trace}.json")
    }

    /// All its objects below the lake.
    pub fn paths(&self) -> Vec<String> {
        self.files.iter().map(|file| file.path.clone()).chain(self.copied.iter().cloned()).collect()
    }

    /// Rows of all tables.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Bytes of all files with rows.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// That of a trace.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub async fn read(place: &Place, trace: &str) -> anyhow::Result<Option<Manifest>> {
        let manifest: Option<Manifest> = read(place, &Manifest::path(trace)).await?;
        manifest.map(|manifest| check(place, manifest)).transpose()
    }

    /// All of a lake, by host and day.
    ///
    /// # Errors
    /// The place is no lake; a manifest cannot be read, or is none.
    pub async fn all(place: &Place) -> anyhow::Result<Vec<Manifest>> {
        check_mark(place).await?;
        let mut all: Vec<Manifest> = read_all(place, "_kymo/additions").await?;
        let key = |manifest: &Manifest| {
            let first = manifest.files.iter().map(|file| (file.host.clone(), file.day.clone())).min();
            (first, manifest.trace.clone())
        };
        all.sort_by_cached_key(key);
        all.into_iter().map(|manifest| check(place, manifest)).collect()
    }
}

impl Adding {
    /// Name of the run: of its files, too.
    pub fn name(&self) -> String {
        format!("{}-{}", self.trace, self.token)
    }

    /// Where it is below the lake.
    pub fn path(&self) -> String {
        format!("_kymo/adding/{}.json", self.name())
    }

    /// Where its files are staged.
    pub fn staging(&self) -> String {
        format!("{STAGING}/{}", self.name())
    }

    /// Tells of it, and that it lives.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn put(&self, place: &Place) -> anyhow::Result<()> {
        put(place, &self.path(), serde_json::to_vec_pretty(self)?, &self.staging()).await
    }

    /// All of a lake.
    ///
    /// # Errors
    /// One cannot be read.
    pub async fn all(place: &Place) -> anyhow::Result<Vec<Adding>> {
        read_all(place, "_kymo/adding").await
    }
}

fn check(place: &Place, manifest: Manifest) -> anyhow::Result<Manifest> {
    let version = manifest.kymo_lake;
    ensure!(
        version <= VERSION,
        "{}: the addition {} has the layout {version}; this kymo knows layouts up to {VERSION}: use a newer one",
        place.text(),
        manifest.trace
    );
    Ok(manifest)
}

async fn read<T: DeserializeOwned>(place: &Place, below: &str) -> anyhow::Result<Option<T>> {
    let Some(bytes) = place.get(below).await? else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).with_context(|| format!("{below} in the lake {} is damaged", place.text()))
}

/// All objects in a directory; who removes one meanwhile is not in the way.
async fn read_all<T: DeserializeOwned + Send + 'static>(place: &Place, below: &str) -> anyhow::Result<Vec<T>> {
    let listed = place.list(below).await?;
    let paths = listed.into_iter().map(|meta| place.below(&meta.location)).filter(|path| path.ends_with(".json"));
    // Each is a task of its own, so that they are parsed on all CPUs.
    let reads = futures::stream::iter(paths).map(|path| {
        let place = place.clone();
        let task = tokio::spawn(async move { read(&place, &path).await });
        async move { task.await.context("reading broke off")? }
    });
    let all: Vec<Option<T>> = reads.buffered(READS_MAX).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

#[derive(Serialize, Deserialize)]
struct Mark {
    kymo_lake: u32,
}

/// Whether a place is a lake.
///
/// # Errors
/// It is none, or has a newer layout.
async fn check_mark(place: &Place) -> anyhow::Result<()> {
    let mark: Option<Mark> = read(place, MARK).await?;
    let mark = mark.with_context(|| {
        format!("{} is no lake: it has no {MARK}; kymo lake add TRACE --to {0} begins one", place.text())
    })?;
    let version = mark.kymo_lake;
    ensure!(version <= VERSION, "{} has the layout {version}; this kymo knows layouts up to {VERSION}", place.text());
    Ok(())
}

/// Makes a place a lake, if it is none.
///
/// # Errors
/// It has a newer layout, or cannot be written.
pub async fn make_lake(place: &Place, staging: &str) -> anyhow::Result<()> {
    if place.get(MARK).await?.is_some() {
        return check_mark(place).await;
    }
    put(place, MARK, serde_json::to_vec(&Mark { kymo_lake: VERSION })?, staging).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, TimeUnit};

    use super::*;

    /// The types that columns of tables have are read as they were written.
    #[test]
    fn types_are_texts_and_types_again() {
        let item = |data_type| Arc::new(Field::new("item", data_type, true));
        let dictionary = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
        let members = vec![Field::new("a b", DataType::Int8, true), Field::new("c", dictionary.clone(), true)];
        for data_type in [
            DataType::UInt8,
            DataType::Int64,
            DataType::Float32,
            DataType::Float64,
            DataType::Boolean,
            DataType::Utf8,
            DataType::Binary,
            DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            dictionary,
            DataType::List(item(DataType::List(item(DataType::UInt16)))),
            DataType::Struct(members.into()),
        ] {
            let schema = Schema::new(vec![Field::new("x", data_type.clone(), true)]);
            assert_eq!(FileColumn::of(&schema)[0].data_type(), Some(data_type));
        }
    }
}
