// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the drain thread is told to do, in the order in which it was told; but snapshots wait for what is added.

use std::sync::Arc;
use std::sync::mpsc::TryRecvError;

use super::{Drain, ToDrain};
use crate::running::Running;

/// Commands that are obeyed between two looks.
const OBEYED_MAX: usize = 64;
/// The same while a snapshot waits for them.
const OBEYED_FOR_SNAPSHOT_MAX: usize = 4096;
/// Rings in an answer to a look.
const RING_USE_MAX: usize = 4096;

impl Drain {
    /// Obeys a bounded number of commands that wait already. Whether there may be more of them; `None` when the session
    /// has ended.
    pub(crate) fn obey_waiting(&mut self) -> Option<bool> {
        let mut obeyed = 0;
        while obeyed < OBEYED_MAX || (!self.snapshots.is_empty() && obeyed < OBEYED_FOR_SNAPSHOT_MAX) {
            match self.commands.try_recv() {
                Ok(command) => {
                    if !self.obey(command) {
                        return None;
                    }
                }
                Err(TryRecvError::Disconnected) => {
                    self.take_snapshots();
                    return None;
                }
                Err(TryRecvError::Empty) => {
                    self.take_snapshots();
                    return Some(false);
                }
            }
            obeyed += 1;
        }
        self.take_snapshots();
        Some(true)
    }

    /// A snapshot has the rings of programs that were added behind it, too: it is taken once all that waits is obeyed,
    /// or something that takes rings away comes [spec/flight.md 2].
    fn take_snapshots(&mut self) {
        for job in std::mem::take(&mut self.snapshots) {
            let part = self.snapshot(&job);
            // Who asked may have given up.
            let _ = job.reply.send(part);
        }
    }

    pub(super) fn obey(&mut self, command: ToDrain) -> bool {
        if matches!(command, ToDrain::Cut { .. } | ToDrain::Settle | ToDrain::Rotate(..) | ToDrain::Finish) {
            self.take_snapshots();
        }
        match command {
            ToDrain::Add(added) => self.running.push(Running::new(added)),
            ToDrain::End { serial } => {
                if let Some(index) = self.running.iter().position(|running| running.added.memory.serial() == serial) {
                    let now = self.source.now();
                    self.running[index].leave(now);
                    self.close_if_free(index);
                }
            }
            ToDrain::Cut { serial } => {
                if let Some(index) = self.running.iter().position(|running| running.added.memory.serial() == serial) {
                    let memory = Arc::clone(&self.running[index].added.memory);
                    self.end(index);
                    memory.empty();
                }
            }
            ToDrain::Event(event) => {
                if let Some(watch) = self.sink.flight().and_then(|flight| flight.watch.as_mut()) {
                    watch.learn(&event.0, &event.1);
                }
            }
            ToDrain::Settle => {
                self.look_for_triggers();
                self.end_watch();
            }
            ToDrain::Mark(time, bytes) => self.mark(time, &bytes),
            ToDrain::Maps(records) => self.take_maps(records),
            ToDrain::Snapshot(job) => self.snapshots.push(job),
            ToDrain::Rotate(job, gone) => {
                let part = self.rotate(&job);
                let _ = job.reply.send(part);
                let _ = gone.send(());
            }
            ToDrain::Look(reply) => {
                let all = self.running.iter().flat_map(Running::ring_use).take(RING_USE_MAX).collect();
                let _ = reply.send(all);
            }
            ToDrain::Finish => return false,
        }
        true
    }
}
