// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--filter` of the verbs: what the filters of kymo-query have to say goes to standard error.

pub use kymo_command::select::say_of_filters as say;
pub use kymo_query::filter::Filters;
