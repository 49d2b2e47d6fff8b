// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers of a flight recorder: their options.

use std::time::Duration;

use kymo_collect::{Action, Triggers};

use crate::verbs::units;

/// What a flight recorder waits for, and what then.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Triggers (with --flight)")]
pub struct TriggerArgs {
    /// Fires when a record matches this filter: 'motor:step.duration > 200us', 'latency(req:begin, req:end, by=id) >
    /// 5ms', of the kernel 'sched_switch: next_prio < 0', 'wakeup() > 200us' (repeatable); kymo_snapshot("why") in a
    /// program always does
    #[arg(long, value_name = "FILTER")]
    trigger: Vec<String>,
    /// What a trigger does: snapshot, stop, mark, or a command of the shell (repeatable) [default: snapshot]
    #[arg(long, value_name = "WHAT")]
    on_trigger: Vec<String>,
    /// Length of the past in a snapshot [default: all that is in the rings]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    before: Option<Duration>,
    /// Take the snapshot this long after the trigger
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    after: Option<Duration>,
    /// Stop after N triggers
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    trigger_limit: u64,
    /// Minimum time between two triggers
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    trigger_pause: Duration,
}

impl TriggerArgs {
    /// Whether any condition was given.
    pub(super) fn is_given(&self) -> bool {
        !self.trigger.is_empty() || !self.on_trigger.is_empty() || self.before.is_some() || self.after.is_some()
    }

    /// The triggers, if every condition is a filter.
    pub(super) fn triggers(&self) -> anyhow::Result<Triggers> {
        let condition = |text: &String| {
            let condition = kymo_filter::parse(text)?;
            condition.check_without_state()?;
            condition.check_alone().map(|()| condition)
        };
        let conditions = self.trigger.iter().map(condition).collect::<Result<Vec<_>, _>>();
        let is_empty = self.on_trigger.iter().any(|what| what.trim().is_empty());
        anyhow::ensure!(!is_empty, "--on-trigger: it is empty; write snapshot, stop, mark, or a command of the shell");
        let actions = self.on_trigger.iter().map(|what| match what.as_str() {
            "snapshot" => Action::Snapshot,
            "stop" => Action::Stop,
            "mark" => Action::Mark,
            command => Action::Run(command.to_owned()),
        });
        let mut triggers = Triggers {
            conditions: conditions.map_err(|error| anyhow::anyhow!("--trigger:\n{error}"))?,
            actions: actions.collect(),
            before: self.before,
            after: self.after.unwrap_or_default(),
            limit: self.trigger_limit,
            pause: self.trigger_pause,
        };
        if triggers.actions.is_empty() {
            triggers.actions.push(Action::Snapshot);
        }
        Ok(triggers)
    }
}
