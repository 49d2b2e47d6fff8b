// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry point of the fuzzer and of the tests that mutate: text in, nothing out but the promise to return.

use crate::{
    Context, Event, Field, FieldPath, Insn, Label, Matcher, Record, Value, ValueType, compile, parse, program,
};

/// Events with a field of every kind.
pub fn events() -> Vec<Event> {
    let field = |name: &str, kind| Field { name: name.into(), kind };
    let int = |signed, bits| ValueType::Int { signed, bits };
    let label = |name: &str, low, high| Label { name: name.into(), low, high };
    let labels = [label("idle", 0, 0), label("moving", 1, 1), label("fault", 9, 12)];
    let state = ValueType::Enum { signed: false, bits: 8, labels: Some(labels.into()) };
    let event = |name: &str, fields| Event { name: name.into(), fields };
    let list = |count| ValueType::Array { element: int(true, 16).into(), count };
    vec![
        event(
            "motor:step",
            vec![
                field("axis", int(false, 32)),
                field("position", ValueType::Float { bits: 64 }),
                field("state", state),
                field("duration", int(false, 64)),
                field("ok", ValueType::Bool),
                field("vec", list(Some(3))),
                field("note", ValueType::Text),
                field("size", int(false, 16)),
                field("data", ValueType::Bytes),
                field("list", list(None)),
                field("gain", ValueType::Float { bits: 32 }),
                field("delta", int(true, 8)),
            ],
        ),
        event("req:begin", vec![field("id", int(false, 64))]),
        event("req:end", vec![field("id", int(false, 64)), field("status", int(true, 32))]),
        event("sched_switch", vec![field("prev_state", int(true, 64)), field("name", ValueType::Text)]),
        event(
            "other:any",
            vec![field("thing", ValueType::Any), field("pos", ValueType::Struct(vec![field("x", int(true, 32))]))],
        ),
    ]
}

struct Fixed;

impl Record for Fixed {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        match place.field % 6 {
            0 => Value::Int(2),
            1 => Value::Float(0.75),
            2 => Value::Label(1, Some("moving")),
            3 => Value::Bool(true),
            4 => Value::Text("absolute".into()),
            _ => Value::Absent,
        }
    }

    fn context(&self, context: Context) -> Value<'_> {
        if context.is_text() { Value::Text("prog".into()) } else { Value::Int(7) }
    }
}

/// Parses, prints, parses again, checks, compiles, decides. Panics where one of these disagrees with another; whether
/// the text was a filter.
pub fn text(text: &str) -> bool {
    let filter = match parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(!error.to_string().is_empty() && text.get(error.span.start..error.span.end).is_some());
            return false;
        }
    };
    let printed = filter.to_string();
    assert_eq!(parse(&printed).as_ref(), Ok(&filter), "{printed}");
    let checked = match filter.check(&events()) {
        Ok(checked) => checked,
        Err(error) => {
            assert!(error.to_string().lines().count() >= 3);
            return true;
        }
    };
    for event in 0..events().len() {
        checked.matches(event, &Fixed);
        if let Ok(program) = compile(&checked, event) {
            assert_eq!(program.check(), Ok(()), "{printed}");
            program.run(&[0; 64]);
            program.run(&[]);
        }
    }
    let mut matcher = Matcher::new(checked, 4);
    for event in 0..events().len() {
        matcher.matches(event, &Fixed);
    }
    true
}

/// Takes `bytes` for the length of a pool, the pool, a payload and instructions: what passes the check runs to its end.
pub fn program(bytes: &[u8]) {
    let Some((&[pool_bytes, payload_bytes], rest)) = bytes.split_first_chunk::<2>() else { return };
    let (pool, rest) = rest.split_at(usize::from(pool_bytes).min(rest.len()));
    let (payload, rest) = rest.split_at(usize::from(payload_bytes).min(rest.len()));
    let insns: Vec<Insn> =
        rest.chunks_exact(16).filter_map(|bytes| bytes.first_chunk()).map(Insn::from_bytes).collect();
    if program::check(&insns, payload.len() as u16, pool).is_ok() {
        program::run(&insns, pool, payload);
    }
    program::run(&insns, pool, payload);
}
