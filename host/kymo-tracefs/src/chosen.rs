// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event that was chosen, and how choices of one event join.

use crate::EventName;

/// An event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Which.
    pub event: EventName,
    /// In the kernel's own filter language. `None` records all.
    pub filter: Option<String>,
    /// Keep these fields only. The kernel writes all: they are cut when pages become records. Not checked here.
    pub fields: Option<Vec<String>>,
}

impl Chosen {
    /// All of an event.
    pub fn whole(event: EventName) -> Chosen {
        Chosen { event, filter: None, fields: None }
    }

    /// Joins another choice of the same event. A filter or a list of fields narrows the event wherever else it is
    /// chosen without one; two filters are alternatives, two lists of fields are one.
    pub(crate) fn join(&mut self, filter: Option<&str>, fields: Option<&[String]>) {
        if let Some(filter) = filter {
            self.filter = Some(match self.filter.take() {
                Some(mine) if mine == filter => mine,
                Some(mine) => format!("({mine}) || ({filter})"),
                None => filter.to_owned(),
            });
        }
        for field in fields.into_iter().flatten() {
            let mine = self.fields.get_or_insert_default();
            if !mine.contains(field) {
                mine.push(field.clone());
            }
        }
    }
}
