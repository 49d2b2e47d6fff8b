// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory that is ready before a program comes for it [spec/session.md 6]: most of what a program waits for at its
//! start is the kernel's work of finding and clearing the pages of its rings.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use kymo_abi::ring::Layout;

use crate::memory::Memory;

/// No more than this is kept ready.
const BYTES_MAX: u64 = 256 << 20;

/// One memory that is ready, or being made so by a thread of its own.
pub(crate) struct Spares {
    wanted: Sender<Layout>,
    ready: Receiver<io::Result<Memory>>,
    /// What the thread was asked for and has not given yet.
    coming: Option<Layout>,
    here: Option<Memory>,
    /// Whether a program has come. Often no other one does.
    asked_before: bool,
}

impl Spares {
    /// Begins with a memory of this layout. `None` where there can be no thread.
    pub(crate) fn new(layout: Layout) -> Option<Spares> {
        let (wanted, asked) = channel::<Layout>();
        let (give, ready) = channel();
        let make = move || {
            for layout in asked {
                let made = Memory::create(layout, 0).inspect(Memory::populate);
                if give.send(made).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("kymo-spare".to_owned()).spawn(make).ok()?;
        let mut spares = Spares { wanted, ready, coming: None, here: None, asked_before: false };
        spares.ask(layout);
        Some(spares)
    }

    fn ask(&mut self, layout: Layout) {
        if self.coming.is_none() && layout.mem_bytes <= BYTES_MAX && self.wanted.send(layout).is_ok() {
            self.coming = Some(layout);
        }
    }

    fn look(&mut self, patience: Duration) {
        if self.coming.is_none() {
            return;
        }
        if let Ok(made) = self.ready.recv_timeout(patience) {
            self.coming = None;
            self.here = made.ok();
        }
    }

    /// Waits until the first one is ready, but no longer than this.
    pub(crate) fn wait(&mut self, patience: Duration) {
        self.look(patience);
    }

    /// The memory that is ready, if it has this layout. Where a second program comes, more are likely to: from then on
    /// another one of this layout is made for the next.
    pub(crate) fn take(&mut self, layout: &Layout, serial: u64) -> Option<Memory> {
        self.look(Duration::ZERO);
        let found = self.here.take().filter(|memory| memory.layout() == layout);
        if std::mem::replace(&mut self.asked_before, true) {
            self.ask(*layout);
        }
        found.map(|memory| memory.named(serial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_abi::{Clock, RingKind};

    fn layout(ring_bytes: u32) -> Layout {
        Layout::new(RingKind::Rseq, Clock::Tsc, 3, ring_bytes, 4096).unwrap()
    }

    #[test]
    fn the_first_program_finds_one_and_no_other_is_made_for_it_alone() {
        let mut spares = Spares::new(layout(4096)).unwrap();
        spares.wait(Duration::from_secs(10));
        assert!(spares.take(&layout(4096), 1).is_some());
        assert!(spares.coming.is_none());
    }

    #[test]
    fn a_memory_that_fits_is_given_once() {
        let mut spares = Spares::new(layout(65_536)).unwrap();
        spares.wait(Duration::from_secs(10));
        assert!(spares.take(&layout(4096), 1).is_none(), "another size");
        assert!(
            spares.take(&layout(4096), 2).is_none(),
            "the second program: none is there, and one is made from now on"
        );
        spares.wait(Duration::from_secs(10));
        let memory = spares.take(&layout(4096), 7).expect("the size that was asked for last");
        assert_eq!((memory.serial(), memory.layout()), (7, &layout(4096)));
        assert_eq!(memory.view().header().serial.load(std::sync::atomic::Ordering::Relaxed), 7);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let mut spares = Spares::new(layout(1 << 28)).unwrap();
        assert!(spares.coming.is_none() && spares.take(&layout(1 << 28), 1).is_none());
    }
}
