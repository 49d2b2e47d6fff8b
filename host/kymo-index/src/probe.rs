// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points for fuzzing and for the tests that mutate indexes: bytes in, nothing out but the promise to return.

use std::collections::BTreeMap;

use kymo_analyze::compact::Take;
use kymo_analyze::shown::Calls;
use kymo_analyze::usage::{Usage, UsageScope};
use kymo_analyze::{Name, Vocabulary};
use kymo_ctf::read::Trace;
use kymo_feed::Classes;

use crate::counts::account::take_entries;
use crate::counts::buckets::Buckets;
use crate::fields::bytes::{put_field, put_losses, take_field, take_losses};
use crate::fields::head::FieldsHead;
use crate::fields::sums::ValueSums;
use crate::file::head::IndexHead;
use crate::latencies::head::LatencyHead;
use crate::latencies::part::{LatencyPart, Listed, cell_range};
use crate::latencies::who::{Who, WhoTable};
use crate::pictures::part::SHIFT_MAX;
use crate::pictures::take::{take_cpus, take_threads};
use crate::pyramid::PyramidHead;
use crate::pyramid::sums::PartSums;
use crate::spans::bytes::{put_waiting, take_waiting};
use crate::spans::flame::FlamePart;
use crate::spans::head::SpansHead;
use crate::spans::part::SpanPart;
use crate::states;
use crate::statistics::names::{WriterName, WriterNames};
use crate::statistics::part::StatisticsPart;
use crate::statistics::written_bytes::{put_streams, take_streams};
use crate::wakes::head::WakeHead;
use crate::wakes::maker::WakeMaker;
use crate::wakes::part::WakePart;

/// Takes bytes for each piece of an index, beside the first byte, which chooses; whether they were one.
pub fn piece(bytes: &[u8]) -> bool {
    let Some((&kind, rest)) = bytes.split_first() else { return false };
    match kind % 22 {
        0 => IndexHead::decode(rest).is_some(),
        1 => take_entries(rest).is_some(),
        2 => part(rest),
        4 => PyramidHead::take(&mut Take(rest)).is_some(),
        5 => LatencyHead::take(&mut Take(rest)).is_some(),
        6 => latencies(rest),
        7 => listed_latencies(rest),
        8 | 9 => picture(rest, kind % 22 == 8),
        10 => spans(rest),
        13 => flame(rest),
        11 => SpansHead::take(&mut Take(rest)).is_some(),
        12 => take_waiting(0, rest).is_some_and(|list| put_waiting(0, &list) == rest),
        14 => FieldsHead::take(&mut Take(rest)).is_some(),
        15 => field(rest),
        16 => take_losses(rest).is_some_and(|losses| take_losses(&put_losses(&losses)) == Some(losses)),
        17 => WakeHead::take(&mut Take(rest)).is_some(),
        18 => wakes(rest),
        19 => WriterNames::take(&mut Take(rest)).is_some(),
        20 => statistics(rest),
        21 => take_streams(rest).is_some_and(|all| put_streams(&all).and_then(|put| take_streams(&put)) == Some(all)),
        _ => Buckets::take(&mut Take(rest)).is_some(),
    }
}

/// Sums of a part: what was taken is put and taken again, and added to itself.
fn part(bytes: &[u8]) -> bool {
    let Some(part) = PartSums::decode(bytes) else { return false };
    let again = part.encode().and_then(|bytes| PartSums::decode(&bytes));
    assert_eq!(again.as_ref().map(PartSums::threads), Some(part.threads()));
    let mut sum = part.clone();
    sum.merge(&part);
    assert_eq!(sum.threads().len(), part.threads().len());
    true
}

/// Threads of samples that have numbers.
fn few_threads() -> Vec<Who> {
    let one = |tid| Who { tid: Some(tid), process: None, prio: Some(120), name: Name::new("name") };
    (0..20).map(one).collect()
}

/// Sums of latencies of a part: what was taken is added to itself in longer columns, put, and taken again.
fn latencies(bytes: &[u8]) -> bool {
    let Some(part) = LatencyPart::decode(bytes, &few_threads()) else { return false };
    let sum = LatencyPart::of(&[part.clone(), part.clone()], SHIFT_MAX);
    let mut table = WhoTable::default();
    let bytes = sum.map(|sum| sum.encode(Listed::ALL, &mut table));
    let again = bytes.and_then(|bytes| LatencyPart::decode(&bytes[0], &table.new_ones()));
    assert!(again.is_none_or(|again| again.series.len() <= part.series.len() + part.past.len()));
    true
}

/// Wake-ups of a part: what was taken is put and taken again, added to itself, and asked for.
fn wakes(bytes: &[u8]) -> bool {
    let Some(part) = WakePart::decode(bytes) else { return false };
    assert_eq!(WakePart::decode(&part.encode()).as_ref(), Some(&part));
    let some: Vec<i32> = part.threads.iter().map(|of| of.tid).take(2).collect();
    for tids in [None, Some(&some[..])] {
        let known_to = part.known_to(tids).flatten();
        assert!(known_to.is_none_or(|known_to| part.list.iter().any(|arrow| arrow.rank() == known_to)));
    }
    let longer = WakeMaker::longer(vec![part.clone(), part.clone()]);
    assert!(longer.is_none_or(|longer| longer.list.len() <= 2 * part.list.len()));
    true
}

/// Records and times of a part, with a few names: what was taken is put and taken again, added to itself, and added to
/// the sums of a window.
fn statistics(bytes: &[u8]) -> bool {
    let mut names = WriterNames::default();
    for tid in 0..20 {
        names.number(WriterName { process: Some(tid / 3), tid: Some(tid), name: Name::new("name") });
    }
    let Some(part) = StatisticsPart::decode(bytes, &names) else { return false };
    let again = part.encode(&mut names).and_then(|bytes| StatisticsPart::decode(&bytes, &names));
    assert!(again.is_none_or(|again| again == part));
    let mut usage = Usage::new(UsageScope::default(), &Vocabulary::new()).of_times();
    let is_added = usage.append(&part.usage) && usage.append(&part.usage);
    assert!(!is_added || usage.cpus().count() >= part.usage.lanes.iter().flatten().count());
    let mut longer = part.clone();
    longer.append(&part);
    longer.encode(&mut names);
    true
}

/// Cells and the longest of a part with some series: lengths of the sums and of the cells, then the three.
fn listed_latencies(bytes: &[u8]) -> bool {
    let mut take = Take(bytes);
    let Some(lengths) = take.small::<usize>().zip(take.small::<usize>()) else { return false };
    let parts =
        take.0.split_at_checked(lengths.0).and_then(|(sums, rest)| Some((sums, rest.split_at_checked(lengths.1)?)));
    let Some((sums, (cells, longest))) = parts else { return false };
    let who = few_threads();
    let Some(mut part) = LatencyPart::decode(sums, &who) else { return false };
    let is_taken = part.decode_cells(cells).is_some() & part.decode_longest(longest, &who).is_some();
    let sum = LatencyPart::of(&[part.clone(), part], SHIFT_MAX);
    let mut cells = sum.iter().flat_map(|sum| &sum.series).flat_map(|of| &of.cells);
    assert!(cells.all(|cell| cell_range(cell.cell).0 <= cell_range(cell.cell).1));
    is_taken
}

/// Spans of a part: what was taken is put and taken again, as it is and in longer columns.
fn spans(bytes: &[u8]) -> bool {
    let Some(part) = SpanPart::decode(bytes, |_| true) else { return false };
    assert_eq!(SpanPart::decode(&part.encode(), |_| true).as_ref(), Some(&part));
    let sum = SpanPart::of(&[part.clone(), SpanPart { shift: SHIFT_MAX, rows: BTreeMap::new(), ..part.clone() }]);
    let again = sum.as_ref().and_then(|sum| SpanPart::decode(&sum.encode(), |_| true));
    assert_eq!(again, sum);
    true
}

/// Where the time of a part went: what was taken is put and taken again, and added to itself.
fn flame(bytes: &[u8]) -> bool {
    let Some(part) = FlamePart::decode(bytes, 100) else { return false };
    assert_eq!(FlamePart::decode(&part.encode(), 100).as_ref(), Some(&part));
    let sum = FlamePart::of(&[part.clone(), part]);
    sum.is_some()
}

/// Values of a field: what was taken is put and taken again, and added up.
fn field(bytes: &[u8]) -> bool {
    let (mut columns, mut all) = (Vec::new(), ValueSums::default());
    let Some(shift) = take_field(bytes, |number, of| columns.push((number, *of))) else { return false };
    columns.iter().for_each(|(_, of)| all.append(of));
    let (mut counts, again) = (Vec::new(), put_field(shift, columns.iter().map(|(number, of)| (*number, of))));
    assert_eq!(take_field(&again, |number, of| counts.push((number, of.count))), Some(shift));
    assert!(columns.iter().map(|(number, of)| (*number, of.count)).eq(counts));
    true
}

/// What rows of a part show: of threads, or of CPUs. It is shown in longer columns, as answers do.
fn picture(bytes: &[u8], is_of_threads: bool) -> bool {
    let calls = Calls::new(&Vocabulary::new());
    if is_of_threads {
        let Some((shift, threads)) = take_threads(bytes, |_| true) else { return false };
        for of in threads {
            of.row.replay(shift, shift + 3, &calls, |_| {});
            of.each_call(shift + 3, |_| {});
            of.each_late(&calls, |_| true, |_| {});
        }
        return true;
    }
    let Some((shift, cpus)) = take_cpus(bytes) else { return false };
    for of in cpus {
        of.row.replay(shift, shift + 3, &calls, |_| {});
        of.interrupts.replay(shift, shift + 3, &calls, |_| {});
    }
    true
}

/// Takes bytes for a checkpoint of a trace, and reads on from there to the end; whether they were one.
pub fn checkpoint(bytes: &[u8], traces: &[Trace]) -> bool {
    let classes = Classes::new(traces);
    let streams = traces.iter().map(|trace| trace.streams().count()).sum();
    let Some((starts, mut walker)) = states::decode(bytes, streams, &classes) else { return false };
    let reader = kymo_ctf::read::Reader::between(traces, kymo_ctf::read::Range::default(), &starts);
    if let Some(mut reader) = reader {
        walker.go(&mut reader, &mut (), &mut ());
        walker.state.finish(None, &mut ());
    }
    true
}
