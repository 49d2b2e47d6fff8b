// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the drain thread is told to do, in the order in which it was told; but programs are added before a snapshot
//! that waits.

use std::sync::Arc;
use std::sync::mpsc::TryRecvError;

use super::{Drain, ToDrain};
use crate::running::Running;

/// Commands that are obeyed between two looks.
const OBEYED_MAX: usize = 64;
/// Commands behind a snapshot among which programs are looked for.
const BEHIND_SNAPSHOT_MAX: usize = 4096;
/// Rings in an answer to a look.
const RING_USE_MAX: usize = 4096;

impl Drain {
    /// Obeys a bounded number of commands that wait already. Whether there may be more of them; `None` when the session
    /// has ended.
    pub(crate) fn obey_waiting(&mut self) -> Option<bool> {
        for _ in 0..OBEYED_MAX {
            match self.put_off.pop_front().map_or_else(|| self.commands.try_recv(), Ok) {
                Ok(command) => {
                    if !self.obey(command) {
                        return None;
                    }
                }
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => return Some(false),
            }
        }
        Some(true)
    }

    /// A snapshot has the rings of programs that were added behind it, too [spec/flight.md 2]. What takes rings away is
    /// put off until it is taken.
    fn add_behind_snapshot(&mut self) {
        for _ in 0..BEHIND_SNAPSHOT_MAX {
            let Ok(command) = self.commands.try_recv() else { break };
            match command {
                ToDrain::Add(_) | ToDrain::Event(_) | ToDrain::Mark(..) | ToDrain::Maps(_) => _ = self.obey(command),
                other => self.put_off.push_back(other),
            }
        }
    }

    /// Obeys a command. False when the session has ended.
    pub(super) fn obey(&mut self, command: ToDrain) -> bool {
        match command {
            ToDrain::Add(added) => self.running.push(Running::new(added, self.sink.has_triggers())),
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
            ToDrain::Snapshot(job) => {
                self.add_behind_snapshot();
                let part = self.snapshot(&job);
                // Who asked may have given up.
                let _ = job.reply.send(part);
            }
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
