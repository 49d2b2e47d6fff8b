// SPDX-License-Identifier: MIT OR Apache-2.0
//! An opened trace. How its records are read is in `merge`, `scan` and `count`.

use std::path::Path;
use std::sync::Arc;

use super::class::Metadata;
use super::error::{Caveat, Decoded, Error};
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

/// What the metadata of a trace says, and the plans made of it: for several openings of a trace whose metadata stay the
/// same while its streams grow.
#[derive(Clone, Debug)]
pub struct ReadyMetadata {
    metadata: Metadata,
    layout: Layout,
    caveats: Vec<Caveat>,
}

impl ReadyMetadata {
    /// Reads and understands the metadata of a trace.
    pub fn of(files: &dyn Files) -> Result<Self, Error> {
        let bytes = files.metadata()?;
        let Decoded { value: metadata, caveats } = parse_metadata(&format!("{}/metadata", files.label()), &bytes)?;
        Ok(Self { layout: Layout::new(&metadata), metadata, caveats })
    }

    /// The trace with the streams that its files have now. The file of the metadata is not looked at.
    pub fn open(self, files: &dyn Files) -> Result<Decoded<Trace>, Error> {
        let Self { metadata, layout, caveats } = self;
        let names = files.streams()?;
        let streams = names.into_iter().map(|name| files.open(&name).map(|content| (name, content)));
        let streams = streams.collect::<Result<_, _>>()?;
        Ok(Decoded { value: Trace { label: files.label(), layout, metadata, streams, watch: None }, caveats })
    }
}

impl Trace {
    /// Opens the trace in `dir`.
    pub fn open(dir: &Path) -> Result<Decoded<Self>, Error> {
        Self::from_files(&Directory(dir))
    }

    /// Opens a trace wherever its files are.
    pub fn from_files(files: &dyn Files) -> Result<Decoded<Self>, Error> {
        ReadyMetadata::of(files)?.open(files)
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

    /// Somebody writes this trace, or did until he was killed: a file that ends inside a packet is not damaged.
    pub fn may_grow(&mut self) {
        self.layout.may_grow = true;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Memory, Reader};

    #[test]
    fn streams_that_grow_are_read_by_metadata_that_were_read_once() {
        let metadata = "clock { name = c; freq = 1000; };
            stream { event.header := struct { integer { size = 8; map = clock.c.value; } timestamp; }; };
            event { name = \"e\"; fields := struct { integer { size = 8; } n; }; };";
        let files = |bytes: &[u8]| Memory { metadata: metadata.into(), streams: vec![("s".into(), bytes.to_vec())] };
        let ready = ReadyMetadata::of(&files(&[])).unwrap();
        let all = [1, 10, 2, 20, 3, 30];
        for end in [0, 2, 4, 6] {
            let other = Memory { metadata: b"nobody reads this".to_vec(), ..files(&all[..end]) };
            let mut opened = [ready.clone().open(&other).unwrap().value];
            let count = |traces: &[Trace]| {
                let mut reader = Reader::new(traces);
                std::iter::from_fn(|| reader.pass()).count()
            };
            assert_eq!(count(&opened), end / 2);
            // Nor does what is done with one opening show in the next one.
            opened[0].metadata.clocks[0].frequency_hz = 7;
        }
        let again = ready.open(&files(&all)).unwrap().value;
        assert_eq!((again.metadata.clocks[0].frequency_hz, again.label.as_str()), (1000, "memory"));
    }
}
