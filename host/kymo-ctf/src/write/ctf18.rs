// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata as CTF 1.8 text (TSDL) [spec/trace.md 4].
//!
//! Field names get one `_` in front, which readers take off again, so that no name meets a keyword or a type.

use std::fmt::Write as _;

use super::class::{Base, EventClass, FieldClass, Number, StreamClass, StreamKind};
use super::names::{self, Named};
use super::{EnvValue, TraceMeta};

/// The text of a `metadata` file in CTF 1.8. It is complete: it replaces the one before.
pub fn metadata_ctf18(meta: &TraceMeta) -> String {
    let events = meta.streams.iter().map(|stream| stream.events.len()).sum::<usize>();
    let mut out = String::with_capacity(4096 + 512 * events);
    // Readers look for this comment first.
    out.push_str("/* CTF 1.8 */\n\n");
    types(&mut out);
    trace(&mut out, meta);
    env(&mut out, meta);
    clock(&mut out, meta);
    for class in &meta.streams {
        stream(&mut out, meta, class);
        for event in &class.events {
            event_block(&mut out, event, class);
        }
    }
    out
}

/// Declares `uint8_t` to `xint64_t`, `utf8_t`, `float32_t`, `float64_t` and `enum kymo_bool`.
pub(crate) fn types(out: &mut String) {
    for bits in [8, 16, 32, 64] {
        let _ = writeln!(out, "typealias integer {{ size = {bits}; align = 8; signed = false; }} := uint{bits}_t;");
        let _ = writeln!(out, "typealias integer {{ size = {bits}; align = 8; signed = true; }} := int{bits}_t;");
        let _ = writeln!(
            out,
            "typealias integer {{ size = {bits}; align = 8; signed = false; base = 16; }} := xint{bits}_t;"
        );
    }
    out.push_str(
        "typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := utf8_t;\n\
         typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := float32_t;\n\
         typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := float64_t;\n\
         enum kymo_bool : uint8_t { \"false\" = 0, \"true\" = 1 };\n\n",
    );
}

fn trace(out: &mut String, meta: &TraceMeta) {
    let uuid = names::uuid_text(&meta.uuid);
    let _ = write!(
        out,
        "trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = le;\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\
         \t\tuint64_t stream_instance_id;\n\t}};\n}};\n\n"
    );
}

fn env(out: &mut String, meta: &TraceMeta) {
    out.push_str("env {\n");
    for (key, value) in &meta.env {
        let key = names::identifier(key);
        match value {
            EnvValue::Text(text) => {
                let _ = write!(out, "\t{key} = ");
                quoted(out, text);
                out.push_str(";\n");
            }
            EnvValue::Int(number) => {
                let _ = writeln!(out, "\t{key} = {number};");
            }
            EnvValue::Unsigned(number) => {
                let _ = writeln!(out, "\t{key} = {number};");
            }
        }
    }
    out.push_str("};\n\n");
}

fn clock(out: &mut String, meta: &TraceMeta) {
    let clock = &meta.clock;
    let (frequency, seconds, cycles) = clock.normalised();
    let (name, uuid) = (names::identifier(&clock.name), names::uuid_text(&clock.uuid));
    let _ = write!(out, "clock {{\n\tname = \"{name}\";\n\tuuid = \"{uuid}\";\n\tdescription = ");
    quoted(out, &clock.description);
    let _ = write!(
        out,
        ";\n\tfreq = {frequency};\n\tprecision = {};\n\toffset_s = {seconds};\n\toffset = {cycles};\n\tabsolute = {};\n}};\n\n",
        clock.precision_cycles, clock.absolute
    );
}

fn stream(out: &mut String, meta: &TraceMeta, class: &StreamClass) {
    let clock = names::identifier(&meta.clock.name);
    let mapped = |bits, align| {
        format!("integer {{ size = {bits}; align = {align}; signed = false; map = clock.{clock}.value; }}")
    };
    // babeltrace 1.5 reads byte-aligned integers of 8, 16, 32 and 64 bits only, and any size at an alignment of 1. The
    // bytes are the same: 16 bits are in front [spec/decisions/0009].
    let (full, short) = (mapped(64, 8), mapped(48, 1));
    let (packet, record) = match class.kind {
        StreamKind::User => {
            ("\t\tuint32_t vpid;\n\t\tuint32_t lane;\n\t\tutf8_t procname[16];\n", "\t\tuint32_t _vtid;\n")
        }
        StreamKind::Compact => {
            ("\t\tuint32_t vpid;\n\t\tuint32_t lane;\n\t\tutf8_t procname[16];\n\t\tuint32_t vtid_begin;\n", "")
        }
        StreamKind::Kernel => ("", "\t\tint32_t _tid;\n\t\txint8_t _irq_flags;\n\t\tuint8_t _preempt_count;\n"),
    };
    let header = match class.kind {
        StreamKind::Compact => compact_header(&mapped(27, 1), &short),
        _ => format!("\tevent.header := struct {{\n\t\tuint16_t id;\n\t\t{short} timestamp;\n\t}};\n"),
    };
    let _ = write!(
        out,
        "stream {{\n\tid = {};\n\
         \tpacket.context := struct {{\n\t\t{full} timestamp_begin;\n\t\t{full} timestamp_end;\n\
         \t\tuint64_t content_size;\n\t\tuint64_t packet_size;\n\t\tuint64_t packet_seq_num;\n\
         \t\tuint64_t events_discarded;\n\t\tuint32_t cpu_id;\n{packet}\t}};\n{header}",
        class.kind.id()
    );
    // Thread records have no contexts, so those of compact records are each event's own.
    if class.kind != StreamKind::Compact {
        let _ = write!(out, "\tevent.context := struct {{\n{record}");
        contexts(out, class);
    }
    out.push_str("};\n\n");
}

/// The header of compact records, with the names that LTTng's compact header has: readers look for these. A structure
/// with a byte-aligned member begins at the next byte itself: behind 5 bits, 3 are left out.
fn compact_header(short: &str, full: &str) -> String {
    format!(
        "\tevent.header := struct {{\n\
         \t\tenum : integer {{ size = 5; align = 1; signed = false; }} {{ compact = 0 ... 30, extended = 31 }} id;\n\
         \t\tvariant <id> {{\n\t\t\tstruct {{\n\t\t\t\t{short} timestamp;\n\t\t\t}} compact;\n\
         \t\t\tstruct {{\n\t\t\t\tuint16_t id;\n\t\t\t\t{full} timestamp;\n\t\t\t}} extended;\n\
         \t\t}} v;\n\t}} align(8);\n"
    )
}

fn contexts(out: &mut String, class: &StreamClass) {
    for named in names::named(&class.contexts) {
        field(out, &named);
    }
    out.push_str("\t};\n");
}

fn event_block(out: &mut String, event: &EventClass, class: &StreamClass) {
    out.push_str("event {\n\tname = ");
    quoted(out, &event.name);
    let _ = write!(out, ";\n\tid = {};\n\tstream_id = {};\n", event.id, class.kind.id());
    if class.has_own_contexts(event) {
        out.push_str("\tcontext := struct {\n");
        contexts(out, class);
    }
    out.push_str("\tfields := struct {\n");
    for named in names::named(&event.fields) {
        field(out, &named);
    }
    out.push_str("\t};\n};\n\n");
}

fn field(out: &mut String, named: &Named<'_>) {
    let (name, length) = (&named.name, &named.length);
    let _ = match &named.field.class {
        FieldClass::Number(number) => writeln!(out, "\t\t{} _{name};", type_name(*number)),
        FieldClass::Enum { number, labels } => {
            let _ = write!(out, "\t\tenum : {} {{ ", type_name(*number));
            for (i, (label, value)) in labels.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                quoted(out, label);
                let _ = write!(out, " = {}", names::stored(*value, *number));
            }
            writeln!(out, " }} _{name};")
        }
        FieldClass::Text => writeln!(out, "\t\tuint16_t _{length};\n\t\tutf8_t _{name}[_{length}];"),
        FieldClass::Blob => writeln!(out, "\t\tuint16_t _{length};\n\t\txint8_t _{name}[_{length}];"),
        FieldClass::CString => writeln!(out, "\t\tstring {{ encoding = UTF8; }} _{name};"),
        FieldClass::Chars { count } => writeln!(out, "\t\tutf8_t _{name}[{count}];"),
        FieldClass::Array { element, count } => writeln!(out, "\t\t{} _{name}[{count}];", type_name(*element)),
        FieldClass::Seq { element } => {
            writeln!(out, "\t\tuint16_t _{length};\n\t\t{} _{name}[_{length}];", type_name(*element))
        }
    };
}

/// The type of a number: a name that [`types`] declares, if there is one.
pub(crate) fn type_name(number: Number) -> String {
    match number {
        Number::Int { bits, signed: false, base: Base::Hexadecimal } => format!("xint{bits}_t"),
        Number::Int { bits, signed: true, base: Base::Decimal } => format!("int{bits}_t"),
        Number::Int { bits, signed: false, base: Base::Decimal } => format!("uint{bits}_t"),
        Number::Int { bits, signed, base } => {
            format!("integer {{ size = {bits}; align = 8; signed = {signed}; base = {}; }}", base.radix())
        }
        Number::Float { bits } => format!("float{bits}_t"),
        Number::Bool => "enum kymo_bool".to_owned(),
    }
}

/// Appends `text` as a TSDL string. Control characters become octal escapes of three digits; NUL has no form that
/// readers agree on and is left out.
pub(crate) fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\0' => {}
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\{:03o}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
