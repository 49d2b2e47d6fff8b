// SPDX-License-Identifier: MIT OR Apache-2.0
//! A message of Perfetto's own, made of a record.

use super::super::wire::Message;

/// What one event becomes, and which of its fields have no place there.
pub struct OwnMessage {
    /// Field of FtraceEvent.
    pub number: u32,
    pub body: Message,
    /// Names of fields.
    pub left: Vec<String>,
}
