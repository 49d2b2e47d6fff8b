// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading and writing single files of tracefs. A knob takes one whole write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::Error;

/// Room for the first read of a file, bytes.
const READ_BYTES: usize = 64 * 1024;

/// The text of a file. Bytes that are not UTF-8 become U+FFFD. `doing` is for the error: "list the events".
pub fn read(doing: &'static str, path: &Path) -> Result<String, Error> {
    let bytes = File::open(path).and_then(|file| read_whole(&file)).map_err(|error| Error::file(doing, path, error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The whole of a file. The first read has much room: some files of tracefs (`header_page`, `filter`, `id`) give all
/// that fits to the first read and nothing to any later one, so the standard library's short first read would cut them.
fn read_whole(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; READ_BYTES];
    let mut length = 0;
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(file, &mut bytes[length..]))? {
            0 => break,
            more => length += more,
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Gives `text` to a file in one write, as the kernel's parsers need it.
pub fn write(doing: &'static str, path: &Path, text: &str) -> Result<(), Error> {
    write_raw(path, text).map_err(|error| Error::file(doing, path, error))
}

/// As [`write`], for callers who know what an error number means. The file is not truncated.
pub fn write_raw(path: &Path, text: &str) -> io::Result<()> {
    write_whole(OpenOptions::new().write(true).open(path)?, text)
}

/// As [`write_raw`] for files that hold a list: truncating them would empty it.
pub fn append_raw(path: &Path, text: &str) -> io::Result<()> {
    write_whole(OpenOptions::new().append(true).open(path)?, text)
}

/// Empties a file that holds a list.
pub fn clear(doing: &'static str, path: &Path) -> Result<(), Error> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let open = rustix::fs::open(path, flags, Mode::empty());
    open.map(drop).map_err(|error| Error::file(doing, path, error.into()))
}

/// `1` or `0` into a switch.
pub fn switch(doing: &'static str, path: &Path, on: bool) -> Result<(), Error> {
    write(doing, path, if on { "1" } else { "0" })
}

fn write_whole(mut file: File, text: &str) -> io::Result<()> {
    let written = loop {
        match file.write(text.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    if written == text.len() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::WriteZero, format!("only {written} of {} bytes were taken", text.len())))
}
