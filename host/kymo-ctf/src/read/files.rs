// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a trace's bytes come from: a directory, or memory. The only place of the crate that opens a file.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use kymo_mapping::Mapping;

use super::error::Error;

/// The bytes of a file.
pub enum Content {
    /// In memory.
    Owned(Vec<u8>),
    /// Mapped.
    Mapped(Mapping),
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            // SAFETY: the mapping has this many bytes for as long as it lives, and the reader takes any bytes as input
            // [spec/read.md]. Stream files are only appended to; bytes that somebody changes or cuts off meanwhile are
            // damage like any other.
            Self::Mapped(map) => unsafe { std::slice::from_raw_parts(map.base().as_ptr(), map.bytes()) },
        }
    }
}

impl Content {
    /// Gives the memory of a part that was read back, as far as it is whole pages of a mapped file. The part may be
    /// read again, from the system's cache or the file.
    pub(super) fn forget(&self, part: Range<usize>) {
        if let Self::Mapped(map) = self {
            map.forget(part.start, part.end);
        }
    }

    /// Whether the file was cut short, or could not be read, since it was opened: zeros stand in the place of what is
    /// gone.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Mapped(map) if map.is_damaged())
    }
}

/// The files of one trace.
pub trait Files {
    /// What messages call the trace.
    fn label(&self) -> String;
    /// The file `metadata`.
    fn metadata(&self) -> Result<Content, Error>;
    /// Names of the stream files, sorted.
    fn streams(&self) -> Result<Vec<String>, Error>;
    /// A stream file.
    fn open(&self, name: &str) -> Result<Content, Error>;
}

/// A trace directory.
pub struct Directory<'a>(pub &'a Path);

impl Directory<'_> {
    fn io(&self, name: &str, source: std::io::Error) -> Error {
        Error::Io { path: self.0.join(name).display().to_string(), source }
    }
}

impl Files for Directory<'_> {
    fn label(&self) -> String {
        self.0.display().to_string()
    }

    fn metadata(&self) -> Result<Content, Error> {
        match std::fs::read(self.0.join("metadata")) {
            Ok(bytes) => Ok(Content::Owned(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.0.is_dir() => {
                Err(Error::NotATrace { dir: self.label(), hint: hint(self.0) })
            }
            Err(_) if self.0.exists() && !self.0.is_dir() => {
                let source = std::io::Error::other("a trace is a directory, and this is a file");
                Err(Error::Io { path: self.label(), source })
            }
            Err(error) if !self.0.exists() => Err(Error::Io { path: self.label(), source: error }),
            Err(error) => Err(self.io("metadata", error)),
        }
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.0).map_err(|error| self.io("", error))? {
            let entry = entry.map_err(|error| self.io("", error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Hidden files are notes; directories (`index`) are not streams.
            if name != "metadata" && !name.starts_with('.') && entry.path().is_file() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> Result<Content, Error> {
        let file = File::open(self.0.join(name)).map_err(|error| self.io(name, error))?;
        let bytes = file.metadata().map_err(|error| self.io(name, error))?.len();
        if bytes == 0 {
            return Ok(Content::Owned(Vec::new()));
        }
        let mapping =
            usize::try_from(bytes).map_err(std::io::Error::other).and_then(|bytes| Mapping::to_read(&file, bytes));
        match mapping {
            Ok(mapping) => Ok(Content::Mapped(mapping)),
            Err(error) => Err(self.io(name, error)),
        }
    }
}

/// A trace in memory, for tests and fuzzing.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The file `metadata`.
    pub metadata: Vec<u8>,
    /// Names and bytes of the stream files.
    pub streams: Vec<(String, Vec<u8>)>,
}

impl Files for Memory {
    fn label(&self) -> String {
        "memory".into()
    }

    fn metadata(&self) -> Result<Content, Error> {
        Ok(Content::Owned(self.metadata.clone()))
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        Ok(self.streams.iter().map(|(name, _)| name.clone()).collect())
    }

    fn open(&self, name: &str) -> Result<Content, Error> {
        let found = self.streams.iter().find(|(known, _)| known == name);
        Ok(Content::Owned(found.map(|(_, bytes)| bytes.clone()).unwrap_or_default()))
    }
}

/// Traces near a directory that is none: below it (four levels, as LTTng nests them) or above it.
pub fn traces_near(dir: &Path) -> Vec<PathBuf> {
    const FOUND_MAX: usize = 5;
    const LOOKED_MAX: usize = 2000;
    let mut found = Vec::new();
    let mut level = vec![dir.to_owned()];
    let mut looked = 0;
    for _ in 0..4 {
        let mut next = Vec::new();
        for parent in level {
            let Ok(entries) = std::fs::read_dir(&parent) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                looked += 1;
                if looked > LOOKED_MAX {
                    break;
                }
                if path.is_dir() && !path.is_symlink() {
                    if path.join("metadata").is_file() { found.push(path) } else { next.push(path) }
                }
            }
        }
        level = next;
    }
    if found.is_empty() {
        found.extend(dir.ancestors().skip(1).take(2).filter(|up| up.join("metadata").is_file()).map(Path::to_owned));
    }
    found.sort();
    found.truncate(FOUND_MAX);
    found
}

fn hint(dir: &Path) -> String {
    let near = traces_near(dir);
    if near.is_empty() {
        return "; name the directory that holds the files `metadata` and the streams".into();
    }
    let near: Vec<String> = near.iter().map(|path| path.display().to_string()).collect();
    format!("; traces nearby: {}", near.join(", "))
}
