// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directory of a trace: chosen, checked, and removed again when nothing came of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kymo_collect::{SUMMARY_FILE, make_private_dir};

/// A directory that is ready to take a trace.
pub(crate) struct Output {
    path: PathBuf,
    /// It did not exist before.
    is_ours: bool,
}

impl Output {
    /// `wanted`, or a name of the present date and time in the working directory. It exists, empty, when this returns.
    pub(crate) fn prepare(wanted: Option<&Path>, overwrite: bool) -> anyhow::Result<Output> {
        let path = wanted.map_or_else(fresh_name, Path::to_owned);
        let is_ours = !path.exists();
        if !is_ours {
            check(&path, overwrite)?;
        }
        make_private_dir(&path).with_context(|| format!("cannot make the output directory {}", path.display()))?;
        Ok(Output { path, is_ours })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what a session left in it, and the directory itself if it was made for this session.
    pub(crate) fn discard(&self) {
        let _ = clear(&self.path);
        if self.is_ours {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// `kymo-trace-20261121-053403`, in local time, with a number behind it where that exists.
fn fresh_name() -> PathBuf {
    let base = format!("kymo-trace-{}", local_time());
    let numbered = (2..10_000).map(|number| PathBuf::from(format!("{base}-{number}")));
    let mut names = std::iter::once(PathBuf::from(&base)).chain(numbered);
    names.find(|name| !name.exists()).unwrap_or_else(|| PathBuf::from(base))
}

fn local_time() -> String {
    // SAFETY: time accepts a null pointer; `tm` is plain data that localtime_r fills in.
    let tm = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut tm);
        tm
    };
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}

/// Whether a file of this name belongs to a trace of kymo.
fn is_of_a_trace(name: &str) -> bool {
    let is_index = name.strip_suffix(".new").unwrap_or(name) == kymo_index::FILE_NAME;
    let ours = ["metadata", ".metadata.new", SUMMARY_FILE, ".kymo.json.new"];
    kymo_collect::is_stream_file(name) || is_index || ours.contains(&name)
}

/// Whether this is a snapshot of a flight recorder or a chunk of a trace, with nothing else in it.
fn is_part(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_named = name.starts_with("snapshot-") || kymo_collect::is_chunk_dir(&name);
    let is_all_ours = || {
        let names = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.into_iter().all(|name| is_of_a_trace(&name.to_string_lossy()))
    };
    is_named && path.is_dir() && !path.is_symlink() && is_all_ours()
}

/// An existing directory must be empty; one with a trace in it and nothing else is emptied when the user said so.
fn check(path: &Path, overwrite: bool) -> anyhow::Result<()> {
    if !path.is_dir() {
        bail!("{} is not a directory; choose another with -o", path.display());
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot look into {}", path.display()))?;
    let names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let is_trace = names.iter().any(|name| name == SUMMARY_FILE);
    let stranger = names.iter().find(|name| !is_of_a_trace(name) && !is_part(&path.join(name)));
    match (is_trace, stranger, overwrite) {
        (true, None, true) => clear(path),
        (true, None, false) => {
            bail!("{} holds an earlier trace; --overwrite replaces it, -o DIR chooses another place", path.display())
        }
        (_, Some(stranger), true) if is_trace => {
            bail!(
                "{} holds a trace and also {stranger}, which is not part of it; choose another place with -o",
                path.display()
            )
        }
        _ => bail!("{} is not empty and holds no trace of kymo; choose another place with -o", path.display()),
    }
}

fn clear(path: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(path).with_context(|| format!("cannot look into {}", path.display()))?.flatten() {
        if is_part(&entry.path()) {
            clear(&entry.path())?;
            fs::remove_dir(entry.path()).with_context(|| format!("cannot remove {}", entry.path().display()))?;
        } else if is_of_a_trace(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path()).with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("trace");
        let message =
            |overwrite| Output::prepare(Some(&dir), overwrite).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(message(false), "");
        assert_eq!(message(false), "");
        fs::write(dir.join("user_0_1"), "").unwrap();
        assert!(message(true).contains("holds no trace"));
        fs::write(dir.join(SUMMARY_FILE), "").unwrap();
        assert!(message(false).contains("--overwrite"));
        let snapshot = dir.join("snapshot-0001");
        fs::create_dir(&snapshot).unwrap();
        fs::write(snapshot.join("thesis.tex"), "").unwrap();
        assert!(message(true).contains("snapshot-0001"));
        fs::rename(snapshot.join("thesis.tex"), snapshot.join(SUMMARY_FILE)).unwrap();
        fs::write(dir.join("thesis.tex"), "").unwrap();
        assert!(message(true).contains("thesis.tex"));
        fs::remove_file(dir.join("thesis.tex")).unwrap();
        fs::write(dir.join(".kymo-index"), "").unwrap();
        fs::write(snapshot.join(".kymo-index.new"), "").unwrap();
        assert_eq!(message(true), "");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn only_what_was_made_is_discarded() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("new");
        let output = Output::prepare(Some(&dir), false).unwrap();
        fs::write(dir.join("metadata"), "").unwrap();
        output.discard();
        assert!(!dir.exists());
        let output = Output::prepare(Some(base.path()), false).unwrap();
        output.discard();
        assert!(base.path().exists());
    }
}
