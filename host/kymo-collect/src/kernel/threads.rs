// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of threads by the kernel's ids, from /proc: remembered for a moment, because a condition may ask at every
//! record.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A name is looked up again after this: a thread may have been renamed, or its id be another's.
const AGE: Duration = Duration::from_secs(1);
/// Names that are remembered.
const NAMES_MAX: usize = 4096;

/// Names of threads.
#[derive(Debug)]
pub(crate) struct ThreadNames {
    names: RefCell<HashMap<u32, String>>,
    since: RefCell<Instant>,
}

impl ThreadNames {
    pub(crate) fn new() -> ThreadNames {
        ThreadNames { names: RefCell::default(), since: RefCell::new(Instant::now()) }
    }

    /// The name of a thread; `None` where it has ended.
    pub(crate) fn of(&self, tid: u32) -> Option<String> {
        if tid == 0 {
            return Some("swapper".to_owned());
        }
        let mut names = self.names.borrow_mut();
        if self.since.borrow().elapsed() > AGE || names.len() >= NAMES_MAX {
            names.clear();
            *self.since.borrow_mut() = Instant::now();
        }
        if let Some(name) = names.get(&tid) {
            return Some(name.clone());
        }
        let name = std::fs::read(format!("/proc/{tid}/comm")).ok()?;
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        names.insert(tid, name.clone());
        Some(name)
    }
}
