// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the verbs that analyse share: traces to state and spans ([`feed`]), which records are asked for ([`choose`]),
//! keys of records ([`keys`]), the time that streams have in common ([`intersect`]), times on the command line
//! ([`when`]), and how names, times and durations are shown ([`show`]), and what is wrong with a trace ([`caveats`]).

pub mod caveats;
pub mod choose;
pub mod feed;
pub mod intersect;
pub mod kernel_functions;
pub mod keys;
pub mod named;
pub mod show;
pub mod when;
pub mod who;

use std::process::ExitCode;

use kymo_analyze::cause::Machine;
use kymo_ctf::read::{Reader, Trace};
use kymo_ctf::write::EnvValue;
use kymo_feed::Classes;
use kymo_index::Named;

use crate::verbs::record::unknown;

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

/// What the environments of traces say of the machine.
pub fn machine_of(traces: &[Trace]) -> Machine {
    let of = |name: &str| {
        let env = traces.iter().flat_map(|trace| &trace.metadata.env);
        env.filter(|(key, _)| key == name).find_map(|(_, value)| match value {
            EnvValue::Text(text) => Some(text.as_str()),
            _ => None,
        })
    };
    Machine::of_uname(of("kernel_release").unwrap_or_default(), of("kernel_version").unwrap_or_default())
}

/// Says on standard error what the sessions of these traces could not count.
pub fn say_unknown(named: &[Named]) {
    let lines = named.iter().flat_map(|named| unknown::lines_of_trace(&named.dir));
    lines.for_each(|line| eprintln!("kymo: {line}"));
}

/// Says on standard error what is damaged; the exit status by that.
pub fn damage(input: &feed::Input, reader: &Reader<'_>) -> ExitCode {
    say_unknown(&input.named);
    let counts = caveats::CaveatCounts { all: reader.caveat_count(), damage: reader.damage_count() };
    let of_streams = reader.caveats().map(|(_, caveat)| (String::new(), caveat));
    caveats::say(&input.caveats, of_streams, counts, ": findings are of what could be read")
}
