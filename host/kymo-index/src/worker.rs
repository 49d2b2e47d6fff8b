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
    thread: JoinHandle<()>,
}

impl<I: Send + 'static, O: Send + 'static> Worker<I, O> {
    /// `work` takes one after the other, and may hand on any number.
    pub fn start(name: &str, mut work: impl FnMut(I, &Sender<O>) + Send + 'static) -> std::io::Result<Worker<I, O>> {
        let (given, all) = sync_channel(QUEUE);
        let (done, made) = channel();
        let run = move || {
            for one in all {
                work(one, &done);
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Worker { given, made, thread })
    }

    /// Hands on one. May wait for those before it.
    pub fn give(&self, one: I) {
        // Where it has ended, `finish` tells why.
        let _ = self.given.send(one);
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
