// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap as one JSON document.

use kymo_analyze::heap::{Amount, HeapStep, ProcessSums};
use serde_json::{Value, json};

use super::found::{HeapReport, number};
use super::pass::ProgramOf;
use crate::verbs::analyze::show;
use crate::verbs::symbols::AddressPlace;

/// The document.
pub fn document(found: &mut HeapReport<'_>) -> String {
    let shown: Vec<Value> = found
        .stacks()
        .into_iter()
        .take(found.args.limit)
        .map(|(number, _)| {
            let frames = found.pass.stacks.frames(number).to_vec();
            let frames: Vec<Value> = frames.into_iter().map(|place| frame(found, place)).collect();
            let sums = found.pass.heap.stacks()[number as usize];
            json!({
                "frames": frames,
                "peak": amount(sums.peak),
                "live": amount(sums.live),
                "leaked": amount(sums.leaked),
                "allocated": amount(sums.allocated),
            })
        })
        .collect();
    let (total, heap) = (found.pass.heap.total(), &found.pass.heap);
    let programs = found.pass.programs.iter().zip(heap.processes());
    json!({
        "schema": "kymo-heap-1",
        "from": found.range.0,
        "to": found.range.1,
        "lost": show::missing(&found.lost),
        "is_exact": found.caveats.is_empty(),
        "caveats": found.caveats,
        "peak": with_time(total.peak, total.peak_time),
        "live": amount(total.live),
        "leaked": amount(total.leaked),
        "at_exec": amount(total.at_exec),
        "allocated": amount(total.allocated),
        "freed": amount(total.freed),
        "failed": total.failed,
        "unknown_frees": total.unknown_frees,
        "replaced": total.replaced,
        "processes": programs.map(|(program, sums)| process(program, sums)).collect::<Vec<_>>(),
        "growth": heap.steps().iter().map(step).collect::<Vec<_>>(),
        "sorted_by": found.args.what.name(),
        "stacks_left_out": found.stacks().len().saturating_sub(found.args.limit),
        "stacks": shown,
    })
    .to_string()
}

fn amount(amount: Amount) -> Value {
    json!({ "bytes": amount.bytes, "blocks": amount.blocks })
}

fn with_time(amount: Amount, time: i64) -> Value {
    json!({ "bytes": amount.bytes, "blocks": amount.blocks, "time": time })
}

/// A frame without a name has its address.
fn frame(found: &mut HeapReport<'_>, place: AddressPlace) -> Value {
    let name = found.name(place);
    match found.pass.symbols.file_of(place) {
        Some((file, offset)) => json!({ "name": name, "file": file, "offset": offset }),
        None => json!({ "name": name, "address": number(place) }),
    }
}

fn process(program: &ProgramOf, sums: &ProcessSums) -> Value {
    json!({
        "process": program.pid,
        "name": program.name,
        "peak": with_time(sums.peak, sums.peak_time),
        "live": amount(sums.live),
        "leaked": amount(sums.leaked),
        "at_exec": amount(sums.at_exec),
        "allocated": amount(sums.allocated),
        "freed": amount(sums.freed),
        "failed": sums.failed,
        "unknown_frees": sums.unknown_frees,
        "inherited": amount(sums.inherited),
        "inherited_freed": amount(sums.inherited_freed),
    })
}

fn step(step: &HeapStep) -> Value {
    json!({
        "to": step.end,
        "live": amount(step.live),
        "peak_bytes": step.peak_bytes,
        "allocations": step.allocations,
        "frees": step.frees,
    })
}
