// SPDX-License-Identifier: MIT OR Apache-2.0
//! An opened trace. How its records are read is in `merge`, `scan` and `count`.

use std::path::Path;
use std::sync::Arc;

use super::class::Metadata;
use super::error::{Decoded, Error};
use super::files::{Content, Directory, Files};
use super::metadata::parse_metadata;
use super::stream::Layout;
use super::watch::Watch;

/// An opened trace: what its metadata says, and its stream files.
pub struct Trace {
    /// What messages call it.
    pub label: String,
    /// What its metadata says.
    pub metadata: Metadata,
    pub(super) layout: Layout,
    pub(super) streams: Vec<(String, Content)>,
    /// Is told how far readers have come.
    pub(super) watch: Option<Arc<dyn Watch>>,
}

impl Trace {
    /// Opens the trace in `dir`.
    pub fn open(dir: &Path) -> Result<Decoded<Self>, Error> {
        Self::from_files(&Directory(dir))
    }

    /// Opens a trace wherever its files are.
    pub fn from_files(files: &dyn Files) -> Result<Decoded<Self>, Error> {
        let label = files.label();
        let bytes = files.metadata()?;
        let Decoded { value: metadata, caveats } = parse_metadata(&format!("{label}/metadata"), &bytes)?;
        let names = files.streams()?;
        let streams = names.into_iter().map(|name| files.open(&name).map(|content| (name, content)));
        let streams = streams.collect::<Result<_, _>>()?;
        let layout = Layout::new(&metadata);
        Ok(Decoded { value: Self { label, layout, metadata, streams, watch: None }, caveats })
    }

    /// Names and sizes in bytes of the stream files.
    pub fn streams(&self) -> impl Iterator<Item = (&str, usize)> {
        self.streams.iter().map(|(name, content)| (name.as_str(), content.len()))
    }

    /// Readers, scans and counts of this trace tell `watch` from now on. Of traces that are read together, it is the
    /// same.
    pub fn watch(&mut self, watch: Arc<dyn Watch>) {
        self.watch = Some(watch);
    }

    /// Packets are read from now on whatever UUID they have: they may be of another trace.
    pub fn ignore_uuid(&mut self) {
        self.layout.ignore_uuid();
    }

    /// Whether packets are read whatever UUID they have.
    pub fn ignores_uuid(&self) -> bool {
        self.layout.ignores_uuid
    }

    pub(super) fn watcher(&self) -> Option<&dyn Watch> {
        self.watch.as_deref()
    }
}

/// Whether the same cycles mean the same time in all traces: cycles alone give the order.
pub(super) fn is_one_clock(traces: &[Trace]) -> bool {
    let mut clocks = traces.iter().flat_map(|trace| &trace.metadata.clocks);
    let first = clocks.next();
    clocks.all(|clock| first.is_some_and(|first| clock.measures_as(first)))
}
