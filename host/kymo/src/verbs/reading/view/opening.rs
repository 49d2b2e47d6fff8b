// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a trace for the viewer, and says what it is called and where its bookmarks are.

use std::path::{Path, PathBuf};

use kymo_query::Opened;

use super::functions;
use crate::verbs::analyze::feed::Input;
use crate::verbs::args::TraceArgs;
use crate::verbs::top;

/// A trace that has ended: the one beside another, or one of a lake.
///
/// # Errors
/// It cannot be opened.
pub fn one(dir: &Path) -> anyhow::Result<Opened> {
    let input = Input::open(&TraceArgs::of(dir))?;
    let indexes = input.indexes();
    let caveats = input.caveats.iter().map(ToString::to_string).collect();
    let opened = Opened::new(input.traces, indexes, name_of(&[dir.to_owned()]), caveats);
    let mut opened = opened.with_symbols(functions::make());
    opened.is_restricted = top::is_restricted(&input.named);
    Ok(opened)
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
