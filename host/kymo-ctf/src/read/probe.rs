// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points for fuzzing and for the tests that mutate traces: bytes in, nothing out but the promise to return.

use super::{Fields, Item, Memory, Reader, Slices, Trace, Value, parse_metadata};

/// Parses `bytes` as a metadata file of either format; whether it made sense.
pub fn metadata(bytes: &[u8]) -> bool {
    parse_metadata("metadata", bytes).is_ok()
}

/// Parses `bytes` as a metadata file of either format; the steps of work that it took, where it made sense.
pub fn metadata_steps(bytes: &[u8]) -> Option<u64> {
    super::metadata::parse("metadata", bytes).ok().map(|parsed| parsed.steps)
}

/// Parses `bytes` as the text of CTF 1.8's metadata; whether it made sense.
pub fn tsdl(bytes: &[u8]) -> bool {
    metadata(&[b"/* CTF 1.8 */\n", bytes].concat())
}

/// Parses `bytes`, which may lack what separates fragments, as CTF 2's metadata behind a preamble; whether it made
/// sense.
pub fn ctf2(bytes: &[u8]) -> bool {
    metadata(&[b"\x1E{\"type\":\"preamble\",\"version\":2}\n\x1E", bytes].concat())
}

/// Takes `bytes` for a byte that says how, and metadata of either format: in packets it means what it means without
/// them. Whether it made sense.
pub fn packets(bytes: &[u8]) -> bool {
    let Some((how, content)) = bytes.split_first() else { return false };
    let (is_big, part_bytes) = (how & 1 == 1, 1 + 8 * usize::from(how >> 1));
    let word = |word: u32| if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
    let mut packed = Vec::new();
    for part in content.chunks(part_bytes) {
        // Some bytes of padding behind the content.
        let (used, size) = (37 + part.len() as u32, 37 + part.len() as u32 + u32::from(how % 3));
        packed.extend(word(0x75D1_1D57));
        packed.extend([7; 16]);
        [0, used * 8, size * 8].iter().for_each(|number| packed.extend(word(*number)));
        packed.extend([0, 0, 0, 2, 0]);
        packed.extend(part);
        packed.resize(packed.len() + usize::from(how % 3), 0);
    }
    let makes_sense = metadata(&packed);
    let is_packed = [0x75D1_1D57u32.to_le_bytes(), 0x75D1_1D57u32.to_be_bytes()].iter().any(|m| content.starts_with(m));
    assert!(is_packed || makes_sense == metadata(content), "packets change the meaning");
    makes_sense
}

/// Takes `bytes` for what is behind the first word of packetised metadata; whether it made sense.
pub fn packet_heads(bytes: &[u8]) -> bool {
    metadata(&[&0x75D1_1D57u32.to_le_bytes()[..], bytes].concat())
}

/// Takes `bytes` for a stream of a trace whose metadata has every form of head and field, of either format.
pub fn stream(metadata: &[u8], bytes: &[u8]) -> u64 {
    walk(&Memory { metadata: metadata.to_vec(), streams: vec![("s".into(), bytes.to_vec())] })
}

/// Takes `bytes` for two bytes of metadata length, the metadata, and a stream; how many items came out.
pub fn trace(bytes: &[u8]) -> u64 {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return 0 };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (metadata, stream) = rest.split_at(length);
    walk(&Memory { metadata: metadata.to_vec(), streams: vec![("s".into(), stream.to_vec())] })
}

/// Reads a trace to its end and looks at every value; how many items came out. A reader that gives more records than
/// the streams have bits is looping, and panics here, as does a count that is another than the reader's.
pub fn walk(memory: &Memory) -> u64 {
    let Ok(opened) = Trace::from_files(memory) else { return 0 };
    let traces = [opened.value];
    let bits: u64 = memory.streams.iter().map(|(_, bytes)| bytes.len() as u64 * 8).sum();
    let mut reader = Reader::new(&traces);
    let mut items = 0;
    let mut counts = vec![0; traces[0].metadata.events.len()];
    while let Some(item) = reader.next() {
        items += 1;
        if let Item::Record(record) = item {
            counts[record.event_position] += 1;
            look(&record.packet_context);
            look(&record.common_context);
            look(&record.context);
            look(&record.payload);
        }
        assert!(items <= 2 * bits + 2, "more records than bits");
    }
    assert!(reader.caveats().all(|(_, caveat)| !caveat.to_string().is_empty()));
    let caveats: Vec<_> = reader.caveats().map(|(_, caveat)| caveat.clone()).collect();
    for (threads, part_bytes) in [(1, 1 << 20), (2, 64)] {
        let counted = traces[0].count_in_parts(threads, part_bytes);
        assert_eq!((&counted.events, &counted.caveats), (&counts, &caveats), "{threads} threads count something else");
        assert_eq!((counted.caveat_count, counted.damage_count), (reader.caveat_count(), reader.damage_count()));
    }
    check_slices(&traces, Slices::new(&traces, 64));
    check_slices(&traces, Slices::of_pieces(&traces, 64, 2));
    items
}

/// Panics where slices give something else than one reader of all.
fn check_slices(traces: &[Trace], slices: Option<Slices<'_>>) {
    let Some(mut slices) = slices else { return };
    let mut whole = Reader::new(traces);
    let (mut caveats, mut counts) = (Vec::new(), (0, 0));
    while let Some(slice) = slices.next() {
        let mut reader = Reader::of_slice(traces, &slice);
        while let Some(passed) = reader.pass() {
            assert_eq!((Some(passed), reader.stream()), (whole.pass(), whole.stream()), "a slice has something else");
        }
        caveats.extend(reader.caveats().map(|(_, caveat)| caveat.clone()));
        counts = (counts.0 + reader.caveat_count(), counts.1 + reader.damage_count());
    }
    assert_eq!(whole.pass(), None, "slices have less");
    assert_eq!(counts, (whole.caveat_count(), whole.damage_count()));
    let listed: Vec<_> = whole.caveats().map(|(_, caveat)| caveat.clone()).collect();
    assert_eq!(caveats[..listed.len()], listed);
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
        Value::Enum(number, labels) => labels.joined(*number).map_or(0, |text| text.len()),
        Value::Wide(number) => number.in_base().len() + number.labels().map_or(0, |labels| labels.len()),
        Value::Int(..) | Value::Bool(_) | Value::F32(_) | Value::F64(_) | Value::Absent => 1,
    }
}
