// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk in memory, that can be full, out of descriptors, or gone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::trace_dir::{TraceDir, TraceFile};

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// No byte more has room, but for what was reserved.
    pub is_full: bool,
    /// What a full disk says: that there is no space where this is 0, else this errno value.
    pub says: i32,
    /// No file can be opened.
    pub no_descriptors: bool,
    /// The directories were removed.
    pub is_gone: bool,
    /// The process that writes dies when it has written so many bytes more.
    pub dies_after: Option<usize>,
}

/// What a process unwinds with that dies while it writes.
pub(super) struct Died;

#[derive(Debug, Default)]
struct Content {
    faults: Faults,
    files: BTreeMap<PathBuf, File>,
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    reserved: usize,
}

/// The disk; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Content>>);

impl Disk {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    pub(super) fn dir(&self, path: &Path) -> Box<dyn TraceDir> {
        Box::new(Dir { disk: self.clone(), path: path.to_owned() })
    }

    pub(super) fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.content().faults);
    }

    /// Whether anything is wrong with it.
    pub(super) fn fails(&self) -> bool {
        let Faults { is_full, no_descriptors, is_gone, .. } = self.content().faults;
        is_full || no_descriptors || is_gone
    }

    /// The directories were removed.
    pub(super) fn is_gone(&self) -> bool {
        self.content().faults.is_gone
    }

    /// Takes the files of one directory away: names and bytes.
    pub(super) fn take(&self, dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let files = &mut self.content().files;
        let paths: Vec<PathBuf> = files.keys().filter(|path| path.parent() == Some(dir)).cloned().collect();
        paths.into_iter().filter_map(|path| files.remove_entry(&path)).map(|(path, file)| (path, file.bytes)).collect()
    }

    /// Brings the files below `from` onto a real disk.
    pub(super) fn bring(&self, from: &Path, to: &Path) -> io::Result<()> {
        for (path, file) in &self.content().files {
            let path = to.join(path.strip_prefix(from).expect("all is below the session's directory"));
            std::fs::create_dir_all(path.parent().expect("it has one"))?;
            std::fs::write(path, &file.bytes)?;
        }
        Ok(())
    }

    /// A text; nothing where the file is not there.
    pub(super) fn text(&self, path: &Path) -> String {
        self.content()
            .files
            .get(path)
            .map_or_else(String::new, |file| String::from_utf8_lossy(&file.bytes).into_owned())
    }

    /// The first bytes of a file, if it has so many.
    pub(super) fn front(&self, path: &Path, bytes: u64) -> Option<Vec<u8>> {
        Some(self.content().files.get(path)?.bytes.get(..bytes as usize)?.to_vec())
    }

    /// Stream files: path and bytes.
    pub(super) fn streams(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let is_stream = |path: &Path| path.file_name().is_some_and(|name| name != "metadata");
        let content = self.content();
        let streams = content.files.iter().filter(|(path, _)| is_stream(path));
        streams.map(|(path, file)| (path.clone(), file.bytes.clone())).collect()
    }
}

#[derive(Debug)]
struct Dir {
    disk: Disk,
    path: PathBuf,
}

#[derive(Debug)]
struct Open {
    disk: Disk,
    path: PathBuf,
}

/// Why nothing has room.
fn refusal(faults: &Faults) -> io::Error {
    io::Error::from_raw_os_error(if faults.says == 0 { libc::ENOSPC } else { faults.says })
}

impl TraceDir for Dir {
    fn path(&self) -> &Path {
        &self.path
    }

    fn is_gone(&self) -> Option<String> {
        self.disk.content().faults.is_gone.then(|| "the directory was removed".to_owned())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn TraceFile>> {
        let mut content = self.disk.content();
        if content.faults.no_descriptors {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        // A quota counts files, and a broken disk has none.
        if content.faults.is_full && content.faults.says != 0 {
            return Err(refusal(&content.faults));
        }
        let path = self.path.join(name);
        if content.files.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        content.files.insert(path.clone(), File::default());
        drop(content);
        Ok(Box::new(Open { disk: self.disk.clone(), path }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.disk.content().files.remove(&self.path.join(name));
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut content = self.disk.content();
        if content.faults.is_full {
            return Err(refusal(&content.faults));
        }
        content.files.insert(self.path.join(name), File { bytes: bytes.to_vec(), reserved: 0 });
        Ok(())
    }

    fn another(&self, path: &Path) -> Box<dyn TraceDir> {
        self.disk.dir(path)
    }
}

impl TraceFile for Open {
    fn write_packet(&self, offset: u64, head: &[u8], pieces: &[libc::iovec; 2]) -> io::Result<()> {
        let mut content = self.disk.content();
        let (is_full, refused) = (content.faults.is_full, refusal(&content.faults));
        let file = content.files.get_mut(&self.path).ok_or(io::ErrorKind::NotFound)?;
        assert_eq!(offset, file.bytes.len() as u64, "a packet begins where the one before ended");
        let room = if is_full { file.reserved.saturating_sub(file.bytes.len()) } else { usize::MAX };
        let mut bytes = head.to_vec();
        for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
            // SAFETY: the caller holds the mapping that the pieces lie in [spec/ring.md 3.1]; nobody else runs.
            bytes.extend(unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len) });
        }
        let is_short = bytes.len() > room;
        bytes.truncate(room);
        let dies_after = content.faults.dies_after;
        let file = content.files.get_mut(&self.path).ok_or(io::ErrorKind::NotFound)?;
        if let Some(left) = dies_after {
            let written = left.min(bytes.len());
            file.bytes.extend(&bytes[..written]);
            content.faults.dies_after = Some(left - written);
            drop(content);
            if left <= bytes.len() {
                std::panic::resume_unwind(Box::new(Died));
            }
        } else {
            file.bytes.extend(bytes);
        }
        if is_short { Err(refused) } else { Ok(()) }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut content = self.disk.content();
        let file = content.files.get_mut(&self.path).ok_or(io::ErrorKind::NotFound)?;
        let at = offset as usize;
        file.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn cut(&self, bytes: u64) {
        if let Some(file) = self.disk.content().files.get_mut(&self.path) {
            file.bytes.truncate(bytes as usize);
            file.reserved = bytes as usize;
        }
    }

    fn reserve(&self, offset: u64, bytes: u64) {
        let mut content = self.disk.content();
        let is_full = content.faults.is_full;
        if let Some(file) = content.files.get_mut(&self.path).filter(|_| !is_full) {
            // To the end of a block, as file systems do it.
            file.reserved = file.reserved.max((offset + bytes).next_multiple_of(4096) as usize);
        }
    }

    fn links_and_bytes(&self) -> Option<(u64, u64)> {
        let content = self.disk.content();
        let file = content.files.get(&self.path);
        Some(match file.filter(|_| !content.faults.is_gone) {
            Some(file) => (1, file.bytes.len() as u64),
            None => (0, 0),
        })
    }
}
