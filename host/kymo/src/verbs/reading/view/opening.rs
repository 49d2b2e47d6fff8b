// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a trace for the viewer, and says what it is called and where its bookmarks are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use kymo_ctf::read::Trace;
use kymo_index::KeepHow;
use kymo_query::{KeepSpans, Opened};
use kymo_serve::{Others, Relation};

use super::functions;
use crate::verbs::analyze::feed::{Input, OfHost, ReadRange};
use crate::verbs::analyze::when::When;
use crate::verbs::args::TraceArgs;
use crate::verbs::top;

/// From and to, where they are given.
pub type Times = [Option<When>; 2];

/// A trace that has ended: the one beside another, or one of a lake.
///
/// # Errors
/// It cannot be opened.
pub fn one(dir: &Path) -> anyhow::Result<Opened> {
    Ok(of(Input::open(&TraceArgs::of(dir))?, name_of(&[dir.to_owned()]), [None, None])?.0)
}

/// Another trace, beside one.
///
/// # Errors
/// It cannot be opened.
pub fn beside(first: &Opened, dir: &Path) -> anyhow::Result<Others> {
    let second = one(dir)?;
    let names = vec![first.name.clone(), second.name.clone()];
    Ok(Others { relation: Relation::Beside, names, opened: vec![Arc::new(second)] })
}

/// Traces that have ended, of one kernel at most, under this name, and the part of them that is asked for. Says which
/// of their indexes do not hold.
///
/// # Errors
/// Nothing of them is in that part.
pub fn of(input: Input, name: String, [from, to]: Times) -> anyhow::Result<(Opened, Option<ReadRange>)> {
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, from, to)?;
    let caveats = input.caveats.iter().map(ToString::to_string).collect();
    let is_restricted = top::is_restricted(&input.named);
    let keep = input.named.first().and_then(|first| keep_spans(&first.dir, &input.traces));
    let mut opened = Opened::new(input.traces, indexes, name, caveats).with_symbols(functions::make());
    if let Some(keep) = keep {
        opened = opened.keeping(keep);
    }
    opened.is_restricted = is_restricted;
    Ok((opened, stretch))
}

/// Chosen spans are kept beside the index that the cache has of a trace, in files without a name. None where there is
/// no home.
fn keep_spans(dir: &Path, traces: &[Trace]) -> Option<KeepSpans> {
    /// Those of fewer records are read in a tenth of a second or so.
    const RECORDS_MIN: u64 = 1 << 18;
    /// A part of the index has as many.
    const PART_SPANS: usize = 4096;
    /// Small traces may have as many bytes of them.
    const BYTES_MIN: u64 = 64 << 20;
    let cache = kymo_index::in_cache(dir)?.parent()?.to_owned();
    let file = Box::new(move || {
        std::fs::create_dir_all(&cache)?;
        tempfile::tempfile_in(&cache)
    });
    let bytes: u64 = traces.iter().flat_map(Trace::streams).map(|(_, bytes)| bytes as u64).sum();
    let how = KeepHow { spans: PART_SPANS, bytes_max: (bytes / 2).max(BYTES_MIN) };
    Some(KeepSpans { file, records_min: RECORDS_MIN, how })
}

/// Traces of several hosts, and the part of their time that is asked for.
///
/// # Errors
/// There are no records, or none in that part.
pub fn several(hosts: Vec<OfHost>, [from, to]: Times) -> anyhow::Result<(Vec<Opened>, Option<ReadRange>)> {
    let (mut all, mut common) = (Vec::new(), None);
    for host in hosts {
        let dirs: Vec<PathBuf> = host.input.named.iter().map(|named| named.dir.clone()).collect();
        let name = format!("{}: {}", host.name, name_of(&dirs));
        let (opened, stretch) = of(host.input, name, [None, None])?;
        all.push(opened);
        common = common.or(stretch);
    }
    if from.is_none() && to.is_none() {
        return Ok((all, common));
    }
    let bounds = all.iter().filter_map(|opened| opened.bounds);
    let bounds = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let bounds = common.map(|common| (common.from, common.to.saturating_sub(1))).or(bounds);
    let stretch = ReadRange::within(bounds.context("the traces have no records")?, from, to)?;
    Ok((all, Some(stretch)))
}

/// Bookmarks are beside the first trace, or else beside the index that the cache has of it.
pub fn note_places(dirs: &[PathBuf]) -> Vec<PathBuf> {
    const NAME: &str = ".kymo-notes.json";
    let Some(dir) = dirs.first() else { return Vec::new() };
    let cached = kymo_index::in_cache(dir);
    let cached = cached.map(|index| index.with_extension(NAME.trim_start_matches('.')));
    let is_dir = !dir.to_str().is_some_and(kymo_live::is_url);
    is_dir.then(|| dir.join(NAME)).into_iter().chain(cached).collect()
}

/// What people call the traces: their directories.
pub fn name_of(dirs: &[PathBuf]) -> String {
    let name = |dir: &PathBuf| {
        let whole = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        whole.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    dirs.iter().map(name).collect::<Vec<_>>().join(", ")
}
