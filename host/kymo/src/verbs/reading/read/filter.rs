// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--filter` of the verbs: what the filters of kymo-query have to say goes to standard error.

pub use kymo_query::filter::Filters;

/// Says notes of filters, and what they did not find.
pub fn say(lines: &[String]) {
    lines.iter().for_each(|line| eprintln!("kymo: --filter: {line}"));
}
