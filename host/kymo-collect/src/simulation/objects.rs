// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of a simulated program that carry events, and how sessions are told of them, as emit/src/register.c,
//! describe.c and answers.c do it.

use std::ops::Range;

use kymo_abi::desc::{Desc, EventDesc, Field, FieldType, Scalar, encode};
use kymo_abi::wire::{BYTES_MAX, DescEntry, FromProgram, HEAD_BYTES};

/// Number of an event among those that programs call alike.
pub(super) const NAMES: u32 = 8;

/// The executable and its libraries.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    /// Long texts, which nobody else has, have this number.
    nonce: u32,
    /// Descriptions from this index on are long.
    long_from: u32,
    /// First event and end of each, in the order in which they came.
    loaded: Vec<Range<u32>>,
    /// No index is used twice.
    end: u32,
    /// Counts the start, forks and libraries.
    pub generation: u32,
    /// Events that went, and no session was told yet.
    gone: Vec<u32>,
}

impl Objects {
    /// An executable with so many events, before it has started.
    pub(super) fn new(nonce: u32, events: u32, is_greedy: bool) -> Objects {
        let long_from = if is_greedy { NAMES } else { u32::MAX };
        let executable = 0..events;
        Objects { nonce, long_from, loaded: vec![executable], end: events, generation: 1, gone: Vec::new() }
    }

    /// Those of a child.
    pub(super) fn forked(&self) -> Objects {
        Objects { generation: self.generation + 1, gone: Vec::new(), ..self.clone() }
    }

    /// Whether there is such an event.
    pub(super) fn has(&self, index: u32) -> bool {
        self.loaded.iter().any(|object| object.contains(&index))
    }

    /// Greater than all indices.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// A library with one event comes. What is said of it.
    pub(super) fn load(&mut self) -> Vec<FromProgram> {
        let library = self.end..self.end + 1;
        self.end = library.end;
        self.generation += 1;
        let mut said = self.describe(&library);
        said.push(FromProgram::DescsEnd { generation: self.generation });
        self.loaded.push(library);
        said
    }

    /// The newest library goes, if there is one. Its events.
    pub(super) fn unload(&mut self) -> Range<u32> {
        let library = if self.loaded.len() > 1 { self.loaded.pop() } else { None };
        let library = library.unwrap_or(0..0);
        self.gone.extend(library.clone());
        library
    }

    /// What is said of those that went, with the next news.
    pub(super) fn say_gone(&mut self) -> Option<FromProgram> {
        let gone = std::mem::take(&mut self.gone);
        (!gone.is_empty()).then_some(FromProgram::Gone(gone))
    }

    /// What follows HELLO: the newest object first.
    pub(super) fn say_all(&self) -> Vec<FromProgram> {
        let mut said: Vec<_> = self.loaded.iter().rev().flat_map(|object| self.describe(object)).collect();
        said.push(FromProgram::DescsEnd { generation: self.generation });
        said
    }

    /// The events of one object: as many as have room in a message.
    fn describe(&self, object: &Range<u32>) -> Vec<FromProgram> {
        let mut said = Vec::new();
        let (mut entries, mut used) = (Vec::new(), HEAD_BYTES);
        for index in object.clone() {
            let entry = self.event(index);
            let bytes = 8 + entry.desc.len().next_multiple_of(8);
            if used + bytes > BYTES_MAX {
                said.push(FromProgram::Descs(std::mem::take(&mut entries)));
                used = HEAD_BYTES;
            }
            used += bytes;
            entries.push(entry);
        }
        said.push(FromProgram::Descs(entries));
        said
    }

    fn event(&self, index: u32) -> DescEntry {
        let fields = vec![Field { name: "n".into(), ty: FieldType::Scalar(Scalar::U64) }];
        let is_long = index >= self.long_from;
        let file = if is_long { format!("{index}{}.c", "greedy".repeat(2000)) } else { "sim.c".into() };
        let name = if is_long { format!("g{}_{index}", self.nonce) } else { format!("e{}", index % NAMES) };
        let desc = encode(&Desc::Event(EventDesc { provider: "sim".into(), name, file, line: 1, fields }));
        DescEntry { index: Some(index), desc }
    }
}
