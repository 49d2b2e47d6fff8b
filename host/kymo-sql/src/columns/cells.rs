// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of one column, or of what is nested in one.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder};
use arrow_array::builder::{StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, StructArray};
use arrow_array::{UInt8Array, UInt16Array, UInt32Array, UInt64Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use kymo_ctf::read::{FieldKind, Value};
use kymo_export::json::{Wide, push_value};

/// Values of one kind, each possibly absent.
pub enum Cells {
    /// Integers; enumerations by their number.
    Int {
        signed: bool,
        bits: u8,
        values: Vec<Option<i128>>,
    },
    /// Labels of enumerations.
    Labels(StringDictionaryBuilder<Int32Type>),
    Bool(BooleanBuilder),
    F32(Float32Builder),
    F64(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    /// What differs from record to record, as JSON.
    Json(StringBuilder),
    List {
        ends: Vec<i32>,
        there: Vec<bool>,
        element: Box<Cells>,
    },
    Struct {
        there: Vec<bool>,
        members: Vec<Member>,
    },
}

/// A member of a structure.
pub struct Member {
    name: String,
    /// For `Fields::at`.
    position: usize,
    cells: Cells,
}

impl Cells {
    /// For values of `kind`.
    pub fn of(kind: &FieldKind<'_>) -> Cells {
        match kind {
            FieldKind::Int { signed, bits, .. } | FieldKind::Enum { signed, bits, .. } => {
                Cells::Int { signed: *signed, bits: *bits, values: Vec::new() }
            }
            FieldKind::Bool => Cells::Bool(BooleanBuilder::new()),
            FieldKind::Float { bits: 32 } => Cells::F32(Float32Builder::new()),
            FieldKind::Float { .. } => Cells::F64(Float64Builder::new()),
            // Arrow has no integer of any width: the digits.
            FieldKind::Text | FieldKind::Wide { .. } => Cells::Text(StringBuilder::new()),
            FieldKind::Bytes => Cells::Bytes(BinaryBuilder::new()),
            FieldKind::Array { element, .. } => {
                Cells::List { ends: vec![0], there: Vec::new(), element: Box::new(Cells::of(element)) }
            }
            // A structure of no members has no column that could hold it.
            FieldKind::Struct(infos) if infos.iter().any(|info| !info.is_length) => {
                let shown = infos.iter().filter(|info| !info.is_length);
                let member = |info: &kymo_ctf::read::FieldInfo<'_>| Member {
                    name: info.name.to_owned(),
                    position: info.position,
                    cells: Cells::of(&info.kind),
                };
                Cells::Struct { there: Vec::new(), members: shown.map(member).collect() }
            }
            FieldKind::Struct(_) | FieldKind::Varying => Cells::Json(StringBuilder::new()),
        }
    }

    /// For the labels of an enumeration.
    pub fn labels() -> Cells {
        Cells::Labels(StringDictionaryBuilder::new())
    }

    /// What [`Cells::finish`] gives.
    pub fn data_type(&self) -> DataType {
        match self {
            Cells::Int { signed, bits, .. } => match (*bits, *signed) {
                (0..=8, true) => DataType::Int8,
                (0..=8, false) => DataType::UInt8,
                (9..=16, true) => DataType::Int16,
                (9..=16, false) => DataType::UInt16,
                (17..=32, true) => DataType::Int32,
                (17..=32, false) => DataType::UInt32,
                (_, true) => DataType::Int64,
                (_, false) => DataType::UInt64,
            },
            Cells::Labels(_) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Cells::Bool(_) => DataType::Boolean,
            Cells::F32(_) => DataType::Float32,
            Cells::F64(_) => DataType::Float64,
            Cells::Text(_) | Cells::Json(_) => DataType::Utf8,
            Cells::Bytes(_) => DataType::Binary,
            Cells::List { element, .. } => DataType::List(Arc::new(item(element))),
            Cells::Struct { members, .. } => DataType::Struct(fields(members)),
        }
    }

    /// Appends a value; one of another kind than the column's is absent.
    pub fn append(&mut self, value: Option<&Value<'_>>) {
        match (self, value) {
            (Cells::Int { values, .. }, Some(Value::Int(number, _) | Value::Enum(number, _))) => {
                values.push(Some((*number).into()));
            }
            (Cells::Int { values, .. }, _) => values.push(None),
            (Cells::Labels(cells), Some(Value::Enum(number, labels))) => {
                cells.append_option(labels.joined(*number).as_deref());
            }
            (Cells::Labels(cells), _) => cells.append_null(),
            (Cells::Bool(cells), Some(Value::Bool(value))) => cells.append_value(*value),
            // `enum kymo_bool` with another value than 0 and 1.
            (Cells::Bool(cells), _) => cells.append_null(),
            (Cells::F32(cells), Some(Value::F32(value))) => cells.append_value(*value),
            (Cells::F32(cells), _) => cells.append_null(),
            (Cells::F64(cells), Some(Value::F64(value))) => cells.append_value(*value),
            (Cells::F64(cells), _) => cells.append_null(),
            (Cells::Text(cells), Some(Value::Text(text))) => cells.append_value(text),
            (Cells::Text(cells), Some(Value::Wide(number))) => cells.append_value(number.to_string()),
            (Cells::Text(cells), _) => cells.append_null(),
            (Cells::Bytes(cells), Some(Value::Bytes(bytes))) => cells.append_value(bytes),
            (Cells::Bytes(cells), _) => cells.append_null(),
            (Cells::Json(cells), Some(Value::Absent) | None) => cells.append_null(),
            (Cells::Json(cells), Some(value)) => {
                let mut text = Vec::new();
                push_value(&mut text, value, Wide::Number);
                cells.append_value(String::from_utf8_lossy(&text));
            }
            (Cells::List { ends, there, element }, value) => {
                let mut end = ends.last().copied().unwrap_or(0);
                if let Some(Value::Array(elements)) = value {
                    elements.iter().for_each(|value| element.append(Some(&value)));
                    end = end.saturating_add(i32::try_from(elements.len()).unwrap_or(i32::MAX));
                }
                there.push(matches!(value, Some(Value::Array(_))));
                ends.push(end);
            }
            (Cells::Struct { there, members }, value) => {
                let values = if let Some(Value::Struct(values)) = value { Some(values) } else { None };
                there.push(values.is_some());
                for member in members {
                    member.cells.append(values.and_then(|values| values.at(member.position)).as_ref());
                }
            }
        }
    }

    /// All values as an array; there are none then.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let data_type = self.data_type();
        Ok(match self {
            Cells::Int { values, .. } => integers(&data_type, &std::mem::take(values)),
            Cells::Labels(cells) => Arc::new(cells.finish()),
            Cells::Bool(cells) => Arc::new(cells.finish()),
            Cells::F32(cells) => Arc::new(cells.finish()),
            Cells::F64(cells) => Arc::new(cells.finish()),
            Cells::Text(cells) | Cells::Json(cells) => Arc::new(cells.finish()),
            Cells::Bytes(cells) => Arc::new(cells.finish()),
            Cells::List { ends, there, element } => {
                let offsets = OffsetBuffer::new(std::mem::replace(ends, vec![0]).into());
                let there = NullBuffer::from(std::mem::take(there));
                let field = Arc::new(item(element));
                Arc::new(ListArray::try_new(field, offsets, element.finish()?, Some(there))?)
            }
            Cells::Struct { there, members } => {
                let there = NullBuffer::from(std::mem::take(there));
                let fields = fields(members);
                let arrays: Result<Vec<_>, _> = members.iter_mut().map(|member| member.cells.finish()).collect();
                Arc::new(StructArray::try_new(fields, arrays?, Some(there))?)
            }
        })
    }
}

fn item(element: &Cells) -> Field {
    Field::new("item", element.data_type(), true)
}

fn fields(members: &[Member]) -> Fields {
    members.iter().map(|member| Field::new(&member.name, member.cells.data_type(), true)).collect()
}

/// Values are within their type: the reader cuts them to their bits.
fn integers(data_type: &DataType, values: &[Option<i128>]) -> ArrayRef {
    macro_rules! array {
        ($array:ty, $number:ty) => {
            Arc::new(<$array>::from_iter(values.iter().map(|value| value.map(|value| value as $number))))
        };
    }
    match data_type {
        DataType::Int8 => array!(Int8Array, i8),
        DataType::UInt8 => array!(UInt8Array, u8),
        DataType::Int16 => array!(Int16Array, i16),
        DataType::UInt16 => array!(UInt16Array, u16),
        DataType::Int32 => array!(Int32Array, i32),
        DataType::UInt32 => array!(UInt32Array, u32),
        DataType::UInt64 => array!(UInt64Array, u64),
        _ => array!(Int64Array, i64),
    }
}
