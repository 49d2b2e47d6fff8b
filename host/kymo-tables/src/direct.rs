// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast way of records into columns: numbers at a constant distance from a record's first field go from the packet
//! into the column, and nothing else of the record is looked at. Only where all that is asked for is of that kind, or
//! the same in all records of a packet.

use kymo_ctf::read::{Direct, DirectFloat, RecordPart, TidPlace, Trace};

use crate::columns::cells::{Cells, bits_of};
use crate::columns::row::{Column, DirectRow};
use crate::shape::{ClassColumns, Holds};

/// Where the value of a column comes from.
#[derive(Clone, Copy, Debug)]
enum From {
    Time,
    /// That of the packet.
    Cpu,
    Pid,
    Tid,
    Proc,
    /// The thread, in the record.
    OwnTid(Direct),
    Host,
    Trace,
    Event,
    Integer(Direct),
    Float(DirectFloat),
    /// Records of this class have no such field.
    Nothing,
}

/// The columns of one class.
#[derive(Clone, Debug)]
pub(crate) struct DirectClass(Vec<From>);

impl DirectClass {
    /// `None` where something is asked for that needs more of a record.
    pub fn new(trace: &Trace, event: usize, class: &ClassColumns, columns: &[Column]) -> Option<DirectClass> {
        let from = |column: &Column| {
            Some(match column.holds {
                Holds::Time => From::Time,
                Holds::Cpu if !trace.has_own_cpu(event) => From::Cpu,
                Holds::Pid if !trace.has_own_process(event) => From::Pid,
                Holds::Proc if !trace.has_own_process(event) => From::Proc,
                Holds::Tid => match trace.tid_place(event) {
                    TidPlace::Packet => From::Tid,
                    TidPlace::Record(lens) => From::OwnTid(lens.direct()?),
                    TidPlace::Several => return None,
                },
                Holds::Host => From::Host,
                Holds::Trace => From::Trace,
                Holds::Event => From::Event,
                Holds::Field(place) => match class.0.get(place).copied().flatten() {
                    None => From::Nothing,
                    Some((part, position)) => of_field(trace, event, part, position, &column.cells)?,
                },
                _ => return None,
            })
        };
        columns.iter().map(from).collect::<Option<Vec<From>>>().map(DirectClass)
    }

    /// Whether a column has times.
    pub fn has_times(&self) -> bool {
        self.0.iter().any(|from| matches!(from, From::Time))
    }

    /// Appends a row.
    #[inline]
    pub fn push(&self, columns: &mut [Column], row: &DirectRow<'_>) {
        let fields = row.fields;
        for (from, column) in self.0.iter().zip(columns) {
            // Not copied: it would be stored in pieces and loaded whole, which the processor waits for.
            match (from, &mut column.cells) {
                (From::Integer(direct), Cells::Int { values, .. }) => match direct.read(fields) {
                    Some(number) => values.push(bits_of(number)),
                    None => values.push_option(at_end(fields, |fields| direct.read(fields)).map(bits_of)),
                },
                (From::Float(direct), Cells::F64(cells)) => cells.append_option(direct.read(fields)),
                (From::Float(direct), Cells::F32(cells)) => {
                    cells.append_option(direct.read(fields).map(|value| value as f32));
                }
                (From::Time, Cells::Time { values, .. }) => values.push_option(i64::try_from(row.ns).ok()),
                (From::Cpu, Cells::Int { values, .. }) => values.push_option(row.cpu.map(i64::from)),
                (From::Pid, Cells::Int { values, .. }) => values.push_option(row.writer.pid.map(i64::from)),
                (From::Tid, Cells::Int { values, .. }) => values.push_option(row.writer.tid.map(i64::from)),
                (From::OwnTid(direct), Cells::Int { values, .. }) => {
                    let tid = match direct.read(fields) {
                        Some(_) => direct.read_id(fields),
                        None => at_end(fields, |fields| direct.read_id(fields)),
                    };
                    values.push_option(tid.map(i64::from));
                }
                (From::Proc, Cells::Words(words)) => words.push_or_null(row.writer.name),
                (From::Host, Cells::Words(words)) => words.push_staying(row.of.host),
                (From::Trace, Cells::Words(words)) => words.push_staying(row.of.trace),
                (From::Event, Cells::Words(words)) => words.push_staying(row.event),
                (_, cells) => cells.append(None),
            }
        }
    }
}

fn of_field(trace: &Trace, event: usize, part: RecordPart, position: usize, cells: &Cells) -> Option<From> {
    let lens = trace.lens(event, part, position);
    match cells {
        Cells::Int { .. } => lens.direct().map(From::Integer),
        Cells::F64(_) => lens.direct_float().filter(|direct| direct.is_wide()).map(From::Float),
        Cells::F32(_) => lens.direct_float().filter(|direct| !direct.is_wide()).map(From::Float),
        _ => None,
    }
}

/// The last bytes of a file are fewer than a number's word: the rest is zeros. Where there is no byte there is no
/// number.
#[cold]
fn at_end<T>(fields: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    if fields.is_empty() {
        return None;
    }
    let mut padded = fields.to_vec();
    padded.resize(fields.len() + 8, 0);
    read(&padded)
}
