// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directory that a trace is written to, and files in it. The simulation of sessions has a disk of its own.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, Mode, OFlags};

/// A directory that a trace is written to.
pub(crate) trait TraceDir: Debug + Send {
    fn path(&self) -> &Path;

    /// Why the trace in it is gone, if it is.
    fn is_gone(&self) -> Option<String>;

    /// A new file; an error if it exists.
    fn create(&self, name: &str) -> io::Result<Box<dyn TraceFile>>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Replaces `name` by a file with `bytes`; the old one stays when that fails.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// A directory at `path` on the same disk.
    fn another(&self, path: &Path) -> Box<dyn TraceDir>;
}

/// A file of packets.
pub(crate) trait TraceFile: Debug + Send {
    /// Writes a packet head and ring bytes at `offset`, however many calls that takes. After an error a part may be
    /// there.
    fn write_packet(&self, offset: u64, head: &[u8], pieces: &[libc::iovec; 2]) -> io::Result<()>;

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file behind so many bytes, and gives back what was reserved there.
    fn cut(&self, bytes: u64);

    /// Reserves space behind the file's end, where the file system can do that.
    fn reserve(&self, offset: u64, bytes: u64);

    /// Names that the file has, and its bytes; `None` where it cannot be asked.
    fn links_and_bytes(&self) -> Option<(u64, u64)>;
}

impl TraceFile for File {
    fn write_packet(&self, offset: u64, head: &[u8], pieces: &[libc::iovec; 2]) -> io::Result<()> {
        write_pieces(self, offset, head, pieces)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn cut(&self, bytes: u64) {
        let _ = self.set_len(bytes);
    }

    fn reserve(&self, offset: u64, bytes: u64) {
        let _ = rustix::fs::fallocate(self, FallocateFlags::KEEP_SIZE, offset, bytes);
    }

    fn links_and_bytes(&self) -> Option<(u64, u64)> {
        self.metadata().ok().map(|of| (of.nlink(), of.len()))
    }
}

/// A directory, as it was when it was first looked at.
#[derive(Debug)]
pub(crate) struct DiskDir {
    path: PathBuf,
    /// Device and inode; none where it could not be looked at.
    identity: Option<(u64, u64)>,
    /// As long as it is open no other directory gets its inode's number.
    _held: Option<OwnedFd>,
}

impl DiskDir {
    pub(crate) fn new(path: &Path) -> DiskDir {
        let held = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        DiskDir { path: path.to_owned(), identity: identity(path), _held: held.ok() }
    }

    /// The same, as a directory that a trace can be written to.
    pub(crate) fn boxed(path: &Path) -> Box<dyn TraceDir> {
        Box::new(DiskDir::new(path))
    }
}

impl TraceDir for DiskDir {
    fn path(&self) -> &Path {
        &self.path
    }

    /// Why the trace in it is gone, if it is.
    fn is_gone(&self) -> Option<String> {
        let path = self.path.display();
        match (self.identity, identity(&self.path)) {
            (Some(then), Some(now)) if then != now => {
                Some(format!("the directory {path} was replaced by another one while it was written to"))
            }
            (Some(_), None) => Some(format!("the directory {path} was removed or moved while it was written to")),
            _ => None,
        }
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn TraceFile>> {
        let file = File::options().create_new(true).read(true).write(true).open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        replace(&self.path, name, bytes)
    }

    fn another(&self, path: &Path) -> Box<dyn TraceDir> {
        DiskDir::boxed(path)
    }
}

/// Replaces `name` in `dir` by a file with `bytes`; the old one stays when that fails.
pub(crate) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(format!(".{}.new", name.trim_start_matches('.')));
    let result = fs::write(&new, bytes).and_then(|()| fs::rename(&new, dir.join(name)));
    if result.is_err() {
        let _ = fs::remove_file(&new);
    }
    result
}

/// Writes a packet head and ring bytes at `offset`, however many calls that takes.
fn write_pieces(file: &File, mut offset: u64, head: &[u8], pieces: &[libc::iovec; 2]) -> io::Result<()> {
    let head = libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() };
    let mut list = [head, pieces[0], pieces[1]];
    let mut at = 0;
    while at < list.len() {
        if list[at].iov_len == 0 {
            at += 1;
            continue;
        }
        let rest = &list[at..];
        // SAFETY: the head is a live slice, and the pieces lie in a mapping that the caller holds [spec/ring.md 3.1].
        // The system only reads them; that another process changes the bytes meanwhile is its own loss [spec/ring.md
        // 1.7].
        let written =
            unsafe { libc::pwritev(file.as_raw_fd(), rest.as_ptr(), rest.len() as libc::c_int, offset as libc::off_t) };
        let mut written = match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
        };
        offset += written as u64;
        for piece in &mut list[at..] {
            let step = written.min(piece.iov_len);
            piece.iov_base = piece.iov_base.wrapping_byte_add(step);
            piece.iov_len -= step;
            written -= step;
        }
    }
    Ok(())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let of = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
    Some((of.dev(), of.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_goes_comes_back_and_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let (path, aside) = (root.path().join("trace"), root.path().join("aside"));
        fs::create_dir(&path).unwrap();
        let dir = DiskDir::new(&path);
        assert_eq!(dir.is_gone(), None);
        fs::rename(&path, &aside).unwrap();
        assert!(dir.is_gone().unwrap().contains("removed or moved"));
        fs::create_dir(&path).unwrap();
        assert!(dir.is_gone().unwrap().contains("replaced"));
        fs::remove_dir(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
        assert_eq!(dir.is_gone(), None);
        // Another one at once: many file systems would give it the number of the old one.
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(dir.is_gone().unwrap().contains("replaced"));
    }
}
