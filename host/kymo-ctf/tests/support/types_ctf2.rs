// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of [`super::types`] as field classes of CTF 2: the bits are the same.

use serde_json::{Value, json};

use super::types::{Count, Type};

fn order(big: bool) -> &'static str {
    if big { "big-endian" } else { "little-endian" }
}

/// The field class of a type without others inside.
fn leaf(ty: &Type, big: bool) -> Value {
    match ty {
        Type::Int { bits, signed, big, align, hex } => {
            let kind = if *signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" };
            let base = if *hex { 16 } else { 10 };
            json!({ "type": kind, "length": bits, "byte-order": order(*big), "alignment": align, "preferred-display-base": base })
        }
        Type::Enum { bits, labels } => {
            let align = if bits % 8 == 0 { 8 } else { 1 };
            let mappings = labels.iter().map(|(label, low, high)| (label.clone(), json!([[low, high]])));
            let mappings: serde_json::Map<String, Value> = mappings.collect();
            json!({ "type": "fixed-length-unsigned-integer", "length": bits, "byte-order": order(big), "alignment": align,
                "mappings": mappings })
        }
        Type::Float { double, align } => {
            let bits = if *double { 64 } else { 32 };
            json!({ "type": "fixed-length-floating-point-number", "length": bits, "byte-order": order(big), "alignment": align })
        }
        Type::Text => json!({ "type": "null-terminated-string" }),
        Type::Chars(Count::Fixed(count)) => json!({ "type": "static-length-string", "length": count }),
        Type::Chars(Count::Field(name)) => {
            json!({ "type": "dynamic-length-string", "length-field-location": { "path": [name] } })
        }
        Type::Array(..) | Type::Struct(..) | Type::Variant { .. } => unreachable!("done by `member`"),
    }
}

/// A structure. `big`: the trace's byte order.
pub fn structure(ty: &Type, big: bool) -> Value {
    let Type::Struct(fields, least) = ty else { unreachable!("a structure") };
    let members: Vec<Value> =
        fields.iter().map(|(name, ty)| json!({ "name": name, "field-class": member(ty, fields, big) })).collect();
    json!({ "type": "structure", "minimum-alignment": least, "member-classes": members })
}

fn member(ty: &Type, siblings: &[(String, Type)], big: bool) -> Value {
    match ty {
        Type::Struct(..) => structure(ty, big),
        Type::Array(element, Count::Fixed(count)) => {
            json!({ "type": "static-length-array", "length": count, "element-field-class": member(element, siblings, big) })
        }
        Type::Array(element, Count::Field(name)) => json!({ "type": "dynamic-length-array",
            "length-field-location": { "path": [name] }, "element-field-class": member(element, siblings, big) }),
        Type::Variant { tag, options } => {
            let labels = siblings.iter().find_map(|(name, ty)| match ty {
                Type::Enum { labels, .. } if name == tag => Some(labels),
                _ => None,
            });
            let labels = labels.expect("a tag in front");
            let option = |((name, ty), (_, low, high)): (&(String, Type), &(String, u64, u64))| json!({ "name": name, "selector-field-ranges": [[low, high]], "field-class": member(ty, &[], big) });
            let options: Vec<Value> = options.iter().zip(labels).map(option).collect();
            json!({ "type": "variant", "selector-field-location": { "path": [tag] }, "options": options })
        }
        _ => leaf(ty, big),
    }
}

/// An unsigned integer of a head.
pub fn head(bits: u32, align: u32, big: bool, roles: &[&str]) -> Value {
    json!({ "type": "fixed-length-unsigned-integer", "length": bits, "alignment": align, "byte-order": order(big), "roles": roles })
}
