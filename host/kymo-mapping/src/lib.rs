// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mapped files that others can change: a page that is taken away costs its mapping, not the process.
//!
//! Who touches a page of a mapped file that is no longer there is sent SIGBUS, and dies of it: the file was cut short,
//! the disk below a hole is full, or the storage or memory is broken. A [`Mapping`] puts pages of zeros in the place of
//! the rest of the file instead and says so by [`Mapping::is_damaged`]. A SIGBUS at any other address has the effect
//! that it had before.
//!
//! System calls that meet such a page (`pwritev`, `write`) are not signalled: they fail with EFAULT.

mod guard;

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use guard::Guard;

/// A shared mapping of a whole file, or of its first bytes.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    guard: Guard,
}

// SAFETY: the mapping is plain memory of the process; who makes references into it says why they hold.
unsafe impl Send for Mapping {}
// SAFETY: as above; all methods only read the address, the size and an atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of the file, for reading.
    pub fn to_read(file: impl AsFd, bytes: usize) -> io::Result<Mapping> {
        Mapping::new(file, bytes, ProtFlags::READ)
    }

    /// Maps the first `bytes` of the file, for reading and writing.
    pub fn to_write(file: impl AsFd, bytes: usize) -> io::Result<Mapping> {
        Mapping::new(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn new(file: impl AsFd, bytes: usize, access: ProtFlags) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping at an address of the kernel's choice, which nothing else knows.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Mapping { base, bytes, guard: Guard::new(base.as_ptr() as usize, bytes) })
    }

    /// Its first byte; page aligned.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a part of it was taken away: from there on it has zeros, and what was read may have been.
    pub fn is_damaged(&self) -> bool {
        self.guard.is_damaged()
    }

    /// A system call failed because of a page that is not there.
    pub fn note_damage(&self) {
        self.guard.note_damage();
    }

    /// The pages of the first `bytes` are there from here on, if the kernel can do that.
    pub fn populate(&self, bytes: usize) {
        // SAFETY: the range lies in the mapping. Where the kernel cannot do it, pages come when they are touched.
        let _ = unsafe {
            rustix::mm::madvise(self.base.as_ptr().cast(), bytes.min(self.bytes), Advice::LinuxPopulateWrite)
        };
    }

    /// Gives back the memory of the whole pages between two offsets. What was written stays in the file.
    pub fn forget(&self, from: usize, to: usize) {
        let page = page_bytes();
        let (from, to) = (from.next_multiple_of(page), to.min(self.bytes) / page * page);
        if from < to {
            let at = self.base.as_ptr().wrapping_add(from);
            // SAFETY: the range lies in the mapping, which is one of a file: pages come back with its bytes. It is only
            // memory.
            let _ = unsafe { rustix::mm::madvise(at.cast(), to - from, Advice::LinuxDontNeed) };
        }
    }
}

/// Bytes of a page. rustix's own way reads the vDSO, which is not there under Valgrind, and dies of that.
fn page_bytes() -> usize {
    // SAFETY: it takes a number and gives one.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // First: another mapping may have the address as soon as this one is gone.
        self.guard.release();
        // SAFETY: this is the mapping of `new`, unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
