// SPDX-License-Identifier: MIT OR Apache-2.0
//! A case's metadata as CTF 2: fragments of JSON, some of whose field classes stand behind aliases.

use kymo_testing::Random;
use serde_json::{Map, Value, json};

use super::features::Features;
use super::trace::{Case, Clock, EnvVal, Event, Stream};
use super::types::{Encoding, Int, Label, Len, Range, Reference, Role, Type};

/// The fragments. What they use is noted among the case's features.
pub fn fragments(case: &mut Case, seed: u64) -> Vec<Value> {
    let features = std::mem::take(&mut case.features);
    let mut writer = Writer { random: Random(seed), features, fragments: Vec::new(), names: 0 };
    writer.document(case);
    case.features = writer.features;
    writer.fragments
}

/// The file. `has_commas`: some objects have a comma behind the last element.
pub fn text(fragments: &[Value], has_commas: bool) -> Vec<u8> {
    let comma = |text: String| if has_commas { text.replace("\"}", "\",}") } else { text };
    fragments.iter().flat_map(|fragment| format!("\u{1E}{}\n", comma(fragment.to_string())).into_bytes()).collect()
}

struct Writer {
    random: Random,
    features: Features,
    fragments: Vec<Value>,
    names: u64,
}

impl Writer {
    fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn document(&mut self, case: &Case) {
        let mut preamble = json!({ "type": "preamble", "version": 2 });
        if let Some(id) = case.uuid {
            preamble["uuid"] = json!(id);
        }
        self.fragments.push(preamble);
        if let Some(clock) = &case.clock {
            let fragment = self.clock(clock);
            self.fragments.push(fragment);
        }
        self.trace(case);
        for stream in &case.streams {
            self.stream(stream, case.clock.as_ref());
            for event in &stream.events {
                self.event(stream, event);
            }
        }
    }

    fn attributes(&mut self, object: &mut Value) {
        if self.one_in(12) && self.features.note("attributes") {
            object["attributes"] = json!({ "example.org": { "note": [1, null, "x"] } });
        }
    }

    fn trace(&mut self, case: &Case) {
        let mut trace = json!({ "type": "trace-class" });
        if let Some(header) = &case.header {
            trace["packet-header-field-class"] = self.class(header);
        }
        let env = case.env.iter().map(|(name, value)| match value {
            EnvVal::Int(value) => (name.clone(), json!(value)),
            EnvVal::Text(text) => (name.clone(), json!(text)),
        });
        let env: Map<String, Value> = env.collect();
        if !env.is_empty() {
            trace["environment"] = Value::Object(env);
        }
        if self.one_in(3) {
            trace["name"] = json!("a trace");
        }
        self.attributes(&mut trace);
        self.fragments.push(trace);
    }

    fn clock(&mut self, clock: &Clock) -> Value {
        let mut object = json!({ "type": "clock-class", "id": "the clock", "name": clock.name,
            "frequency": clock.frequency, "precision": clock.precision,
            "offset-from-origin": { "seconds": clock.offset_s, "cycles": clock.offset } });
        match (clock.absolute, self.one_in(2)) {
            (true, _) => object["origin"] = json!("unix-epoch"),
            (false, true) => object["origin"] = json!({ "name": "boot", "uid": "of this machine" }),
            (false, false) => {}
        }
        if let Some(uuid) = clock.uuid {
            object["uid"] = json!(super::tsdl::uuid(uuid));
        }
        if !clock.description.is_empty() {
            object["description"] = json!(clock.description);
        }
        self.attributes(&mut object);
        object
    }

    fn stream(&mut self, stream: &Stream, clock: Option<&Clock>) {
        let mut object = json!({ "type": "data-stream-class", "id": stream.id });
        if clock.is_some() {
            object["default-clock-class-id"] = json!("the clock");
        }
        for (name, ty) in [
            ("packet-context-field-class", &stream.context),
            ("event-record-header-field-class", &stream.header),
            ("event-record-common-context-field-class", &stream.common),
        ] {
            if let Some(ty) = ty {
                object[name] = self.class(ty);
            }
        }
        self.attributes(&mut object);
        self.fragments.push(object);
    }

    fn event(&mut self, stream: &Stream, event: &Event) {
        let mut object = json!({ "type": "event-record-class", "data-stream-class-id": stream.id, "id": event.id,
            "name": event.name });
        for (name, ty) in [("specific-context-field-class", &event.specific), ("payload-field-class", &event.payload)] {
            if let Some(ty) = ty {
                object[name] = self.class(ty);
            }
        }
        self.attributes(&mut object);
        self.fragments.push(object);
    }

    /// A field class, or the name of an alias, which is declared in front of the fragment.
    fn class(&mut self, ty: &Type) -> Value {
        let mut object = match ty {
            Type::Struct(fields, least) => {
                let members: Vec<Value> = fields
                    .iter()
                    .map(|field| json!({ "name": field.name, "field-class": self.class(&field.ty) }))
                    .collect();
                let mut object = json!({ "type": "structure" });
                if !members.is_empty() {
                    object["member-classes"] = json!(members);
                }
                if *least > 1 {
                    object["minimum-alignment"] = json!(least);
                }
                object
            }
            Type::List { element, len, align } => {
                let mut object = json!({ "element-field-class": self.class(element) });
                if *align > 1 {
                    object["minimum-alignment"] = json!(align);
                }
                self.sized(object, "array", len)
            }
            Type::Variant { tag, options } => {
                let options: Vec<Value> = options
                    .iter()
                    .map(|option| {
                        json!({ "name": option.name, "selector-field-ranges": pairs(&option.ranges),
                            "field-class": self.class(&option.ty) })
                    })
                    .collect();
                json!({ "type": "variant", "selector-field-location": self.location(tag), "options": options })
            }
            Type::Optional { selector, ranges, inner } => {
                let mut object = json!({ "type": "optional", "selector-field-location": self.location(selector),
                    "field-class": self.class(inner) });
                if let Some(ranges) = ranges {
                    object["selector-field-ranges"] = pairs(ranges);
                }
                object
            }
            leaf => self.leaf(leaf),
        };
        self.attributes(&mut object);
        if !ty.has_references() && self.one_in(5) && self.features.note("field-class-alias") {
            self.names += 1;
            let name = format!("alias {}", self.names);
            self.fragments.push(json!({ "type": "field-class-alias", "name": name, "field-class": object }));
            return json!(name);
        }
        object
    }

    fn leaf(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Int(int) => {
                let mut object = self.bits(int, whole(int.signed));
                if int.base != 10 || self.one_in(4) {
                    object["preferred-display-base"] = json!(int.base);
                }
                roles(&mut object, int.role);
                object
            }
            Type::Enum(int, labels) => {
                let mut object = self.bits(int, whole(int.signed));
                object["mappings"] = mappings(labels);
                roles(&mut object, int.role);
                object
            }
            Type::Float { bits, big, align } => {
                self.bits(&Int::plain(*bits, *align, *big), "fixed-length-floating-point-number")
            }
            Type::Leb { signed, role } => {
                let kind = if *signed { "variable-length-signed-integer" } else { "variable-length-unsigned-integer" };
                let mut object = json!({ "type": kind });
                roles(&mut object, *role);
                object
            }
            Type::Bool(int) => self.bits(int, "fixed-length-boolean"),
            Type::Bits(int) => self.bits(int, "fixed-length-bit-array"),
            Type::BitMap(int, flags) => {
                let mut object = self.bits(int, "fixed-length-bit-map");
                object["flags"] = mappings(flags);
                object
            }
            Type::Text(encoding) => encoded(json!({ "type": "null-terminated-string" }), *encoding),
            Type::Chars(len, encoding) => {
                let object = self.sized(json!({}), "string", len);
                encoded(object, *encoding)
            }
            Type::Blob(len) => {
                let media = if self.one_in(2) { json!({ "media-type": "image/png" }) } else { json!({}) };
                self.sized(media, "blob", len)
            }
            Type::Uuid => json!({ "type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"] }),
            other => unreachable!("{other:?} is no leaf"),
        }
    }

    fn bits(&mut self, int: &Int, kind: &str) -> Value {
        let mut object = json!({ "type": kind, "length": int.bits,
            "byte-order": if int.big { "big-endian" } else { "little-endian" } });
        if int.align > 1 || self.one_in(3) {
            object["alignment"] = json!(int.align);
        }
        if int.flipped || self.one_in(6) {
            object["bit-order"] = json!(if int.big ^ int.flipped { "last-to-first" } else { "first-to-last" });
        }
        object
    }

    fn sized(&mut self, mut object: Value, kind: &str, len: &Len) -> Value {
        match len {
            Len::Fixed(count) => {
                object["type"] = json!(format!("static-length-{kind}"));
                object["length"] = json!(count);
            }
            Len::Of(reference) => {
                object["type"] = json!(format!("dynamic-length-{kind}"));
                object["length-field-location"] = self.location(reference);
            }
        }
        object
    }

    fn location(&mut self, reference: &Reference) -> Value {
        let name = reference.path.last();
        let is_far = reference.path.len() > 1;
        match reference.up {
            Some(0)
                if reference.is_inside
                    || is_far && !self.features.note("location-in-an-open-structure")
                    || !self.one_in(4) =>
            {
                json!({ "path": [name] })
            }
            Some(up) if reference.is_inside => {
                let path: Vec<Value> = (0..up).map(|_| Value::Null).chain([json!(name)]).collect();
                json!({ "path": path })
            }
            _ => json!({ "origin": reference.part.names().1, "path": reference.path }),
        }
    }
}

fn whole(signed: bool) -> &'static str {
    if signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" }
}

fn roles(object: &mut Value, role: Option<Role>) {
    if let Some(role) = role {
        object["roles"] = json!([role.names().1]);
    }
}

fn mappings(labels: &[Label]) -> Value {
    let mappings: Map<String, Value> = labels.iter().map(|label| (label.name.clone(), pairs(&label.ranges))).collect();
    Value::Object(mappings)
}

fn pairs(ranges: &[Range]) -> Value {
    let pair = |&(low, high): &Range| json!([number(low), number(high)]);
    Value::Array(ranges.iter().map(pair).collect())
}

/// JSON has integers of any size, serde_json those of 64 bits.
fn number(value: i128) -> Value {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => json!(value),
        (_, Ok(value)) => json!(value),
        _ => json!(value as f64),
    }
}

fn encoded(mut object: Value, encoding: Encoding) -> Value {
    object["encoding"] = json!(match encoding {
        Encoding::Utf8 => "utf-8",
        Encoding::Utf16 { big: false } => "utf-16le",
        Encoding::Utf16 { big: true } => "utf-16be",
        Encoding::Utf32 { big: false } => "utf-32le",
        Encoding::Utf32 { big: true } => "utf-32be",
    });
    object
}
