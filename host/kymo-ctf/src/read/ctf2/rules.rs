// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of CTF 2 that hold wherever an object stands, used or not.

use serde_json::Value;

use super::shape::Shape;
use super::values::{Object, ranges};

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
