// SPDX-License-Identifier: MIT OR Apache-2.0
//! The format texts of tracefs: `events/SYSTEM/NAME/format` and `events/header_page` [spec/kernel.md 4].
//!
//! Every field is taken by its name, offset and size as the text gives them: kernels add common fields (RT kernels have
//! `common_preempt_lazy_count`), write arguments of system calls wider than their type, and move fields between
//! versions. Declarations of C are read in `syntax`. The text behind `print fmt:` is kept, not understood.

mod kind;
pub mod probe;
mod syntax;
#[cfg(test)]
mod tests;

pub use kind::{Element, FieldEncoding};
use syntax::Declaration;

/// The largest format text that is read, in bytes. The kernel's largest are some tens of KiB (long `print fmt` tables).
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// One event of the kernel, as its `format` file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The event's name, without its system.
    pub name: String,
    /// What `common_type` of its records holds.
    pub id: u16,
    /// Where the fields are that every event has.
    pub common: Common,
    /// The event's own fields, in the order of the text. Offsets count from `common_type`, as those of `common` do.
    pub fields: Vec<Field>,
    /// The text behind `print fmt: `, unparsed; empty where there is none.
    pub print: String,
}

/// The fields that every record has in front. Others than these are skipped by their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// `common_pid`: the thread.
    pub pid: Option<ByteRange>,
    /// `common_flags`: interrupts off, resched needed, in interrupt.
    pub flags: Option<ByteRange>,
    /// `common_preempt_count`.
    pub preempt_count: Option<ByteRange>,
    /// `common_type`: the id of the event.
    pub type_: ByteRange,
}

/// Some bytes of a record. `offset + size` is at most 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// In bytes, from the beginning of the record's data.
    pub offset: u16,
    /// In bytes.
    pub size: u16,
}

/// One field of an event. `offset + size` is at most 65535; fields may overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// A C identifier.
    pub name: String,
    /// The C type, without the name, `[n]`, `__data_loc`, `__rel_loc` and attributes: `const char *`, `struct foo`.
    pub ty: String,
    /// In bytes, from the beginning of the record's data.
    pub offset: u16,
    /// In bytes; 0 for [`FieldEncoding::Rest`]. May be more than the type has: system calls keep an `int` in 8 bytes.
    pub size: u16,
    /// The text's own column. For arrays and dynamic data it is that of the element.
    pub signed: bool,
    /// How to read the bytes.
    pub kind: FieldEncoding,
}

impl Field {
    /// Whether the value is an address: a pointer to anything, or to a function. An `unsigned long` is not known to be
    /// one.
    pub fn is_pointer(&self) -> bool {
        matches!(self.kind, FieldEncoding::Number) && syntax::is_pointer(&self.ty)
    }

    /// The bytes of the record that hold the field itself.
    pub fn place(&self) -> ByteRange {
        ByteRange { offset: self.offset, size: self.size }
    }
}

/// What `events/header_page` says: how a sub-buffer begins. Its sizes are those of the top-level buffer; an instance
/// with another `buffer_subbuf_size_kb` has the same head and other data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFormat {
    /// Offset of the time stamp (8 bytes).
    pub time_offset: u16,
    /// Offset of the word with the committed size and the flags of missed events.
    pub commit_offset: u16,
    /// Its bytes: 8 on 64-bit kernels, 4 on 32-bit ones. So wide is the number of missed events too.
    pub commit_bytes: u16,
    /// Where the records begin.
    pub data_offset: u16,
    /// Room for records in a sub-buffer of the top-level buffer, in bytes.
    pub data_bytes: u32,
}

/// Why a format text cannot be used. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is no format file, or a part of one.
    #[error("the format text has no `{0}` line; read the whole file again, and leave this event out if it stays so")]
    Missing(&'static str),
    /// A format of that size is none.
    #[error("the format text has {bytes} bytes, more than {TEXT_BYTES_MAX}; is this a format file of tracefs?")]
    TooLong {
        /// The bytes of the text.
        bytes: usize,
    },
    /// `ID:` is not a number of 16 bits.
    #[error("line {line}: the event id `{text}` is not a number below 65536; leave this event out")]
    Id {
        /// The line.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A `field:` line without one of its columns, or with a number that is none.
    #[error("line {line}: the field has no good `{column}:NUMBER;`; leave this event out")]
    Column {
        /// The line.
        line: usize,
        /// `offset`, `size` or `signed`.
        column: &'static str,
    },
    /// A declaration whose name or brackets are not found.
    #[error("line {line}: `{text}` is not a declaration of a field that we can read; leave this event out")]
    Declaration {
        /// The line.
        line: usize,
        /// The beginning of the declaration.
        text: String,
    },
    /// Beyond what a record can have.
    #[error("line {line}: the field ends at byte {end}, and no record has more than 65535; leave this event out")]
    Beyond {
        /// The line.
        line: usize,
        /// `offset + size`.
        end: u64,
    },
    /// A size that does not go with the field.
    #[error("line {line}: `{name}` has {size} bytes, which such a field cannot have; leave this event out")]
    Size {
        /// The line.
        line: usize,
        /// The field.
        name: String,
        /// Its bytes.
        size: u16,
    },
}

/// Parses `events/SYSTEM/NAME/format`.
pub fn parse_event(text: &str) -> Result<EventFormat, FormatError> {
    check_length(text)?;
    let (head, print) = split_print(text);
    let (mut name, mut id) = (None, None);
    let mut common = [None; COMMON.len()];
    let mut fields = Vec::new();
    for (line, content) in (1..).zip(head.lines()) {
        if let Some(value) = content.strip_prefix("name:") {
            name = Some(value.trim());
        } else if let Some(value) = content.strip_prefix("ID:") {
            id = Some(parse_id(line, value.trim())?);
        } else if let Some(field) = parse_field_line(line, content)? {
            match COMMON.iter().position(|name| *name == field.name) {
                Some(index) => common[index] = Some(common_place(line, field)?),
                // Other common fields stand in the head of every record and say nothing of the event.
                None if field.name.starts_with("common_") => {}
                None => fields.push(field),
            }
        }
    }
    let name = name.filter(|name| !name.is_empty()).ok_or(FormatError::Missing("name:"))?;
    let [pid, flags, preempt_count, type_] = common;
    Ok(EventFormat {
        name: name.to_owned(),
        id: id.ok_or(FormatError::Missing("ID:"))?,
        common: Common { pid, flags, preempt_count, type_: type_.ok_or(FormatError::Missing("field: common_type"))? },
        fields,
        print: print.to_owned(),
    })
}

/// Parses `events/header_page`. Whoever reads that file must do it with one read of a page or more: the kernel gives it
/// to the first read, and nothing to those that follow.
pub fn parse_page_format(text: &str) -> Result<PageFormat, FormatError> {
    check_length(text)?;
    let (mut time, mut commit, mut data) = (None, None, None);
    for (line, content) in (1..).zip(text.lines()) {
        let Some(raw) = split_field_line(line, content)? else { continue };
        // The data's size may be more than a record's: it is read here, where no field is built from it.
        let slot = match declaration(line, raw.declaration)?.name {
            "timestamp" => &mut time,
            "commit" => &mut commit,
            "data" => &mut data,
            // `overwrite` shares the bytes of `commit`.
            _ => continue,
        };
        *slot = Some((line, raw.offset, raw.size));
    }
    let (time_line, time_offset, time_bytes) = time.ok_or(FormatError::Missing("field: timestamp"))?;
    let (commit_line, commit_offset, commit_bytes) = commit.ok_or(FormatError::Missing("field: commit"))?;
    let (data_line, data_offset, data_bytes) = data.ok_or(FormatError::Missing("field: data"))?;
    let time = head_place(time_line, "timestamp", time_offset, time_bytes, &[8])?;
    let commit = head_place(commit_line, "commit", commit_offset, commit_bytes, &[4, 8])?;
    let data = place(data_line, data_offset, 0)?;
    let data_bytes = u32::try_from(data_bytes).map_err(|_| FormatError::Beyond { line: data_line, end: data_bytes })?;
    Ok(PageFormat {
        time_offset: time.offset,
        commit_offset: commit.offset,
        commit_bytes: commit.size,
        data_offset: data.offset,
        data_bytes,
    })
}

/// In the order of [`Common`].
const COMMON: [&str; 4] = ["common_pid", "common_flags", "common_preempt_count", "common_type"];

fn check_length(text: &str) -> Result<(), FormatError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(FormatError::TooLong { bytes: text.len() });
    }
    Ok(())
}

/// The text in front of the line `print fmt:`, and what follows it. That line ends the description: it may hold
/// anything.
fn split_print(text: &str) -> (&str, &str) {
    const KEY: &str = "print fmt:";
    let at = if text.starts_with(KEY) { Some(0) } else { text.find("\nprint fmt:").map(|at| at + 1) };
    match at {
        Some(at) => (&text[..at], text[at + KEY.len()..].trim()),
        None => (text, ""),
    }
}

fn parse_id(line: usize, text: &str) -> Result<u16, FormatError> {
    text.parse().map_err(|_| FormatError::Id { line, text: excerpt(text) })
}

/// A line `field:DECLARATION; offset:N; size:N; signed:N;`, not yet checked.
struct FieldLine<'a> {
    declaration: &'a str,
    offset: u64,
    size: u64,
    signed: bool,
}

/// None for lines that are no field.
fn split_field_line(line: usize, content: &str) -> Result<Option<FieldLine<'_>>, FormatError> {
    let Some(rest) = content.trim_start().strip_prefix("field:") else { return Ok(None) };
    // The last one: a declaration may hold semicolons (`union { u32 a; u64 b; } x`).
    let Some((declaration, columns)) = rest.rsplit_once("offset:") else {
        return Err(FormatError::Column { line, column: "offset" });
    };
    let declaration = declaration.trim().trim_end_matches(';').trim();
    let mut columns = columns.split(';').map(str::trim);
    let offset = number(columns.next()).ok_or(FormatError::Column { line, column: "offset" })?;
    let (mut size, mut signed) = (None, false);
    for column in columns {
        if let Some(value) = column.strip_prefix("size:") {
            size = Some(number(Some(value)).ok_or(FormatError::Column { line, column: "size" })?);
        } else if let Some(value) = column.strip_prefix("signed:") {
            signed = number(Some(value)).ok_or(FormatError::Column { line, column: "signed" })? != 0;
        }
    }
    let size = size.ok_or(FormatError::Column { line, column: "size" })?;
    Ok(Some(FieldLine { declaration, offset, size, signed }))
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.trim().parse().ok()
}

fn declaration(line: usize, text: &str) -> Result<Declaration<'_>, FormatError> {
    syntax::declaration(text).ok_or_else(|| FormatError::Declaration { line, text: excerpt(text) })
}

fn parse_field_line(line: usize, content: &str) -> Result<Option<Field>, FormatError> {
    let Some(raw) = split_field_line(line, content)? else { return Ok(None) };
    let declaration = declaration(line, raw.declaration)?;
    let ByteRange { offset, size } = place(line, raw.offset, raw.size)?;
    let kind = declaration.kind(size, raw.signed).ok_or_else(|| FormatError::Size {
        line,
        name: declaration.name.to_owned(),
        size,
    })?;
    let name = declaration.name.to_owned();
    Ok(Some(Field { name, ty: declaration.ty, offset, size, signed: raw.signed, kind }))
}

fn place(line: usize, offset: u64, size: u64) -> Result<ByteRange, FormatError> {
    let end = offset.saturating_add(size);
    if end > u64::from(u16::MAX) {
        return Err(FormatError::Beyond { line, end });
    }
    // Both are at most `end`.
    Ok(ByteRange { offset: offset as u16, size: size as u16 })
}

/// A common field is a number; which one, its size says.
fn common_place(line: usize, field: Field) -> Result<ByteRange, FormatError> {
    match field.kind {
        FieldEncoding::Number => Ok(field.place()),
        _ => Err(FormatError::Size { line, name: field.name, size: field.size }),
    }
}

/// A number in the head of a page, with one of the `sizes`.
fn head_place(line: usize, name: &str, offset: u64, size: u64, sizes: &[u16]) -> Result<ByteRange, FormatError> {
    let place = place(line, offset, size)?;
    if !sizes.contains(&place.size) {
        return Err(FormatError::Size { line, name: name.to_owned(), size: place.size });
    }
    Ok(place)
}

/// So much of a bad text as an error message bears.
fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}
