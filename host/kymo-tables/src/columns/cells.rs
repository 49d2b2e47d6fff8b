// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of one column, or of what is nested in one.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::builder::{BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder};
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ListArray, PrimitiveArray, StructArray};
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, TimeUnit};
use kymo_ctf::read::{FieldKind, Number, Value};
use kymo_export::json::{Wide, push_value};

use super::json::JsonCells;
use super::words::Words;

/// Values of one kind, each possibly absent.
pub enum Cells {
    /// Points in time, ns.
    Time {
        zone: Option<Arc<str>>,
        values: Integers,
    },
    /// Integers; enumerations by their number.
    Int {
        signed: bool,
        bits: u8,
        values: Integers,
    },
    /// Texts of which there are few: names, labels of enumerations.
    Words(Box<Words>),
    Bool(BooleanBuilder),
    F32(Float32Builder),
    F64(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    /// What differs from record to record, as JSON.
    Json(JsonCells),
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

/// Integers of up to 64 bits with a sign or without one, each possibly absent.
pub struct Integers {
    /// The bits; those with a sign are extended.
    values: Vec<i64>,
    there: NullBufferBuilder,
}

impl Default for Integers {
    fn default() -> Integers {
        Integers { values: Vec::new(), there: NullBufferBuilder::new(1024) }
    }
}

impl Integers {
    /// Appends the bits of a number.
    #[inline]
    pub fn push(&mut self, bits: i64) {
        self.values.push(bits);
        self.there.append_non_null();
    }

    /// Appends a number, or nothing.
    #[inline]
    pub fn push_option(&mut self, bits: Option<i64>) {
        match bits {
            Some(bits) => self.push(bits),
            None => {
                self.values.push(0);
                self.there.append_null();
            }
        }
    }

    fn finish<T: ArrowPrimitiveType>(
        &mut self,
        of: impl Fn(i64) -> T::Native,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        let values: Vec<T::Native> = std::mem::take(&mut self.values).into_iter().map(of).collect();
        PrimitiveArray::try_new(values.into(), self.there.finish())
    }
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
                Cells::Int { signed: *signed, bits: *bits, values: Integers::default() }
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
            FieldKind::Struct(_) | FieldKind::Varying => Cells::json(),
        }
    }

    /// For texts in JSON.
    pub fn json() -> Cells {
        Cells::Json(JsonCells::default())
    }

    /// For texts of which there are few.
    pub fn words() -> Cells {
        Cells::Words(Box::default())
    }

    /// For points in time.
    pub fn time(zone: Option<Arc<str>>) -> Cells {
        Cells::Time { zone, values: Integers::default() }
    }

    /// For integers of so many bits.
    pub fn integers(signed: bool, bits: u8) -> Cells {
        Cells::Int { signed, bits, values: Integers::default() }
    }

    /// For the same values, without one.
    pub fn fresh(&self) -> Cells {
        match self {
            Cells::Time { zone, .. } => Cells::time(zone.clone()),
            Cells::Int { signed, bits, .. } => Cells::integers(*signed, *bits),
            Cells::Words(_) => Cells::words(),
            Cells::Bool(_) => Cells::Bool(BooleanBuilder::new()),
            Cells::F32(_) => Cells::F32(Float32Builder::new()),
            Cells::F64(_) => Cells::F64(Float64Builder::new()),
            Cells::Text(_) => Cells::Text(StringBuilder::new()),
            Cells::Bytes(_) => Cells::Bytes(BinaryBuilder::new()),
            Cells::Json(_) => Cells::json(),
            Cells::List { element, .. } => {
                Cells::List { ends: vec![0], there: Vec::new(), element: Box::new(element.fresh()) }
            }
            Cells::Struct { members, .. } => {
                let member =
                    |of: &Member| Member { name: of.name.clone(), position: of.position, cells: of.cells.fresh() };
                Cells::Struct { there: Vec::new(), members: members.iter().map(member).collect() }
            }
        }
    }

    /// For values of this kind and of another one: the wider integer, else text in JSON.
    pub fn or(&self, other: &Cells) -> Cells {
        match (self, other) {
            (Cells::Int { signed: a, bits: x, .. }, Cells::Int { signed: b, bits: y, .. }) if a == b => {
                Cells::integers(*a, *x.max(y))
            }
            (Cells::Int { signed: a, bits: x, .. }, Cells::Int { bits: y, .. }) => {
                // One more for the sign.
                let bits = if *a { *x.max(&(y + 1)) } else { *y.max(&(x + 1)) };
                if bits > 64 { Cells::json() } else { Cells::integers(true, bits) }
            }
            _ if self.is_like(other) => self.fresh(),
            _ => Cells::json(),
        }
    }

    /// Whether values of both are of one kind, with members at the same places.
    fn is_like(&self, other: &Cells) -> bool {
        match (self, other) {
            (Cells::Struct { members: own, .. }, Cells::Struct { members: others, .. }) => {
                let is_like = |(own, other): (&Member, &Member)| {
                    (&own.name, own.position) == (&other.name, other.position) && own.cells.is_like(&other.cells)
                };
                own.len() == others.len() && own.iter().zip(others).all(is_like)
            }
            (Cells::List { element: own, .. }, Cells::List { element: other, .. }) => own.is_like(other),
            (Cells::Json(_), Cells::Text(_)) | (Cells::Text(_), Cells::Json(_)) => false,
            _ => self.data_type() == other.data_type(),
        }
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
            Cells::Time { zone, .. } => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            Cells::Words(_) => Words::data_type(),
            Cells::Bool(_) => DataType::Boolean,
            Cells::F32(_) => DataType::Float32,
            Cells::F64(_) => DataType::Float64,
            Cells::Text(_) | Cells::Json(_) => DataType::Utf8,
            Cells::Bytes(_) => DataType::Binary,
            Cells::List { element, .. } => DataType::List(Arc::new(item(element))),
            Cells::Struct { members, .. } => DataType::Struct(fields(members)),
        }
    }

    /// Whether [`Cells::bytes`] is ever more than nothing.
    pub fn is_growing(&self) -> bool {
        match self {
            Cells::Time { .. } | Cells::Int { .. } | Cells::Bool(_) | Cells::F32(_) | Cells::F64(_) => false,
            Cells::Struct { members, .. } => members.iter().any(|member| member.cells.is_growing()),
            _ => true,
        }
    }

    /// Bytes of what may be longer in one row than in another, about.
    #[inline]
    pub fn bytes(&self) -> usize {
        match self {
            Cells::Text(cells) => cells.values_slice().len(),
            Cells::Json(cells) => cells.bytes(),
            Cells::Bytes(cells) => cells.values_slice().len(),
            Cells::Words(words) => words.bytes(),
            Cells::List { ends, element, .. } => 8 * ends.last().map_or(0, |end| *end as usize) + element.bytes(),
            Cells::Struct { members, .. } => members.iter().map(|member| member.cells.bytes()).sum(),
            Cells::Time { .. } | Cells::Int { .. } | Cells::Bool(_) | Cells::F32(_) | Cells::F64(_) => 0,
        }
    }

    /// Appends a value; one of another kind than the column's is absent.
    pub fn append(&mut self, value: Option<&Value<'_>>) {
        match (self, value) {
            (Cells::Int { values, .. }, Some(Value::Int(number, _) | Value::Enum(number, _))) => {
                values.push(bits_of(*number));
            }
            (Cells::Int { values, .. } | Cells::Time { values, .. }, _) => values.push_option(None),
            (Cells::Words(cells), Some(Value::Enum(number, labels))) => {
                cells.push_number(labels.id(), (*number).into(), || labels.joined(*number).map(Into::into));
            }
            (Cells::Words(cells), _) => cells.push_null(),
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
            (Cells::Json(cells), Some(value)) => cells.append(|out| push_value(out, value, Wide::Number)),
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
            Cells::Time { values, .. } => {
                Arc::new(values.finish::<TimestampNanosecondType>(|value| value)?.with_data_type(data_type))
            }
            Cells::Int { values, .. } => integers(&data_type, values)?,
            Cells::Words(cells) => cells.finish()?,
            Cells::Bool(cells) => Arc::new(cells.finish()),
            Cells::F32(cells) => Arc::new(cells.finish()),
            Cells::F64(cells) => Arc::new(cells.finish()),
            Cells::Text(cells) => Arc::new(cells.finish()),
            Cells::Json(cells) => cells.finish()?,
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
fn integers(data_type: &DataType, values: &mut Integers) -> Result<ArrayRef, ArrowError> {
    Ok(match data_type {
        DataType::Int8 => Arc::new(values.finish::<Int8Type>(|value| value as i8)?),
        DataType::UInt8 => Arc::new(values.finish::<UInt8Type>(|value| value as u8)?),
        DataType::Int16 => Arc::new(values.finish::<Int16Type>(|value| value as i16)?),
        DataType::UInt16 => Arc::new(values.finish::<UInt16Type>(|value| value as u16)?),
        DataType::Int32 => Arc::new(values.finish::<Int32Type>(|value| value as i32)?),
        DataType::UInt32 => Arc::new(values.finish::<UInt32Type>(|value| value as u32)?),
        DataType::UInt64 => Arc::new(values.finish::<UInt64Type>(|value| value as u64)?),
        _ => Arc::new(values.finish::<Int64Type>(|value| value)?),
    })
}

/// The bits of a number, as columns keep them.
#[inline]
pub fn bits_of(number: Number) -> i64 {
    match number {
        Number::Unsigned(value) => value as i64,
        Number::Signed(value) => value,
    }
}
