// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans for passing over the fields of records of which nothing is wanted but what they are: no marks, no tape,
//! nothing kept. What is nested has none.

use super::bits::text_bytes;
use super::class::{ClassKind, Encoding, Metadata};
use super::plan::{DecodePlan, OpKind, Piece};

/// What is behind the last step of a record's plan, or all of it.
#[derive(Clone, Debug)]
pub(crate) enum Skip {
    /// So many bits: nothing has to be looked at.
    Constant(u64),
    /// One step, and so many bits.
    One(SkipStep, u64),
    /// Several.
    Steps(Box<[SkipStep]>, u64),
    /// The plan itself has to be followed.
    Planned,
}

/// A field that is not constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkipStep {
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
    pub fn new(metadata: &Metadata, plan: &DecodePlan) -> Self {
        let Some(steps) = steps(metadata, plan) else { return Self::Planned };
        match steps[..] {
            [] => Self::Constant(plan.tail_bits),
            [step] => Self::One(step, plan.tail_bits),
            _ => Self::Steps(steps.into(), plan.tail_bits),
        }
    }

    /// The bit of the packet behind the record whose fields begin at bit `at` of it; the packet begins at bit `origin`
    /// of `data`. `None` where that cannot be told here. It may lie behind the packet's end.
    #[inline]
    pub fn pass(&self, data: &[u8], origin: u64, at: u64) -> Option<u64> {
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
fn steps(metadata: &Metadata, plan: &DecodePlan) -> Option<Vec<SkipStep>> {
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
                ClassKind::NulText(Encoding::Utf8) => StepKind::Text,
                _ => return None,
            },
            OpKind::Align(bits) => StepKind::Align(u64::from(bits)),
            OpKind::Variable(_) | OpKind::Nested(_) => return None,
        };
        kept.clear();
        steps.push(SkipStep { delta_bits: op.delta_bits, kind });
    }
    Some(steps)
}

impl SkipStep {
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
