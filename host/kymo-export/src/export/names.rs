// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads and processes are called. A thread has one name at a time; who knows best is believed.

use std::collections::HashMap;

use kymo_ctf::read::{Record, Value};

/// Who says a name: whoever knows better is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedBy {
    /// The packet of a program's records: the name that its process had when it was attached.
    #[default]
    Program,
    /// The record itself.
    Record,
    /// The kernel's records.
    Kernel,
}

/// What the thread and the process of a record are called; empty where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadNames<'a> {
    /// The thread's own name.
    pub thread: &'a str,
    /// The name of its process, which is that of its first thread.
    pub process: &'a str,
    /// Who says so.
    pub by: NamedBy,
}

impl<'a> ThreadNames<'a> {
    /// As far as a record itself tells.
    pub fn of(record: &Record<'a>, is_kernel: bool) -> ThreadNames<'a> {
        let has_own = [record.common_context, record.context].iter().any(|context| context.get("procname").is_some());
        let is_first = record.vtid == record.vpid;
        let name = record.procname;
        let first = if is_first { name } else { "" };
        match (is_kernel, has_own) {
            (true, _) => ThreadNames { thread: name, process: first, by: NamedBy::Kernel },
            (false, true) => ThreadNames { thread: name, process: first, by: NamedBy::Record },
            (false, false) => ThreadNames { thread: first, process: name, by: NamedBy::Program },
        }
    }
}

/// A thread that exists when the trace begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownThread {
    /// Its number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// What a name is to those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Nothing new.
    Same,
    /// The first one.
    First,
    /// In place of this one.
    Renamed(String),
}

#[derive(Debug)]
struct ActorName {
    name: String,
    by: NamedBy,
}

/// The names that were written.
#[derive(Debug, Default)]
pub struct NameBook {
    threads: HashMap<(u32, u32), ActorName>,
    processes: HashMap<u32, ActorName>,
}

impl NameBook {
    /// Takes a name of a thread.
    pub fn thread(&mut self, thread: (u32, u32), name: &str, by: NamedBy) -> Naming {
        take(&mut self.threads, thread, name, by)
    }

    /// Takes a name of a process.
    pub fn process(&mut self, pid: u32, name: &str, by: NamedBy) -> Naming {
        take(&mut self.processes, pid, name, by)
    }
}

fn take<K: std::hash::Hash + Eq>(known: &mut HashMap<K, ActorName>, key: K, name: &str, by: NamedBy) -> Naming {
    if name.is_empty() {
        return Naming::Same;
    }
    match known.get_mut(&key) {
        None => {
            known.insert(key, ActorName { name: name.to_owned(), by });
            Naming::First
        }
        Some(named) if by < named.by => Naming::Same,
        Some(named) => {
            named.by = by;
            if named.name == name {
                return Naming::Same;
            }
            Naming::Renamed(std::mem::replace(&mut named.name, name.to_owned()))
        }
    }
}

/// A text field.
pub fn text<'a>(record: &Record<'a>, name: &str) -> Option<std::borrow::Cow<'a, str>> {
    match record.payload.get(name)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_best_is_believed() {
        let mut book = NameBook::default();
        let thread = (7, 8);
        assert_eq!(book.thread(thread, "", NamedBy::Kernel), Naming::Same);
        assert_eq!(book.thread(thread, "motor", NamedBy::Program), Naming::First);
        assert_eq!(book.thread(thread, "worker", NamedBy::Kernel), Naming::Renamed("motor".into()));
        // A program's packets go on with the name that it had at first: names do not alternate.
        assert_eq!(book.thread(thread, "motor", NamedBy::Program), Naming::Same);
        assert_eq!(book.thread(thread, "worker", NamedBy::Kernel), Naming::Same);
        assert_eq!(book.thread(thread, "idle", NamedBy::Kernel), Naming::Renamed("worker".into()));
        assert_eq!(book.process(7, "motor", NamedBy::Program), Naming::First);
    }
}
