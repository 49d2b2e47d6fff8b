// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is seen of a session while it runs, and what is asked of it: events, rings, snapshots, cuts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use rustix::time::ClockId;

use super::{Progress, Session, Taker, wake_up};
use crate::Error;
use crate::chunks::{Chunk, Chunks, RotateJob, RotatedPart, Rotation};
use crate::control::{Changed, Offered, ToControl, View};
use crate::drain::{RingUse, ToDrain};
use crate::kernel::ChildFiles;
use crate::snapshot::{SnapshotDone, SnapshotRequest};
use crate::uuid::random_uuid;
use crate::watched::Watched;

/// The control thread answers within this; it never waits for a program.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The drain thread looks at its channel at every poll, but for snapshots; who asks for the status has a second.
const LOOK_TIME: Duration = Duration::from_millis(200);

impl Session {
    /// Counts so far.
    pub fn progress(&self) -> Progress {
        Progress {
            records: self.counters.records.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            lost: self.counters.lost.load(Ordering::Relaxed),
            programs: self.programs.load(Ordering::Relaxed),
            stopped: self.counters.stopped.load(Ordering::Relaxed) != 0,
            triggered: self.triggered.load(Ordering::Acquire) != 0,
        }
    }

    /// Somebody looks at the trace as it is written: for a short time records reach the files sooner.
    pub fn watch(&self) -> Result<Watched, Error> {
        // A flight recorder writes snapshots only.
        self.chunks.as_ref().ok_or(Error::Flight)?;
        Ok(self.counters.watching.renew(self.source.nanoseconds(ClockId::Monotonic)))
    }

    /// What a command's first process writes to between `fork` and `exec`, where only the command's kernel events are
    /// wanted.
    pub fn child_files(&mut self) -> Option<ChildFiles> {
        self.child_files.take()
    }

    /// The file that a program can write marks to: with the kernel one that it stamps, else a pipe to the collector.
    pub fn marker(&self) -> Option<&Path> {
        self.marker.as_deref()
    }

    /// Takes snapshots of this session, also from another thread; `None` where it is no flight recorder.
    pub fn snapshots(&self) -> Option<Taker> {
        self.snapshots.clone().map(Taker)
    }

    /// Flight recorder: writes the last moments of all rings into a directory, as a trace. No writer waits or is
    /// stopped. Takes as long as copying and writing take; one at a time.
    pub fn snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotDone, Error> {
        match &self.snapshots {
            Some(snapshots) => snapshots.take(request, None),
            None => Err(Error::NotFlight),
        }
    }

    /// A directory for the next snapshot, below that of the session.
    pub fn snapshot_dir(&self) -> Option<PathBuf> {
        self.snapshots.as_ref().map(|snapshots| snapshots.next_dir())
    }

    /// Switches the programs' events that match on or off, in those that run and those that come. When this returns,
    /// the programs have been told; each obeys in its helper thread.
    pub fn select(&self, patterns: &[String], on: bool) -> Result<Changed, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask_control(ToControl::Select { patterns: patterns.to_vec(), on, reply });
        self.answer(&answer)?.map_err(Error::Refused)
    }

    /// Bytes of each ring of programs that come from now on: a power of two between 4 KiB and 1 GiB.
    pub fn set_ring_bytes(&self, bytes: u32) {
        self.ask_control(ToControl::RingBytes(bytes, None));
    }

    /// The same, and of programs that run: they are offered such rings, and go over to them without losing a record.
    /// When this returns they have been told; [`View::offers_open`] says how many have not answered.
    pub fn change_rings(&self, bytes: u32) -> Result<Offered, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask_control(ToControl::RingBytes(bytes, Some(reply)));
        self.answer(&answer)
    }

    /// What there is to see of programs and memory.
    pub fn view(&self) -> Result<View, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask_control(ToControl::View(reply));
        self.answer(&answer)
    }

    /// How full the programs' rings are, by program (see [`crate::ProgramView::serial`]) and lane; at most 4096. `None`
    /// while the drain thread writes something that takes longer, as a snapshot.
    pub fn ring_use(&self) -> Option<Vec<RingUse>> {
        let (reply, answer) = mpsc::channel();
        self.to_drain.send(ToDrain::Look(reply)).ok()?;
        answer.recv_timeout(LOOK_TIME).ok()
    }

    /// The trace goes on in a new directory; what was written so far is a complete trace of its own, the chunk that is
    /// returned.
    pub fn rotate(&mut self, reason: &str) -> Result<Chunk, Error> {
        let result = self.rotate_once(reason);
        // A full disk, perhaps, and something to make room.
        let is_file = matches!(result, Err(Error::File { .. }));
        if is_file && self.chunks.as_mut().is_some_and(Chunks::make_room) {
            return self.rotate_once(reason);
        }
        result
    }

    /// The same where it is time for it.
    pub fn rotate_if_due(&mut self) -> Result<Option<Chunk>, Error> {
        let bytes = self.counters.bytes.load(Ordering::Relaxed);
        match self.chunks.as_ref().and_then(|chunks| chunks.due(bytes)) {
            Some(reason) => self.rotate(reason).map(Some),
            None => Ok(None),
        }
    }

    /// How long it is not time for a new chunk; `None` where none comes by itself.
    pub fn next_rotation(&self) -> Option<Duration> {
        self.chunks.as_ref().and_then(Chunks::next_look)
    }

    /// Says when the trace is to be cut from now on.
    pub fn set_rotation(&mut self, rotation: Rotation) -> Result<(), Error> {
        let chunks = self.chunks.as_mut().ok_or(Error::Flight)?;
        chunks.rotation = rotation;
        Ok(())
    }

    /// When the trace is cut by itself; `None` of a flight recorder.
    pub fn rotation(&self) -> Option<&Rotation> {
        self.chunks.as_ref().map(|chunks| &chunks.rotation)
    }

    /// The directory that is written to now.
    pub fn current_dir(&self) -> Option<&Path> {
        self.chunks.as_ref().map(Chunks::current)
    }

    fn rotate_once(&mut self, reason: &str) -> Result<Chunk, Error> {
        let Some(chunks) = &mut self.chunks else { return Err(Error::Flight) };
        let next = chunks.make_next()?;
        let uuid = random_uuid("/proc/sys/kernel/random/uuid", self.source.read());
        let (sender, parts) = mpsc::channel();
        let (reply, answer) = mpsc::channel();
        let job = RotateJob { dir: next.clone(), uuid, reply: sender };
        self.ask_control(ToControl::Rotate { job: job.clone(), reply });
        self.answer(&answer)?.inspect_err(|_| {
            let _ = fs::remove_dir_all(&next);
        })?;
        let mut whole = RotatedPart::default();
        if let Some(kernel) = &mut self.kernel {
            whole.written.add(&kernel.rotate(job));
        } else {
            drop(job);
        }
        // As many as there are threads with streams; the last one drops the channel's other end.
        while let Ok(part) = parts.recv_timeout(ANSWER_TIME) {
            whole.add(&part);
        }
        let chunks = self.chunks.as_mut().ok_or(Error::Flight)?;
        chunks.go_on(next, self.source.read(), self.counters.bytes.load(Ordering::Relaxed), &whole, reason)
    }

    pub(super) fn ask_control(&self, request: ToControl) {
        // Where the thread is gone, waiting for the answer says so.
        let _ = self.to_control.send(request);
        wake_up(&self.wake);
    }

    pub(super) fn answer<T>(&self, answer: &mpsc::Receiver<T>) -> Result<T, Error> {
        answer.recv_timeout(ANSWER_TIME).map_err(|_| Error::Thread { thread: "control" })
    }
}
