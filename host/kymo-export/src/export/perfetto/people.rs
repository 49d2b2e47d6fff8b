// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and threads as Perfetto knows them: descriptors of the tracks that records of programs are on, and trees
//! of the processes that ftrace's events are of.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::names::{KnownThread, NameBook, NamedBy, Naming, ThreadNames};
use super::super::slices::Track;
use super::wire::Message;

/// Threads and processes in one tree.
const TREE_MAX: usize = 1000;

/// What was written of them.
#[derive(Debug, Default)]
pub struct People {
    names: NameBook,
    tracks: HashMap<Track, u64>,
    processes: HashMap<u32, u64>,
    /// Threads of which a tree has told the process.
    in_trees: HashSet<(u32, u32)>,
    last: u64,
}

/// What is to be written of a track.
#[derive(Debug, Default)]
pub struct Told {
    pub descriptors: Vec<Message>,
    /// The thread's name before.
    pub renamed: Option<String>,
}

impl People {
    /// Numbers of tracks are those behind `last`.
    pub fn new(last: u64) -> People {
        People { last, ..People::default() }
    }

    /// The number of a track.
    pub fn uuid(&mut self, track: Track) -> u64 {
        let next = self.last + 1;
        let uuid = *self.tracks.entry(track).or_insert(next);
        self.last = self.last.max(uuid);
        uuid
    }

    /// Describes a track where it is new, or its thread or process has another name.
    pub fn describe(&mut self, track: Track, names: &ThreadNames<'_>) -> Told {
        let mut told = Told::default();
        let Track::Thread(pid, tid) = track else { return told };
        let is_named = self.names.process(pid, names.process, names.by) != Naming::Same;
        let is_new = !self.processes.contains_key(&pid);
        if is_new {
            self.last += 1;
            self.processes.insert(pid, self.last);
        }
        if is_new || is_named {
            told.descriptors.push(self.process(pid, names.process));
        }
        let is_new = !self.tracks.contains_key(&track);
        let naming = self.names.thread((pid, tid), names.thread, names.by);
        if is_new || naming != Naming::Same {
            let uuid = self.uuid(track);
            told.descriptors.push(self.thread(uuid, (pid, tid), names.thread));
        }
        if let Naming::Renamed(before) = naming {
            told.renamed = Some(before);
        }
        told
    }

    fn process(&self, pid: u32, name: &str) -> Message {
        let mut process = Message::default();
        process.int(1, pid.into());
        if !name.is_empty() {
            process.text(6, name);
        }
        let mut descriptor = Message::default();
        descriptor.uint(1, self.processes[&pid]);
        descriptor.message(3, &process);
        descriptor
    }

    fn thread(&self, uuid: u64, (pid, tid): (u32, u32), name: &str) -> Message {
        let mut thread = Message::default();
        thread.int(1, pid.into());
        // -1 where it is not known.
        thread.int(2, (tid as i32).into());
        if !name.is_empty() {
            thread.text(5, name);
        }
        let mut descriptor = Message::default();
        descriptor.uint(1, uuid);
        descriptor.uint(5, self.processes[&pid]);
        descriptor.message(4, &thread);
        descriptor
    }

    /// Trees of the threads that exist when the trace begins: the processes in front of their threads.
    pub fn begin(&mut self, threads: &[KnownThread]) -> Vec<Message> {
        let by_number: BTreeMap<u32, &KnownThread> = threads.iter().map(|thread| (thread.tid, thread)).collect();
        let (first, others): (Vec<_>, Vec<_>) = by_number.into_values().partition(|thread| thread.tid == thread.pid);
        let all: Vec<&KnownThread> = first.into_iter().chain(others).collect();
        let tree = |threads: &[&KnownThread]| {
            let mut tree = Message::default();
            for thread in threads {
                self.names.thread((thread.pid, thread.tid), &thread.name, NamedBy::Kernel);
                self.in_trees.insert((thread.pid, thread.tid));
                put(&mut tree, (thread.pid, thread.tid), &thread.name);
            }
            tree
        };
        all.chunks(TREE_MAX).map(tree).collect()
    }

    /// A tree of one thread of the kernel's records, where it or its name is new.
    pub fn of_kernel(&mut self, (pid, tid): (u32, u32), names: &ThreadNames<'_>) -> Option<Message> {
        let is_new = !self.in_trees.contains(&(pid, tid));
        let naming = match self.tracks.contains_key(&Track::Thread(pid, tid)) {
            // Its track tells its names.
            true => Naming::Same,
            false => self.names.thread((pid, tid), names.thread, names.by),
        };
        if !is_new && naming == Naming::Same {
            return None;
        }
        let mut tree = Message::default();
        if tid != pid && self.in_trees.insert((pid, pid)) {
            put(&mut tree, (pid, pid), names.process);
        }
        self.in_trees.insert((pid, tid));
        put(&mut tree, (pid, tid), names.thread);
        Some(tree)
    }
}

/// A process is an entry of its own, and so is each thread, the first one too: it has a name of its own.
fn put(tree: &mut Message, (pid, tid): (u32, u32), name: &str) {
    if pid == tid {
        let mut process = Message::default();
        process.int(1, pid.into());
        if !name.is_empty() {
            process.text(3, name);
            // It is a name, not a command line.
            process.uint(9, 1);
        }
        tree.message(1, &process);
    }
    let mut thread = Message::default();
    thread.int(1, tid.into());
    if !name.is_empty() {
        thread.text(2, name);
    }
    thread.int(3, pid.into());
    tree.message(2, &thread);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'a>(thread: &'a str, process: &'a str) -> ThreadNames<'a> {
        ThreadNames { thread, process, by: NamedBy::Kernel }
    }

    #[test]
    fn a_track_is_described_once_and_with_each_name() {
        let mut people = People::new(1);
        let track = Track::Thread(7, 8);
        let told = people.describe(track, &names("worker", "motor"));
        assert_eq!((told.descriptors.len(), told.renamed), (2, None), "process and thread");
        assert_eq!(people.describe(track, &names("worker", "motor")).descriptors.len(), 0);
        let told = people.describe(track, &names("idle", "motor"));
        assert_eq!((told.descriptors.len(), told.renamed.as_deref()), (1, Some("worker")));
        assert_ne!(people.uuid(track), people.uuid(Track::Thread(7, 7)));
        let text = |message: &Message| String::from_utf8_lossy(message.bytes()).into_owned();
        assert!(text(&told.descriptors[0]).contains("idle") && !text(&told.descriptors[0]).contains("motor"));
    }

    #[test]
    fn trees_have_processes_in_front_of_their_threads() {
        let mut people = People::new(1);
        let thread = |tid, pid, name: &str| KnownThread { tid, pid, name: name.into() };
        let trees = people.begin(&[thread(3, 7, "worker"), thread(7, 7, "motor")]);
        assert_eq!(trees.len(), 1);
        let mut expect = Message::default();
        put(&mut expect, (7, 7), "motor");
        put(&mut expect, (7, 3), "worker");
        assert_eq!(trees[0].bytes(), expect.bytes());
        assert!(people.of_kernel((7, 3), &names("worker", "motor")).is_none());
        assert!(people.of_kernel((7, 3), &names("idle", "motor")).is_some());
        assert!(people.of_kernel((9, 10), &names("a", "b")).is_some());
    }
}
