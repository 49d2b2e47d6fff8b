// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of JSON that several kinds of fragments have.

use serde_json::{Map, Value};

/// An object of JSON.
pub(super) type Object = Map<String, Value>;

pub(super) fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

pub(super) fn ranges(value: &Value) -> Result<Vec<(i128, i128)>, String> {
    let pair = |value: &Value| match value.as_array()?.as_slice() {
        [low, high] => Some((integer(low)?, integer(high)?)).filter(|(low, high)| low <= high),
        _ => None,
    };
    let list: Option<Vec<(i128, i128)>> = value.as_array().and_then(|list| list.iter().map(pair).collect());
    list.ok_or_else(|| "ranges must be pairs of integers, the lower one first".into())
}
