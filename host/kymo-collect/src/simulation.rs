// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions without processes, sockets, files and time: what the control thread and the drain thread do is driven step
//! by step by one random sequence, which a seed repeats. Programs come, record, fork, execute others, are killed or
//! stopped; the disk is full or gone; the collector does not run for a while; the session's owner changes his mind. At
//! the end the trace is held against the books of the programs: what is in it was written, once, in order; what is not
//! was counted as lost, or is told as unknown. Scenarios do the same with sessions that a test leads.
//!
//! The ring memory is real: the lease that says who still has it is the kernel's.

mod acts;
mod check;
mod conformance;
mod disk;
mod objects;
mod outside;
mod packets;
mod program;
mod recovery;
mod rings;
mod run;
mod scenarios;
mod session;
mod snapshots;
mod stage;
mod totals;
mod trouble;
mod verbs;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kymo_testing::{setting, tell};
use rustix::time::{ClockId, clock_gettime};

/// Simulated time that the usual tests take, in seconds. `make stress` sets KYMO_SIMULATED_S.
const SECONDS: u64 = 1_000_000;

/// Sessions until so many seconds have been simulated, on all CPUs: a seed is one run, whoever makes it. `KYMO_SEED`
/// runs that one alone, and tells what happens in it.
#[test]
fn sessions_tell_what_they_lost() {
    if let Some(seed) = std::env::var("KYMO_SEED").ok().and_then(|seed| seed.parse().ok()) {
        tell(&format!("KYMO_SEED={seed}: {:?}", run::session(seed, true)));
        return;
    }
    let first = setting("KYMO_FIRST_SEED", 1);
    let wanted = setting("KYMO_SIMULATED_S", SECONDS);
    tell(&format!("simulation of sessions: KYMO_FIRST_SEED={first} KYMO_SIMULATED_S={wanted}"));
    let next = AtomicU64::new(first);
    let begun = (Instant::now(), clock_gettime(ClockId::ProcessCPUTime));
    let totals = Mutex::new(totals::Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while totals.lock().unwrap().seconds < wanted {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let of_one = std::panic::catch_unwind(|| run::session(seed, false)).unwrap_or_else(|panic| {
                        tell(&format!("KYMO_SEED={seed} repeats it"));
                        std::panic::resume_unwind(panic)
                    });
                    totals.lock().unwrap().add(&of_one);
                }
            });
        }
    });
    let cpu = clock_gettime(ClockId::ProcessCPUTime).tv_sec - begun.1.tv_sec;
    let took = begun.0.elapsed().as_secs();
    tell(&format!("simulated in {took} s; the test program had {cpu} s of CPU time meanwhile"));
    let totals = totals.into_inner().unwrap();
    tell(&format!("seeds {first} to {}: {totals:?}", next.into_inner() - 1));
    if wanted >= SECONDS {
        totals.assert_busy();
    }
}
