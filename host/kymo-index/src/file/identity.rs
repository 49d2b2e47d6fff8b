// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an index is of: the files of a trace, as they were when it was built.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kymo_analyze::compact::{Put, Take};
use kymo_ctf::read::Trace;

use crate::file::checksum::checksum;

/// A stream file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Its name in the directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    modified_ns: i64,
    inode: u64,
}

/// A trace directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceIdentity {
    /// Of the file `metadata`, all of it: the trace's UUID and its clocks are in it.
    metadata: u64,
    /// As they are opened: sorted by name.
    pub files: Vec<FileIdentity>,
}

impl TraceIdentity {
    /// Of a trace that was opened from `dir`. `None` where the files are not those that were opened.
    pub fn of(dir: &Path, trace: &Trace) -> Option<TraceIdentity> {
        let metadata = checksum(&fs::read(dir.join("metadata")).ok()?);
        let file = |(name, bytes): (&str, usize)| {
            let about = fs::metadata(dir.join(name)).ok().filter(|about| about.len() == bytes as u64)?;
            let modified_ns = about.mtime().wrapping_mul(1_000_000_000).wrapping_add(about.mtime_nsec());
            Some(FileIdentity { name: name.to_owned(), bytes: about.len(), modified_ns, inode: about.ino() })
        };
        Some(TraceIdentity { metadata, files: trace.streams().map(file).collect::<Option<_>>()? })
    }

    /// What is different now, in words.
    pub fn difference(&self, now: &TraceIdentity) -> Option<String> {
        if self.metadata != now.metadata {
            return Some("the metadata is another".into());
        }
        if self.files.len() != now.files.len() {
            return Some(format!("the trace has {} stream files, not {}", now.files.len(), self.files.len()));
        }
        let changed = self.files.iter().zip(&now.files).find(|(before, now)| before != now);
        changed.map(|(before, now)| match () {
            () if before.name != now.name => format!("the stream file {} is another", now.name),
            () if before.bytes != now.bytes => format!("{} has {} bytes, not {}", now.name, now.bytes, before.bytes),
            () => format!("{} was written since", now.name),
        })
    }

    /// As part of a piece.
    pub fn put(&self, put: &mut Put) {
        put.number(self.metadata);
        put.number(self.files.len() as u64);
        for file in &self.files {
            put.text(&file.name);
            put.number(file.bytes);
            put.signed(file.modified_ns);
            put.number(file.inode);
        }
    }

    /// The same again.
    pub fn take(take: &mut Take<'_>) -> Option<TraceIdentity> {
        let metadata = take.number()?;
        let count = take.count()?;
        let mut file = || {
            let (name, bytes) = (take.text()?.to_owned(), take.number()?);
            Some(FileIdentity { name, bytes, modified_ns: take.signed()?, inode: take.number()? })
        };
        Some(TraceIdentity { metadata, files: (0..count).map(|_| file()).collect::<Option<_>>()? })
    }
}

/// Clocks of traces as they are used: chunks share one, and who reads may correct them.
pub fn clocks(traces: &[Trace]) -> u64 {
    let all: Vec<_> = traces.iter().map(|trace| &trace.metadata.clocks).collect();
    checksum(format!("{all:?}").as_bytes())
}

/// Name of the index beside a trace. Hidden, because readers take every other file for a stream.
pub const FILE_NAME: &str = ".kymo-index";

/// The index of `dir` beside it.
pub fn beside(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

/// The index of `dir` in the user's cache; `None` where there is no home. By the directory's path: a trace that is
/// recorded anew there replaces the one before.
pub fn in_cache(dir: &Path) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    let path = fs::canonicalize(dir).ok()?;
    let key = checksum(path.as_os_str().as_encoded_bytes());
    Some(cache.join("kymo").join(format!("{key:016x}{FILE_NAME}")))
}
