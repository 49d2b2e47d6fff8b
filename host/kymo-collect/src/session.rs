// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session from start to summary: its settings (`config`), how it begins (`start`), its two threads, what is asked of
//! it while it runs (`asked`; `select` switches kernel events) and its summary's file.

mod asked;
mod config;
mod select;
mod start;
mod summary_file;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rustix::fd::OwnedFd;

use crate::chunks::Chunks;
use crate::clock::ClockSource;
use crate::control::{ControlEnd, ToControl};
use crate::drain::{Counters, Report, ToDrain};
use crate::kernel::{ChildFiles, KernelConfig, KernelWatch, Recording};
use crate::snapshot::{SnapshotDone, SnapshotRequest, Snapshots};
use crate::summary::Summary;
use crate::trace_dir::{DiskDir, TraceDir as _};
use crate::trigger::Acted;
use crate::{Error, report};

pub use config::{Config, Format};

/// Counts of a running session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records written.
    pub records: u64,
    /// Bytes of records written.
    pub bytes: u64,
    /// Records lost, for whatever cause.
    pub lost: u64,
    /// Programs that have ring memory now.
    pub programs: u64,
    /// True once the trace can no longer be written.
    pub stopped: bool,
    /// True once a trigger wants the session to end.
    pub triggered: bool,
}

/// A running session. Dropping it without [`Session::stop`] ends it as if the collector had died.
#[derive(Debug)]
pub struct Session {
    control: Option<JoinHandle<ControlEnd>>,
    drain: Option<JoinHandle<Report>>,
    kernel: Option<Recording>,
    kernel_watch: Option<KernelWatch>,
    kernel_base: KernelConfig,
    child_files: Option<ChildFiles>,
    marker: Option<PathBuf>,
    snapshots: Option<Arc<Snapshots>>,
    actor: Option<JoinHandle<Acted>>,
    triggered: Arc<AtomicU64>,
    to_control: mpsc::Sender<ToControl>,
    to_drain: mpsc::Sender<ToDrain>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicU64>,
    counters: Arc<Counters>,
    programs: Arc<AtomicU64>,
    source: ClockSource,
    /// Where the trace is written to; `None` of a flight recorder.
    chunks: Option<Chunks>,
    /// The session's directory.
    dir: DiskDir,
    /// What the summary needs of the start.
    start: report::Start,
}

impl Session {
    /// Ends the session: programs are told and waited for (200 ms at most), the rings are emptied, metadata and summary
    /// are written. Where the trace is gone, or its summary cannot be written, the summary says so
    /// [`Summary::trace_error`].
    pub fn stop(mut self) -> Result<Summary, Error> {
        let acted = self.settle_triggers()?;
        self.signal_stop();
        let failed = |thread| move |_| Error::Thread { thread };
        let found = self.control.take().map(JoinHandle::join);
        let found = found.ok_or(Error::Thread { thread: "control" })?.map_err(failed("control"))?;
        let report = self.drain.take().map(JoinHandle::join);
        let report = report.ok_or(Error::Thread { thread: "drain" })?.map_err(failed("drain"))?;
        let kernel = self.kernel.take().map(Recording::finish).transpose()?;
        let mut written = report.streams.written();
        if let Some(kernel) = &kernel {
            written.add(&kernel.report.streams.written());
            kernel.state.iter().for_each(|state| written.add(&state.streams.written()));
            written.add(&kernel.of_samples);
        }
        let mut summary = self.start.summary(found, report, kernel);
        if let Some(chunks) = self.chunks.take() {
            (summary.chunks, summary.chunks_left_out) = chunks.end(summary.end, written, summary.records);
        }
        if let Some(mut acted) = acted {
            let asked_for = self.snapshots.as_ref().map(|snapshots| snapshots.take_asked_for());
            acted.snapshots.extend(asked_for.unwrap_or_default());
            acted.snapshots.sort_by_key(|done| done.at);
            summary.caveats.extend(acted.errors.iter().cloned());
            summary.flight = Some(acted);
        }
        self.complete(&mut summary);
        Ok(summary)
    }

    /// Writes the summary's file, if the trace is still where it was.
    fn complete(&self, summary: &mut Summary) {
        if let Some(reason) = self.dir.is_gone() {
            let next = "leave the directory of a trace where it is until its session has ended";
            summary.admit_loss_of_trace(&reason, next);
            return;
        }
        if let Err(error) = summary_file::write(summary) {
            summary.trace_error = Some(format!("the trace's summary could not be written: {error}"));
        }
    }

    /// Triggers look for the last time, and what they fired is dealt with while the rings are still there.
    fn settle_triggers(&mut self) -> Result<Option<Acted>, Error> {
        match self.kernel_watch.take().map(KernelWatch::finish) {
            None | Some(Ok(0)) => {}
            Some(Ok(unseen)) => self.start.caveats.push(format!(
                "triggers did not see {unseen} records of the kernel: the ring that is watched was full, or damaged; a shorter --poll-us or \
                 conditions on fewer events help"
            )),
            Some(Err(error)) => self.start.caveats.push(format!("watching the kernel did not end well: {error}")),
        }
        if let Some(snapshots) = &self.snapshots {
            let _ = snapshots.to_drain.send(ToDrain::Settle);
        }
        self.actor.take().map(JoinHandle::join).transpose().map_err(|_| Error::Thread { thread: "trigger" })
    }

    fn signal_stop(&self) {
        self.stop.store(1, Ordering::Release);
        wake_up(&self.wake);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.settle_triggers() {
            tracing::error!(%error, "triggers could not be settled");
        }
        self.signal_stop();
        if let Some(Err(error)) = self.kernel.take().map(Recording::finish) {
            tracing::error!(%error, "the kernel part could not be ended");
        }
        let control = self.control.take().map(JoinHandle::join);
        // The control thread says so too, unless it has failed.
        let _ = self.to_drain.send(ToDrain::Finish);
        let drain = self.drain.take().map(JoinHandle::join);
        if control.is_some_and(|result| result.is_err()) || drain.is_some_and(|result| result.is_err()) {
            tracing::error!("a thread of the collector failed");
        }
    }
}

/// Takes snapshots of a session, as long as it runs.
#[derive(Clone, Debug)]
pub struct Taker(Arc<Snapshots>);

impl Taker {
    /// As [`Session::snapshot`].
    pub fn take(&self, request: &SnapshotRequest) -> Result<SnapshotDone, Error> {
        self.0.take(request, None)
    }
}

fn wake_up(fd: &OwnedFd) {
    // A full counter wakes as well.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}
