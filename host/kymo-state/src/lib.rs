// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the machine at one moment, as events [spec/kernel.md 6].
//!
//! A trace of changes can only be understood from a known beginning: which threads exist, what they are called, how
//! they are scheduled, which files they have open, where code is mapped, which device an interrupt belongs to. [`dump`]
//! reads that from /proc and /sys and hands each fact on as one packed record of a class from [`classes`].
//!
//! Nothing here has a clock, opens a socket, starts a thread, or writes anything.
//!
//! What cannot be told from /proc: whether a runnable thread is running at this instant. As in LTTng's dump, every
//! runnable thread has status 2 (waits for a CPU) and mode 5 (unknown); the first `sched_switch` tells. The dump takes
//! time, so two records may show different moments; whoever reads it lets a kernel event that came in between win.

mod access;
mod build_id;
mod class;
mod cpu;
mod device;
mod dump;
mod interrupt;
mod kernel;
mod maps;
mod missing;
mod options;
mod process;
mod program;
mod record;
mod report;
mod setting;
mod text;

pub use class::{CLASSES, classes};
pub use maps::Maps;
pub use options::{Options, Root};
pub use process::cgroup_in;
pub use program::{Phase, Program};
pub use record::Event;
pub use report::Report;
pub use text::cpu_list;

/// Dumps the state of the machine: `lttng_statedump_start`, the records, `lttng_statedump_end`.
///
/// `first_id` is the id of the first of the [`CLASSES`] classes, as given to [`classes`]. `put` is called once per
/// record, from this thread; the payload is valid during the call only.
pub fn dump(options: &Options, first_id: u16, put: &mut dyn FnMut(Event<'_>)) -> Report {
    dump::run(options, first_id, put)
}
