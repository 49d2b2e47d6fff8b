// SPDX-License-Identifier: MIT OR Apache-2.0
//! How each field is written again: its name, its class, and the lengths and tags that go in front of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::read::{Base, ClassId, ClassKind, Int, Labels, Len, Metadata, Role, View};

/// Names that the context of all packets has.
pub(super) const OF_PACKET: [&str; 6] =
    ["timestamp_begin", "timestamp_end", "content_size", "packet_size", "packet_seq_num", "events_discarded"];

/// A field of a structure.
pub(super) struct Member {
    /// Where it is in the source's structure.
    pub position: usize,
    /// As it is written.
    pub name: String,
    /// Lengths and tags in front of it.
    pub told: Vec<Told>,
    pub shape: Shape,
}

/// An integer of 32 bits in front of a field, which says how the field is read.
pub(super) struct Told {
    pub name: String,
    /// Of a tag: the names of the options, which have the values 0, 1 and so on.
    pub options: Option<Vec<String>>,
}

/// The class of a field.
pub(super) enum Shape {
    Int {
        bits: u8,
        signed: bool,
        base: Base,
        labels: Option<Arc<Labels>>,
    },
    /// `enum kymo_bool`.
    Bool,
    Float {
        bits: u8,
    },
    /// UTF-8 up to a NUL character.
    Text,
    /// Bytes, whose number is in the member's `told` of this position.
    Bytes {
        told: usize,
    },
    Array {
        count: Count,
        element: Box<Shape>,
    },
    Struct(Vec<Member>),
    Variant {
        told: usize,
        options: Vec<Choice>,
    },
}

impl Shape {
    /// In an array of variable length, 8 bits in base 16 would be read as bytes: they become 16.
    fn widen_bytes(&mut self) {
        if let Shape::Int { bits: bits @ 8, signed: false, base: Base::Hexadecimal, labels: None } = self {
            *bits = 16;
        }
    }
}

/// Elements of an array.
pub(super) enum Count {
    Fixed(u64),
    /// The position in the member's `told`.
    Told(usize),
}

/// An option of a variant.
pub(super) struct Choice {
    pub name: String,
    /// The source's class; `None` is nothing, of an optional field.
    pub class: Option<ClassId>,
    pub shape: Shape,
}

impl Member {
    /// The name that readers show.
    pub fn shown(&self) -> &str {
        shown(&self.name)
    }
}

/// Works out what fields become.
pub(super) struct Planner<'m> {
    metadata: &'m Metadata,
    /// Labels of the tags that leave their values in slots.
    tags: HashMap<u32, Arc<Labels>>,
    /// Names that had to be changed.
    pub renamed: u64,
}

impl<'m> Planner<'m> {
    pub fn new(metadata: &'m Metadata) -> Self {
        let mut tags = HashMap::new();
        for class in &metadata.classes {
            if let ClassKind::Int(Int { save: Some(slot), labels: Some(labels), .. }) = &class.kind {
                tags.insert(*slot, Arc::clone(labels));
            }
        }
        Self { metadata, tags, renamed: 0 }
    }

    /// The fields of a structure, without lengths that only say how long the next field is.
    pub fn fields(&mut self, class: Option<ClassId>) -> Vec<Member> {
        class.map_or_else(Vec::new, |class| self.members(class, false))
    }

    /// The fields of a packet's context, without what the contexts of all packets say.
    pub fn packet_context(&mut self, class: Option<ClassId>) -> Vec<Member> {
        class.map_or_else(Vec::new, |class| self.members(class, true))
    }

    fn members(&mut self, class: ClassId, is_packet: bool) -> Vec<Member> {
        let metadata = self.metadata;
        let is_own = |class: ClassId| match &metadata.classes[class as usize].kind {
            ClassKind::Int(int) => int.role.is_some_and(is_of_packet),
            _ => false,
        };
        let source = metadata.members(class).iter().enumerate();
        let source: Vec<_> = source.filter(|(_, field)| !(field.hidden || is_packet && is_own(field.class))).collect();
        let mut taken: HashSet<String> = HashSet::new();
        if is_packet {
            taken.extend(OF_PACKET.iter().map(|name| (*name).to_owned()));
        }
        // All names before the first length, so that no length takes the name of a field.
        let name = |(_, field): &(usize, &_)| self.name(field, is_packet, &mut taken);
        let names: Vec<String> = source.iter().map(name).collect();
        let member = |((position, field), name): ((usize, &crate::read::Member), String)| {
            let mut told = Vec::new();
            let shape = self.shape(field.class, &mut told);
            let told = told.into_iter().map(|options| told_name(&mut taken, &name, options)).collect();
            Member { position, name, told, shape }
        };
        source.into_iter().zip(names).map(member).collect()
    }

    /// The name of a field as it is written: one `_` in front, so that it is no keyword.
    fn name(&mut self, field: &crate::read::Member, is_packet: bool, taken: &mut HashSet<String>) -> String {
        // Readers know the fields of a packet's context by their names as they are written.
        let is_kept = is_packet && *shown(&field.raw) == *field.name && is_plain_name(&field.raw);
        let mut name = if is_kept { field.raw.to_string() } else { format!("_{}", plain(&field.name)) };
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        self.renamed += u64::from(*shown(&name) != *field.name);
        name
    }

    /// `told` takes what must be in front: of a tag the names of its options.
    fn shape(&mut self, class: ClassId, told: &mut Vec<Option<Vec<String>>>) -> Shape {
        let metadata = self.metadata;
        match &metadata.classes[class as usize].kind {
            ClassKind::Int(int) if is_bool(int) => Shape::Bool,
            ClassKind::Int(int) => {
                let (bits, labels) = (whole_bytes(int.bits), int.labels.clone());
                Shape::Int { bits, signed: int.signed, base: int.base, labels }
            }
            ClassKind::Float { bits, .. } => Shape::Float { bits: (*bits).max(32) },
            ClassKind::WideFloat { .. } => Shape::Float { bits: 64 },
            // Wide integers by their digits: other readers have no more than 64 bits.
            ClassKind::NulText(_) | ClassKind::Text { .. } | ClassKind::Wide(_) => Shape::Text,
            ClassKind::Bytes { .. } => Shape::Bytes { told: place(told, None) },
            ClassKind::Array { len, element } => {
                // Some readers have no arrays of no elements.
                let count = match len {
                    Len::Fixed(count) if *count > 0 => Count::Fixed(*count),
                    Len::Fixed(_) | Len::Saved(_) => Count::Told(place(told, None)),
                };
                let mut element = self.shape(*element, told);
                if matches!(count, Count::Told(_)) {
                    element.widen_bytes();
                }
                Shape::Array { count, element: Box::new(element) }
            }
            ClassKind::Struct { .. } => Shape::Struct(self.members(class, false)),
            ClassKind::Variant { slot, options, .. } => {
                let names = self.option_names(*slot, options.iter().map(|option| &option.ranges[..]));
                let place = place(told, Some(names.clone()));
                let mut choices = Vec::with_capacity(options.len());
                for (option, name) in options.iter().zip(names) {
                    choices.push(Choice { name, class: Some(option.class), shape: self.shape(option.class, told) });
                }
                Shape::Variant { told: place, options: choices }
            }
            ClassKind::Optional { element, .. } => {
                let place = place(told, Some(vec!["none".to_owned(), "some".to_owned()]));
                let some = self.shape(*element, told);
                let none = Choice { name: "none".to_owned(), class: None, shape: Shape::Struct(Vec::new()) };
                let some = Choice { name: "some".to_owned(), class: Some(*element), shape: some };
                Shape::Variant { told: place, options: vec![none, some] }
            }
        }
    }

    /// Names of a variant's options: the labels of its tag, where it has some.
    fn option_names<'r>(&self, slot: u32, options: impl Iterator<Item = &'r [(i128, i128)]>) -> Vec<String> {
        let labels = self.tags.get(&slot);
        let mut taken = HashSet::new();
        let mut names = Vec::new();
        for (position, ranges) in options.enumerate() {
            let label = labels.and_then(|labels| labels.find(ranges.first()?.0).first());
            let mut name = label.map_or_else(|| format!("option{position}"), plain);
            if !is_plain_name(&name) {
                name.insert(0, '_');
            }
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            names.push(name);
        }
        names
    }
}

/// Adds what must be in front of a field; where it is among that.
fn place(told: &mut Vec<Option<Vec<String>>>, options: Option<Vec<String>>) -> usize {
    told.push(options);
    told.len() - 1
}

/// An integer in front of the field `name`, under a name that nobody has.
fn told_name(taken: &mut HashSet<String>, name: &str, options: Option<Vec<String>>) -> Told {
    let ending = if options.is_some() { "option" } else { "length" };
    let mut name = format!("__{}_{ending}", shown(name));
    while !taken.insert(name.clone()) {
        name.insert(0, '_');
    }
    Told { name, options }
}

/// What all packets' contexts say anyway.
fn is_of_packet(role: Role) -> bool {
    match role {
        Role::Begin | Role::End | Role::ContentSize | Role::PacketSize | Role::Sequence | Role::Discarded => true,
        Role::Magic | Role::StreamId | Role::StreamInstance | Role::EventId | Role::Time => false,
    }
}

fn is_bool(int: &Int) -> bool {
    match int.view {
        View::Bool => true,
        View::StrictBool => int.bits == 8 && !int.signed,
        View::Number => false,
    }
}

/// 8, 16, 32 or 64. Integers of variable length are given with 64 bits.
fn whole_bytes(bits: u8) -> u8 {
    match bits {
        1..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

/// One `_` in front is there only to keep a name from meeting a keyword.
fn shown(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// With `_` in place of what no name may have.
fn plain(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.is_empty() { "_".to_owned() } else { plain }
}

/// Words that CTF 1.8 has for itself.
const KEYWORDS: &str = "align callsite char clock const double enum env event float floating_point int integer long \
    short signed stream string struct trace typealias typedef unsigned variant void _Bool _Complex _Imaginary";

/// Whether a name can be written as it is: no keyword, and none of the types that are declared.
fn is_plain_name(name: &str) -> bool {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_word && begins && !name.ends_with("_t") && !KEYWORDS.split_ascii_whitespace().any(|keyword| keyword == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_written() {
        for name in ["cpu_id", "_x", "x9", "events"] {
            assert!(is_plain_name(name), "{name}");
        }
        for name in ["", "9x", "event", "uint8_t", "a b", "a.b", "ü", "_Complex"] {
            assert!(!is_plain_name(name), "{name}");
        }
        assert_eq!((plain("a b.c"), plain("")), ("a_b_c".to_owned(), "_".to_owned()));
    }

    #[test]
    fn lengths_never_take_the_name_of_a_field() {
        let mut taken: HashSet<String> = ["_x", "__x_length"].map(str::to_owned).into();
        assert_eq!(told_name(&mut taken, "_x", None).name, "___x_length");
        assert_eq!(told_name(&mut taken, "_x", None).name, "____x_length");
        assert_eq!(told_name(&mut taken, "_x", Some(Vec::new())).name, "__x_option");
    }
}
