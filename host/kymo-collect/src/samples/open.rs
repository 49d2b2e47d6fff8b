// SPDX-License-Identifier: MIT OR Apache-2.0
//! A perf event on one CPU, and its ring [perf_event_open(2)].

use std::io;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// PERF_TYPE_SOFTWARE; PERF_COUNT_SW_CPU_CLOCK is 0.
const SOFTWARE: u32 = 1;
/// IP, TID, TIME, CALLCHAIN, CPU, PERIOD.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7 | 1 << 8;
/// PERF_FORMAT_LOST (Linux 6.0).
const FORMAT_LOST: u64 = 1 << 4;
/// disabled, exclude_idle, mmap, freq, sample_id_all, mmap2, use_clockid.
const FLAGS: u64 = 1 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18 | 1 << 23 | 1 << 25;
/// Maps have build ids (Linux 5.12).
const FLAG_BUILD_ID: u64 = 1 << 34;
/// PERF_FLAG_FD_CLOEXEC.
const FD_CLOEXEC: libc::c_ulong = 8;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// Pages of a ring, a power of two: half a second of the deepest stacks at 1 kHz.
const RING_PAGES: usize = 128;
/// Where the first page has the kernel's position, and ours.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// `struct perf_event_attr` up to its fifth version (112 bytes).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attr {
    kind: u32,
    bytes: u32,
    config: u64,
    frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branches: u64,
    user_registers: u64,
    user_stack: u32,
    clockid: i32,
    registers: u64,
    aux: u32,
    stack_max: u16,
    reserved: u16,
}

/// The samples of one CPU.
#[derive(Debug)]
pub(super) struct CpuSamples {
    pub cpu: u32,
    event: OwnedFd,
    /// The first page, then the ring.
    memory: NonNull<u8>,
    page: usize,
    tail: u64,
    /// The kernel counts what does not fit.
    counts_lost: bool,
    /// Of these counted by the ring's own records.
    pub told_lost: u64,
}

// SAFETY: the memory belongs to this value alone; the kernel shares it by atomic positions.
unsafe impl Send for CpuSamples {}

impl CpuSamples {
    /// Opens the event, not yet enabled. `None`: the CPU is off.
    pub fn open(cpu: u32, frequency: u32, clockid: libc::clockid_t) -> Result<Option<CpuSamples>, Error> {
        let attr = Attr {
            kind: SOFTWARE,
            bytes: size_of::<Attr>() as u32,
            frequency: frequency.into(),
            sample_type: SAMPLE_TYPE,
            clockid,
            ..Attr::default()
        };
        // What older kernels do not have goes first.
        let variants = [(FORMAT_LOST, FLAG_BUILD_ID), (0, FLAG_BUILD_ID), (0, 0)];
        let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
        for (read_format, more) in variants {
            match open(&Attr { read_format, flags: FLAGS | more, ..attr }, cpu) {
                Ok(event) => return CpuSamples::map(cpu, event, read_format != 0).map(Some),
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
                Err(error) => refused = error,
            }
            if refused.raw_os_error() != Some(libc::EINVAL) {
                break;
            }
        }
        Err(Error::Refused(refusal(&refused)))
    }

    fn map(cpu: u32, event: OwnedFd, counts_lost: bool) -> Result<CpuSamples, Error> {
        let page = rustix::param::page_size();
        let bytes = page * (1 + RING_PAGES);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of a descriptor that is open.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(CpuSamples { cpu, event, memory, page, tail: 0, counts_lost, told_lost: 0 })
            }
            _ => {
                let error = io::Error::last_os_error();
                Err(Error::Refused(format!(
                    "perf:cpu-clock: no memory for the samples of CPU {cpu} ({error}): raise \
                     kernel.perf_event_mlock_kb, or record as root"
                )))
            }
        }
    }

    /// Begins, or ends.
    pub fn enable(&self, on: bool) -> io::Result<()> {
        let request = if on { IOC_ENABLE } else { IOC_DISABLE };
        // SAFETY: the two requests take no argument.
        match unsafe { libc::ioctl(self.event.as_raw_fd(), request, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as this value lives, and the kernel accesses its positions, which
        // are aligned, as atomics.
        unsafe { &*self.memory.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Takes all records that are there, as whole bytes. False: the ring's positions make no sense.
    pub fn take(&mut self, into: &mut Vec<u8>) -> bool {
        let ring_bytes = self.page * RING_PAGES;
        // Pairs with the kernel's store behind its records.
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let Some(length) = usize::try_from(head.wrapping_sub(self.tail)).ok().filter(|bytes| *bytes <= ring_bytes)
        else {
            self.tail = head;
            self.position(TAIL_AT).store(head, Ordering::Release);
            return false;
        };
        let from = (self.tail % ring_bytes as u64) as usize;
        let first = length.min(ring_bytes - from);
        for (at, bytes) in [(from, first), (0, length - first)] {
            // SAFETY: both pieces lie within the ring, and the kernel does not write between tail and head.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.memory.as_ptr().add(self.page + at), bytes)
            });
        }
        self.tail = head;
        // The kernel may write there from now on.
        self.position(TAIL_AT).store(head, Ordering::Release);
        true
    }

    /// Records that did not fit and of which no record has told yet. `None`: this kernel does not count them.
    pub fn lost(&self) -> Option<u64> {
        let mut counts = [0u8; 16];
        let got = rustix::io::read(&self.event, &mut counts).ok()?;
        let lost = counts.last_chunk().copied().map(u64::from_le_bytes)?;
        (self.counts_lost && got == counts.len()).then(|| lost.saturating_sub(self.told_lost))
    }
}

impl Drop for CpuSamples {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nobody uses any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.page * (1 + RING_PAGES)) };
    }
}

fn open(attr: &Attr, cpu: u32) -> io::Result<OwnedFd> {
    // SAFETY: the structure has the size that it says, and outlives the call. Any process, one CPU, no group.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr, -1, cpu as libc::c_int, -1, FD_CLOEXEC) };
    match i32::try_from(fd) {
        // SAFETY: a descriptor that the system made just now, which nobody else has.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn refusal(error: &io::Error) -> String {
    let next = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "record as root or with CAP_PERFMON, or lower kernel.perf_event_paranoid to 0 (sysctl)"
        }
        Some(libc::ENOSYS) => "this kernel has no perf events, or a sandbox hides them",
        Some(libc::EINVAL) => "the frequency may be above kernel.perf_event_max_sample_rate",
        Some(libc::EMFILE) => "too many files are open; raise `ulimit -n`",
        _ => "record without it",
    };
    format!("perf:cpu-clock cannot be opened: {error}; {next}")
}
