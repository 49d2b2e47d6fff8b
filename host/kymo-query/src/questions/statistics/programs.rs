// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of programs in a window by who wrote them [spec/index.md 5.6]: from the index, and from the records of each
//! stream at the ends of the window.

use kymo_analyze::{Level, Writer};
use kymo_ctf::read::{Range, Reader};
use kymo_feed::{clamp, own_writer};
use kymo_index::{StreamWriters, WriterRows};

use super::middle::{MiddleRow, ReadRows};
use crate::error::Error;
use crate::opened::Opened;
use crate::walk::Stop;

/// Records of all streams from a time on, up to another one.
pub(super) fn rows(
    of: &Opened,
    all: &[StreamWriters],
    (from, to): (i64, i64),
    level: Level,
    stop: &Stop,
) -> Result<Vec<MiddleRow>, Error> {
    let mut rows = Vec::new();
    for stream in all {
        stop.check()?;
        let stretches = &stream.stretches;
        let first = stretches.partition_point(|of| of.first < from);
        let behind = stretches.partition_point(|of| of.last < to).max(first);
        let mut sums = WriterRows::default();
        for row in stretches[first..behind].iter().flat_map(|stretch| &stretch.rows) {
            sums.add(row.writer, &row.counted);
        }
        rows.extend(rows_of(stream, &sums));
        let mut read = ReadRows::default();
        // What is cut by an end of the window.
        for cut in &stretches[first.saturating_sub(1)..(behind + 1).min(stretches.len())] {
            let (begin, end) = (cut.first.max(from), cut.last.saturating_add(1).min(to));
            if begin < end && !(cut.first >= from && cut.last < to) {
                read_records(of, stream.stream, (begin, end), &mut read, stop)?;
            }
        }
        rows.extend(read.rows(1 + stream.stream));
    }
    if level == Level::Cpu {
        // Names matter no more.
        rows.iter_mut().for_each(|row| row.writer = Writer { cpu: row.writer.cpu, ..Writer::default() });
    }
    Ok(rows)
}

fn rows_of<'s>(of: &'s StreamWriters, sums: &WriterRows) -> impl Iterator<Item = MiddleRow> + 's {
    sums.in_order().into_iter().filter_map(|(writer, counted)| {
        let (name, cpu) = of.writers.get(writer as usize)?;
        Some(MiddleRow { writer: Writer { cpu: *cpu, ..name.writer() }, counted, source: 1 + of.stream })
    })
}

/// Reads records of one stream from a time on, up to another one.
fn read_records(
    of: &Opened,
    stream: usize,
    (from, to): (i64, i64),
    read: &mut ReadRows,
    stop: &Stop,
) -> Result<(), Error> {
    let streams: usize = of.traces.iter().map(|trace| trace.streams().count()).sum();
    let is_read: Vec<bool> = (0..streams).map(|at| at == stream).collect();
    let starts = of.indexes.starts_of(&of.traces, Some(from.into()), &is_read);
    let range = Range { from_ns: Some(from.into()), to_ns: Some(to.into()) };
    let Some(mut reader) = Reader::between(&of.traces, range, &starts) else { return Ok(()) };
    let mut passed = 0u32;
    while let Some(item) = reader.next() {
        stop.check_some(&mut passed)?;
        if let kymo_ctf::read::Item::Record(record) = item {
            read.record(&own_writer(&record).unwrap_or_default(), clamp(record.ns));
        }
    }
    Ok(())
}
