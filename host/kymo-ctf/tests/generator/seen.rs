// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader has seen, in one form for all of them, and whether it is what the model has.

use std::collections::BTreeSet;

use kymo_ctf::read::{Fields, Number, Value};

use super::make::Format;
use super::types::{Field, Int, Label, Type, Val, float_of};
use crate::support::babel::percent_g;

/// A value as a reader gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    Int(i128),
    /// An integer and its labels.
    Labelled(Box<Seen>, Vec<String>),
    Bool(bool),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Seen>),
    Struct(Vec<(String, Seen)>),
    /// A value in braces, as the value of a variant is shown.
    Braced(Box<Seen>),
    /// A number or a word of a text output.
    Word(String),
    Absent,
}

impl Seen {
    /// A value that kymo gives.
    pub fn of(value: &Value<'_>) -> Self {
        let int = |number: &Number| Self::Int((*number).into());
        match value {
            Value::Int(number, _) => int(number),
            Value::Enum(number, labels) => {
                Self::Labelled(int(number).into(), labels.all(*number).into_iter().map(str::to_owned).collect())
            }
            Value::Wide(number) => number.to_i128().map_or_else(|| Self::Text(number.to_string()), Self::Int),
            Value::Bool(value) => Self::Bool(*value),
            Value::F32(value) => Self::Float((*value).into()),
            Value::F64(value) => Self::Float(*value),
            Value::Text(text) => Self::Text(text.to_string()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Array(elements) => Self::List(elements.iter().map(|element| Self::of(&element)).collect()),
            Value::Struct(fields) => Self::fields(fields),
            Value::Absent => Self::Absent,
        }
    }

    /// Fields that kymo gives, lengths too.
    pub fn fields(fields: &Fields<'_>) -> Self {
        Self::Struct(fields.all().map(|(name, _, value)| (name.to_owned(), Self::of(&value))).collect())
    }

    /// The integer, where it is one. Of a base other than 10 only the `bits` bits of two's complement are known.
    fn int(&self, bits: u32) -> Option<(i128, u32)> {
        match self {
            Self::Int(value) => Some((*value, 127)),
            Self::Labelled(value, _) => value.int(bits),
            Self::Word(word) => {
                let other = |digits: &str, radix| i128::from_str_radix(digits, radix).ok().map(|value| (value, bits));
                match word.as_bytes() {
                    [b'0', b'x', ..] => other(&word[2..], 16),
                    [b'0', b'b', ..] => other(&word[2..], 2),
                    [b'0', _, ..] => other(&word[1..], 8),
                    _ => word.parse().ok().map(|value| (value, 127)),
                }
            }
            _ => None,
        }
    }
}

/// What a reader shows, and how.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub format: Format,
    /// Floats have six digits.
    pub has_six_digits: bool,
}

impl Manner {
    pub fn of_kymo(format: Format) -> Self {
        Self { format, has_six_digits: false }
    }

    pub fn of_text(format: Format) -> Self {
        Self { format, has_six_digits: true }
    }

    /// In CTF 1.8 one `_` only keeps a name apart from a keyword.
    fn shown(self, name: &str) -> &str {
        match self.format {
            Format::Tsdl => name.strip_prefix('_').unwrap_or(name),
            Format::Json => name,
        }
    }

    /// Says where `seen` is not the value of the model.
    pub fn compare(self, ty: &Type, value: &Val, seen: &Seen) -> Result<(), String> {
        let unlike = || format!("is {value:?}, and was read as {seen:?}");
        let is_same = match (ty, value) {
            (Type::Int(int) | Type::Bits(int), Val::Int(value)) => same_int(int.bits, *value, seen),
            (Type::BitMap(int, flags), Val::Int(value)) => {
                same_int(int.bits, *value, seen) && same_flags(flags, *value, seen)
            }
            (Type::Leb { .. }, Val::Int(value)) => same_int(64, *value, seen),
            (Type::Enum(int, labels), Val::Int(value)) => self.same_enum(int, labels, *value, seen),
            (Type::Bool(_), Val::Bool(value)) => match seen {
                Seen::Word(word) => *word == value.to_string(),
                other => *other == Seen::Bool(*value),
            },
            (Type::Float { bits, .. }, Val::Float(value)) => self.same_float(float_of(*bits, *value), seen),
            (Type::Text(_) | Type::Chars(..), Val::Text(text)) => *seen == Seen::Text(text.clone()),
            (Type::Blob(_), Val::Bytes(bytes)) => same_bytes(bytes, seen),
            (Type::List { element, .. }, Val::List(values)) => return self.list(element, values, seen),
            (Type::Struct(fields, _), Val::Struct(values)) => return self.members(fields, values, seen),
            (Type::Variant { options, .. }, Val::Chosen(option, value)) => {
                let option = &options[*option];
                let inner: &Seen = match seen {
                    Seen::Braced(inner) => inner.as_ref(),
                    Seen::Struct(members) => match members.as_slice() {
                        [(name, inner)] if name == self.shown(&option.name) => inner,
                        _ => seen,
                    },
                    seen => seen,
                };
                let compared = self.compare(&option.ty, value, inner);
                return compared.map_err(|what| format!("<{}> {what}", option.name));
            }
            (Type::Optional { inner, .. }, Val::Maybe(Some(value))) => {
                let seen = if let Seen::Braced(inner) = seen { inner.as_ref() } else { seen };
                return self.compare(inner, value, seen);
            }
            (Type::Optional { .. }, Val::Maybe(None)) => {
                matches!(seen, Seen::Absent) || *seen == Seen::Word("<none>".into())
            }
            _ => false,
        };
        if is_same { Ok(()) } else { Err(unlike()) }
    }

    fn same_enum(self, int: &Int, labels: &[Label], value: i128, seen: &Seen) -> bool {
        let Seen::Labelled(_, shown) = seen else { return false };
        let of_value: Vec<&str> =
            labels.iter().filter(|label| label.has(value)).map(|label| label.name.as_str()).collect();
        // A label of two ranges that have the value may be shown twice.
        let shown: BTreeSet<&String> = shown.iter().collect();
        let are_all = shown.len() == of_value.len();
        same_int(int.bits, value, seen) && are_all && shown.iter().all(|label| of_value.contains(&label.as_str()))
    }

    fn same_float(self, value: f64, seen: &Seen) -> bool {
        match seen {
            Seen::Float(other) => value.to_bits() == other.to_bits() || (value.is_nan() && other.is_nan()),
            Seen::Word(word) => self.has_six_digits && *word == percent_g(value),
            _ => false,
        }
    }

    fn list(self, element: &Type, values: &[Val], seen: &Seen) -> Result<(), String> {
        let bytes: Vec<Seen>;
        let elements = match seen {
            Seen::List(elements) => elements,
            Seen::Bytes(list) => {
                bytes = list.iter().map(|&byte| Seen::Int(byte.into())).collect();
                &bytes
            }
            other => return Err(format!("is a list, and was read as {other:?}")),
        };
        if elements.len() != values.len() {
            return Err(format!("has {} elements, and was read as {} of them", values.len(), elements.len()));
        }
        for (index, (value, seen)) in values.iter().zip(elements).enumerate() {
            self.compare(element, value, seen).map_err(|what| format!("[{index}]{what}"))?;
        }
        Ok(())
    }

    /// The members of a structure; those with a role are shown by kymo alone.
    pub fn members(self, fields: &[Field], values: &[Val], seen: &Seen) -> Result<(), String> {
        let Seen::Struct(members) = seen else { return Err(format!("is a structure, and was read as {seen:?}")) };
        if members.len() != fields.len() {
            return Err(format!("has {} members, and was read with {}: {members:?}", fields.len(), members.len()));
        }
        for ((field, value), (name, seen)) in fields.iter().zip(values).zip(members) {
            let expected = self.shown(&field.name);
            if name != expected {
                return Err(format!(".{expected} was read as a member `{name}`"));
            }
            self.compare(&field.ty, value, seen).map_err(|what| format!(".{expected}{what}"))?;
        }
        Ok(())
    }
}

/// A text shows one byte as a value in braces, and none as nothing in them.
fn same_bytes(bytes: &[u8], seen: &Seen) -> bool {
    match (bytes, seen) {
        ([], Seen::Struct(members)) => members.is_empty(),
        ([byte], Seen::Braced(value)) => **value == Seen::Word(format!("{byte:02x}")),
        (bytes, seen) => *seen == Seen::Bytes(bytes.to_vec()),
    }
}

/// The flags that have a bit of the value, where flags are shown.
fn same_flags(flags: &[Label], value: i128, seen: &Seen) -> bool {
    let Seen::Labelled(_, shown) = seen else { return true };
    let is_set = |flag: &Label| flag.ranges.iter().any(|&(low, high)| (low..=high).any(|bit| value >> bit & 1 == 1));
    let set: Vec<&String> = flags.iter().filter(|flag| is_set(flag)).map(|flag| &flag.name).collect();
    shown.len() == set.len() && shown.iter().all(|label| set.contains(&label))
}

fn same_int(bits: u32, value: i128, seen: &Seen) -> bool {
    let Some((other, known_bits)) = seen.int(bits) else { return false };
    if known_bits >= 127 { value == other } else { (value ^ other) & ((1 << known_bits) - 1) == 0 }
}
