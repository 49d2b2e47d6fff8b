// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heads of packets and records: which fields they have, and the values that say times, sizes and losses.

use super::make::{Format, Maker};
use super::types::{Choice, Field, Int, Label, Part, Reference, Role, Type, Val};

/// The forms of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing: one event, and no times.
    Bare,
    /// An id, and a time of so many bits, or none.
    Plain { id_bits: u32, time_bits: Option<u32> },
    /// The time first, and 7 bits of id.
    TimeFirst,
    /// LTTng's: an id of so few bits, and a time of so few; or both in full.
    Short { id_bits: u32, time_bits: u32 },
    /// Both as LEB128.
    Leb,
}

impl Form {
    /// Bits of a time that is not written in full.
    pub fn time_bits(self) -> Option<u32> {
        match self {
            Self::Bare => None,
            Self::Plain { time_bits, .. } => time_bits,
            Self::TimeFirst | Self::Short { .. } | Self::Leb => Some(64),
        }
    }

    /// Whether times have fewer bits than the clock, in all records or in some.
    pub fn has_short_times(self) -> bool {
        matches!(self, Self::Short { .. } | Self::Plain { time_bits: Some(..64), .. })
    }

    /// The greatest id.
    pub fn id_max(self) -> u64 {
        match self {
            Self::Bare => 0,
            Self::Plain { id_bits, .. } => u64::MAX >> (64 - id_bits),
            Self::TimeFirst => 127,
            Self::Short { .. } => u32::MAX.into(),
            Self::Leb => u64::MAX >> 1,
        }
    }
}

/// A member that says something by its role.
pub fn member(role: Role, bits: u32, align: u64, big: bool) -> Field {
    let ty = Type::Int(Int::plain(bits, align, big).with(role));
    Field { name: role.names().0.into(), ty, target: None }
}

/// The header of a record.
pub fn header(form: Form, big: bool) -> Option<Type> {
    let int = |role: Role, bits: u32| member(role, bits, if bits % 8 == 0 { 8 } else { 1 }, big);
    let fields: Vec<Field> = match form {
        Form::Bare => return None,
        Form::Plain { id_bits, time_bits } => {
            [int(Role::EventClass, id_bits)].into_iter().chain(time_bits.map(|bits| int(Role::Time, bits))).collect()
        }
        Form::TimeFirst => vec![member(Role::Time, 64, 64, big), member(Role::EventClass, 7, 1, big)],
        Form::Leb => {
            let leb = |role: Role| Field {
                name: role.names().0.into(),
                ty: Type::Leb { signed: false, role: Some(role) },
                target: None,
            };
            vec![leb(Role::EventClass), leb(Role::Time)]
        }
        Form::Short { id_bits, time_bits } => short(id_bits, time_bits, big),
    };
    Some(Type::Struct(fields, 8))
}

fn short(id_bits: u32, time_bits: u32, big: bool) -> Vec<Field> {
    let escape = (1 << id_bits) - 1;
    let label = |name: &str, low, high| Label { name: name.into(), ranges: vec![(low, high)] };
    let labels = vec![label("compact", 0, escape - 1), label("extended", escape, escape)];
    let id = Int::plain(id_bits, if id_bits % 8 == 0 { 8 } else { 1 }, big).with(Role::EventClass);
    let tag = Field { name: "id".into(), ty: Type::Enum(id, labels.clone()), target: None };
    let time = member(Role::Time, time_bits, if time_bits % 8 == 0 { 8 } else { 1 }, big);
    let full = vec![member(Role::EventClass, 32, 8, big), member(Role::Time, 64, 8, big)];
    let types = [Type::Struct(vec![time], 1), Type::Struct(full, 8)];
    let options = labels.into_iter().zip(types);
    let options = options.map(|(label, ty)| Choice { name: label.name, ranges: label.ranges, ty }).collect();
    let path = vec!["id".to_owned()];
    let tag_of = Reference { id: 0, part: Part::EventHeader, path, up: Some(0), is_inside: false, is_across: false };
    vec![tag, Field { name: "v".into(), ty: Type::Variant { tag: tag_of, options }, target: None }]
}

/// The header of one record. `before`: the time that the reader has when it comes to it.
pub fn header_value(maker: &mut Maker, form: Form, id: u64, time: u64, before: u64) -> Option<Val> {
    let int = |value: u64| Val::Int(value.into());
    Some(Val::Struct(match form {
        Form::Bare => return None,
        Form::Plain { time_bits, .. } => {
            [int(id)].into_iter().chain(time_bits.map(|bits| int(time & (u64::MAX >> (64 - bits))))).collect()
        }
        Form::TimeFirst => vec![int(time), int(id)],
        Form::Leb => vec![int(id), int(time)],
        Form::Short { id_bits, time_bits } => {
            let escape = (1u64 << id_bits) - 1;
            let is_near = id < escape && time - before < 1 << time_bits;
            match is_near && !maker.one_in(4) {
                true => {
                    let time = Val::Struct(vec![int(time & ((1 << time_bits) - 1))]);
                    vec![int(id), Val::Chosen(0, time.into())]
                }
                false => vec![int(escape), Val::Chosen(1, Val::Struct(vec![int(id), int(time)]).into())],
            }
        }
    }))
}

/// Which form a stream has.
pub fn form(maker: &mut Maker, has_clock: bool) -> Form {
    let id_bits = match maker.random.pick(&[8, 16, 32, 64, 10]) {
        10 if !maker.features.note("id-of-10-bits") => 16,
        64 if !maker.features.note("id-of-64-bits") => 16,
        bits => bits,
    };
    let time_bits = match maker.random.pick(&[64, 64, 48, 32, 29]) {
        48 if !maker.features.note("time-of-48-bits") => 64,
        29 if !maker.features.note("time-of-29-bits") => 32,
        bits => bits,
    };
    if !has_clock {
        return if maker.one_in(3) { Form::Bare } else { Form::Plain { id_bits, time_bits: None } };
    }
    match maker.random.below(7u64) {
        0 if maker.features.note("header-of-5-and-27-bits") => Form::Short { id_bits: 5, time_bits: 27 },
        1 if maker.features.note("header-of-16-and-32-bits") => Form::Short { id_bits: 16, time_bits: 32 },
        2 if maker.features.note("header-with-time-first") => Form::TimeFirst,
        3 if maker.format == Format::Json && maker.features.note("leb128-in-a-header") => Form::Leb,
        _ => Form::Plain { id_bits, time_bits: Some(time_bits) },
    }
}

/// The context of a packet: what it says, in random order, and random fields behind that.
pub fn context(maker: &mut Maker, has_clock: bool, has_sizes: bool) -> Option<Type> {
    let big = maker.big;
    let mut fields = Vec::new();
    let bits = maker.random.pick(&[64, 32]);
    if has_sizes {
        fields.push(member(Role::Content, bits, 8, big));
        fields.push(member(Role::Total, bits, 8, big));
    }
    let has_times = !maker.one_in(if has_sizes { 5 } else { 2 });
    if has_clock && (has_times || !maker.features.note("packet-without-times")) {
        let is_short = maker.features.take_alone(&mut maker.random, "short-times-of-packets", 4);
        for role in [Role::Begin, Role::End] {
            // What has no size ends at a byte.
            let few = if has_sizes { 27 } else { 24 };
            let bits = if is_short { maker.random.pick(&[64, 40, 32, few, 16]) } else { 64 };
            fields.push(member(role, bits, if bits % 8 == 0 { 8 } else { 1 }, big));
        }
    }
    let has_few = has_sizes && maker.features.take_alone(&mut maker.random, "counters-of-8-bits", 4);
    let mut counter = |maker: &mut Maker, role: Role| {
        let bits = maker.random.pick(&[64, 32]);
        fields.push(member(role, if has_few { 8 } else { bits }, 8, big));
    };
    if has_sizes && maker.one_in(2) {
        counter(maker, Role::Sequence);
    }
    if has_sizes && maker.feature("lost-records", 2) {
        counter(maker, Role::Discarded);
    }
    for index in 1..fields.len() {
        fields.swap(index, maker.random.below(index + 1));
    }
    maker.forget_from(Part::PacketContext);
    if has_sizes && maker.feature("packet-context-with-more", 3) {
        if let Type::Struct(more, _) = maker.part(Part::PacketContext, 1) {
            fields.extend(more);
        }
    }
    (!fields.is_empty()).then_some(Type::Struct(fields, 8))
}
