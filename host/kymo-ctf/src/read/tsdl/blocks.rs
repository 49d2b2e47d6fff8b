// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of TSDL (`trace`, `env`, `clock`, `stream`, `event`) to a trace's metadata.

use std::collections::{HashMap, HashSet};

use super::ast::{Attr, BlockKind, Entry, Expr, Item};
use super::fault::{Fault, Pos};
use super::resolve::{Resolver, boolean, keyword, number, word};
use crate::read::build::{Builder, Origin};
use crate::read::class::{ClassId, EventClass, Metadata, Order, Role, StreamClass};
use crate::read::clock::Clock;
use crate::write::EnvValue;

/// Integers of the packet header that mean something by their name.
const HEADER: [(&str, Role); 3] =
    [("magic", Role::Magic), ("stream_id", Role::StreamId), ("stream_instance_id", Role::StreamInstance)];

/// The same for the packet context.
const CONTEXT: [(&str, Role); 6] = [
    ("timestamp_begin", Role::Begin),
    ("timestamp_end", Role::End),
    ("content_size", Role::ContentSize),
    ("packet_size", Role::PacketSize),
    ("packet_seq_num", Role::Sequence),
    ("events_discarded", Role::Discarded),
];

/// What the document means. `source_bytes` is the size of its text.
pub(super) fn resolve(document: &[Item], source_bytes: usize) -> Result<(Metadata, Vec<Fault>, u64), Fault> {
    let mut blocks = Blocks {
        resolver: Resolver::new(Builder::new(source_bytes), native_order(document)?),
        metadata: Metadata::default(),
        streams: HashMap::new(),
        without_ids: HashSet::new(),
    };
    // Clocks first: types refer to them from anywhere. Events last: they refer to streams.
    for (kind, entries, pos) in blocks_of(document) {
        if kind == BlockKind::Clock {
            blocks.clock(entries, pos)?;
        }
    }
    for item in document {
        match item {
            Item::Decl(decl) => blocks.resolver.declare(decl)?,
            Item::Block { kind, entries, pos } => {
                blocks.resolver.open_scope();
                match kind {
                    BlockKind::Trace => blocks.trace(entries)?,
                    BlockKind::Env => blocks.env(entries)?,
                    BlockKind::Stream => blocks.stream(entries, *pos)?,
                    BlockKind::Clock | BlockKind::Event | BlockKind::Callsite => {}
                }
                blocks.resolver.close_scope();
            }
        }
    }
    for (kind, entries, pos) in blocks_of(document) {
        if kind == BlockKind::Event {
            blocks.resolver.open_scope();
            blocks.event(entries, pos)?;
            blocks.resolver.close_scope();
        }
    }
    blocks.check_stream_id(document)?;
    let Blocks { resolver, mut metadata, .. } = blocks;
    let steps = resolver.builder.steps();
    resolver.builder.finish(&mut metadata);
    Ok((metadata, resolver.remarks.into_inner().into_values().collect(), steps))
}

fn blocks_of(document: &[Item]) -> impl Iterator<Item = (BlockKind, &[Entry], Pos)> {
    document.iter().filter_map(|item| match item {
        Item::Block { kind, entries, pos } => Some((*kind, entries.as_slice(), *pos)),
        Item::Decl(_) => None,
    })
}

/// The trace's byte order, which types in front of the `trace` block have too.
fn native_order(document: &[Item]) -> Result<Order, Fault> {
    for (kind, entries, _) in blocks_of(document) {
        for entry in entries {
            if let (BlockKind::Trace, Entry::Attr(attr)) = (kind, entry) {
                match (attr.name.as_str(), keyword(attr).as_deref()) {
                    ("byte_order", Some("le")) => return Ok(Order::Little),
                    ("byte_order", Some("be" | "network")) => return Ok(Order::Big),
                    ("byte_order", _) => return Err(attr.pos.fault("the byte order of a trace is `le` or `be`")),
                    _ => {}
                }
            }
        }
    }
    Ok(Order::Little)
}

struct Blocks {
    resolver: Resolver,
    metadata: Metadata,
    /// Position in `metadata.streams` by id.
    streams: HashMap<u64, usize>,
    /// Streams whose records do not say of which event they are, by that position.
    without_ids: HashSet<usize>,
}

impl Blocks {
    fn trace(&mut self, entries: &[Entry]) -> Result<(), Fault> {
        for entry in entries {
            match entry {
                Entry::Attr(attr) => match attr.name.as_str() {
                    "major" if number(attr)? != 1 => return Err(attr.pos.fault("only CTF 1 and CTF 2 are supported")),
                    "uuid" => self.metadata.uuid = Some(uuid(attr)?),
                    _ => {}
                },
                Entry::Part { name, ty, pos } if name == "packet.header" => {
                    self.resolver.builder.begin(Origin::PacketHeader, [None; 6]);
                    let class = Some(self.part(ty, *pos)?);
                    let builder = &mut self.resolver.builder;
                    refuse_wide(builder, class, false, *pos, |name| role(&HEADER, name).is_some())?;
                    builder.for_ints(class, false, |name, int| int.role = role(&HEADER, name));
                    self.metadata.uuid_member = builder.position(class, "uuid");
                    self.metadata.packet_header = class;
                }
                Entry::Part { name, pos, .. } => return Err(pos.fault(format!("a trace has no part `{name}`"))),
                Entry::Decl(decl) => self.resolver.declare(decl)?,
            }
        }
        Ok(())
    }

    /// A part must be a structure.
    fn part(&mut self, ty: &std::rc::Rc<super::ast::Type>, pos: Pos) -> Result<ClassId, Fault> {
        let class = self.resolver.class(ty)?;
        match self.resolver.builder.classes[class as usize].kind {
            crate::read::class::ClassKind::Struct { .. } => Ok(class),
            _ => Err(pos.fault("this must be a structure")),
        }
    }

    fn env(&mut self, entries: &[Entry]) -> Result<(), Fault> {
        for entry in entries {
            let Entry::Attr(attr) = entry else { continue };
            let value = match &attr.value {
                Expr::Int(value) => EnvValue::of_number(*value)
                    .ok_or_else(|| attr.pos.fault(format!("`{}` has more than 64 bits", attr.name)))?,
                other => EnvValue::Text(word_of(other)),
            };
            self.metadata.env.push((attr.name.clone(), value));
        }
        Ok(())
    }

    fn clock(&mut self, entries: &[Entry], pos: Pos) -> Result<(), Fault> {
        let mut clock = Clock::default();
        for entry in entries {
            let Entry::Attr(attr) = entry else { continue };
            let text = || word(attr).ok_or_else(|| attr.pos.fault(format!("`{}` takes a text", attr.name)));
            let outside = || attr.pos.fault(format!("`{}` is out of range", attr.name));
            match attr.name.as_str() {
                "name" => clock.name = text()?,
                "uuid" => clock.uuid = Some(uuid(attr)?),
                "description" => clock.description = text()?,
                "freq" => {
                    clock.frequency_hz = u64::try_from(number(attr)?).ok().filter(|&hz| hz > 0).ok_or_else(outside)?;
                }
                "precision" => clock.precision_cycles = u64::try_from(number(attr)?).map_err(|_| outside())?,
                "offset_s" => clock.offset_s = i64::try_from(number(attr)?).map_err(|_| outside())?,
                "offset" => clock.offset_cycles = i64::try_from(number(attr)?).map_err(|_| outside())?,
                "absolute" => clock.absolute = boolean(attr)?,
                _ => {}
            }
        }
        if clock.name.is_empty() {
            return Err(pos.fault("a clock needs its `name`"));
        }
        let position = self.metadata.clocks.len();
        if self.resolver.clocks.insert(clock.name.clone(), position).is_some() {
            return Err(pos.fault(format!("the clock `{}` is declared twice", clock.name)));
        }
        self.metadata.clocks.push(clock);
        Ok(())
    }

    /// The parts of a block, in this order. What is declared in it is known from the first part on.
    fn parts(
        &mut self,
        block: &str,
        parts: &[(&str, Origin)],
        entries: &[Entry],
        roots: &mut [Option<ClassId>; 6],
    ) -> Result<(), Fault> {
        for (at, (part, origin)) in parts.iter().enumerate() {
            for entry in entries {
                match entry {
                    Entry::Part { name, ty, pos } if name == part => {
                        self.resolver.builder.begin(*origin, *roots);
                        roots[*origin as usize] = Some(self.part(ty, *pos)?);
                    }
                    Entry::Part { name, pos, .. } if !parts.iter().any(|(part, _)| name == part) => {
                        return Err(pos.fault(format!("{block} has no part `{name}`")));
                    }
                    Entry::Decl(decl) if at == 0 => self.resolver.declare(decl)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn stream(&mut self, entries: &[Entry], pos: Pos) -> Result<(), Fault> {
        let mut class = StreamClass { id: id(entries, "id")?.unwrap_or(0), ..StreamClass::default() };
        let mut roots = [None; 6];
        roots[Origin::PacketHeader as usize] = self.metadata.packet_header;
        // In the order of decoding, whatever the order in the text, so that references find what comes earlier.
        let parts = [
            ("packet.context", Origin::PacketContext),
            ("event.header", Origin::EventHeader),
            ("event.context", Origin::CommonContext),
        ];
        self.parts("a stream", &parts, entries, &mut roots)?;
        class.packet_context = roots[Origin::PacketContext as usize];
        class.event_header = roots[Origin::EventHeader as usize];
        class.common_context = roots[Origin::CommonContext as usize];
        let builder = &mut self.resolver.builder;
        refuse_wide(builder, class.packet_context, false, pos, |name| role(&CONTEXT, name).is_some())?;
        refuse_wide(builder, class.event_header, true, pos, |name| matches!(name, "id" | "timestamp"))?;
        let mut clocks = Vec::new();
        builder.for_ints(class.packet_context, false, |name, int| {
            int.role = role(&CONTEXT, name);
            clocks.extend(int.clock);
        });
        builder.for_ints(class.event_header, true, |name, int| {
            clocks.extend(int.clock);
            int.role = match name {
                "id" => Some(Role::EventId),
                "timestamp" => Some(Role::Time),
                _ => int.clock.map(|_| Role::Time),
            };
        });
        class.clock = clocks.first().copied().unwrap_or(0);
        if let Some(other) = clocks.iter().find(|other| **other != class.clock) {
            let [one, other] = [class.clock, *other].map(|clock| &self.metadata.clocks[clock].name);
            let message = format!("stream {} has times of two clocks, `{one}` and `{other}`", class.id);
            return Err(pos.fault(message));
        }
        let has_ids = builder.has_role(class.event_header, true, Role::EventId);
        let position = self.metadata.streams.len();
        if self.streams.insert(class.id, position).is_some() {
            return Err(pos.fault(format!("stream {} is declared twice", class.id)));
        }
        if !has_ids {
            self.without_ids.insert(position);
        }
        self.metadata.streams.push(class);
        Ok(())
    }

    /// Of several streams a packet says whose it is.
    fn check_stream_id(&mut self, document: &[Item]) -> Result<(), Fault> {
        let mut streams = blocks_of(document).filter(|(kind, ..)| *kind == BlockKind::Stream);
        let Some((_, _, second)) = streams.nth(1) else { return Ok(()) };
        if self.resolver.builder.has_role(self.metadata.packet_header, false, Role::StreamId) {
            return Ok(());
        }
        let what = "with a second stream the trace's `packet.header` needs an integer `stream_id`: without it, nobody \
                    knows of which stream a packet is";
        Err(second.fault(what))
    }

    fn event(&mut self, entries: &[Entry], pos: Pos) -> Result<(), Fault> {
        if self.metadata.streams.is_empty() {
            self.streams.insert(0, 0);
            self.without_ids.insert(0);
            self.metadata.streams.push(StreamClass::default());
        }
        let only = (self.metadata.streams.len() == 1).then(|| self.metadata.streams[0].id);
        let stream = match id(entries, "stream_id")?.or(only) {
            Some(stream) => stream,
            None => return Err(pos.fault("the event needs its `stream_id`, because there are several streams")),
        };
        let Some(&index) = self.streams.get(&stream) else {
            return Err(pos.fault(format!("the event's stream {stream} is not declared")));
        };
        let class = &self.metadata.streams[index];
        let mut roots = [None; 6];
        roots[Origin::PacketHeader as usize] = self.metadata.packet_header;
        roots[Origin::PacketContext as usize] = class.packet_context;
        roots[Origin::EventHeader as usize] = class.event_header;
        roots[Origin::CommonContext as usize] = class.common_context;
        let parts = [("context", Origin::SpecificContext), ("fields", Origin::Payload)];
        self.parts("an event", &parts, entries, &mut roots)?;
        let (mut name, mut loglevel) = (None, None);
        for entry in entries {
            let Entry::Attr(attr) = entry else { continue };
            match attr.name.as_str() {
                "name" => name = Some(word(attr).ok_or_else(|| attr.pos.fault("`name` of an event is a text"))?),
                "loglevel" => loglevel = i64::try_from(number(attr)?).ok(),
                _ => {}
            }
        }
        let id = id(entries, "id")?.unwrap_or(0);
        let needs_ids =
            self.without_ids.contains(&index) && self.metadata.streams[index].events.positions().next().is_some();
        let position = self.metadata.events.len() as u32;
        let builder = &mut self.resolver.builder;
        builder.charge_event(self.metadata.streams[index].common_context).map_err(|what| pos.fault(what))?;
        if !self.metadata.streams[index].events.insert(id, position, &mut builder.table_room) {
            return Err(pos.fault(format!("event {id} of stream {stream} is declared twice")));
        }
        if needs_ids {
            let what = format!(
                "with a second event the `event.header` of stream {stream} needs an integer `id`: without it, nobody \
                 knows of which event a record is"
            );
            return Err(pos.fault(what));
        }
        self.metadata.events.push(EventClass {
            id,
            name: name.unwrap_or_else(|| format!("event {id}")),
            loglevel,
            stream: index,
            context: roots[Origin::SpecificContext as usize],
            payload: roots[Origin::Payload as usize],
        });
        Ok(())
    }
}

/// Refuses an integer that means something to the reader, and is too wide for it.
fn refuse_wide(
    builder: &Builder,
    part: Option<ClassId>,
    deep: bool,
    pos: Pos,
    has_role: impl Fn(&str) -> bool,
) -> Result<(), Fault> {
    builder.wide_with_role(part, deep, has_role).map_or(Ok(()), |what| Err(pos.fault(what)))
}

fn role(table: &[(&str, Role)], name: &str) -> Option<Role> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, role)| role)
}

fn id(entries: &[Entry], name: &str) -> Result<Option<u64>, Fault> {
    for entry in entries {
        if let Entry::Attr(attr) = entry {
            if attr.name == name {
                let value = u64::try_from(number(attr)?);
                return value.map(Some).map_err(|_| attr.pos.fault(format!("`{name}` cannot be negative")));
            }
        }
    }
    Ok(None)
}

fn word_of(expr: &Expr) -> String {
    match expr {
        Expr::Text(text) => text.clone(),
        Expr::Path(path) => path.join("."),
        Expr::Int(value) => value.to_string(),
    }
}

fn uuid(attr: &Attr) -> Result<[u8; 16], Fault> {
    let text = word(attr).unwrap_or_default();
    crate::read::uuid::parse_uuid(&text).ok_or_else(|| attr.pos.fault(format!("{text:?} is not a UUID")))
}
