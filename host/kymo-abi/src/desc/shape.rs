// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the fields of a packed payload lie [spec/event.md 2, 3.4]: for who must look into a record without a reader.

use super::{EventDesc, FieldType, Form, Scalar};

/// Most fields that an event has.
const FIELDS_MAX: usize = 32;

/// A field of one payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Raw<'a> {
    /// An integer of either sign.
    Int(i128),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Text, as it was written: it may not be UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array or sequence: its elements' type and bytes.
    Array(Scalar, &'a [u8]),
}

/// How an event's payload is laid out.
#[derive(Clone, Debug)]
pub struct Shape {
    fields: Vec<FieldType>,
}

/// The fields of one payload.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    /// Of each field: the begin of its bytes (behind a count) and their number.
    places: [(u32, u32); FIELDS_MAX],
    shape: &'a Shape,
    payload: &'a [u8],
    /// Bytes of the whole payload.
    pub bytes: usize,
}

impl Shape {
    /// The shape of an event's payload. An event with more fields than a description may have has no shape.
    pub fn new(event: &EventDesc) -> Option<Shape> {
        let fields: Vec<FieldType> = event.fields.iter().map(|field| field.ty.clone()).collect();
        (fields.len() <= FIELDS_MAX).then_some(Shape { fields })
    }

    /// Finds the fields of the payload at the begin of `bytes`. `None` where it does not fit in.
    pub fn fields<'a>(&'a self, bytes: &'a [u8]) -> Option<Fields<'a>> {
        let mut places = [(0, 0); FIELDS_MAX];
        let mut at = 0usize;
        for (place, ty) in places.iter_mut().zip(&self.fields) {
            let element = match ty {
                FieldType::Scalar(scalar) | FieldType::Enum { scalar, .. } => (1, scalar.bytes()),
                FieldType::Array { element, count } => (*count, element.bytes()),
                FieldType::Str | FieldType::Bytes => (count(bytes, &mut at)?, 1),
                FieldType::Seq { element } => (count(bytes, &mut at)?, element.bytes()),
            };
            let size = element.0.checked_mul(element.1)?;
            *place = (u32::try_from(at).ok()?, size);
            at = at.checked_add(size as usize).filter(|at| *at <= bytes.len())?;
        }
        Some(Fields { places, shape: self, payload: &bytes[..at], bytes: at })
    }
}

/// The count in front of a text or sequence.
fn count(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let count = bytes.get(*at..*at + 2)?;
    *at += 2;
    Some(u16::from_le_bytes([count[0], count[1]]).into())
}

impl<'a> Fields<'a> {
    /// How many there are.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks that of a record")]
    pub fn len(&self) -> usize {
        self.shape.fields.len()
    }

    /// The value of field `index`, in the order of the declaration.
    pub fn get(&self, index: usize) -> Option<Raw<'a>> {
        let ty = self.shape.fields.get(index)?;
        let (at, size) = self.places[index];
        let bytes = &self.payload[at as usize..(at + size) as usize];
        Some(match ty {
            FieldType::Scalar(scalar) | FieldType::Enum { scalar, .. } => number(*scalar, bytes)?,
            FieldType::Str => Raw::Text(bytes),
            FieldType::Bytes => Raw::Bytes(bytes),
            FieldType::Array { element, .. } | FieldType::Seq { element } => Raw::Array(*element, bytes),
        })
    }
}

/// One number at the begin of `bytes`.
pub fn number(scalar: Scalar, bytes: &[u8]) -> Option<Raw<'static>> {
    let size = scalar.bytes() as usize;
    let mut word = [0; 8];
    word[..size].copy_from_slice(bytes.get(..size)?);
    let unsigned = u64::from_le_bytes(word);
    let unused = 64 - 8 * size as u32;
    Some(match (scalar.form(), size) {
        (Form::Float, 4) => Raw::Float(f32::from_bits(unsigned as u32).into()),
        (Form::Float, _) => Raw::Float(f64::from_bits(unsigned)),
        (Form::Bool, _) => Raw::Bool(unsigned != 0),
        (Form::Int { signed: true, .. }, _) => Raw::Int(((unsigned << unused) as i64 >> unused).into()),
        (Form::Int { signed: false, .. }, _) => Raw::Int(unsigned.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::Field;
    use proptest::prelude::*;

    fn event(types: &[FieldType]) -> EventDesc {
        let field = |(i, ty): (usize, &FieldType)| Field { name: format!("f{i}"), ty: ty.clone() };
        let fields = types.iter().enumerate().map(field).collect();
        EventDesc { provider: "p".into(), name: "e".into(), file: String::new(), line: 0, fields }
    }

    #[test]
    fn fields_behind_texts_are_found() {
        let types = [
            FieldType::Scalar(Scalar::I16),
            FieldType::Str,
            FieldType::Seq { element: Scalar::U32 },
            FieldType::Array { element: Scalar::U8, count: 2 },
            FieldType::Scalar(Scalar::F64),
            FieldType::Scalar(Scalar::Bool),
        ];
        let shape = Shape::new(&event(&types)).unwrap();
        let payload =
            [&[0xFE, 0xFF, 3, 0][..], b"abc", &[2, 0, 1, 0, 0, 0, 2, 0, 0, 0, 8, 9], &1.5f64.to_le_bytes(), &[1, 77]]
                .concat();
        let fields = shape.fields(&payload).unwrap();
        assert_eq!(fields.bytes, payload.len() - 1);
        assert_eq!(fields.get(0), Some(Raw::Int(-2)));
        assert_eq!(fields.get(1), Some(Raw::Text(b"abc")));
        assert_eq!(fields.get(2), Some(Raw::Array(Scalar::U32, &[1, 0, 0, 0, 2, 0, 0, 0])));
        assert_eq!(fields.get(3), Some(Raw::Array(Scalar::U8, &[8, 9])));
        assert_eq!(fields.get(4), Some(Raw::Float(1.5)));
        assert_eq!(fields.get(5), Some(Raw::Bool(true)));
        assert_eq!(fields.get(6), None);
        for cut in 0..payload.len() - 1 {
            assert!(shape.fields(&payload[..cut]).is_none(), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>, lengths in proptest::collection::vec(0u8..6, 0..32)) {
            let ty = |kind: u8| match kind {
                0 => FieldType::Str,
                1 => FieldType::Seq { element: Scalar::U64 },
                2 => FieldType::Array { element: Scalar::F32, count: 3 },
                3 => FieldType::Bytes,
                4 => FieldType::Scalar(Scalar::I8),
                _ => FieldType::Scalar(Scalar::X64),
            };
            let types: Vec<FieldType> = lengths.into_iter().map(ty).collect();
            let shape = Shape::new(&event(&types)).unwrap();
            if let Some(fields) = shape.fields(&bytes) {
                prop_assert!(fields.bytes <= bytes.len());
                for index in 0..types.len() {
                    prop_assert!(fields.get(index).is_some());
                }
            }
        }
    }
}
