// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of CTF 2 whose lengths and selectors are found along field locations of every kind, with what is in them.

use kymo_ctf::read::Memory;
use serde_json::{Value, json};

/// A trace of one event `e`, whose records are nothing but their payload.
pub fn of_payload(members: &[Value], stream: &[u8]) -> Memory {
    let fragments = [
        json!({ "type": "preamble", "version": 2 }),
        json!({ "type": "data-stream-class" }),
        json!({ "type": "event-record-class", "name": "e", "payload-field-class": structure(members) }),
    ];
    let metadata = fragments.iter().flat_map(|fragment| format!("\u{1E}{fragment}\n").into_bytes()).collect();
    Memory { metadata, streams: vec![("s".into(), stream.to_vec())] }
}

pub fn member(name: &str, class: Value) -> Value {
    json!({ "name": name, "field-class": class })
}

pub fn structure(members: &[Value]) -> Value {
    json!({ "type": "structure", "member-classes": members })
}

pub fn int(bits: u32) -> Value {
    json!({ "type": "fixed-length-unsigned-integer", "length": bits, "byte-order": "little-endian" })
}

pub fn nul_text() -> Value {
    json!({ "type": "null-terminated-string" })
}

/// A text whose length lies along `path`, from the structure around it.
pub fn text(path: Value) -> Value {
    json!({ "type": "dynamic-length-string", "length-field-location": { "path": path } })
}

/// The same from the payload.
pub fn text_from_payload(path: Value) -> Value {
    json!({ "type": "dynamic-length-string",
        "length-field-location": { "origin": "event-record-payload", "path": path } })
}

/// An array with its length along `path`.
pub fn list(path: Value, element: Value) -> Value {
    json!({ "type": "dynamic-length-array", "length-field-location": { "path": path }, "element-field-class": element })
}

pub fn array(length: u32, element: Value) -> Value {
    json!({ "type": "static-length-array", "length": length, "element-field-class": element })
}

/// A variant by `sel`: its first option for 0, and so on.
pub fn variant(options: &[Value]) -> Value {
    let option =
        |(value, class): (usize, &Value)| json!({ "selector-field-ranges": [[value, value]], "field-class": class });
    let options: Vec<Value> = options.iter().enumerate().map(option).collect();
    json!({ "type": "variant", "selector-field-location": { "path": ["sel"] }, "options": options })
}

/// Through several parents, and back and forth. babeltrace2 2.1.2 takes two `null` for none, and refuses it.
pub fn through_parents() -> (Memory, Vec<&'static str>) {
    let deep = structure(&[
        member("s", text(json!([null, null, "len"]))),
        member("t", list(json!([null, "side", null, "side", "x"]), int(8))),
    ]);
    let side = structure(&[member("x", int(8))]);
    let inner = structure(&[member("side", side), member("deep", deep)]);
    let memory = of_payload(&[member("len", int(8)), member("inner", inner)], &[2, 3, b'x', b'y', 7, 8, 9]);
    (memory, vec!["len=2 inner={side={x=3} deep={s=\"xy\" t=[7,8,9]}}"])
}

/// Each: what it is, the trace, and its records as `shown` has them.
pub fn located() -> Vec<(&'static str, Memory, Vec<&'static str>)> {
    let element = structure(&[member("k", int(8)), member("text", text(json!(["k"])))]);
    let nested = structure(&[member("n", int(8)), member("text", text_from_payload(json!(["all", "n"])))]);
    let deep = structure(&[
        member("s", text(json!([null, "m"]))),
        member("t", list(json!([null, "m"]), int(8))),
        member("u", text(json!([null, "side", "x"]))),
    ]);
    let side = structure(&[member("x", int(8))]);
    let inner = structure(&[member("m", int(8)), member("side", side), member("deep", deep)]);
    let lemon = structure(&[member("lemon", int(8)), member("text", text_from_payload(json!(["v", "lemon"])))]);
    let blob = json!({ "type": "dynamic-length-blob",
        "length-field-location": { "origin": "event-record-payload", "path": ["glass", "eagle"] } });
    let eagles = [
        structure(&[member("eagle", int(16)), member("road", nul_text())]),
        structure(&[member("nuance", nul_text()), member("eagle", int(8))]),
        structure(&[member("eagle", json!({ "type": "variable-length-unsigned-integer" })), member("lock", blob)]),
    ];
    let sel = || member("sel", int(8));
    vec![
        (
            "in the same element of an array",
            of_payload(
                &[member("n", int(8)), member("list", list(json!(["n"]), element)), member("tail", int(8))],
                &[2, 1, b'a', 2, b'b', b'c', 9],
            ),
            vec!["n=2 list=[{k=1 text=\"a\"},{k=2 text=\"bc\"}] tail=9"],
        ),
        (
            "in the element that is being decoded, from the payload, through two arrays",
            of_payload(&[member("all", array(2, array(2, nested)))], &[1, b'a', 0, 2, b'b', b'c', 1, b'd']),
            vec!["all=[[{n=1 text=\"a\"},{n=0 text=\"\"}],[{n=2 text=\"bc\"},{n=1 text=\"d\"}]]"],
        ),
        (
            "in parents, and in what lies beside them",
            of_payload(&[member("inner", inner)], &[1, 3, b'x', 7, b'a', b'b', b'c']),
            vec!["inner={m=1 side={x=3} deep={s=\"x\" t=[7] u=\"abc\"}}"],
        ),
        (
            "in the option of a variant that is being decoded",
            of_payload(&[sel(), member("v", variant(&[nul_text(), lemon]))], &[1, 2, b'o', b'k', 0, b'h', 0]),
            vec!["sel=1 v={lemon=2 text=\"ok\"}", "sel=0 v=\"h\""],
        ),
        (
            "a variant of integers",
            of_payload(
                &[
                    sel(),
                    member("glass", variant(&[int(8), int(16), int(32)])),
                    member("margin", text_from_payload(json!(["glass"]))),
                ],
                &[0, 2, b'a', b'b', 1, 1, 0, b'c', 2, 3, 0, 0, 0, b'd', b'e', b'f'],
            ),
            vec!["sel=0 glass=2 margin=\"ab\"", "sel=1 glass=1 margin=\"c\"", "sel=2 glass=3 margin=\"def\""],
        ),
        (
            "a member of each of a variant's options",
            of_payload(
                &[
                    sel(),
                    member("glass", variant(&eagles)),
                    member("margin", text_from_payload(json!(["glass", "eagle"]))),
                ],
                &[0, 2, 0, b'r', 0, b'x', b'y', 1, b'n', 0, 1, b'z', 2, 3, 1, 2, 3, b'u', b'v', b'w'],
            ),
            vec![
                "sel=0 glass={eagle=2 road=\"r\"} margin=\"xy\"",
                "sel=1 glass={nuance=\"n\" eagle=1} margin=\"z\"",
                "sel=2 glass={eagle=3 lock=010203} margin=\"uvw\"",
            ],
        ),
    ]
}
