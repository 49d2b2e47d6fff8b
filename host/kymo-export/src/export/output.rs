// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that appears under its name when it is whole: what is interrupted leaves nothing behind that looks like a
//! result.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// Where bytes go.
pub struct Output {
    to: BufWriter<Box<dyn Write>>,
    path: PathBuf,
    /// Not yet under its own name.
    part: Option<PathBuf>,
}

/// Whether a path means standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

impl Output {
    /// A new file, or standard output for `-`.
    pub fn create(path: &Path) -> Result<Output, Error> {
        let buffered = |to: Box<dyn Write>| BufWriter::with_capacity(BUFFER_BYTES, to);
        if is_stdout(path) {
            return Ok(Output { to: buffered(Box::new(std::io::stdout())), path: path.to_owned(), part: None });
        }
        if path.exists() {
            return Err(Error::Exists { path: path.to_owned() });
        }
        let part = part_of(path);
        let file = File::create(&part).map_err(Error::io(&part))?;
        Ok(Output { to: buffered(Box::new(file)), path: path.to_owned(), part: Some(part) })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.to.write_all(bytes).map_err(Error::io(&self.path))
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.to.flush().map_err(Error::io(&self.path))?;
        match self.part.take() {
            Some(part) => std::fs::rename(&part, &self.path).map_err(Error::io(&self.path)),
            None => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // There is nobody left to tell.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Where a file is as long as it is not whole.
fn part_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    path.with_file_name(name)
}

/// A directory that is being filled; removed again unless it is kept.
pub struct NewDirectory {
    path: PathBuf,
    is_kept: bool,
}

impl NewDirectory {
    /// Makes the directory; an empty one may be there.
    pub fn create(path: &Path) -> Result<NewDirectory, Error> {
        match std::fs::read_dir(path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(Error::Exists { path: path.to_owned() });
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(path).map_err(Error::io(path))?;
            }
            Err(error) => return Err(Error::io(path)(error)),
        }
        Ok(NewDirectory { path: path.to_owned(), is_kept: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It is whole.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // There is nobody left to tell.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
