// SPDX-License-Identifier: MIT OR Apache-2.0
//! One JSON object a line. Integers are exact, also above 2^53; a reader must take them as 64 bits.
//!
//! A record: `{"time":NS,"cycles":N,"cpu":1,"proc":"prog","pid":1234,"tid":1240,"event":"motor:step","fields":{...}}`.
//! Contexts that are no such columns [spec/context.md] stand behind the fields: `"contexts":{"prio":20}`.
//! A loss: `{"lost":12,"packets":0,"cpu":0,"pid":1234,"proc":"prog","stream":"user_0_0","from":NS,"to":NS}`.
//! `null` stands for what the trace does not say; a name that it does not say is empty.

use std::io::Write as _;

use kymo_ctf::read::{Fields, Loss, Record, Value};
use kymo_export::digits::push_u64;
use kymo_export::json::{Wide, push_text};

use super::format::Format;
use super::select::Selection;

/// The JSON form.
pub struct Json<'a> {
    selection: &'a Selection,
    before: Option<i128>,
}

impl<'a> Json<'a> {
    pub fn new(selection: &'a Selection) -> Self {
        Self { selection, before: None }
    }
}

impl Format for Json<'_> {
    fn resume(&mut self, before: Option<i128>) {
        self.before = before;
    }

    fn record(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let columns = self.selection.columns;
        out.push(b'{');
        if columns.time {
            key(out, "time");
            push_ns(out, record.ns);
            key(out, "cycles");
            push_u64(out, record.cycles);
        }
        if columns.delta && self.selection.explicit {
            key(out, "delta");
            match self.before.replace(record.ns) {
                Some(before) => push_ns(out, record.ns - before),
                None => out.extend_from_slice(b"null"),
            }
        }
        if columns.cpu {
            key(out, "cpu");
            push_option(out, record.cpu);
        }
        if columns.proc {
            key(out, "proc");
            push_text(out, record.procname);
        }
        if columns.pid {
            key(out, "pid");
            push_option(out, record.vpid);
        }
        if columns.tid {
            key(out, "tid");
            push_option(out, record.vtid);
        }
        if columns.event {
            key(out, "event");
            push_text(out, &record.event.name);
        }
        key(out, "fields");
        push_fields(out, &record.payload, |name| self.selection.has_field(name));
        let contexts = || record.common_context.iter().chain(record.context.iter());
        let is_shown = |(name, _): &(&str, Value<'_>)| self.selection.has_context(name);
        if self.selection.has_contexts() && contexts().any(|context| is_shown(&context)) {
            key(out, "contexts");
            kymo_export::json::push_fields(out, contexts().filter(is_shown), Wide::Number);
        }
        out.extend_from_slice(b"}\n");
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &Loss<'_>) {
        out.push(b'{');
        key(out, "lost");
        push_u64(out, loss.records);
        key(out, "packets");
        push_u64(out, loss.packets);
        key(out, "cpu");
        push_option(out, loss.cpu);
        key(out, "pid");
        push_option(out, loss.vpid);
        key(out, "proc");
        push_text(out, loss.procname);
        key(out, "stream");
        push_text(out, loss.stream);
        key(out, "from");
        push_ns(out, loss.from_ns);
        key(out, "to");
        push_ns(out, loss.to_ns);
        out.extend_from_slice(b"}\n");
    }
}

/// A key of ours, which needs no escaping, and the comma in front of it.
fn key(out: &mut Vec<u8>, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn push_ns(out: &mut Vec<u8>, ns: i128) {
    match u64::try_from(ns) {
        Ok(ns) => push_u64(out, ns),
        Err(_) => drop(write!(out, "{ns}")),
    }
}

fn push_option(out: &mut Vec<u8>, value: Option<u32>) {
    match value {
        Some(value) => push_u64(out, value.into()),
        None => out.extend_from_slice(b"null"),
    }
}

fn push_fields(out: &mut Vec<u8>, fields: &Fields<'_>, wanted: impl Fn(&str) -> bool) {
    kymo_export::json::push_fields(out, fields.iter().filter(|(name, _)| wanted(name)), Wide::Number);
}
