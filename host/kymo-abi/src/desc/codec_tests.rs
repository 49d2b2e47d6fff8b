// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions round-trip; anything else is refused with the reason and never with a panic.

use super::*;
use proptest::prelude::*;

fn event(fields: Vec<(&str, FieldType)>) -> Desc {
    let fields = fields.into_iter().map(|(name, ty)| Field { name: name.into(), ty }).collect();
    Desc::Event(EventDesc { provider: "motor".into(), name: "step".into(), file: "a.c".into(), line: 7, fields })
}

#[track_caller]
fn check(desc: Desc, expect: &str) {
    match parse(&encode(&desc)) {
        Ok(parsed) => assert_eq!((parsed, expect), (desc, "")),
        Err(error) => assert_eq!(error.to_string(), expect),
    }
}

#[test]
fn every_type_round_trips() {
    let mut fields: Vec<_> = Scalar::ALL.iter().map(|scalar| (scalar.name(), FieldType::Scalar(*scalar))).collect();
    fields.push(("state", FieldType::Enum { scalar: Scalar::U8, name: "motor:state".into() }));
    fields.push(("text", FieldType::Str));
    fields.push(("blob", FieldType::Bytes));
    fields.push(("row", FieldType::Array { element: Scalar::F64, count: 3 }));
    fields.push(("list", FieldType::Seq { element: Scalar::X16 }));
    check(event(fields), "");
}

#[test]
fn bounds_are_kept() {
    let row = |count| event(vec![("row", FieldType::Array { element: Scalar::U32, count })]);
    check(row(16_381), "");
    check(row(16_382), "bytes of a record: 65528 is more than the 65524 allowed");
    check(row(u32::MAX), "bytes of a record: 17179869180 is more than the 65524 allowed");
    check(event(vec![("a-b", FieldType::Str)]), "field \"a-b\" is not an identifier");
    check(event(vec![("a", FieldType::Str), ("a", FieldType::Bytes)]), "two fields are called \"a\"");
    let labelled = |scalar, value| {
        let labels = vec![("x".into(), value)];
        Desc::Enum(EnumDesc { provider: "p".into(), name: "e".into(), file: String::new(), line: 0, scalar, labels })
    };
    check(labelled(Scalar::U8, 255), "");
    check(labelled(Scalar::U64, -1), "");
    check(labelled(Scalar::I8, -128), "");
    check(labelled(Scalar::I64, i64::MIN), "");
    check(labelled(Scalar::U8, 256), "label \"x\": 256 does not fit the enumeration's integer");
    check(labelled(Scalar::U8, -1), "label \"x\": -1 does not fit the enumeration's integer");
    check(labelled(Scalar::I8, 128), "label \"x\": 128 does not fit the enumeration's integer");
    check(labelled(Scalar::F32, 0), "integer type of an enumeration: value 13 is not one that spec/ knows");
}

#[test]
fn a_walk_skips_padding_and_rubbish_and_reports_bad_ones() {
    let good = encode(&event(vec![("a", FieldType::Str)]));
    let mut bad = good.clone();
    bad[8] = 9;
    let mut section = vec![0; 16];
    section.extend_from_slice(&good);
    section.resize(section.len().next_multiple_of(8) + 24, 0);
    section.extend_from_slice(&bad);
    section.resize(section.len().next_multiple_of(8), 0);
    section.extend_from_slice(&good);
    let found: Vec<_> = Walk::new(&section).map(|(_, desc)| desc.is_ok()).collect();
    assert_eq!(found, [true, false, true]);
}

#[test]
fn text_may_end_in_spare_zeroes_but_not_in_text() {
    let mut bytes = encode(&event(vec![]));
    let add = |bytes: &mut Vec<u8>, byte| {
        bytes.push(byte);
        let (whole, text) = (bytes.len() as u32, (bytes.len() - HEAD_BYTES - ENTRY_BYTES) as u16);
        bytes[4..8].copy_from_slice(&whole.to_ne_bytes());
        bytes[16..18].copy_from_slice(&text.to_ne_bytes());
    };
    add(&mut bytes, 0);
    assert!(parse(&bytes).is_ok());
    add(&mut bytes, b'x');
    assert_eq!(parse(&bytes), Err(Error::Trailing { bytes: 2 }));
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z_][A-Za-z0-9_]{0,20}"
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    proptest::sample::select(Scalar::ALL)
}

fn field_type() -> impl Strategy<Value = FieldType> {
    prop_oneof![
        any_scalar().prop_map(FieldType::Scalar),
        (any_scalar().prop_filter("integer", |scalar| scalar.is_integer()), name(), name())
            .prop_map(|(scalar, left, right)| FieldType::Enum { scalar, name: format!("{left}:{right}") }),
        Just(FieldType::Str),
        Just(FieldType::Bytes),
        (any_scalar(), 0u32..200).prop_map(|(element, count)| FieldType::Array { element, count }),
        any_scalar().prop_map(|element| FieldType::Seq { element }),
    ]
}

fn any_event() -> impl Strategy<Value = Desc> {
    let fields = proptest::collection::btree_map(name(), field_type(), 0..=FIELDS_MAX);
    (name(), name(), "[ -~]{0,40}", any::<u32>(), fields).prop_map(|(provider, name, file, line, fields)| {
        let fields = fields.into_iter().map(|(name, ty)| Field { name, ty }).collect();
        Desc::Event(EventDesc { provider, name, file, line, fields })
    })
}

proptest! {
    #[test]
    fn events_round_trip(desc in any_event()) {
        prop_assert_eq!(parse(&encode(&desc)), Ok(desc));
    }

    #[test]
    fn a_changed_byte_never_panics(desc in any_event(), at: prop::sample::Index, value: u8, cut: prop::sample::Index) {
        let mut bytes = encode(&desc);
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = parse(&bytes);
        let _ = Walk::new(&bytes).count();
        bytes.truncate(cut.index(bytes.len()));
        let _ = parse(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = parse(&bytes);
        let _ = Walk::new(&bytes).count();
    }
}
