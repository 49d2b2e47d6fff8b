// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random types. Lengths, tags and selectors are put in front of what depends on them, or are fields that are there
//! already: of the same structure, of one around it, or of an earlier part.

use kymo_testing::Random;

use super::features::Features;
use super::types::{Choice, Encoding, Field, Int, Label, Len, Part, Reference, Type, Wish};

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CTF 1.8, as text.
    Tsdl,
    /// CTF 2.
    Json,
}

/// A structure that is being made.
struct Frame {
    path: Vec<String>,
    /// An array, a variant or an optional is between this structure and the one around it.
    is_across: bool,
    /// Lengths: name and number.
    lengths: Vec<(String, usize)>,
}

/// Makes the types of one trace.
pub struct Maker {
    pub random: Random,
    pub features: Features,
    pub format: Format,
    /// The trace's byte order.
    pub big: bool,
    part: Part,
    frames: Vec<Frame>,
    /// Lengths in parts that come earlier.
    earlier: Vec<(Part, Vec<String>, usize)>,
    names: u64,
    targets: usize,
    /// Variants and optionals that are being made.
    open_options: usize,
}

impl Maker {
    pub fn new(random: Random, features: Features, format: Format) -> Self {
        let (frames, earlier) = (Vec::new(), Vec::new());
        let mut maker = Self {
            random,
            features,
            format,
            big: false,
            part: Part::Payload,
            frames,
            earlier,
            names: 0,
            targets: 0,
            open_options: 0,
        };
        maker.big = maker.random.below(2u64) == 1;
        maker
    }

    pub fn feature(&mut self, name: &'static str, one_in: u64) -> bool {
        self.features.take(&mut self.random, name, one_in)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    /// A name that nothing else has.
    pub fn name(&mut self, stem: &str) -> String {
        self.names += 1;
        let number = self.names;
        if self.feature("name-behind-underscore", 25) { format!("_{stem}{number}") } else { format!("{stem}{number}") }
    }

    /// Lengths of `part` and of what follows it belong to another stream or event.
    pub fn forget_from(&mut self, part: Part) {
        self.earlier.retain(|(earlier, ..)| *earlier < part);
    }

    /// A part: a structure that may refer to the parts in front of it.
    pub fn part(&mut self, part: Part, depth: u32) -> Type {
        self.part = part;
        self.frames.clear();
        self.structure(depth, Vec::new(), false)
    }

    fn structure(&mut self, depth: u32, path: Vec<String>, is_across: bool) -> Type {
        self.frames.push(Frame { path, is_across, lengths: Vec::new() });
        let mut fields = Vec::new();
        let least = if self.frames.len() > 1 && self.feature("empty-structure", 30) { 0 } else { 1 };
        for _ in 0..least * (1 + self.random.below(4u64)) {
            self.field(depth, &mut fields);
        }
        let frame = self.frames.pop().expect("the one pushed above");
        let is_plain = !frame.is_across && self.frames.iter().all(|frame| !frame.is_across);
        if is_plain {
            let path = |name: String| frame.path.iter().cloned().chain([name]).collect();
            self.earlier.extend(frame.lengths.into_iter().map(|(name, id)| (self.part, path(name), id)));
        }
        Type::Struct(fields, self.random.pick(&[1, 1, 1, 1, 8, 16, 32, 64]))
    }

    fn field(&mut self, depth: u32, fields: &mut Vec<Field>) {
        let name = self.name("f");
        let ty = match self.random.below(if depth == 0 { 8u64 } else { 14 }) {
            0..=2 => self.number(),
            3 => self.enumeration(),
            4 => self.float(),
            5 => self.text(),
            6 => self.chars(fields),
            7 => self.leaf_of_ctf2(fields),
            8 | 9 => self.list(depth, &name, fields),
            10 | 11 => {
                let path = self.inner_path(&name);
                self.structure(depth - 1, path, false)
            }
            12 => self.variant(depth, &name, fields),
            _ if self.format == Format::Json => self.optional(depth, &name, fields),
            _ => self.variant(depth, &name, fields),
        };
        fields.push(Field { name, ty, target: None });
    }

    fn inner_path(&self, name: &str) -> Vec<String> {
        let outer = self.frames.last().map(|frame| frame.path.clone()).unwrap_or_default();
        outer.into_iter().chain([name.to_owned()]).collect()
    }

    fn number(&mut self) -> Type {
        if self.format == Format::Json && self.feature("leb128", 6) {
            return Type::Leb { signed: self.one_in(2), role: None };
        }
        Type::Int(self.int())
    }

    fn int(&mut self) -> Int {
        let mut bits = self.random.pick(&[1, 3, 5, 7, 8, 8, 12, 16, 16, 17, 24, 31, 32, 32, 33, 48, 63, 64, 64]);
        if self.feature("integer-wider-than-64", 8) {
            bits = self.random.pick(&[65, 72, 96, 100, 120]);
        }
        if !matches!(bits, 8 | 16 | 32 | 64) && !self.features.note("integer-of-odd-size") {
            bits = 32;
        }
        let align = self.random.pick(&[1, 1, 1, 8, 8, 16, 32, 64]);
        // Within a byte there is one order only.
        let is_bytes = bits % 8 == 0 && align >= 8;
        let big = self.big ^ (is_bytes && self.feature("other-byte-order", 4));
        let flipped = is_bytes && self.format == Format::Json && self.feature("bit-order", 6);
        let signed = self.one_in(2);
        let base = match self.random.below(8u64) {
            0 if self.features.note("base-16") => 16,
            1 if self.features.note("base-8") => 8,
            2 if self.features.note("base-2") => 2,
            _ => 10,
        };
        let is_shown = !(base == 16 && bits == 63) || self.features.note("base-16-of-63-bits");
        Int { bits, signed, big, flipped, align, base: if is_shown { base } else { 10 }, role: None }
    }

    fn enumeration(&mut self) -> Type {
        let int = Int { base: 10, ..self.int() };
        let int = if int.bits > 64 { Int::plain(32, 8, self.big) } else { int };
        let labels = self.labels(&int);
        Type::Enum(int, labels)
    }

    /// Labels with ranges of one value or more, in no order, apart from each other or not, some of them twice.
    fn labels(&mut self, int: &Int) -> Vec<Label> {
        let (least, most) = int.limits();
        let overlap = self.feature("overlapping-labels", 4);
        let mut next = if self.one_in(2) { least } else { least.max(-3).min(most) };
        let mut labels: Vec<Label> = Vec::new();
        for _ in 0..1 + self.random.below(4u64) {
            let low = if overlap { next } else { (next + i128::from(self.random.below(2u64))).min(most) };
            let high = low.saturating_add(self.random.pick(&[0, 0, 1, 5, 200])).min(most);
            let low = if overlap && low > least { low - 1 } else { low };
            let ranges = vec![(low, high)];
            let name = self.label();
            let is_same = self.feature("label-of-two-ranges", 6);
            match labels.last_mut().filter(|_| is_same) {
                Some(last) => last.ranges.extend(ranges),
                None => labels.push(Label { name, ranges }),
            }
            if high >= most {
                break;
            }
            next = high + 1;
        }
        labels
    }

    fn label(&mut self) -> String {
        self.names += 1;
        let number = self.names;
        match self.random.below(6u64) {
            0 if self.features.note("label-of-two-words") => format!("L {number}"),
            _ => format!("L{number}"),
        }
    }

    fn float(&mut self) -> Type {
        let bits = if self.feature("float-16", 6) { 16 } else { self.random.pick(&[32, 64]) };
        let align = if self.feature("float-at-any-bit", 8) { 1 } else { self.random.pick(&[8, 8, 32, 64]) };
        let big = self.big ^ (align >= 8 && self.feature("other-byte-order", 6));
        Type::Float { bits, big, align }
    }

    fn encoding(&mut self) -> Encoding {
        let big = self.one_in(2);
        if self.format == Format::Json && self.feature("utf-16", 5) {
            return Encoding::Utf16 { big };
        }
        if self.format == Format::Json && self.feature("utf-32", 6) {
            return Encoding::Utf32 { big };
        }
        Encoding::Utf8
    }

    fn text(&mut self) -> Type {
        Type::Text(self.encoding())
    }

    fn chars(&mut self, fields: &mut Vec<Field>) -> Type {
        let encoding = self.encoding();
        let unit = match encoding {
            Encoding::Utf8 => 1,
            Encoding::Utf16 { .. } => 2,
            Encoding::Utf32 { .. } => 4,
        };
        let len = match self.random.below(3u64) {
            0 => Len::Fixed(unit * (1 + self.random.below(8u64))),
            _ if unit == 1 => self.length(fields),
            _ if !self.has_tags() => Len::Fixed(4),
            _ => {
                let counts = (0..4).map(|count| i128::from(count * unit)).map(|count| (count, count)).collect();
                Len::Of(self.target(Int::plain(8, 8, self.big), Wish::Among(counts), fields))
            }
        };
        Type::Chars(len, encoding)
    }

    fn leaf_of_ctf2(&mut self, fields: &mut Vec<Field>) -> Type {
        if self.format == Format::Tsdl {
            return self.enumeration();
        }
        let int = Int { signed: false, base: 10, ..self.int() };
        match self.random.below(4u64) {
            0 if self.features.note("boolean") => Type::Bool(int),
            1 if self.features.note("bit-array") => Type::Bits(int),
            2 if int.bits <= 64 && self.features.note("bit-map") => {
                let flags = (0..1 + self.random.below(3u64)).map(|_| {
                    let low = self.random.below(u64::from(int.bits));
                    let high = (low + self.random.below(3u64)).min(u64::from(int.bits) - 1);
                    Label { name: self.label(), ranges: vec![(low.into(), high.into())] }
                });
                let flags = flags.collect();
                Type::BitMap(int, flags)
            }
            _ if self.features.note("blob") => match self.one_in(2) {
                true => {
                    let least = if self.feature("blob-of-none", 6) { 0 } else { 1 };
                    Type::Blob(Len::Fixed(least * (1 + self.random.below(4u64))))
                }
                false => Type::Blob(self.length(fields)),
            },
            _ => Type::Int(int),
        }
    }

    fn list(&mut self, depth: u32, name: &str, fields: &mut Vec<Field>) -> Type {
        let len = match self.random.below(2u64) {
            0 if self.feature("array-of-none", 8) => Len::Fixed(0),
            0 => Len::Fixed(1 + self.random.below(3u64)),
            _ => self.length(fields),
        };
        let path = self.inner_path(name);
        let element = match self.random.below(4u64) {
            0 => self.structure(depth - 1, path, true),
            1 if depth > 1 && self.features.note("array-of-arrays") => {
                let inner = Type::Int(self.int());
                Type::List { element: inner.into(), len: Len::Fixed(1 + self.random.below(3u64)), align: 1 }
            }
            2 if self.features.note("array-of-text") => Type::Text(Encoding::Utf8),
            3 if self.features.note("array-of-enumerations") => self.enumeration(),
            _ => Type::Int(self.int()),
        };
        let aligned = self.format == Format::Json && self.feature("alignment-of-an-array", 6);
        Type::List { element: element.into(), len, align: if aligned { 32 } else { 1 } }
    }

    fn variant(&mut self, depth: u32, name: &str, fields: &mut Vec<Field>) -> Type {
        let int = Int { base: 10, flipped: false, ..self.int() };
        let int = if int.bits < 5 || int.bits > 64 { Int::plain(8, 8, self.big) } else { int };
        if !self.has_tags() {
            return Type::Int(int);
        }
        let (least, _) = int.limits();
        let mut next = if self.one_in(3) { least } else { 0 };
        let mut labels = Vec::new();
        for _ in 0..2 + self.random.below(2u64) {
            let high = next + i128::from(self.random.below(2u64));
            self.names += 1;
            labels.push(Label { name: format!("O{}", self.names), ranges: vec![(next, high)] });
            next = high + 1;
        }
        let skipped = self.feature("label-without-option", 6);
        let chosen = &labels[usize::from(skipped)..];
        let wish = Wish::Among(chosen.iter().flat_map(|label| label.ranges.clone()).collect());
        let named: Vec<Label> = chosen.to_vec();
        let tag = self.tag(Type::Enum(int, labels), wish, fields);
        let path = self.inner_path(name);
        self.open_options += 1;
        let options = named.into_iter().map(|label| {
            let inner = path.iter().cloned().chain([label.name.clone()]).collect();
            let ty = match self.random.below(3u64) {
                0 => self.structure(depth - 1, inner, true),
                1 => self.text(),
                _ => Type::Int(self.int()),
            };
            Choice { name: label.name, ranges: label.ranges, ty }
        });
        let options = options.collect();
        self.open_options -= 1;
        Type::Variant { tag, options }
    }

    fn optional(&mut self, depth: u32, name: &str, fields: &mut Vec<Field>) -> Type {
        if !self.has_tags() || !self.features.note("optional") {
            return Type::Int(self.int());
        }
        let (ty, ranges, wish) = match self.random.below(3u64) {
            0 => {
                let int = Int::plain(8, 8, self.big);
                (Type::Bool(int), None, Wish::Among(vec![(0, 1)]))
            }
            1 => {
                let int = Int { signed: true, ..Int::plain(8, 8, self.big) };
                (Type::Int(int), Some(vec![(-2, 0), (7, 9)]), Wish::Among(vec![(-3, 1), (6, 10)]))
            }
            _ => (Type::Int(Int::plain(3, 1, self.big)), Some(vec![(1, 5)]), Wish::Among(vec![(0, 7)])),
        };
        let selector = self.tag(ty, wish, fields);
        let path = self.inner_path(name);
        self.open_options += 1;
        let inner = if self.one_in(3) { self.structure(depth - 1, path, true) } else { self.text() };
        self.open_options -= 1;
        Type::Optional { selector, ranges, inner: inner.into() }
    }

    fn tag(&mut self, ty: Type, wish: Wish, fields: &mut Vec<Field>) -> Reference {
        self.targets += 1;
        let (id, name) = (self.targets, self.name("tag"));
        let path = self.inner_path(&name);
        fields.push(Field { name, ty, target: Some((id, wish)) });
        let is_inside = self.frames.iter().any(|frame| frame.is_across);
        Reference { id, part: self.part, path, up: Some(0), is_inside, is_across: false }
    }

    fn target(&mut self, int: Int, wish: Wish, fields: &mut Vec<Field>) -> Reference {
        self.tag(Type::Int(int), wish, fields)
    }

    /// Whether fields may depend on others in this part.
    fn has_tags(&mut self) -> bool {
        (self.part != Part::SpecificContext || self.features.note("tag-in-a-specific-context"))
            && (self.open_options == 0 || self.features.note("tag-inside-of-an-option"))
    }

    /// A length that is there already, or a new one in front of the field.
    fn length(&mut self, fields: &mut Vec<Field>) -> Len {
        if !self.has_tags() {
            return Len::Fixed(2);
        }
        if self.one_in(3) {
            if let Some(reference) = self.known_length() {
                return Len::Of(reference);
            }
        }
        let bits = self.random.pick(&[3, 8, 8, 16, 32, 64]);
        let align = if bits % 8 == 0 && self.one_in(4) { 8 } else { 1 };
        let reference = self.target(Int::plain(bits, align, self.big), Wish::Length, fields);
        let name = reference.path.last().cloned().unwrap_or_default();
        if let Some(frame) = self.frames.last_mut() {
            frame.lengths.push((name, reference.id));
        }
        Len::Of(reference)
    }

    fn known_length(&mut self) -> Option<Reference> {
        let mut found = Vec::new();
        let last = self.frames.len() - 1;
        for (depth, frame) in self.frames.iter().enumerate() {
            let is_inside = self.frames[..=depth].iter().any(|frame| frame.is_across);
            let is_across = self.frames[depth + 1..].iter().any(|frame| frame.is_across);
            for (name, id) in &frame.lengths {
                let path = frame.path.iter().cloned().chain([name.clone()]).collect();
                let up = Some(last - depth);
                found.push(Reference { id: *id, part: self.part, path, up, is_inside, is_across });
            }
        }
        for (part, path, id) in self.earlier.iter().filter(|(part, ..)| *part < self.part) {
            let is_across = self.frames.iter().any(|frame| frame.is_across);
            found.push(Reference { id: *id, part: *part, path: path.clone(), up: None, is_inside: false, is_across });
        }
        if found.is_empty() {
            return None;
        }
        let chosen = found.swap_remove(self.random.below(found.len()));
        let feature = match chosen.up {
            None => "length-in-an-earlier-part",
            Some(0) => "length-used-twice",
            Some(_) if chosen.is_across => "length-outside-of-an-array",
            Some(_) => "length-in-an-outer-structure",
        };
        // In CTF 2 what is of another structure is named from the part's root, and what lies in an array cannot be.
        let is_outer = self.format == Format::Json && chosen.up.is_some_and(|up| up > 0);
        let is_nameable = match (chosen.is_inside, chosen.path.len() > 1) {
            _ if !is_outer => true,
            (true, _) => self.features.note("location-with-null"),
            (false, true) => self.features.note("location-in-an-open-structure"),
            (false, false) => true,
        };
        (is_nameable && self.features.note(feature)).then_some(chosen)
    }
}
