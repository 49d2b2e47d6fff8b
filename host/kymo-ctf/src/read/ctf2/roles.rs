// SPDX-License-Identifier: MIT OR Apache-2.0
//! Roles of CTF 2: what a field means to the reader, and in which part it may mean that.

use serde_json::Value;

use super::values::Object;
use crate::read::build::Origin;
use crate::read::class::{Class, ClassId, ClassKind, Role};

const UUID_ROLE: &str = "metadata-stream-uuid";

/// A role of an integer, and the parts whose fields may have it.
type IntegerRole = (&'static str, Role, &'static [Origin]);

const OF_INTEGERS: [IntegerRole; 10] = [
    ("packet-magic-number", Role::Magic, &[Origin::PacketHeader]),
    ("data-stream-class-id", Role::StreamId, &[Origin::PacketHeader]),
    ("data-stream-id", Role::StreamInstance, &[Origin::PacketHeader]),
    ("default-clock-timestamp", Role::Time, &[Origin::PacketContext, Origin::EventHeader]),
    ("packet-end-default-clock-timestamp", Role::End, &[Origin::PacketContext]),
    ("packet-content-length", Role::ContentSize, &[Origin::PacketContext]),
    ("packet-total-length", Role::PacketSize, &[Origin::PacketContext]),
    ("packet-sequence-number", Role::Sequence, &[Origin::PacketContext]),
    ("discarded-event-record-counter-snapshot", Role::Discarded, &[Origin::PacketContext]),
    ("event-record-class-id", Role::EventId, &[Origin::EventHeader]),
];

/// The part that is read, with what its roles depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub origin: Origin,
    /// The data stream class has a default clock.
    pub has_clock: bool,
    /// The preamble has a UUID.
    pub has_uuid: bool,
}

/// What is known of the fields that were read.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// Of no part: an alias. It is looked at again where it is used.
    pub part: Option<Part>,
    /// Fields of the packet header that are magic numbers.
    magic_numbers: usize,
}

fn of_part(origin: Origin) -> &'static str {
    match origin {
        Origin::PacketHeader => "a packet header",
        Origin::PacketContext => "a packet context",
        Origin::EventHeader => "an event record header",
        Origin::CommonContext | Origin::SpecificContext => "a context of event records",
        Origin::Payload => "a payload",
    }
}

/// The words of `roles`; what is no text is an empty one.
fn words(object: &Object) -> impl Iterator<Item = &str> {
    let roles = object.get("roles").and_then(Value::as_array).into_iter().flatten();
    roles.map(|role| role.as_str().unwrap_or_default())
}

impl Roles {
    /// What an integer means to the reader: the first of its roles. All of them are roles that it may have.
    pub(super) fn integer(&mut self, object: &Object, remarks: &mut Vec<String>) -> Result<Option<Role>, String> {
        let mut roles = Vec::new();
        for word in words(object) {
            let known = OF_INTEGERS.iter().find(|(name, ..)| *name == word);
            let (_, role, parts) = known.ok_or_else(|| format!("an integer has no role `{word}`"))?;
            self.allows(word, parts)?;
            let is_time = matches!(role, Role::Time | Role::End);
            if is_time && self.part.is_some_and(|part| !part.has_clock) {
                return Err(format!(
                    "an integer has the role `{word}`, but its data stream class has no default clock"
                ));
            }
            self.magic_numbers += usize::from(*role == Role::Magic && self.part.is_some());
            roles.push(*role);
        }
        // One length says the other too.
        let is_length = |role: &Role| matches!(role, Role::PacketSize | Role::ContentSize);
        if roles.len() > 1 && !roles.iter().all(is_length) && self.part.is_some() {
            let used = words(object).next().unwrap_or_default();
            remarks.push(format!("an integer has several roles; only `{used}`, the first one, is used"));
        }
        Ok(roles.first().copied())
    }

    /// Whether a field of the part that is read may have a role that is of `parts`.
    fn allows(&self, role: &str, parts: &[Origin]) -> Result<(), String> {
        let Some(part) = self.part.filter(|part| !parts.contains(&part.origin)) else { return Ok(()) };
        let allowed: Vec<&str> = parts.iter().map(|&origin| of_part(origin)).collect();
        let (here, there) = (of_part(part.origin), allowed.join(" or "));
        Err(format!("a field of {here} has the role `{role}`, which is of {there} only"))
    }

    /// Whether a BLOB is the UUID of the metadata: the one role that it may have. `has_16_bytes`: always.
    pub(super) fn blob(&self, object: &Object, has_16_bytes: bool) -> Result<bool, String> {
        let mut is_uuid = false;
        for role in words(object) {
            if role != UUID_ROLE {
                return Err(format!("a BLOB has no role `{role}`"));
            }
            if !has_16_bytes {
                return Err(format!("a BLOB with the role `{UUID_ROLE}` has 16 bytes"));
            }
            self.allows(role, &[Origin::PacketHeader])?;
            if self.part.is_some_and(|part| !part.has_uuid) {
                return Err(format!("a BLOB has the role `{UUID_ROLE}`, but the preamble has no `uuid`"));
            }
            is_uuid = self.part.is_some();
        }
        Ok(is_uuid)
    }

    /// A magic number is the first field of a packet header, and has 32 bits.
    pub(super) fn check_magic(&self, classes: &[Class], header: ClassId) -> Result<(), String> {
        let ClassKind::Struct { members } = &classes[header as usize].kind else { return Ok(()) };
        let first = members.first().map(|member| &classes[member.class as usize].kind);
        let is_first = matches!(first, Some(ClassKind::Int(int)) if int.role == Some(Role::Magic) && int.bits == 32);
        if self.magic_numbers == usize::from(is_first) {
            return Ok(());
        }
        Err("`packet-magic-number` is the role of the first member of a packet header, of 32 bits".into())
    }
}
