// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the verbs that analyse share: traces to state and spans ([`feed`]), which records are asked for ([`choose`]),
//! keys of records ([`keys`]), the time that streams have in common ([`intersect`]), times on the command line
//! ([`when`]), how names, times and durations are shown ([`show`]), and what is wrong with a trace ([`caveats`],
//! [`damage`]). What `kymo-sql` needs as well is in kymo-command.

pub mod choose;
pub mod kernel_functions;
pub mod show;
pub mod who;

use kymo_feed::Classes;

pub use kymo_command::caveats::{damage, say_unknown};
pub use kymo_command::{caveats, input as feed, intersect, keys, named, when};

/// Who ran is known from switches only.
///
/// # Errors
/// The trace has none.
pub fn need_switches(classes: &Classes) -> anyhow::Result<()> {
    anyhow::ensure!(
        classes.vocabulary.facts().switches,
        "the trace has no sched_switch: record with -k sched,irq,syscalls"
    );
    Ok(())
}
