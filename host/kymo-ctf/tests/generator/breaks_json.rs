// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of CTF 2 and how each is broken.

use kymo_testing::Random;

use super::breaks::{Break, Edit};

const fn set(name: &'static str, kind: &'static str, property: &'static str, value: &'static str) -> Break {
    Break { name, edit: Edit::Set(kind, property, value) }
}

const fn add(name: &'static str, kind: &'static str, property: &'static str, value: &'static str) -> Break {
    Break { name, edit: Edit::Add(kind, property, value) }
}

const fn other(name: &'static str, edit: Edit) -> Break {
    Break { name, edit }
}

/// A part of a stream class with a field in it, as a fragment of its own stream class.
macro_rules! stream_with {
    ($members:literal) => {
        concat!(
            r#"{"type":"data-stream-class","id":900,"event-record-common-context-field-class":{"type":"structure","member-classes":["#,
            $members,
            "]}}"
        )
    };
}

const BYTE: &str = r#"{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}"#;

fn unmarked(fragments: &mut [Vec<u8>], _: &mut Random) -> usize {
    fragments[0].remove(0);
    1
}

fn joined(fragments: &mut [Vec<u8>], random: &mut Random) -> usize {
    let index = 1 + random.below(fragments.len() - 1);
    fragments[index].remove(0);
    index
}

fn spoiled(fragments: &mut [Vec<u8>], random: &mut Random) -> usize {
    let index = random.below(fragments.len());
    let colon = fragments[index].windows(2).position(|two| two == b"\":");
    fragments[index][colon.expect("a property") + 1] = b' ';
    index + 1
}

fn torn(fragments: &mut [Vec<u8>], random: &mut Random) -> usize {
    let count = fragments.len();
    let last = &mut fragments[count - 1];
    last.truncate(2 + random.below(last.len() - 4));
    count
}

pub const BREAKS: &[Break] = &[
    // Fragments.
    other("no separator in front of the first", Edit::Bytes(unmarked)),
    other("no separator between two", Edit::Bytes(joined)),
    other("a fragment that is no JSON", Edit::Bytes(spoiled)),
    other("a fragment that stops in the middle", Edit::Bytes(torn)),
    other("no preamble", Edit::Remove(0)),
    other("a second preamble", Edit::Append(r#"{"type":"preamble","version":2}"#)),
    other("a fragment of no kind", Edit::Append(r#"{"type":"poem"}"#)),
    other("a fragment without a type", Edit::Append(r#"{"id":1}"#)),
    other("a fragment that is no object", Edit::Append("[1,2]")),
    set("version 3 of CTF 2", "preamble", "version", "3"),
    set("no version", "preamble", "version", ""),
    add("a UUID of 15 numbers", "preamble", "uuid", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]"),
    add("a UUID with a number above 255", "preamble", "uuid", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,256]"),
    add("an extension", "preamble", "extensions", r#"{"example.org":{"more":{}}}"#),
    // Properties.
    add("a property of no meaning of a preamble", "preamble", "colour", "1"),
    add("a property of no meaning of a stream", "data-stream-class", "colour", "1"),
    add("a property of no meaning of a class", "fixed-length-", "colour", "1"),
    add("a property of no meaning of a structure", "structure", "colour", "1"),
    set("a length that is text in JSON", "fixed-length-", "length", r#""8""#),
    set("a negative alignment", "fixed-length-", "alignment", "-8"),
    set("an alignment of 3 bits", "fixed-length-", "alignment", "3"),
    set("an alignment of 0 bits", "fixed-length-", "alignment", "0"),
    set("members that are an object", "structure", "member-classes", "{}"),
    set("a name that is a number", "event-record-class", "name", "5"),
    set("an id that is text", "event-record-class", "id", r#""5""#),
    set("a negative id", "event-record-class", "id", "-1"),
    set("roles that are text", "fixed-length-", "roles", r#""packet-magic-number""#),
    set("a role of no meaning", "fixed-length-unsigned-integer", "roles", r#"["nothing"]"#),
    other(
        "a role of another part",
        Edit::Append(stream_with!(
            r#"{"name":"a","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian",
        "roles":["event-record-class-id"]}}"#
        )),
    ),
    other(
        "a time without a default clock",
        Edit::Append(
            r#"{"type":"data-stream-class","id":900,"event-record-header-field-class":{"type":"structure","member-classes":[
        {"name":"t","field-class":{"type":"variable-length-unsigned-integer","roles":["default-clock-timestamp"]}}]}}"#,
        ),
    ),
    set("a clock without an id", "clock-class", "id", ""),
    set("an offset that is text", "clock-class", "offset-from-origin", r#"{"seconds":"5"}"#),
    set("a frequency that is text", "clock-class", "frequency", r#""5""#),
    set("a frequency of 0", "clock-class", "frequency", "0"),
    set("no frequency", "clock-class", "frequency", ""),
    add("an environment of a list", "trace-class", "environment", r#"{"a":[1]}"#),
    add("attributes that are a list", "event-record-class", "attributes", "[1]"),
    // Names.
    set("an alias that is not declared", "untyped", "field-class", r#""nowhere""#),
    set("a clock that is not declared in JSON", "data-stream-class", "default-clock-class-id", r#""nowhere""#),
    set("a stream that is not declared", "event-record-class", "data-stream-class-id", "4711"),
    other("an alias twice in JSON", Edit::Repeat("field-class-alias")),
    other("a clock twice in JSON", Edit::Repeat("clock-class")),
    other("a trace class twice", Edit::Repeat("trace-class")),
    other("a stream twice in JSON", Edit::Repeat("data-stream-class")),
    other("an event twice in JSON", Edit::Repeat("event-record-class")),
    other("a member twice in JSON", Edit::RepeatMember),
    // Field classes.
    set("a class of no kind", "fixed-length-", "type", r#""matrix""#),
    set("a class without a length", "fixed-length-", "length", ""),
    set("a class without a byte order", "fixed-length-", "byte-order", ""),
    set("a byte order of no kind", "fixed-length-", "byte-order", r#""pdp""#),
    add("a bit order of no kind", "fixed-length-", "bit-order", r#""both""#),
    set("a length of 0", "fixed-length-", "length", "0"),
    set("a float of 33 bits", "floating-point", "length", "33"),
    set("a base of 12 in JSON", "fixed-length-unsigned-integer", "preferred-display-base", "12"),
    set("a range backwards in JSON", "fixed-length-", "mappings", r#"{"a":[[5,4]]}"#),
    set("a mapping below 0", "fixed-length-unsigned-integer", "mappings", r#"{"a":[[-1,2]]}"#),
    set("a range of three", "fixed-length-", "mappings", r#"{"a":[[1,2,3]]}"#),
    set("a range of text", "fixed-length-", "mappings", r#"{"a":[["x","y"]]}"#),
    set("a bit map without flags", "bit-map", "flags", ""),
    set("an encoding of no kind", "string", "encoding", r#""ebcdic""#),
    set("an element without a class", "length-array", "element-field-class", ""),
    set("an array without a length", "static-length-array", "length", ""),
    set("a location without a path", "dynamic-length", "length-field-location", "{}"),
    set("a location of an empty path", "dynamic-length", "length-field-location", r#"{"path":[]}"#),
    set("a location of no field", "dynamic-length", "length-field-location", r#"{"path":["nowhere"]}"#),
    set("a location of no origin", "dynamic-length", "length-field-location", r#"{"origin":"nowhere","path":["a"]}"#),
    set("a variant without a selector", "variant", "selector-field-location", ""),
    set("a variant without options in JSON", "variant", "options", ""),
    set("a variant of no options", "variant", "options", "[]"),
    set("an optional without a class", "optional", "field-class", ""),
    set("a member without a class", "untyped", "field-class", ""),
    set("a part that is no structure in JSON", "data-stream-class", "event-record-header-field-class", BYTE),
    other(
        "a text of half a character",
        Edit::Append(stream_with!(
            r#"{"name":"a","field-class":{"type":"static-length-string","length":3,"encoding":"utf-16le"}}"#
        )),
    ),
    other(
        "an optional without ranges",
        Edit::Append(stream_with!(
            r#"{"name":"s","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}},
        {"name":"o","field-class":{"type":"optional","selector-field-location":{"path":["s"]},"field-class":{"type":"null-terminated-string"}}}"#
        )),
    ),
    other(
        "an optional with ranges of a boolean",
        Edit::Append(stream_with!(
            r#"{"name":"s","field-class":{"type":"fixed-length-boolean","length":8,"byte-order":"little-endian"}},
        {"name":"o","field-class":{"type":"optional","selector-field-location":{"path":["s"]},"selector-field-ranges":[[1,1]],
        "field-class":{"type":"null-terminated-string"}}}"#
        )),
    ),
    other(
        "a length that is text of a string",
        Edit::Append(stream_with!(
            r#"{"name":"s","field-class":{"type":"null-terminated-string"}},
        {"name":"o","field-class":{"type":"dynamic-length-string","length-field-location":{"path":["s"]}}}"#
        )),
    ),
    other(
        "a length with a sign in JSON",
        Edit::Append(stream_with!(
            r#"{"name":"s","field-class":{"type":"fixed-length-signed-integer","length":8,"byte-order":"little-endian"}},
        {"name":"o","field-class":{"type":"dynamic-length-string","length-field-location":{"path":["s"]}}}"#
        )),
    ),
    other(
        "options whose ranges overlap",
        Edit::Append(stream_with!(
            r#"{"name":"s","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}},
        {"name":"v","field-class":{"type":"variant","selector-field-location":{"path":["s"]},"options":[
        {"name":"a","selector-field-ranges":[[0,5]],"field-class":{"type":"null-terminated-string"}},
        {"name":"b","selector-field-ranges":[[5,9]],"field-class":{"type":"null-terminated-string"}}]}}"#
        )),
    ),
    other(
        "two options of one name",
        Edit::Append(stream_with!(
            r#"{"name":"s","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}},
        {"name":"v","field-class":{"type":"variant","selector-field-location":{"path":["s"]},"options":[
        {"name":"a","selector-field-ranges":[[0,4]],"field-class":{"type":"null-terminated-string"}},
        {"name":"a","selector-field-ranges":[[5,9]],"field-class":{"type":"null-terminated-string"}}]}}"#
        )),
    ),
    set(
        "cycles of an offset that are a second",
        "clock-class",
        "offset-from-origin",
        r#"{"cycles":4611686018427387904}"#,
    ),
];
