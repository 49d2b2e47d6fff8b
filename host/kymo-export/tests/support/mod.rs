// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this crate share.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod dat;

pub use kymo_testing::Random;

use kymo_ctf::read::{Item, Reader, Trace, Value};

/// Records as lines: time, CPU, thread, event, fields.
pub fn records(traces: &[Trace]) -> Vec<String> {
    let mut reader = Reader::new(traces);
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        let cpu = record.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        let tid = match record.common_context.get("tid") {
            Some(Value::Int(tid, _)) => tid.to_string(),
            _ => "-".to_owned(),
        };
        let mut line = format!("{} cpu {cpu} tid {tid} {}", record.ns, record.event.name);
        for (name, value) in record.payload.iter() {
            line += &match value {
                Value::Int(number, _) => format!(" {name}={number}"),
                Value::Text(text) => format!(" {name}={text}"),
                other => format!(" {name}={other:?}"),
            };
        }
        lines.push(line);
    }
    assert_eq!(reader.caveat_count(), 0, "{:?}", reader.caveats().collect::<Vec<_>>());
    lines
}
