// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heads of packets, and fields that are nested: walks a field class over the bytes of a packet and leaves a tape of
//! nodes.
//!
//! The tape is reused from record to record. Text and bytes stay where they are; a node says where. Every loop here is
//! bounded by the bits that are left, or by [`FREE_NODES`].

use super::bits::{Cursor, Stop, nul_text};
use super::class::{Class, ClassId, ClassKind, Encoding, Int, Len, Metadata, Role, within};
use super::frame::{Frame, Node};

/// Nodes that a record may have beyond one a bit: structures and empty arrays take no bits.
const FREE_NODES: u64 = 256;

/// In a slot: the field that fills it lies in an option or an optional that the record does not have. No integer of a
/// trace has this value.
const NOT_THERE: i128 = i128::MIN;

/// Values of integers that mean something to the reader, as of the last decoding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Roles {
    values: [u64; Role::COUNT],
    bits: [u8; Role::COUNT],
    seen: u16,
}

impl Roles {
    pub fn get(&self, role: Role) -> Option<u64> {
        (self.seen & 1 << role as u8 != 0).then(|| self.values[role as usize])
    }

    /// The bits at which its value wraps, as of the last field that had it.
    pub fn bits(&self, role: Role) -> u8 {
        self.bits[role as usize]
    }

    fn set(&mut self, role: Role, value: u64, bits: u8) {
        self.values[role as usize] = value;
        self.bits[role as usize] = bits;
        self.seen |= 1 << role as u8;
    }
}

/// Decodes fields of one stream, one tape at a time.
#[derive(Debug)]
pub(crate) struct Decoder<'t> {
    /// Values by slot: lengths and tags. They outlive the tape, because a record may refer to its packet.
    saved: Vec<i128>,
    pub roles: Roles,
    /// The tape, and the places of the fields of the last plan.
    pub frame: Frame<'t>,
    start: u64,
}

impl<'t> Decoder<'t> {
    pub fn new(metadata: &'t Metadata, data: &'t [u8]) -> Self {
        let frame = Frame::new(metadata, data);
        Self { saved: vec![0; metadata.slots as usize], roles: Roles::default(), frame, start: 0 }
    }

    /// Forgets tape and roles, before a head or a record that begins at `at`.
    #[inline]
    pub fn clear(&mut self, at: u64) {
        self.frame.nodes.clear();
        self.roles.seen = 0;
        self.start = at;
    }

    /// Appends the fields of `class` to the tape and passes their bits.
    pub fn decode(&mut self, classes: &[Class], id: ClassId, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let class = &classes[id as usize];
        cursor.align(class.align)?;
        match &class.kind {
            ClassKind::Int(int) => self.int(id, int, cursor)?,
            ClassKind::Float { bits, order } => {
                let bits = cursor.fixed(*bits, *order)?;
                self.leaf(id, bits, 0);
            }
            ClassKind::Wide(_) | ClassKind::WideFloat { .. } => {
                let at = cursor.bit();
                cursor.skip(u64::from(class.bits.unwrap_or(0)))?;
                self.leaf(id, at, 0);
            }
            ClassKind::NulText(encoding) => {
                let (offset, len) = nul_text(cursor, *encoding)?;
                self.leaf(id, offset, len);
            }
            ClassKind::Text { len, encoding: Encoding::Wide { bytes, .. } } => {
                let (offset, len) = self.bytes(id, *len, cursor)?;
                check_units(&self.frame.data[offset as usize..(offset + len) as usize], usize::from(*bytes))?;
            }
            ClassKind::Text { len, .. } | ClassKind::Bytes { len } => {
                self.bytes(id, *len, cursor)?;
            }
            ClassKind::Array { len, element } => {
                let len = self.len(*len)?;
                self.compound(id, len, cursor, |this, cursor| {
                    for _ in 0..len {
                        this.decode(classes, *element, cursor)?;
                        this.check_room(cursor)?;
                    }
                    Ok(())
                })?;
            }
            ClassKind::Struct { members } => self.compound(id, members.len() as u64, cursor, |this, cursor| {
                members.iter().try_for_each(|member| this.decode(classes, member.class, cursor))
            })?,
            ClassKind::Variant { slot, options, clears } => {
                let tag = self.tag(*slot)?;
                self.clear_slots(clears);
                let option = options.iter().find(|option| within(&option.ranges, tag));
                let option = option.ok_or(Stop::Bad("a variant has no option for its tag"))?;
                self.compound(id, 1, cursor, |this, cursor| this.decode(classes, option.class, cursor))?;
            }
            ClassKind::Optional { slot, ranges, element, clears } => {
                let there = within(ranges, self.tag(*slot)?);
                self.clear_slots(clears);
                self.compound(id, u64::from(there), cursor, |this, cursor| {
                    if there { this.decode(classes, *element, cursor) } else { Ok(()) }
                })?;
            }
        }
        Ok(())
    }

    /// Appends an integer, and notes it where others need it.
    #[inline]
    fn int(&mut self, id: ClassId, int: &Int, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let at = cursor.at;
        let bits = cursor.int(int)?;
        if int.save.is_some() || int.role.is_some() {
            self.note(int, bits, cursor.at - at);
        }
        self.leaf(id, bits, 0);
        Ok(())
    }

    /// Appends so many bytes as a leaf. Where they are, and how many.
    #[inline]
    fn bytes(&mut self, id: ClassId, len: Len, cursor: &mut Cursor<'_>) -> Result<(u64, u64), Stop> {
        let len = self.len(len)?;
        let offset = cursor.bytes(len)?;
        self.leaf(id, offset, len);
        Ok((offset, len))
    }

    /// `length` is in bits, as read.
    fn note(&mut self, int: &Int, bits: u64, length: u64) {
        if let Some(slot) = int.save {
            self.save(slot, bits, int.signed);
        }
        if let Some(role) = int.role {
            let length = match int.bits {
                // A time of variable length has its low bits only; a counter has all.
                0 if matches!(role, Role::Time | Role::Begin | Role::End) => length / 8 * 7,
                0 => 64,
                _ => length,
            };
            self.roles.set(role, bits, length.min(64) as u8);
        }
    }

    /// Leaves the value of a length or a tag where its users look for it.
    #[inline]
    pub fn save(&mut self, slot: u32, bits: u64, signed: bool) {
        self.saved[slot as usize] = if signed { i128::from(bits as i64) } else { i128::from(bits) };
    }

    fn leaf(&mut self, class: ClassId, bits: u64, len: u64) {
        self.frame.nodes.push(Node { class, span: 1, bits, len });
    }

    fn compound<'a>(
        &mut self,
        class: ClassId,
        len: u64,
        cursor: &mut Cursor<'a>,
        inner: impl FnOnce(&mut Self, &mut Cursor<'a>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let at = self.frame.nodes.len();
        self.check_room(cursor)?;
        self.frame.nodes.push(Node { class, span: 1, bits: 0, len });
        inner(self, cursor)?;
        self.frame.nodes[at].span = (self.frame.nodes.len() - at) as u32;
        Ok(())
    }

    /// Keeps a few bits of metadata and data from unfolding into endless fields.
    fn check_room(&self, cursor: &Cursor<'_>) -> Result<(), Stop> {
        let nodes = self.frame.nodes.len() as u64;
        if nodes > (cursor.at - self.start).saturating_add(FREE_NODES) || nodes > u64::from(u32::MAX / 4) {
            return Err(Stop::Bad("a record has more fields than bits"));
        }
        Ok(())
    }

    #[inline]
    pub fn len(&self, len: Len) -> Result<u64, Stop> {
        match len {
            Len::Fixed(count) => Ok(count),
            Len::Saved(slot) => {
                let len = self.saved[slot as usize];
                u64::try_from(len).map_err(|_| if len == NOT_THERE { MISSING } else { NEGATIVE })
            }
        }
    }

    /// The value that chooses an option.
    fn tag(&self, slot: u32) -> Result<i128, Stop> {
        match self.saved[slot as usize] {
            NOT_THERE => Err(MISSING),
            tag => Ok(tag),
        }
    }

    fn clear_slots(&mut self, slots: &[u32]) {
        for slot in slots {
            self.saved[*slot as usize] = NOT_THERE;
        }
    }
}

const MISSING: Stop =
    Stop::Bad("a length or a selector lies in an option or an optional that the record does not have");
const NEGATIVE: Stop = Stop::Bad("an array has a negative length");

/// Text of units of several bytes ends at a unit of zeros, or with a whole unit.
fn check_units(text: &[u8], unit: usize) -> Result<(), Stop> {
    let has_end = || text.chunks_exact(unit).any(|chunk| chunk.iter().all(|byte| *byte == 0));
    match text.len() % unit {
        0 => Ok(()),
        _ if has_end() => Ok(()),
        _ => Err(Stop::Bad("a text ends inside of a unit of its encoding")),
    }
}
