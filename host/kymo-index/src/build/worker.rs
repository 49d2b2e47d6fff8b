// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that makes something of what it is given, in that order, while its giver goes on.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Things that wait to be taken.
const QUEUE: usize = 4;

/// A thread that makes `O` of `I`.
pub(crate) struct Worker<I, O> {
    given: SyncSender<I>,
    made: Receiver<O>,
    /// What was given, once nothing of it is needed any more.
    empty: Receiver<I>,
    thread: JoinHandle<()>,
}

impl<I: Default + Send + 'static, O: Send + 'static> Worker<I, O> {
    /// `work` takes one after the other, and may hand on any number. What it returns has the room of what it took.
    pub fn start(
        name: &str,
        mut work: impl FnMut(I, &Sender<O>) -> I + Send + 'static,
    ) -> std::io::Result<Worker<I, O>> {
        let (given, all) = sync_channel(QUEUE);
        let (done, made) = channel();
        let (back, empty) = channel();
        let run = move || {
            for one in all {
                // Where nobody wants it, it is dropped.
                let _ = back.send(work(one, &done));
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Worker { given, made, empty, thread })
    }

    /// Hands on one. May wait for those before it. Room for the next one.
    pub fn give(&self, one: I) -> I {
        // Where it has ended, `finish` tells why.
        let _ = self.given.send(one);
        self.empty.try_recv().unwrap_or_default()
    }

    /// What is made by now.
    pub fn made(&self) -> impl Iterator<Item = O> {
        self.made.try_iter()
    }

    /// All that was not taken yet.
    pub fn finish(self) -> Vec<O> {
        drop(self.given);
        let all = self.made.iter().collect();
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
        all
    }
}
