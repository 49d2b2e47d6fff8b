//! Passing over records of which nothing is wanted but what they are: no marks, no tape, nothing kept.
//!
//! Only the plain case is done here. Whatever is not plain (a head that needs the tape, a field that is nested, a record that does not
//! fit, a time that is odd) is left to [`Stream::advance`], which comes to the same record and knows what to say of it.

use super::class::{Encoding, EventTable, Kind, Metadata, Ranges};
use super::plan::{Header, OpKind, Piece, Plan, Stamp};
use super::stream::{Stream, extended};

/// What is behind the last step of a record's plan, or all of it.
#[derive(Debug)]
pub(crate) enum Skip {
    /// So many bits: nothing has to be looked at.
    Constant(u64),
    /// One step, and so many bits.
    One(Step, u64),
    /// Several.
    Steps(Box<[Step]>, u64),
    /// The plan itself has to be followed.
    Planned,
}

/// A field that is not constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Bits behind the step before.
    delta_bits: u64,
    kind: StepKind,
}

#[derive(Clone, Copy, Debug)]
enum StepKind {
    /// Elements of one size. The count lies behind the step before.
    Counted {
        count: Piece,
        stride_bits: u64,
        element_bits: u64,
    },
    /// Up to a byte of 0.
    Text,
    Align(u64),
}

impl Skip {
    pub fn new(metadata: &Metadata, plan: &Plan) -> Self {
        let Some(steps) = steps(metadata, plan) else { return Self::Planned };
        match steps[..] {
            [] => Self::Constant(plan.tail_bits),
            [step] => Self::One(step, plan.tail_bits),
            _ => Self::Steps(steps.into(), plan.tail_bits),
        }
    }

    /// The bit of the packet behind the record whose fields begin at bit `at` of it; the packet begins at bit `origin` of `data`.
    /// `None` where that cannot be told here. It may lie behind the packet's end.
    #[inline]
    fn pass(&self, data: &[u8], origin: u64, at: u64) -> Option<u64> {
        match self {
            Self::Constant(bits) => at.checked_add(*bits),
            Self::One(step, tail) => step.pass(data, origin, at)?.checked_add(*tail),
            Self::Steps(steps, tail) => {
                steps.iter().try_fold(at, |at, step| step.pass(data, origin, at))?.checked_add(*tail)
            }
            Self::Planned => None,
        }
    }
}

/// The steps of a plan. `None` where a length is not found behind the step before, or something is nested.
fn steps(metadata: &Metadata, plan: &Plan) -> Option<Vec<Step>> {
    let (mut steps, mut kept) = (Vec::new(), Vec::new());
    for op in &plan.ops {
        let kind = match op.kind {
            OpKind::Keep { slot, int } => {
                let delta_bits = u32::try_from(op.delta_bits).ok()?.checked_add(int.delta_bits)?;
                kept.push((slot, Piece { delta_bits, ..int }));
                continue;
            }
            OpKind::Counted { slot, stride_bits, element_bits } => {
                let &(_, count) = kept.iter().rev().find(|(known, _)| *known == slot)?;
                StepKind::Counted { count, stride_bits, element_bits }
            }
            OpKind::NulText(id) => match metadata.classes[id as usize].kind {
                Kind::NulText(Encoding::Utf8) => StepKind::Text,
                _ => return None,
            },
            OpKind::Align(bits) => StepKind::Align(u64::from(bits)),
            OpKind::Variable(_) | OpKind::Nested(_) => return None,
        };
        kept.clear();
        steps.push(Step { delta_bits: op.delta_bits, kind });
    }
    Some(steps)
}

impl Step {
    #[inline]
    fn pass(&self, data: &[u8], origin: u64, at: u64) -> Option<u64> {
        let begin = at.checked_add(self.delta_bits)?;
        match self.kind {
            StepKind::Counted { count, stride_bits, element_bits } => {
                let elements = count.read(data, origin + at);
                match elements {
                    0 => Some(begin),
                    // Also the negative ones.
                    1.. if elements > u64::from(u32::MAX) => None,
                    _ => begin.checked_add(stride_bits.checked_mul(elements - 1)?.checked_add(element_bits)?),
                }
            }
            StepKind::Text => {
                let from = ((origin + begin) / 8) as usize;
                Some(begin + 8 * (text_bytes(data.get(from..)?)? as u64 + 1))
            }
            StepKind::Align(bits) => begin.checked_next_multiple_of(bits),
        }
    }
}

/// Bytes in front of the first byte of 0. Most texts are short.
#[inline]
pub(super) fn text_bytes(data: &[u8]) -> Option<usize> {
    const SHORT_WORDS: usize = 4;
    for (index, word) in data.chunks_exact(8).take(SHORT_WORDS).enumerate() {
        let word = u64::from_le_bytes(word.try_into().ok()?);
        // The lowest byte that is 0 has the lowest high bit: borrows only go upwards.
        let zeros = word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
        if zeros != 0 {
            return Some(8 * index + zeros.trailing_zeros() as usize / 8);
        }
    }
    std::ffi::CStr::from_bytes_until_nul(data).ok().map(std::ffi::CStr::count_bytes)
}

/// A head, as far as it is plain.
struct Head<'t> {
    header: &'t Header,
    events: &'t EventTable,
}

impl Head<'_> {
    /// Layout and first bit of the head at `at`.
    #[inline]
    fn stamp(&self, data: &[u8], origin: u64, at: u64) -> Option<(&Stamp, u64)> {
        match self.header {
            Header::Fixed(stamp) => Some((stamp, aligned(at, stamp.align))),
            Header::Tagged { align, tag, options } => {
                let at = aligned(at, *align);
                let value = tag.read(data, origin + at);
                // A negative tag is none of these.
                let has = |ranges: &Ranges| ranges.iter().any(|&(low, high)| is_between(value, low, high));
                let option = options.iter().find(|(ranges, _)| !tag.signed && has(ranges));
                option.map(|(_, stamp)| (stamp, at))
            }
            Header::Any(_) => None,
        }
    }
}

#[inline]
fn is_between(value: u64, low: i128, high: i128) -> bool {
    low <= i128::from(value) && i128::from(value) <= high
}

#[inline]
fn aligned(at: u64, align: u32) -> u64 {
    let mask = u64::from(align) - 1;
    (at + mask) & !mask
}

impl Stream<'_> {
    /// Counts plain records of the open packet, up to one that is not, or to the packet's end. By position of their event.
    pub fn count_plain(&mut self, counts: &mut [u64]) {
        let Some(packet) = &self.packet else { return };
        let (origin, end) = (self.cursor.bit() - self.cursor.at, self.cursor.end());
        // Nothing is searched for beyond the packet.
        let data = &self.data[..self.data.len().min((origin + end).div_ceil(8) as usize)];
        let plans = &self.layout.plans;
        let head = Head { header: &plans.headers[self.class], events: &self.metadata.streams[self.class].events };
        let (mut at, mut time, time_max) = (self.cursor.at, self.time, packet.end.unwrap_or(u64::MAX));
        while at < end {
            let Some((stamp, begin)) = head.stamp(data, origin, at) else { break };
            let id = stamp.id.map_or(0, |id| id.read(data, origin + begin));
            let Some(event) = head.events.get(id).map(|event| event as usize) else { break };
            let fields = begin + u64::from(stamp.bits);
            let Some(behind) = plans.skips[event].pass(data, origin, fields) else { break };
            if behind > end || behind == at {
                break;
            }
            if let Some(piece) = stamp.time {
                let now = extended(time, piece.read(data, origin + begin), piece.bits);
                if now < time || now > time_max {
                    break;
                }
                time = now;
            }
            counts[event] += 1;
            at = behind;
        }
        (self.cursor.at, self.time) = (at, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_at_their_first_zero() {
        for len in 0..70usize {
            for spare in 0..20usize {
                let mut data = vec![0x80; len];
                data.push(0);
                data.extend((0..spare).map(|i| (i % 2) as u8));
                assert_eq!(text_bytes(&data), Some(len), "{len} {spare}");
                assert_eq!(text_bytes(&data[..len]), None);
            }
        }
    }

    #[test]
    fn tags_have_bounds() {
        assert!(is_between(u64::MAX, 0, i128::from(u64::MAX)));
        assert!(!is_between(5, -3, 4));
    }
}
