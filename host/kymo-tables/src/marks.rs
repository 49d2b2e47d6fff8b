// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `marks`: texts by which people and programs marked a moment.

use std::collections::HashMap;

use kymo_ctf::read::{Item, Passed, Record, Value};
use kymo_feed::clamp;
use kymo_index::range;
use kymo_query::Learn;

use crate::emit::{Emit, Ended};
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const MARKS: Known = Known {
    name: "marks",
    about: "Texts by which people and programs marked a moment: kymo mark, the kernel's trace_marker and trace_printk, LTTng's \
            logger, tracef and tracelog",
    columns: columns! {
        "time" Time "When it was written";
        "cpu" Id "CPU that wrote it";
        "pid" Id "Process that wrote it";
        "tid" Id "Thread that wrote it";
        "proc" Words "Name of that thread, or of its process where only that is known";
        "text" Text "The text, without the end of its line";
        "event" Words "The event that has it";
        "host" Words "Machine that the trace is of";
    },
};

/// Fields that have the text.
const FIELDS: [&str; 4] = ["text", "msg", "buf", "str"];

/// Items between two questions whether somebody wants more.
const ASK_EVERY: u32 = 4096;

/// Whether an event's records are marks.
fn is_mark(name: &str) -> bool {
    let bare = name.strip_prefix("ftrace:").unwrap_or(name);
    matches!(bare, "print" | "bprint" | "bputs" | "tracing_mark_write" | "lttng_logger")
        || matches!(name, "kymo_mark" | "lttng_ust_tracef:event" | "lttng_logger:print")
        || name.starts_with("lttng_ust_tracelog:")
}

/// By trace and event: where the text is.
fn places(group: &Group) -> HashMap<(usize, usize), usize> {
    let mut places = HashMap::new();
    for (trace, opened) in group.traces.iter().enumerate() {
        for (event, class) in opened.metadata.events.iter().enumerate().filter(|(_, class)| is_mark(&class.name)) {
            let fields = opened.metadata.fields(class);
            let position = |name: &&str| fields.iter().find(|field| *field.name == **name).map(|field| field.position);
            if let Some(position) = FIELDS.iter().find_map(position) {
                places.insert((trace, event), position);
            }
        }
    }
    places
}

/// Sends the marks of a group.
pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let places = places(group);
    if places.is_empty() {
        return Ok(());
    }
    let (part_from, part_to) = scan.part();
    let from = part_from.max(scan.from);
    let to = [part_to, scan.to].into_iter().flatten().min();
    let mut learn = Learn::new(&group.traces);
    if let (Some(learn), Some(from)) = (&mut learn, from) {
        let goes_on = || emit.goes_on();
        let before = range::state_before_while(&group.traces, &group.classes, &group.indexes, from, &goes_on);
        let Some(before) = before else { return emit.check().and(Err(Ended::Enough)) };
        learn.begin(&before.state);
    }
    let read_to = group.read_to(to).map(i128::from);
    let mut reader = range::reader(&group.traces, &group.indexes, from.map(i128::from), read_to);
    let mut passed = 0u32;
    while let Some(item) = reader.pass() {
        passed = passed.wrapping_add(1);
        if passed % ASK_EVERY == 0 {
            emit.check()?;
        }
        let place = match item {
            Passed::Record { trace, event, .. } => places.get(&(trace, event)),
            Passed::Loss { .. } => None,
        };
        if place.is_none() && learn.is_none() {
            continue;
        }
        match reader.current() {
            Some(Item::Record(mut record)) => {
                if let Some(learn) = &mut learn {
                    learn.record(&mut record);
                }
                if let Some(place) = place {
                    mark(group, scan, rows, &record, *place);
                }
            }
            Some(Item::Loss(loss)) => learn.iter_mut().for_each(|learn| learn.loss(&loss)),
            None => {}
        }
        if rows.is_full() {
            rows.send(emit)?;
        }
    }
    rows.send(emit)
}

fn mark(group: &Group, scan: &Scan, rows: &mut Rows, record: &Record<'_>, place: usize) {
    let Some(Value::Text(text)) = record.payload.at(place) else { return };
    let at = clamp(record.ns);
    if !scan.wants_time(Some(at)) || scan.part().1.is_some_and(|to| at >= to) {
        return;
    }
    if !scan.wants_cpu(record.cpu) || !scan.wants_tid(record.vtid.map(i64::from)) {
        return;
    }
    rows.push(&[
        at.into(),
        record.cpu.into(),
        record.vpid.into(),
        record.vtid.into(),
        record.procname.into(),
        text.trim_end_matches('\n').into(),
        record.event.name.as_str().into(),
        group.host.as_str().into(),
    ]);
}
