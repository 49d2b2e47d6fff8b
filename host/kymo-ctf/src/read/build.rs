// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the arena of field classes, for both metadata formats: limits, and references from lengths and tags to the
//! integers that give them.

mod locate;
mod share;
mod slots;

use std::collections::HashMap;
use std::sync::Arc;

use super::class::{
    Class, ClassId, ClassKind, EventTable, Int, Len, Member, Metadata, Role, StreamClass, WriterFact, constant_bits,
};
use super::labels::Labels;
pub(super) use slots::Located;
use slots::Slots;

/// Nesting of field classes that is accepted; decoding recurses as deep.
pub(super) const DEPTH_MAX: usize = 256;

/// Steps of work for each byte of metadata, and for metadata of no bytes: what a small text may unfold into.
const STEPS_PER_BYTE: u64 = 64;
const STEPS_MIN: u64 = 1 << 20;
/// Steps that planning a member costs.
const MEMBER_STEPS: usize = 8;

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

/// What integers of heads are for.
pub(super) const TAKEN_FOR: &str = "an id, a time, a size or a count";

/// A structure that is being built.
#[derive(Default)]
struct Frame {
    members: Vec<Member>,
    /// Of its members, by name.
    classes: HashMap<Box<str>, ClassId>,
    /// The member whose class is being built: a structure above this one in `frames` lies in it.
    open: Option<Box<str>>,
}

/// The arena under construction.
pub(super) struct Builder {
    pub classes: Vec<Class>,
    /// Entries that tables of event ids may still have.
    pub table_room: usize,
    slots: Slots,
    limit: usize,
    /// How deep each class goes, itself included; by position in `classes`.
    depths: Vec<u16>,
    /// Members by name of each structure that is finished.
    names: HashMap<ClassId, HashMap<Box<str>, ClassId>>,
    /// Steps of work that are done, and that may be done.
    steps: u64,
    steps_max: u64,
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
            table_room: EventTable::DENSE_MAX,
            slots: Slots::default(),
            limit: source_bytes.saturating_mul(4).saturating_add(1 << 16),
            depths: Vec::new(),
            names: HashMap::new(),
            steps: 0,
            steps_max: (source_bytes as u64).saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_MIN),
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

    pub fn push(&mut self, align: u32, kind: ClassKind) -> Result<ClassId, String> {
        if self.classes.len() >= self.limit {
            return Err("the types unfold into too many fields for metadata of this size".into());
        }
        let depth = 1 + self.depth_below(&kind)?;
        if usize::from(depth) > DEPTH_MAX {
            return Err(format!("types are nested more than {DEPTH_MAX} deep"));
        }
        let bits = constant_bits(&self.classes, &kind);
        self.classes.push(Class { kind, align: align.max(1), bits });
        self.depths.push(depth);
        Ok((self.classes.len() - 1) as ClassId)
    }

    /// The depth of the deepest class inside of `kind`.
    fn depth_below(&mut self, kind: &ClassKind) -> Result<u16, String> {
        let depth = |class: &ClassId| self.depths[*class as usize];
        let (deepest, looked_at) = match kind {
            ClassKind::Array { element, .. } | ClassKind::Optional { element, .. } => (depth(element), 1),
            ClassKind::Struct { members } => {
                (members.iter().map(|member| depth(&member.class)).max().unwrap_or(0), members.len())
            }
            ClassKind::Variant { options, .. } => {
                (options.iter().map(|option| depth(&option.class)).max().unwrap_or(0), options.len())
            }
            _ => (0, 1),
        };
        self.charge(looked_at)?;
        Ok(deepest)
    }

    /// Counts steps of work. An error where they are too many for metadata of its size, so that none takes longer than
    /// its bytes allow.
    pub fn charge(&mut self, steps: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(steps as u64);
        match self.steps > self.steps_max {
            true => Err("the types unfold into too much work for metadata of this size".into()),
            false => Ok(()),
        }
    }

    /// Steps of work so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// An event: the common context of its stream is planned for each one.
    pub fn charge_event(&mut self, common_context: Option<ClassId>) -> Result<(), String> {
        let members = match common_context.map(|class| &self.classes[class as usize].kind) {
            Some(ClassKind::Struct { members }) => members.len(),
            _ => 0,
        };
        self.charge(1 + MEMBER_STEPS * members)
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

    /// The class of the member `raw` is made next.
    pub fn begin_member(&mut self, raw: &str) {
        if let Some(frame) = self.frames.last_mut() {
            frame.open = Some(raw.into());
        }
    }

    pub fn member(&mut self, raw: &str, name: &str, class: ClassId) -> Result<(), String> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        frame.open = None;
        if frame.classes.insert(raw.into(), class).is_some() {
            return Err(format!("the structure has two members `{raw}`"));
        }
        frame.members.push(Member { name: name.into(), raw: raw.into(), hidden: false, class });
        Ok(())
    }

    pub fn close_struct(&mut self, minimum_align: u32) -> Result<ClassId, String> {
        let Frame { mut members, classes, .. } = self.frames.pop().unwrap_or_default();
        let align = members.iter().map(|m| self.classes[m.class as usize].align).max().unwrap_or(1);
        for member in members.iter_mut().filter(|member| member.name != member.raw) {
            if is_taken(&classes, &member.name) {
                member.name = member.raw.clone();
            }
        }
        // Of several in front of one field each is seen from the field that is shown next.
        let mut shown = members.len();
        for index in (0..members.len()).rev() {
            members[index].hidden = members.get(shown).is_some_and(|user| self.only_tells(&members[index], user));
            if !members[index].hidden {
                shown = index;
            }
        }
        let class = self.push(align.max(minimum_align), ClassKind::Struct { members })?;
        self.names.insert(class, classes);
        Ok(class)
    }

    /// `_x_length` in front of `x`, by the convention of LTTng that we follow; `_x_option` in front of a variant, as
    /// our export writes it.
    fn only_tells(&self, told: &Member, user: &Member) -> bool {
        let ClassKind::Int(Int { save: Some(slot), .. }) = &self.classes[told.class as usize].kind else {
            return false;
        };
        let stem = told.name.strip_suffix("_length").or_else(|| told.name.strip_suffix("_option")).unwrap_or_default();
        told.name.starts_with('_') && stem.ends_with(&*user.name) && self.is_told(user.class, *slot)
    }

    /// Whether the integer in `slot` is a length or a tag of the class, or of what it consists of.
    fn is_told(&self, class: ClassId, slot: u32) -> bool {
        match &self.classes[class as usize].kind {
            ClassKind::Text { len, .. } | ClassKind::Bytes { len } => *len == Len::Saved(slot),
            ClassKind::Array { len, element } => *len == Len::Saved(slot) || self.is_told(*element, slot),
            ClassKind::Variant { slot: tag, options, .. } => {
                *tag == slot || options.iter().any(|option| self.is_told(option.class, slot))
            }
            ClassKind::Optional { slot: tag, element, .. } => *tag == slot || self.is_told(*element, slot),
            ClassKind::Int(_) | ClassKind::Wide(_) | ClassKind::Float { .. } | ClassKind::WideFloat { .. } => false,
            ClassKind::NulText(_) | ClassKind::Struct { .. } => false,
        }
    }

    /// The class that a reference means: a path within `origin`, or, without one, the nearest earlier member of that
    /// name, outwards through the structures being built and then back through the finished parts.
    pub fn find(&self, origin: Option<Origin>, path: &[String]) -> Result<ClassId, String> {
        let shown = || path.join(".");
        let (first, rest) = path.split_first().ok_or("an empty reference")?;
        let start = match origin {
            Some(origin) if origin == self.current => return self.find_here(path).ok_or_else(|| missing(&shown())),
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

    /// The same from the outermost structure of the part that is being built: first through those that are open.
    fn find_here(&self, path: &[String]) -> Option<ClassId> {
        let is_open = |&(frame, name): &(&Frame, &String)| frame.open.as_ref().is_some_and(|open| **open == **name);
        let most = path.len().min(self.frames.len()).checked_sub(1)?;
        let open = self.frames.iter().zip(path).take(most).take_while(is_open).count();
        let start = self.frames[open].classes.get(path[open].as_str()).copied()?;
        path[open + 1..].iter().try_fold(start, |class, name| self.child(class, name))
    }

    fn child(&self, class: ClassId, name: &str) -> Option<ClassId> {
        self.names.get(&class)?.get(name).copied()
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
            ClassKind::Int(int) => Some(int),
            _ => None,
        }
    }

    /// The labels of an integer of any width.
    pub fn labels(&self, class: ClassId) -> Option<Arc<Labels>> {
        match &self.classes[class as usize].kind {
            ClassKind::Int(int) => int.labels.clone(),
            ClassKind::Wide(wide) => wide.labels.clone(),
            _ => None,
        }
    }

    /// Members of the structure `part` that have no others inside, with their names; with `deep` also those of
    /// structures and variants inside it.
    fn leaves(&self, part: Option<ClassId>, deep: bool) -> Vec<(ClassId, Box<str>)> {
        let mut open: Vec<ClassId> = part.into_iter().collect();
        let mut leaves = Vec::new();
        while let Some(class) = open.pop() {
            let inner: Vec<(ClassId, Box<str>)> = match &self.classes[class as usize].kind {
                ClassKind::Struct { members } => members.iter().map(|m| (m.class, m.raw.clone())).collect(),
                ClassKind::Variant { options, .. } => options.iter().map(|option| (option.class, "".into())).collect(),
                _ => continue,
            };
            for (class, name) in inner {
                match &self.classes[class as usize].kind {
                    ClassKind::Struct { .. } | ClassKind::Variant { .. } if deep => open.push(class),
                    _ => leaves.push((class, name)),
                }
            }
        }
        leaves
    }

    /// Calls `visit` with each integer member of the structure `part` and its name; with `deep` also in structures and
    /// variants inside it.
    pub fn for_ints(&mut self, part: Option<ClassId>, deep: bool, mut visit: impl FnMut(&str, &mut Int)) {
        for (class, name) in self.leaves(part, deep) {
            if let ClassKind::Int(int) = &mut self.classes[class as usize].kind {
                visit(&name, int);
            }
        }
    }

    /// Whether one of the same members means this to the reader.
    pub fn has_role(&mut self, part: Option<ClassId>, deep: bool, role: Role) -> bool {
        let mut has = false;
        self.for_ints(part, deep, |_, int| has |= int.role == Some(role));
        has
    }

    /// Of the same members one that means something to the reader, and is too wide for it.
    pub fn wide_with_role(&self, part: Option<ClassId>, deep: bool, has_role: impl Fn(&str) -> bool) -> Option<String> {
        let is_wide = |class: ClassId| matches!(self.classes[class as usize].kind, ClassKind::Wide(_));
        let found = self.leaves(part, deep).into_iter().find(|(class, name)| is_wide(*class) && has_role(name));
        found.map(|(_, name)| format!("`{name}` has more than 64 bits, which the reader cannot take for {TAKEN_FOR}"))
    }

    /// Position of the member `name` of the structure `part`.
    pub fn position(&self, part: Option<ClassId>, name: &str) -> Option<usize> {
        match &self.classes[part? as usize].kind {
            ClassKind::Struct { members } => members.iter().position(|member| &*member.raw == name),
            _ => None,
        }
    }

    /// Hands the arena to `metadata`.
    pub fn finish(mut self, metadata: &mut Metadata) {
        self.unite_slots();
        metadata.slots = self.slots.count();
        metadata.classes = self.classes;
        metadata.share_contexts();
        for stream in &mut metadata.streams {
            let Some(context) = stream.common_context else { continue };
            let ClassKind::Struct { members } = &metadata.classes[context as usize].kind else { continue };
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

/// Whether a name without its `_` is nothing, or is what another member is called that has no `_` to lose, or keeps it.
fn is_taken(members: &HashMap<Box<str>, ClassId>, name: &str) -> bool {
    let mut name = name;
    while members.contains_key(name) {
        match name.strip_prefix('_') {
            Some(rest) => name = rest,
            None => return true,
        }
    }
    name.is_empty()
}

fn missing(path: &str) -> String {
    format!("`{path}` does not name a field that comes earlier")
}
