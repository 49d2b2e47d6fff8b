// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata of what is written again, as CTF 1.8 text.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::classes::{Classes, EventLayout, StreamLayout};
use super::layout::{Choice, Count, Member, OF_PACKET, Shape};
use crate::read::{Clock, EventClass, Labels, Metadata};
use crate::write::{EnvValue, Number, identifier, quoted, type_name, types, uuid_text};

/// The file `metadata`.
pub(super) fn metadata(source: &Metadata, of: &Classes, uuid: &[u8; 16], env: &[(String, EnvValue)]) -> String {
    let mut out = String::with_capacity(4096 + 512 * of.events.len());
    // Readers look for this comment first.
    out.push_str("/* CTF 1.8 */\n\n");
    types(&mut out);
    let _ = write!(
        out,
        "trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{}\";\n\tbyte_order = le;\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\
         \t\tuint64_t stream_instance_id;\n\t}};\n}};\n\n",
        uuid_text(uuid)
    );
    environment(&mut out, env);
    let clocks = clock_names(&source.clocks);
    source.clocks.iter().zip(&clocks).for_each(|(declared, name)| clock(&mut out, declared, name));
    for (position, layout) in of.streams.iter().enumerate() {
        let name = clocks.get(source.streams[position].clock).map_or("", String::as_str);
        stream(&mut out, position, layout, name);
        for event in &layout.events {
            event_block(&mut out, &source.events[*event], &of.events[*event]);
        }
    }
    out
}

fn environment(out: &mut String, env: &[(String, EnvValue)]) {
    let mut taken = HashSet::new();
    out.push_str("env {\n");
    for (key, value) in env {
        let mut key = identifier(key);
        while !taken.insert(key.clone()) {
            key.push('_');
        }
        match value {
            EnvValue::Int(number) => {
                let _ = writeln!(out, "\t{key} = {number};");
            }
            EnvValue::Unsigned(number) => {
                let _ = writeln!(out, "\t{key} = {number};");
            }
            EnvValue::Text(text) => {
                let _ = write!(out, "\t{key} = ");
                quoted(out, text);
                out.push_str(";\n");
            }
        }
    }
    out.push_str("};\n\n");
}

/// A distinct identifier for each clock.
fn clock_names(clocks: &[Clock]) -> Vec<String> {
    let mut taken = HashSet::new();
    let name = |clock: &Clock| {
        let mut name = if clock.name.is_empty() { "trace_clock".to_owned() } else { identifier(&clock.name) };
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        name
    };
    clocks.iter().map(name).collect()
}

fn clock(out: &mut String, clock: &Clock, name: &str) {
    let _ = write!(out, "clock {{\n\tname = \"{name}\";\n");
    if let Some(uuid) = &clock.uuid {
        let _ = writeln!(out, "\tuuid = \"{}\";", uuid_text(uuid));
    }
    out.push_str("\tdescription = ");
    quoted(out, &clock.description);
    let (hz, cycles) = (i128::from(clock.frequency_hz.max(1)), i128::from(clock.offset_cycles));
    // Cycles below a second, which all readers take, wherever the numbers have room for them.
    let (whole, below) = (i128::from(clock.offset_s) + cycles.div_euclid(hz), cycles.rem_euclid(hz));
    let has_room = i64::try_from(whole).is_ok() && i64::try_from(below).is_ok();
    let (seconds, part) = if has_room { (whole, below) } else { (i128::from(clock.offset_s), cycles) };
    let _ = write!(
        out,
        ";\n\tfreq = {hz};\n\tprecision = {};\n\toffset_s = {seconds};\n\toffset = {part};\n\tabsolute = {};\n}};\n\n",
        clock.precision_cycles, clock.absolute
    );
}

fn stream(out: &mut String, id: usize, layout: &StreamLayout, clock: &str) {
    let time = format!("integer {{ size = 64; align = 8; signed = false; map = clock.{clock}.value; }}");
    let _ = write!(out, "stream {{\n\tid = {id};\n\tpacket.context := struct {{\n");
    for (position, name) in OF_PACKET.iter().enumerate() {
        let _ = writeln!(out, "\t\t{} {name};", if position < 2 { time.as_str() } else { "uint64_t" });
    }
    members(out, &layout.packet, 2);
    let bits = layout.id_bytes * 8;
    let _ = write!(out, "\t}};\n\tevent.header := struct {{\n\t\tuint{bits}_t id;\n\t\t{time} timestamp;\n\t}};\n");
    if !layout.common.is_empty() || !layout.added.is_empty() {
        out.push_str("\tevent.context := struct {\n");
        members(out, &layout.common, 2);
        for writer in &layout.added {
            let _ = writeln!(out, "\t\t{};", writer.declaration(layout.is_of_program));
        }
        out.push_str("\t};\n");
    }
    out.push_str("};\n\n");
}

fn event_block(out: &mut String, event: &EventClass, layout: &EventLayout) {
    out.push_str("event {\n\tname = ");
    quoted(out, &event.name);
    let _ = writeln!(out, ";\n\tid = {};\n\tstream_id = {};", layout.id, layout.stream);
    if let Some(loglevel) = event.loglevel {
        let _ = writeln!(out, "\tloglevel = {loglevel};");
    }
    if !layout.context.is_empty() {
        out.push_str("\tcontext := struct {\n");
        members(out, &layout.context, 2);
        out.push_str("\t};\n");
    }
    out.push_str("\tfields := struct {\n");
    members(out, &layout.payload, 2);
    out.push_str("\t};\n};\n\n");
}

fn members(out: &mut String, members: &[Member], tabs: usize) {
    let indent = "\t".repeat(tabs);
    for member in members {
        for told in &member.told {
            match &told.options {
                None => {
                    let _ = writeln!(out, "{indent}uint32_t {};", told.name);
                }
                Some(options) => {
                    let _ = write!(out, "{indent}enum : uint32_t {{ ");
                    for (value, option) in options.iter().enumerate() {
                        out.push_str(if value == 0 { "" } else { ", " });
                        quoted(out, option);
                        let _ = write!(out, " = {value}");
                    }
                    let _ = writeln!(out, " }} {};", told.name);
                }
            }
        }
        out.push_str(&indent);
        declaration(out, member, &member.shape, &member.name, tabs);
    }
}

/// Type, name, and what stands in brackets, up to the end of the line.
fn declaration(out: &mut String, member: &Member, shape: &Shape, name: &str, tabs: usize) {
    let told = |position: usize| member.told.get(position).map_or("", |told| told.name.as_str());
    let (mut shape, mut dimensions) = (shape, String::new());
    while let Shape::Array { count, element } = shape {
        let _ = match count {
            Count::Fixed(count) => write!(dimensions, "[{count}]"),
            Count::Told(position) => write!(dimensions, "[{}]", told(*position)),
        };
        shape = element;
    }
    match shape {
        Shape::Int { bits, signed, base, labels } => {
            let number = type_name(Number::Int { bits: *bits, signed: *signed, base: *base });
            let labels = labels.as_ref().map(|labels| possible(labels, *bits, *signed)).unwrap_or_default();
            if labels.is_empty() { out.push_str(&number) } else { enumeration(out, &number, &labels) }
        }
        Shape::Bool => out.push_str(&type_name(Number::Bool)),
        Shape::Float { bits } => out.push_str(&type_name(Number::Float { bits: *bits })),
        Shape::Text => out.push_str("string { encoding = UTF8; }"),
        Shape::Bytes { told: position } => {
            let _ = write!(dimensions, "[{}]", told(*position));
            out.push_str("xint8_t");
        }
        Shape::Struct(inner) => {
            out.push_str("struct {\n");
            members(out, inner, tabs + 1);
            let _ = write!(out, "{}}}", "\t".repeat(tabs));
        }
        Shape::Variant { told: position, options } => variant(out, member, told(*position), options, tabs),
        // Taken above.
        Shape::Array { .. } => {}
    }
    let _ = writeln!(out, " {name}{dimensions};");
}

fn variant(out: &mut String, member: &Member, tag: &str, options: &[Choice], tabs: usize) {
    let _ = writeln!(out, "variant <{tag}> {{");
    for option in options {
        out.push_str(&"\t".repeat(tabs + 1));
        declaration(out, member, &option.shape, &option.name, tabs + 1);
    }
    let _ = write!(out, "{}}}", "\t".repeat(tabs));
}

/// Labels with the ranges of their values, as far as an integer can have these.
fn possible(labels: &Labels, bits: u8, signed: bool) -> Vec<(&str, i128, i128)> {
    let (least, most) = match signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let cut = labels.iter().map(|(label, low, high)| (label, low.max(least), high.min(most)));
    cut.filter(|(_, low, high)| low <= high).collect()
}

fn enumeration(out: &mut String, number: &str, labels: &[(&str, i128, i128)]) {
    let _ = write!(out, "enum : {number} {{ ");
    for (position, (label, low, high)) in labels.iter().enumerate() {
        out.push_str(if position == 0 { "" } else { ", " });
        quoted(out, label);
        let _ = if low == high { write!(out, " = {low}") } else { write!(out, " = {low} ... {high}") };
    }
    out.push_str(" }");
}
