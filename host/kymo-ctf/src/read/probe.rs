//! Entry points for fuzzing and for the tests that mutate traces: bytes in, nothing out but the promise to return.

use super::{Fields, Item, Memory, Reader, Trace, Value, parse_metadata};

/// Parses `bytes` as a metadata file of either format; whether it made sense.
pub fn metadata(bytes: &[u8]) -> bool {
    parse_metadata("metadata", bytes).is_ok()
}

/// Takes `bytes` for two bytes of metadata length, the metadata, and a stream; how many items came out.
pub fn trace(bytes: &[u8]) -> u64 {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return 0 };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (metadata, stream) = rest.split_at(length);
    walk(&Memory { metadata: metadata.to_vec(), streams: vec![("s".into(), stream.to_vec())] })
}

/// Reads a trace to its end and looks at every value; how many items came out. A reader that gives more records than
/// the streams have bits is looping, and panics here.
pub fn walk(memory: &Memory) -> u64 {
    let Ok(opened) = Trace::from_files(memory) else { return 0 };
    let traces = [opened.value];
    let bits: u64 = memory.streams.iter().map(|(_, bytes)| bytes.len() as u64 * 8).sum();
    let mut reader = Reader::new(&traces);
    let mut items = 0;
    while let Some(item) = reader.next() {
        items += 1;
        if let Item::Record(record) = item {
            look(&record.packet_context);
            look(&record.common_context);
            look(&record.context);
            look(&record.payload);
        }
        assert!(items <= 2 * bits + 2, "more records than bits");
    }
    assert!(reader.caveats().all(|(_, caveat)| !caveat.to_string().is_empty()));
    items
}

fn look(fields: &Fields<'_>) -> usize {
    fields.all().map(|(name, _, value)| name.len() + look_at(&value)).sum()
}

fn look_at(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(elements) => elements.iter().map(|element| look_at(&element)).sum(),
        Value::Struct(fields) => look(fields),
        Value::Enum(_, label) => label.map_or(0, str::len),
        Value::Int(..) | Value::Bool(_) | Value::F32(_) | Value::F64(_) | Value::Absent => 1,
    }
}
