// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `hosts`: the machines that the traces are of.

use kymo_ctf::read::Trace;
use kymo_feed::Missing;

use crate::emit::{Emit, Ended};
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const HOSTS: Known = Known {
    name: "hosts",
    about: "Machines that the traces are of; traces of one machine that are read together are one row",
    columns: columns! {
        "host" Words "Name of the machine, or directory of the trace where it does not tell";
        "boot" Words "Id of the boot, in base 16: the UUID of the clock";
        "traces" Count "Traces, with the chunks of a session";
        "directory" Words "Directory of the first one";
        "time" Time "First record";
        "end_time" Time "Last record";
        "records" Count "Records";
        "lost_records" Count "Records that were counted as lost";
        "lost_packets" Count "Packets that are missing";
        "has_kernel" Bool "The scheduler's events were recorded";
    },
};

/// Columns that need a look at the records, where there is no index.
const COUNTS: std::ops::RangeInclusive<usize> = 6..=8;
const TIMES: std::ops::RangeInclusive<usize> = 4..=5;

/// Sends the row of a group.
pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let bounds_of = |scan: &Scan| scan.from.or(scan.to).or(scan.end_from).or(scan.end_to).is_some();
    let needs_times = TIMES.into_iter().any(|column| rows.has(column)) || bounds_of(scan);
    let bounds = if needs_times { group.bounds() } else { None };
    let (first, last) = (bounds.map(|of| of.0), bounds.map(|of| of.1));
    if !scan.wants_time(first) || !scan.wants_end(last) {
        return Ok(());
    }
    let (records, missing) = match COUNTS.into_iter().any(|column| rows.has(column)) {
        true => counts(group),
        false => (0, Missing::default()),
    };
    emit.check()?;
    let boot = group.traces.iter().flat_map(|trace| &trace.metadata.clocks).find_map(|clock| clock.uuid);
    let boot = boot.map(|boot| boot.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    rows.push(&[
        group.host.as_str().into(),
        boot.as_deref().into(),
        (group.traces.len() as u64).into(),
        group.traces.first().map(|trace| trace.label.as_str()).into(),
        first.into(),
        last.into(),
        records.into(),
        missing.records.into(),
        missing.packets.into(),
        group.traces.iter().any(kymo_command::input::has_switches).into(),
    ]);
    rows.send(emit)
}

/// Records, and what is missing: from the index, else by a pass over all of them.
fn counts(group: &Group) -> (u64, Missing) {
    let (mut records, mut missing) = (0u64, Missing::default());
    for (position, trace) in group.traces.iter().enumerate() {
        match group.indexes.traces.get(position).and_then(Option::as_ref) {
            Some(index) => {
                records = records.saturating_add(index.records());
                for [lost, packets, places] in index.streams.iter().map(|stream| stream.lost) {
                    missing.add_all(&Missing { records: lost, packets, places });
                }
            }
            None => {
                let counts = Trace::count(trace, 1);
                records = records.saturating_add(counts.records());
                missing.add(counts.lost_records, counts.lost_packets);
            }
        }
    }
    (records, missing)
}
