//! Fields found beforehand, for who reads the same fields of many records: no name, no class and no label is looked at again.

use super::Trace;
use super::class::{ClassId, Encoding, Int, Kind, Len, View};
use super::item::Record;
use super::plan::{Part, Piece, Place};
use super::value::Value;

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPart {
    /// [`Record::common_context`].
    CommonContext,
    /// [`Record::context`].
    Context,
    /// [`Record::payload`].
    Payload,
}

/// Where a field of one event lies. Made by [`Trace::lens`].
#[derive(Clone, Copy, Debug)]
pub struct Lens {
    part: RecordPart,
    position: usize,
    sight: Sight,
}

/// A value that costs nothing to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plain<'a> {
    /// An integer without a sign.
    Unsigned(u64),
    /// An integer with a sign.
    Signed(i64),
    /// A float of 32 bits.
    F32(f32),
    /// A float of 64 bits.
    F64(f64),
    /// Text in UTF-8 or ASCII, as it was written: where it has a byte of 0 it ends there, and it may be no UTF-8 after all.
    Text(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
enum Sight {
    /// A constant number, behind the end of a mark.
    Number { mark: u32, piece: Piece, float: bool },
    /// Text that a mark tells of.
    Text { mark: u32 },
    /// Text in a field of so many bytes, behind the end of a mark.
    Padded { mark: u32, delta_bits: u32, bytes: u32 },
    /// Anything else.
    Far,
}

impl Trace {
    /// Where the field at `position` of a part of an event's records lies; the event by its position. For other events the lens shows
    /// nothing of sense.
    pub fn lens(&self, event: usize, part: RecordPart, position: usize) -> Lens {
        let planned = self.layout.plans.events.get(event).map(|plan| &plan.parts[part as usize]);
        let sight = planned.and_then(|planned| self.sight(planned, position)).unwrap_or(Sight::Far);
        Lens { part, position, sight }
    }

    fn sight(&self, part: &Part, position: usize) -> Option<Sight> {
        let member = self.metadata.members(part.class?).get(position)?;
        let kind = &self.metadata.classes[member.class as usize].kind;
        match *part.places.get(position)? {
            Place::Packed { mark, delta_bits } => {
                if let Kind::Text { len: Len::Fixed(bytes), encoding: Encoding::Utf8 } = *kind {
                    return Some(Sight::Padded { mark, delta_bits, bytes: bytes.try_into().ok()? });
                }
                let (piece, float) = self.number(member.class)?;
                Some(Sight::Number { mark, piece: Piece { delta_bits, ..piece }, float })
            }
            Place::Marked(mark) => match *kind {
                Kind::NulText(Encoding::Utf8) | Kind::Text { len: Len::Saved(_), encoding: Encoding::Utf8 } => {
                    Some(Sight::Text { mark })
                }
                _ => None,
            },
        }
    }

    /// The bits of a number that is shown as such, and whether it is a float.
    fn number(&self, class: ClassId) -> Option<(Piece, bool)> {
        match &self.metadata.classes[class as usize].kind {
            Kind::Int(Int { bits: bits @ 1.., signed, order, view: View::Number, labels: None, .. }) => {
                Some((Piece { delta_bits: 0, bits: *bits, signed: *signed, order: *order }, false))
            }
            Kind::Float { bits: bits @ (32 | 64), order } => {
                Some((Piece { delta_bits: 0, bits: *bits, signed: false, order: *order }, true))
            }
            _ => None,
        }
    }
}

impl Lens {
    /// The value, where it is a plain one: numbers, and text of any length.
    #[inline]
    pub fn plain<'a>(&self, record: &Record<'a>) -> Option<Plain<'a>> {
        let frame = record.payload.frame()?;
        match self.sight {
            Sight::Number { mark, piece, float } => {
                let bits = piece.read(frame.data, frame.origin + frame.marks.get(mark as usize)?.end);
                Some(match (float, piece.signed, piece.bits) {
                    (false, false, _) => Plain::Unsigned(bits),
                    (false, true, _) => Plain::Signed(bits as i64),
                    (true, _, 32) => Plain::F32(f32::from_bits(bits as u32)),
                    (true, ..) => Plain::F64(f64::from_bits(bits)),
                })
            }
            Sight::Text { mark } => {
                let mark = frame.marks.get(mark as usize)?;
                let from = ((frame.origin + mark.at) / 8) as usize;
                frame.data.get(from..from.checked_add(mark.len as usize)?).map(Plain::Text)
            }
            Sight::Padded { mark, delta_bits, bytes } => {
                let at = frame.origin + frame.marks.get(mark as usize)?.end + u64::from(delta_bits);
                let from = (at / 8) as usize;
                let text = frame.data.get(from..from.checked_add(bytes as usize)?)?;
                Some(Plain::Text(text.split(|&byte| byte == 0).next().unwrap_or_default()))
            }
            Sight::Far => None,
        }
    }

    /// The value, whatever it is.
    #[inline]
    pub fn value<'a>(&self, record: &Record<'a>) -> Option<Value<'a>> {
        let fields = match self.part {
            RecordPart::CommonContext => &record.common_context,
            RecordPart::Context => &record.context,
            RecordPart::Payload => &record.payload,
        };
        fields.at(self.position)
    }
}
