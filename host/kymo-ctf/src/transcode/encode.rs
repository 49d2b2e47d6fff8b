// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as the bytes that their layout says.

use std::borrow::Cow;

use super::layout::{Count, Member, Shape};
use crate::read::{Fields, Raw, Value};

/// Appends the fields of a structure. How many texts had bytes that are not text; or the name of a field that does not
/// have a value of its class.
pub(super) fn fields(members: &[Member], fields: &Fields<'_>, out: &mut Vec<u8>) -> Result<u64, String> {
    let mut writer = FieldWriter { out, replaced: 0 };
    writer.structure(members, fields)?;
    Ok(writer.replaced)
}

struct FieldWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Texts that had bytes that are not text.
    replaced: u64,
}

/// A value is of another class than the layout.
struct Mismatch;

impl FieldWriter<'_> {
    fn structure(&mut self, members: &[Member], fields: &Fields<'_>) -> Result<(), String> {
        let mut raws = fields.raws().enumerate();
        for member in members {
            let found = raws.find(|(position, _)| *position == member.position);
            let Some((_, raw)) = found else { return Err(member.name.clone()) };
            let told = self.out.len();
            self.out.resize(told + 4 * member.told.len(), 0);
            self.field(&member.shape, raw, told).map_err(|Mismatch| member.name.clone())?;
        }
        Ok(())
    }

    /// `told`: where the lengths and tags of the field are.
    fn field(&mut self, shape: &Shape, raw: Raw<'_>, told: usize) -> Result<(), Mismatch> {
        let Shape::Variant { told: position, options } = shape else { return self.value(shape, raw.value(), told) };
        let inner = raw.inner();
        let class = inner.as_ref().map(|(class, _)| *class);
        let chosen = options.iter().position(|option| option.class == class).ok_or(Mismatch)?;
        self.tell(told, *position, chosen as u32);
        match inner {
            Some((_, inner)) => self.field(&options[chosen].shape, inner, told),
            None => Ok(()),
        }
    }

    fn value(&mut self, shape: &Shape, value: Value<'_>, told: usize) -> Result<(), Mismatch> {
        match (shape, value) {
            (Shape::Int { bits, .. }, Value::Int(number, _) | Value::Enum(number, _)) => {
                let bytes = (i128::from(number) as u64).to_le_bytes();
                self.out.extend_from_slice(&bytes[..usize::from(bits / 8)]);
            }
            (Shape::Int { bits, .. }, Value::Bool(value)) => {
                let bytes = u64::from(value).to_le_bytes();
                self.out.extend_from_slice(&bytes[..usize::from(bits / 8)]);
            }
            (Shape::Bool, Value::Bool(value)) => self.out.push(value.into()),
            // Of a byte that is neither 0 nor 1.
            (Shape::Bool, Value::Int(number, _) | Value::Enum(number, _)) => self.out.push(i128::from(number) as u8),
            (Shape::Float { .. }, Value::F32(value)) => self.out.extend_from_slice(&value.to_bits().to_le_bytes()),
            (Shape::Float { .. }, Value::F64(value)) => self.out.extend_from_slice(&value.to_bits().to_le_bytes()),
            (Shape::Text, Value::Text(text)) => {
                let is_replaced = matches!(text, Cow::Owned(_)) && text.contains(char::REPLACEMENT_CHARACTER);
                self.replaced += u64::from(is_replaced);
                self.out.extend_from_slice(text.as_bytes());
                self.out.push(0);
            }
            (Shape::Text, Value::Wide(number)) => {
                self.out.extend_from_slice(number.to_string().as_bytes());
                self.out.push(0);
            }
            (Shape::Bytes { told: position }, Value::Bytes(bytes)) => {
                self.tell(told, *position, bytes.len() as u32);
                self.out.extend_from_slice(bytes);
            }
            (Shape::Array { count, element }, Value::Array(elements)) => {
                if let Count::Told(position) = count {
                    self.tell(told, *position, elements.len() as u32);
                }
                for raw in elements.raws() {
                    self.field(element, raw, told)?;
                }
            }
            (Shape::Struct(members), Value::Struct(fields)) => {
                self.structure(members, &fields).map_err(|_| Mismatch)?;
            }
            _ => return Err(Mismatch),
        }
        Ok(())
    }

    /// Puts a length or a tag where it belongs: in front of the field, of which it is known only now.
    fn tell(&mut self, told: usize, position: usize, number: u32) {
        let at = told + 4 * position;
        if let Some(place) = self.out.get_mut(at..at + 4) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
}
