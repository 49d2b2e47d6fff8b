// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel record as it goes into a trace [spec/trace.md 8.1], looked into: where its fields lie, and their values.
//! Every length is checked against the bytes that there are.

use kymo_ctf::write::{FieldClass, Number};
use kymo_filter::Value;

/// Bytes in front of a payload: id and time, thread, flags, preempt count.
pub(crate) const HEAD_BYTES: usize = 14;

/// The thread in the head of a record.
pub(crate) fn thread(record: &[u8]) -> u32 {
    record.get(8..12).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

/// Bytes of the record at the begin of `bytes`, head included. `None` where it does not fit in.
pub(crate) fn record_bytes(classes: &[FieldClass], bytes: &[u8]) -> Option<usize> {
    let mut at = HEAD_BYTES;
    for class in classes {
        at = field_end(class, bytes, at)?;
    }
    (at <= bytes.len()).then_some(at)
}

/// The bytes of field `index` of a record, a count in front included.
fn field<'a>(classes: &[FieldClass], record: &'a [u8], index: usize) -> Option<&'a [u8]> {
    let mut at = HEAD_BYTES;
    for class in classes.get(..index)? {
        at = field_end(class, record, at)?;
    }
    record.get(at..field_end(classes.get(index)?, record, at)?)
}

/// The value of field `index`; of an array with `element`, that one's.
pub(crate) fn value<'a>(classes: &[FieldClass], record: &'a [u8], index: usize, element: Option<u32>) -> Value<'a> {
    let found = field(classes, record, index).zip(classes.get(index));
    found.and_then(|(bytes, class)| value_of(class, bytes, element)).unwrap_or(Value::Absent)
}

fn value_of<'a>(class: &FieldClass, bytes: &'a [u8], element: Option<u32>) -> Option<Value<'a>> {
    let text = |bytes: &'a [u8]| {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Value::Text(String::from_utf8_lossy(text)))
    };
    let array = |number: &Number, bytes: &'a [u8]| {
        let size = number_bytes(*number);
        match element {
            None => Some(Value::Array(bytes.len() / size.max(1))),
            Some(element) => number_value(*number, bytes.get((element as usize).checked_mul(size)?..)?),
        }
    };
    match (class, element) {
        (FieldClass::Array { element: number, .. }, _) => array(number, bytes),
        (FieldClass::Seq { element: number }, _) => array(number, bytes.get(2..)?),
        (_, Some(_)) => None,
        (FieldClass::Number(number) | FieldClass::Enum { number, .. }, None) => number_value(*number, bytes),
        (FieldClass::Text, None) => text(bytes.get(2..)?),
        (FieldClass::Blob, None) => Some(Value::Bytes(bytes.get(2..)?)),
        (FieldClass::CString | FieldClass::Chars { .. }, None) => text(bytes),
    }
}

fn field_end(class: &FieldClass, bytes: &[u8], at: usize) -> Option<usize> {
    let counted = |size: usize| {
        let count = bytes.get(at..at.checked_add(2)?)?;
        let count = usize::from(u16::from_le_bytes([count[0], count[1]]));
        at.checked_add(2)?.checked_add(count.checked_mul(size)?)
    };
    let end = match class {
        FieldClass::Number(number) | FieldClass::Enum { number, .. } => at.checked_add(number_bytes(*number))?,
        FieldClass::Text | FieldClass::Blob => counted(1)?,
        FieldClass::Seq { element } => counted(number_bytes(*element))?,
        FieldClass::CString => at + bytes.get(at..)?.iter().position(|byte| *byte == 0)? + 1,
        FieldClass::Chars { count } => at.checked_add(*count as usize)?,
        FieldClass::Array { element, count } => at.checked_add(number_bytes(*element).checked_mul(*count as usize)?)?,
    };
    (end <= bytes.len()).then_some(end)
}

fn number_bytes(number: Number) -> usize {
    match number {
        Number::Int { bits, .. } | Number::Float { bits } => usize::from(bits) / 8,
        Number::Bool => 1,
    }
}

fn number_value(number: Number, bytes: &[u8]) -> Option<Value<'static>> {
    let size = number_bytes(number);
    let mut word = [0; 8];
    word.get_mut(..size)?.copy_from_slice(bytes.get(..size)?);
    let unsigned = u64::from_le_bytes(word);
    let unused = 64 - 8 * size.clamp(1, 8) as u32;
    Some(match number {
        Number::Int { signed: true, .. } => Value::Int(((unsigned << unused) as i64 >> unused).into()),
        Number::Int { .. } => Value::Int(unsigned.into()),
        Number::Float { bits: 32 } => Value::Float(f32::from_bits(unsigned as u32).into()),
        Number::Float { .. } => Value::Float(f64::from_bits(unsigned)),
        Number::Bool => Value::Bool(unsigned != 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> Vec<FieldClass> {
        vec![
            FieldClass::Chars { count: 4 },
            FieldClass::Number(Number::signed(32)),
            FieldClass::CString,
            FieldClass::Seq { element: Number::unsigned(16) },
            FieldClass::Array { element: Number::unsigned(8), count: 2 },
            FieldClass::Blob,
        ]
    }

    fn record() -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
        bytes.extend_from_slice(b"ab\0\0");
        bytes.extend_from_slice(&(-3i32).to_le_bytes());
        bytes.extend_from_slice(b"text\0");
        bytes.extend_from_slice(&[2, 0, 1, 1, 2, 2]);
        bytes.extend_from_slice(&[8, 9]);
        bytes.extend_from_slice(&[1, 0, 0xff]);
        bytes
    }

    #[test]
    fn every_kind_of_field_is_found() {
        let (classes, record) = (classes(), record());
        let check = |index, element, expect: Value<'_>| assert_eq!(value(&classes, &record, index, element), expect);
        check(0, None, Value::Text("ab".into()));
        check(1, None, Value::Int(-3));
        check(2, None, Value::Text("text".into()));
        check(3, None, Value::Array(2));
        check(3, Some(1), Value::Int(0x202));
        check(3, Some(2), Value::Absent);
        check(4, Some(1), Value::Int(9));
        check(5, None, Value::Bytes(&[0xff]));
        check(6, None, Value::Absent);
        check(1, Some(0), Value::Absent);
        assert_eq!(thread(&record), 77);
        let mut behind = record.clone();
        behind.extend_from_slice(&[1; 9]);
        assert_eq!(record_bytes(&classes, &behind), Some(record.len()));
    }

    #[test]
    fn a_record_that_is_cut_off_is_none() {
        let (classes, record) = (classes(), record());
        for length in 0..record.len() {
            assert_eq!(record_bytes(&classes, &record[..length]), None, "{length} bytes");
            (0..7).for_each(|index| drop(value(&classes, &record[..length], index, Some(1))));
        }
    }
}
