//! Plans: how the bytes of each event class are passed over and its fields found, worked out once from the field classes
//! [spec/read.md 3].
//!
//! A field is constant where all its values have the same size. Constant fields cost nothing until somebody asks for them: their
//! place is a distance from the last field that is not constant. So an event of constant fields is passed by one addition.
//! What is left are the operations of a plan: lengths and tags that are kept, text that ends somewhere, arrays that count, and
//! whatever is nested deeper, which goes to the tape.

use super::bits::{Cursor, Stop, extended, extract, nul_text};
use super::class::{
    self, ClassId, EventClass, Int, Kind, Len, Metadata, Order, Ranges, Role, StreamClass, View, within,
};
use super::skip::Skip;
use super::tape::Decoder;

/// Where a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Constant: so many bits behind the end of a mark.
    Packed { mark: u32, delta_bits: u32 },
    /// What a mark says.
    Marked(u32),
}

/// What passing over one field that is not constant has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// Text, bytes and arrays: the first bit, from the packet's first. An integer: its value. Nested fields: the node.
    pub at: u64,
    /// Text and bytes: bytes. Arrays: elements.
    pub len: u64,
    /// The bit behind the field.
    pub end: u64,
}

/// How to pass over the fields of one event class, or of a head.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(super) ops: Vec<Op>,
    /// Bits behind the last mark.
    pub(super) tail_bits: u64,
    /// Common context, specific context, payload.
    pub parts: [Part; 3],
    /// What the common context says of where a record was written, in the order of its members.
    pub known: Vec<KnownPlace>,
}

/// Where one of those lies.
#[derive(Debug)]
pub(crate) struct KnownPlace {
    pub known: class::Known,
    /// In the common context.
    pub position: usize,
    /// Of a plain integer: behind the end of which mark.
    pub piece: Option<(u32, Piece)>,
}

impl KnownPlace {
    fn new(metadata: &Metadata, part: &Part, position: usize, known: class::Known) -> Self {
        let member = part.class.and_then(|class| metadata.members(class).get(position));
        let kind = member.map(|member| &metadata.classes[member.class as usize].kind);
        let piece = match (kind, part.places.get(position)) {
            (
                Some(Kind::Int(Int { bits: bits @ 1.., signed, order, view: View::Number, .. })),
                Some(&Place::Packed { mark, delta_bits }),
            ) => Some((mark, Piece { delta_bits, bits: *bits, signed: *signed, order: *order })),
            _ => None,
        };
        Self { known, position, piece }
    }
}

/// One structure of a record.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub class: Option<ClassId>,
    /// Of each member.
    pub places: Vec<Place>,
}

#[derive(Clone, Debug)]
pub(super) struct Op {
    /// Bits behind the end of the last mark.
    pub delta_bits: u64,
    pub kind: OpKind,
}

#[derive(Clone, Debug)]
pub(super) enum OpKind {
    /// Keeps a constant integer for a length or a tag; leaves no mark.
    Keep {
        slot: u32,
        int: Piece,
    },
    Align(u32),
    NulText(ClassId),
    /// Elements that all have the same size.
    Counted {
        slot: u32,
        stride_bits: u64,
        element_bits: u64,
    },
    /// An integer of variable length.
    Variable(ClassId),
    Nested(ClassId),
}

/// A constant integer: its bits, and what they mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub delta_bits: u32,
    pub bits: u8,
    pub signed: bool,
    pub order: Order,
}

impl Piece {
    /// Reads it; `at` is the bit in the file that the distance counts from.
    #[inline]
    pub fn read(self, data: &[u8], at: u64) -> u64 {
        extended(extract(data, at + u64::from(self.delta_bits), self.bits, self.order), self.bits, self.signed)
    }
}

/// Which event a record is of, and when it was written.
#[derive(Clone, Debug)]
pub(crate) enum Header {
    /// Always in the same place.
    Fixed(Stamp),
    /// An integer chooses one of several layouts, as in LTTng's heads.
    Tagged { align: u32, tag: Piece, options: Vec<(Ranges, Stamp)> },
    /// Anything else: by way of the tape.
    Any(ClassId),
}

/// A head without choices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub align: u32,
    pub id: Option<Piece>,
    pub time: Option<Piece>,
    pub bits: u32,
}

/// The plans of a trace.
#[derive(Debug)]
pub(crate) struct Plans {
    /// By stream class.
    pub headers: Vec<Header>,
    /// By position in [`Metadata::events`].
    pub events: Vec<Plan>,
    /// The same events, for who only counts.
    pub skips: Vec<Skip>,
}

impl Plans {
    pub fn new(metadata: &Metadata) -> Self {
        let mut plans = Self { headers: Vec::new(), events: Vec::new(), skips: Vec::new() };
        plans.events.resize_with(metadata.events.len(), Plan::default);
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
            for position in stream.events.positions() {
                plans.events[position as usize] = event(metadata, stream, &metadata.events[position as usize], known);
            }
            plans.headers.push(header);
        }
        plans.skips = plans.events.iter().map(|plan| Skip::new(metadata, plan)).collect();
        plans
    }
}

/// Marks the slots that fields of `class` read.
fn note_used(metadata: &Metadata, class: ClassId, used: &mut [bool]) {
    match &metadata.classes[class as usize].kind {
        Kind::Text { len: Len::Saved(slot), .. } | Kind::Bytes { len: Len::Saved(slot) } => used[*slot as usize] = true,
        Kind::Array { len, element } => {
            if let Len::Saved(slot) = len {
                used[*slot as usize] = true;
            }
            note_used(metadata, *element, used);
        }
        Kind::Struct { members } => members.iter().for_each(|member| note_used(metadata, member.class, used)),
        Kind::Variant { slot, options } => {
            used[*slot as usize] = true;
            options.iter().for_each(|option| note_used(metadata, option.class, used));
        }
        Kind::Optional { slot, element, .. } => {
            used[*slot as usize] = true;
            note_used(metadata, *element, used);
        }
        Kind::Int(_) | Kind::Float { .. } | Kind::NulText(_) | Kind::Text { .. } | Kind::Bytes { .. } => {}
    }
}

/// What is known of a place before there is a packet: its distance from a multiple of `modulus`, bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    modulus: u64,
    residue: u64,
}

impl Known {
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
    known: Known,
}

fn event(metadata: &Metadata, stream: &StreamClass, event: &EventClass, known: Known) -> Plan {
    let mut planner = Planner { metadata, ops: Vec::new(), marks: 1, delta: 0, known };
    let parts = [stream.common_context, event.context, event.payload].map(|class| planner.part(class));
    let known = stream.known.iter().map(|&(position, known)| KnownPlace::new(metadata, &parts[0], position, known));
    Plan { known: known.collect(), ops: planner.ops, tail_bits: planner.delta, parts }
}

impl Planner<'_> {
    fn part(&mut self, part: Option<ClassId>) -> Part {
        let mut places = Vec::new();
        if let Some(id) = part {
            let metadata = self.metadata;
            let class = &metadata.classes[id as usize];
            self.align(class.align);
            if let Kind::Struct { members } = &class.kind {
                places.extend(members.iter().map(|member| self.field(member.class)));
            }
        }
        Part { class: part, places }
    }

    fn align(&mut self, bits: u32) {
        match self.known.padding(u64::from(bits)) {
            Some(padding) => self.advance(padding),
            None => {
                self.mark(OpKind::Align(bits), Known { modulus: u64::from(bits), residue: 0 });
            }
        }
    }

    fn advance(&mut self, bits: u64) {
        self.delta += bits;
        self.known = self.known.after(bits);
    }

    /// An operation that leaves a mark; distances count from there on.
    fn mark(&mut self, kind: OpKind, known: Known) -> Place {
        self.ops.push(Op { delta_bits: self.delta, kind });
        (self.delta, self.known) = (0, known);
        self.marks += 1;
        Place::Marked(self.marks - 1)
    }

    fn field(&mut self, id: ClassId) -> Place {
        let class = &self.metadata.classes[id as usize];
        self.align(class.align);
        if let (Some(bits), Ok(delta_bits)) = (class.bits, u32::try_from(self.delta)) {
            self.keep(id, self.delta);
            self.advance(u64::from(bits));
            return Place::Packed { mark: self.marks - 1, delta_bits };
        }
        let bytes = self.known.after_some(8);
        match &class.kind {
            Kind::NulText(_) => self.mark(OpKind::NulText(id), bytes),
            Kind::Text { len: Len::Saved(slot), .. } | Kind::Bytes { len: Len::Saved(slot) } => {
                self.mark(OpKind::Counted { slot: *slot, stride_bits: 8, element_bits: 8 }, bytes)
            }
            Kind::Array { len: Len::Saved(slot), element } => match self.constant_element(*element) {
                Some((stride_bits, element_bits)) => {
                    let known = self.known.after_some(stride_bits).after_some(element_bits);
                    self.mark(OpKind::Counted { slot: *slot, stride_bits, element_bits }, known)
                }
                None => self.mark(OpKind::Nested(id), Known::NOTHING),
            },
            Kind::Int(Int { bits: 0, .. }) => self.mark(OpKind::Variable(id), bytes),
            _ => self.mark(OpKind::Nested(id), Known::NOTHING),
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
            Kind::Int(Int { save: Some(slot), bits, signed, order, .. }) => {
                let int = Piece { delta_bits: 0, bits: *bits, signed: *signed, order: *order };
                self.ops.push(Op { delta_bits: delta, kind: OpKind::Keep { slot: *slot, int } });
            }
            Kind::Struct { members } => {
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
fn header(metadata: &Metadata, stream: &StreamClass, kept: &[bool]) -> (Header, Known) {
    let nothing = Stamp { align: 1, id: None, time: None, bits: 0 };
    let Some(id) = stream.event_header else { return (Header::Fixed(nothing), Known::NOTHING) };
    planned_header(metadata, id, kept).unwrap_or((Header::Any(id), Known::NOTHING))
}

fn planned_header(metadata: &Metadata, id: ClassId, kept: &[bool]) -> Option<(Header, Known)> {
    let class = &metadata.classes[id as usize];
    let Kind::Struct { members } = &class.kind else { return None };
    let start = Known { modulus: u64::from(class.align), residue: 0 };
    let mut stamp = Stamp { align: class.align, id: None, time: None, bits: 0 };
    for (position, member) in members.iter().enumerate() {
        if let Kind::Variant { slot, options } = &metadata.classes[member.class as usize].kind {
            let tag = stamp.tag(metadata, id, *slot)?;
            let is_last = position + 1 == members.len();
            let mut planned = Vec::new();
            let mut known: Option<Known> = None;
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
    fn add(&mut self, metadata: &Metadata, id: ClassId, start: Known, kept: &[bool]) -> Option<()> {
        let class = &metadata.classes[id as usize];
        self.bits = self.bits.checked_add(start.after(u64::from(self.bits)).padding(u64::from(class.align))? as u32)?;
        match &class.kind {
            Kind::Struct { members } => {
                class.bits?;
                for member in members {
                    self.add(metadata, member.class, start, kept)?;
                }
                return Some(());
            }
            Kind::Int(int) => {
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
        let Kind::Struct { members } = &metadata.classes[id as usize].kind else { return None };
        let mut at = 0u64;
        for member in members {
            let class = &metadata.classes[member.class as usize];
            at = at.next_multiple_of(u64::from(class.align));
            if let Kind::Int(Int { save: Some(saved), bits, signed, order, .. }) = &class.kind {
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

impl Header {
    /// Chooses the layout of the record at the cursor, which is brought to its begin. `None` where only the tape can tell.
    #[inline]
    pub fn stamp(&self, data: &[u8], cursor: &mut Cursor<'_>) -> Result<Option<&Stamp>, Stop> {
        match self {
            Self::Fixed(stamp) => {
                cursor.align(stamp.align)?;
                Ok(Some(stamp))
            }
            Self::Tagged { align, tag, options } => {
                cursor.align(*align)?;
                cursor.check(u64::from(tag.delta_bits) + u64::from(tag.bits))?;
                let value = tag.read(data, cursor.bit());
                let value = if tag.signed { i128::from(value as i64) } else { i128::from(value) };
                let option = options.iter().find(|(ranges, _)| within(ranges, value));
                option.map(|(_, stamp)| Some(stamp)).ok_or(Stop::Bad("a variant has no option for its tag"))
            }
            Self::Any(_) => Ok(None),
        }
    }
}

impl Decoder<'_> {
    /// Passes over the fields of a plan; leaves their marks, and nested fields on the tape.
    #[inline]
    pub fn pass(&mut self, plan: &Plan, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        self.frame.marks.clear();
        self.frame.marks.push(Mark { end: cursor.at, ..Mark::default() });
        for op in &plan.ops {
            cursor.skip(op.delta_bits)?;
            if let OpKind::Keep { slot, int } = op.kind {
                cursor.check(u64::from(int.bits))?;
                self.save(slot, int.read(self.frame.data, cursor.bit()), int.signed);
                cursor.at -= op.delta_bits;
                continue;
            }
            let mark = self.step(&op.kind, cursor)?;
            self.frame.marks.push(Mark { end: cursor.at, ..mark });
        }
        cursor.skip(plan.tail_bits)
    }

    fn step(&mut self, kind: &OpKind, cursor: &mut Cursor<'_>) -> Result<Mark, Stop> {
        let at = cursor.at;
        let metadata = self.frame.metadata;
        let class = |id: ClassId| &metadata.classes[id as usize].kind;
        let (at, len) = match *kind {
            OpKind::Counted { slot, stride_bits, element_bits } => {
                let count = self.len(Len::Saved(slot))?;
                if count > 0 {
                    let bits = stride_bits.checked_mul(count - 1).and_then(|bits| bits.checked_add(element_bits));
                    cursor.skip(bits.ok_or(Stop::PastEnd)?)?;
                }
                (at, count)
            }
            OpKind::NulText(id) => {
                let Kind::NulText(encoding) = class(id) else { return Ok(Mark::default()) };
                (at, nul_text(cursor, *encoding)?.1)
            }
            OpKind::Variable(id) => {
                let Kind::Int(int) = class(id) else { return Ok(Mark::default()) };
                let value = cursor.variable(int.signed)?;
                if let Some(slot) = int.save {
                    self.save(slot, value, int.signed);
                }
                (value, 0)
            }
            OpKind::Nested(id) => {
                let node = self.frame.nodes.len() as u64;
                self.decode(&metadata.classes, id, cursor)?;
                (node, 0)
            }
            OpKind::Align(bits) => {
                cursor.align(bits)?;
                (at, 0)
            }
            OpKind::Keep { .. } => (at, 0),
        };
        Ok(Mark { at, len, end: 0 })
    }
}
