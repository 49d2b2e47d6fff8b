// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns on their way, and what a row has beside its record.

use kymo_ctf::read::{PacketWriter, Record};

use super::cells::{Cells, Integers};
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
    /// What all records have.
    pub fn head(&mut self, holds: Holds, record: &Record<'_>, of: RowOf<'_>) {
        let number = match holds {
            Holds::Time => i64::try_from(record.ns).ok(),
            Holds::Cpu => record.cpu.map(i64::from),
            Holds::Pid => record.vpid.map(i64::from),
            Holds::Tid => record.vtid.map(i64::from),
            Holds::Bits => Some(record.bits as i64),
            _ => None,
        };
        // All but the process's are where the opened traces are.
        let text = match holds {
            Holds::Host => of.host,
            Holds::Trace => of.trace,
            Holds::Stream => record.stream,
            Holds::Event => record.event.name.as_str(),
            _ => "",
        };
        match &mut self.cells {
            Cells::Words(words) if holds == Holds::Proc => words.push_or_null(record.procname),
            Cells::Words(words) => words.push_staying(text),
            Cells::Time { values, .. } | Cells::Int { values, .. } => Integers::push_option(values, number),
            _ => self.cells.append(None),
        }
    }
}
