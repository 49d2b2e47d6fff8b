// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns on their way, and what a row has beside its record.

use kymo_ctf::read::{PacketWriter, Record};

use super::cells::Cells;
use crate::shape::Holds;

/// A column on its way.
pub(crate) struct Column {
    pub holds: Holds,
    pub cells: Cells,
}

/// What a row has beside its record.
#[derive(Clone, Copy)]
pub(crate) struct RowOf<'r> {
    pub host: &'r str,
    pub trace: &'r str,
}

/// A record, as far as it is looked at.
pub(crate) struct DirectRow<'r> {
    pub ns: i128,
    /// Of the packet.
    pub cpu: Option<u32>,
    pub writer: PacketWriter<'r>,
    pub event: &'r str,
    pub of: RowOf<'r>,
    /// The bytes from its first field on, and what is behind it.
    pub fields: &'r [u8],
}

impl Column {
    /// What all records have. All texts but the process's are where the opened traces are.
    #[inline]
    pub fn head(&mut self, holds: Holds, record: &Record<'_>, of: RowOf<'_>) {
        match (holds, &mut self.cells) {
            (Holds::Time, Cells::Time { values, .. }) => values.push_option(i64::try_from(record.ns).ok()),
            (Holds::Cpu, Cells::Int { values, .. }) => values.push_option(record.cpu.map(i64::from)),
            (Holds::Pid, Cells::Int { values, .. }) => values.push_option(record.vpid.map(i64::from)),
            (Holds::Tid, Cells::Int { values, .. }) => values.push_option(record.vtid.map(i64::from)),
            (Holds::Bits, Cells::Int { values, .. }) => values.push(record.bits as i64),
            (Holds::Proc, Cells::Words(words)) => words.push_or_null(record.procname),
            (Holds::Host, Cells::Words(words)) => words.push_staying(of.host),
            (Holds::Trace, Cells::Words(words)) => words.push_staying(of.trace),
            (Holds::Stream, Cells::Words(words)) => words.push_staying(record.stream),
            (Holds::Event, Cells::Words(words)) => words.push_staying(&record.event.name),
            (_, cells) => cells.append(None),
        }
    }
}
