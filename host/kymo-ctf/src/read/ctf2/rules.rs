// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of CTF 2 that hold wherever an object stands, used or not.

use serde_json::{Value, json};

use super::shape::Shape;
use super::{Fragments, Object, ranges};
use crate::read::build::{Builder, Origin};

/// The cycles of a clock's offset are less than a second.
pub(super) fn offset(cycles: i64, frequency_hz: u64) -> Result<(), String> {
    if u64::try_from(cycles).is_ok_and(|cycles| cycles < frequency_hz) {
        return Ok(());
    }
    Err(format!("`cycles` of `offset-from-origin` must be below the frequency, {frequency_hz}; {cycles} is not"))
}

/// The origin of a clock is a word, or an object with its names.
pub(super) fn origin(origin: Option<&Value>) -> Result<(), String> {
    match origin {
        None => Ok(()),
        Some(Value::String(word)) if word == "unix-epoch" => Ok(()),
        Some(Value::Object(names)) if ["name", "uid"].iter().all(|name| names.contains_key(*name)) => {
            Shape::ClockOrigin.check(names)
        }
        _ => Err("`origin` of a clock is \"unix-epoch\", or an object with `name` and `uid`".into()),
    }
}

/// A bit map has flags, each of bits from 0 on.
pub(super) fn flags(bit_map: &Object) -> Result<(), String> {
    let flags = bit_map.get("flags").and_then(Value::as_object).filter(|flags| !flags.is_empty());
    for (name, bits) in flags.ok_or("a bit map without `flags`")? {
        let bits = ranges(bits)?;
        if bits.is_empty() || bits.iter().any(|(low, _)| *low < 0) {
            return Err(format!("the flag `{name}` needs ranges of bits, from 0 on"));
        }
    }
    Ok(())
}

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
