// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that a scene keeps: bounded, with copies of their values.

use std::collections::VecDeque;

use crate::event::Event;
use crate::record::{Class, Head, Record, ValueKind};

/// Records before the stretch that are kept, and as many behind it.
pub const AROUND_MAX: usize = 256;
/// Records of the stretch that are kept at its begin, and as many at its end.
const INSIDE_MAX: usize = 20_000;
/// Bytes of a text that are kept.
const TEXT_MAX: usize = 120;

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Integers, enumerations, truth values.
    Integer(i128),
    /// Floating-point numbers.
    Float(f64),
    /// Text.
    Text(String),
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Where and when. `tid`: the thread that wrote it, where it is known.
    pub head: Head,
    /// Position of its class.
    pub class: usize,
    /// What it says, where the state follows it.
    pub event: Option<Event>,
    /// Position among the fields of its class, and value.
    pub values: Vec<(usize, Value)>,
    /// `common_flags` and `common_preempt_count` of a kernel's record.
    pub flags: Option<(u8, u8)>,
    /// Return addresses, the innermost first.
    pub stack: Vec<u64>,
}

impl Note {
    /// Of a record of that class.
    pub fn new(head: Head, class: (usize, &Class), event: Option<Event>, record: &impl Record) -> Note {
        let value = |(index, field): (usize, &crate::record::Field)| {
            let value = match field.kind {
                ValueKind::Integer => record.integer(field.position).map(Value::Integer),
                ValueKind::Float => record.float(field.position).map(Value::Float),
                ValueKind::Text => record.text(field.position).map(|text| Value::Text(cut(&text))),
                ValueKind::Other => None,
            };
            value.map(|value| (index, value))
        };
        let values = class.1.fields.iter().enumerate().filter_map(value).collect();
        Note { head, class: class.0, event, values, flags: None, stack: Vec::new() }
    }
}

fn cut(text: &str) -> String {
    let end = (0..=TEXT_MAX.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text[..end].chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Records around and inside of a stretch.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    before: VecDeque<Note>,
    begin: Vec<Note>,
    end: VecDeque<Note>,
    after: Vec<Note>,
    /// Inside, and not kept.
    pub left_out: u64,
}

impl Notes {
    pub fn add(&mut self, note: Note, from: i64, to: i64) {
        if note.head.time < from {
            push(&mut self.before, note, AROUND_MAX);
        } else if note.head.time > to {
            if self.after.len() < AROUND_MAX {
                self.after.push(note);
            }
        } else if self.begin.len() < INSIDE_MAX {
            self.begin.push(note);
        } else {
            self.left_out += u64::from(push(&mut self.end, note, INSIDE_MAX));
        }
    }

    /// In the order in which they came.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Note> {
        self.before.iter().chain(&self.begin).chain(&self.end).chain(&self.after)
    }
}

/// Whether the oldest had to go.
fn push(queue: &mut VecDeque<Note>, note: Note, max: usize) -> bool {
    let is_full = queue.len() >= max;
    if is_full {
        queue.pop_front();
    }
    queue.push_back(note);
    is_full
}
