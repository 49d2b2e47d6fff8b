// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests share: recorded files, and bytes that are damaged on purpose.
#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

use std::path::PathBuf;

pub use kymo_testing::{Random, setting};

/// The folder of test data.
pub fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The names and bytes of all files in `tests/NAME` that end in `.EXTENSION` (or of all, if empty), by name.
pub fn files(name: &str, extension: &str) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| extension.is_empty() || path.extension().is_some_and(|it| it == extension));
    paths.sort();
    assert!(!paths.is_empty());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}
