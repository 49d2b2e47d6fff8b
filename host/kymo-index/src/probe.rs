// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points for fuzzing and for the tests that mutate indexes: bytes in, nothing out but the promise to return.

use kymo_analyze::Vocabulary;
use kymo_analyze::shown::Calls;
use kymo_ctf::read::Trace;
use kymo_feed::Classes;

use crate::account::take_entries;
use crate::buckets::Buckets;
use crate::head::IndexHead;
use crate::picture_take::{take_cpus, take_threads};
use crate::pyramid::PyramidHead;
use crate::states;
use crate::sums::PartSums;

/// Takes bytes for each piece of an index, beside the first byte, which chooses; whether they were one.
pub fn piece(bytes: &[u8]) -> bool {
    let Some((&kind, rest)) = bytes.split_first() else { return false };
    match kind % 7 {
        0 => IndexHead::decode(rest).is_some(),
        1 => take_entries(rest).is_some(),
        2 => part(rest),
        4 => PyramidHead::take(&mut kymo_analyze::compact::Take(rest)).is_some(),
        5 | 6 => picture(rest, kind % 7 == 5),
        _ => Buckets::take(&mut kymo_analyze::compact::Take(rest)).is_some(),
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
