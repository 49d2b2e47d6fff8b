// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a test may run: beside others, of which so many run at a time, or alone.
//!
//! Those that run alone come after all others that have begun to wait, so that nobody waits for the last of the others
//! again and again. They are told apart best where each test has a thread of its own that can wait:
//! `--test-threads` above the number of tests that run alone, as scripts/test.sh sets it. With fewer threads the
//! results are the same, later.
//!
//! With `KYMO_TEST_TIMES` a line for each turn goes to that file: seconds, `beside` or `alone`, the test.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Who runs, and who waits.
struct Turns {
    /// Tests that run beside each other.
    running: usize,
    /// Tests that want to.
    waiting: usize,
    /// A test runs alone.
    is_alone: bool,
    /// Things of the machine that a running test has for itself.
    taken: BTreeSet<&'static str>,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { running: 0, waiting: 0, is_alone: false, taken: BTreeSet::new() });
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Turns of this thread: who has one does not wait for another.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// What a turn gives back.
#[derive(Clone, Copy)]
enum Kind {
    /// Others run beside it, but none that has the same thing of the machine for itself.
    Shared(Option<&'static str>),
    /// None does.
    Alone,
    /// The thread had a turn already.
    Held,
}

/// Whether others may run beside a test, for as long as this lives.
pub struct Turn {
    kind: Kind,
    begun: Instant,
}

/// The turn of a test that has no lab: others run beside it, but none that would disturb it.
pub fn beside_others() -> Turn {
    Turn::shared(None)
}

/// Tests that run beside each other. More of them take more memory than a machine of 24 GiB has.
fn at_a_time() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    kymo_testing::setting("KYMO_TESTS_AT_A_TIME", cpus.max(2) as u64).max(1) as usize
}

fn turns() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turn {
    fn new(kind: Kind) -> Turn {
        Turn { kind, begun: Instant::now() }
    }

    /// What it took, for whoever wants to know where the time goes.
    fn note(&self) {
        let Some(path) = std::env::var_os("KYMO_TEST_TIMES") else { return };
        let how = match self.kind {
            Kind::Held => return,
            Kind::Alone => "alone",
            Kind::Shared(_) => "beside",
        };
        let line = format!(
            "{:.1} {how} {}\n",
            self.begun.elapsed().as_secs_f64(),
            std::thread::current().name().unwrap_or("a thread")
        );
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }

    /// Beside others; `only` names a thing of the machine that one test may have at a time.
    pub(crate) fn shared(only: Option<&'static str>) -> Turn {
        HELD.set(HELD.get() + 1);
        if HELD.get() > 1 {
            return Turn::new(Kind::Held);
        }
        let most = at_a_time();
        let mut turns = turns();
        turns.waiting += 1;
        while turns.is_alone || turns.running >= most || only.is_some_and(|thing| turns.taken.contains(thing)) {
            turns = CHANGED.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns.waiting -= 1;
        turns.running += 1;
        turns.taken.extend(only);
        Turn::new(Kind::Shared(only))
    }

    /// When nobody else runs or wants to run beside others.
    pub(crate) fn alone() -> Turn {
        HELD.set(HELD.get() + 1);
        assert_eq!(HELD.get(), 1, "a test that has a turn beside others cannot have one alone");
        let mut turns = turns();
        while turns.is_alone || turns.running + turns.waiting > 0 {
            turns = CHANGED.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns.is_alone = true;
        Turn::new(Kind::Alone)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        self.note();
        let mut turns = turns();
        match self.kind {
            Kind::Held => return,
            Kind::Alone => turns.is_alone = false,
            Kind::Shared(only) => {
                turns.running -= 1;
                only.iter().for_each(|thing| _ = turns.taken.remove(thing));
            }
        }
        drop(turns);
        CHANGED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// While the first has a turn, the third gets one and the second does not.
    #[track_caller]
    fn comes_before(first: Option<&'static str>, second: fn() -> Turn, third: fn() -> Turn) {
        let turn = Turn::shared(first);
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            for (name, take) in [("second", second), ("third", third)] {
                let tell = tell.clone();
                scope.spawn(move || {
                    let turn = take();
                    tell.send(name).expect("somebody listens");
                    drop(turn);
                });
            }
            assert_eq!(told.recv(), Ok("third"));
            drop(turn);
            assert_eq!(told.recv(), Ok("second"));
        });
    }

    #[test]
    fn who_disturbs_others_waits_for_them() {
        comes_before(None, Turn::alone, || Turn::shared(None));
        comes_before(Some("a user"), || Turn::shared(Some("a user")), || Turn::shared(Some("another")));
        comes_before(Some("a user"), || Turn::shared(Some("a user")), || Turn::shared(None));
        // A thread that has a turn needs no other.
        let turn = Turn::alone();
        drop((Turn::shared(None), turn));
    }
}
