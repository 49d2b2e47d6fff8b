// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions put together: constants decided, labels as ranges, many comparisons as one search.

use crate::ast::{Compare, Context};
use crate::error::Span;
use crate::plan::{Cond, Number, Operand, OperandSource, Test, TestKind};
use crate::schema::{FieldPath, Label};

pub(super) fn test(kind: TestKind, negate: bool, span: Span) -> Cond {
    Cond::Test(Test { kind, negate, span })
}

pub(super) fn pair(left: OperandSource, right: OperandSource, span: Span) -> Cond {
    test(TestKind::Pair { left, op: Compare::Eq, right }, false, span)
}

/// A test of constants, decided.
pub(super) fn fold(cond: Cond) -> Cond {
    struct Nothing;
    impl crate::plan::Record for Nothing {
        fn field(&self, _: &FieldPath) -> crate::plan::Value<'_> {
            crate::plan::Value::Absent
        }

        fn context(&self, _: Context) -> crate::plan::Value<'_> {
            crate::plan::Value::Absent
        }
    }
    Cond::Const(cond.holds(&Nothing, &[]))
}

pub(super) fn among_labels(place: &FieldPath, labels: &[&Label], span: Span) -> Cond {
    let one = |label: &&Label| {
        let place = place.clone();
        let kind = match label.low == label.high {
            true => TestKind::Number {
                left: Operand::Source(OperandSource::Place(place)),
                op: Compare::Eq,
                right: Operand::Const(Number::Int(label.low)),
            },
            false => TestKind::Between { place, low: label.low, high: label.high },
        };
        test(kind, false, span)
    };
    // No label at all: the field is there, and is none of them.
    Cond::join(labels.iter().map(one).collect(), false)
}

/// Many comparisons of one operand with integers become one search.
pub(super) fn gather(cond: Cond, negate: bool, span: Span) -> Cond {
    const WORTH: usize = 4;
    let parts = match &cond {
        Cond::Any(parts) if !negate => parts,
        Cond::All(parts) if negate => parts,
        _ => return cond,
    };
    let (mut values, mut same) = (Vec::with_capacity(parts.len()), None);
    for part in parts {
        let Cond::Test(Test { kind: TestKind::Number { left, op: Compare::Eq, right }, negate: inner, .. }) = part
        else {
            return cond;
        };
        let Operand::Const(Number::Int(value)) = right else { return cond };
        if *inner != negate || same.is_some_and(|same| same != left) {
            return cond;
        }
        same = Some(left);
        values.push(*value);
    }
    match same {
        Some(operand) if values.len() >= WORTH => {
            let operand = operand.clone();
            values.sort_unstable();
            values.dedup();
            test(TestKind::Ints { operand, values }, negate, span)
        }
        _ => cond,
    }
}
