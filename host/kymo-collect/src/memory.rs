// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ring memory of one program [spec/ring.md 3.1]: a sealed memfd, or a file that survives the collector; mapped once.
//!
//! The collector maps the ring bytes once, not twice in a row as a program does: a span that wraps is handed to the
//! system as two pieces. The bytes may change under our hands at any time, so no reference to them is ever made.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use kymo_abi::ring::{Layout, MEM_HEADER_BYTES, Mark, Span, View};
use kymo_mapping::Mapping;
use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, flock};

/// A mapped memory. The mapping ends with the value, the memory with its last descriptor and mapping.
#[derive(Debug)]
pub(crate) struct Memory {
    mapping: Mapping,
    layout: Layout,
    serial: u64,
    /// Of the file that is removed with the memory.
    path: Option<PathBuf>,
    /// The collector's own descriptor; none of a memory that was left by another collector.
    fd: Option<OwnedFd>,
    /// A program was given a descriptor without a lease.
    is_unleased: AtomicBool,
    /// Bytes that it counts for beyond what it counted for at first.
    more: AtomicU64,
}

/// Whether anybody but the collector can write into a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lease {
    /// Some process has it mapped, or has a descriptor of it.
    Held,
    /// Nobody has.
    Free,
    /// The kernel could not be asked.
    NotKnown,
}

/// Another open file description of the same memory, under a shared lock.
fn leased(own: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", own.as_raw_fd());
    let again = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    flock(&again, FlockOperation::NonBlockingLockShared)?;
    Ok(again)
}

/// First part of the name of a file with rings.
pub(crate) const FILE_PREFIX: &str = "rings.";

impl Memory {
    /// New memory with its header written: of fixed size, and sealed so.
    pub(crate) fn create(layout: Layout, serial: u64) -> io::Result<Memory> {
        let bytes = usize::try_from(layout.mem_bytes).map_err(io::Error::other)?;
        let fd = rustix::fs::memfd_create("kymo", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, layout.mem_bytes)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Memory::map(fd, layout, serial, bytes, None)?;
        memory.view().write_header(&layout, serial);
        Ok(memory)
    }

    /// The same in a file of `dir`, which survives the collector; it is removed with the value [spec/session.md 6]. Its
    /// space is reserved: a writer must not meet a full file system.
    pub(crate) fn create_in(dir: &Path, layout: Layout, serial: u64) -> io::Result<Memory> {
        let bytes = usize::try_from(layout.mem_bytes).map_err(io::Error::other)?;
        let path = dir.join(format!("{FILE_PREFIX}{serial:016x}"));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
        let path = Some(path);
        let made = rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, layout.mem_bytes).map_err(io::Error::from);
        let memory = made.and_then(|()| Memory::map(fd, layout, serial, bytes, path.clone()));
        match memory {
            Ok(memory) => {
                memory.view().write_header(&layout, serial);
                Ok(memory)
            }
            Err(error) => {
                let _ = path.map(std::fs::remove_file);
                Err(error)
            }
        }
    }

    /// A memory that a dead collector left. It stays where it is.
    pub(crate) fn open(path: &Path) -> io::Result<Memory> {
        // A link could lead to a file of anybody, when root recovers what a user left.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let info = file.metadata()?;
        let bytes = usize::try_from(info.len()).map_err(io::Error::other)?;
        if !info.is_file() || bytes < MEM_HEADER_BYTES as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too short for the rings of a program"));
        }
        let bad = |error: kymo_abi::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let mapping = Mapping::to_write(&file, bytes)?;
        // SAFETY: the mapping is page aligned and has at least the header.
        let header = unsafe { View::read_header(mapping.base(), info.len()) };
        let (layout, serial) = header.map_err(bad)?;
        let (is_unleased, more) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Memory { mapping, layout, serial, path: None, fd: None, is_unleased, more })
    }

    fn map(fd: OwnedFd, layout: Layout, serial: u64, bytes: usize, path: Option<PathBuf>) -> io::Result<Memory> {
        let mapping = Mapping::to_write(&fd, bytes)?;
        let (is_unleased, more) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Memory { mapping, layout, serial, path, fd: Some(fd), is_unleased, more })
    }

    /// A descriptor for a program, with a lease [spec/session.md 7]: an open file description of its own under a shared
    /// lock, which every mapping made from it holds too, in whatever process, until the last one is gone.
    pub(crate) fn grant(&self) -> io::Result<OwnedFd> {
        let own = self.fd.as_ref().ok_or_else(|| io::Error::other("these rings are given to nobody"))?;
        match leased(own) {
            Ok(descriptor) => Ok(descriptor),
            Err(error) => {
                tracing::info!(%error, "rings are handed over without a lease");
                self.is_unleased.store(true, Ordering::Relaxed);
                own.try_clone()
            }
        }
    }

    /// Bytes that are in use, as the kernel counts them; all where it cannot be asked.
    pub(crate) fn used_bytes(&self) -> u64 {
        let info = self.fd.as_ref().map(rustix::fs::fstat);
        let Some(Ok(info)) = info else { return self.layout.mem_bytes };
        (info.st_blocks as u64).saturating_mul(512)
    }

    /// Gives all bytes of the lanes back to the system, whoever has them mapped. They read as zeros from here on.
    pub(crate) fn empty(&self) {
        let Some(fd) = &self.fd else { return };
        let (from, flags) = (self.layout.data_offset, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE);
        let _ = rustix::fs::fallocate(fd, flags, from, self.layout.mem_bytes - from);
    }

    /// Who may still write into the memory, as the kernel says.
    pub(crate) fn lease(&self) -> Lease {
        let Some(own) = self.fd.as_ref().filter(|_| !self.is_unleased.load(Ordering::Relaxed)) else {
            return Lease::NotKnown;
        };
        match flock(own, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = flock(own, FlockOperation::Unlock);
                Lease::Free
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Lease::Held,
            Err(_) => Lease::NotKnown,
        }
    }

    /// The pages of all lanes but the spill lane are there from here on, and clear.
    pub(crate) fn populate(&self) {
        let lanes = self.layout.lane_count.saturating_sub(1) as usize;
        let bytes = self.layout.data_offset as usize + lanes * self.layout.ring_bytes as usize;
        // To find all pages in one call takes a sixth less than to find each where it is mapped (decision 0001).
        let found = self.fd.as_ref().map(|fd| rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, 0, bytes as u64));
        if let Some(Err(error)) = found {
            tracing::debug!(%error, "pages of rings are found one by one");
        }
        self.mapping.populate(bytes);
    }

    /// Whether a part of it was taken away, by a file that was cut short, a full disk or broken storage: zeros stand in
    /// its place, and nothing that is read now is the program's word [spec/session.md 6].
    pub(crate) fn is_damaged(&self) -> bool {
        self.mapping.is_damaged()
    }

    /// The system could not read a part of it.
    pub(crate) fn note_damage(&self) {
        self.mapping.note_damage();
    }

    /// The same memory under another serial.
    pub(crate) fn named(mut self, serial: u64) -> Memory {
        self.serial = serial;
        self.view().write_header(&self.layout, serial);
        self
    }

    /// More of its pages are in use.
    pub(crate) fn charge_more(&self, bytes: u64) {
        self.more.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of [`Self::charge_more`].
    pub(crate) fn charged_more(&self) -> u64 {
        self.more.load(Ordering::Relaxed)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The words.
    pub(crate) fn view(&self) -> View<'_> {
        // SAFETY: [spec/ring.md 3.1] the mapping is page aligned, has mem_bytes bytes for as long as self lives,
        // whatever becomes of the file.
        unsafe { View::new(self.mapping.base(), &self.layout) }.expect("Layout::new made these numbers")
    }

    /// Notes for whoever finds the memory after our death to which trace the records in it belong.
    pub(crate) fn note_trace(&self, uuid: [u8; 16]) {
        let word = u128::from_le_bytes(uuid);
        let notes = self.view().notes();
        notes.uuid[0].store(word as u64, Ordering::Relaxed);
        notes.uuid[1].store((word >> 64) as u64, Ordering::Relaxed);
    }

    /// Start of the bytes of `lane`, which is below lane_count.
    fn lane(&self, lane: u32) -> *mut u8 {
        debug_assert!(lane < self.layout.lane_count);
        self.mapping.base().as_ptr().wrapping_add(self.layout.lane_offset(lane) as usize)
    }

    /// The header word of the record at `mark` of `lane`. Each byte is read once; they may belong to different writes.
    pub(crate) fn header_word(&self, lane: u32, mark: Mark) -> u64 {
        let (start, mask) = (self.lane(lane), self.layout.ring_bytes - 1);
        let first = mark.index(self.layout.ring_bytes);
        let byte = |number: u32| {
            let at = start.wrapping_add((first.wrapping_add(number) & mask) as usize);
            // SAFETY: [spec/ring.md 3.1] the index is masked to the lane's bytes, which are mapped; an AtomicU8 may be
            // anywhere.
            unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Relaxed)
        };
        u64::from_le_bytes(std::array::from_fn(|number| byte(number as u32)))
    }

    /// A copy of `span` from `mark` on, in the memory of `copy`. The span has at most ring_bytes. A writer may change
    /// the bytes meanwhile; what is whole must be found out afterwards [spec/ring.md 10].
    pub(crate) fn copy_of(&self, lane: u32, mark: Mark, span: Span, mut copy: Vec<u8>) -> Vec<u8> {
        copy.clear();
        copy.reserve(span.bytes as usize);
        for piece in self.pieces(lane, mark, span) {
            let before = copy.len();
            // SAFETY: the piece lies within the lane's mapped bytes, and both pieces together fill at most what was
            // reserved. Bytes that another process writes meanwhile are copied as some mixture; they are plain bytes,
            // and not used before they were checked.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    piece.iov_base.cast::<u8>(),
                    copy.as_mut_ptr().wrapping_add(before),
                    piece.iov_len,
                );
                copy.set_len(before + piece.iov_len);
            }
        }
        copy
    }

    /// The bytes of `span` from `mark` on, as one or two pieces for `pwritev`. The span has at most ring_bytes.
    pub(crate) fn pieces(&self, lane: u32, mark: Mark, span: Span) -> [libc::iovec; 2] {
        let (start, ring_bytes) = (self.lane(lane), self.layout.ring_bytes);
        let bytes = span.bytes.min(ring_bytes);
        let first = mark.index(ring_bytes);
        let before_wrap = bytes.min(ring_bytes - first);
        [
            libc::iovec { iov_base: start.wrapping_add(first as usize).cast(), iov_len: before_wrap as usize },
            libc::iovec { iov_base: start.cast(), iov_len: (bytes - before_wrap) as usize },
        ]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_abi::{Clock, RingKind};
    use rustix::mm::{MapFlags, ProtFlags};

    fn layout() -> Layout {
        Layout::new(RingKind::Rseq, Clock::Tsc, 3, 65_536, 4096).unwrap()
    }

    /// Maps a page of what a program was given, as a program does.
    fn mapped(descriptor: &OwnedFd) -> *mut core::ffi::c_void {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, prot, flags, descriptor, 0).unwrap() }
    }

    #[test]
    fn a_lease_is_held_by_descriptors_and_by_mappings_that_outlive_them() {
        let dir = std::env::temp_dir().join(format!("kymo-lease-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        for memory in [Memory::create(layout(), 1), Memory::create_in(&dir, layout(), 2)].map(Result::unwrap) {
            assert_eq!(memory.lease(), Lease::Free, "nobody was given it");
            let (first, second) = (memory.grant().unwrap(), memory.grant().unwrap());
            assert_eq!(memory.lease(), Lease::Held);
            let at = mapped(&first);
            drop((first, second));
            assert_eq!(memory.lease(), Lease::Held, "a mapping is left");
            // SAFETY: the mapping above, which nothing uses any more.
            unsafe { rustix::mm::munmap(at, 4096).unwrap() };
            assert_eq!(memory.lease(), Lease::Free);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_forked_child_holds_the_lease_of_its_parent() {
        let memory = Memory::create(layout(), 1).unwrap();
        let descriptor = memory.grant().unwrap();
        let at = mapped(&descriptor);
        drop(descriptor);
        // SAFETY: the child does nothing but sleep until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: it takes no argument.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: the mapping above, which nothing uses any more.
        unsafe { rustix::mm::munmap(at, 4096).unwrap() };
        assert_eq!(memory.lease(), Lease::Held, "the child has it");
        // SAFETY: a child of ours, which is waited for once.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        // Descriptors of a process are given back a moment after its end.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while memory.lease() != Lease::Free && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(memory.lease(), Lease::Free);
    }
}
