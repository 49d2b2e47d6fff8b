// SPDX-License-Identifier: MIT OR Apache-2.0
//! A case's metadata as TSDL, in one of the many spellings that mean the same; or in a plain one, a member a line, for
//! those who change it afterwards.

use kymo_testing::Random;

use super::features::Features;
use super::trace::{Case, EnvVal, Event, Stream, has_role};
use super::types::{Field, Int, Label, Len, Reference, Role, Type};

/// Names of types in C.
const C_NAMES: [&str; 5] = ["unsigned int", "long long", "unsigned long", "signed char", "unsigned short int"];

/// The text. What its spelling uses is noted among the case's features.
pub fn tsdl(case: &mut Case, seed: u64, is_plain: bool) -> String {
    let features = std::mem::take(&mut case.features);
    let clock = case.clock.as_ref().map(|clock| clock.name.clone());
    let has_streams = has_role(case.header.as_ref(), Role::StreamClass);
    let (random, top, c_names) = (Random(seed), String::new(), C_NAMES.len());
    let mut speller = Speller { random, is_plain, features, big: case.big, clock, has_streams, top, names: 0, c_names };
    let text = speller.document(case);
    case.features = speller.features;
    text
}

struct Speller {
    random: Random,
    is_plain: bool,
    features: Features,
    /// The trace's byte order.
    big: bool,
    clock: Option<String>,
    /// Packets name their stream class.
    has_streams: bool,
    /// Declarations in front of the block that is being written.
    top: String,
    names: u64,
    /// How many of [`C_NAMES`] are free.
    c_names: usize,
}

impl Speller {
    /// One time in `count`, and never where the spelling is plain.
    fn one_in(&mut self, count: u64) -> bool {
        let is_it = self.random.below(count) == 0;
        is_it && !self.is_plain
    }

    fn pick<'a>(&mut self, plain: &'a str, others: &[&'a str]) -> &'a str {
        let other = self.random.pick(others);
        if self.is_plain { plain } else { other }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("t{}", self.names)
    }

    fn document(&mut self, case: &Case) -> String {
        let mut text = String::from("/* CTF 1.8 */\n");
        let trace = self.trace(case);
        self.block(&mut text, &trace);
        if !case.env.is_empty() {
            let value = |value: &EnvVal| match value {
                EnvVal::Int(value) => value.to_string(),
                EnvVal::Text(text) => quoted(text),
            };
            let env: String = case.env.iter().map(|(name, of)| format!("\t{name} = {};\n", value(of))).collect();
            self.block(&mut text, &format!("env {{\n{env}}};\n"));
        }
        let clock = self.clock_block(case);
        self.block(&mut text, &clock);
        for stream in &case.streams {
            let block = self.stream(stream);
            self.block(&mut text, &block);
            for event in &stream.events {
                let block = self.event(stream, event);
                self.block(&mut text, &block);
            }
        }
        text
    }

    /// What a block needs, and the block.
    fn block(&mut self, text: &mut String, block: &str) {
        text.push_str(&std::mem::take(&mut self.top));
        text.push_str(block);
        text.push_str(self.pick("", &["", "", "\n", "// note\n", "/* a\n   note */"]));
    }

    fn trace(&mut self, case: &Case) -> String {
        let order = if case.big { "be" } else { "le" };
        let mut text = format!("trace {{\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = {order};\n");
        if let Some(id) = case.uuid {
            text += &format!("\tuuid = \"{}\";\n", uuid(id));
        }
        if let Some(header) = &case.header {
            text += &format!("\tpacket.header := {};\n", self.ty(header, "").trim_end());
        }
        text + "};\n"
    }

    fn clock_block(&mut self, case: &Case) -> String {
        let Some(clock) = &case.clock else { return String::new() };
        let mut lines = vec![
            format!("name = {};", if self.one_in(2) { quoted(&clock.name) } else { clock.name.clone() }),
            format!("freq = {};", clock.frequency),
            format!("offset_s = {};", clock.offset_s),
            format!("offset = {};", clock.offset),
            format!("precision = {};", clock.precision),
            format!("absolute = {};", if clock.absolute { self.pick("true", &["true", "TRUE"]) } else { "false" }),
            format!("description = {};", quoted(&clock.description)),
        ];
        lines.extend(clock.uuid.map(|id| format!("uuid = \"{}\";", uuid(id))));
        self.shuffle(&mut lines);
        format!("clock {{\n\t{}\n}};\n", lines.join("\n\t"))
    }

    fn shuffle(&mut self, lines: &mut [String]) {
        for index in 1..lines.len() {
            let other = self.random.below(index + 1);
            if !self.is_plain {
                lines.swap(index, other);
            }
        }
    }

    fn stream(&mut self, stream: &Stream) -> String {
        let mut parts = Vec::new();
        for (name, ty) in
            [("packet.context", &stream.context), ("event.header", &stream.header), ("event.context", &stream.common)]
        {
            if let Some(ty) = ty {
                parts.push(format!("\t{name} := {};\n", self.ty(ty, "").trim_end()));
            }
        }
        let id = if self.has_streams { format!("\tid = {};\n", stream.id) } else { String::new() };
        format!("stream {{\n{id}{}}};\n", parts.concat())
    }

    fn event(&mut self, stream: &Stream, event: &Event) -> String {
        let mut text =
            format!("event {{\n\tname = {};\n\tid = {};\n", quoted(&event.name), self.number(event.id.into()),);
        if self.has_streams {
            text += &format!("\tstream_id = {};\n", stream.id);
        }
        for (name, ty) in [("context", &event.specific), ("fields", &event.payload)] {
            if let Some(ty) = ty {
                text += &format!("\t{name} := {};\n", self.ty(ty, "").trim_end());
            }
        }
        text + "};\n"
    }

    /// A type with what it declares: `integer { ... } x[3]`.
    fn ty(&mut self, ty: &Type, name: &str) -> String {
        let spec = match ty {
            Type::Int(int) => self.declared(|speller| speller.int(int, "")),
            Type::Enum(int, labels) => self.enumeration(int, labels),
            Type::Float { bits, big, align } => self.declared(|speller| speller.float(*bits, *big, *align)),
            Type::Text(_) => self.declared(|speller| {
                let encoding = speller.pick("UTF8", &["UTF8", "utf8"]);
                match speller.one_in(2) {
                    true => "string".into(),
                    false => format!("string {{ encoding = {encoding}; }}"),
                }
            }),
            Type::Chars(len, _) => {
                let element = self.declared(|speller| speller.int(&Int::plain(8, 8, speller.big), "encoding = UTF8"));
                return format!("{element} {name}[{}]", self.len(len));
            }
            Type::Uuid => {
                let element = self.declared(|speller| speller.int(&Int::plain(8, 8, speller.big), ""));
                return format!("{element} {name}[16]");
            }
            Type::List { element, len, .. } => {
                let len = self.len(len);
                return self.ty(element, &format!("{name}[{len}]"));
            }
            Type::Struct(fields, least) => self.structure(ty, fields, *least),
            Type::Variant { tag, options } => {
                let tag = self.reference(tag);
                let options: Vec<Field> = options
                    .iter()
                    .map(|option| Field { name: option.name.clone(), ty: option.ty.clone(), target: None })
                    .collect();
                let body = self.members(&options);
                format!("variant <{tag}> {{\n{body}}}")
            }
            other => unreachable!("{other:?} is not of CTF 1.8"),
        };
        format!("{spec} {name}")
    }

    /// Inline, or by a name that is declared in front of the block.
    fn declared(&mut self, spec: impl Fn(&mut Self) -> String) -> String {
        let text = spec(self);
        match self.random.below(6u64) {
            _ if self.is_plain => text,
            0 if self.features.note("typealias") => {
                let name = self.alias_name();
                self.top += &format!("typealias {text} := {name};\n");
                name
            }
            1 if self.features.note("typedef") => {
                let name = self.name();
                self.top += &format!("typedef {text} {name};\n");
                name
            }
            _ => text,
        }
    }

    /// A name, or several words as in C: each of these once.
    fn alias_name(&mut self) -> String {
        if self.c_names > 0 && self.one_in(3) && self.features.note("typealias-of-several-words") {
            self.c_names -= 1;
            return C_NAMES[self.c_names].into();
        }
        self.name()
    }

    fn int(&mut self, int: &Int, more: &str) -> String {
        let natural = if int.bits % 8 == 0 { 8 } else { 1 };
        let mut attributes = vec![format!("size = {}", self.number(int.bits.into()))];
        if int.signed || !self.one_in(2) {
            let words = if int.signed { ["true", "TRUE", "1"] } else { ["false", "FALSE", "0"] };
            attributes.push(format!("signed = {}", self.pick(words[0], &words)));
        }
        if int.align != natural || !self.one_in(2) {
            attributes.push(format!("align = {}", self.number(int.align.into())));
        }
        if int.big != self.big || !self.one_in(2) {
            attributes.push(format!("byte_order = {}", self.order(int.big)));
        }
        if int.base != 10 || !self.one_in(2) {
            let words: &[&str] = match int.base {
                2 => &["2", "b", "binary"],
                8 => &["8", "o", "oct", "octal"],
                16 => &["16", "x", "X", "hex", "hexadecimal"],
                _ => &["10", "d", "i", "u", "dec", "decimal"],
            };
            attributes.push(format!("base = {}", self.pick(words[0], words)));
        }
        if !more.is_empty() {
            attributes.push(more.into());
        }
        if let (Some(true), Some(clock)) = (int.role.map(Role::is_time), &self.clock) {
            attributes.push(format!("map = clock.{clock}.value"));
        }
        self.shuffle(&mut attributes);
        let space = self.pick(" ", &[" ", " ", "\n", " /* x */ ", "\t"]);
        format!("integer {{{space}{};{space}}}", attributes.join(&format!(";{space}")))
    }

    fn order(&mut self, big: bool) -> &'static str {
        match (big, big == self.big && self.one_in(3)) {
            (_, true) => "native",
            (true, _) => self.pick("be", &["be", "network"]),
            (false, _) => "le",
        }
    }

    fn number(&mut self, value: i128) -> String {
        match self.random.below(8u64) {
            0 if value >= 0 && !self.is_plain => format!("{value:#x}"),
            1 if value > 0 && !self.is_plain => format!("0{value:o}"),
            _ => value.to_string(),
        }
    }

    fn float(&mut self, bits: u32, big: bool, align: u64) -> String {
        let (exponent, mantissa) = match bits {
            16 => (5, 11),
            32 => (8, 24),
            _ => (11, 53),
        };
        let order = self.order(big);
        let mut attributes = vec![
            format!("exp_dig = {exponent}"),
            format!("mant_dig = {mantissa}"),
            format!("align = {align}"),
            format!("byte_order = {order}"),
        ];
        self.shuffle(&mut attributes);
        format!("floating_point {{ {}; }}", attributes.join("; "))
    }

    fn enumeration(&mut self, int: &Int, labels: &[Label]) -> String {
        let container = self.declared(|speller| speller.int(int, ""));
        let (mut list, mut next) = (Vec::new(), 0);
        for label in labels {
            for &(low, high) in &label.ranges {
                let is_word = !label.name.contains(' ') && !self.one_in(4);
                let name = if is_word { label.name.clone() } else { quoted(&label.name) };
                list.push(match (low == high, low == next && self.one_in(2)) {
                    (true, true) => name,
                    (true, false) => format!("{name} = {}", self.number(low)),
                    _ => format!("{name} = {} ... {}", self.number(low), self.number(high)),
                });
                next = high + 1;
            }
        }
        let comma = if self.one_in(3) && self.features.note("comma-behind-labels") { "," } else { "" };
        let body = format!("{{ {}{comma} }}", list.join(", "));
        if self.one_in(4) && self.features.note("named-enumeration") {
            let name = self.name();
            self.top += &format!("enum {name} : {container} {body};\n");
            return format!("enum {name}");
        }
        format!("enum : {container} {body}")
    }

    fn structure(&mut self, ty: &Type, fields: &[Field], least: u64) -> String {
        let align = if least > 1 { format!(" align({least})") } else { String::new() };
        let body = self.members(fields);
        if !ty.has_references() && self.one_in(4) && self.features.note("named-structure") {
            let name = self.name();
            self.top += &format!("struct {name} {{\n{body}}}{align};\n");
            return format!("struct {name}");
        }
        format!("struct {{\n{body}}}{align}")
    }

    fn members(&mut self, fields: &[Field]) -> String {
        let mut text = String::new();
        for field in fields {
            text += &format!("\t\t{};\n", self.ty(&field.ty, &field.name));
        }
        text
    }

    fn len(&mut self, len: &Len) -> String {
        match len {
            Len::Fixed(count) => self.number((*count).into()),
            Len::Of(reference) => self.reference(reference),
        }
    }

    fn reference(&mut self, reference: &Reference) -> String {
        let last = reference.path.last().cloned().unwrap_or_default();
        let is_near = reference.up.is_some();
        let is_far = reference.path.len() > 1;
        if is_near && is_far && !self.features.note("location-in-an-open-structure") {
            return last;
        }
        if is_near && (reference.is_inside || !self.one_in(4) || !self.features.note("reference-from-the-root")) {
            return last;
        }
        format!("{}.{}", reference.part.names().0, reference.path.join("."))
    }
}

/// A string in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out + "\""
}

/// The usual notation.
pub fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}
