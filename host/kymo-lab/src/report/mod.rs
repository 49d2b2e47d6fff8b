// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results and comparisons for people: text for a terminal, SVG, one HTML file. Pure functions of records: the same
//! record
//! gives the same picture.
//!
//! Every text that comes from a record is made harmless before it is shown: records may be other people's.

mod causes;
mod chart;
mod comparison;
mod evaluation;
mod page;
mod svg;
mod terminal;
#[cfg(test)]
mod tests;
mod units;

pub use causes::causes;
pub use comparison::{comparison, extremes};
pub use evaluation::{evaluation, problems};
pub use page::{Named, comparison_html, evaluation_html, html, svg};
pub use terminal::histogram;
pub use units::{bounds, count, counted, plain, quantile, time};
