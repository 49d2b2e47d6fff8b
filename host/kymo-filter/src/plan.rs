// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a filter became for one event: conditions over places, without names, without a negation above a test. So a
//! field that a record does not have makes its test false either way, which is what "not known" comes to in the end
//! [spec/filter.md 4].

use std::borrow::Cow;
use std::cmp::Ordering;

use kymo_names::glob_matches;

use crate::ast::{Arith, Compare, Context};
use crate::error::Span;
use crate::schema::FieldPath;

/// The value of a field or context in one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// The record does not have it.
    Absent,
    /// An integer of either sign.
    Int(i128),
    /// A float.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(Cow<'a, str>),
    /// An integer with labels, and the label that it has.
    Label(i128, Option<&'a str>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array of so many elements.
    Array(usize),
    /// A structure.
    Struct,
}

/// One record, as a filter sees it.
pub trait Record {
    /// The value at a place of the record's event.
    fn field(&self, place: &FieldPath) -> Value<'_>;
    /// The value of a context; [`Context::Event`] is not asked for.
    fn context(&self, context: Context) -> Value<'_>;
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cond {
    Const(bool),
    All(Vec<Cond>),
    Any(Vec<Cond>),
    Test(Test),
}

/// One comparison. With `negate` it holds where it is known to be false.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Test {
    pub kind: TestKind,
    pub negate: bool,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TestKind {
    /// Of numbers; `op` is none of `!=`, `~`, `!~`.
    Number { left: Operand, op: Compare, right: Operand },
    /// Among sorted integers.
    Ints { operand: Operand, values: Vec<i128> },
    /// Between two integers, both included.
    Between { place: FieldPath, low: i128, high: i128 },
    /// Text, or a label.
    Text { source: OperandSource, wanted: TextMatch },
    /// Two values whose kind shows in the record.
    Pair { left: OperandSource, op: Compare, right: OperandSource },
    /// The record has it.
    Has(FieldPath),
    /// The bool is true.
    Truth(FieldPath),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TextMatch {
    Equal(String),
    Glob(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OperandSource {
    Place(FieldPath),
    Context(Context),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Const(Number),
    Source(OperandSource),
    Len(FieldPath),
    /// Position in the filter's list of pairs.
    Latency(usize),
    Neg(Box<Operand>),
    Arith(Arith, Box<Operand>, Box<Operand>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

impl Cond {
    /// `parts` joined, with what is constant taken out.
    pub fn join(parts: Vec<Cond>, all: bool) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Cond::Const(value) if value == all => {}
                Cond::Const(value) => return Cond::Const(value),
                part => kept.push(part),
            }
        }
        match (kept.len(), all) {
            (0, _) => Cond::Const(all),
            (1, _) => kept.remove(0),
            (_, true) => Cond::All(kept),
            (_, false) => Cond::Any(kept),
        }
    }

    /// The opposite, of what is known.
    pub fn negated(self) -> Self {
        match self {
            Cond::Const(value) => Cond::Const(!value),
            Cond::All(parts) => Cond::Any(parts.into_iter().map(Self::negated).collect()),
            Cond::Any(parts) => Cond::All(parts.into_iter().map(Self::negated).collect()),
            Cond::Test(test) => Cond::Test(Test { negate: !test.negate, ..test }),
        }
    }

    /// Whether any test reads the payload.
    pub fn reads_payload(&self) -> bool {
        match self {
            Cond::Const(_) => false,
            Cond::All(parts) | Cond::Any(parts) => parts.iter().any(Self::reads_payload),
            Cond::Test(test) => match &test.kind {
                TestKind::Number { left, right, .. } => left.reads_payload() || right.reads_payload(),
                TestKind::Ints { operand, .. } => operand.reads_payload(),
                TestKind::Text { source, .. } => matches!(source, OperandSource::Place(_)),
                TestKind::Pair { .. } | TestKind::Between { .. } | TestKind::Has(_) | TestKind::Truth(_) => true,
            },
        }
    }

    /// Whether it holds. `latencies`: by pair, nanoseconds where this record closes one.
    #[inline]
    pub fn holds<R: Record>(&self, record: &R, latencies: &[Option<i128>]) -> bool {
        match self {
            Cond::Const(value) => *value,
            Cond::All(parts) => parts.iter().all(|part| part.holds(record, latencies)),
            Cond::Any(parts) => parts.iter().any(|part| part.holds(record, latencies)),
            Cond::Test(test) => test.kind.outcome(record, latencies).is_some_and(|outcome| outcome != test.negate),
        }
    }
}

impl TestKind {
    /// `None`: not known.
    #[inline]
    fn outcome<R: Record>(&self, record: &R, latencies: &[Option<i128>]) -> Option<bool> {
        match self {
            // The usual comparison, without the detour over numbers of any kind.
            Self::Number { left: Operand::Source(OperandSource::Place(place)), op, right: Operand::Const(wanted) } => {
                Some(match (record.field(place), wanted) {
                    (Value::Int(value) | Value::Label(value, _), Number::Int(wanted)) => {
                        is_integer_so(value, *op, *wanted)
                    }
                    (Value::Float(value), Number::Float(wanted)) => is_so(value.partial_cmp(wanted), *op),
                    (value, wanted) => is_so(Number::of(&value)?.order(*wanted), *op),
                })
            }
            Self::Number { left, op, right } => {
                Some(is_so(left.value(record, latencies)?.order(right.value(record, latencies)?), *op))
            }
            Self::Ints { operand, values } => match operand.value(record, latencies)? {
                Number::Int(value) => Some(values.binary_search(&value).is_ok()),
                number => Some(values.iter().any(|&value| number.order(Number::Int(value)) == Some(Ordering::Equal))),
            },
            Self::Between { place, low, high } => match record.field(place) {
                Value::Int(value) | Value::Label(value, _) => Some(*low <= value && value <= *high),
                _ => None,
            },
            Self::Text { source, wanted } => match source.value(record) {
                Value::Text(text) => Some(wanted.fits(&text)),
                // A value without a label has none of the labels.
                Value::Label(_, label) => Some(label.is_some_and(|label| wanted.fits(label))),
                _ => None,
            },
            Self::Pair { left, op, right } => pair(left.value(record), *op, right.value(record)),
            Self::Has(place) => Some(record.field(place) != Value::Absent),
            Self::Truth(place) => match record.field(place) {
                Value::Bool(value) => Some(value),
                _ => None,
            },
        }
    }
}

fn pair(left: Value<'_>, op: Compare, right: Value<'_>) -> Option<bool> {
    if let (Some(left), Some(right)) = (Number::of(&left), Number::of(&right)) {
        return Some(is_so(left.order(right), op));
    }
    match (left, right) {
        (Value::Text(left), Value::Text(right)) if op == Compare::Eq => Some(left == right),
        (Value::Bool(left), Value::Bool(right)) if op == Compare::Eq => Some(left == right),
        _ => None,
    }
}

/// A comparison by the order of its sides; `None` of floats that are no numbers, which compare as C does.
fn is_so(order: Option<Ordering>, op: Compare) -> bool {
    match (order, op) {
        (None, _) => false,
        (Some(order), Compare::Lt) => order.is_lt(),
        (Some(order), Compare::Le) => order.is_le(),
        (Some(order), Compare::Gt) => order.is_gt(),
        (Some(order), Compare::Ge) => order.is_ge(),
        (Some(order), _) => order.is_eq(),
    }
}

fn is_integer_so(value: i128, op: Compare, wanted: i128) -> bool {
    match op {
        Compare::Lt => value < wanted,
        Compare::Le => value <= wanted,
        Compare::Gt => value > wanted,
        Compare::Ge => value >= wanted,
        _ => value == wanted,
    }
}

impl TextMatch {
    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Equal(wanted) => wanted == text,
            Self::Glob(glob) => glob_matches(glob, text),
        }
    }
}

impl OperandSource {
    #[inline]
    fn value<'r, R: Record>(&self, record: &'r R) -> Value<'r> {
        match self {
            Self::Place(place) => record.field(place),
            Self::Context(context) => record.context(*context),
        }
    }
}

impl Operand {
    fn reads_payload(&self) -> bool {
        match self {
            Self::Source(source) => matches!(source, OperandSource::Place(_)),
            Self::Len(_) => true,
            Self::Const(_) | Self::Latency(_) => false,
            Self::Neg(of) => of.reads_payload(),
            Self::Arith(_, left, right) => left.reads_payload() || right.reads_payload(),
        }
    }

    #[inline]
    fn value<R: Record>(&self, record: &R, latencies: &[Option<i128>]) -> Option<Number> {
        match self {
            Self::Const(number) => Some(*number),
            Self::Source(source) => Number::of(&source.value(record)),
            Self::Len(place) => match record.field(place) {
                Value::Text(text) => Some(Number::Int(text.len() as i128)),
                Value::Bytes(bytes) => Some(Number::Int(bytes.len() as i128)),
                Value::Array(count) => Some(Number::Int(count as i128)),
                _ => None,
            },
            Self::Latency(pair) => latencies.get(*pair).copied().flatten().map(Number::Int),
            Self::Neg(of) => of.value(record, latencies)?.negated(),
            Self::Arith(op, left, right) => {
                Number::arith(*op, left.value(record, latencies)?, right.value(record, latencies)?)
            }
        }
    }
}

impl Number {
    #[inline]
    fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Int(value) | Value::Label(value, _) => Some(Self::Int(*value)),
            Value::Float(value) => Some(Self::Float(*value)),
            _ => None,
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub fn negated(self) -> Option<Self> {
        Some(match self {
            Self::Int(value) => Self::Int(value.checked_neg()?),
            Self::Float(value) => Self::Float(-value),
        })
    }

    /// Exact, also between integers and floats.
    #[inline]
    pub fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(&right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right),
            (Self::Int(left), Self::Float(right)) => mixed(left, right),
            (Self::Float(left), Self::Int(right)) => mixed(right, left).map(Ordering::reverse),
        }
    }

    /// `None` where there is no result: division by zero, shifts beyond 127 bits, more than 128 bits.
    pub fn arith(op: Arith, left: Self, right: Self) -> Option<Self> {
        if let (Self::Int(left), Self::Int(right)) = (left, right) {
            return integers(op, left, right).map(Self::Int);
        }
        let (left, right) = (left.float(), right.float());
        Some(Self::Float(match op {
            Arith::Add => left + right,
            Arith::Sub => left - right,
            Arith::Mul => left * right,
            Arith::Div => left / right,
            Arith::Rem => left % right,
            _ => return None,
        }))
    }
}

fn integers(op: Arith, left: i128, right: i128) -> Option<i128> {
    let shift = || u32::try_from(right).ok().filter(|&by| by < 128);
    match op {
        Arith::Or => Some(left | right),
        Arith::Xor => Some(left ^ right),
        Arith::And => Some(left & right),
        Arith::Left => left.checked_mul(1i128.checked_shl(shift()?).filter(|&power| power > 0)?),
        Arith::Right => left.checked_shr(shift()?),
        Arith::Add => left.checked_add(right),
        Arith::Sub => left.checked_sub(right),
        Arith::Mul => left.checked_mul(right),
        Arith::Div => left.checked_div(right),
        Arith::Rem => left.checked_rem(right),
    }
}

fn mixed(left: i128, right: f64) -> Option<Ordering> {
    if right.is_nan() {
        return None;
    }
    // Beyond 2^127 the conversion saturates, and the order is still right for every integer of 64 bits and sums of
    // them.
    let whole = right.trunc();
    Some(left.cmp(&(whole as i128)).then_with(|| 0.0f64.partial_cmp(&(right - whole)).unwrap_or(Ordering::Equal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_compare_exactly() {
        let big = 1i128 << 53;
        for (left, right, expect) in [
            (1, 1.5, Some(Ordering::Less)),
            (2, 1.5, Some(Ordering::Greater)),
            (-1, -1.5, Some(Ordering::Greater)),
            (0, 0.0, Some(Ordering::Equal)),
            (big + 1, big as f64, Some(Ordering::Greater)),
            (i128::from(u64::MAX), f64::INFINITY, Some(Ordering::Less)),
            (i128::from(i64::MIN), f64::NEG_INFINITY, Some(Ordering::Greater)),
            (0, f64::NAN, None),
        ] {
            assert_eq!(Number::Int(left).order(Number::Float(right)), expect, "{left} {right}");
        }
    }

    #[test]
    fn arithmetic_without_a_result() {
        for (op, left, right, expect) in [
            (Arith::Div, 1, 0, None),
            (Arith::Rem, 1, 0, None),
            (Arith::Left, 1, 128, None),
            (Arith::Left, 1, -1, None),
            (Arith::Left, i128::MAX, 1, None),
            (Arith::Mul, i128::MAX, 2, None),
            (Arith::Rem, -7, 3, Some(-1)),
            (Arith::Right, -8, 1, Some(-4)),
            (Arith::Left, 3, 4, Some(48)),
        ] {
            assert_eq!(integers(op, left, right), expect);
        }
    }
}
