// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the arena of field classes, for both metadata formats: limits, and references from lengths and tags to the
//! integers that give them.

use std::collections::HashMap;

use super::class::{Class, ClassId, Int, Kind, Len, Member, Metadata, StreamClass, WriterFact, constant_bits};

/// Nesting of field classes that is accepted; decoding recurses as deep.
pub(super) const DEPTH_MAX: usize = 256;

/// The parts of a packet in the order of decoding; a reference may name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    PacketHeader,
    PacketContext,
    EventHeader,
    CommonContext,
    SpecificContext,
    Payload,
}

/// A structure that is being built.
#[derive(Default)]
struct Frame {
    members: Vec<Member>,
    /// Of its members, by name.
    classes: HashMap<Box<str>, ClassId>,
}

/// The arena under construction.
pub(super) struct Builder {
    pub classes: Vec<Class>,
    pub slots: u32,
    limit: usize,
    /// Members so far of each structure that is being built, outermost first.
    frames: Vec<Frame>,
    /// Finished parts that come before the one being built.
    roots: [Option<ClassId>; 6],
    current: Origin,
    depth: usize,
}

impl Builder {
    /// `source_bytes` is the size of the metadata: small metadata that unfolds into a huge arena is refused.
    pub fn new(source_bytes: usize) -> Self {
        Self {
            classes: Vec::new(),
            slots: 0,
            limit: source_bytes.saturating_mul(4).saturating_add(1 << 16),
            frames: Vec::new(),
            roots: [None; 6],
            current: Origin::PacketHeader,
            depth: 0,
        }
    }

    /// Starts a part: what is referred to must lie in it, or in `roots`.
    pub fn begin(&mut self, current: Origin, roots: [Option<ClassId>; 6]) {
        self.frames.clear();
        self.depth = 0;
        self.current = current;
        self.roots = roots;
    }

    pub fn push(&mut self, align: u32, kind: Kind) -> Result<ClassId, String> {
        if self.classes.len() >= self.limit {
            return Err("the types unfold into too many fields for metadata of this size".into());
        }
        let bits = constant_bits(&self.classes, &kind);
        self.classes.push(Class { kind, align: align.max(1), bits });
        Ok((self.classes.len() - 1) as ClassId)
    }

    /// Enters one level of nesting; [`Builder::leave`] must follow.
    pub fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(format!("types are nested more than {DEPTH_MAX} deep")) } else { Ok(()) }
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    pub fn open_struct(&mut self) {
        self.frames.push(Frame::default());
    }

    pub fn member(&mut self, raw: &str, name: &str, class: ClassId) -> Result<(), String> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        if frame.classes.insert(raw.into(), class).is_some() {
            return Err(format!("the structure has two members `{raw}`"));
        }
        frame.members.push(Member { name: name.into(), raw: raw.into(), hidden: false, class });
        Ok(())
    }

    pub fn close_struct(&mut self, minimum_align: u32) -> Result<ClassId, String> {
        let mut members = self.frames.pop().unwrap_or_default().members;
        let align = members.iter().map(|m| self.classes[m.class as usize].align).max().unwrap_or(1);
        for index in 1..members.len() {
            members[index - 1].hidden = self.only_a_length(&members[index - 1], &members[index]);
        }
        self.push(align.max(minimum_align), Kind::Struct { members })
    }

    /// `_x_length` in front of `x`, by the convention of LTTng that we follow.
    fn only_a_length(&self, length: &Member, user: &Member) -> bool {
        let Kind::Int(Int { save: Some(slot), .. }) = &self.classes[length.class as usize].kind else { return false };
        let (Kind::Text { len, .. } | Kind::Bytes { len } | Kind::Array { len, .. }) =
            &self.classes[user.class as usize].kind
        else {
            return false;
        };
        let stem = length.name.strip_suffix("_length").unwrap_or_default();
        *len == Len::Saved(*slot) && length.name.starts_with('_') && stem.ends_with(&*user.name)
    }

    /// The class that a reference means: a path within `origin`, or, without one, the nearest earlier member of that
    /// name, outwards through the structures being built and then back through the finished parts.
    pub fn find(&self, origin: Option<Origin>, path: &[String]) -> Result<ClassId, String> {
        let shown = || path.join(".");
        let (first, rest) = path.split_first().ok_or("an empty reference")?;
        let start = match origin {
            Some(origin) if origin == self.current => self
                .frames
                .first()
                .and_then(|frame| frame.classes.get(first.as_str()).copied())
                .ok_or_else(|| missing(&shown()))?,
            Some(origin) => {
                let root = self.roots[origin as usize].ok_or_else(|| missing(&shown()))?;
                self.child(root, first).ok_or_else(|| missing(&shown()))?
            }
            None => {
                let inner = self.frames.iter().rev().find_map(|frame| frame.classes.get(first.as_str()).copied());
                let outer =
                    || self.roots[..self.current as usize].iter().rev().flatten().find_map(|&r| self.child(r, first));
                inner.or_else(outer).ok_or_else(|| missing(&shown()))?
            }
        };
        rest.iter().try_fold(start, |class, name| self.child(class, name)).ok_or_else(|| missing(&shown()))
    }

    fn child(&self, class: ClassId, name: &str) -> Option<ClassId> {
        match &self.classes[class as usize].kind {
            Kind::Struct { members } => find_member(members, name),
            _ => None,
        }
    }

    /// The slot in which the integer `class` leaves its value.
    pub fn slot(&mut self, class: ClassId, path: &[String]) -> Result<u32, String> {
        let slots = self.slots;
        let Kind::Int(int) = &mut self.classes[class as usize].kind else {
            return Err(format!("`{}` is not an integer", path.join(".")));
        };
        let slot = *int.save.get_or_insert(slots);
        self.slots = slots.max(slot + 1);
        Ok(slot)
    }

    /// The same for one that is a length.
    pub fn length(&mut self, class: ClassId, path: &[String]) -> Result<u32, String> {
        if self.is_signed(class) {
            return Err(format!("`{}` has a sign, and a length must not", path.join(".")));
        }
        self.slot(class, path)
    }

    /// Whether it is an integer with a sign.
    pub fn is_signed(&self, class: ClassId) -> bool {
        self.int(class).is_some_and(|int| int.signed)
    }

    pub fn int(&self, class: ClassId) -> Option<&Int> {
        match &self.classes[class as usize].kind {
            Kind::Int(int) => Some(int),
            _ => None,
        }
    }

    /// Calls `visit` with each integer member of the structure `part` and its name; with `deep` also in structures and
    /// variants inside it.
    pub fn for_ints(&mut self, part: Option<ClassId>, deep: bool, mut visit: impl FnMut(&str, &mut Int)) {
        let mut open: Vec<ClassId> = part.into_iter().collect();
        while let Some(class) = open.pop() {
            let inner: Vec<(ClassId, Box<str>)> = match &self.classes[class as usize].kind {
                Kind::Struct { members } => members.iter().map(|m| (m.class, m.raw.clone())).collect(),
                Kind::Variant { options, .. } => options.iter().map(|option| (option.class, "".into())).collect(),
                _ => continue,
            };
            for (class, name) in inner {
                match &mut self.classes[class as usize].kind {
                    Kind::Int(int) => visit(&name, int),
                    _ if deep => open.push(class),
                    _ => {}
                }
            }
        }
    }

    /// Position of the member `name` of the structure `part`.
    pub fn position(&self, part: Option<ClassId>, name: &str) -> Option<usize> {
        match &self.classes[part? as usize].kind {
            Kind::Struct { members } => members.iter().position(|member| &*member.raw == name),
            _ => None,
        }
    }

    /// Hands the arena to `metadata`.
    pub fn finish(self, metadata: &mut Metadata) {
        metadata.classes = self.classes;
        metadata.slots = self.slots;
        for stream in &mut metadata.streams {
            let Some(context) = stream.common_context else { continue };
            let Kind::Struct { members } = &metadata.classes[context as usize].kind else { continue };
            let known =
                members.iter().enumerate().filter_map(|(i, member)| Some((i, WriterFact::by_name(&member.name)?)));
            stream.known = known.collect();
            // `vtid` after `tid`, so that the id that the program sees is the one that stays.
            stream.known.sort_by_key(|&(i, _)| members[i].name.starts_with('v'));
        }
        if metadata.clocks.is_empty() {
            metadata.clocks.push(super::clock::Clock::default());
        }
        if metadata.streams.is_empty() {
            metadata.streams.push(StreamClass::default());
        }
    }
}

fn find_member(members: &[Member], name: &str) -> Option<ClassId> {
    members.iter().rev().find(|member| &*member.raw == name).map(|member| member.class)
}

fn missing(path: &str) -> String {
    format!("`{path}` does not name a field that comes earlier")
}
