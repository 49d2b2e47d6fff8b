// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of the laboratory [spec/view.md 4.17]: made by who opened the files, as they do not change.

use crate::columns::Answer;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::walk::Stop;

/// Answers `results`.
///
/// # Errors
/// There are none.
pub fn results(of: &Opened, _: &mut Parameters, _: &Stop) -> Result<Answer, Error> {
    of.results.clone().ok_or_else(|| Error::Trace {
        message: "no results of the laboratory were given".to_owned(),
        hint: "kymo wakeup --json > a.json; kymo view a.json".to_owned(),
    })
}
