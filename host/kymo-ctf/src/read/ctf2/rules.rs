// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of CTF 2 about several properties of an object together.

use std::collections::HashSet;

use crate::read::class::Choice;

/// A variant has options; their names differ, and no value selects two of them. `names`: of the options, in order.
pub(super) fn options(names: &[Option<&str>], options: &[Choice]) -> Result<(), String> {
    if options.is_empty() {
        return Err("a variant without options".into());
    }
    let mut met = HashSet::new();
    for name in names.iter().flatten() {
        if !met.insert(name) {
            return Err(format!("the variant has two options `{name}`"));
        }
    }
    let ranges = options.iter().enumerate().flat_map(|(index, option)| option.ranges.iter().map(move |r| (*r, index)));
    let mut all: Vec<_> = ranges.collect();
    all.sort_unstable();
    // The end of the one that reaches furthest so far, and whose it is.
    let mut before: Option<(i128, usize)> = None;
    for ((low, high), index) in all {
        if before.is_some_and(|(end, of)| low <= end && of != index) {
            return Err(format!("{low} selects two options of the variant"));
        }
        before = before.filter(|(end, _)| *end > high).or(Some((high, index)));
    }
    Ok(())
}

/// The cycles of a clock's offset are less than a second.
pub(super) fn offset(cycles: i64, frequency_hz: u64) -> Result<(), String> {
    if u64::try_from(cycles).is_ok_and(|cycles| cycles < frequency_hz) {
        return Ok(());
    }
    Err(format!("`cycles` of `offset-from-origin` must be below the frequency, {frequency_hz}; {cycles} is not"))
}
