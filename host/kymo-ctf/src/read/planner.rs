// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans of a trace, worked out once from its field classes.

use super::class::{ClassId, ClassKind, Encoding, EventClass, Int, Len, Metadata, Role, StreamClass, View, WriterFact};
use super::head_word::HeadWord;
use super::plan::{DecodePlan, FieldPlace, Header, Op, OpKind, Piece, PlanPart, Stamp, WriterFactPlace};
use super::skip::Skip;

/// The plans of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    /// By stream class.
    pub headers: Vec<Header>,
    /// The same headers, where one word has them.
    pub head_words: Vec<Option<HeadWord>>,
    /// By position in [`Metadata::events`].
    pub events: Vec<DecodePlan>,
    /// The same events, for who only counts.
    pub skips: Vec<Skip>,
    /// By stream class: the event of thread records, where records are compact [spec/trace.md 4].
    pub threads: Vec<Option<usize>>,
}

impl WriterFactPlace {
    fn new(metadata: &Metadata, parts: &[PlanPart; 3], of: usize, position: usize, known: WriterFact) -> Self {
        let part = &parts[of];
        let member = part.class.and_then(|class| metadata.members(class).get(position));
        let kind = member.map(|member| &metadata.classes[member.class as usize].kind);
        let piece = match (kind, part.places.get(position)) {
            (
                Some(ClassKind::Int(Int { bits: bits @ 1.., signed, order, view: View::Number, .. })),
                Some(&FieldPlace::Packed { mark, delta_bits }),
            ) => Some((mark, Piece { delta_bits, bits: *bits, signed: *signed, order: *order })),
            _ => None,
        };
        Self { known, part: of, position, piece }
    }
}

impl Plans {
    pub fn new(metadata: &Metadata) -> Self {
        let mut plans = Self::default();
        plans.events.resize_with(metadata.events.len(), DecodePlan::default);
        let mut kept = vec![false; metadata.slots as usize];
        for class in &metadata.streams {
            if let Some(context) = class.common_context {
                note_used(metadata, context, &mut kept);
            }
        }
        for class in metadata.events.iter().flat_map(|event| [event.context, event.payload]).flatten() {
            note_used(metadata, class, &mut kept);
        }
        for stream in &metadata.streams {
            let (header, known) = header(metadata, stream, &kept);
            let thread = metadata.thread_event(stream);
            for position in stream.events.positions().map(|position| position as usize) {
                // Thread records have no contexts.
                let common = stream.common_context.filter(|_| thread != Some(position));
                let of = (&metadata.events[position], common);
                plans.events[position] = event(metadata, stream, of, known);
            }
            plans.head_words.push(HeadWord::new(&header));
            plans.headers.push(header);
            plans.threads.push(thread);
        }
        plans.skips = plans.events.iter().map(|plan| Skip::new(metadata, plan)).collect();
        plans
    }
}

/// Marks the slots that fields of `class` read.
fn note_used(metadata: &Metadata, class: ClassId, used: &mut [bool]) {
    match &metadata.classes[class as usize].kind {
        ClassKind::Text { len: Len::Saved(slot), .. } | ClassKind::Bytes { len: Len::Saved(slot) } => {
            used[*slot as usize] = true
        }
        ClassKind::Array { len, element } => {
            if let Len::Saved(slot) = len {
                used[*slot as usize] = true;
            }
            note_used(metadata, *element, used);
        }
        ClassKind::Struct { members } => members.iter().for_each(|member| note_used(metadata, member.class, used)),
        ClassKind::Variant { slot, options, .. } => {
            used[*slot as usize] = true;
            options.iter().for_each(|option| note_used(metadata, option.class, used));
        }
        ClassKind::Optional { slot, element, .. } => {
            used[*slot as usize] = true;
            note_used(metadata, *element, used);
        }
        ClassKind::Int(_) | ClassKind::Float { .. } | ClassKind::Wide(_) | ClassKind::WideFloat { .. } => {}
        ClassKind::NulText(_) | ClassKind::Text { .. } | ClassKind::Bytes { .. } => {}
    }
}

/// What is known of a place before there is a packet: its distance from a multiple of `modulus`, bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alignment {
    modulus: u64,
    residue: u64,
}

impl Alignment {
    const NOTHING: Self = Self { modulus: 1, residue: 0 };

    fn after(self, bits: u64) -> Self {
        Self { residue: self.residue.wrapping_add(bits) & (self.modulus - 1), ..self }
    }

    /// A place behind this one by some multiple of `step`.
    fn after_some(self, step: u64) -> Self {
        let modulus = if step == 0 { self.modulus } else { self.modulus.min(1 << step.trailing_zeros()) };
        Self { modulus, residue: self.residue & (modulus - 1) }
    }

    /// Bits up to the next multiple of `align`, where that is known.
    fn padding(self, align: u64) -> Option<u64> {
        (align <= self.modulus).then(|| self.residue.wrapping_neg() & (align - 1))
    }

    /// One place or the other.
    fn or(self, other: Self) -> Self {
        let apart = self.residue ^ other.residue;
        let step = if apart == 0 { u64::MAX } else { 1 << apart.trailing_zeros() };
        let modulus = self.modulus.min(other.modulus).min(step);
        Self { modulus, residue: self.residue & (modulus - 1) }
    }
}

/// A plan under construction.
struct Planner<'m> {
    metadata: &'m Metadata,
    ops: Vec<Op>,
    marks: u32,
    /// Bits behind the last mark.
    delta: u64,
    /// Of the place at `delta`.
    known: Alignment,
}

fn event(
    metadata: &Metadata,
    stream: &StreamClass,
    (event, common): (&EventClass, Option<ClassId>),
    known: Alignment,
) -> DecodePlan {
    let mut planner = Planner { metadata, ops: Vec::new(), marks: 1, delta: 0, known };
    let parts = [common, event.context, event.payload].map(|class| planner.part(class));
    let facts = |class: Option<ClassId>, by_name: fn(&str) -> Option<WriterFact>| {
        let members = class.map_or(&[][..], |class| metadata.members(class));
        let facts =
            members.iter().enumerate().filter_map(move |(position, member)| Some((position, by_name(&member.name)?)));
        facts.collect::<Vec<_>>()
    };
    let of_payload = facts(event.payload, WriterFact::by_name_of_perf);
    let of_context = facts(event.context, WriterFact::by_name);
    let known = [(2, &of_payload), (1, &of_context), (0, &stream.known)];
    let known =
        known.into_iter().flat_map(|(part, facts)| facts.iter().map(move |&(position, known)| (part, position, known)));
    let known = known.map(|(part, position, known)| WriterFactPlace::new(metadata, &parts, part, position, known));
    let known = known.collect();
    DecodePlan { known, ops: planner.ops, tail_bits: planner.delta, parts }
}

impl Planner<'_> {
    fn part(&mut self, part: Option<ClassId>) -> PlanPart {
        let mut places = Vec::new();
        if let Some(id) = part {
            let metadata = self.metadata;
            let class = &metadata.classes[id as usize];
            self.align(class.align);
            if let ClassKind::Struct { members } = &class.kind {
                places.extend(members.iter().map(|member| self.field(member.class)));
            }
        }
        PlanPart { class: part, places }
    }

    fn align(&mut self, bits: u32) {
        match self.known.padding(u64::from(bits)) {
            Some(padding) => self.advance(padding),
            None => {
                self.mark(OpKind::Align(bits), Alignment { modulus: u64::from(bits), residue: 0 });
            }
        }
    }

    fn advance(&mut self, bits: u64) {
        self.delta += bits;
        self.known = self.known.after(bits);
    }

    /// An operation that leaves a mark; distances count from there on.
    fn mark(&mut self, kind: OpKind, known: Alignment) -> FieldPlace {
        self.ops.push(Op { delta_bits: self.delta, kind });
        (self.delta, self.known) = (0, known);
        self.marks += 1;
        FieldPlace::Marked(self.marks - 1)
    }

    fn field(&mut self, id: ClassId) -> FieldPlace {
        let class = &self.metadata.classes[id as usize];
        self.align(class.align);
        if let (Some(bits), Ok(delta_bits)) = (class.bits, u32::try_from(self.delta)) {
            self.keep(id, self.delta);
            self.advance(u64::from(bits));
            return FieldPlace::Packed { mark: self.marks - 1, delta_bits };
        }
        let bytes = self.known.after_some(8);
        match &class.kind {
            ClassKind::NulText(_) => self.mark(OpKind::NulText(id), bytes),
            // Of wider units the tape has to see where it ends.
            ClassKind::Text { len: Len::Saved(slot), encoding: Encoding::Utf8 }
            | ClassKind::Bytes { len: Len::Saved(slot) } => {
                self.mark(OpKind::Counted { slot: *slot, stride_bits: 8, element_bits: 8 }, bytes)
            }
            ClassKind::Array { len: Len::Saved(slot), element } => match self.constant_element(*element) {
                Some((stride_bits, element_bits)) => {
                    let known = self.known.after_some(stride_bits).after_some(element_bits);
                    self.mark(OpKind::Counted { slot: *slot, stride_bits, element_bits }, known)
                }
                None => self.mark(OpKind::Nested(id), Alignment::NOTHING),
            },
            ClassKind::Int(Int { bits: 0, .. }) => self.mark(OpKind::Variable(id), bytes),
            _ => self.mark(OpKind::Nested(id), Alignment::NOTHING),
        }
    }

    /// Stride and size of elements that need not be looked at.
    fn constant_element(&self, element: ClassId) -> Option<(u64, u64)> {
        let class = &self.metadata.classes[element as usize];
        let bits = u64::from(class.bits.filter(|&bits| bits > 0)?);
        class.stride_bits().map(|stride| (stride, bits))
    }

    /// Keeps the integers within the constant class `id` that lengths and tags refer to.
    fn keep(&mut self, id: ClassId, delta: u64) {
        let metadata = self.metadata;
        match &metadata.classes[id as usize].kind {
            ClassKind::Int(Int { save: Some(slot), bits, signed, order, .. }) => {
                let int = Piece { delta_bits: 0, bits: *bits, signed: *signed, order: *order };
                self.ops.push(Op { delta_bits: delta, kind: OpKind::Keep { slot: *slot, int } });
            }
            ClassKind::Struct { members } => {
                let mut at = delta;
                for member in members {
                    let class = &metadata.classes[member.class as usize];
                    // The structure begins at a multiple of its alignment, which is the largest in it.
                    at = delta + (at - delta).next_multiple_of(u64::from(class.align));
                    self.keep(member.class, at);
                    at += u64::from(class.bits.unwrap_or(0));
                }
            }
            _ => {}
        }
    }
}

/// The plan of an event header, and what is known of the place behind it.
fn header(metadata: &Metadata, stream: &StreamClass, kept: &[bool]) -> (Header, Alignment) {
    let nothing = Stamp { align: 1, id: None, time: None, bits: 0 };
    let Some(id) = stream.event_header else { return (Header::Fixed(nothing), Alignment::NOTHING) };
    planned_header(metadata, id, kept).unwrap_or((Header::Any(id), Alignment::NOTHING))
}

fn planned_header(metadata: &Metadata, id: ClassId, kept: &[bool]) -> Option<(Header, Alignment)> {
    let class = &metadata.classes[id as usize];
    let ClassKind::Struct { members } = &class.kind else { return None };
    let start = Alignment { modulus: u64::from(class.align), residue: 0 };
    let mut stamp = Stamp { align: class.align, id: None, time: None, bits: 0 };
    for (position, member) in members.iter().enumerate() {
        if let ClassKind::Variant { slot, options, .. } = &metadata.classes[member.class as usize].kind {
            let tag = stamp.tag(metadata, id, *slot)?;
            let is_last = position + 1 == members.len();
            let mut planned = Vec::new();
            let mut known: Option<Alignment> = None;
            for option in options {
                let mut stamp = stamp;
                stamp.add(metadata, option.class, start, kept)?;
                let end = start.after(u64::from(stamp.bits));
                known = Some(known.map_or(end, |known| known.or(end)));
                planned.push((option.ranges.clone(), stamp));
            }
            let header = Header::Tagged { align: class.align, tag, options: planned };
            return known.filter(|_| is_last).map(|known| (header, known));
        }
        stamp.add(metadata, member.class, start, kept)?;
    }
    Some((Header::Fixed(stamp), start.after(u64::from(stamp.bits))))
}

impl Stamp {
    /// Adds a constant field behind those that are there. `None` where a plan cannot.
    fn add(&mut self, metadata: &Metadata, id: ClassId, start: Alignment, kept: &[bool]) -> Option<()> {
        let class = &metadata.classes[id as usize];
        self.bits = self.bits.checked_add(start.after(u64::from(self.bits)).padding(u64::from(class.align))? as u32)?;
        match &class.kind {
            ClassKind::Struct { members } => {
                class.bits?;
                for member in members {
                    self.add(metadata, member.class, start, kept)?;
                }
                return Some(());
            }
            ClassKind::Int(int) => {
                if int.bits == 0 || int.save.is_some_and(|slot| kept[slot as usize]) {
                    return None;
                }
                let piece = Piece { delta_bits: self.bits, bits: int.bits, signed: int.signed, order: int.order };
                match int.role {
                    Some(Role::EventId) => self.id = Some(piece),
                    Some(Role::Time) => self.time = Some(piece),
                    _ => {}
                }
            }
            _ => {}
        }
        self.bits = self.bits.checked_add(class.bits?)?;
        Some(())
    }

    /// The integer of the header `id` that leaves its value in `slot`: a member in front of the variant.
    fn tag(&self, metadata: &Metadata, id: ClassId, slot: u32) -> Option<Piece> {
        let ClassKind::Struct { members } = &metadata.classes[id as usize].kind else { return None };
        let mut at = 0u64;
        for member in members {
            let class = &metadata.classes[member.class as usize];
            at = at.next_multiple_of(u64::from(class.align));
            if let ClassKind::Int(Int { save: Some(saved), bits, signed, order, .. }) = &class.kind {
                if *saved == slot && *bits > 0 {
                    let delta_bits = u32::try_from(at).ok()?;
                    return Some(Piece { delta_bits, bits: *bits, signed: *signed, order: *order });
                }
            }
            at += u64::from(class.bits?);
        }
        None
    }
}
