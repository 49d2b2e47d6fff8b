// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compact records do not say their thread: the packet says whose the first one is, and a record of its own says where
//! another thread goes on [spec/trace.md 4].

use std::mem::discriminant;
use std::sync::Arc;

use kymo_abi::THREAD_RECORD_ID;

use super::super::class::{ClassId, Member, Metadata, StreamClass};
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

    /// Compact records have their contexts as each event's own, because thread records have none. Where all are alike,
    /// they are the stream's, as without compact records.
    pub(in crate::read) fn share_contexts(&mut self) {
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            let Some(thread) = self.thread_event(stream).filter(|_| stream.common_context.is_none()) else { continue };
            let events: Vec<usize> = stream.events.positions().map(|event| event as usize).collect();
            let mut others = events.into_iter().filter(|event| *event != thread).collect::<Vec<_>>();
            let Some(first) = others.first().and_then(|event| self.events[*event].context) else { continue };
            let is_alike = |event: &usize| self.events[*event].context.is_some_and(|own| self.are_alike(first, own));
            if self.events[thread].context.is_none() && others.iter().all(is_alike) {
                self.streams[index].common_context = Some(first);
                others.drain(..).for_each(|event| self.events[event].context = None);
            }
        }
    }

    /// Whether two structures have the same members, as far as their names, sizes and kinds tell.
    fn are_alike(&self, one: ClassId, other: ClassId) -> bool {
        let (one, other) = (self.members(one), self.members(other));
        let class = |id: ClassId| &self.classes[id as usize];
        let is_alike = |(one, other): (&Member, &Member)| {
            let (own, others) = (class(one.class), class(other.class));
            one.raw == other.raw && own.bits == others.bits && discriminant(&own.kind) == discriminant(&others.kind)
        };
        one.len() == other.len() && one.iter().zip(other).all(is_alike)
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
