// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields found beforehand, for who reads the same fields of many records: no name, no class and no label is looked at
//! again.

use super::class::{ClassId, ClassKind, Encoding, Int, Len, Order, View, WriterFact};
use super::frame::Frame;
use super::item::Record;
use super::plan::{FieldPlace, Piece, PlanPart, WriterFactPlace};
use super::trace::Trace;
use super::value::{Number, Value, small_number};

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
    /// Text in UTF-8 or ASCII, as it was written: where it has a byte of 0 it ends there, and it may be no UTF-8 after
    /// all.
    Text(&'a [u8]),
}

/// An integer of whole bytes, little endian, at the same distance from the first field in all records.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    offset: u32,
    /// Bits that are missing to 64.
    spare: u8,
    signed: bool,
}

impl Direct {
    /// The value; `fields`: [`super::Glance::fields`].
    #[inline]
    pub fn read(self, fields: &[u8]) -> Option<Number> {
        let word = u64::from_le_bytes(*fields.get(self.offset as usize..)?.first_chunk()?) << self.spare;
        Some(match self.signed {
            true => Number::Signed(word as i64 >> self.spare),
            false => Number::Unsigned(word >> self.spare),
        })
    }

    /// The value as the number of a process or a thread, which [`Record::vtid`] has.
    #[inline]
    pub fn read_id(self, fields: &[u8]) -> Option<u32> {
        small_number(self.read(fields)?)
    }
}

/// Where it is said which thread wrote the records of an event.
#[derive(Clone, Copy, Debug)]
pub enum TidPlace {
    /// In the packet, if at all.
    Packet,
    /// In each record.
    Record(Lens),
    /// In several places of each record.
    Several,
}

/// The same of a floating-point number of 32 or 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct DirectFloat {
    offset: u32,
    is_wide: bool,
}

impl DirectFloat {
    /// The value; `fields` as of [`Direct::read`].
    #[inline]
    pub fn read(self, fields: &[u8]) -> Option<f64> {
        let bytes = fields.get(self.offset as usize..)?;
        Some(match self.is_wide {
            true => f64::from_le_bytes(*bytes.first_chunk()?),
            false => f32::from_le_bytes(*bytes.first_chunk()?).into(),
        })
    }

    /// Whether it has 64 bits.
    pub fn is_wide(self) -> bool {
        self.is_wide
    }
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
    /// Whether records of an event say their CPU themselves; else that of the packet holds.
    pub fn has_own_cpu(&self, event: usize) -> bool {
        let plan = self.layout.plans.events.get(event);
        plan.is_some_and(|plan| plan.known.iter().any(|place| place.known == WriterFact::Cpu))
    }

    /// Whether records of an event say their process or its name themselves; else those of the packet hold.
    pub fn has_own_process(&self, event: usize) -> bool {
        let is_own = |place: &WriterFactPlace| matches!(place.known, WriterFact::Pid | WriterFact::Program);
        self.layout.plans.events.get(event).is_some_and(|plan| plan.known.iter().any(is_own))
    }

    /// Where the thread of an event's records is.
    pub fn tid_place(&self, event: usize) -> TidPlace {
        const PARTS: [RecordPart; 3] = [RecordPart::CommonContext, RecordPart::Context, RecordPart::Payload];
        let Some(plan) = self.layout.plans.events.get(event) else { return TidPlace::Packet };
        let mut places = plan.known.iter().filter(|place| place.known == WriterFact::Tid);
        match (places.next(), places.next()) {
            (None, _) => TidPlace::Packet,
            (Some(place), None) => TidPlace::Record(self.lens(event, PARTS[place.part], place.position)),
            _ => TidPlace::Several,
        }
    }

    /// Where the field at `position` of a part of an event's records lies; the event by its position. For other events
    /// the lens shows nothing of sense.
    pub fn lens(&self, event: usize, part: RecordPart, position: usize) -> Lens {
        let planned = self.layout.plans.events.get(event).map(|plan| &plan.parts[part as usize]);
        let sight = planned.and_then(|planned| self.sight(planned, position)).unwrap_or(Sight::Far);
        Lens { part, position, sight }
    }

    fn sight(&self, part: &PlanPart, position: usize) -> Option<Sight> {
        let member = self.metadata.members(part.class?).get(position)?;
        let kind = &self.metadata.classes[member.class as usize].kind;
        match *part.places.get(position)? {
            FieldPlace::Packed { mark, delta_bits } => {
                if let ClassKind::Text { len: Len::Fixed(bytes), encoding: Encoding::Utf8 } = *kind {
                    return Some(Sight::Padded { mark, delta_bits, bytes: bytes.try_into().ok()? });
                }
                let (piece, float) = self.number(member.class)?;
                Some(Sight::Number { mark, piece: Piece { delta_bits, ..piece }, float })
            }
            FieldPlace::Marked(mark) => match *kind {
                ClassKind::NulText(Encoding::Utf8)
                | ClassKind::Text { len: Len::Saved(_), encoding: Encoding::Utf8 } => Some(Sight::Text { mark }),
                _ => None,
            },
        }
    }

    /// The bits of a number that is shown as such, and whether it is a float.
    fn number(&self, class: ClassId) -> Option<(Piece, bool)> {
        match &self.metadata.classes[class as usize].kind {
            ClassKind::Int(Int { bits: bits @ 1.., signed, order, view: View::Number, labels: None, .. }) => {
                Some((Piece { delta_bits: 0, bits: *bits, signed: *signed, order: *order }, false))
            }
            ClassKind::Float { bits: bits @ (32 | 64), order } => {
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
        self.plain_of(record.payload.frame()?)
    }

    /// The integer, where it is a plain one.
    #[inline]
    pub fn integer(&self, record: &Record<'_>) -> Option<i128> {
        self.integer_of(record.payload.frame()?)
    }

    /// The bytes of the text, where it is a plain one: with what is behind a byte of 0 in its field.
    #[inline]
    pub fn text<'a>(&self, record: &Record<'a>) -> Option<&'a [u8]> {
        self.text_of(record.payload.frame()?)
    }

    #[inline]
    pub(super) fn integer_of(&self, frame: &Frame<'_>) -> Option<i128> {
        let Sight::Number { mark, piece, float: false } = self.sight else { return None };
        let at = frame.origin + frame.marks.get(mark as usize)?.end + u64::from(piece.delta_bits);
        let window = frame.data.get((at / 8) as usize..).and_then(|rest| rest.first_chunk::<8>());
        let bits = match window {
            // Whole bytes, as nearly always.
            Some(window) if at % 8 == 0 && piece.order == Order::Little => {
                let spare = 64 - u32::from(piece.bits);
                let word = u64::from_le_bytes(*window) << spare;
                if piece.signed { (word as i64 >> spare) as u64 } else { word >> spare }
            }
            _ => piece.read(frame.data, at - u64::from(piece.delta_bits)),
        };
        Some(if piece.signed { i128::from(bits as i64) } else { i128::from(bits) })
    }

    #[inline]
    pub(super) fn text_of<'a>(&self, frame: &'a Frame<'a>) -> Option<&'a [u8]> {
        let (from, bytes) = match self.sight {
            Sight::Text { mark } => {
                let mark = frame.marks.get(mark as usize)?;
                (frame.origin + mark.at, mark.len as usize)
            }
            Sight::Padded { mark, delta_bits, bytes } => {
                (frame.origin + frame.marks.get(mark as usize)?.end + u64::from(delta_bits), bytes as usize)
            }
            Sight::Number { .. } | Sight::Far => return None,
        };
        let from = (from / 8) as usize;
        frame.data.get(from..from.checked_add(bytes)?)
    }

    #[inline]
    pub(super) fn plain_of<'a>(&self, frame: &'a Frame<'a>) -> Option<Plain<'a>> {
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
            Sight::Text { .. } => self.text_of(frame).map(Plain::Text),
            Sight::Padded { .. } => {
                let text = self.text_of(frame)?;
                Some(Plain::Text(text.split(|&byte| byte == 0).next().unwrap_or_default()))
            }
            Sight::Far => None,
        }
    }

    /// Where the field always lies, if it is such a one.
    pub fn direct(&self) -> Option<Direct> {
        match self.sight {
            Sight::Number { mark: 0, piece, float: false }
                if piece.order == Order::Little && piece.bits % 8 == 0 && piece.delta_bits % 8 == 0 =>
            {
                Some(Direct { offset: piece.delta_bits / 8, spare: 64 - piece.bits, signed: piece.signed })
            }
            _ => None,
        }
    }

    /// The same of a floating-point number.
    pub fn direct_float(&self) -> Option<DirectFloat> {
        match self.sight {
            Sight::Number { mark: 0, piece, float: true }
                if piece.order == Order::Little && piece.delta_bits % 8 == 0 =>
            {
                Some(DirectFloat { offset: piece.delta_bits / 8, is_wide: piece.bits == 64 })
            }
            _ => None,
        }
    }

    /// The part, and the position in it.
    pub(super) fn place(&self) -> (RecordPart, usize) {
        (self.part, self.position)
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
