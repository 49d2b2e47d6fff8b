// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices of a budget that are one cause [spec/analyze.md 6, Together]: a thread that is throttled while twenty others
//! have its CPU in turn has been throttled once, and not twenty times for a little.

use super::story::Slice;
use crate::cause::Cause;

/// How a text says that records do not: it may go on.
pub const INFERRED: &str = "(inferred";

/// A cause with all of its slices.
#[derive(Clone, Debug)]
pub struct WholeCause<'b> {
    /// Its largest slice.
    pub largest: &'b Slice,
    /// What it is.
    pub text: String,
    /// ns.
    pub ns: u64,
}

/// The causes of a budget, the largest first; of equal ones in the order of the budget.
pub fn together(budget: &[Slice]) -> Vec<WholeCause<'_>> {
    let one = |slice| WholeCause { largest: slice, text: slice.text.clone(), ns: slice.ns };
    let mut all: Vec<WholeCause<'_>> = Vec::new();
    for (at, slice) in budget.iter().enumerate() {
        let is_same = |other: &&Slice| slice.shared.is_some() && other.shared == slice.shared;
        if slice.shared.as_ref().is_none_or(|_| budget.iter().filter(is_same).count() == 1) {
            all.push(one(slice));
            continue;
        }
        let ns = budget.iter().filter(is_same).map(|other| other.ns).fold(0, u64::saturating_add);
        // The budget is in the order of size: this is the largest of them.
        let is_largest = !budget[..at].iter().any(|other| is_same(&other));
        let largest = budget.iter().find(is_same).unwrap_or(slice);
        // A thread that had most of the time is the cause itself, but for a limit, which is not its matter.
        let has_most = !matches!(slice.cause, Cause::Throttled { .. }) && largest.ns >= ns / 2;
        match (has_most, slice.shared.as_deref()) {
            (true, _) | (_, None) => all.push(one(slice)),
            (false, Some(shared)) if is_largest => {
                let is_told = slice.seen || shared.contains(INFERRED);
                let text = if is_told { shared.to_owned() } else { format!("{shared} {INFERRED})") };
                all.push(WholeCause { largest: slice, text, ns });
            }
            (false, Some(_)) => {}
        }
    }
    all.sort_by_key(|cause| std::cmp::Reverse(cause.ns));
    all
}
