// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of programs by who wrote them as bytes, and back [spec/index.md 5.6].

use kymo_analyze::compact::{Put, Take};

use crate::latencies::samples::TIME_MAX;
use crate::statistics::names::{WriterName, WriterNames};
use crate::statistics::part::CountedRecords;

/// Records of one writer in a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenRow {
    /// Position among the writers of the stream.
    pub writer: u32,
    /// Its records.
    pub counted: CountedRecords,
}

/// Records of a stream that follow each other: all before are older, and all behind are newer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Time of the first record, ns.
    pub first: i64,
    /// Time of the last record, ns.
    pub last: i64,
    /// By writer, in the order of their last records: one at least.
    pub rows: Vec<WrittenRow>,
}

impl Stretch {
    /// Of its rows; `None` where there are none.
    pub(crate) fn of(rows: Vec<WrittenRow>) -> Option<Stretch> {
        let first = rows.iter().map(|row| row.counted.first).min()?;
        let last = rows.iter().map(|row| row.counted.last).max()?;
        Some(Stretch { first, last, rows })
    }
}

/// A stream whose records are not read for states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamWriters {
    /// Its position.
    pub stream: usize,
    /// Who wrote records, and on which CPU.
    pub writers: Vec<(WriterName, Option<u32>)>,
    /// In the order of time.
    pub stretches: Vec<Stretch>,
}

/// All streams. `None`: a time is none that is kept.
pub(crate) fn put_streams(all: &[StreamWriters]) -> Option<Vec<u8>> {
    let mut names = WriterNames::default();
    let (mut put, mut body) = (Put::default(), Put::default());
    body.number(all.len() as u64);
    for of in all {
        body.number(of.stream as u64);
        body.number(of.writers.len() as u64);
        for (name, cpu) in &of.writers {
            body.number(names.number(*name).into());
            body.option(*cpu, |put, cpu| put.number(cpu.into()));
        }
        body.number(of.stretches.len() as u64);
        let mut before = 0i64;
        for stretch in &of.stretches {
            if stretch.first < -TIME_MAX || stretch.last >= TIME_MAX {
                return None;
            }
            body.signed(stretch.first - before);
            body.number(stretch.last.abs_diff(stretch.first));
            body.number(stretch.rows.len() as u64);
            for WrittenRow { writer, counted } in &stretch.rows {
                body.number((*writer).into());
                body.number(counted.records);
                body.number(counted.first.abs_diff(stretch.first));
                body.number(stretch.last.abs_diff(counted.last));
            }
            before = stretch.last;
        }
    }
    names.put(&mut put);
    put.0.extend(body.0);
    (!names.is_over).then_some(put.0)
}

/// The same again.
pub(crate) fn take_streams(bytes: &[u8]) -> Option<Vec<StreamWriters>> {
    let mut take = Take(bytes);
    let names = WriterNames::take(&mut take)?;
    let mut all: Vec<StreamWriters> = Vec::new();
    for _ in 0..take.count()? {
        let stream = take.small::<u32>()? as usize;
        if all.last().is_some_and(|last| last.stream >= stream) {
            return None;
        }
        let count = take.count()?;
        let writer = |take: &mut Take<'_>| Some((*names.at(take.small()?)?, take.option(Take::small)?));
        let writers = (0..count).map(|_| writer(&mut take)).collect::<Option<Vec<_>>>()?;
        let (count, mut before) = (take.count()?, None);
        let mut stretches = Vec::new();
        for _ in 0..count {
            let stretch = take_stretch(&mut take, before, writers.len())?;
            before = Some(stretch.last);
            stretches.push(stretch);
        }
        all.push(StreamWriters { stream, writers, stretches });
    }
    take.is_empty().then_some(all)
}

fn take_stretch(take: &mut Take<'_>, before: Option<i64>, writers: usize) -> Option<Stretch> {
    let first = before.unwrap_or(0).checked_add(take.signed()?)?;
    let is_behind = before.is_none_or(|before| before < first) && first >= -TIME_MAX;
    let last = first.checked_add_unsigned(take.number()?).filter(|last| is_behind && *last < TIME_MAX)?;
    let mut rows = Vec::new();
    for _ in 0..take.count()? {
        let writer = take.small::<u32>().filter(|writer| (*writer as usize) < writers)?;
        let records = take.number()?;
        let own = (first.checked_add_unsigned(take.number()?)?, last.checked_sub_unsigned(take.number()?)?);
        let (first, last) = Some(own).filter(|own| first <= own.0 && own.0 <= own.1 && own.1 <= last)?;
        rows.push(WrittenRow { writer, counted: CountedRecords { records, first, last } });
    }
    Some(Stretch { first, last, rows })
}
