// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a generated trace is made of: types of fields, and the values that fields of them have. The words are those of
//! both formats; what only one has is marked.

/// An integer and how it is written.
#[derive(Clone, Debug)]
pub struct Int {
    pub bits: u32,
    pub signed: bool,
    pub big: bool,
    /// The first bit is at the other end of the number than the byte order alone would have it (CTF 2).
    pub flipped: bool,
    pub align: u64,
    /// 2, 8, 10 or 16.
    pub base: u8,
    pub role: Option<Role>,
}

impl Int {
    /// Without a sign, in base 10.
    pub fn plain(bits: u32, align: u64, big: bool) -> Self {
        Self { bits, signed: false, big, flipped: false, align, base: 10, role: None }
    }

    pub fn with(self, role: Role) -> Self {
        Self { role: Some(role), ..self }
    }

    /// The least and the greatest value.
    pub fn limits(&self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }
}

/// What an integer of a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Magic,
    StreamClass,
    Stream,
    Begin,
    End,
    Content,
    Total,
    Sequence,
    Discarded,
    EventClass,
    Time,
}

impl Role {
    /// The name that gives an integer this role in CTF 1.8, and the role of CTF 2.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Magic => ("magic", "packet-magic-number"),
            Self::StreamClass => ("stream_id", "data-stream-class-id"),
            Self::Stream => ("stream_instance_id", "data-stream-id"),
            Self::Begin => ("timestamp_begin", "default-clock-timestamp"),
            Self::End => ("timestamp_end", "packet-end-default-clock-timestamp"),
            Self::Content => ("content_size", "packet-content-length"),
            Self::Total => ("packet_size", "packet-total-length"),
            Self::Sequence => ("packet_seq_num", "packet-sequence-number"),
            Self::Discarded => ("events_discarded", "discarded-event-record-counter-snapshot"),
            Self::EventClass => ("id", "event-record-class-id"),
            Self::Time => ("timestamp", "default-clock-timestamp"),
        }
    }

    /// Whether it is a time of the stream's clock.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Begin | Self::End | Self::Time)
    }
}

/// Both ends included.
pub type Range = (i128, i128);

/// A label of an enumeration or a flag of a bit map.
#[derive(Clone, Debug)]
pub struct Label {
    pub name: String,
    pub ranges: Vec<Range>,
}

impl Label {
    pub fn has(&self, value: i128) -> bool {
        self.ranges.iter().any(|&(low, high)| low <= value && value <= high)
    }
}

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16 { big: bool },
    Utf32 { big: bool },
}

/// The parts of a packet, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Part {
    PacketContext,
    EventHeader,
    CommonContext,
    SpecificContext,
    Payload,
}

impl Part {
    /// As CTF 1.8 and CTF 2 call it in a reference.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::PacketContext => ("stream.packet.context", "packet-context"),
            Self::EventHeader => ("stream.event.header", "event-record-header"),
            Self::CommonContext => ("stream.event.context", "event-record-common-context"),
            Self::SpecificContext => ("event.context", "event-record-specific-context"),
            Self::Payload => ("event.fields", "event-record-payload"),
        }
    }
}

/// The field that a length, a tag or a selector is.
#[derive(Clone, Debug)]
pub struct Reference {
    pub id: usize,
    pub part: Part,
    /// From the part's structure to the field; its last is the name of the field.
    pub path: Vec<String>,
    /// Structures to go out from the user's own; `None`: the field is of an earlier part.
    pub up: Option<usize>,
    /// The path leads into an array, a variant or an optional.
    pub is_inside: bool,
    /// One of these lies between the field and its user.
    pub is_across: bool,
}

/// How many.
#[derive(Clone, Debug)]
pub enum Len {
    Fixed(u64),
    Of(Reference),
}

/// What a field's value has to be, because other fields depend on it.
#[derive(Clone, Debug)]
pub enum Wish {
    Length,
    /// One of these.
    Among(Vec<Range>),
}

/// A member of a structure.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub ty: Type,
    /// Under which number its value is known to others.
    pub target: Option<(usize, Wish)>,
}

/// An option of a variant.
#[derive(Clone, Debug)]
pub struct Choice {
    pub name: String,
    pub ranges: Vec<Range>,
    pub ty: Type,
}

/// A type.
#[derive(Clone, Debug)]
pub enum Type {
    Int(Int),
    Enum(Int, Vec<Label>),
    Float {
        bits: u32,
        big: bool,
        align: u64,
    },
    /// LEB128, CTF 2.
    Leb {
        signed: bool,
        role: Option<Role>,
    },
    /// CTF 2.
    Bool(Int),
    /// CTF 2: an array of bits.
    Bits(Int),
    /// CTF 2.
    BitMap(Int, Vec<Label>),
    /// Up to a character of zero.
    Text(Encoding),
    /// So many bytes of text.
    Chars(Len, Encoding),
    /// CTF 2.
    Blob(Len),
    /// 16 bytes of a packet's header.
    Uuid,
    /// The alignment is that of the array itself, CTF 2.
    List {
        element: Box<Type>,
        len: Len,
        align: u64,
    },
    Struct(Vec<Field>, u64),
    Variant {
        tag: Reference,
        options: Vec<Choice>,
    },
    /// CTF 2. Without ranges the selector is a boolean.
    Optional {
        selector: Reference,
        ranges: Option<Vec<Range>>,
        inner: Box<Type>,
    },
}

impl Type {
    /// As the specifications have it: a structure is aligned as its strictest member, an array as its element.
    pub fn align(&self) -> u64 {
        match self {
            Self::Int(int) | Self::Enum(int, _) | Self::Bool(int) | Self::Bits(int) | Self::BitMap(int, _) => int.align,
            Self::Float { align, .. } => *align,
            Self::Leb { .. } | Self::Text(_) | Self::Chars(..) | Self::Blob(_) | Self::Uuid => 8,
            Self::List { element, align, .. } => element.align().max(*align),
            Self::Struct(fields, least) => fields.iter().map(|field| field.ty.align()).max().unwrap_or(1).max(*least),
            Self::Variant { .. } | Self::Optional { .. } => 1,
        }
    }

    /// Whether something in it refers to a field: what it means depends on where it is used.
    pub fn has_references(&self) -> bool {
        match self {
            Self::Chars(Len::Of(_), _) | Self::Blob(Len::Of(_)) | Self::List { len: Len::Of(_), .. } => true,
            Self::Variant { .. } | Self::Optional { .. } => true,
            Self::List { element, .. } => element.has_references(),
            Self::Struct(fields, _) => fields.iter().any(|field| field.ty.has_references() || field.target.is_some()),
            _ => false,
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug)]
pub enum Val {
    Int(i128),
    Bool(bool),
    /// The bits, in the width of its type.
    Float(u64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Val>),
    Struct(Vec<Val>),
    /// Which option, and its value.
    Chosen(usize, Box<Val>),
    Maybe(Option<Box<Val>>),
}

/// The number that a float's bits are. Written out, so that no reader's own code is what it is held against.
pub fn float_of(width: u32, bits: u64) -> f64 {
    match width {
        32 => f64::from(f32::from_bits(bits as u32)),
        64 => f64::from_bits(bits),
        _ => {
            let (exponent, fraction) = ((bits >> 10 & 0x1F) as i32, (bits & 0x3FF) as f64);
            let size = match exponent {
                0 => fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
            };
            if bits >> 15 == 1 { -size } else { size }
        }
    }
}
