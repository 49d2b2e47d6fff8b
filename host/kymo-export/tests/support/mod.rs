//! What the tests of this crate share.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod dat;

use kymo_ctf::read::{Item, Reader, Trace, Value};

/// Random numbers that a test can repeat.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

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
