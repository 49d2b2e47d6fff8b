// SPDX-License-Identifier: MIT OR Apache-2.0
//! Following a plan over the bytes of a record.

use super::bits::{Cursor, Stop, nul_text};
use super::class::{ClassId, ClassKind, Len, within};
use super::frame::Mark;
use super::plan::{DecodePlan, Header, OpKind, Stamp};
use super::tape::Decoder;

impl Header {
    /// Chooses the layout of the record at the cursor, which is brought to its begin. `None` where only the tape can
    /// tell.
    #[inline]
    pub fn stamp(&self, data: &[u8], cursor: &mut Cursor<'_>) -> Result<Option<&Stamp>, Stop> {
        match self {
            Self::Fixed(stamp) => {
                cursor.align(stamp.align)?;
                Ok(Some(stamp))
            }
            Self::Tagged { align, tag, options } => {
                cursor.align(*align)?;
                cursor.check(u64::from(tag.delta_bits) + u64::from(tag.bits))?;
                let value = tag.read(data, cursor.bit());
                let value = if tag.signed { i128::from(value as i64) } else { i128::from(value) };
                let option = options.iter().find(|(ranges, _)| within(ranges, value));
                option.map(|(_, stamp)| Some(stamp)).ok_or(Stop::Bad("a variant has no option for its tag"))
            }
            Self::Any(_) => Ok(None),
        }
    }
}

impl Decoder<'_> {
    /// Passes over the fields of a plan; leaves their marks, and nested fields on the tape.
    #[inline]
    pub fn pass(&mut self, plan: &DecodePlan, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        self.frame.marks.clear();
        self.frame.marks.push(Mark { end: cursor.at, ..Mark::default() });
        for op in &plan.ops {
            cursor.skip(op.delta_bits)?;
            if let OpKind::Keep { slot, int } = op.kind {
                cursor.check(u64::from(int.bits))?;
                self.save(slot, int.read(self.frame.data, cursor.bit()), int.signed);
                cursor.at -= op.delta_bits;
                continue;
            }
            let mark = self.step(&op.kind, cursor)?;
            self.frame.marks.push(Mark { end: cursor.at, ..mark });
        }
        cursor.skip(plan.tail_bits)
    }

    fn step(&mut self, kind: &OpKind, cursor: &mut Cursor<'_>) -> Result<Mark, Stop> {
        let at = cursor.at;
        let metadata = self.frame.metadata;
        let class = |id: ClassId| &metadata.classes[id as usize].kind;
        let (at, len) = match *kind {
            OpKind::Counted { slot, stride_bits, element_bits } => {
                let count = self.len(Len::Saved(slot))?;
                if count > 0 {
                    let bits = stride_bits.checked_mul(count - 1).and_then(|bits| bits.checked_add(element_bits));
                    cursor.skip(bits.ok_or(Stop::PastEnd)?)?;
                }
                (at, count)
            }
            OpKind::NulText(id) => {
                let ClassKind::NulText(encoding) = class(id) else { return Ok(Mark::default()) };
                (at, nul_text(cursor, *encoding)?.1)
            }
            OpKind::Variable(id) => {
                let ClassKind::Int(int) = class(id) else { return Ok(Mark::default()) };
                let value = cursor.variable(int.signed)?;
                if let Some(slot) = int.save {
                    self.save(slot, value, int.signed);
                }
                (value, 0)
            }
            OpKind::Nested(id) => {
                let node = self.frame.nodes.len() as u64;
                self.decode(&metadata.classes, id, cursor)?;
                (node, 0)
            }
            OpKind::Align(bits) => {
                cursor.align(bits)?;
                (at, 0)
            }
            OpKind::Keep { .. } => (at, 0),
        };
        Ok(Mark { at, len, end: 0 })
    }
}
