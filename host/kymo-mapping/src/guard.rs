// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handler of SIGBUS and the table of mappings that it looks into.
//!
//! The table is a list that only grows; an entry serves one mapping after the other. The handler reads atomics and
//! makes one system call, so it may interrupt anything.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// A `base` that says: taken, and not ready yet.
const TAKEN: usize = 1;

/// One mapping. A `base` of 0: free.
#[derive(Debug)]
struct Entry {
    base: AtomicUsize,
    bytes: AtomicUsize,
    is_damaged: AtomicBool,
    next: AtomicPtr<Entry>,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
/// What was done at a SIGBUS before.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

fn entries() -> impl Iterator<Item = &'static Entry> {
    let mut at = FIRST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: entries are leaked boxes: once they are in the list they stay.
        let entry = unsafe { at.as_ref() }?;
        at = entry.next.load(Ordering::Acquire);
        Some(entry)
    })
}

/// A place in the table.
#[derive(Debug)]
pub(crate) struct Guard(&'static Entry);

impl Guard {
    pub(crate) fn new(base: usize, bytes: usize) -> Guard {
        BEFORE.get_or_init(take_signal);
        let is_free =
            |entry: &&Entry| entry.base.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let entry = entries().find(is_free).unwrap_or_else(add);
        entry.bytes.store(bytes, Ordering::Relaxed);
        entry.is_damaged.store(false, Ordering::Relaxed);
        // Release: whoever finds the base finds the size.
        entry.base.store(base, Ordering::Release);
        Guard(entry)
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.0.is_damaged.load(Ordering::Acquire)
    }

    pub(crate) fn note_damage(&self) {
        self.0.is_damaged.store(true, Ordering::Release);
    }

    /// The handler does not know the mapping any more. Called once, at its end.
    pub(crate) fn release(&self) {
        self.0.base.store(0, Ordering::Release);
    }
}

/// A new entry, which is taken.
fn add() -> &'static Entry {
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        base: AtomicUsize::new(TAKEN),
        bytes: AtomicUsize::new(0),
        is_damaged: AtomicBool::new(false),
        next: AtomicPtr::new(std::ptr::null_mut()),
    }));
    let mut first = FIRST.load(Ordering::Relaxed);
    loop {
        entry.next.store(first, Ordering::Relaxed);
        let new = std::ptr::from_ref(entry).cast_mut();
        match FIRST.compare_exchange_weak(first, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return entry,
            Err(other) => first = other,
        }
    }
}

/// From here on the handler is asked first. `None` where that cannot be: then everything stays as it was.
fn take_signal() -> Option<libc::sigaction> {
    // SAFETY: both structures are plain data and live through the calls; the handler is safe wherever it interrupts.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handle as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut ours.sa_mask);
        let mut before: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(libc::SIGBUS, &ours, &mut before) == 0).then_some(before)
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a whole siginfo. Codes above 0 are its own; only those have an address.
    let address = unsafe { if (*info).si_code > 0 { (*info).si_addr() as usize } else { 0 } };
    if !replace_from(address) {
        pass_on(signal, info, context);
    }
}

/// Puts zeros in the place of what is behind `address`, to the end of its mapping. False where that is none of ours.
fn replace_from(address: usize) -> bool {
    let holds = |entry: &&Entry| {
        let base = entry.base.load(Ordering::Acquire);
        base > TAKEN && address >= base && address - base < entry.bytes.load(Ordering::Relaxed)
    };
    let Some(entry) = entries().find(holds) else { return false };
    let end = entry.base.load(Ordering::Relaxed) + entry.bytes.load(Ordering::Relaxed);
    // Mappings begin at a page, and no machine of ours has smaller ones.
    let from = address & !4095;
    entry.is_damaged.store(true, Ordering::Release);
    // SAFETY: the range lies inside of a mapping that we made and that lives as long as its entry has a base. errno
    // belongs to the code that was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(from as *mut libc::c_void, end - from, access, flags, -1, 0);
        *libc::__errno_location() = errno;
        at != libc::MAP_FAILED
    }
}

/// Does what would have been done without us.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().and_then(Option::as_ref);
    match before {
        Some(before) if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: a handler that was installed with SA_SIGINFO is a function of this type.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(before.sa_sigaction) };
            handler(signal, info, context);
        }
        // SAFETY: plain system calls. A fault comes again when we return, and finds the disposition of before; a signal
        // that somebody sent does not, so it is sent again.
        _ => unsafe {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, before.map_or(&default, std::ptr::from_ref), std::ptr::null_mut());
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        },
    }
}
