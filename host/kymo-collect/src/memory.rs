//! Ring memory of one program [spec/ring.md 3.1]: a sealed memfd, or a file that survives the collector; mapped once.
//!
//! The collector maps the ring bytes once, not twice in a row as a program does: a span that wraps is handed to the
//! system as two pieces. The bytes may change under our hands at any time, so no reference to them is ever made.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use kymo_abi::ring::{Layout, MEM_HEADER_BYTES, Mark, Span, View};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A mapped memory. The mapping ends with the value, the memory with its last descriptor and mapping.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    layout: Layout,
    serial: u64,
    /// Of the file that is removed with the memory.
    path: Option<PathBuf>,
}

/// First part of the name of a file with rings.
pub(crate) const FILE_PREFIX: &str = "rings.";

// SAFETY: the mapping is shared memory that is only touched through atomics and system calls [spec/ring.md 4].
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory with its header written, and the descriptor for the program: of fixed size, and sealed so.
    pub(crate) fn create(layout: Layout, serial: u64) -> io::Result<(Memory, OwnedFd)> {
        let bytes = usize::try_from(layout.mem_bytes).map_err(io::Error::other)?;
        let fd = rustix::fs::memfd_create("kymo", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, layout.mem_bytes)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Memory::map(fd.as_fd(), layout, serial, bytes, None)?;
        memory.view().write_header(&layout, serial);
        Ok((memory, fd))
    }

    /// The same in a file of `dir`, which survives the collector; it is removed with the value [spec/session.md 6]. Its space is
    /// reserved: a writer must not meet a full file system.
    pub(crate) fn create_in(dir: &Path, layout: Layout, serial: u64) -> io::Result<(Memory, OwnedFd)> {
        let bytes = usize::try_from(layout.mem_bytes).map_err(io::Error::other)?;
        let path = dir.join(format!("{FILE_PREFIX}{serial:016x}"));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
        let path = Some(path);
        let made = rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, layout.mem_bytes).map_err(io::Error::from);
        let memory = made.and_then(|()| Memory::map(fd.as_fd(), layout, serial, bytes, path.clone()));
        match memory {
            Ok(memory) => {
                memory.view().write_header(&layout, serial);
                Ok((memory, fd))
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
        // SAFETY: a fresh mapping at an address of the kernel's choice; the file is an ordinary one whose writers are gone.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        // SAFETY: the mapping is page aligned and has at least the header.
        match unsafe { View::read_header(base, info.len()) } {
            Ok((layout, serial)) => Ok(Memory { base, layout, serial, path: None }),
            Err(error) => {
                // SAFETY: the mapping above, which nothing uses any more.
                let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes) };
                Err(bad(error))
            }
        }
    }

    fn map(fd: BorrowedFd<'_>, layout: Layout, serial: u64, bytes: usize, path: Option<PathBuf>) -> io::Result<Memory> {
        // SAFETY: a fresh mapping at an address of the kernel's choice; the seals keep the file from shrinking under it [spec/ring.md 3.1].
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0)?
        };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Memory { base, layout, serial, path })
    }

    /// The pages of all lanes but the spill lane are there from here on, and clear.
    pub(crate) fn populate(&self) {
        let lanes = self.layout.lane_count.saturating_sub(1) as usize;
        let bytes = self.layout.data_offset as usize + lanes * self.layout.ring_bytes as usize;
        // SAFETY: the range is that of the mapping. Where the kernel cannot do it, pages come when they are touched.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) };
    }

    /// The same memory under another serial.
    pub(crate) fn named(mut self, serial: u64) -> Memory {
        self.serial = serial;
        self.view().write_header(&self.layout, serial);
        self
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The words.
    pub(crate) fn view(&self) -> View<'_> {
        // SAFETY: [spec/ring.md 3.1] the mapping is page aligned, has mem_bytes bytes for as long as self lives, and the file is sealed.
        unsafe { View::new(self.base, &self.layout) }.expect("Layout::new made these numbers")
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
        self.base.as_ptr().wrapping_add(self.layout.lane_offset(lane) as usize)
    }

    /// The header word of the record at `mark` of `lane`. Each byte is read once; they may belong to different writes.
    pub(crate) fn header_word(&self, lane: u32, mark: Mark) -> u64 {
        let (start, mask) = (self.lane(lane), self.layout.ring_bytes - 1);
        let first = mark.index(self.layout.ring_bytes);
        let byte = |number: u32| {
            let at = start.wrapping_add((first.wrapping_add(number) & mask) as usize);
            // SAFETY: [spec/ring.md 3.1] the index is masked to the lane's bytes, which are mapped; an AtomicU8 may be anywhere.
            unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Relaxed)
        };
        u64::from_le_bytes(std::array::from_fn(|number| byte(number as u32)))
    }

    /// A copy of `span` from `mark` on, in the memory of `copy`. The span has at most ring_bytes. A writer may change the bytes
    /// meanwhile; what is whole must be found out afterwards [spec/ring.md 10].
    pub(crate) fn copy_of(&self, lane: u32, mark: Mark, span: Span, mut copy: Vec<u8>) -> Vec<u8> {
        copy.clear();
        copy.reserve(span.bytes as usize);
        for piece in self.pieces(lane, mark, span) {
            let before = copy.len();
            // SAFETY: the piece lies within the lane's mapped bytes, and both pieces together fill at most what was reserved. Bytes that
            // another process writes meanwhile are copied as some mixture; they are plain bytes, and not used before they were checked.
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
        // SAFETY: this is the mapping of `map`, unmapped once; views borrow self.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.layout.mem_bytes as usize) };
    }
}
