// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result files as arguments: what `kymo compare` and `kymo report` read. Files of other tools are imported on the way.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kymo_lab::Record;

use crate::verbs::import;

/// The records of files, and of all `*.json` in directories, each directory in the order of names.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Record>> {
    Ok(named(paths)?.into_iter().map(|(_, record)| record).collect())
}

/// The same, each with the name of its file, without directories where all names differ.
pub fn named(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, Record)>> {
    let mut records = Vec::new();
    for path in paths {
        if !path.is_dir() {
            records.extend(file(path)?.into_iter().map(|record| (path.clone(), record)));
            continue;
        }
        let files = in_dir(path)?;
        if files.is_empty() {
            bail!("{} has no *.json; give result files, as `kymo wakeup -o FILE` writes them", path.display());
        }
        for path in files {
            records.extend(file(&path)?.into_iter().map(|record| (path.clone(), record)));
        }
    }
    let short: HashSet<_> = records.iter().map(|(path, _)| path.file_name()).collect();
    let is_short = short.len() == records.len();
    let name = |path: &Path| match path.file_name().filter(|_| is_short) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    };
    let names: Vec<String> = records.iter().map(|(path, _)| name(path)).collect();
    Ok(names.into_iter().zip(records.into_iter().map(|(_, record)| record)).collect())
}

fn in_dir(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", dir.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "json") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The records of a file: of ours there may be several, in a list or a line each.
fn file(path: &Path) -> anyhow::Result<Vec<Record>> {
    let bytes = import::content(path)?;
    match Record::several_from_json(&bytes) {
        Some(records) => records.map_err(|error| anyhow::anyhow!("{}: {error}", path.display())),
        None => Ok(vec![kymo_lab::import(&path.to_string_lossy(), &bytes)?]),
    }
}

/// Writes a file that was asked for.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
