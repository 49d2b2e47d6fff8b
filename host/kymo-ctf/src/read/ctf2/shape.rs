// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which properties the objects of CTF 2 have, and of which JSON type. What is unknown or of another type is refused:
//! it may change what bits mean.

use serde_json::{Map, Value};

/// What a property may be.
#[derive(Clone, Copy, Debug)]
enum Is {
    Text,
    /// 0 to 2^64 - 1.
    Unsigned,
    /// -2^63 to 2^63 - 1.
    Signed,
    Array,
    Object,
    /// An alias, or an object.
    FieldClass,
    /// Looked at where it is used.
    Anything,
}

impl Is {
    fn fits(self, value: &Value) -> bool {
        match self {
            Is::Text => value.is_string(),
            Is::Unsigned => value.is_u64(),
            Is::Signed => value.is_i64(),
            Is::Array => value.is_array(),
            Is::Object => value.is_object(),
            Is::FieldClass => value.is_string() || value.is_object(),
            Is::Anything => true,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Is::Text => "a text",
            Is::Unsigned => "a number from 0 to 2^64 - 1",
            Is::Signed => "a number from -2^63 to 2^63 - 1",
            Is::Array => "an array",
            Is::Object => "an object",
            Is::FieldClass => "a field class, or the name of an alias",
            Is::Anything => "something",
        }
    }
}

type Properties = &'static [(&'static str, Is)];

/// What every object has.
const ALL: Properties = &[("type", Is::Text), ("attributes", Is::Object), ("extensions", Is::Object)];
const NAMES: Properties = &[("namespace", Is::Text), ("name", Is::Text), ("uid", Is::Text)];
const BITS: Properties =
    &[("length", Is::Unsigned), ("byte-order", Is::Text), ("bit-order", Is::Text), ("alignment", Is::Unsigned)];
const NUMBERS: Properties = &[("preferred-display-base", Is::Unsigned), ("mappings", Is::Object)];
const ROLES: Properties = &[("roles", Is::Array)];
const LENGTH: Properties = &[("length", Is::Unsigned)];
const LENGTH_OF: Properties = &[("length-field-location", Is::Object)];
const ARRAYS: Properties = &[("element-field-class", Is::FieldClass), ("minimum-alignment", Is::Unsigned)];
const ENCODED: Properties = &[("encoding", Is::Text)];
const MEDIA: Properties = &[("media-type", Is::Text)];

/// Of a fragment. Empty where there is no such type.
fn of_fragment(kind: &str) -> &'static [Properties] {
    match kind {
        "preamble" => &[ALL, &[("version", Is::Anything), ("uuid", Is::Array)]],
        "field-class-alias" => &[ALL, &[("name", Is::Text), ("field-class", Is::FieldClass)]],
        "trace-class" => &[ALL, NAMES, &[("environment", Is::Object), ("packet-header-field-class", Is::FieldClass)]],
        "clock-class" => &[
            ALL,
            NAMES,
            &[
                ("id", Is::Text),
                ("frequency", Is::Unsigned),
                ("description", Is::Text),
                ("offset-from-origin", Is::Object),
                ("origin", Is::Anything),
                ("precision", Is::Unsigned),
                ("accuracy", Is::Unsigned),
            ],
        ],
        "data-stream-class" => &[
            ALL,
            NAMES,
            &[
                ("id", Is::Unsigned),
                ("default-clock-class-id", Is::Text),
                ("packet-context-field-class", Is::FieldClass),
                ("event-record-header-field-class", Is::FieldClass),
                ("event-record-common-context-field-class", Is::FieldClass),
            ],
        ],
        "event-record-class" => &[
            ALL,
            NAMES,
            &[
                ("data-stream-class-id", Is::Unsigned),
                ("id", Is::Unsigned),
                ("specific-context-field-class", Is::FieldClass),
                ("payload-field-class", Is::FieldClass),
            ],
        ],
        _ => &[],
    }
}

/// Of a field class. Empty where there is no such type.
fn of_class(kind: &str) -> &'static [Properties] {
    match kind {
        "fixed-length-bit-array" | "fixed-length-boolean" | "fixed-length-floating-point-number" => &[ALL, BITS],
        "fixed-length-bit-map" => &[ALL, BITS, &[("flags", Is::Object)]],
        "fixed-length-unsigned-integer" => &[ALL, BITS, NUMBERS, ROLES],
        "fixed-length-signed-integer" => &[ALL, BITS, NUMBERS],
        "variable-length-unsigned-integer" => &[ALL, NUMBERS, ROLES],
        "variable-length-signed-integer" => &[ALL, NUMBERS],
        "null-terminated-string" => &[ALL, ENCODED],
        "static-length-string" => &[ALL, ENCODED, LENGTH],
        "dynamic-length-string" => &[ALL, ENCODED, LENGTH_OF],
        "static-length-blob" => &[ALL, MEDIA, ROLES, LENGTH],
        "dynamic-length-blob" => &[ALL, MEDIA, LENGTH_OF],
        "static-length-array" => &[ALL, ARRAYS, LENGTH],
        "dynamic-length-array" => &[ALL, ARRAYS, LENGTH_OF],
        "structure" => &[ALL, &[("member-classes", Is::Array), ("minimum-alignment", Is::Unsigned)]],
        "variant" => &[ALL, &[("options", Is::Array), ("selector-field-location", Is::Object)]],
        "optional" => &[
            ALL,
            &[
                ("field-class", Is::FieldClass),
                ("selector-field-location", Is::Object),
                ("selector-field-ranges", Is::Array),
            ],
        ],
        _ => &[],
    }
}

/// Of what has no type.
const MEMBER: &[Properties] =
    &[&[("name", Is::Text), ("field-class", Is::FieldClass), ("attributes", Is::Object), ("extensions", Is::Object)]];
const OPTION: &[Properties] = &[MEMBER[0], &[("selector-field-ranges", Is::Array)]];
const LOCATION: &[Properties] = &[&[("origin", Is::Text), ("path", Is::Array)]];
const CLOCK_ORIGIN: &[Properties] = &[NAMES];
const OFFSET: &[Properties] = &[&[("seconds", Is::Signed), ("cycles", Is::Unsigned)]];

/// What a word that the specification does not have any more is of.
pub(super) const DRAFTS: &str = "a draft of CTF 2, which is another format: write the trace again with a tool that keeps \
                                 to the specification of 2024";

/// Words of drafts of the specification, which tools wrote while they were drafts: LTTng, yactfr and Trace Compass from
/// 2022 to 2023.
const OF_DRAFTS: &[&str] = &[
    "fixed-length-unsigned-enumeration",
    "fixed-length-signed-enumeration",
    "variable-length-unsigned-enumeration",
    "variable-length-signed-enumeration",
    "user-attributes",
    "default-clock-class-name",
    "origin-is-unix-epoch",
    "offset",
    "uuid",
];

/// Whether a property or a type is known from drafts of the specification only.
pub(super) fn is_of_drafts(word: &str) -> bool {
    OF_DRAFTS.contains(&word)
}

/// Drafts had a field location as an array, with the origin in front.
fn is_location_of_drafts(name: &str, value: &Value) -> bool {
    name.ends_with("-field-location") && value.is_array()
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'k> {
    Fragment(&'k str),
    Class(&'k str),
    Member,
    Option,
    Location,
    Offset,
    ClockOrigin,
}

impl Shape<'_> {
    fn properties(self) -> &'static [Properties] {
        match self {
            Shape::Fragment(kind) => of_fragment(kind),
            Shape::Class(kind) => of_class(kind),
            Shape::Member => MEMBER,
            Shape::Option => OPTION,
            Shape::Location => LOCATION,
            Shape::Offset => OFFSET,
            Shape::ClockOrigin => CLOCK_ORIGIN,
        }
    }

    fn text(self) -> String {
        match self {
            Shape::Fragment(kind) | Shape::Class(kind) => format!("`{kind}`"),
            Shape::Member => "a member class".into(),
            Shape::Option => "an option".into(),
            Shape::Location => "a field location".into(),
            Shape::Offset => "`offset-from-origin`".into(),
            Shape::ClockOrigin => "`origin`".into(),
        }
    }

    /// Refuses properties that it does not have, or that are of another type. A type that is not known is refused where
    /// it is used.
    pub(super) fn check(self, object: &Map<String, Value>) -> Result<(), String> {
        let properties = self.properties();
        if properties.is_empty() {
            return Ok(());
        }
        for (name, value) in object {
            let known = properties.iter().flat_map(|some| some.iter()).find(|(known, _)| known == name);
            let Some((_, is)) = known else {
                return Err(match is_of_drafts(name) {
                    true => format!("`{name}` of {} is of {}", self.text(), DRAFTS),
                    false => format!("{} has no property `{name}`", self.text()),
                });
            };
            if is_location_of_drafts(name, value) {
                return Err(format!("`{name}` of {} as an array is of {}", self.text(), DRAFTS));
            }
            if !is.fits(value) {
                return Err(format!("`{name}` of {} must be {}", self.text(), is.text()));
            }
        }
        Ok(())
    }
}
