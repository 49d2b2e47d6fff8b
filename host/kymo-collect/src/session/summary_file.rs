// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file with a session's summary: written at its start with room for the last one.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::Error;
use crate::summary::{SUMMARY_FILE, Summary};
use crate::trace_dir::replace;

/// Writes the first one, with room to write the last in place, should the file system be full then.
pub(super) fn begin(dir: &Path, initial: &Summary) -> Result<(), Error> {
    let mut text = summary_text(initial);
    text.resize(text.len().next_multiple_of(16_384), b' ');
    replace(dir, SUMMARY_FILE, &text).map_err(Error::file("write", dir.join(SUMMARY_FILE)))
}

fn summary_text(summary: &Summary) -> Vec<u8> {
    let mut text =
        serde_json::to_vec_pretty(summary).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}").into_bytes());
    text.push(b'\n');
    text
}

/// Writes the last one; into the old file's place where there is no room for a new one.
pub(super) fn write(summary: &Summary) -> Result<(), Error> {
    let path = summary.trace.join(SUMMARY_FILE);
    let mut text = summary_text(summary);
    if replace(&summary.trace, SUMMARY_FILE, &text).is_ok() {
        return Ok(());
    }
    let room = fs::metadata(&path).map_or(0, |old| old.len() as usize);
    if text.len() > room {
        text = serde_json::to_vec(summary).unwrap_or_default();
    }
    if text.len() > room {
        let short = Summary { losses: Vec::new(), processes: Vec::new(), events: Vec::new(), ..summary.clone() };
        text = serde_json::to_vec(&short).unwrap_or_default();
    }
    text.resize(text.len().max(room), b' ');
    let file = fs::File::options().write(true).open(&path).map_err(Error::file("open", &path))?;
    file.write_all_at(&text, 0).map_err(Error::file("write", &path))
}
