// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata as CTF 2 JSON fragments [spec/trace.md 4]. The packets are the same bytes as with CTF 1.8.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::class::{Base, EventClass, FIRST_THREAD, FieldClass, Number, StreamClass, StreamKind};
use super::names::{self, Named};
use super::{EnvValue, TraceMeta};

/// The name under which our attributes and identities stand.
const NAMESPACE: &str = "kymo";

/// The text of a `metadata` file in CTF 2: each fragment between a record separator (0x1E) and a newline.
pub fn metadata_ctf2(meta: &TraceMeta) -> Vec<u8> {
    let events = meta.streams.iter().map(|stream| stream.events.len()).sum::<usize>();
    let mut out = Vec::with_capacity(8192 + 1024 * events);
    let mut put = |fragment: &Value| {
        out.push(0x1E);
        // Writing a value to memory cannot fail.
        let _ = serde_json::to_writer(&mut out, fragment);
        out.push(b'\n');
    };
    put(&json!({ "type": "preamble", "version": 2, "uuid": meta.uuid }));
    put(&trace_class(meta));
    put(&clock_class(meta));
    for class in &meta.streams {
        put(&stream_class(meta, class));
        for event in &class.events {
            put(&event_class(event, class));
        }
    }
    out
}

fn trace_class(meta: &TraceMeta) -> Value {
    let environment: Map<String, Value> = meta
        .env
        .iter()
        .map(|(key, value)| match value {
            EnvValue::Text(text) => (key.clone(), json!(text)),
            EnvValue::Int(number) => (key.clone(), json!(number)),
            EnvValue::Unsigned(number) => (key.clone(), json!(number)),
        })
        .collect();
    json!({
        "type": "trace-class",
        "namespace": NAMESPACE,
        "uid": names::uuid_text(&meta.uuid),
        "environment": environment,
        "packet-header-field-class": structure(vec![
            member("magic", role(unsigned(32), "packet-magic-number")),
            member("uuid", json!({ "type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"] })),
            member("stream_id", role(unsigned(32), "data-stream-class-id")),
            member("stream_instance_id", role(unsigned(64), "data-stream-id")),
        ]),
    })
}

fn clock_class(meta: &TraceMeta) -> Value {
    let clock = &meta.clock;
    let (frequency, seconds, cycles) = clock.normalised();
    let mut class = json!({
        "type": "clock-class",
        "id": names::identifier(&clock.name),
        "namespace": NAMESPACE,
        "name": clock.name,
        "uid": names::uuid_text(&clock.uuid),
        "description": clock.description,
        "frequency": frequency,
        "precision": clock.precision_cycles,
        "offset-from-origin": { "seconds": seconds, "cycles": cycles },
    });
    if clock.absolute {
        class["origin"] = "unix-epoch".into();
    }
    class
}

fn stream_class(meta: &TraceMeta, class: &StreamClass) -> Value {
    let mut packet = vec![
        member("timestamp_begin", role(unsigned(64), "default-clock-timestamp")),
        member("timestamp_end", role(unsigned(64), "packet-end-default-clock-timestamp")),
        member("content_size", role(unsigned(64), "packet-content-length")),
        member("packet_size", role(unsigned(64), "packet-total-length")),
        member("packet_seq_num", role(unsigned(64), "packet-sequence-number")),
        member("events_discarded", role(unsigned(64), "discarded-event-record-counter-snapshot")),
        member("cpu_id", unsigned(32)),
    ];
    let mut record = match class.kind {
        StreamKind::User | StreamKind::Compact => {
            packet.extend([member("vpid", unsigned(32)), member("lane", unsigned(32)), member("procname", chars(16))]);
            match class.kind {
                StreamKind::Compact => {
                    packet.push(member(FIRST_THREAD, unsigned(32)));
                    Vec::new()
                }
                _ => vec![member("vtid", unsigned(32))],
            }
        }
        StreamKind::Kernel => vec![
            member("tid", number(Number::signed(32))),
            member("irq_flags", number(Number::hex(8))),
            member("preempt_count", unsigned(8)),
        ],
    };
    if class.kind != StreamKind::Compact {
        record.extend(contexts(class, "event-record-common-context"));
    }
    let header = match class.kind {
        StreamKind::Compact => compact_header(),
        _ => structure(vec![
            member("id", role(unsigned(16), "event-record-class-id")),
            member("timestamp", role(unsigned(48), "default-clock-timestamp")),
        ]),
    };
    let mut fragment = json!({
        "type": "data-stream-class",
        "id": class.kind.id(),
        "default-clock-class-id": names::identifier(&meta.clock.name),
        "packet-context-field-class": structure(packet),
        "event-record-header-field-class": header,
    });
    if !record.is_empty() {
        fragment["event-record-common-context-field-class"] = structure(record);
    }
    fragment
}

/// As in CTF 1.8, also its alignment: the 5 bits are the id, unless they choose a layout that has another one.
fn compact_header() -> Value {
    let bits = |bits: u8| {
        let mut class = unsigned(bits);
        class["alignment"] = 1.into();
        class
    };
    let mut id = role(bits(5), "event-record-class-id");
    id["mappings"] = json!({ "compact": [[0, 30]], "extended": [[31, 31]] });
    let compact = vec![member("timestamp", role(bits(27), "default-clock-timestamp"))];
    let extended = vec![
        member("id", role(unsigned(16), "event-record-class-id")),
        member("timestamp", role(bits(48), "default-clock-timestamp")),
    ];
    let option = |name: &str, range: [u8; 2], members| json!({ "name": name, "selector-field-ranges": [range], "field-class": structure(members) });
    let mut class = structure(vec![
        member("id", id),
        member(
            "v",
            json!({
                "type": "variant",
                "selector-field-location": { "origin": "event-record-header", "path": ["id"] },
                "options": [option("compact", [0, 30], compact), option("extended", [31, 31], extended)],
            }),
        ),
    ]);
    class["minimum-alignment"] = 8.into();
    class
}

/// Members for the contexts of a stream's records.
fn contexts(class: &StreamClass, origin: &str) -> Vec<Value> {
    names::named(&class.contexts).iter().flat_map(|named| field(named, origin)).collect()
}

fn event_class(event: &EventClass, stream: &StreamClass) -> Value {
    let members = names::named(&event.fields).iter().flat_map(|named| field(named, "event-record-payload")).collect();
    let mut class = json!({
        "type": "event-record-class",
        "id": event.id,
        "data-stream-class-id": stream.kind.id(),
        "name": event.name,
        "payload-field-class": structure(members),
    });
    if stream.has_own_contexts(event) {
        class["specific-context-field-class"] = structure(contexts(stream, "event-record-specific-context"));
    }
    if !event.file.is_empty() {
        class["attributes"] = json!({ NAMESPACE: { "file": event.file, "line": event.line } });
    }
    class
}

/// One member, or two where a length goes in front; `origin` is the structure that they stand in.
fn field(named: &Named<'_>, origin: &str) -> Vec<Value> {
    let location = || json!({ "origin": origin, "path": [named.length] });
    let class = match &named.field.class {
        FieldClass::Number(scalar) => number(*scalar),
        FieldClass::Enum { number: scalar, labels } => {
            let mut class = number(*scalar);
            class["mappings"] = mappings(labels, *scalar);
            class
        }
        FieldClass::Text => {
            json!({ "type": "dynamic-length-string", "length-field-location": location(), "encoding": "utf-8" })
        }
        FieldClass::Blob => json!({ "type": "dynamic-length-blob", "length-field-location": location() }),
        FieldClass::CString => json!({ "type": "null-terminated-string", "encoding": "utf-8" }),
        FieldClass::Chars { count } => chars(*count),
        FieldClass::Array { element, count } => {
            json!({ "type": "static-length-array", "length": count, "element-field-class": number(*element) })
        }
        FieldClass::Seq { element } => json!({
            "type": "dynamic-length-array",
            "length-field-location": location(),
            "element-field-class": number(*element),
        }),
    };
    let mut members = Vec::with_capacity(2);
    if !named.length.is_empty() {
        members.push(member(&named.length, unsigned(16)));
    }
    members.push(member(&named.name, class));
    members
}

/// Labels with their ranges. A label that stands twice in the description gets two ranges.
fn mappings(labels: &[(String, i64)], number: Number) -> Value {
    let mut ranges: Vec<(&str, Vec<Value>)> = Vec::with_capacity(labels.len());
    let mut place: HashMap<&str, usize> = HashMap::with_capacity(labels.len());
    for (label, value) in labels {
        let index = *place.entry(label).or_insert_with(|| {
            ranges.push((label, Vec::with_capacity(1)));
            ranges.len() - 1
        });
        let value = names::stored(*value, number);
        let value = i64::try_from(value).map_or_else(|_| json!(value as u64), |small| json!(small));
        ranges[index].1.push(json!([value, value]));
    }
    ranges.into_iter().map(|(label, list)| (label.to_owned(), Value::Array(list))).collect::<Map<_, _>>().into()
}

fn chars(count: u32) -> Value {
    json!({ "type": "static-length-string", "length": count, "encoding": "utf-8" })
}

fn structure(members: Vec<Value>) -> Value {
    json!({ "type": "structure", "member-classes": members })
}

fn member(name: &str, class: Value) -> Value {
    json!({ "name": name, "field-class": class })
}

fn role(mut class: Value, role: &str) -> Value {
    class["roles"] = json!([role]);
    class
}

fn unsigned(bits: u8) -> Value {
    integer(bits, false, Base::Decimal)
}

fn integer(bits: u8, signed: bool, base: Base) -> Value {
    let kind = if signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" };
    let mut class = json!({ "type": kind, "length": bits, "byte-order": "little-endian", "alignment": 8 });
    if base != Base::Decimal {
        class["preferred-display-base"] = json!(base.radix());
    }
    class
}

fn number(number: Number) -> Value {
    match number {
        Number::Int { bits, signed, base } => integer(bits, signed, base),
        Number::Float { bits } => json!({
            "type": "fixed-length-floating-point-number", "length": bits, "byte-order": "little-endian", "alignment": 8,
        }),
        Number::Bool => {
            json!({ "type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian", "alignment": 8 })
        }
    }
}
