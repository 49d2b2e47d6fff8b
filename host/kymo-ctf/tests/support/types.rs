// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random types of CTF 1.8, random values of them, and both as TSDL text and as bits. One seed repeats a trace.

pub use kymo_testing::Random;

use super::babel::percent_g;

/// A type.
#[derive(Clone, Debug)]
pub enum Type {
    Int {
        bits: u32,
        signed: bool,
        big: bool,
        align: u64,
        hex: bool,
    },
    /// Labels: name, low, high.
    Enum {
        bits: u32,
        labels: Vec<(String, u64, u64)>,
    },
    Float {
        double: bool,
        align: u64,
    },
    /// Never empty, as babeltrace2 2.0 then shows the text of the record before.
    Text,
    /// Integers of 8 bits with an encoding.
    Chars(Count),
    Array(Box<Type>, Count),
    Struct(Vec<(String, Type)>, u64),
    /// With its tag, an enumeration in front of it, and one option for each label.
    Variant {
        tag: String,
        options: Vec<(String, Type)>,
    },
}

/// Elements of an array.
#[derive(Clone, Debug)]
pub enum Count {
    Fixed(u64),
    /// The field that says how many.
    Field(String),
}

/// Bits as they are written: little endian fills bytes from their low end.
#[derive(Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    pub at: u64,
    pub big: bool,
}

impl Bits {
    pub fn align(&mut self, bits: u64) {
        while self.at % bits != 0 {
            self.put(0, 1, self.big);
        }
    }

    pub fn put(&mut self, value: u64, bits: u32, big: bool) {
        for i in 0..bits {
            let bit = if big { value >> (bits - 1 - i) & 1 } else { value >> i & 1 };
            let (byte, place) = ((self.at / 8) as usize, (self.at % 8) as u32);
            if self.bytes.len() <= byte {
                self.bytes.push(0);
            }
            self.bytes[byte] |= (bit as u8) << if big { 7 - place } else { place };
            self.at += 1;
        }
    }
}

/// Makes types and values of one trace.
pub struct Maker {
    pub random: Random,
    /// The trace's byte order.
    pub big: bool,
    names: u64,
}

impl Maker {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let big = random.below(2) == 1;
        Self { random, big, names: 0 }
    }

    fn name(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    /// A structure of a few fields.
    pub fn structure(&mut self, depth: u32) -> Type {
        let mut fields = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            self.field(depth, &mut fields);
        }
        Type::Struct(fields, self.random.pick(&[1, 1, 1, 8, 16, 64]))
    }

    fn field(&mut self, depth: u32, fields: &mut Vec<(String, Type)>) {
        let kinds = if depth == 0 { 6 } else { 11 };
        let ty = match self.random.below(kinds) {
            0..=2 => self.int(),
            3 => Type::Enum { bits: 3 + self.random.below(30) as u32, labels: labels(&mut self.random) },
            4 => Type::Float { double: self.random.below(2) == 1, align: self.random.pick(&[8, 32, 64]) },
            5 => match self.random.below(3) {
                0 => Type::Text,
                1 => Type::Chars(Count::Fixed(1 + self.random.below(6))),
                _ => Type::Chars(self.count("m", fields)),
            },
            6 => Type::Array(self.element(depth).into(), Count::Fixed(self.random.below(4))),
            7 => {
                let count = self.count("n", fields);
                Type::Array(self.element(depth).into(), count)
            }
            8 | 9 => self.structure(depth - 1),
            _ => self.variant(depth, fields),
        };
        fields.push((self.name("f"), ty));
    }

    fn int(&mut self) -> Type {
        let bits = self.random.pick(&[1, 3, 5, 7, 8, 8, 12, 16, 16, 17, 24, 31, 32, 32, 33, 48, 63, 64, 64]);
        let align = self.random.pick(&[1, 1, 8, 8, 16, 32, 64]);
        // A byte has bits of one order only.
        let other = bits % 8 == 0 && align >= 8 && self.random.below(4) == 0;
        let signed = self.random.below(2) == 1;
        // Bytes in base 16 are shown as bytes, not as integers; and babeltrace2 2.0 shows 63 bits in base 16 as 0.
        let hex = !signed && !matches!(bits, 8 | 63) && self.random.below(4) == 0;
        Type::Int { bits, signed, big: self.big ^ other, align, hex }
    }

    fn element(&mut self, depth: u32) -> Type {
        match self.random.below(3) {
            0 => self.structure(depth - 1),
            1 if depth > 1 => Type::Array(self.element(depth - 1).into(), Count::Fixed(1 + self.random.below(3))),
            _ => self.int(),
        }
    }

    /// A length, put in front of the field.
    fn count(&mut self, stem: &str, fields: &mut Vec<(String, Type)>) -> Count {
        let name = self.name(stem);
        let bits = self.random.pick(&[3, 8, 16]);
        let align = if bits % 8 == 0 { 8 } else { 1 };
        fields.push((name.clone(), Type::Int { bits, signed: false, big: self.big, align, hex: false }));
        Count::Field(name)
    }

    fn variant(&mut self, depth: u32, fields: &mut Vec<(String, Type)>) -> Type {
        let tag = self.name("tag");
        let labels = labels(&mut self.random);
        let options = labels
            .iter()
            .map(|(label, ..)| {
                let ty = if self.random.below(2) == 0 { self.int() } else { self.structure(depth - 1) };
                (label.clone(), ty)
            })
            .collect();
        fields.push((tag.clone(), Type::Enum { bits: 16, labels }));
        Type::Variant { tag, options }
    }

    /// Writes a random value of `ty` and gives it as babeltrace2 prints it. `known`: lengths and tags in front, by
    /// name.
    pub fn value(&mut self, ty: &Type, bits: &mut Bits, known: &[(String, u64)]) -> String {
        bits.align(align(ty));
        match ty {
            Type::Int { .. } => {
                let value = self.random.word();
                put_int(ty, value, bits)
            }
            Type::Enum { bits: size, labels } => {
                let (label, low, high) = self.random.pick(&labels.iter().collect::<Vec<_>>());
                let value = low + self.random.below(high - low + 1);
                bits.put(value, *size, self.big);
                format!("( \"{label}\" : container = {value} )")
            }
            Type::Float { double, .. } => self.float(*double, bits),
            Type::Text => {
                let length = 1 + self.random.below(6);
                let text = self.chars(length, bits);
                bits.put(0, 8, self.big);
                format!("{text:?}")
            }
            Type::Chars(count) => {
                let length = length(count, known);
                format!("{:?}", self.chars(length, bits))
            }
            Type::Array(element, count) => {
                let values: Vec<String> = (0..length(count, known))
                    .map(|i| format!("[{i}] = {}", self.value(element, bits, known)))
                    .collect();
                format!("[ {} ]", values.join(", ")).replace("[  ]", "[ ]")
            }
            Type::Struct(fields, _) => self.fields(fields, bits, known),
            Type::Variant { tag, options } => {
                let chosen = known.iter().rev().find(|(name, _)| name == tag).expect("a tag").1;
                self.value(&options[chosen as usize].1, bits, known)
            }
        }
    }

    fn fields(&mut self, fields: &[(String, Type)], bits: &mut Bits, known: &[(String, u64)]) -> String {
        let mut known = known.to_vec();
        let mut shown = Vec::new();
        for (name, ty) in fields {
            let value = if name.starts_with(['m', 'n']) {
                let least = u64::from(name.starts_with('m'));
                let count = least + self.random.below(4);
                known.push((name.clone(), count));
                bits.align(align(ty));
                put_int(ty, count, bits)
            } else if let (true, Type::Enum { bits: size, labels }) = (name.starts_with("tag"), ty) {
                let option = self.random.below(labels.len() as u64);
                let (label, low, high) = &labels[option as usize];
                let value = low + self.random.below(high - low + 1);
                known.push((name.clone(), option));
                bits.align(align(ty));
                bits.put(value, *size, self.big);
                format!("( \"{label}\" : container = {value} )")
            } else {
                self.value(ty, bits, &known)
            };
            shown.push(format!("{name} = {value}"));
        }
        format!("{{ {} }}", shown.join(", "))
    }

    fn float(&mut self, double: bool, bits: &mut Bits) -> String {
        let value = self.random.word() as i32 as f64 / f64::from(1u32 << self.random.below(30));
        if double {
            bits.put(value.to_bits(), 64, self.big);
            percent_g(value)
        } else {
            bits.put(u64::from((value as f32).to_bits()), 32, self.big);
            percent_g(f64::from(value as f32))
        }
    }

    fn chars(&mut self, count: u64, bits: &mut Bits) -> String {
        let text: String = (0..count).map(|_| (b'a' + self.random.below(26) as u8) as char).collect();
        text.bytes().for_each(|byte| bits.put(u64::from(byte), 8, self.big));
        text
    }
}

fn length(count: &Count, known: &[(String, u64)]) -> u64 {
    match count {
        Count::Fixed(count) => *count,
        Count::Field(field) => known.iter().rev().find(|(name, _)| name == field).expect("a length").1,
    }
}

fn labels(random: &mut Random) -> Vec<(String, u64, u64)> {
    let mut next = 0;
    (0..2 + random.below(2))
        .map(|i| {
            let low = next;
            let high = low + random.below(2);
            next = high + 1;
            (format!("L{i}"), low, high)
        })
        .collect()
}

fn put_int(ty: &Type, value: u64, to: &mut Bits) -> String {
    let Type::Int { bits, signed, big, hex, .. } = ty else { unreachable!("an integer") };
    let spare = 64 - bits;
    to.put(value, *bits, *big);
    match (signed, hex) {
        (true, _) => ((value << spare) as i64 >> spare).to_string(),
        (false, true) => format!("0x{:X}", value << spare >> spare),
        (false, false) => (value << spare >> spare).to_string(),
    }
}

/// As the specification has it: a structure is aligned as its strictest member, an array as its element.
fn align(ty: &Type) -> u64 {
    match ty {
        Type::Int { align, .. } | Type::Float { align, .. } => *align,
        Type::Enum { bits, .. } => {
            if bits % 8 == 0 {
                8
            } else {
                1
            }
        }
        Type::Text | Type::Chars(_) => 8,
        Type::Array(element, _) => align(element),
        Type::Struct(fields, least) => fields.iter().map(|(_, ty)| align(ty)).max().unwrap_or(1).max(*least),
        Type::Variant { .. } => 1,
    }
}

/// The type with a name in TSDL: `integer { ... } x[3]`.
pub fn tsdl(ty: &Type, name: &str) -> String {
    match ty {
        Type::Int { bits, signed, big, align, hex } => {
            let order = if *big { "be" } else { "le" };
            let base = if *hex { "hex" } else { "decimal" };
            format!(
                "integer {{ size = {bits}; signed = {signed}; align = {align}; byte_order = {order}; base = {base}; }} {name}"
            )
        }
        Type::Enum { bits, labels } => {
            let align = if bits % 8 == 0 { 8 } else { 1 };
            let labels: Vec<_> =
                labels.iter().map(|(label, low, high)| format!("{label} = {low} ... {high}")).collect();
            format!("enum : integer {{ size = {bits}; align = {align}; }} {{ {} }} {name}", labels.join(", "))
        }
        Type::Float { double, align } => {
            let (exponent, mantissa) = if *double { (11, 53) } else { (8, 24) };
            format!("floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = {align}; }} {name}")
        }
        Type::Text => format!("string {{ encoding = UTF8; }} {name}"),
        Type::Chars(count) => format!("integer {{ size = 8; align = 8; encoding = UTF8; }} {name}[{}]", dim(count)),
        Type::Array(element, count) => {
            // Of two dimensions the one that is written first is the outer one.
            tsdl(element, &format!("{name}[{}]", dim(count)))
        }
        Type::Struct(fields, least) => {
            let mut text = String::from("struct { ");
            for (name, ty) in fields {
                text += &format!("{}; ", tsdl(ty, name));
            }
            format!("{text}}} align({least}) {name}")
        }
        Type::Variant { tag, options } => {
            let options: String = options.iter().map(|(label, ty)| format!("{}; ", tsdl(ty, label))).collect();
            format!("variant <{tag}> {{ {options}}} {name}")
        }
    }
}

fn dim(count: &Count) -> String {
    match count {
        Count::Fixed(count) => count.to_string(),
        Count::Field(name) => name.clone(),
    }
}
