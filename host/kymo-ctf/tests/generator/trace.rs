// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole case: metadata, stream files, and what is in them by the model.

use kymo_testing::Random;

use super::bits::{Bits, Mark, Marked};
use super::features::Features;
use super::heads::{Form, context, form, header, header_value, member};
use super::make::{Format, Maker};
use super::types::{Field, Int, Part, Role, Type, Val};
use super::values::Known;

/// A clock. Its time of `cycles` is `offset_s` seconds and `offset + cycles` cycles behind its origin.
#[derive(Clone, Debug)]
pub struct Clock {
    pub name: String,
    pub uuid: Option<[u8; 16]>,
    pub frequency: u64,
    pub offset_s: i64,
    pub offset: u64,
    pub precision: u64,
    pub absolute: bool,
    pub description: String,
}

impl Clock {
    /// Rounded down.
    pub fn nanoseconds(&self, cycles: u64) -> i128 {
        let cycles = i128::from(self.offset) + i128::from(cycles);
        i128::from(self.offset_s) * 1_000_000_000 + (cycles * 1_000_000_000).div_euclid(self.frequency.into())
    }
}

/// A value of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvVal {
    Int(i128),
    Text(String),
}

#[derive(Clone, Debug)]
pub struct Event {
    pub id: u64,
    pub name: String,
    pub specific: Option<Type>,
    pub payload: Option<Type>,
}

#[derive(Clone, Debug)]
pub struct Stream {
    pub id: u64,
    pub form: Form,
    pub context: Option<Type>,
    pub header: Option<Type>,
    pub common: Option<Type>,
    pub events: Vec<Event>,
}

/// A record, with the values of common context, specific context and payload.
#[derive(Clone, Debug)]
pub struct Record {
    pub packet: u64,
    pub cycles: Option<u64>,
    pub event: usize,
    pub parts: [Option<Val>; 3],
}

/// A stream file.
#[derive(Clone, Debug)]
pub struct File {
    pub name: String,
    pub stream: usize,
    pub bytes: Vec<u8>,
    /// Of each packet.
    pub contexts: Vec<Option<Val>>,
    pub records: Vec<Record>,
    pub lost_records: u64,
    pub lost_packets: u64,
    pub packets: Vec<Placed>,
}

/// Where a packet is in its file.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Bytes.
    pub begin: usize,
    pub end: usize,
    /// Bits from its begin.
    pub content: u64,
    /// Number of its first record in the file, and of the one behind its last.
    pub records: (usize, usize),
    pub marks: Vec<Mark>,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    pub format: Format,
    pub big: bool,
    pub uuid: Option<[u8; 16]>,
    pub env: Vec<(String, EnvVal)>,
    pub clock: Option<Clock>,
    pub header: Option<Type>,
    pub streams: Vec<Stream>,
    pub files: Vec<File>,
    pub features: Features,
}

impl Case {
    /// The case of a seed.
    pub fn new(seed: u64, format: Format, features: Features) -> Self {
        let mut maker = Maker::new(Random(seed), features, format);
        let maker = &mut maker;
        let clock = (!maker.feature("no-clock", 12)).then(|| clock(maker));
        let several = maker.feature("several-stream-classes", 3);
        let has_sizes = !maker.feature("packet-without-sizes", 6);
        let uuid: Option<[u8; 16]> = maker.one_in(2).then(|| maker.random.bytes(16).try_into().expect("16 bytes"));
        let header = packet_header(maker, several, uuid.is_some());
        let streams: Vec<Stream> =
            (0..if several { 2 } else { 1 }).map(|index| stream(maker, index, clock.is_some(), has_sizes)).collect();
        let env = environment(maker);
        let (big, features) = (maker.big, Features::default());
        let mut case = Self { format, big, uuid, env, clock, header, streams, files: Vec::new(), features };
        for stream in 0..case.streams.len() {
            for _ in 0..1 + maker.random.below(2u64) {
                let file = file(maker, &case, stream, has_sizes);
                case.files.push(file);
            }
        }
        case.features = maker.features.clone();
        case
    }
}

fn clock(maker: &mut Maker) -> Clock {
    let is_exact = !maker.feature("clock-of-another-frequency", 3);
    let frequency = if is_exact { 1_000_000_000 } else { maker.random.pick(&[32_768, 2_999_999_999, 24_000_000]) };
    // Of few cycles a second, times are beyond what 64 bits of nanoseconds have.
    let frequency = if maker.feature("time-beyond-292-years", 15) { maker.random.pick(&[1, 1000]) } else { frequency };
    let offset_s = if maker.feature("clock-before-its-origin", 10) { -7 } else { maker.random.below(2_000_000_000i64) };
    Clock {
        name: format!("clk{}", maker.random.below(100u64)),
        uuid: maker.one_in(2).then(|| maker.random.bytes(16).try_into().expect("16 bytes")),
        frequency,
        offset_s,
        offset: if maker.one_in(2) { 0 } else { maker.random.below(frequency) },
        precision: maker.random.below(1000u64),
        absolute: maker.one_in(2),
        description: maker.random.pick(&["", "a clock", "\"quoted\" \\ of\ttwo"]).into(),
    }
}

fn environment(maker: &mut Maker) -> Vec<(String, EnvVal)> {
    let mut env = Vec::new();
    for index in 0..maker.random.below(4u64) {
        let value = match maker.random.below(4u64) {
            0 => EnvVal::Int(i128::from(i64::MIN) + 1 + i128::from(maker.random.below(2i64))),
            1 => match maker.random.word() | 1 {
                word if word % 16 < 4 => EnvVal::Int(word.into()),
                word => EnvVal::Int((word as i64).into()),
            },
            2 => EnvVal::Text("a \"text\" with\n\\ escapes".into()),
            _ => EnvVal::Text("ünïcode 漢".into()),
        };
        env.push((format!("env{index}"), value));
    }
    env
}

fn packet_header(maker: &mut Maker, has_stream: bool, has_uuid: bool) -> Option<Type> {
    let big = maker.big;
    let mut fields = Vec::new();
    if has_stream || has_uuid || !maker.feature("no-packet-header", 8) {
        fields.push(member(Role::Magic, 32, 8, big));
    }
    if has_uuid {
        fields.push(Field { name: "uuid".into(), ty: Type::Uuid, target: None });
    }
    let bits = maker.random.pick(&[8, 32, 64]);
    if has_stream || (!fields.is_empty() && maker.one_in(2)) {
        fields.push(member(Role::StreamClass, bits, 8, big));
    }
    if !fields.is_empty() && maker.feature("stream-instance", 4) {
        fields.push(member(Role::Stream, bits, 8, big));
    }
    (!fields.is_empty()).then_some(Type::Struct(fields, 8))
}

fn stream(maker: &mut Maker, index: u64, has_clock: bool, has_sizes: bool) -> Stream {
    let form = form(maker, has_clock);
    let context = context(maker, has_clock, has_sizes);
    maker.forget_from(Part::EventHeader);
    let header = header(form, maker.big);
    let common = maker.one_in(2).then(|| maker.part(Part::CommonContext, 1));
    let is_single = form == Form::Bare;
    let mut ids: Vec<u64> = vec![0, 1, 2, 30, 31, 100, 127, 65_534, 65_535, 70_000, u32::MAX.into()];
    let id_max = if maker.feature("event-id-above-65535", 3) { u64::MAX } else { 65_535 };
    ids.retain(|&id| id <= form.id_max().min(id_max));
    let events = (0..if is_single { 1 } else { 1 + maker.random.below(3u64) }).map(|_| {
        let id = ids.swap_remove(maker.random.below(ids.len()));
        maker.forget_from(Part::SpecificContext);
        let specific = maker.one_in(3).then(|| maker.part(Part::SpecificContext, 1));
        let mut payload = maker.part(Part::Payload, 3);
        if is_single || !has_sizes {
            // The last field ends at a byte, and has bits.
            if let Type::Struct(fields, _) = &mut payload {
                let ty = Type::Int(Int::plain(8, 8, maker.big));
                fields.push(Field { name: maker.name("end"), ty, target: None });
            }
        }
        let name = format!("s{index}:e{id}");
        Event { id, name, specific, payload: Some(payload) }
    });
    let events = events.collect();
    Stream { id: index * 7, form, context, header, common, events }
}

/// What a stream has come to.
#[derive(Default)]
struct Progress {
    time: u64,
    discarded: u64,
    sequence: u64,
}

fn file(maker: &mut Maker, case: &Case, stream: usize, has_sizes: bool) -> File {
    let number = case.files.len();
    let class = &case.streams[stream];
    let has_role = |role: Role| has_role(class.context.as_ref(), role);
    // Without a time of its own the first packet begins at 0.
    let begin_bits = role_bits(class.context.as_ref(), Role::Begin);
    let mut now = Progress {
        // A begin of few bits goes on from 0.
        time: begin_bits.map_or(0, |bits| maker.random.below(1u64 << bits.min(40))),
        sequence: maker.random.below(3u64),
        ..Progress::default()
    };
    let has_few = |role: Role| role_bits(class.context.as_ref(), role) == Some(8);
    // They wrap.
    now.sequence += if has_few(Role::Sequence) { 253 } else { 0 };
    let lost_at_once = if has_few(Role::Discarded) { 120 } else { 9 };
    let (name, contexts, records) = (format!("file{number}"), Vec::new(), Vec::new());
    let mut file = File {
        name,
        stream,
        bytes: Vec::new(),
        contexts,
        records,
        lost_records: 0,
        lost_packets: 0,
        packets: Vec::new(),
    };
    let mut packets = if has_sizes { 1 + maker.random.below(3u64) } else { 1 };
    // A time of few bits goes on from the last time of the stream, also from that of the packet before.
    let is_continued = packets > 1 && class.form.has_short_times() && !has_role(Role::Begin);
    if is_continued && !maker.features.note("short-times-in-packets-without-times") {
        packets = 1;
    }
    for packet in 0..packets {
        if packet > 0 && has_role(Role::Sequence) {
            let gap = if maker.feature("lost-packets", 5) { 1 + maker.random.below(3u64) } else { 0 };
            now.sequence += 1 + gap;
            file.lost_packets += gap;
        }
        if has_role(Role::Discarded) && maker.one_in(3) {
            now.discarded += 1 + maker.random.below(lost_at_once);
        }
        make_packet(maker, case, &mut file, packet, &mut now);
    }
    file.lost_records = now.discarded;
    file
}

fn make_packet(maker: &mut Maker, case: &Case, file: &mut File, packet: u64, now: &mut Progress) {
    let class = &case.streams[file.stream];
    let has_begin = has_role(class.context.as_ref(), Role::Begin);
    if has_begin {
        let gap = maker.random.below(1000u64);
        // The first one is below the range of its bits.
        now.time += if packet > 0 { gap } else { 0 };
    }
    let (begin, mut known) = (now.time, Known::new());
    let user = class.context.as_ref().map(|context| maker.value(context, &mut known));
    let mut parts = Vec::new();
    for _ in 0..maker.random.below(6u64) {
        let event = maker.random.below(class.events.len());
        let before = now.time;
        now.time += step(maker, class.form);
        let id = class.events[event].id;
        let head = header_value(maker, class.form, id, now.time, before);
        let mut known = known.clone();
        let types = [&class.common, &class.events[event].specific, &class.events[event].payload];
        let values = types.map(|ty| ty.as_ref().map(|ty| maker.value(ty, &mut known)));
        let cycles = class.form.time_bits().map(|_| now.time);
        file.records.push(Record { packet, cycles, event, parts: values.clone() });
        parts.push((event, head, values));
    }
    let end = now.time + if has_begin { maker.random.below(3u64) } else { 0 };
    let padding = maker.random.below(4u64) * 8;
    let first = file.records.len() - parts.len();
    let mut head = Head { begin, end, discarded: now.discarded, sequence: now.sequence, content: 0, total: 0 };
    let (mut bits, mut context) = (Bits::default(), None);
    // Once to see how long it is.
    for _ in 0..2 {
        bits = Bits::new(case.big);
        context = user.clone().map(|user| head.fill(class.context.as_ref(), user));
        if let Some(ty) = &case.header {
            bits.value(ty, &packet_header_value(case, ty, file));
        }
        if let (Some(ty), Some(value)) = (&class.context, &context) {
            bits.value(ty, value);
        }
        for (index, (event, head, values)) in parts.iter().enumerate() {
            bits.record = Some(first + index);
            bits.mark(Marked::Record, 0, None);
            let event = &class.events[*event];
            let types = [&class.header, &class.common, &event.specific, &event.payload];
            for (ty, value) in types.into_iter().zip([head].into_iter().chain(values)) {
                if let (Some(ty), Some(value)) = (ty, value) {
                    bits.value(ty, value);
                }
            }
        }
        head.content = bits.at;
        head.total = bits.at.next_multiple_of(8) + padding;
    }
    if has_role(class.context.as_ref(), Role::Total) {
        bits.bytes.resize((head.total / 8) as usize, 0xEE);
    }
    let begin = file.bytes.len();
    file.bytes.extend(bits.bytes);
    let records = (first, file.records.len());
    file.packets.push(Placed { begin, end: file.bytes.len(), content: head.content, records, marks: bits.marks });
    file.contexts.push(context);
    now.time = if has_begin { end } else { now.time };
}

/// Cycles to the next record.
fn step(maker: &mut Maker, form: Form) -> u64 {
    let bits = form.time_bits().unwrap_or(1);
    let far = maker.feature("far-apart", 4);
    match form {
        // Beyond what the short form has.
        Form::Short { time_bits, .. } if far => maker.random.below(1u64 << (time_bits + 3)),
        // Up to where the short time comes round.
        _ if far => maker.random.below(1u64 << bits.min(40)),
        _ => maker.random.below(1u64 << bits.min(20)),
    }
}

pub fn has_role(ty: Option<&Type>, role: Role) -> bool {
    role_bits(ty, role).is_some()
}

/// Of the integer with that role, where there is one.
fn role_bits(ty: Option<&Type>, role: Role) -> Option<u32> {
    let Some(Type::Struct(fields, _)) = ty else { return None };
    fields.iter().find_map(|field| match &field.ty {
        Type::Int(int) if int.role == Some(role) => Some(int.bits),
        _ => None,
    })
}

/// What a packet says of itself.
struct Head {
    begin: u64,
    end: u64,
    discarded: u64,
    sequence: u64,
    content: u64,
    total: u64,
}

impl Head {
    /// Puts it in the place of the random values.
    fn fill(&self, ty: Option<&Type>, value: Val) -> Val {
        let (Some(Type::Struct(fields, _)), Val::Struct(values)) = (ty, value) else { unreachable!("a structure") };
        let filled = fields.iter().zip(values).map(|(field, value)| {
            let Type::Int(Int { role: Some(role), bits, .. }) = &field.ty else { return value };
            let whole = match role {
                Role::Begin => self.begin,
                Role::End => self.end,
                Role::Discarded => self.discarded,
                Role::Sequence => self.sequence,
                Role::Content => self.content,
                Role::Total => self.total,
                _ => unreachable!("of another part"),
            };
            Val::Int((whole & (u64::MAX >> (64 - bits))).into())
        });
        Val::Struct(filled.collect())
    }
}

fn packet_header_value(case: &Case, ty: &Type, file: &File) -> Val {
    let Type::Struct(fields, _) = ty else { unreachable!("a structure") };
    let instance = file.name.trim_start_matches("file").parse().unwrap_or(0);
    let values = fields.iter().map(|field| match &field.ty {
        Type::Uuid => Val::Bytes(case.uuid.unwrap_or_default().to_vec()),
        Type::Int(Int { role: Some(Role::Magic), .. }) => Val::Int(0xC1FC_1FC1),
        Type::Int(Int { role: Some(Role::StreamClass), .. }) => Val::Int(case.streams[file.stream].id.into()),
        _ => Val::Int(instance),
    });
    Val::Struct(values.collect())
}
