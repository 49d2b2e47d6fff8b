// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is this machine fit for real time? A checklist [spec/lab.md 9]: what was found, what is wanted, why, and how to get
//! there. Only reads.
//!
//! A check that does not apply (a guest's frequency, a container's kernel) says so; one that could not look says why.
//! Neither is an error, and neither is fine: a file that is missing is an answer only if the directory that would have
//! it can be listed.

mod check;
mod clock;
mod context;
mod interrupts;
mod isolation;
mod kernel;
mod locks;
mod memory;
mod power;
mod process;
mod scheduler;
#[cfg(test)]
mod tests;
mod threads;
mod tracing;
mod virtualisation;

use serde::Serialize;

use crate::{Machine, Severity};

use check::{Check, Look};
use context::Context;
pub use context::Target;

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// To be set right.
    Problem,
    /// Not known; `current` says why.
    Unread,
    /// No question here; `current` says why.
    NotApplicable,
    /// As wanted.
    Ok,
}

/// A check and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its fixed name, as `kymo doctor --prove` takes it.
    pub id: &'static str,
    /// What is asked.
    pub title: &'static str,
    /// How much a problem weighs.
    pub severity: Severity,
    /// The answer.
    pub state: State,
    /// The value found, or why there is none.
    pub current: String,
    /// The value wanted.
    pub wanted: &'static str,
    /// Why, in a sentence.
    pub why: &'static str,
    /// How to set it until the next boot.
    pub now: &'static str,
    /// How to make it last.
    pub keep: &'static str,
    /// Where to read on.
    pub see: &'static str,
}

/// Goes through the list for a machine, and for a process or command where the target has one. Problems first, the
/// gravest of them first.
pub fn examine(machine: &Machine, target: &Target) -> Vec<Finding> {
    let context = Context::new(machine, target);
    let lists = [
        kernel::CHECKS,
        isolation::CHECKS,
        interrupts::CHECKS,
        scheduler::CHECKS,
        threads::CHECKS,
        memory::CHECKS,
        power::CHECKS,
        clock::CHECKS,
        virtualisation::CHECKS,
        if target.has_process() { process::CHECKS } else { &[] },
        if target.has_process() { locks::CHECKS } else { &[] },
    ];
    let mut findings: Vec<Finding> = lists.into_iter().flatten().map(|check| finding(check, &context)).collect();
    findings.sort_by_key(|finding| (finding.state, std::cmp::Reverse(finding.severity)));
    findings
}

fn finding(check: &Check, context: &Context<'_>) -> Finding {
    let Check { id, title, wanted, why, now, keep, see, .. } = *check;
    let (state, severity, current) = match (check.look)(context) {
        Ok(Look::Ok(current)) => (State::Ok, check.severity, current),
        Ok(Look::Problem(current)) => (State::Problem, check.severity, current),
        Ok(Look::Graded(severity, current)) => (State::Problem, severity, current),
        Ok(Look::Not(reason)) => (State::NotApplicable, check.severity, reason.to_owned()),
        Err(reason) => (State::Unread, check.severity, reason.0),
    };
    Finding { id, title, severity, state, current, wanted, why, now, keep, see }
}

/// Whether the machine is fit: no problem above medium. `None`: none was found, but a check above medium could not
/// look.
pub fn is_fit(findings: &[Finding]) -> Option<bool> {
    let has = |state| findings.iter().any(|finding| finding.state == state && finding.severity > Severity::Medium);
    match (has(State::Problem), has(State::Unread)) {
        (true, _) => Some(false),
        (false, true) => None,
        (false, false) => Some(true),
    }
}
