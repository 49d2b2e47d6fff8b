// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an event's format to its class in the trace, and the steps that turn a kernel record into a CTF record.
//!
//! A plan is made once per event. Its steps are copies wherever the kernel's bytes are already the trace's: neighbours
//! become one copy.

use kymo_ctf::write::{Base, EventClass, Field as TraceField, FieldClass, Number};

use crate::format::{Element, EventFormat, Field, FieldEncoding};
use crate::names::{Convert, Naming, rwbs_bits};

/// Longest text, blob or sequence that a record of the trace holds.
const COUNT_MAX: usize = u16::MAX as usize;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyStep {
    /// `bytes` at `from`, as they are.
    Copy { from: u16, bytes: u16 },
    /// An `i32` at `from`, less 100.
    Priority { from: u16 },
    /// An `i32` of -1.
    Unknown,
    /// Letters at `from`, as a `u32` of bits.
    Rwbs { from: u16, bytes: u16 },
    /// Text up to a NUL, with one.
    CString(Span),
    /// A `u16` of elements and the elements.
    Seq { span: Span, element_bytes: u16 },
}

/// Where bytes of variable number lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// The `u32` at this offset: offset in the record, length in the upper half.
    Loc { at: u16 },
    /// The same, with an offset from the end of the `u32`.
    Rel { at: u16 },
    /// From this offset to the end of the record.
    Rest { from: u16 },
}

/// How records of one event become records of the trace.
#[derive(Clone, Debug)]
pub(crate) struct FtracePlan {
    steps: Box<[CopyStep]>,
    /// Bytes that a kernel record has at least.
    pub least_bytes: usize,
    /// Bytes of a payload, without those of variable number; the sum is at most this and the record's length and 3 per
    /// step.
    fixed_bytes: usize,
}

/// Why a kernel record cannot be one of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadRecord;

/// The class and the plan of an event. `only`: the fields to keep, by the kernel's names.
pub(crate) fn compile(
    system: &str,
    format: &EventFormat,
    naming: Naming,
    only: Option<&[String]>,
) -> (EventClass, FtracePlan) {
    let mut fields = Vec::with_capacity(format.fields.len());
    let mut steps: Vec<CopyStep> = Vec::with_capacity(format.fields.len());
    let mut least_bytes = 0;
    for field in &format.fields {
        if only.is_some_and(|only| !only.contains(&field.name)) {
            continue;
        }
        let Some((name, convert)) = naming.field(system, &field.name) else { continue };
        least_bytes = least_bytes.max(usize::from(field.offset) + usize::from(field.size));
        let (class, step) = one(field, convert);
        fields.push(TraceField { name, class });
        push(&mut steps, step);
    }
    for name in naming.unknown_fields(system, &format.name) {
        if only.is_none() {
            fields.push(TraceField { name: (*name).to_owned(), class: FieldClass::Number(Number::signed(32)) });
            push(&mut steps, CopyStep::Unknown);
        }
    }
    let class =
        EventClass { id: format.id, name: naming.event(system, &format.name), file: String::new(), line: 0, fields };
    let fixed_bytes = steps.iter().map(CopyStep::fixed_bytes).sum();
    (class, FtracePlan { steps: steps.into(), least_bytes, fixed_bytes })
}

/// The class of an event in a trace. `only`: the fields to keep, by the kernel's names.
pub fn class_of(system: &str, format: &EventFormat, naming: Naming, only: Option<&[String]>) -> EventClass {
    compile(system, format, naming, only).0
}

/// Appends a step; a copy that goes on where the one before ended becomes part of it.
fn push(steps: &mut Vec<CopyStep>, step: CopyStep) {
    if let (Some(CopyStep::Copy { from, bytes }), CopyStep::Copy { from: next, bytes: more }) = (steps.last_mut(), step)
    {
        let goes_on = u32::from(*from) + u32::from(*bytes) == u32::from(next);
        if let Some(sum) = bytes.checked_add(more).filter(|_| goes_on) {
            *bytes = sum;
            return;
        }
    }
    steps.push(step);
}

/// Class and step of one field.
fn one(field: &Field, convert: Convert) -> (FieldClass, CopyStep) {
    let (from, bytes) = (field.offset, field.size);
    let copy = CopyStep::Copy { from, bytes };
    match (&field.kind, convert) {
        (FieldEncoding::Number, Convert::Priority) if bytes == 4 => {
            (FieldClass::Number(Number::signed(32)), CopyStep::Priority { from })
        }
        (FieldEncoding::Number, Convert::Argument) if bytes == 8 => {
            let (number, bytes) = argument(field);
            (FieldClass::Number(number), CopyStep::Copy { from, bytes })
        }
        (FieldEncoding::Number, _) => (FieldClass::Number(number(field)), copy),
        (FieldEncoding::Chars { .. }, Convert::Rwbs) => {
            (FieldClass::Number(Number::hex(32)), CopyStep::Rwbs { from, bytes })
        }
        (FieldEncoding::Chars { count }, _) => (FieldClass::Chars { count: *count }, copy),
        (FieldEncoding::Array { count, element_bytes }, _) => {
            let element = Number::Int { bits: (*element_bytes * 8) as u8, signed: field.signed, base: Base::Decimal };
            (FieldClass::Array { element, count: *count }, copy)
        }
        (FieldEncoding::Opaque, _) => (FieldClass::Array { element: Number::hex(8), count: bytes.into() }, copy),
        (FieldEncoding::DataLoc { element }, _) => variable(*element, Span::Loc { at: from }),
        (FieldEncoding::RelLoc { element }, _) => variable(*element, Span::Rel { at: from }),
        (FieldEncoding::Rest { element }, _) => variable(*element, Span::Rest { from }),
    }
}

fn variable(element: Element, span: Span) -> (FieldClass, CopyStep) {
    match element {
        Element::Char => (FieldClass::CString, CopyStep::CString(span)),
        Element::Bytes => (FieldClass::Blob, CopyStep::Seq { span, element_bytes: 1 }),
        Element::Number { bytes, signed } => {
            let element = Number::Int { bits: (bytes * 8) as u8, signed, base: Base::Decimal };
            (FieldClass::Seq { element }, CopyStep::Seq { span, element_bytes: bytes.max(1) })
        }
    }
}

/// A number as its C type shows it best.
fn number(field: &Field) -> Number {
    let hex = !field.signed && (field.is_pointer() || (field.size == 8 && field.ty == "unsigned long"));
    let base = if hex { Base::Hexadecimal } else { Base::Decimal };
    Number::Int { bits: (field.size * 8) as u8, signed: field.signed, base }
}

/// The own type of a system call's argument and its bytes: the low ones of the long that the kernel keeps.
fn argument(field: &Field) -> (Number, u16) {
    match field.ty.as_str() {
        "int" | "pid_t" | "clockid_t" | "const clockid_t" | "mqd_t" | "key_t" | "timer_t" | "rwf_t" | "s32"
        | "__s32" => (Number::signed(32), 4),
        "unsigned int" | "unsigned" | "u32" | "__u32" | "uid_t" | "gid_t" | "qid_t" => (Number::unsigned(32), 4),
        "umode_t" => (Number::unsigned(16), 2),
        "long" | "off_t" | "loff_t" | "ssize_t" => (Number::signed(64), 8),
        "size_t" => (Number::unsigned(64), 8),
        _ if field.signed => (Number::signed(64), 8),
        _ => (Number::hex(64), 8),
    }
}

impl CopyStep {
    fn fixed_bytes(&self) -> usize {
        match self {
            CopyStep::Copy { bytes, .. } => usize::from(*bytes),
            CopyStep::Priority { .. } | CopyStep::Rwbs { .. } | CopyStep::Unknown => 4,
            // The NUL, or the count.
            CopyStep::CString(_) | CopyStep::Seq { .. } => 2,
        }
    }
}

impl Span {
    /// The bytes, if the record has them.
    #[inline]
    fn of(self, record: &[u8]) -> Result<&[u8], BadRecord> {
        let word = |at: u16| -> Result<u32, BadRecord> {
            let at = usize::from(at);
            let bytes = record.get(at..at + 4).ok_or(BadRecord)?;
            Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| BadRecord)?))
        };
        let (from, count) = match self {
            Span::Rest { from } => return record.get(usize::from(from)..).ok_or(BadRecord),
            Span::Loc { at } => {
                let word = word(at)?;
                (word as usize & 0xffff, word as usize >> 16)
            }
            Span::Rel { at } => {
                let word = word(at)?;
                (usize::from(at) + 4 + (word as usize & 0xffff), word as usize >> 16)
            }
        };
        record.get(from..from + count).ok_or(BadRecord)
    }
}

impl FtracePlan {
    /// Appends the payload of a kernel record to `out`. On an error, `out` holds a part of it.
    #[inline]
    pub(crate) fn run(&self, record: &[u8], out: &mut Vec<u8>) -> Result<(), BadRecord> {
        if record.len() < self.least_bytes {
            return Err(BadRecord);
        }
        out.reserve(self.fixed_bytes);
        for step in &self.steps {
            match *step {
                CopyStep::Copy { from, bytes } => {
                    let from = usize::from(from);
                    out.extend_from_slice(record.get(from..from + usize::from(bytes)).ok_or(BadRecord)?);
                }
                CopyStep::Priority { from } => {
                    let from = usize::from(from);
                    let bytes = record.get(from..from + 4).ok_or(BadRecord)?;
                    let value = i32::from_le_bytes(bytes.try_into().map_err(|_| BadRecord)?);
                    out.extend_from_slice(&value.wrapping_sub(100).to_le_bytes());
                }
                CopyStep::Unknown => out.extend_from_slice(&(-1i32).to_le_bytes()),
                CopyStep::Rwbs { from, bytes } => {
                    let from = usize::from(from);
                    let letters = record.get(from..from + usize::from(bytes)).ok_or(BadRecord)?;
                    out.extend_from_slice(&rwbs_bits(letters).to_le_bytes());
                }
                CopyStep::CString(span) => {
                    let bytes = span.of(record)?;
                    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                    // The kernel ends a mark with a newline.
                    let is_mark = matches!(span, Span::Rest { .. });
                    let text = if is_mark { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
                    out.extend_from_slice(text);
                    out.push(0);
                }
                CopyStep::Seq { span, element_bytes } => {
                    let bytes = span.of(record)?;
                    let size = usize::from(element_bytes);
                    let count = (bytes.len() / size).min(COUNT_MAX);
                    out.extend_from_slice(&(count as u16).to_le_bytes());
                    out.extend_from_slice(&bytes[..count * size]);
                }
            }
        }
        Ok(())
    }
}
