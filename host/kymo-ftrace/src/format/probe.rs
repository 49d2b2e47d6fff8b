// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points for fuzzing and for the tests that mutate format texts: bytes in, and a panic where a promise is
//! broken.

use super::{ByteRange, EventFormat, Field, FieldEncoding, parse_event, parse_page_format};

/// Parses `bytes` as both kinds of format text; how many fields came out.
pub fn format(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(page) = parse_page_format(&text) {
        assert!(matches!(page.commit_bytes, 4 | 8));
        check_place(ByteRange { offset: page.time_offset, size: 8 });
        check_place(ByteRange { offset: page.commit_offset, size: page.commit_bytes });
    }
    match parse_event(&text) {
        Ok(event) => check_event(&event, text.len()),
        Err(error) => {
            assert!(error.to_string().len() < 1000, "{error}");
            0
        }
    }
}

fn check_event(event: &EventFormat, text_bytes: usize) -> usize {
    assert!(!event.name.is_empty());
    assert!(event.fields.len() * "field:".len() < text_bytes);
    let common = event.common;
    for place in [Some(common.type_), common.pid, common.flags, common.preempt_count].into_iter().flatten() {
        check_place(place);
        assert!(is_number_size(place.size));
    }
    event.fields.iter().for_each(check_field);
    event.fields.len()
}

fn check_field(field: &Field) {
    assert!(!field.name.is_empty() && !field.ty.is_empty());
    assert!(field.name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()), "{field:?}");
    check_place(field.place());
    let good = match field.kind {
        FieldEncoding::Number => is_number_size(field.size),
        FieldEncoding::Array { count, element_bytes } => {
            is_number_size(element_bytes) && count * u32::from(element_bytes) == u32::from(field.size)
        }
        FieldEncoding::Chars { count } => count == u32::from(field.size),
        FieldEncoding::DataLoc { .. } | FieldEncoding::RelLoc { .. } => field.size == 4,
        FieldEncoding::Rest { .. } => field.size == 0,
        FieldEncoding::Opaque => true,
    };
    assert!(good, "{field:?}");
}

fn check_place(place: ByteRange) {
    assert!(place.offset.checked_add(place.size).is_some(), "{place:?}");
}

fn is_number_size(bytes: u16) -> bool {
    [1, 2, 4, 8].contains(&bytes)
}
