//! Metadata as CTF 2 JSON fragments [spec/trace.md 4]. The packets are the same bytes as with CTF 1.8.

use std::collections::HashMap;

use kymo_abi::desc::{EnumDesc, FieldType, Scalar};
use serde_json::{Map, Value, json};

use super::plan::{self, Enums, Named, Shape};
use super::{EnvValue, EventClass, TraceMeta};

/// The name under which our attributes and identities stand.
const NAMESPACE: &str = "kymo";

/// The text of a `metadata` file in CTF 2: each fragment between a record separator (0x1E) and a newline.
pub fn metadata_ctf2(meta: &TraceMeta) -> Vec<u8> {
    let mut out = Vec::with_capacity(8192 + 1024 * meta.events.len());
    let mut put = |fragment: &Value| {
        out.push(0x1E);
        // Writing a value to memory cannot fail.
        let _ = serde_json::to_writer(&mut out, fragment);
        out.push(b'\n');
    };
    put(&json!({ "type": "preamble", "version": 2, "uuid": meta.uuid }));
    put(&trace_class(meta));
    put(&clock_class(meta));
    put(&stream_class(meta));
    let enums = Enums::new(&meta.enums);
    for event in &meta.events {
        put(&event_class(event, &enums));
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
        })
        .collect();
    json!({
        "type": "trace-class",
        "namespace": NAMESPACE,
        "uid": plan::uuid_text(&meta.uuid),
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
    json!({
        "type": "clock-class",
        "id": plan::identifier(&clock.name),
        "namespace": NAMESPACE,
        "name": clock.name,
        "uid": plan::uuid_text(&clock.uuid),
        "description": clock.description,
        "frequency": frequency,
        "precision": clock.precision_cycles,
        "origin": "unix-epoch",
        "offset-from-origin": { "seconds": seconds, "cycles": cycles },
    })
}

fn stream_class(meta: &TraceMeta) -> Value {
    json!({
        "type": "data-stream-class",
        "id": 0,
        "default-clock-class-id": plan::identifier(&meta.clock.name),
        "packet-context-field-class": structure(vec![
            member("timestamp_begin", role(unsigned(64), "default-clock-timestamp")),
            member("timestamp_end", role(unsigned(64), "packet-end-default-clock-timestamp")),
            member("content_size", role(unsigned(64), "packet-content-length")),
            member("packet_size", role(unsigned(64), "packet-total-length")),
            member("packet_seq_num", role(unsigned(64), "packet-sequence-number")),
            member("events_discarded", role(unsigned(64), "discarded-event-record-counter-snapshot")),
            member("cpu_id", unsigned(32)),
            member("vpid", unsigned(32)),
            member("lane", unsigned(32)),
            member("procname", json!({ "type": "static-length-string", "length": 16, "encoding": "utf-8" })),
        ]),
        "event-record-header-field-class": structure(vec![
            member("id", role(unsigned(16), "event-record-class-id")),
            member("timestamp", role(unsigned(48), "default-clock-timestamp")),
        ]),
        "event-record-common-context-field-class": structure(vec![member("vtid", unsigned(32))]),
    })
}

fn event_class(event: &EventClass, enums: &Enums<'_>) -> Value {
    let desc = &event.desc;
    let members = plan::named(desc).iter().flat_map(|named| field(named, enums)).collect();
    let mut class = json!({
        "type": "event-record-class",
        "id": event.id,
        "data-stream-class-id": 0,
        "name": format!("{}:{}", desc.provider, desc.name),
        "payload-field-class": structure(members),
    });
    if !desc.file.is_empty() {
        class["attributes"] = json!({ NAMESPACE: { "file": desc.file, "line": desc.line } });
    }
    class
}

/// One member, or two where a length goes in front.
fn field(named: &Named<'_>, enums: &Enums<'_>) -> Vec<Value> {
    let location = || json!({ "origin": "event-record-payload", "path": [named.length] });
    let class = match &named.field.ty {
        FieldType::Scalar(scalar) => number(*scalar),
        FieldType::Enum { scalar, name } => {
            let mut class = number(*scalar);
            if let Some((_, desc)) = enums.find(name, *scalar) {
                class["mappings"] = mappings(desc, *scalar);
            }
            class
        }
        FieldType::Str => {
            json!({ "type": "dynamic-length-string", "length-field-location": location(), "encoding": "utf-8" })
        }
        FieldType::Bytes => json!({ "type": "dynamic-length-blob", "length-field-location": location() }),
        FieldType::Array { element, count } => {
            json!({ "type": "static-length-array", "length": count, "element-field-class": number(*element) })
        }
        FieldType::Seq { element } => json!({
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
fn mappings(desc: &EnumDesc, scalar: Scalar) -> Value {
    let mut ranges: Vec<(&str, Vec<Value>)> = Vec::with_capacity(desc.labels.len());
    let mut place: HashMap<&str, usize> = HashMap::with_capacity(desc.labels.len());
    for (label, value) in &desc.labels {
        let index = *place.entry(label).or_insert_with(|| {
            ranges.push((label, Vec::with_capacity(1)));
            ranges.len() - 1
        });
        let value = plan::stored(*value, scalar);
        let value = i64::try_from(value).map_or_else(|_| json!(value as u64), |small| json!(small));
        ranges[index].1.push(json!([value, value]));
    }
    ranges.into_iter().map(|(label, list)| (label.to_owned(), Value::Array(list))).collect::<Map<_, _>>().into()
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
    integer(bits, false, false)
}

fn integer(bits: u8, signed: bool, hex: bool) -> Value {
    let kind = if signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" };
    let mut class = json!({ "type": kind, "length": bits, "byte-order": "little-endian", "alignment": 8 });
    if hex {
        class["preferred-display-base"] = json!(16);
    }
    class
}

fn number(scalar: Scalar) -> Value {
    match plan::shape(scalar) {
        Shape::Int { bits, signed, hex } => integer(bits, signed, hex),
        Shape::Float { bits } => json!({
            "type": "fixed-length-floating-point-number", "length": bits, "byte-order": "little-endian", "alignment": 8,
        }),
        Shape::Bool => {
            json!({ "type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian", "alignment": 8 })
        }
    }
}
