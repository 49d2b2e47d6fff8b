// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done when a trigger fires, within its limits: a thread of its own, so that no ring waits for it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use crate::clock::ClockSource;
use crate::priority;
use crate::snapshot::{SnapshotRequest, Snapshots};
use crate::trigger::{Acted, Action, Fired, Triggers};

/// Does the actions.
pub(crate) struct Actor {
    pub source: ClockSource,
    pub triggers: Triggers,
    pub fired: Receiver<Fired>,
    pub snapshots: Arc<Snapshots>,
    /// 1 once the session is to end.
    pub stop: Arc<AtomicU64>,
    /// Real-time priority from the trigger to the request; 0: none. What it looks for often is a CPU that has too much
    /// to do.
    pub priority: u8,
}

impl Actor {
    /// Runs until nobody can fire any more.
    pub(crate) fn run(self) -> Acted {
        let mut acted = Acted::default();
        let mut last: Option<Instant> = None;
        loop {
            priority::raise(self.priority);
            let Ok(fired) = self.fired.recv() else { break };
            let is_soon =
                last.is_some_and(|last| self.source.now().saturating_duration_since(last) < self.triggers.pause);
            if is_soon || acted.times >= self.triggers.limit {
                acted.held_back += 1;
                continue;
            }
            last = Some(self.source.now());
            acted.times += 1;
            self.source.sleep(self.triggers.after);
            let mut newest = None;
            for action in &self.triggers.actions {
                self.act(action, &fired, &mut newest, &mut acted);
            }
        }
        acted
    }

    /// What follows takes long, and nothing is lost by that.
    fn calm_down(&self) {
        if self.priority > 0 {
            priority::lower();
        }
    }

    fn act(&self, action: &Action, fired: &Fired, newest: &mut Option<PathBuf>, acted: &mut Acted) {
        match action {
            Action::Snapshot => {
                let dir = self.snapshots.next_dir();
                let before = self.triggers.before.map(|before| before + self.triggers.after);
                let request = SnapshotRequest { dir, reason: fired.reason.clone(), before };
                match self.snapshots.take_with(&request, Some(fired), &|| self.calm_down()) {
                    Ok(done) => {
                        *newest = Some(done.dir.clone());
                        acted.snapshots.push(done);
                    }
                    Err(error) => acted.errors.push(format!("a snapshot failed: {error}")),
                }
            }
            Action::Stop => self.stop.store(1, Ordering::Release),
            Action::Mark => {
                self.calm_down();
                if let Err(error) = crate::send_mark(&fired.reason, Some(std::process::id())) {
                    acted.errors.push(format!("a mark failed: {error}"));
                }
            }
            Action::Run(command) => {
                self.calm_down();
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(command).env("KYMO_REASON", &fired.reason).stdin(Stdio::null());
                if let Some(dir) = newest {
                    shell.env("KYMO_SNAPSHOT", dir);
                }
                match shell.status() {
                    Ok(status) if status.success() => {}
                    Ok(status) => acted.errors.push(format!("{command:?} ended with {status}")),
                    Err(error) => acted.errors.push(format!("cannot run {command:?}: {error}")),
                }
            }
        }
    }
}
