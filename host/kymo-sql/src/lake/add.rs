// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds a trace to a lake, whole or not at all: the order of writes is that of spec/lake.md 3.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use kymo_names::event_matches;
use kymo_tables::{OpenOptions, Scan, Source, TableInfo};

use super::identity::TraceFiles;
use super::manifest::{Adding, FileColumn, Lost, Manifest, Owner, VERSION, make_lake};
use super::names::escaped;
use super::place::{Place, STAGING};
use super::rows::Common;
use super::unfinished::{self, is_ours, lives, others, recover, settle};
use super::upload::{Ready, Upload, put};
use super::write::{FileNames, TableWriter};
use crate::day::DAY_NS;

/// How often a run tells that it lives.
const LIFE: Duration = Duration::from_secs(60);

/// How long Ctrl-C may go unseen.
const LOOK: Duration = Duration::from_millis(50);

/// Clocks that count from 1970 are behind this: the year 2000, ns.
const YEAR_2000_NS: i64 = 946_684_800 * 1_000_000_000;

/// Bytes of a trace's file that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// What is to be added, beside the trace.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// By key.
    pub labels: BTreeMap<String, String>,
    /// Names and globs of tables; none: the derived ones.
    pub wanted: Vec<String>,
    /// The trace is copied.
    pub with_trace: bool,
    /// Parts of the same session before it that are in no lake.
    pub missing_before: Vec<String>,
}

/// How far an addition is.
#[derive(Clone, Copy, Debug)]
pub struct Step<'t> {
    /// The table that is written.
    pub table: &'t str,
    /// Tables before it.
    pub position: usize,
    /// Tables in all.
    pub tables: usize,
    /// Its rows so far.
    pub rows: u64,
}

/// What the surroundings give and take.
#[derive(Clone)]
pub struct Outside {
    /// Whether it goes on; else it ends, and what it wrote is removed.
    pub goes_on: fn() -> bool,
    /// Is told how far it is.
    pub progress: Arc<dyn Fn(&Step<'_>) + Send + Sync>,
    /// The time, seconds since 1970.
    pub now: i64,
    /// Draws the name of a run.
    pub token: String,
    /// Runs of this process that have ended.
    pub ended: Vec<String>,
}

/// What became of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new in the lake.
    Added,
    /// It replaces an earlier addition of the same trace.
    Replaced,
    /// The lake had it: nothing was written.
    Already,
}

/// A trace in the lake.
#[derive(Clone, Debug)]
pub struct Added {
    /// What was done.
    pub outcome: Outcome,
    /// What the lake says of it.
    pub manifest: Manifest,
    /// Why it could not be opened; its loss is in the lake.
    pub unreadable: Option<String>,
    /// Names and globs of tables that it has.
    pub matched: Vec<String>,
}

/// One trace on its way.
struct Run<'a> {
    place: &'a Place,
    order: &'a Order,
    outside: &'a Outside,
    source: Source,
    files: TraceFiles,
    adding: Adding,
    common: Common,
    manifest: Manifest,
}

/// Adds the trace in `dir`.
///
/// # Errors
/// The trace is no trace, or is being written; somebody else adds it; what cannot be read or written; somebody wants it
/// to end. Nothing was added then.
pub async fn add(place: &Place, dir: &Path, order: &Order, outside: &Outside) -> anyhow::Result<Added> {
    let files = TraceFiles::of(dir)?;
    let trace = files.identity(&outside.goes_on)?;
    let pick = |source: &Source| (chosen(source, &order.wanted).1, unreadable(source));
    let open = || {
        let options = OpenOptions { keep_unreadable: true, ..OpenOptions::default() };
        Source::open(&[dir.to_owned()], &options).with_context(|| format!("cannot open {}", dir.display()))
    };
    make_lake(place, &format!("{STAGING}/{trace}-{}", outside.token)).await?;
    for other in others(place, &trace, None).await? {
        take_over(place, dir, &other, &outside.ended).await?;
    }
    unfinished::sweep(place, &trace).await?;
    let before = Manifest::read(place, &trace).await?;
    if let Some(manifest) = before.clone().filter(|before| is_same(before, order)) {
        let (matched, unreadable) = pick(&open()?);
        return Ok(Added { outcome: Outcome::Already, manifest, unreadable, matched });
    }
    let source = open()?;
    let (matched, unreadable) = pick(&source);
    let run = Run::new(place, dir, order, outside, source, files, trace)?;
    let outcome = if before.is_some() { Outcome::Replaced } else { Outcome::Added };
    let manifest = run.run(dir, before.as_ref()).await?;
    Ok(Added { outcome, manifest, unreadable, matched })
}

/// Whether an addition is what is asked for.
fn is_same(before: &Manifest, order: &Order) -> bool {
    before.labels == order.labels && before.wanted == order.wanted && before.is_copy == order.with_trace
}

/// Why a trace cannot be opened.
fn unreadable(source: &Source) -> Option<String> {
    source.unreadable().next().map(|(_, why)| why.to_owned())
}

/// Removes what a dead run left.
async fn take_over(place: &Place, dir: &Path, other: &Adding, ended: &[String]) -> anyhow::Result<()> {
    if !ended.contains(&other.token) && lives(place, other).await? {
        let (pid, host) = (other.owner.pid, &other.owner.host);
        bail!("{} is being added to {} by process {pid} of {host}: wait for its end", dir.display(), place.text());
    }
    recover(place, other).await
}

/// The tables that are written, and the names and globs that matched some.
fn chosen(source: &Source, wanted: &[String]) -> (Vec<TableInfo>, Vec<String>) {
    let tables = source.tables();
    // Of a trace that cannot be opened, the loss is all there is.
    let is_unreadable = source.unreadable().next().is_some();
    let matches = |table: &TableInfo, pattern: &String| *pattern == table.name || event_matches(pattern, &table.name);
    let is_wanted = |table: &TableInfo| match table.name.as_str() {
        "losses" => true,
        _ if is_unreadable => false,
        "records" if wanted.is_empty() => false,
        _ if wanted.is_empty() => !table.is_event,
        _ => wanted.iter().any(|pattern| matches(table, pattern)),
    };
    let matched = wanted.iter().filter(|pattern| tables.iter().any(|table| matches(table, pattern)));
    let matched = matched.cloned().collect();
    (tables.into_iter().filter(is_wanted).collect(), matched)
}

/// Does something each minute, or when it is to end, until it is dropped.
struct Task(tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<'a> Run<'a> {
    fn new(
        place: &'a Place,
        dir: &Path,
        order: &'a Order,
        outside: &'a Outside,
        source: Source,
        files: TraceFiles,
        trace: String,
    ) -> anyhow::Result<Run<'a>> {
        let absolute = std::fs::canonicalize(dir).with_context(|| format!("cannot read {}", dir.display()))?;
        let token = outside.token.clone();
        let mut adding = Adding { trace, token, owner: Owner::this(), ..Adding::default() };
        adding.place = match order.with_trace {
            true => place.absolute(&copy_of(&adding, &files)),
            false => absolute.to_string_lossy().into_owned(),
        };
        let bounds = source.bounds();
        let has_wall_clock = source.is_absolute() || bounds.is_some_and(|(first, _)| first >= YEAR_2000_NS);
        let common = Common {
            opened: dir.to_string_lossy().into_owned(),
            pointer: adding.place.clone(),
            labels: order.labels.clone(),
            has_wall_clock,
            first_day: bounds.filter(|_| has_wall_clock).map(|(first, _)| first.div_euclid(DAY_NS)),
        };
        let manifest = Manifest {
            kymo_lake: VERSION,
            trace: adding.trace.clone(),
            token: adding.token.clone(),
            place: adding.place.clone(),
            is_copy: order.with_trace,
            labels: order.labels.clone(),
            wanted: order.wanted.clone(),
            missing_before: order.missing_before.clone(),
            added: crate::day::moment_text(outside.now),
            added_on: unfinished::host(),
            by: format!("kymo {}", env!("CARGO_PKG_VERSION")),
            trace_bytes: files.bytes(),
            has_wall_clock,
            ..Manifest::default()
        };
        Ok(Run { place, order, outside, source, files, adding, common, manifest })
    }

    /// All of it; what it wrote is removed if it fails.
    async fn run(mut self, dir: &Path, before: Option<&Manifest>) -> anyhow::Result<Manifest> {
        self.adding.put(self.place).await?;
        let done = self.write_and_publish(dir, before).await;
        // Whether the lake has it is what the lake says, also where an answer was lost.
        match (settle(self.place, &self.adding).await, done) {
            (Ok(true), _) => Ok(self.manifest),
            (Ok(false), Err(error)) => Err(error),
            (Ok(false), Ok(())) => bail!("{}: another run took this one for dead; add it again", dir.display()),
            (Err(error), Ok(())) => Err(error.context(format!(
                "{} is in the lake, but what it replaced is not removed; add it again",
                dir.display()
            ))),
            (Err(_), Err(error)) => Err(error.context(format!(
                "{} is not added, and what was written is not removed: the next kymo lake add of it does that",
                dir.display()
            ))),
        }
    }

    async fn write_and_publish(&mut self, dir: &Path, before: Option<&Manifest>) -> anyhow::Result<()> {
        let own = self.adding.token.clone();
        for other in others(self.place, &self.adding.trace, Some(&own)).await? {
            take_over(self.place, dir, &other, &self.outside.ended).await?;
        }
        let mut ready = Vec::new();
        let written = self.write(&mut ready).await;
        if let Err(error) = written {
            for file in ready {
                file.discard().await;
            }
            return Err(error);
        }
        self.adding.files = self.manifest.paths();
        self.adding.replaces = before.map(Manifest::paths).unwrap_or_default();
        self.adding.put(self.place).await?;
        self.publish(ready).await
    }

    /// Writes all files where nobody sees them.
    async fn write(&mut self, ready: &mut Vec<Ready>) -> anyhow::Result<()> {
        let (place, adding) = (self.place.clone(), self.adding.clone());
        let _lives = Task(tokio::spawn(async move {
            loop {
                tokio::time::sleep(LIFE).await;
                // Where it fails the next writes fail, too, and tell why.
                let _ = adding.put(&place).await;
            }
        }));
        let names = FileNames { name: self.adding.name(), staging: self.adding.staging() };
        let (tables, _) = chosen(&self.source, &self.order.wanted);
        for (position, table) in tables.iter().enumerate() {
            let step = Step { table: &table.name, position, tables: tables.len(), rows: 0 };
            self.write_table(table, step, &names, ready).await?;
        }
        if self.order.with_trace {
            self.copy(&names, ready).await?;
        }
        self.files.check()
    }

    async fn write_table(
        &mut self,
        table: &TableInfo,
        step: Step<'_>,
        names: &FileNames,
        ready: &mut Vec<Ready>,
    ) -> anyhow::Result<()> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let (flag, goes_on) = (Arc::clone(&cancelled), self.outside.goes_on);
        let _look = Task(tokio::spawn(async move {
            while goes_on() {
                tokio::time::sleep(LOOK).await;
            }
            flag.store(true, Ordering::Relaxed);
        }));
        let scan = Scan { cancelled, ..Scan::default() };
        let common = self.common.clone();
        let mut writer = TableWriter::new(self.place, names, &common, table);
        let schema = FileColumn::of(writer.layout().schema());
        let written = self.write_rows(&mut writer, &scan, step).await;
        if let Err(error) = written {
            writer.abort().await;
            return Err(error);
        }
        // A table without rows has no file, and can be asked all the same.
        self.manifest.schemas.insert(table.name.clone(), schema);
        for (entry, file) in writer.finish().await? {
            self.manifest.files.push(entry);
            ready.push(file);
        }
        Ok(())
    }

    async fn write_rows(
        &mut self,
        writer: &mut TableWriter<'_>,
        scan: &Scan,
        mut step: Step<'_>,
    ) -> anyhow::Result<()> {
        (self.outside.progress)(&step);
        for batch in self.source.scan(step.table, scan)? {
            ensure!((self.outside.goes_on)(), "interrupted; nothing was added");
            let batch = batch?;
            if step.table == "losses" {
                self.manifest.lost.take(&batch);
            }
            writer.write(&batch).await?;
            step.rows += batch.num_rows() as u64;
            (self.outside.progress)(&step);
        }
        ensure!((self.outside.goes_on)(), "interrupted; nothing was added");
        Ok(())
    }

    /// Copies the trace, hidden files, too.
    async fn copy(&mut self, names: &FileNames, ready: &mut Vec<Ready>) -> anyhow::Result<()> {
        let to = copy_of(&self.adding, &self.files);
        for file in self.files.files() {
            let parts: Vec<String> = file.name.iter().map(|part| escaped(&part.to_string_lossy())).collect();
            // A log is a file, not a directory.
            let below = if self.files.is_log() { to.clone() } else { format!("{to}/{}", parts.join("/")) };
            let mut upload = Upload::begin(self.place, &below, &names.staging).await?;
            if let Err(error) = self.copy_bytes(&file.path, &mut upload).await {
                upload.abort().await;
                return Err(error);
            }
            self.manifest.copied.push(below);
            ready.push(upload.finish().await?);
        }
        Ok(())
    }

    async fn copy_bytes(&self, path: &Path, upload: &mut Upload) -> anyhow::Result<()> {
        use std::io::Read as _;

        let failed = || format!("cannot read {}", path.display());
        let mut file = std::fs::File::open(path).with_context(failed)?;
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            ensure!((self.outside.goes_on)(), "interrupted; nothing was added");
            let read = file.read(&mut buffer).with_context(failed)?;
            if read == 0 {
                return Ok(());
            }
            upload.write(&buffer[..read]).await?;
        }
    }

    /// Makes all files visible, then tells that they are part of the lake.
    async fn publish(&mut self, ready: Vec<Ready>) -> anyhow::Result<()> {
        let mut ready = ready.into_iter();
        while let Some(file) = ready.next() {
            let done = match (self.outside.goes_on)() {
                true => file.publish(self.place).await,
                false => Err(anyhow::anyhow!("interrupted; nothing was added")),
            };
            if let Err(error) = done {
                for file in ready {
                    file.discard().await;
                }
                return Err(error);
            }
        }
        // A run that was silent for long may have been taken for dead, and another one may be done meanwhile.
        ensure!(is_ours(self.place, &self.adding).await?, "another run took this one for dead; add the trace again");
        let path = Manifest::path(&self.manifest.trace);
        let bytes = serde_json::to_vec_pretty(&self.manifest)?;
        if let Err(error) = put(self.place, &path, bytes, &self.adding.staging()).await {
            // The answer may be lost, and not the request.
            ensure!(self.is_manifest_ours().await?, error);
        }
        if !is_ours(self.place, &self.adding).await? && self.is_manifest_ours().await? {
            self.place.remove(&[path]).await?;
        }
        Ok(())
    }

    async fn is_manifest_ours(&self) -> anyhow::Result<bool> {
        let now = Manifest::read(self.place, &self.manifest.trace).await?;
        Ok(now.is_some_and(|now| now.token == self.manifest.token))
    }
}

/// Where a copy of the trace is, below the lake.
fn copy_of(adding: &Adding, files: &TraceFiles) -> String {
    format!("_kymo/traces/{}/{}", adding.name(), escaped(&files.name()))
}

impl Lost {
    /// Adds rows of `losses`.
    fn take(&mut self, rows: &arrow_array::RecordBatch) {
        use arrow_array::Array as _;
        use arrow_array::cast::AsArray as _;
        use arrow_array::types::UInt64Type;

        let sum = |name: &str| {
            let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>().cloned());
            column.map_or((0, 0), |column| (column.iter().flatten().sum::<u64>(), column.len() - column.null_count()))
        };
        let ((records, counted), (packets, _)) = (sum("records"), sum("packets"));
        self.records += records;
        self.packets += packets;
        self.damaged += (rows.num_rows() - counted) as u64;
    }
}
