// SPDX-License-Identifier: MIT OR Apache-2.0
//! The identity of a trace: a checksum of its files, wherever they are [spec/lake.md 3].

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// Digits of an identity: 128 bits.
const DIGITS: usize = 32;

/// Levels of directories in a trace.
const LEVELS_MAX: usize = 16;

/// The files of a trace, as they are at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFiles {
    dir: PathBuf,
    files: Vec<TraceFile>,
}

/// A file of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Relative to the trace.
    pub name: PathBuf,
    /// Where it is.
    pub path: PathBuf,
    bytes: u64,
    modified_ns: i128,
}

impl TraceFiles {
    /// Those of the trace in a directory, or the one that is a log.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn of(dir: &Path) -> anyhow::Result<TraceFiles> {
        let mut files = Vec::new();
        collect(dir, Path::new(""), 0, &mut files)?;
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(TraceFiles { dir: dir.to_owned(), files })
    }

    /// All files, the index and other hidden ones, too.
    pub fn files(&self) -> &[TraceFile] {
        &self.files
    }

    /// Size of all files that count.
    pub fn bytes(&self) -> u64 {
        self.counted().map(|file| file.bytes).sum()
    }

    /// The name of the trace's directory.
    pub fn name(&self) -> String {
        let name = self.dir.file_name().map(|name| name.to_string_lossy().into_owned());
        name.filter(|name| name != "..").unwrap_or_else(|| "trace".to_owned())
    }

    /// Whether it is one file, and no directory.
    pub fn is_log(&self) -> bool {
        matches!(&self.files[..], [file] if file.path == self.dir)
    }

    fn counted(&self) -> impl Iterator<Item = &TraceFile> {
        let is_hidden = |file: &TraceFile| file.name.iter().any(|part| part.as_encoded_bytes().first() == Some(&b'.'));
        self.files.iter().filter(move |file| !is_hidden(file))
    }

    /// The identity: 32 digits in base 16. Asks `goes_on` now and then.
    ///
    /// # Errors
    /// A file cannot be read, or has another size now; somebody wants it to end.
    pub fn identity(&self, goes_on: &dyn Fn() -> bool) -> anyhow::Result<String> {
        let mut sum = Sha256::new();
        let mut buffer = vec![0; READ_BYTES];
        for file in self.counted() {
            let name = file.name.as_os_str().as_encoded_bytes();
            sum.update((name.len() as u64).to_le_bytes());
            sum.update(name);
            sum.update(file.bytes.to_le_bytes());
            let (mut left, mut opened) = (file.bytes, open(&file.path)?);
            loop {
                ensure!(goes_on(), "interrupted; nothing was added");
                let read = opened.read(&mut buffer).with_context(|| format!("cannot read {}", file.path.display()))?;
                if read == 0 {
                    break;
                }
                left = left.checked_sub(read as u64).with_context(|| changed(&file.path))?;
                sum.update(&buffer[..read]);
            }
            ensure!(left == 0, changed(&file.path));
        }
        let digits: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(digits[..DIGITS].to_owned())
    }

    /// Whether the files that count are what they were.
    ///
    /// # Errors
    /// One is another now.
    pub fn check(&self) -> anyhow::Result<()> {
        let now = TraceFiles::of(&self.dir)?;
        let (mut before, mut after) = (self.counted(), now.counted());
        loop {
            match (before.next(), after.next()) {
                (None, None) => return Ok(()),
                (Some(before), Some(after)) if before == after => {}
                (Some(file), _) | (None, Some(file)) => bail!(changed(&file.path)),
            }
        }
    }
}

fn changed(path: &Path) -> String {
    let path = path.display();
    format!("{path} was written while it was read: is the trace still being recorded? Add it when it has ended")
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A flight recorder's snapshots lie in its directory, which is a trace of rare events, and are traces of their own.
fn is_snapshot(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("snapshot-"));
    number.is_some_and(|number| number.parse::<u64>().is_ok()) && path.join("metadata").is_file()
}

fn collect(path: &Path, name: &Path, level: usize, files: &mut Vec<TraceFile>) -> anyhow::Result<()> {
    let failed = || format!("cannot read {}", path.display());
    let about = fs::metadata(path).with_context(failed)?;
    if about.is_file() {
        let name = if level == 0 { path.file_name().map_or(name, Path::new) } else { name };
        let modified_ns = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
        files.push(TraceFile { name: name.to_owned(), path: path.to_owned(), bytes: about.len(), modified_ns });
        return Ok(());
    }
    if !about.is_dir() || level > LEVELS_MAX {
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        // A link to a directory may lead in circles; one to nothing has nothing.
        let is_link = entry.file_type().with_context(failed)?.is_symlink();
        if is_link && !entry.path().is_file() || level == 0 && is_snapshot(&entry.path()) {
            continue;
        }
        collect(&entry.path(), &name.join(entry.file_name()), level + 1, files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(dir: &Path) -> String {
        TraceFiles::of(dir).unwrap().identity(&|| true).unwrap()
    }

    #[test]
    fn a_copy_is_the_same_trace_and_a_changed_byte_is_not() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[(&str, &str)]| {
            let dir = root.path().join(name);
            for (file, text) in files {
                fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
                fs::write(dir.join(file), text).unwrap();
            }
            dir
        };
        let first = identity(&make("a", &[("metadata", "m"), ("s/0", "abc")]));
        assert_eq!(first.len(), 32);
        // Hidden files, as the index, do not count, and snapshots are traces of their own.
        let more = [(".kymo-index", "i"), ("snapshot-0001/metadata", "m"), ("snapshot-0001/s", "abc")];
        assert_eq!(identity(&make("b", &[&[("metadata", "m"), ("s/0", "abc")][..], &more].concat())), first);
        for files in [
            &[("metadata", "m"), ("s/0", "abd")][..],
            &[("metadata", "m"), ("s/1", "abc")],
            &[("metadata", "ms/0"), ("s/1", "abc")],
            &[("metadata", "m"), ("s/0", "abc"), ("s/1", "")],
            &[("metadata", "m"), ("s/0", "abc"), ("snapshot-0001/s", "")],
            &[("metadata", "m"), ("s/0", "abc"), ("snapshot-x/metadata", "")],
        ] {
            assert_ne!(identity(&make("c", files)), first, "{files:?}");
            fs::remove_dir_all(root.path().join("c")).unwrap();
        }
    }

    #[test]
    fn a_trace_that_is_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("metadata"), "m").unwrap();
        let files = TraceFiles::of(dir.path()).unwrap();
        files.check().unwrap();
        fs::write(dir.path().join("metadata"), "more").unwrap();
        for error in [files.check().unwrap_err(), files.identity(&|| true).unwrap_err()] {
            assert!(error.to_string().contains("still being recorded"), "{error}");
        }
    }
}
