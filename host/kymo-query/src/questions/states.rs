// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads did, and why they waited [spec/view.md 4.6].

pub(super) mod row;

use std::collections::BTreeMap;

use kymo_analyze::{CallSpan, Doing, Doubt, Sink, State, Thread, ThreadSpan, Until};
use kymo_feed::Visit;
use kymo_index::{
    DamagedSums, LATE_NS, Late as LateWait, Long, PartSums, PicturePlace, Pyramid, Shown, TakeThreads, ThreadPicture,
};

use crate::columns::{Answer, Table};
use crate::doing::{self, Calls, STATES};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::people::People;
use crate::pixels::{Mixed, Pixels};
use crate::questions::begun::doubt_bits;
use crate::questions::framed;
use crate::questions::states::row::{CallShown, InPixel, StateStretch, ThreadRow};
use crate::walk::{Gather, Stop, TakePictures};

/// Late waits that are listed at most.
const LATE_MAX: usize = 4096;

/// Pixels of all rows at most.
const CELLS_MAX: usize = 1 << 20;

/// A wait for a CPU that is long.
#[derive(Clone, Copy, Debug)]
struct Late {
    tid: i32,
    from: i64,
    to: i64,
    state: u8,
}

struct States<'o> {
    pyramid: Option<&'o Pyramid>,
    pixels: Pixels,
    states: Calls,
    begin_of_trace: i64,
    rows: BTreeMap<i32, ThreadRow>,
    /// The row of the thread that the index tells of.
    current: ThreadRow,
    people: People,
    with_calls: bool,
    late_ns: Option<u64>,
    late: Vec<Late>,
    /// Names are those of the index.
    are_named: bool,
}

impl Visit for States<'_> {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl Sink for States<'_> {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        // Of all: who preempted and who woke has a name, too.
        if !self.are_named {
            self.people.see(span.from, thread);
        }
        let Some(row) = self.rows.get_mut(&span.tid) else { return };
        let open = span.until == Until::End;
        let doubt = span.doubt.without(Doubt::END);
        row.add(
            &self.pixels,
            &self.states,
            StateStretch { from: span.from, to: span.to, doing: span.doing, open, doubt },
        );
        let is_over = matches!(span.doing, Doing::Runnable { .. }) && span.until != Until::Next;
        let wait_ns = span.to.abs_diff(span.ready_from);
        if is_over && self.late_ns.is_some_and(|late_ns| wait_ns >= late_ns) {
            let state = self.states.state(&span.doing);
            let (from, to) = (span.ready_from, span.to);
            match self.pixels.shift() {
                Some(shift) => LateWait { from, to, state }.put(&mut row.late, shift),
                None => self.late.push(Late { tid: span.tid, from, to, state }),
            }
            if self.late.len() >= 2 * LATE_MAX {
                keep_longest(&mut self.late);
            }
        }
    }

    fn call(&mut self, span: &CallSpan, _: &Thread) {
        let Some(row) = self.rows.get_mut(&span.tid).filter(|_| self.with_calls) else { return };
        let (from, to, call, doubt) = (span.from, span.to, span.call, span.doubt);
        row.call(&self.pixels, CallShown { from, to, call, value: Some(span.value), blocked: span.blocked, doubt });
    }
}

impl TakePictures for States<'_> {
    fn sums(&mut self, part: &PartSums) {
        self.people.of_part(part);
    }

    fn names_are_known(&mut self, are_known: bool) {
        self.are_named = are_known;
    }

    fn picture(&mut self, place: &PicturePlace) -> Result<(), DamagedSums> {
        let (pyramid, shift) = self.pyramid.zip(self.pixels.shift()).ok_or(DamagedSums)?;
        let calls = self.states;
        pyramid.threads_of(place, shift, &calls, self)
    }
}

impl TakeThreads for States<'_> {
    fn wants(&self, tid: i32) -> bool {
        self.rows.contains_key(&tid)
    }

    fn begin(&mut self, tid: i32) {
        self.current = self.rows.get_mut(&tid).map(std::mem::take).unwrap_or_default();
    }

    fn born(&mut self, born: &Long<Doing>) {
        self.current.born(&self.pixels, born);
    }

    #[inline]
    fn shown(&mut self, shown: Shown<'_, Doing, { STATES.len() }>) {
        self.current.shown(&self.pixels, shown);
    }

    fn end(&mut self, of: &ThreadPicture) {
        let (mut row, shift) = (std::mem::take(&mut self.current), self.pixels.shift().unwrap_or_default());
        row.end(of);
        if self.with_calls {
            row.calls(&self.pixels, shift, of);
        }
        if let Some(late_ns) = self.late_ns {
            of.each_late(
                &self.states,
                |_| true,
                |late| {
                    if late.ns() >= late_ns {
                        late.put(&mut row.late, shift);
                    }
                },
            );
        }
        self.rows.insert(of.tid, row);
    }
}

impl Gather for States<'_> {
    fn begin(&mut self, state: &State) {
        for (tid, row) in &mut self.rows {
            row.begin(state.thread(*tid), self.begin_of_trace);
        }
    }

    fn open(&mut self, state: &State, to: i64) {
        for (tid, row) in self.rows.iter_mut().filter(|_| self.with_calls) {
            if let Some(open) = state.thread(*tid).and_then(|thread| thread.call.as_ref()) {
                let (from, call, blocked, doubt) = (open.since, open.call, open.blocked, open.doubt);
                row.call(&self.pixels, CallShown { from, to, call, value: None, blocked, doubt });
            }
        }
    }
}

/// Whether some were left out. Of equal ones the first stay.
fn keep_longest(late: &mut Vec<Late>) -> bool {
    if late.len() <= LATE_MAX {
        return false;
    }
    let ns = |late: &Late| late.to.abs_diff(late.from);
    late.select_nth_unstable_by_key(LATE_MAX, |late| (std::cmp::Reverse(ns(late)), late.to, late.tid));
    late.truncate(LATE_MAX);
    true
}

/// Answers `states`.
///
/// # Errors
/// Parameters; a trace without the scheduler's events.
pub fn states(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let pixels = framed::pixels(of, parameters)?;
    let window = pixels.window();
    let tids =
        parameters.tids()?.ok_or_else(|| Error::parameter("tids", "it is missing: numbers of threads, as 17,23"))?;
    if tids.len() * pixels.count() as usize > CELLS_MAX {
        let most = CELLS_MAX / pixels.count() as usize;
        return Err(Error::parameter("tids", format!("at most {most} threads with so many pixels")));
    }
    let with_calls = parameters.flag("calls")?;
    let late_ns = parameters.number("late", 0..=u64::MAX)?;
    if !of.has_switches() {
        return Err(Error::no_switches());
    }
    let make = |pyramid| States {
        pyramid,
        pixels,
        states: Calls::new(&of.classes.vocabulary),
        begin_of_trace: of.base(),
        rows: tids.iter().map(|tid| (*tid, ThreadRow::default())).collect(),
        current: ThreadRow::default(),
        people: People::default(),
        with_calls,
        late_ns,
        late: Vec::new(),
        are_named: false,
    };
    // Shorter waits are not in pictures.
    let is_in_pictures = late_ns.is_none_or(|late_ns| late_ns >= LATE_NS);
    let (mut answer, mut gather, walked) = framed::gather("states", of, pixels, is_in_pictures, make, stop)?;
    gather.people.finish(&walked.state);
    answer.set("states", STATES.to_vec());
    match window.is_empty() {
        true => tables(&mut answer, gather, &[], of),
        false => {
            gather.rows.values_mut().for_each(|row| row.finish(&pixels));
            tables(&mut answer, gather, &tids, of);
        }
    }
    walked.tell(&mut answer);
    Ok(answer)
}

fn tables(answer: &mut Answer, mut gather: States<'_>, tids: &[i32], of: &Opened) {
    let people: Vec<_> = tids.iter().map(|tid| gather.people.newest(*tid)).collect();
    let names: Vec<_> =
        people.iter().map(|person| person.and_then(|person| answer.texts.name(person.name.as_str()))).collect();
    let table = Table::new("rows")
        .column("tid", tids.iter().copied())
        .column("name", names)
        .column("process", people.iter().map(|person| person.and_then(|person| person.process)))
        .column("prio", people.iter().map(|person| person.and_then(|person| person.prio())));
    answer.push(table);
    let table = span_table(answer, &gather, tids, of);
    answer.push(table);
    let pixels = gather.pixels;
    let (mut mixed, mut shares): (Vec<(i32, Mixed)>, Vec<f32>) = (Vec::new(), Vec::new());
    for tid in tids {
        let Some(row) = gather.rows.get_mut(tid) else { continue };
        let mut own = std::mem::take(&mut row.row).finish(&pixels);
        mixed.extend(own.list.iter().map(|of| (*tid, *of)));
        shares.append(&mut own.shares);
    }
    answer.push(mixed_table(&mixed));
    answer.push(Table::new("shares").column("share", shares));
    for (tid, row) in tids.iter().filter_map(|tid| Some((*tid, gather.rows.get(tid)?))) {
        gather.late.extend(row.late.iter().map(|of| Late { tid, from: of.from, to: of.to, state: of.state }));
    }
    if keep_longest(&mut gather.late) {
        answer.notes.push(format!("more than {LATE_MAX} waits are that long; the longest are listed"));
    }
    gather.late.sort_by_key(|late| (late.to, late.tid));
    let late = &gather.late;
    let table = Table::new("late")
        .column("tid", late.iter().map(|late| late.tid))
        .column("from", late.iter().map(|late| answer.time(late.from)))
        .column("to", late.iter().map(|late| answer.time(late.to)))
        .column("state", late.iter().map(|late| late.state));
    answer.push(table);
    call_tables(answer, &gather, tids, of);
}

fn span_table(answer: &mut Answer, gather: &States<'_>, tids: &[i32], of: &Opened) -> Table {
    let mut spans: Vec<(i32, StateStretch)> = Vec::new();
    for (tid, row) in tids.iter().filter_map(|tid| Some((*tid, gather.rows.get(tid)?))) {
        spans.extend(row.spans.iter().map(|span| (tid, *span)));
    }
    let end = gather.pixels.window().to;
    let by: Vec<_> = spans.iter().map(|(_, span)| doing::by(&span.doing)).collect();
    let (mut names, mut calls) = (Vec::new(), Vec::new());
    for ((_, span), by) in spans.iter().zip(&by) {
        let name = match by.map(|by| (by, by.tid())) {
            Some((_, Some(tid))) if tid != 0 => gather.people.name(tid, span.from).to_string(),
            Some((by, _)) => by.other().unwrap_or_default(),
            None => String::new(),
        };
        names.push(answer.texts.name(&name));
        let call = match span.doing {
            Doing::Blocked { call, .. } => call,
            _ => None,
        };
        calls.push(call.map(|call| answer.texts.text(&of.classes.vocabulary.call_name(call))));
    }
    let letter = |doing: &Doing| match doing {
        Doing::Blocked { state, .. } => Some(*state),
        _ => None,
    };
    Table::new("spans")
        .column("tid", spans.iter().map(|(tid, _)| *tid))
        .column("from", spans.iter().map(|(_, span)| answer.time(span.from)))
        .column("to", spans.iter().map(|(_, span)| answer.time(span.to.min(end))))
        .column("state", spans.iter().map(|(_, span)| gather.states.state(&span.doing)))
        .column("cpu", spans.iter().map(|(_, span)| doing::cpu(&span.doing)))
        .column("by", by.iter().map(|by| by.and_then(doing::By::tid)))
        .column("by_name", names)
        .column("letter", spans.iter().map(|(_, span)| letter(&span.doing)))
        .column("call", calls)
        .column("open", spans.iter().map(|(_, span)| u8::from(span.open)))
        .column("doubt", spans.iter().map(|(_, span)| doubt_bits(span.doubt)))
}

fn mixed_table(mixed: &[(i32, Mixed)]) -> Table {
    Table::new("mixed")
        .column("tid", mixed.iter().map(|(tid, _)| *tid))
        .column("pixel", mixed.iter().map(|(_, of)| of.pixel))
        .column("state", mixed.iter().map(|(_, of)| of.state))
        .column("states", mixed.iter().map(|(_, of)| of.states))
        .column("count", mixed.iter().map(|(_, of)| of.count))
        .column("doubt", mixed.iter().map(|(_, of)| doubt_bits(of.doubt)))
}

fn call_tables(answer: &mut Answer, gather: &States<'_>, tids: &[i32], of: &Opened) {
    let (mut calls, mut in_pixels) = (Vec::new(), Vec::new());
    for (tid, row) in tids.iter().filter_map(|tid| Some((*tid, gather.rows.get(tid)?))) {
        calls.extend(row.calls.iter().map(|call| (tid, *call)));
        in_pixels.extend(row.in_pixels.iter().map(|of| (tid, *of)));
    }
    let name = |call: &CallShown| of.classes.vocabulary.call_name(call.call);
    let names: Vec<_> = calls.iter().map(|(_, call)| answer.texts.text(&name(call))).collect();
    let table = Table::new("calls")
        .column("tid", calls.iter().map(|(tid, _)| *tid))
        .column("from", calls.iter().map(|(_, call)| answer.time(call.from)))
        .column("to", calls.iter().map(|(_, call)| answer.time(call.to)))
        .column("name", names)
        .column("value", calls.iter().map(|(_, call)| call.value))
        .column("blocked", calls.iter().map(|(_, call)| u8::from(call.blocked)))
        .column("open", calls.iter().map(|(_, call)| u8::from(call.value.is_none())))
        .column("doubt", calls.iter().map(|(_, call)| doubt_bits(call.doubt)));
    answer.push(table);
    let share = |of: &InPixel| (of.ns as f64 / gather.pixels.ns_of(of.pixel).max(1) as f64) as f32;
    let table = Table::new("calls_mixed")
        .column("tid", in_pixels.iter().map(|(tid, _)| *tid))
        .column("pixel", in_pixels.iter().map(|(_, of)| of.pixel))
        .column("share", in_pixels.iter().map(|(_, of)| share(of)))
        .column("count", in_pixels.iter().map(|(_, of)| of.count));
    answer.push(table);
}
