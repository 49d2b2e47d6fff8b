// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of a flight recorder: the last moments of all rings, as a trace of their own [spec/session.md 10].

mod job;

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::clock::ClockSource;
use crate::drain::ToDrain;
use crate::kernel::KernelSide;
use crate::metadata::copy_metadata;
use crate::private::make_private_dir;
use crate::stream::is_stream_file;
use crate::summary::SUMMARY_FILE;
use crate::trace_dir::replace;
use crate::trigger::Fired;

pub use job::{SnapshotDone, SnapshotRequest, TriggerSeen};
pub(crate) use job::{SnapshotJob, SnapshotPart};

/// Snapshots that were asked for and that the summary lists.
const LISTED_MAX: usize = 100;

/// The threads that hold rings have this long to write them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes snapshots of a session: shared by whoever may ask, one at a time.
#[derive(Debug)]
pub(crate) struct Snapshots {
    pub to_drain: Sender<ToDrain>,
    /// The kernel part; it may come while the session runs.
    pub kernel: Mutex<Option<KernelSide>>,
    pub source: ClockSource,
    pub frequency_hz: u64,
    /// Directory of the session.
    pub dir: PathBuf,
    /// Snapshots that were given a directory here.
    pub count: Mutex<u32>,
    /// Those that somebody asked for, for the summary: the newest.
    pub asked_for: Mutex<VecDeque<SnapshotDone>>,
}

impl Snapshots {
    /// A directory below that of the session which does not exist yet.
    pub(crate) fn next_dir(&self) -> PathBuf {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            *count += 1;
            let dir = self.dir.join(format!("snapshot-{:04}", *count));
            if !dir.exists() {
                return dir;
            }
        }
    }

    /// Those that somebody asked for.
    pub(crate) fn take_asked_for(&self) -> VecDeque<SnapshotDone> {
        std::mem::take(&mut *self.asked_for.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes one; `fired` is the trigger behind it.
    pub(crate) fn take(&self, request: &SnapshotRequest, fired: Option<&Fired>) -> Result<SnapshotDone, Error> {
        self.take_with(request, fired, &|| ())
    }

    /// As [`Snapshots::take`]; `ordered` is called when the threads that hold rings have been asked.
    pub(crate) fn take_with(
        &self,
        request: &SnapshotRequest,
        fired: Option<&Fired>,
        ordered: &dyn Fn(),
    ) -> Result<SnapshotDone, Error> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taking = Taking::begin(request, self.source, self.frequency_hz)?;
        taking.done.trigger = fired.map(|fired| TriggerSeen { record: fired.record, seen: fired.seen });
        let mut parts = 0;
        let kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(kernel) = &kernel {
            kernel.order(taking.job.clone());
            parts += 1;
        }
        if self.to_drain.send(ToDrain::Snapshot(taking.job.clone())).is_ok() {
            parts += 1;
        }
        ordered();
        let state = kernel.as_ref().and_then(|kernel| kernel.dump_state(&taking.job.dir));
        let mut done = taking.finish(parts, &self.dir)?;
        done.records += state.map_or(0, |state| state.records);
        if fired.is_none() {
            let mut list = self.asked_for.lock().unwrap_or_else(PoisonError::into_inner);
            list.truncate(LISTED_MAX - 1);
            list.push_front(done.clone());
        }
        Ok(done)
    }
}

/// A snapshot that is being taken.
pub(crate) struct Taking {
    source: ClockSource,
    begun: Instant,
    reply: Receiver<SnapshotPart>,
    /// What the threads are asked.
    pub job: SnapshotJob,
    done: SnapshotDone,
}

impl Taking {
    /// Makes the directory. `cycles_per_second` is the frequency of the clock.
    pub(crate) fn begin(
        request: &SnapshotRequest,
        source: ClockSource,
        cycles_per_second: u64,
    ) -> Result<Taking, Error> {
        let (now, begun) = (source.read(), source.now());
        let dir = make_directory(&request.dir)?;
        let back = |before: Duration| (before.as_nanos() * u128::from(cycles_per_second) / 1_000_000_000) as u64;
        let since = request.before.map(|before| now.saturating_sub(back(before)));
        let (sender, reply) = channel();
        let done = SnapshotDone {
            dir: dir.clone(),
            reason: request.reason.clone(),
            at: now,
            frozen: now,
            oldest: None,
            records: 0,
            bytes: 0,
            overwritten: 0,
            took: Duration::ZERO,
            trigger: None,
            write_error: None,
            caveats: Vec::new(),
        };
        Ok(Taking { source, begun, reply, job: SnapshotJob { dir, since, reply: sender }, done })
    }

    /// Waits for `parts` answers, and writes metadata (a copy of the session's, which knows every event) and summary.
    pub(crate) fn finish(self, parts: usize, session: &Path) -> Result<SnapshotDone, Error> {
        let Taking { source, begun, reply, job, mut done } = self;
        let dir = job.dir.clone();
        drop(job);
        for _ in 0..parts {
            let Ok(part) = reply.recv_timeout(PATIENCE) else {
                done.caveats.push("a thread of the collector did not write its part in time".to_owned());
                break;
            };
            done.records += part.records;
            done.bytes += part.bytes;
            done.overwritten += part.overwritten;
            done.frozen = done.frozen.max(part.frozen);
            done.oldest = [done.oldest, part.oldest].into_iter().flatten().min();
            done.write_error = done.write_error.or(part.error);
            for (name, bytes) in part.rare {
                if let Err(error) = copy_part(&session.join(&name), &dir.join(&name), bytes) {
                    done.caveats.push(format!("rare events in {name} could not be copied: {error}"));
                }
            }
        }
        if let Some(error) = done.write_error.as_ref().filter(|_| done.records == 0) {
            discard(&dir);
            return Err(Error::file("write the snapshot", dir)(io::Error::other(error.clone())));
        }
        copy_metadata(session, &dir).inspect_err(|_| discard(&dir))?;
        done.took = source.now().saturating_duration_since(begun);
        let summary = serde_json::json!({
            "tool": "kymo", "version": env!("CARGO_PKG_VERSION"), "complete": true, "trace": dir, "snapshot": done,
        });
        let text = format!("{summary:#}\n");
        replace(&dir, SUMMARY_FILE, text.as_bytes())
            .map_err(Error::file("write", dir.join(SUMMARY_FILE)))
            .inspect_err(|_| discard(&dir))?;
        Ok(done)
    }
}

/// Takes a snapshot back that could not be completed: what it wrote, and the directory, which was empty.
fn discard(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_stream_file(&name) || name == "metadata" || name == SUMMARY_FILE {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(dir);
}

/// Copies the first `bytes` of a file that may go on to grow.
fn copy_part(from: &Path, to: &Path, bytes: u64) -> io::Result<()> {
    let (from, mut to) = (fs::File::open(from)?, fs::File::create_new(to)?);
    io::copy(&mut from.take(bytes), &mut to).map(drop)
}

fn make_directory(dir: &Path) -> Result<PathBuf, Error> {
    make_private_dir(dir).map_err(Error::file("make directory", dir))?;
    let mut entries = fs::read_dir(dir).map_err(Error::file("look into", dir))?;
    if entries.next().is_some() {
        let full = std::io::Error::other("it is not empty; a snapshot needs a directory of its own");
        return Err(Error::file("use directory", dir)(full));
    }
    fs::canonicalize(dir).map_err(Error::file("find directory", dir))
}
