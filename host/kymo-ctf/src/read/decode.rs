//! Bits to values: walks a field class over the bytes of a packet and leaves a tape of nodes.
//!
//! The tape is reused from record to record. Text and bytes stay where they are; a node says where. Every loop here is
//! bounded by the bits that are left, or by [`FREE_NODES`].

use super::class::{Class, ClassId, Encoding, Int, Kind, Len, Order, Role, within};

/// Nodes that a record may have beyond one a bit: structures and empty arrays take no bits.
const FREE_NODES: u64 = 256;

/// A decoded field, followed on the tape by the fields inside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub class: ClassId,
    /// Nodes of this field, itself included.
    pub span: u32,
    /// A number's bits, sign extended; of text and bytes the offset in the file.
    pub bits: u64,
    /// Bytes of text, elements of an array; of an optional or a variant 1 when it has a value.
    pub len: u64,
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    PastEnd,
    Bad(&'static str),
}

/// A position in a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    base: usize,
    /// Bits from the packet's first.
    pub at: u64,
    /// The same; decoding stops there.
    end: u64,
}

impl<'a> Cursor<'a> {
    /// At the first bit of a packet at byte `base` of `data`, which may have all bytes up to `end_byte`.
    pub fn new(data: &'a [u8], base: usize, end_byte: usize) -> Self {
        let end_byte = end_byte.min(data.len()).max(base.min(data.len()));
        let base = base.min(data.len());
        Self { data, base, at: 0, end: (end_byte - base) as u64 * 8 }
    }

    /// Moves the end nearer.
    pub fn limit(&mut self, bits: u64) {
        self.end = self.end.min(bits);
    }

    pub fn at_end(&self) -> bool {
        self.at >= self.end
    }

    /// Byte in the file.
    pub fn byte(&self) -> u64 {
        self.base as u64 + self.at / 8
    }

    fn align(&mut self, bits: u32) -> Result<(), Stop> {
        let mask = u64::from(bits) - 1;
        self.at = (self.at + mask) & !mask;
        if self.at > self.end { Err(Stop::PastEnd) } else { Ok(()) }
    }

    /// `count` whole bytes at a byte boundary, as their offset in the file.
    fn bytes(&mut self, count: u64) -> Result<u64, Stop> {
        if count > (self.end - self.at) / 8 {
            return Err(Stop::PastEnd);
        }
        let offset = self.byte();
        self.at += count * 8;
        Ok(offset)
    }

    #[inline]
    fn fixed(&mut self, bits: u8, order: Order) -> Result<u64, Stop> {
        let bits = u64::from(bits);
        if bits > self.end.saturating_sub(self.at) {
            return Err(Stop::PastEnd);
        }
        let at = self.at;
        self.at += bits;
        let byte = self.base + (at / 8) as usize;
        if (at | bits) % 8 == 0 {
            let field = &self.data[byte..byte + (bits / 8) as usize];
            return Ok(match order {
                Order::Little => little(field),
                Order::Big => field.iter().fold(0, |value, &b| value << 8 | u64::from(b)),
            });
        }
        Ok(self.odd(at, bits, order))
    }

    /// Bits that do not begin or end at bytes. Little endian fills bytes from their low end, big endian from their high
    /// end.
    fn odd(&self, at: u64, bits: u64, order: Order) -> u64 {
        (0..bits).fold(0, |value, i| {
            let byte = u64::from(self.data[self.base + ((at + i) / 8) as usize]);
            let place = (at + i) % 8;
            match order {
                Order::Little => value | (byte >> place & 1) << i,
                Order::Big => value << 1 | (byte >> (7 - place) & 1),
            }
        })
    }

    /// LEB128 of any length; what does not fit into 64 bits is refused.
    fn variable(&mut self, signed: bool) -> Result<u64, Stop> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.fixed(8, Order::Little)?;
            let part = byte & 0x7F;
            let kept = if shift < 64 { part << shift >> shift } else { 0 };
            let extends = signed && shift >= 63 && part == 0x7F;
            if kept != part && !extends {
                return Err(Stop::Bad("an integer of variable length has more than 64 bits"));
            }
            if shift < 64 {
                value |= part << shift;
            }
            shift = (shift + 7).min(70);
            if byte & 0x80 == 0 {
                let negative = signed && shift < 64 && part & 0x40 != 0;
                return Ok(if negative { value | u64::MAX << shift } else { value });
            }
        }
    }

    fn int(&mut self, int: &Int) -> Result<u64, Stop> {
        if int.bits == 0 {
            return self.variable(int.signed);
        }
        let bits = self.fixed(int.bits, int.order)?;
        if !int.signed || int.bits == 64 {
            return Ok(bits);
        }
        let spare = 64 - u32::from(int.bits);
        Ok(((bits << spare) as i64 >> spare) as u64)
    }
}

#[inline]
fn little(field: &[u8]) -> u64 {
    match *field {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => field.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)),
    }
}

/// Values of integers that mean something to the reader, as of the last decoding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Roles {
    values: [u64; Role::COUNT],
    seen: u16,
    /// Bits of the last time stamp.
    pub time_bits: u8,
}

impl Roles {
    pub fn get(&self, role: Role) -> Option<u64> {
        (self.seen & 1 << role as u8 != 0).then(|| self.values[role as usize])
    }

    fn set(&mut self, role: Role, value: u64, bits: u8) {
        self.values[role as usize] = value;
        self.seen |= 1 << role as u8;
        if matches!(role, Role::Time | Role::Begin) {
            self.time_bits = bits;
        }
    }
}

/// Decodes fields of one stream, one tape at a time.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Values by slot: lengths and tags. They outlive the tape, because a record may refer to its packet.
    saved: Vec<i128>,
    pub roles: Roles,
    pub nodes: Vec<Node>,
    start: u64,
}

impl Decoder {
    pub fn new(slots: u32) -> Self {
        Self { saved: vec![0; slots as usize], ..Self::default() }
    }

    /// Forgets tape and roles, before a head or a record that begins at `at`.
    pub fn clear(&mut self, at: u64) {
        self.nodes.clear();
        self.roles.seen = 0;
        self.start = at;
    }

    /// Appends the fields of `class` to the tape and passes their bits.
    pub fn decode(&mut self, classes: &[Class], id: ClassId, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let class = &classes[id as usize];
        cursor.align(class.align)?;
        match &class.kind {
            Kind::Int(int) => {
                let at = cursor.at;
                let bits = cursor.int(int)?;
                if int.save.is_some() || int.role.is_some() {
                    self.note(int, bits, cursor.at - at);
                }
                self.leaf(id, bits, 0);
            }
            Kind::Float { bits, order } => {
                let bits = cursor.fixed(*bits, *order)?;
                self.leaf(id, bits, 0);
            }
            Kind::NulText(encoding) => {
                let (offset, len) = nul_text(cursor, *encoding)?;
                self.leaf(id, offset, len);
            }
            Kind::Text { len, .. } | Kind::Bytes { len } => {
                let len = self.len(*len)?;
                let offset = cursor.bytes(len)?;
                self.leaf(id, offset, len);
            }
            Kind::Array { len, element } => {
                let len = self.len(*len)?;
                self.compound(id, len, cursor, |this, cursor| {
                    for _ in 0..len {
                        this.decode(classes, *element, cursor)?;
                        this.check_room(cursor)?;
                    }
                    Ok(())
                })?;
            }
            Kind::Struct { members } => self.compound(id, members.len() as u64, cursor, |this, cursor| {
                members.iter().try_for_each(|member| this.decode(classes, member.class, cursor))
            })?,
            Kind::Variant { slot, options } => {
                let tag = self.saved[*slot as usize];
                let option = options.iter().find(|option| within(&option.ranges, tag));
                let option = option.ok_or(Stop::Bad("a variant has no option for its tag"))?;
                self.compound(id, 1, cursor, |this, cursor| this.decode(classes, option.class, cursor))?;
            }
            Kind::Optional { slot, ranges, element } => {
                let there = within(ranges, self.saved[*slot as usize]);
                self.compound(id, u64::from(there), cursor, |this, cursor| {
                    if there { this.decode(classes, *element, cursor) } else { Ok(()) }
                })?;
            }
        }
        Ok(())
    }

    /// `length` is in bits, as read.
    fn note(&mut self, int: &Int, bits: u64, length: u64) {
        if let Some(slot) = int.save {
            self.saved[slot as usize] = if int.signed { i128::from(bits as i64) } else { i128::from(bits) };
        }
        if let Some(role) = int.role {
            let length = if int.bits == 0 { length / 8 * 7 } else { length };
            self.roles.set(role, bits, length.min(64) as u8);
        }
    }

    fn leaf(&mut self, class: ClassId, bits: u64, len: u64) {
        self.nodes.push(Node { class, span: 1, bits, len });
    }

    fn compound<'a>(
        &mut self,
        class: ClassId,
        len: u64,
        cursor: &mut Cursor<'a>,
        inner: impl FnOnce(&mut Self, &mut Cursor<'a>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let at = self.nodes.len();
        self.check_room(cursor)?;
        self.nodes.push(Node { class, span: 1, bits: 0, len });
        inner(self, cursor)?;
        self.nodes[at].span = (self.nodes.len() - at) as u32;
        Ok(())
    }

    /// Keeps a few bits of metadata and data from unfolding into endless fields.
    fn check_room(&self, cursor: &Cursor<'_>) -> Result<(), Stop> {
        let nodes = self.nodes.len() as u64;
        if nodes > (cursor.at - self.start).saturating_add(FREE_NODES) || nodes > u64::from(u32::MAX / 4) {
            return Err(Stop::Bad("a record has more fields than bits"));
        }
        Ok(())
    }

    fn len(&self, len: Len) -> Result<u64, Stop> {
        match len {
            Len::Fixed(count) => Ok(count),
            Len::Saved(slot) => {
                u64::try_from(self.saved[slot as usize]).map_err(|_| Stop::Bad("an array has a negative length"))
            }
        }
    }
}

/// Offset and bytes of text up to its NUL character, which is passed too.
fn nul_text(cursor: &mut Cursor<'_>, encoding: Encoding) -> Result<(u64, u64), Stop> {
    let unit = match encoding {
        Encoding::Utf8 => 1,
        Encoding::Wide { bytes, .. } => usize::from(bytes.max(1)),
    };
    let offset = cursor.byte();
    let left = ((cursor.end - cursor.at) / 8) as usize;
    let rest = &cursor.data[offset as usize..offset as usize + left];
    let nul = rest.chunks_exact(unit).position(|c| c.iter().all(|&b| b == 0)).ok_or(Stop::PastEnd)?;
    cursor.at += (nul as u64 + 1) * unit as u64 * 8;
    Ok((offset, (nul * unit) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_odd_size_and_place() {
        let data = [0b1010_0101, 0b1100_0011, 0xFF, 0x00];
        for (skip, bits, order, expect) in [
            (0, 4, Order::Little, 0b0101),
            (4, 8, Order::Little, 0b0011_1010),
            (0, 4, Order::Big, 0b1010),
            (4, 8, Order::Big, 0b0101_1100),
            (0, 16, Order::Little, 0xC3A5),
            (0, 16, Order::Big, 0xA5C3),
            (7, 18, Order::Little, 0b01_1111_1111_1000_0111),
            (8, 24, Order::Little, 0x00FFC3),
        ] {
            let mut cursor = Cursor::new(&data, 0, 4);
            cursor.at = skip;
            assert_eq!(cursor.fixed(bits, order), Ok(expect), "{skip} {bits} {order:?}");
        }
        let mut cursor = Cursor::new(&data, 0, 4);
        cursor.at = 25;
        assert_eq!(cursor.fixed(8, Order::Little), Err(Stop::PastEnd));
    }

    #[test]
    fn integers_of_variable_length() {
        let check = |bytes: &[u8], signed, expect| {
            assert_eq!(Cursor::new(bytes, 0, bytes.len()).variable(signed), expect, "{bytes:?}");
        };
        check(&[0x00], false, Ok(0));
        check(&[0xE5, 0x8E, 0x26], false, Ok(624_485));
        check(&[0xC0, 0xBB, 0x78], true, Ok(-123_456i64 as u64));
        check(&[0x7F], true, Ok(-1i64 as u64));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], false, Ok(u64::MAX));
        check(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F], true, Ok(i64::MIN as u64));
        check(&[0x80, 0x80, 0x00], false, Ok(0));
        let long = Stop::Bad("an integer of variable length has more than 64 bits");
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], false, Err(long));
        check(&[0x80, 0x80], false, Err(Stop::PastEnd));
    }
}
