// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots that somebody asks a session for: taken one after another by a thread of their own, so that other requests
//! are answered meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use kymo_collect::{Call, SnapshotRequest, Taker};
use serde_json::json;

/// Snapshots that may wait for their turn.
const WAITING_MAX: usize = 32;

/// What was taken so far.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub count: u64,
    /// What went wrong with the last one.
    pub error: Option<String>,
}

struct Job {
    request: SnapshotRequest,
    /// Who waits for it.
    call: Option<Call>,
}

/// The thread and its queue.
pub struct Snapshots {
    jobs: SyncSender<Job>,
    thread: JoinHandle<()>,
    taken: Arc<Mutex<Taken>>,
    is_over: Arc<AtomicBool>,
}

impl Snapshots {
    pub fn start(taker: Taker) -> anyhow::Result<Snapshots> {
        let (jobs, received) = sync_channel(WAITING_MAX);
        let (taken, is_over) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let of_thread = (Arc::clone(&taken), Arc::clone(&is_over));
        let builder = std::thread::Builder::new().name("kymo-snapshots".to_owned());
        let thread = builder.spawn(move || run(&taker, &received, of_thread)).context("cannot start a thread")?;
        Ok(Snapshots { jobs, thread, taken, is_over })
    }

    /// Puts a snapshot into the queue. `wait`: the answer comes when it is written.
    pub fn ask(&self, call: Call, request: SnapshotRequest, wait: bool) {
        let dir = request.dir.clone();
        let (now, later) = if wait { (None, Some(call)) } else { (Some(call), None) };
        let result = self.jobs.try_send(Job { request, call: later });
        let (call, answer) = match result {
            Ok(()) => (now, Ok(json!({ "dir": dir }))),
            Err(std::sync::mpsc::TrySendError::Full(job) | std::sync::mpsc::TrySendError::Disconnected(job)) => {
                (now.or(job.call), Err(format!("{WAITING_MAX} snapshots wait to be taken already; ask again later")))
            }
        };
        if let Some(call) = call {
            call.answer(answer);
        }
    }

    /// What was taken so far.
    pub fn taken(&self) -> Taken {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the one that is being taken; those behind it are not taken any more.
    pub fn finish(self) {
        let Snapshots { jobs, thread, is_over, .. } = self;
        is_over.store(true, Ordering::Release);
        drop(jobs);
        if thread.join().is_err() {
            crate::verbs::say("the thread that takes snapshots failed");
        }
    }
}

fn run(taker: &Taker, jobs: &Receiver<Job>, (taken, is_over): (Arc<Mutex<Taken>>, Arc<AtomicBool>)) {
    while let Ok(Job { request, call }) = jobs.recv() {
        if is_over.load(Ordering::Acquire) {
            // Dropping the call answers it.
            continue;
        }
        let result = taker.take(&request).map_err(|error| error.to_string());
        {
            let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.count += u64::from(result.is_ok());
            taken.error = result.as_ref().err().cloned();
        }
        if let Err(error) = &result {
            crate::verbs::say(&format!("snapshot into {}: {error}", request.dir.display()));
        }
        if let Some(call) = call {
            call.answer(result.map(|done| json!(done)));
        }
    }
}
