// SPDX-License-Identifier: MIT OR Apache-2.0
//! Build ids of mapped files: the note of type `NT_GNU_BUILD_ID` in an ELF file. Files are those of any program, so
//! nothing in them is trusted: reads are bounded, and only regular files are opened.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use crate::access::Fault;

/// SHA-1 has 20 bytes; linkers take any number from the command line. Longer ones are left out.
const ID_BYTES: usize = 64;
/// Of one program header table.
const HEADERS_MAX: u16 = 512;
/// Of one segment of notes.
const NOTES_BYTES: u64 = 64 << 10;

/// A build id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuildId {
    length: u8,
    bytes: [u8; ID_BYTES],
}

impl BuildId {
    fn new(id: &[u8]) -> Option<BuildId> {
        let mut bytes = [0; ID_BYTES];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        (!id.is_empty()).then_some(BuildId { length: id.len() as u8, bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A mapped file to look into.
pub(crate) struct BuildIdSearch<'a> {
    /// The process's folder in /proc.
    pub process: BorrowedFd<'a>,
    pub start: u64,
    pub end: u64,
    pub inode: u64,
    /// As the process sees it.
    pub path: &'a [u8],
}

/// Build ids of the files seen so far, by device and inode as stat(2) has them. (Those in `maps` are not enough:
/// subvolumes of one file system share the device there.)
#[derive(Default)]
pub(crate) struct BuildIds(HashMap<(u64, u64), Option<BuildId>>);

impl BuildIds {
    /// The build id of a mapped file; `None` if it has none. Fails if the file cannot be opened.
    pub(crate) fn find(&mut self, search: &BuildIdSearch<'_>) -> Result<Option<BuildId>, Fault> {
        let place = match open_mapped(search) {
            Ok(place) => place,
            Err(_) => open_by_path(search)?,
        };
        let stat = rustix::fs::fstat(&place)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        if let Some(id) = self.0.get(&(stat.st_dev, stat.st_ino)) {
            return Ok(*id);
        }
        let file = reopen(&place)?;
        let id = of_elf(&mut |offset, buffer| read_exact_at(&file, offset, buffer));
        self.0.insert((stat.st_dev, stat.st_ino), id);
        Ok(id)
    }
}

/// The file itself, even if it was deleted or lies in another mount namespace. Needs privileges.
fn open_mapped(search: &BuildIdSearch<'_>) -> Result<OwnedFd, Fault> {
    let name = format!("map_files/{:x}-{:x}", search.start, search.end);
    Ok(rustix::fs::openat(search.process, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// The file that has this path now, if it still is the mapped one.
fn open_by_path(search: &BuildIdSearch<'_>) -> Result<OwnedFd, Fault> {
    let root = rustix::fs::openat(search.process, "root", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // A process may replace its files by links while we look: they must not lead out of its root.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(&root, search.path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    if rustix::fs::fstat(&place)?.st_ino != search.inode { Err(Fault::Gone) } else { Ok(place) }
}

/// Opens for reading what `place` names. Only now, when it is known to be a regular file: to open a device can do
/// something.
fn reopen(place: &OwnedFd) -> Result<OwnedFd, Fault> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Fills `buffer` from `offset` on; false if the file ends before, or cannot be read.
fn read_exact_at(file: &OwnedFd, mut offset: u64, mut buffer: &mut [u8]) -> bool {
    while !buffer.is_empty() {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Ok(0) | Err(_) => return false,
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset = offset.saturating_add(count as u64);
            }
        }
    }
    true
}

/// Integers of an ELF file, in its byte order.
#[derive(Clone, Copy)]
struct Order {
    big: bool,
}

impl Order {
    fn unsigned(self, bytes: &[u8], at: usize, size: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(size)?)?;
        let shift = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        Some(if self.big { bytes.iter().fold(0, shift) } else { bytes.iter().rev().fold(0, shift) })
    }
}

/// Where the fields of a program header and of the file's header are: ELF of 32 or of 64 bits.
struct ElfLayout {
    word: usize,
    table_offset_at: usize,
    entry_bytes_at: usize,
    entry_bytes: u64,
    offset_at: usize,
    file_size_at: usize,
    align_at: usize,
}

const ELF32: ElfLayout = ElfLayout {
    word: 4,
    table_offset_at: 28,
    entry_bytes_at: 42,
    entry_bytes: 32,
    offset_at: 4,
    file_size_at: 16,
    align_at: 28,
};
const ELF64: ElfLayout = ElfLayout {
    word: 8,
    table_offset_at: 32,
    entry_bytes_at: 54,
    entry_bytes: 56,
    offset_at: 8,
    file_size_at: 32,
    align_at: 48,
};

const PT_NOTE: u64 = 4;
const NT_GNU_BUILD_ID: u64 = 3;

/// Fills a buffer from an offset of a file on.
type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> bool + 'a;

/// The build id of an ELF file; `None` if it has none or is not such a file.
fn of_elf(read: &mut ReadAt<'_>) -> Option<BuildId> {
    let mut head = [0; 64];
    // A file of 32 bits may be shorter than the longer head.
    if !read(0, &mut head) && !read(0, &mut head[..52]) {
        return None;
    }
    if head[..4] != *b"\x7fELF" {
        return None;
    }
    let shape = match head[4] {
        1 => &ELF32,
        2 => &ELF64,
        _ => return None,
    };
    let order = Order { big: head[5] == 2 };
    let table = order.unsigned(&head, shape.table_offset_at, shape.word)?;
    let entry_bytes = order.unsigned(&head, shape.entry_bytes_at, 2)?;
    let count = order.unsigned(&head, shape.entry_bytes_at + 2, 2)?.min(u64::from(HEADERS_MAX));
    if entry_bytes != shape.entry_bytes {
        return None;
    }
    let mut headers = vec![0; (count * entry_bytes) as usize];
    if !read(table, &mut headers) {
        return None;
    }
    headers.chunks_exact(entry_bytes as usize).find_map(|header| of_segment(read, shape, order, header))
}

/// The build id in the segment of this program header.
fn of_segment(read: &mut ReadAt<'_>, shape: &ElfLayout, order: Order, header: &[u8]) -> Option<BuildId> {
    if order.unsigned(header, 0, 4)? != PT_NOTE {
        return None;
    }
    let offset = order.unsigned(header, shape.offset_at, shape.word)?;
    let size = order.unsigned(header, shape.file_size_at, shape.word)?.min(NOTES_BYTES);
    let align = if order.unsigned(header, shape.align_at, shape.word)? == 8 { 8 } else { 4 };
    let mut notes = vec![0; size as usize];
    if read(offset, &mut notes) { of_notes(&notes, order, align) } else { None }
}

/// The build id of this kernel from /sys/kernel/notes.
pub(crate) fn of_kernel(notes: &[u8]) -> Option<BuildId> {
    of_notes(notes, Order { big: cfg!(target_endian = "big") }, 4)
}

fn of_notes(notes: &[u8], order: Order, align: usize) -> Option<BuildId> {
    let mut at: usize = 0;
    loop {
        let name_bytes = usize::try_from(order.unsigned(notes, at, 4)?).ok()?;
        let desc_bytes = usize::try_from(order.unsigned(notes, at + 4, 4)?).ok()?;
        let kind = order.unsigned(notes, at + 8, 4)?;
        let name_at = at + 12;
        let name_end = name_at.checked_add(name_bytes)?;
        let desc_at = name_end.checked_next_multiple_of(align)?;
        let desc_end = desc_at.checked_add(desc_bytes)?;
        let name = notes.get(name_at..name_end)?;
        let desc = notes.get(desc_at..desc_end)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::new(desc);
        }
        at = desc_end.checked_next_multiple_of(align)?;
    }
}

#[cfg(test)]
#[path = "build_id_tests.rs"]
mod tests;
