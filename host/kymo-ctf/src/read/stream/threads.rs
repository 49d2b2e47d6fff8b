// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compact records do not say their thread: the packet says whose the first one is, and a record of its own says where
//! another thread goes on [spec/trace.md 4].

use std::sync::Arc;

use kymo_abi::THREAD_RECORD_ID;

use super::super::class::{Metadata, StreamClass};
use super::super::value::{Fields, small};
use super::Stream;
use crate::write::{FIRST_THREAD, THREAD_EVENT};

impl Metadata {
    /// The event of thread records, where a stream has compact records: packets of these say whose the first one is.
    pub(crate) fn thread_event(&self, stream: &StreamClass) -> Option<usize> {
        let event = stream.events.get(THREAD_RECORD_ID.into())? as usize;
        let is_compact = self.members(stream.packet_context?).iter().any(|member| &*member.name == FIRST_THREAD);
        (is_compact && self.events[event].name == THREAD_EVENT).then_some(event)
    }
}

impl Stream<'_> {
    /// Whether the record that was passed last only says whose the next ones are.
    #[inline]
    pub(super) fn is_thread_record(&self) -> bool {
        self.layout.plans.threads[self.class] == Some(self.event)
    }

    /// A record was passed; of a thread record takes what it says. Always true.
    #[inline]
    pub(super) fn pass_thread_record(&mut self) -> bool {
        if self.is_thread_record() {
            self.note_thread();
        }
        true
    }

    #[cold]
    fn note_thread(&mut self) {
        let part = &self.layout.plans.events[self.event].parts[2];
        let thread = Fields::of_record(&self.decoder.frame, part).at(0).and_then(|value| small(&value));
        self.set_thread(thread);
    }

    /// The next records are of this thread. Who keeps records keeps what was known of theirs.
    pub(super) fn set_thread(&mut self, thread: Option<u32>) {
        if self.facts.vtid != thread {
            Arc::make_mut(&mut self.facts).vtid = thread;
        }
    }
}
