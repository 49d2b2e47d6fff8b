// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declarations of C, as the kernel prints them into format files: the name, the type, the dimensions.
//!
//! Not a parser of C: the text is what a macro was given, with macro names where numbers should be and types that only
//! the kernel knows. So the size always comes from the format, and only what carries no size of its own is judged by
//! the type's name.

use super::kind::{Element, FieldEncoding};

/// A declaration, taken apart.
pub(super) struct Declaration<'a> {
    pub name: &'a str,
    /// Without name, dimensions, location words and attributes; single spaces.
    pub ty: String,
    location: Location,
    dimensions: Dimensions,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    /// The bytes are the field.
    Here,
    Data,
    Relative,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dimensions {
    None,
    /// `[]`, `[0]` or the name of a macro: the size says how many.
    Unknown,
    /// The product of all.
    Count(u32),
}

/// Takes a declaration apart; None where no name or no type is found.
pub(super) fn declaration(text: &str) -> Option<Declaration<'_>> {
    let (location, text) = split_location(text.trim());
    let (front, name, back) = split_name(text)?;
    // `char[] name` has its dimension in front; only dynamic data is written so.
    let (front, front_dimensions) = split_dimensions(front);
    let (back, back_dimensions) = split_dimensions(back);
    let mut ty = without_attributes(front);
    // What is left behind the name of a function pointer: `)(void)`.
    let back = without_attributes(back);
    if !back.is_empty() {
        ty = format!("{ty}{back}");
    }
    if ty.is_empty() {
        return None;
    }
    let dimensions = if back_dimensions == Dimensions::None { front_dimensions } else { back_dimensions };
    Some(Declaration { name, ty, location, dimensions })
}

impl Declaration<'_> {
    /// How a field of `size` bytes is read; None where the size cannot be.
    pub fn kind(&self, size: u16, signed: bool) -> Option<FieldEncoding> {
        let element = || element(&self.ty, signed);
        match self.location {
            Location::Data if size == 4 => return Some(FieldEncoding::DataLoc { element: element() }),
            Location::Relative if size == 4 => return Some(FieldEncoding::RelLoc { element: element() }),
            Location::Here => {}
            _ => return None,
        }
        Some(match self.dimensions {
            Dimensions::None if is_number_size(size) && !is_aggregate(&self.ty) => FieldEncoding::Number,
            Dimensions::None => FieldEncoding::Opaque,
            _ if size == 0 => FieldEncoding::Rest { element: element() },
            dimensions => array_kind(dimensions, element(), &self.ty, size),
        })
    }
}

/// The size decides, then the dimension, and the type's name only where the dimension is a macro.
fn array_kind(dimensions: Dimensions, element: Element, ty: &str, size: u16) -> FieldEncoding {
    if element == Element::Char {
        return FieldEncoding::Chars { count: size.into() };
    }
    if is_aggregate(ty) {
        return FieldEncoding::Opaque;
    }
    let by_dimension = match dimensions {
        Dimensions::Count(count) if u32::from(size) % count == 0 => u16::try_from(u32::from(size) / count).ok(),
        _ => None,
    };
    let by_name = match element {
        Element::Number { bytes, .. } => Some(bytes),
        _ => None,
    };
    let fits = |bytes: &u16| is_number_size(*bytes) && size % *bytes == 0;
    match by_dimension.filter(fits).or(by_name.filter(fits)) {
        Some(element_bytes) => FieldEncoding::Array { count: (size / element_bytes).into(), element_bytes },
        None => FieldEncoding::Opaque,
    }
}

pub(super) fn is_pointer(ty: &str) -> bool {
    let ty = ty.trim_end();
    // `void *const p` is one too; so is a pointer to a function, `void (*)(int)`.
    let ty = ty.strip_suffix("const").map_or(ty, str::trim_end);
    ty.ends_with('*') || (ty.ends_with(')') && ty.contains("(*"))
}

fn is_number_size(bytes: u16) -> bool {
    matches!(bytes, 1 | 2 | 4 | 8)
}

fn is_aggregate(ty: &str) -> bool {
    !is_pointer(ty) && words(ty).any(|word| matches!(word, "struct" | "union") || word.starts_with('{'))
}

fn is_identifier_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The words `__data_loc` and `__rel_loc`, wherever they stand among the first two.
fn split_location(text: &str) -> (Location, &str) {
    for (word, location) in [("__data_loc", Location::Data), ("__rel_loc", Location::Relative)] {
        if let Some(rest) = text.strip_prefix(word).filter(|rest| rest.starts_with(char::is_whitespace)) {
            return (location, rest.trim_start());
        }
    }
    (Location::Here, text)
}

/// What stands before the name, the name, what follows. The name is the last identifier outside of brackets, but that
/// of a function pointer stands behind its `(*`.
fn split_name(text: &str) -> Option<(&str, &str, &str)> {
    let (begin, end) = match function_name_begin(text) {
        Some(begin) => {
            let count = text.as_bytes()[begin..].iter().take_while(|byte| is_identifier_byte(**byte)).count();
            (begin, begin + count)
        }
        None => last_identifier(text)?,
    };
    let name = text.get(begin..end)?;
    let begins_well = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    begins_well.then_some((text[..begin].trim_end(), name, text[end..].trim_start()))
}

/// The byte behind `(*` and blanks, where the whole is a pointer to a function: `void (*fn)(void)`.
fn function_name_begin(text: &str) -> Option<usize> {
    if !text.ends_with(')') {
        return None;
    }
    let star = text.find("(*")? + 2;
    let blanks = text[star..].len() - text[star..].trim_start().len();
    Some(star + blanks)
}

/// The last identifier that is not inside of brackets: `a [N]`, `x[TASK_COMM_LEN]`, `union { u32 a; } x`.
fn last_identifier(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut end = bytes.len();
    while end > 0 {
        match bytes[end - 1] {
            b']' => end = open_bracket(bytes, end, b'[', b']')?,
            b')' => end = open_bracket(bytes, end, b'(', b')')?,
            byte if byte.is_ascii_whitespace() => end -= 1,
            byte if is_identifier_byte(byte) => {
                let count = bytes[..end].iter().rev().take_while(|byte| is_identifier_byte(**byte)).count();
                let begin = end - count;
                if &text[begin..end] != "__attribute__" {
                    return Some((begin, end));
                }
                end = begin;
            }
            _ => return None,
        }
    }
    None
}

/// The index of the bracket that opens what ends right before `end`.
fn open_bracket(bytes: &[u8], end: usize, open: u8, close: u8) -> Option<usize> {
    let mut depth = 0usize;
    for index in (0..end).rev() {
        if bytes[index] == close {
            depth += 1;
        } else if bytes[index] == open {
            depth -= 1;
            if depth == 0 {
                return Some(index);
            }
        }
    }
    None
}

/// Cuts the `[..]` at the end of `text`, of which there may be several.
fn split_dimensions(text: &str) -> (&str, Dimensions) {
    let mut rest = text.trim();
    let mut dimensions = Dimensions::None;
    while let Some(inner) = rest.strip_suffix(']') {
        let Some(open) = inner.rfind('[') else { break };
        let count = inner[open + 1..].trim().parse::<u32>().ok().filter(|count| *count > 0);
        dimensions = match (dimensions, count) {
            (Dimensions::None, Some(count)) => Dimensions::Count(count),
            (Dimensions::Count(so_far), Some(count)) => {
                so_far.checked_mul(count).map_or(Dimensions::Unknown, Dimensions::Count)
            }
            _ => Dimensions::Unknown,
        };
        rest = inner[..open].trim_end();
    }
    (rest, dimensions)
}

/// The text with single spaces and without `__attribute__((..))`, which kernels with BTF tags leave in types.
fn without_attributes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("__attribute__") {
        plain.push_str(&rest[..at]);
        let behind = rest[at + "__attribute__".len()..].trim_start();
        rest = match behind.starts_with('(') {
            // One that is never closed takes all that follows: looking again behind each would take forever.
            true => close_bracket(behind).map_or("", |end| &behind[end..]),
            false => behind,
        };
    }
    plain.push_str(rest);
    plain.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The index behind the `)` that closes the `(` which `text` begins with.
fn close_bracket(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(index + 1),
            b')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

fn words(ty: &str) -> impl Iterator<Item = &str> {
    ty.split_ascii_whitespace()
        .filter(|word| !matches!(*word, "const" | "volatile" | "__user" | "__iomem" | "__percpu"))
}

/// The element of dynamic data by its type. `signed` is the format's column, which counts where the name says nothing.
fn element(ty: &str, signed: bool) -> Element {
    if is_pointer(ty) {
        return Element::Number { bytes: 8, signed: false };
    }
    let words: Vec<&str> = words(ty).collect();
    match words[..] {
        ["char"] => Element::Char,
        ["enum", _] => Element::Number { bytes: 4, signed },
        [name] => typedef(name).or_else(|| integer(&words)).unwrap_or(Element::Bytes),
        _ => integer(&words).unwrap_or(Element::Bytes),
    }
}

/// `unsigned long int` and its kin, in any order.
fn integer(words: &[&str]) -> Option<Element> {
    let (mut longs, mut bytes, mut signed) = (0, None, true);
    for word in words {
        match *word {
            "unsigned" => signed = false,
            "signed" | "int" => {}
            "long" => longs += 1,
            "short" => bytes = Some(2),
            "char" => bytes = Some(1),
            _ => return None,
        }
    }
    if words.is_empty() {
        return None;
    }
    Some(Element::Number { bytes: bytes.unwrap_or(if longs > 0 { 8 } else { 4 }), signed })
}

/// Names that the kernel gives to integers. Big-endian ones are left out: they are no numbers to who reads little
/// endian.
fn typedef(name: &str) -> Option<Element> {
    let (bytes, signed) = match name {
        "u8" | "__u8" | "uint8_t" | "u_char" | "unchar" | "bool" | "_Bool" | "blk_status_t" => (1, false),
        "s8" | "__s8" | "int8_t" => (1, true),
        "u16" | "__u16" | "__le16" | "uint16_t" | "u_short" | "ushort" | "umode_t" | "sa_family_t" => (2, false),
        "s16" | "__s16" | "int16_t" => (2, true),
        "u32" | "__u32" | "__le32" | "uint32_t" | "u_int" | "uint" | "uid_t" | "gid_t" | "dev_t" | "gfp_t" => {
            (4, false)
        }
        "mode_t" | "fmode_t" | "blk_opf_t" | "blk_mode_t" | "socklen_t" | "nlink_t" | "slab_flags_t" => (4, false),
        "s32" | "__s32" | "int32_t" | "pid_t" | "clockid_t" | "timer_t" | "key_serial_t" | "key_t" => (4, true),
        "u64" | "__u64" | "__le64" | "uint64_t" | "size_t" | "uintptr_t" | "sector_t" | "blkcnt_t" => (8, false),
        "ulong" | "u_long" | "pgoff_t" | "ino_t" | "dma_addr_t" | "phys_addr_t" | "resource_size_t" => (8, false),
        "vm_flags_t" | "netdev_features_t" | "cputime_t" => (8, false),
        "s64" | "__s64" | "int64_t" | "ssize_t" | "loff_t" | "off_t" | "ktime_t" | "time64_t" | "ptrdiff_t" => {
            (8, true)
        }
        "intptr_t" | "clock_t" | "time_t" => (8, true),
        _ => return None,
    };
    Some(Element::Number { bytes, signed })
}
