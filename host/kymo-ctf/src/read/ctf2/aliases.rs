// SPDX-License-Identifier: MIT OR Apache-2.0
//! Aliases of field classes, held against the rules where they are declared, used or not.

use serde_json::{Value, json};

use super::Fragments;
use crate::read::build::{Builder, Origin};

impl Fragments {
    /// Whether the class of an alias makes sense, used or not. What it refers to depends on the place of use, so it is
    /// built apart, with a field that stands for any other.
    pub(super) fn check_alias(&mut self, class: &Value) -> Result<(), String> {
        let apart = Builder::new(self.source_bytes);
        let builder = std::mem::replace(&mut self.builder, apart);
        let uuid_role = self.uuid_role;
        self.builder.begin(Origin::Payload, [None; 6]);
        let any = json!({ "type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian" });
        let checked = self.class(&any).and_then(|stand_in| {
            self.stand_in = Some(stand_in);
            self.class(class)
        });
        self.stand_in = None;
        (self.builder, self.uuid_role) = (builder, uuid_role);
        checked.map(|_| ())
    }
}
