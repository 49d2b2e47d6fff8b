// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of block devices, as a state dump tells of them.

use kymo_ctf::read::{Record, Value};

/// The class of such records.
pub const DEVICES: &str = "lttng_statedump_block_device";

/// The block device that a record of the state dump tells of: its number, and its name.
pub fn device_of(record: &Record<'_>) -> Option<(u64, String)> {
    let number = match record.payload.get("dev")? {
        Value::Int(number, _) => u64::try_from(i128::from(number)).ok()?,
        _ => return None,
    };
    match record.payload.get("diskname")? {
        Value::Text(name) => Some((number, name.into_owned())),
        _ => None,
    }
}
