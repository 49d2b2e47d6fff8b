// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each CPU did [spec/view.md 4.4]: who was current, and interrupts within.

use std::collections::BTreeMap;

use kymo_analyze::{
    Context, CpuSpan, Doubt, Event, Head, Interrupt, InterruptSpan, Sink, State, Thread, ThreadSpan, Threads,
};
use kymo_feed::Visit;
use kymo_index::{CpuPicture, DamagedSums, Long, PartSums, PicturePlace, Pyramid, Shown};

use crate::columns::{Answer, Table};
use crate::doing::Calls;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::people::People;
use crate::pixels::{Mixed, PixelRow, Pixels, Stretch, levels};
use crate::questions::begun::doubt_bits;
use crate::questions::framed;
use crate::walk::{Gather, Stop, TakePictures};

/// States of CPUs, by number.
const STATES: [&str; 3] = ["unknown", "idle", "thread"];

/// A stretch of one thread, idleness, or not knowing.
#[derive(Clone, Copy, Debug)]
struct CurrentSpan {
    from: i64,
    to: i64,
    current: Context,
    doubt: Doubt,
    open: bool,
}

impl CurrentSpan {
    fn state(&self) -> u8 {
        match self.current {
            Context::Idle => 1,
            Context::Thread(_) => 2,
            Context::Unknown | Context::Interrupt(_) => 0,
        }
    }

    fn tid(&self) -> Option<i32> {
        match self.current {
            Context::Thread(tid) => Some(tid),
            _ => None,
        }
    }
}

/// An interrupt, softirq or timer call.
#[derive(Clone, Debug)]
struct Interrupted {
    from: i64,
    to: i64,
    kind: u8,
    name: String,
    away_ns: u64,
    doubt: Doubt,
    open: bool,
}

/// Time in interrupts of one pixel.
#[derive(Clone, Copy, Debug, Default)]
struct InPixel {
    pixel: u32,
    irq_ns: u64,
    softirq_ns: u64,
    count: u32,
}

/// A pixel of a CPU that is not within one stretch.
struct MixedOfCpu {
    cpu: u32,
    of: Mixed,
    /// By state.
    shares: [f32; 3],
}

/// All of one CPU.
#[derive(Default)]
struct CpuRow {
    /// Up to when the row is filled, ns.
    at: Option<i64>,
    pending: Option<CurrentSpan>,
    row: PixelRow<3>,
    spans: Vec<CurrentSpan>,
    /// By state, ns.
    sums: [u64; 3],
    irq_ns: u64,
    softirq_ns: u64,
    longest_irq_ns: Option<u64>,
    interrupts: Vec<Interrupted>,
    in_pixels: Vec<InPixel>,
    /// When, kHz; and when, the idle state.
    frequency: Vec<(i64, u32)>,
    idle: Vec<(i64, Option<u32>)>,
}

impl CpuRow {
    /// Takes a stretch; those of the same thread that follow each other are one.
    fn current(&mut self, pixels: &Pixels, span: CurrentSpan) {
        let at = self.at.unwrap_or(pixels.window().from);
        if span.from > at {
            let unknown =
                CurrentSpan { from: at, to: span.from, current: Context::Unknown, doubt: Doubt::START, open: false };
            self.follow(pixels, unknown);
        }
        self.at = Some(span.to.max(at));
        self.follow(pixels, span);
    }

    fn follow(&mut self, pixels: &Pixels, span: CurrentSpan) {
        match &mut self.pending {
            Some(pending) if pending.current == span.current && pending.to == span.from => {
                pending.to = span.to;
                pending.doubt |= span.doubt;
                pending.open |= span.open;
            }
            _ => {
                self.flush(pixels);
                self.pending = Some(span);
            }
        }
    }

    fn flush(&mut self, pixels: &Pixels) {
        let Some(mut span) = self.pending.take() else { return };
        if pixels.shift().is_some() {
            span.from = span.from.max(pixels.window().from);
        }
        let state = span.state();
        if let Some((from, to)) = pixels.cut(span.from, span.to) {
            self.sums[usize::from(state)] += to.abs_diff(from);
        }
        let stretch = Stretch { from: span.from, to: span.to, state, tid: span.tid(), doubt: span.doubt };
        if self.row.add(pixels, &stretch) {
            self.spans.push(span);
        }
    }

    /// Takes what the index has of a part of the window.
    fn picture(&mut self, pixels: &Pixels, states: &Calls, (own, shift): (u32, u32), of: &CpuPicture) {
        let begin = pixels.window().from;
        // What was pending is in the picture, as part of a longer stretch.
        self.pending = of.row.born.as_ref().map(|born| current(born, begin));
        self.flush(pixels);
        let CpuRow { row, spans, sums, .. } = self;
        of.row.replay(own, shift, states, |shown| match shown {
            Shown::Cell(cell) => {
                row.column(pixels, cell);
                for (sum, ns) in sums.iter_mut().zip(cell.ns).filter(|_| pixels.of_column(cell.from).is_some()) {
                    *sum = sum.saturating_add(ns);
                }
            }
            Shown::Part(part) => {
                row.part_of_pixel(pixels, &part);
                let sum = sums.get_mut(usize::from(part.state)).filter(|_| pixels.of_column(part.from).is_some());
                sum.into_iter().for_each(|sum| *sum = sum.saturating_add(part.ns));
            }
            Shown::Long(long) => {
                let span = current(long, begin);
                if pixels.covers(long.from, long.to) {
                    spans.push(span);
                }
                // Its ends are in parts.
                let (from, to) = whole_columns(long.from, long.to, shift);
                if let Some((from, to)) = pixels.cut(from, to) {
                    sums[usize::from(span.state())] += to.abs_diff(from);
                }
            }
        });
        self.pending = of.tail.as_ref().map(|tail| current(tail, begin));
        self.at = self.pending.map(|pending| pending.to).or(self.at);
        self.interrupts_of(pixels, states, (own, shift), of);
        for long in &of.long_interrupts {
            let of = Interrupted {
                from: long.from,
                to: long.to,
                kind: kind(long.interrupt),
                name: name(long.interrupt, long.name.as_str()),
                away_ns: long.away_ns,
                doubt: long.doubt,
                open: false,
            };
            self.interrupt(pixels, of);
        }
        self.longest_irq_ns = self.longest_irq_ns.max(of.longest_ns);
        of.frequency.iter().for_each(|(at, khz)| put(&mut self.frequency, pixels, *at, *khz));
        of.idle.iter().for_each(|(at, state)| put(&mut self.idle, pixels, *at, *state));
    }

    /// Time in interrupts of a part of the window.
    fn interrupts_of(&mut self, pixels: &Pixels, states: &Calls, (own, shift): (u32, u32), of: &CpuPicture) {
        of.interrupts.replay(own, shift, states, |shown| match shown {
            Shown::Cell(cell) => {
                let Some(pixel) = pixels.of_column(cell.from) else { return };
                self.add_interrupt(pixel, cell.ns, |before| cell.touches_behind(before));
            }
            Shown::Part(part) => {
                let Some(pixel) = pixels.of_column(part.from) else { return };
                let ns = if part.state == 1 { [0, part.ns] } else { [part.ns, 0] };
                self.add_interrupt(pixel, ns, |before| part.touches_behind(before));
            }
            Shown::Long(long) => {
                let (from, to) = whole_columns(long.from, long.to, shift);
                let of_kind = |ns| if long.what.0 { [0, ns] } else { [ns, 0] };
                pixels.each(from, to, |pixel, ns| self.add_interrupt(pixel, of_kind(ns), |_| 1));
            }
        });
    }

    fn in_interrupt(&mut self, pixels: &Pixels, span: &CpuSpan, interrupt: Interrupt) {
        let of_kind = |ns| if interrupt.is_hard() { [ns, 0] } else { [0, ns] };
        pixels.each(span.from, span.to, |pixel, ns| self.add_interrupt(pixel, of_kind(ns), |_| 1));
    }

    /// Adds time in hard interrupts and in softirqs. `count`: how many these are, where a pixel has so many already.
    fn add_interrupt(&mut self, pixel: u32, [irq_ns, softirq_ns]: [u64; 2], count: impl Fn(u32) -> u32) {
        if self.in_pixels.last().is_none_or(|last| last.pixel != pixel) {
            self.in_pixels.push(InPixel { pixel, ..InPixel::default() });
        }
        let Some(last) = self.in_pixels.last_mut() else { return };
        last.irq_ns = last.irq_ns.saturating_add(irq_ns);
        last.softirq_ns = last.softirq_ns.saturating_add(softirq_ns);
        last.count = last.count.saturating_add(count(last.count));
        self.irq_ns = self.irq_ns.saturating_add(irq_ns);
        self.softirq_ns = self.softirq_ns.saturating_add(softirq_ns);
    }

    fn interrupt(&mut self, pixels: &Pixels, of: Interrupted) {
        if of.to < pixels.window().from {
            return;
        }
        let ns = of.to.abs_diff(of.from).saturating_sub(of.away_ns);
        self.longest_irq_ns = self.longest_irq_ns.max(Some(ns).filter(|_| !of.open));
        if pixels.shows(of.to.abs_diff(of.from)) {
            self.interrupts.push(of);
        }
    }

    /// Fills the row up to the end.
    fn finish(&mut self, pixels: &Pixels) {
        let (at, to) = (self.at.unwrap_or(pixels.window().from), pixels.window().to);
        if at < to {
            self.follow(
                pixels,
                CurrentSpan { from: at, to, current: Context::Unknown, doubt: Doubt::NONE, open: true },
            );
        }
        self.flush(pixels);
    }
}

/// The columns that a stretch covers.
fn whole_columns(from: i64, to: i64, shift: u32) -> (i64, i64) {
    (((from - 1) >> shift << shift) + (1 << shift), to >> shift << shift)
}

/// A stretch of the index. Of one that is as old as the trace only that is known which lies in the window.
fn current(of: &Long<Context>, begin: i64) -> CurrentSpan {
    CurrentSpan { from: of.from.max(begin), to: of.to, current: of.what, doubt: of.doubt, open: false }
}

/// A kind of interrupt: 0, softirq: 1, timer call: 2.
fn kind(interrupt: Interrupt) -> u8 {
    match interrupt {
        Interrupt::Irq(_) | Interrupt::Vector(_) | Interrupt::Hard => 0,
        Interrupt::Softirq(_) | Interrupt::Soft => 1,
        Interrupt::Hrtimer(_) | Interrupt::Timer(_) => 2,
    }
}

fn name(interrupt: Interrupt, name: &str) -> String {
    if name.is_empty() { interrupt.to_string() } else { format!("{interrupt} {name}") }
}

/// Takes the last of a pixel.
fn put<T>(list: &mut Vec<(i64, T)>, pixels: &Pixels, at: i64, value: T) {
    match list.last_mut() {
        Some(last) if pixels.of(last.0) == pixels.of(at) => *last = (at, value),
        _ => list.push((at, value)),
    }
}

struct Cpus<'o> {
    pyramid: Option<&'o Pyramid>,
    calls: Calls,
    pixels: Pixels,
    wanted: Option<Vec<u32>>,
    rows: BTreeMap<u32, CpuRow>,
    people: People,
    is_over: bool,
    /// Names are those of the index.
    are_named: bool,
}

impl Cpus<'_> {
    fn row(&mut self, cpu: u32) -> Option<&mut CpuRow> {
        let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&cpu));
        is_wanted.then(|| self.rows.entry(cpu).or_default())
    }
}

impl Visit for Cpus<'_> {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl TakePictures for Cpus<'_> {
    fn sums(&mut self, part: &PartSums) {
        self.people.of_part(part);
    }

    fn names_are_known(&mut self, are_known: bool) {
        self.are_named = are_known;
    }

    fn picture(&mut self, place: &PicturePlace) -> Result<(), DamagedSums> {
        let (pyramid, shift) = self.pyramid.zip(self.pixels.shift()).ok_or(DamagedSums)?;
        let (pixels, calls) = (self.pixels, self.calls);
        for of in pyramid.cpus_of(place)? {
            if let Some(row) = self.row(of.cpu) {
                row.picture(&pixels, &calls, (place.shift, shift), &of);
            }
        }
        Ok(())
    }
}

impl Sink for Cpus<'_> {
    fn event(&mut self, head: &Head, event: &Event, _: &State) {
        let pixels = self.pixels;
        match *event {
            Event::Frequency { cpu, khz } => {
                if let Some(row) = cpu.or(head.cpu).and_then(|cpu| self.row(cpu)) {
                    put(&mut row.frequency, &pixels, head.time, khz);
                }
            }
            Event::Idle { cpu, state } => {
                if let Some(row) = cpu.or(head.cpu).and_then(|cpu| self.row(cpu)) {
                    put(&mut row.idle, &pixels, head.time, state);
                }
            }
            _ => {}
        }
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        if !self.are_named {
            self.people.see(span.from, thread);
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        let (pixels, open) = (self.pixels, self.is_over);
        let Some(row) = self.row(span.cpu) else { return };
        let doubt = span.doubt.without(Doubt::END);
        row.current(&pixels, CurrentSpan { from: span.from, to: span.to, current: span.current, doubt, open });
        if let Context::Interrupt(interrupt) = span.context {
            row.in_interrupt(&pixels, span, interrupt);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan, _: Threads<'_>) {
        let pixels = self.pixels;
        let Some(row) = self.row(span.cpu) else { return };
        let of = Interrupted {
            from: span.from,
            to: span.to,
            kind: kind(span.interrupt),
            name: name(span.interrupt, span.name.as_str()),
            away_ns: span.away_ns.max(0) as u64,
            doubt: span.doubt,
            open: false,
        };
        row.interrupt(&pixels, of);
    }
}

impl Gather for Cpus<'_> {
    /// What was set before the window holds at its begin.
    fn begin(&mut self, state: &State) {
        let from = self.pixels.window().from;
        for cpu in state.cpus().filter(|cpu| cpu.khz.is_some() || cpu.idle.is_some()) {
            let Some(row) = self.row(cpu.number) else { continue };
            row.frequency.extend(cpu.khz.map(|khz| (from, khz)));
            row.idle.extend(cpu.idle.map(|idle| (from, Some(idle))));
        }
    }

    fn open(&mut self, state: &State, to: i64) {
        let pixels = self.pixels;
        for cpu in state.cpus() {
            let Some(row) = self.row(cpu.number) else { continue };
            for frame in cpu.frames() {
                let of = Interrupted {
                    from: frame.since,
                    to,
                    kind: kind(frame.interrupt),
                    name: name(frame.interrupt, frame.name.as_str()),
                    away_ns: 0,
                    doubt: Doubt::NONE,
                    open: true,
                };
                row.interrupt(&pixels, of);
            }
        }
        self.is_over = true;
    }
}

/// Answers `cpus`.
///
/// # Errors
/// Parameters; a trace without the scheduler's events.
pub fn cpus(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let pixels = framed::pixels(of, parameters)?;
    let window = pixels.window();
    let wanted = parameters.cpus()?;
    if !of.has_switches() {
        return Err(Error::no_switches());
    }
    let make = |pyramid| {
        let (calls, wanted) = (Calls::new(&of.classes.vocabulary), wanted.clone());
        let (rows, people) = (BTreeMap::new(), People::default());
        Cpus { pyramid, calls, pixels, wanted, rows, people, is_over: false, are_named: false }
    };
    let (mut answer, mut gather, walked) = framed::gather("cpus", of, pixels, true, make, stop)?;
    gather.people.finish(&walked.state);
    answer.set("states", STATES.to_vec());
    match window.is_empty() {
        true => gather.rows.clear(),
        false => gather.rows.values_mut().for_each(|row| row.finish(&pixels)),
    }
    tables(&mut answer, gather);
    walked.tell(&mut answer);
    Ok(answer)
}

fn tables(answer: &mut Answer, gather: Cpus<'_>) {
    let Cpus { pixels, mut rows, people, .. } = gather;
    let of_all = |value: fn(&CpuRow) -> u64| rows.values().map(value).collect::<Vec<u64>>();
    let table = Table::new("rows")
        .column("cpu", rows.keys().copied())
        .column("thread_ns", of_all(|row| row.sums[2]))
        .column("idle_ns", of_all(|row| row.sums[1]))
        .column("unknown_ns", of_all(|row| row.sums[0]))
        .column("irq_ns", of_all(|row| row.irq_ns))
        .column("softirq_ns", of_all(|row| row.softirq_ns))
        .column("longest_irq_ns", rows.values().map(|row| row.longest_irq_ns));
    answer.push(table);
    let spans: Vec<(u32, CurrentSpan)> =
        rows.iter().flat_map(|(cpu, row)| row.spans.iter().map(|span| (*cpu, *span))).collect();
    let table = span_table(answer, &spans, &people, &pixels);
    answer.push(table);
    let mut mixed = Vec::new();
    for (cpu, row) in &mut rows {
        let own = std::mem::take(&mut row.row).finish(&pixels);
        mixed.extend(own.by_state().map(|(of, shares)| MixedOfCpu { cpu: *cpu, of, shares }));
    }
    let table = mixed_table(answer, &mixed, &people, &pixels);
    answer.push(table);
    interrupt_tables(answer, &rows, &pixels);
    let changes: Vec<_> =
        rows.iter().flat_map(|(cpu, row)| row.frequency.iter().map(|change| (*cpu, *change))).collect();
    let table = Table::new("frequency")
        .column("cpu", changes.iter().map(|change| change.0))
        .column("at", changes.iter().map(|change| answer.time(change.1.0)))
        .column("khz", changes.iter().map(|change| change.1.1));
    answer.push(table);
    let changes: Vec<_> = rows.iter().flat_map(|(cpu, row)| row.idle.iter().map(|change| (*cpu, *change))).collect();
    let table = Table::new("idle")
        .column("cpu", changes.iter().map(|change| change.0))
        .column("at", changes.iter().map(|change| answer.time(change.1.0)))
        .column("state", changes.iter().map(|change| change.1.1));
    answer.push(table);
}

fn span_table(answer: &mut Answer, spans: &[(u32, CurrentSpan)], people: &People, pixels: &Pixels) -> Table {
    let end = |span: &CurrentSpan| span.to.min(pixels.window().to);
    let person = |span: &CurrentSpan| people.at(span.tid()?, end(span).saturating_sub(1));
    let people: Vec<_> = spans.iter().map(|(_, span)| person(span)).collect();
    let names: Vec<_> =
        people.iter().map(|person| person.and_then(|person| answer.texts.name(person.name.as_str()))).collect();
    Table::new("spans")
        .column("cpu", spans.iter().map(|(cpu, _)| *cpu))
        .column("from", spans.iter().map(|(_, span)| answer.time(span.from)))
        .column("to", spans.iter().map(|(_, span)| answer.time(end(span))))
        .column("state", spans.iter().map(|(_, span)| span.state()))
        .column("tid", spans.iter().map(|(_, span)| span.tid()))
        .column("name", names)
        .column("process", people.iter().map(|person| person.and_then(|person| person.process)))
        .column("prio", people.iter().map(|person| person.and_then(|person| person.prio())))
        .column("open", spans.iter().map(|(_, span)| u8::from(span.open)))
        .column("doubt", spans.iter().map(|(_, span)| doubt_bits(span.doubt)))
}

fn mixed_table(answer: &mut Answer, mixed: &[MixedOfCpu], people: &People, pixels: &Pixels) -> Table {
    let person = |of: &Mixed| people.at(of.tid?, pixels.edge(of.pixel + 1).saturating_sub(1));
    let people: Vec<_> = mixed.iter().map(|mixed| person(&mixed.of)).collect();
    let names: Vec<_> =
        people.iter().map(|person| person.and_then(|person| answer.texts.name(person.name.as_str()))).collect();
    Table::new("mixed")
        .column("cpu", mixed.iter().map(|mixed| mixed.cpu))
        .column("pixel", mixed.iter().map(|mixed| mixed.of.pixel))
        .column("state", mixed.iter().map(|mixed| mixed.of.state))
        .column("tid", mixed.iter().map(|mixed| mixed.of.tid))
        .column("name", names)
        .column("process", people.iter().map(|person| person.and_then(|person| person.process)))
        .column("thread", mixed.iter().map(|mixed| mixed.shares[2]))
        .column("idle", mixed.iter().map(|mixed| mixed.shares[1]))
        .column("unknown", mixed.iter().map(|mixed| mixed.shares[0]))
        .column("count", mixed.iter().map(|mixed| mixed.of.count))
        .column("doubt", mixed.iter().map(|mixed| doubt_bits(mixed.of.doubt)))
}

fn interrupt_tables(answer: &mut Answer, rows: &BTreeMap<u32, CpuRow>, pixels: &Pixels) {
    let (mut all, mut depths) = (Vec::new(), Vec::new());
    for (cpu, row) in rows {
        let stretches: Vec<(i64, i64)> = row.interrupts.iter().map(|of| (of.from, of.to)).collect();
        depths.extend(levels(&stretches));
        all.extend(row.interrupts.iter().map(|of| (*cpu, of)));
    }
    let names: Vec<_> = all.iter().map(|(_, of)| answer.texts.text(&of.name)).collect();
    let table = Table::new("interrupts")
        .column("cpu", all.iter().map(|(cpu, _)| *cpu))
        .column("from", all.iter().map(|(_, of)| answer.time(of.from)))
        .column("to", all.iter().map(|(_, of)| answer.time(of.to)))
        .column("kind", all.iter().map(|(_, of)| of.kind))
        .column("level", depths.iter().map(|level| (*level).min(254) as u8))
        .column("name", names)
        .column("away_ns", all.iter().map(|(_, of)| of.away_ns))
        .column("open", all.iter().map(|(_, of)| u8::from(of.open)))
        .column("doubt", all.iter().map(|(_, of)| doubt_bits(of.doubt)));
    answer.push(table);
    let all: Vec<(u32, InPixel)> =
        rows.iter().flat_map(|(cpu, row)| row.in_pixels.iter().map(|of| (*cpu, *of))).collect();
    let share = |pixel: u32, ns: u64| (ns as f64 / pixels.ns_of(pixel).max(1) as f64) as f32;
    let table = Table::new("interrupts_mixed")
        .column("cpu", all.iter().map(|(cpu, _)| *cpu))
        .column("pixel", all.iter().map(|(_, of)| of.pixel))
        .column("irq", all.iter().map(|(_, of)| share(of.pixel, of.irq_ns)))
        .column("softirq", all.iter().map(|(_, of)| share(of.pixel, of.softirq_ns)))
        .column("count", all.iter().map(|(_, of)| of.count));
    answer.push(table);
}
