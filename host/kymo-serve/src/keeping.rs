// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that somebody chose are put into parts behind the answer that asked for them [spec/view.md 6.1]: on a thread
//! of its own, which gives way to those that answer, one at a time.

use std::sync::{Arc, Mutex, PoisonError};

use kymo_query::{Opened, Stop, keep_spans};

use crate::memory::Memory;

/// How nice the thread is, of 19.
const NICE: i32 = 10;

/// Who keeps spans.
pub(crate) struct Keeping {
    stop: Arc<Stop>,
    /// Held while some are kept.
    turn: Arc<Mutex<()>>,
    memory: Arc<Memory>,
}

impl Keeping {
    /// `memory`: told of what is free then.
    pub fn new(memory: Arc<Memory>) -> Keeping {
        Keeping { stop: Arc::default(), turn: Arc::default(), memory }
    }

    /// An answer was given.
    pub fn answered(&self, opened: &Arc<Opened>) {
        if !opened.wants_spans() {
            return;
        }
        let (opened, stop, turn) = (Arc::clone(opened), Arc::clone(&self.stop), Arc::clone(&self.turn));
        let memory = Arc::clone(&self.memory);
        let go = move || {
            // Of this thread alone, in Linux.
            // SAFETY: it takes numbers and touches no memory.
            let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            while stop.goes_on() && keep_spans(&opened, &stop).unwrap_or(false) {}
            memory.answered();
        };
        // Where there is no room for a thread, the next answer asks again.
        let _ = std::thread::Builder::new().name("kymo-keep".to_owned()).spawn(go);
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.stop.set();
    }
}
