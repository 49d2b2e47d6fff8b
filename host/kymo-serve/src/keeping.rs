// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that somebody chose are put into parts behind the answer that asked for them [spec/view.md 6.1]: on a thread
//! of its own, which gives way to those that answer, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kymo_query::{Opened, Stop, keep_spans};

use crate::memory::Memory;

/// How nice the thread is, of 19.
const NICE: i32 = 10;

/// Who keeps spans.
pub(crate) struct Keeping {
    stop: Arc<Stop>,
    /// A thread is there: of one trace or another.
    is_busy: Arc<AtomicBool>,
    memory: Arc<Memory>,
}

impl Keeping {
    /// `memory`: told of what is free then.
    pub fn new(memory: Arc<Memory>) -> Keeping {
        Keeping { stop: Arc::default(), is_busy: Arc::default(), memory }
    }

    /// An answer was given.
    pub fn answered(&self, opened: &Arc<Opened>) {
        if !opened.wants_spans() || self.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let turn = Turn(Arc::clone(&self.is_busy));
        let (opened, stop) = (Arc::clone(opened), Arc::clone(&self.stop));
        let memory = Arc::clone(&self.memory);
        let go = move || {
            // Of this thread alone, in Linux.
            // SAFETY: it takes numbers and touches no memory.
            let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
            let _turn = turn;
            while stop.goes_on() && keep_spans(&opened, &stop).unwrap_or(false) {}
            memory.answered();
        };
        // Where there is no room for a thread, or one is there, the next answer asks again.
        let _ = std::thread::Builder::new().name("kymo-keep".to_owned()).spawn(go);
    }
}

/// Ends with the thread, however that ends, or without one.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.stop.set();
    }
}
