// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of text for each record: `14:03:12.123456789 (+0.000001234) cpu1 prog[1234/1240] motor:step: axis=3`.
//!
//! A thread of which only the tid is known is `[-/1240]`.
//!
//! What comes from the traced program is shown without control characters, so that no trace can drive a terminal.

use std::io::Write as _;

use kymo_ctf::read::{Base, Loss, Number, Plain, Record, Trace, Value, WideInt};

use super::columns::{Column, Columns, Heads};
use super::format::Format;
use super::line::{Label, Line, PIECES};
use super::select::Selection;
use super::zone::Zone;
use kymo_command::terminal::{END, Style, has_color};
use kymo_export::digits::{push_hex, push_nine, push_u64};

/// How times are shown.
#[derive(Clone, Copy)]
pub struct Times {
    pub cycles: bool,
    pub utc: bool,
    pub date: bool,
}

/// The text form.
pub struct Text<'a> {
    selection: &'a Selection,
    times: Times,
    zone: Zone,
    second: Second,
    /// By trace: its clock counts from 1970.
    dated: Vec<bool>,
    /// Time of the line before, in the unit that is shown.
    before: Option<i128>,
    columns: Columns,
    heads: Heads,
    line: Line,
    /// For pieces of a line that are not among the plain ones.
    piece: Vec<u8>,
}

/// The second of the last time of a clock without a date, as it stands in front of the fraction.
#[derive(Default)]
struct Second {
    from_ns: i64,
    shown: Vec<u8>,
}

impl Second {
    /// The seconds, and the nanoseconds behind them. `None` in front of the clock's origin, and beyond 292 years.
    #[inline]
    fn of(&mut self, ns: i128) -> Option<(&[u8], u32)> {
        const SECOND: i64 = 1_000_000_000;
        let ns = i64::try_from(ns).ok().filter(|ns| *ns >= 0)?;
        if self.shown.is_empty() || !(0..SECOND).contains(&(ns - self.from_ns)) {
            self.from_ns = ns / SECOND * SECOND;
            self.shown = format!("{}.", ns / SECOND).into_bytes();
        }
        Some((&self.shown, (ns - self.from_ns) as u32))
    }
}

impl<'a> Text<'a> {
    pub fn new(traces: &[Trace], selection: &'a Selection, times: Times, before: Option<i128>) -> Self {
        let dated = |trace: &Trace| trace.metadata.clocks.iter().all(|clock| clock.absolute || clock.offset_s != 0);
        Self {
            selection,
            times,
            zone: Zone::new(times.utc, times.date),
            second: Second::default(),
            dated: traces.iter().map(dated).collect(),
            before,
            columns: Columns::new(traces, selection, |out, name| {
                push_clean(out, name);
                out.push(b'=');
            }),
            heads: Heads::default(),
            line: Line::default(),
            piece: Vec::new(),
        }
    }

    fn time(&mut self, out: &mut Vec<u8>, trace: usize, ns: i128, cycles: u64) {
        if self.times.cycles {
            push_u64(out, cycles);
        } else if self.dated[trace] {
            self.zone.push(out, ns);
        } else {
            push_seconds(out, ns);
        }
    }

    fn delta(&mut self, out: &mut Vec<u8>, now: i128) {
        match self.before.replace(now).map(|before| now - before) {
            None if self.times.cycles => out.extend_from_slice(b"(+?)"),
            None => out.extend_from_slice(b"(+?.?????????)"),
            Some(delta) => {
                out.push(b'(');
                if delta >= 0 {
                    out.push(b'+');
                }
                if self.times.cycles {
                    push_signed(out, delta)
                } else {
                    push_seconds(out, delta)
                }
                out.push(b')');
            }
        }
    }
}

impl Text<'_> {
    /// Time of day and distance from the record before, each with a space behind it.
    #[inline]
    fn times_of(&mut self, record: &Record<'_>) {
        let columns = self.selection.columns;
        if columns.time {
            let known = match self.dated[record.trace] {
                _ if self.times.cycles => None,
                true => self.zone.same_second(record.ns),
                false => self.second.of(record.ns),
            };
            match known {
                Some((shown, fraction)) => {
                    self.line.chunks(shown);
                    self.line.reserve(PIECES);
                    self.line.nine(fraction);
                    self.line.byte(b' ');
                }
                None => self.slow(|text, out| text.time(out, record.trace, record.ns, record.cycles)),
            }
        }
        if columns.delta {
            let now = if self.times.cycles { i128::from(record.cycles) } else { record.ns };
            let delta = self.before.and_then(|before| u32::try_from(now - before).ok());
            match delta.filter(|&delta| delta < 1_000_000_000 && !self.times.cycles) {
                Some(delta) => {
                    self.before = Some(now);
                    self.line.reserve(PIECES);
                    self.line.short(b"(+0.");
                    self.line.nine(delta);
                    self.line.short(b") ");
                }
                None => self.slow(|text, out| text.delta(out, now)),
            }
        }
    }

    /// Adds what `push` makes, and a space.
    #[cold]
    fn slow(&mut self, push: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        push(self, &mut piece);
        piece.push(b' ');
        self.line.slice(&piece);
        self.piece = piece;
    }
}

/// Adds a field with its name, if the record has it; `fields`: its bytes. `piece` is scratch.
#[inline]
fn push_column(
    line: &mut Line,
    piece: &mut Vec<u8>,
    column: &Column,
    (record, fields): (&Record<'_>, &[u8]),
    is_first: bool,
) -> bool {
    let label = if is_first { &column.first } else { &column.later };
    line.reserve(PIECES + label.len());
    if let Some(number) = column.direct.and_then(|direct| direct.read(fields)) {
        match (number, column.base) {
            (Number::Unsigned(value), Base::Decimal) => {
                line.label(label);
                line.unsigned(value);
                return true;
            }
            (Number::Signed(value), Base::Decimal) => {
                line.label(label);
                line.signed(value);
                return true;
            }
            _ => {}
        }
    }
    push_other(line, piece, column, record, label)
}

/// The same of what is no integer of whole bytes.
fn push_other(line: &mut Line, piece: &mut Vec<u8>, column: &Column, record: &Record<'_>, label: &Label) -> bool {
    if let Some(plain) = column.lens.plain(record) {
        line.label(label);
        if push_plain(line, plain, column.base) {
            return true;
        }
        piece.clear();
    } else {
        piece.clear();
        piece.extend_from_slice(label.bytes());
    }
    // The value by reference: one that is moved right after it was made costs more than all else here.
    let value = &column.lens.value(record);
    let Some(value) = value else { return false };
    push_value(piece, value);
    line.slice(piece);
    true
}

/// Adds a value that needs no allocation and no search. False where it is another one.
#[inline]
fn push_plain(line: &mut Line, value: Plain<'_>, base: Base) -> bool {
    match (value, base) {
        (Plain::Unsigned(value), Base::Decimal) => line.unsigned(value),
        (Plain::Signed(value), Base::Decimal) => line.signed(value),
        (Plain::Unsigned(value), Base::Hexadecimal) => line.hex(value),
        (Plain::F64(value), _) => return line.whole(value),
        (Plain::Text(text), _) => return line.quoted(text),
        _ => return false,
    }
    true
}

impl Format for Text<'_> {
    fn resume(&mut self, before: Option<i128>) {
        self.before = before;
    }

    fn record(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        self.line.clear();
        self.times_of(record);
        let selection = self.selection;
        self.line.chunks(self.heads.of(record, |out| head(out, record, selection)));
        let fields = record.fields().unwrap_or_default();
        let mut is_first = true;
        for column in self.columns.of(record) {
            is_first &= !push_column(&mut self.line, &mut self.piece, column, (record, fields), is_first);
        }
        // No line ends in a space or in a colon.
        self.line.trim();
        // Nothing of what the user wants is in this record.
        if !self.line.bytes().is_empty() {
            self.line.reserve(1);
            self.line.byte(b'\n');
            out.extend_from_slice(self.line.bytes());
        }
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &Loss<'_>) {
        begin(out, Style::Alarm);
        out.extend_from_slice(b"--- lost ");
        if loss.records > 0 || loss.packets == 0 {
            push_u64(out, loss.records);
            out.extend_from_slice(if loss.records == 1 { b" record" } else { b" records" });
        }
        if loss.packets > 0 {
            out.extend_from_slice(if loss.records > 0 { b" and " } else { b"" });
            push_u64(out, loss.packets);
            out.extend_from_slice(if loss.packets == 1 { b" packet" } else { b" packets" });
        }
        match loss.cpu {
            Some(cpu) => {
                out.extend_from_slice(b" on cpu");
                push_u64(out, cpu.into());
            }
            None => {
                out.extend_from_slice(b" on stream ");
                push_clean(out, loss.stream);
            }
        }
        match (loss.vpid, loss.cpu) {
            (Some(pid), _) => {
                out.extend_from_slice(b" (pid ");
                push_u64(out, pid.into());
                out.push(b')');
            }
            // A CPU can have several streams that belong to no process.
            (None, Some(_)) => {
                out.extend_from_slice(b" (stream ");
                push_clean(out, loss.stream);
                out.push(b')');
            }
            (None, None) => {}
        }
        out.extend_from_slice(b" between ");
        self.time(out, loss.trace, loss.from_ns, loss.from_cycles);
        out.extend_from_slice(b" and ");
        self.time(out, loss.trace, loss.to_ns, loss.to_cycles);
        end(out);
        out.push(b'\n');
    }
}

/// What follows has this style, where there are colours.
fn begin(out: &mut Vec<u8>, style: Style) {
    if has_color() {
        out.extend_from_slice(style.code().as_bytes());
    }
}

fn end(out: &mut Vec<u8>) {
    if has_color() {
        out.extend_from_slice(END.as_bytes());
    }
}

/// What is the same for many records: `cpu1 prog[1234/1240] motor:step: `, without what the user does not want.
fn head(out: &mut Vec<u8>, record: &Record<'_>, selection: &Selection) {
    let columns = selection.columns;
    if columns.cpu {
        out.extend_from_slice(b"cpu");
        push_known(out, record.cpu, b'?');
        out.push(b' ');
    }
    program(out, record, selection);
    if columns.event {
        begin(out, Style::Name);
        push_clean(out, &record.event.name);
        end(out);
        out.extend_from_slice(b": ");
    }
}

/// `prog[1234/1240] `, without what the trace does not say or the user does not want.
fn program(out: &mut Vec<u8>, record: &Record<'_>, selection: &Selection) {
    let columns = selection.columns;
    let pid = record.vpid.filter(|_| columns.pid);
    let tid = record.vtid.filter(|_| columns.tid);
    let start = out.len();
    if columns.proc {
        push_clean(out, record.procname);
    }
    if pid.is_some() || tid.is_some() {
        out.push(b'[');
        push_known(out, pid, b'-');
        if tid.is_some() {
            out.push(b'/');
            push_known(out, tid, b'-');
        }
        out.push(b']');
    }
    if out.len() > start {
        out.push(b' ');
    }
}

fn push_named(out: &mut Vec<u8>, name: &str, value: &Value<'_>) {
    push_clean(out, name);
    out.push(b'=');
    push_value(out, value);
}

fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Int(number, base) => push_int(out, *number, *base),
        Value::Enum(number, labels) => {
            let first = labels.first();
            if let Some(label) = first {
                push_clean(out, label);
                for other in labels.others(*number) {
                    out.push(b'|');
                    push_clean(out, other);
                }
                out.push(b'(');
            }
            push_signed_number(out, *number);
            if first.is_some() {
                out.push(b')');
            }
        }
        Value::Wide(number) => push_wide(out, number),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        // Writing to a vector cannot fail. The JSON writer is the faster one, and shows the same digits.
        Value::F32(value) if value.is_finite() => drop(serde_json::to_writer(out, value)),
        Value::F64(value) if value.is_finite() => drop(serde_json::to_writer(out, value)),
        Value::F32(value) => drop(write!(out, "{value}")),
        Value::F64(value) => drop(write!(out, "{value}")),
        Value::Text(text) => {
            out.push(b'"');
            push_escaped(out, text);
            out.push(b'"');
        }
        Value::Bytes(bytes) => push_hex(out, bytes),
        Value::Array(elements) => {
            out.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { b", " });
                push_value(out, &element);
            }
            out.push(b']');
        }
        Value::Struct(fields) => {
            out.push(b'{');
            for (i, (name, value)) in fields.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { b", " });
                push_named(out, name, &value);
            }
            out.push(b'}');
        }
        Value::Absent => out.push(b'-'),
    }
}

/// An integer of more than 64 bits, in its base; beside labels in decimal, as narrower ones.
fn push_wide(out: &mut Vec<u8>, number: &WideInt<'_>) {
    match number.labels().filter(|labels| !labels.is_empty()) {
        None => out.extend_from_slice(number.in_base().as_bytes()),
        Some(labels) => {
            push_clean(out, &labels.join("|"));
            drop(write!(out, "({number})"));
        }
    }
}

fn push_int(out: &mut Vec<u8>, number: Number, base: Base) {
    match (number, base) {
        (_, Base::Decimal) => push_signed_number(out, number),
        (Number::Unsigned(value), Base::Hexadecimal) => drop(write!(out, "{value:#x}")),
        (Number::Unsigned(value), Base::Octal) => drop(write!(out, "{value:#o}")),
        (Number::Unsigned(value), Base::Binary) => drop(write!(out, "{value:#b}")),
        (Number::Signed(value), _) => {
            out.extend_from_slice(if value < 0 { b"-" } else { b"" });
            push_int(out, Number::Unsigned(value.unsigned_abs()), base);
        }
    }
}

fn push_signed_number(out: &mut Vec<u8>, number: Number) {
    match number {
        Number::Unsigned(value) => push_u64(out, value),
        Number::Signed(value) => {
            out.extend_from_slice(if value < 0 { b"-" } else { b"" });
            push_u64(out, value.unsigned_abs());
        }
    }
}

fn push_signed(out: &mut Vec<u8>, value: i128) {
    match i64::try_from(value) {
        Ok(value) => push_signed_number(out, Number::Signed(value)),
        Err(_) => out.extend_from_slice(value.to_string().as_bytes()),
    }
}

fn push_known(out: &mut Vec<u8>, value: Option<u32>, unknown: u8) {
    match value {
        Some(value) => push_u64(out, value.into()),
        None => out.push(unknown),
    }
}

/// Nanoseconds as seconds with nine digits behind the point.
fn push_seconds(out: &mut Vec<u8>, ns: i128) {
    out.extend_from_slice(if ns < 0 { b"-" } else { b"" });
    let ns = ns.unsigned_abs();
    match u64::try_from(ns) {
        Ok(ns) => {
            push_u64(out, ns / 1_000_000_000);
            out.push(b'.');
            push_nine(out, (ns % 1_000_000_000) as u32);
        }
        Err(_) => drop(write!(out, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)),
    }
}

/// A name: control characters become `?`.
fn push_clean(out: &mut Vec<u8>, name: &str) {
    if name.bytes().all(|b| (0x20..0x7F).contains(&b)) {
        out.extend_from_slice(name.as_bytes());
    } else {
        let clean: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        out.extend_from_slice(clean.as_bytes());
    }
}

/// The inside of a string.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|b| (0x20..0x7F).contains(&b) && b != b'"' && b != b'\\') {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            c if c.is_control() => drop(write!(out, "\\u{{{:x}}}", c as u32)),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}
