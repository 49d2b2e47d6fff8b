// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which fields of records are addresses of code.
//!
//! Known names are (`caller`, `ip`, ...). Any other 64-bit integer that is shown in base 16 may be: it is where a file
//! with code was mapped at that address.

use kymo_ctf::read::{Base, FieldInfo, FieldKind, Number, Value};

/// What the value of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The address of code.
    Code,
    /// Where a call returns to.
    Return,
    /// Perhaps the address of code.
    Maybe,
}

/// Known names.
const NAMES: [(&str, Meaning); 12] = [
    ("ip", Meaning::Code),
    ("parent_ip", Meaning::Return),
    ("function", Meaning::Code),
    ("func", Meaning::Code),
    ("addr", Meaning::Code),
    ("caller", Meaning::Return),
    ("call_site", Meaning::Return),
    ("callsite", Meaning::Return),
    ("location", Meaning::Return),
    ("__probe_ip", Meaning::Code),
    ("__probe_func", Meaning::Code),
    ("__probe_ret_ip", Meaning::Return),
];

/// What a field is, if it can be an address.
pub fn meaning(name: &str, kind: &FieldKind<'_>) -> Option<Meaning> {
    let FieldKind::Int { signed, bits, base } = *kind else { return None };
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning);
    let is_hex = base == Base::Hexadecimal && !signed && bits == 64;
    known.filter(|_| bits == 64).or_else(|| is_hex.then_some(Meaning::Maybe))
}

/// Those of these fields that can be addresses: position and meaning.
pub fn addresses(fields: Vec<FieldInfo<'_>>) -> Vec<(usize, Meaning)> {
    let fields = fields.into_iter().filter(|field| !field.is_length);
    fields.filter_map(|field| Some((field.position, meaning(field.name, &field.kind)?))).collect()
}

/// The value of such a field.
pub fn address(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Int(Number::Unsigned(address), _) => Some(*address),
        // Of a class without a sign the reader's number has none; others have the kernel's half below zero.
        Value::Int(Number::Signed(address), _) => Some(*address as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_can_be_addresses() {
        let int = |signed, bits, base| FieldKind::Int { signed, bits, base };
        for (name, kind, expect) in [
            ("caller", int(false, 64, Base::Hexadecimal), Some(Meaning::Return)),
            ("ip", int(false, 64, Base::Decimal), Some(Meaning::Code)),
            ("ip", int(true, 64, Base::Hexadecimal), Some(Meaning::Code)),
            ("addr", int(false, 32, Base::Hexadecimal), None),
            ("handler", int(false, 64, Base::Hexadecimal), Some(Meaning::Maybe)),
            ("handler", int(false, 32, Base::Hexadecimal), None),
            ("size", int(false, 64, Base::Decimal), None),
            ("function", FieldKind::Text, None),
        ] {
            assert_eq!(meaning(name, &kind), expect, "{name} {kind:?}");
        }
    }
}
