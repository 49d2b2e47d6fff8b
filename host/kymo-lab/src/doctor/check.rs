// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a check of the list is, and what a look finds.

use super::context::Context;
use crate::Severity;
use crate::machine::Unread;

/// One question of the list, before anybody looked.
pub(super) struct Check {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) severity: Severity,
    pub(super) wanted: &'static str,
    /// One sentence.
    pub(super) why: &'static str,
    /// How to set it until the next boot.
    pub(super) now: &'static str,
    /// How to make it last.
    pub(super) keep: &'static str,
    /// Where to read on: a path in the kernel's Documentation, or a manual page.
    pub(super) see: &'static str,
    /// The error says why nobody could look: a file that cannot be read is never an answer.
    pub(super) look: fn(&Context<'_>) -> Result<Look, Unread>,
}

/// What a look found.
pub(super) enum Look {
    Ok(String),
    Problem(String),
    /// A problem that weighs otherwise than the check says.
    Graded(Severity, String),
    /// Why the question makes no sense here.
    Not(&'static str),
}

impl Look {
    /// A problem where it is one, else fine.
    pub(super) fn when(is_problem: bool, current: impl Into<String>) -> Look {
        if is_problem { Look::Problem(current.into()) } else { Look::Ok(current.into()) }
    }
}
