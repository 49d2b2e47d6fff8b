// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events are shown, and what filters of records have to say.

use kymo_ctf::read::Trace;
use kymo_names::event_matches;
use kymo_query::learn::is_state;

/// Whether records of an event are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// They are.
    Yes,
    /// They are not.
    No,
    /// Nobody asked for them: hundreds of records that say what there was, and not what happened.
    OnlyWithState,
}

/// The events that the user asked for.
pub struct EventChoice {
    /// By trace and event.
    events: Vec<Vec<Shown>>,
}

impl EventChoice {
    /// `globs` choose events; without any, all are shown, those of the state dump with `state` only.
    pub fn new(traces: &[Trace], globs: &[String], state: bool) -> EventChoice {
        let shown = |name: &str| match globs.iter().any(|glob| event_matches(glob, name)) {
            true => Shown::Yes,
            false if is_state(name) && state => Shown::Yes,
            false if !globs.is_empty() => Shown::No,
            false if is_state(name) => Shown::OnlyWithState,
            false => Shown::Yes,
        };
        let of_trace = |trace: &Trace| trace.metadata.events.iter().map(|event| shown(&event.name)).collect();
        EventChoice { events: traces.iter().map(of_trace).collect() }
    }

    /// Whether records of the event at this position of its trace are shown.
    #[inline]
    pub fn of(&self, trace: usize, event: usize) -> Shown {
        self.events[trace][event]
    }
}

/// Says notes of filters (`--filter`), and what they did not find.
pub fn say_of_filters(lines: &[String]) {
    lines.iter().for_each(|line| eprintln!("kymo: --filter: {line}"));
}
