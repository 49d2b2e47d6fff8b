// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU, mapped [spec/kernel.md 4.1]: its sub-buffers are read where the kernel wrote them, without a
//! copy. Kernels before 6.10 refuse it. No page is looked into here.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use crate::meta::{META_BYTES, MetaError, RingShape};

/// `TRACE_MMAP_IOCTL_GET_READER`.
const GET_READER: libc::c_ulong = 0x5220;

/// Words at the beginning of a sub-buffer that are copied: its head is among them.
const HEAD_WORDS: usize = 4;

/// The largest head, bytes.
const HEAD_BYTES_MAX: usize = 8 * HEAD_WORDS;

/// Bytes behind the records that are copied: the kernel may have put the number of missed events there.
const BEHIND_BYTES: usize = 8;

/// A ring that is mapped. It cannot be resized while this lives.
#[derive(Debug)]
pub struct MappedRing {
    pages: File,
    meta: ReadOnly,
    data: ReadOnly,
    shape: RingShape,
    /// Bytes of a sub-buffer in front of its records.
    head_bytes: usize,
    /// The sub-buffer that was given last, and how many of its bytes were read then.
    last: Option<(u32, usize)>,
    head: [u8; HEAD_BYTES_MAX],
    behind: [u8; BEHIND_BYTES],
}

/// What is new in a ring: all records of the reader's sub-buffer so far. Only `data` is where the kernel wrote it; the
/// kernel does not write there until it is asked for the next one.
#[derive(Clone, Copy, Debug)]
pub struct MappedPage<'a> {
    /// The first bytes of the sub-buffer, its head among them.
    pub head: &'a [u8],
    /// Records from the first one of the sub-buffer on, also those that were given before.
    pub data: &'a [u8],
    /// What is behind `data`; empty at the end of the sub-buffer.
    pub behind: &'a [u8],
    /// Whether it is another sub-buffer than the one before.
    pub is_new: bool,
    /// Events that were overwritten in front of this sub-buffer, where kernels say it here and not in its head. A
    /// number of earlier ones may stay here, so that it only says that there were some.
    pub lost_events: u64,
}

impl MappedRing {
    /// Maps the ring that `pages`, a `trace_pipe_raw` that does not block, is of.
    pub(crate) fn map(pages: File, subbuf_bytes: usize, head_bytes: usize) -> io::Result<MappedRing> {
        let page = rustix::param::page_size();
        if head_bytes > HEAD_BYTES_MAX || head_bytes >= subbuf_bytes {
            let why = format!("a head of {head_bytes} bytes in a sub-buffer of {subbuf_bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let meta = ReadOnly::map(&pages, page, 0)?;
        let shape = RingShape::parse(&description(&meta), page, subbuf_bytes).map_err(invalid)?;
        let bytes = shape.data_bytes().ok_or_else(|| invalid(MetaError::Count { count: shape.count }))?;
        let data = ReadOnly::map(&pages, bytes, shape.begin)?;
        let (head, behind) = ([0; HEAD_BYTES_MAX], [0; BEHIND_BYTES]);
        Ok(MappedRing { pages, meta, data, shape, head_bytes, last: None, head, behind })
    }

    /// Asks the kernel for the reader's sub-buffer. `None`: nothing was added since the last time. Never waits.
    pub fn next_page(&mut self) -> io::Result<Option<MappedPage<'_>>> {
        self.ask()?;
        let place = self.shape.reader(&description(&self.meta), self.head_bytes).map_err(invalid)?;
        let known = self.last.filter(|(index, bytes)| *index == place.index && *bytes <= place.bytes);
        if place.bytes == 0 || known.is_some_and(|(_, bytes)| bytes == place.bytes) {
            return Ok(None);
        }
        self.last = Some((place.index, place.bytes));
        let begin = place.index as usize * self.shape.subbuf_bytes;
        for (word, into) in self.head.chunks_exact_mut(8).enumerate() {
            into.copy_from_slice(&self.data.word(begin + 8 * word).to_ne_bytes());
        }
        let from = begin + self.head_bytes;
        let (end, behind_end) = (from + place.bytes, begin + self.shape.subbuf_bytes);
        let behind_bytes = BEHIND_BYTES.min(behind_end - end);
        for (at, into) in self.behind[..behind_bytes].iter_mut().enumerate() {
            *into = self.data.byte(end + at);
        }
        // SAFETY: [spec/kernel.md 4.1] `reader` checked that the range lies in its sub-buffer, and the index of that
        // against the number of those that are mapped. The kernel appends behind `end` only, and takes the sub-buffer
        // back when it is asked again, for which `self` must be borrowed anew.
        let data = unsafe { std::slice::from_raw_parts(self.data.base.as_ptr().add(from), place.bytes) };
        Ok(Some(MappedPage {
            head: &self.head,
            data,
            behind: &self.behind[..behind_bytes],
            is_new: known.is_none(),
            lost_events: place.lost_events,
        }))
    }

    fn ask(&self) -> io::Result<()> {
        // SAFETY: the request takes no argument and writes to memory of the kernel only.
        match unsafe { libc::ioctl(self.pages.as_raw_fd(), GET_READER, 0) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The kernel's description, as it is now.
fn description(meta: &ReadOnly) -> [u8; META_BYTES] {
    let mut bytes = [0; META_BYTES];
    for (word, into) in bytes.chunks_exact_mut(8).enumerate() {
        into.copy_from_slice(&meta.word(8 * word).to_ne_bytes());
    }
    bytes
}

fn invalid(error: MetaError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A mapping of memory that the kernel writes to.
#[derive(Debug)]
struct ReadOnly {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory that this process only reads; who makes references into it says why they hold.
unsafe impl Send for ReadOnly {}

impl ReadOnly {
    fn map(pages: &File, bytes: usize, begin: u64) -> io::Result<ReadOnly> {
        // SAFETY: a fresh mapping at an address of the kernel's choice, which nothing else knows.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, pages, begin)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(ReadOnly { base, bytes })
    }

    /// The aligned word at `at`, read once.
    fn word(&self, at: usize) -> u64 {
        assert!(at % 8 == 0 && at + 8 <= self.bytes);
        // SAFETY: within the mapping and aligned, as just checked; volatile, because the kernel may write to it.
        unsafe { self.base.as_ptr().add(at).cast::<u64>().read_volatile() }
    }

    /// The byte at `at`, read once.
    fn byte(&self, at: usize) -> u8 {
        assert!(at < self.bytes);
        // SAFETY: within the mapping, as just checked; volatile, because the kernel may write to it.
        unsafe { self.base.as_ptr().add(at).read_volatile() }
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `map`, unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
