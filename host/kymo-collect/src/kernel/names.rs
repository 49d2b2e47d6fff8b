// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of fields that were asked for, and of systems as a trace has them.

use std::collections::BTreeSet;

use kymo_ftrace::format;
use kymo_tracefs::{Chosen, Instance};

use crate::Error;

/// Fields that were chosen by name, and those that there are.
#[derive(Default)]
pub(super) struct FieldNames {
    asked: BTreeSet<String>,
    there: BTreeSet<String>,
}

impl FieldNames {
    pub(super) fn note(&mut self, chosen: &Chosen, format: &format::EventFormat) {
        let Some(asked) = &chosen.fields else { return };
        self.asked.extend(asked.iter().cloned());
        self.there.extend(format.fields.iter().map(|field| field.name.clone()));
    }

    /// A name that no event has is a mistake; one that only some have is not.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(field) = self.asked.iter().find(|name| !self.there.contains(*name)) else { return Ok(()) };
        let there: Vec<String> = self.there.iter().cloned().collect();
        let near = crate::near(field, &there, 3).into_iter().map(str::to_owned).collect();
        Err(Error::Field { field: field.clone(), near })
    }
}

/// Probes are in a group of the instance's own, whose name means nothing to readers.
pub(super) fn system_in_trace<'a>(instance: &Instance, system: &'a str) -> &'a str {
    if system == instance.probe_group() { "uprobe" } else { system }
}
