// SPDX-License-Identifier: MIT OR Apache-2.0
//! What answers with sentences have in common [spec/view.md 4.15]: texts in pieces of which some are links, and the
//! parts of a budget.

use kymo_analyze::SPANS_MAX;
use kymo_analyze::explain::{Referent, Scene, Slice};

use crate::columns::{Answer, Table, Text};
use crate::error::Error;
use crate::parameters::{Parameters, Window};
use crate::questions::begun::doubt_bits;

/// Records so long before and behind a stretch are read, but no more than about so many on each side: they say when
/// timers were due, and who woke whom.
pub const LEAD: (u64, u64) = (1_000_000_000, 1 << 16);

/// Stretches of threads and CPUs that one question keeps: about 25 MB.
pub const SPANS_KEPT: usize = SPANS_MAX / 4;

/// The thread that is asked about.
pub fn tid(parameters: &mut Parameters) -> Result<Option<i32>, Error> {
    let tid = parameters.number("tid", 1..=i32::MAX as u64)?;
    Ok(tid.and_then(|tid| i32::try_from(tid).ok()))
}

/// A part of a text.
struct Piece {
    table: Text,
    row: u32,
    text: Text,
    names: Option<Referent>,
}

/// Texts of the rows of other tables, in pieces.
pub struct Pieces<'s> {
    scene: &'s Scene,
    list: Vec<Piece>,
}

impl<'s> Pieces<'s> {
    /// With the names of a scene.
    pub fn new(scene: &'s Scene) -> Pieces<'s> {
        Pieces { scene, list: Vec::new() }
    }

    /// From here on with the names of another scene.
    pub fn turn_to(&mut self, scene: &'s Scene) {
        self.scene = scene;
    }

    /// Takes the text of a row.
    pub fn add(&mut self, answer: &mut Answer, table: &str, row: usize, text: &str) {
        let table = answer.texts.text(table);
        for piece in self.scene.pieces(text) {
            let (row, text) = (row as u32, answer.texts.text(piece.text));
            self.list.push(Piece { table, row, text, names: piece.names });
        }
    }

    /// The table.
    pub fn table(self) -> Table {
        let tid = |piece: &Piece| match piece.names {
            Some(Referent::Thread(tid)) => Some(tid),
            _ => None,
        };
        let cpu = |piece: &Piece| match piece.names {
            Some(Referent::Cpu(cpu)) => Some(cpu),
            _ => None,
        };
        Table::new("pieces")
            .column("table", self.list.iter().map(|piece| piece.table))
            .column("row", self.list.iter().map(|piece| piece.row))
            .column("text", self.list.iter().map(|piece| piece.text))
            .column("tid", self.list.iter().map(tid))
            .column("cpu", self.list.iter().map(cpu))
    }
}

/// The parts of a budget, the largest first.
pub fn budget_table(answer: &mut Answer, pieces: &mut Pieces<'_>, budget: &[Slice]) -> Table {
    let mut kinds = Vec::new();
    for (row, slice) in budget.iter().enumerate() {
        kinds.push(answer.texts.text(slice.kind));
        pieces.add(answer, "budget", row, &slice.text);
    }
    Table::new("budget")
        .column("kind", kinds)
        .column("ns", budget.iter().map(|slice| slice.ns))
        .column("pieces", budget.iter().map(|slice| slice.pieces))
        .column("tid", budget.iter().map(|slice| slice.tid))
        .column("seen", budget.iter().map(|slice| u8::from(slice.seen)))
        .column("doubt", budget.iter().map(|slice| doubt_bits(slice.doubt)))
}

/// Says which records an answer is made of.
pub fn tell_read(answer: &mut Answer, window: Window) {
    answer.set("read_from", answer.time(window.from));
    answer.set("read_to", answer.time(window.to));
}

/// Says from when on a stretch was too long to be followed.
pub fn note_if_full(answer: &mut Answer, scene: &Scene) {
    if let Some(from) = scene.full_from() {
        let offset = answer.time(from);
        answer.notes.push(format!(
            "more than {SPANS_KEPT} stretches of threads and CPUs: from {offset} ns after the begin of the trace on \
             nothing is known, nor what was lost; choose a shorter stretch"
        ));
    }
}
