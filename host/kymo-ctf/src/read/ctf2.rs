// SPDX-License-Identifier: MIT OR Apache-2.0
//! CTF 2 metadata: JSON fragments to field classes.

mod aliases;
mod json;
mod location;
mod roles;
mod rules;
mod shape;
mod values;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use super::build::{Builder, Origin, TAKEN_FOR};
use super::class::{
    Base, ClassId, ClassKind, Encoding, EventClass, Int, Labels, Len, Metadata, Order, Role, StreamClass, View,
    WideClass,
};
use super::clock::Clock;
use super::error::{Caveat, Damage, Error};
use super::parsed::Parsed;
use super::wide::{WIDE_BITS_MAX, exponent_bits};
use crate::write::EnvValue;
use json::Problem;
use roles::{Part, Roles};
use shape::{DRAFTS, Shape};
use values::{Object, integer, ranges};

/// Understands the bytes of a `metadata` file that begins with a record separator.
pub(super) fn metadata(file: &str, bytes: &[u8]) -> Result<Parsed, Error> {
    let mut reader = Fragments {
        builder: Builder::new(bytes.len()),
        metadata: Metadata::default(),
        aliases: HashMap::new(),
        clocks: HashMap::new(),
        streams: HashMap::new(),
        has_trace: false,
        uuid_role: None,
        roles: Roles::default(),
        remarks: Vec::new(),
        source_bytes: bytes.len(),
        stand_in: None,
    };
    let mut caveats = Vec::new();
    let parts = bytes.split(|&b| b == 0x1E).map(<[u8]>::trim_ascii).filter(|part| !part.is_empty());
    for (index, part) in parts.enumerate() {
        let fragment = index + 1;
        let at = |what: String| Error::Fragment { file: file.into(), fragment, what };
        let (value, commas) = json::parse(part).map_err(|problem| match problem {
            Problem::Torn => {
                Error::Torn { file: file.into(), what: format!("fragment {fragment} stops in the middle") }
            }
            Problem::Bad(what) => at(what),
        })?;
        let object = value.as_object().ok_or_else(|| at("not an object".into()))?;
        if commas > 0 {
            let what = "a comma behind the last element of an array or object is no JSON; it was passed over";
            reader.remarks.push(what.into());
        }
        reader.fragment(index == 0, object).map_err(at)?;
        let remark = |what| Damage::FragmentRemark { fragment, what };
        let caveat = |damage| Caveat { file: file.into(), packet: None, at: 0, damage };
        caveats.extend(reader.remarks.drain(..).map(remark).map(caveat));
    }
    let steps = reader.builder.steps();
    reader.builder.finish(&mut reader.metadata);
    Ok(Parsed { metadata: reader.metadata, caveats, steps })
}

struct Fragments {
    builder: Builder,
    metadata: Metadata,
    /// Field classes by the name of their alias.
    aliases: HashMap<String, Rc<Value>>,
    clocks: HashMap<String, usize>,
    streams: HashMap<u64, usize>,
    has_trace: bool,
    /// The class that has the role `metadata-stream-uuid`.
    uuid_role: Option<ClassId>,
    roles: Roles,
    /// What was passed over in the fragment that is read.
    remarks: Vec<String>,
    source_bytes: usize,
    /// While an alias is declared: what stands for fields that its users have, and for other aliases.
    stand_in: Option<ClassId>,
}

impl Fragments {
    fn fragment(&mut self, first: bool, object: &Object) -> Result<(), String> {
        let kind = text(object, "type")?;
        if first != (kind == "preamble") {
            return Err("the first fragment, and no other, must be the preamble".into());
        }
        Shape::Fragment(kind).check(object)?;
        match kind {
            "preamble" => match object.get("version") {
                Some(version) if version.as_u64() == Some(2) => {
                    no_extensions(object)?;
                    let is_one = "`uuid` must be 16 numbers from 0 to 255";
                    self.metadata.uuid = object.get("uuid").map(|value| uuid(value).ok_or(is_one)).transpose()?;
                    Ok(())
                }
                Some(version) => Err(format!("CTF version {version} is not supported, only 2 (and 1.8 as text)")),
                None => Err("`version` is missing".into()),
            },
            "field-class-alias" => {
                let class = object.get("field-class").ok_or("`field-class` is missing")?;
                let name = text(object, "name")?;
                self.check_alias(class)?;
                match self.aliases.insert(name.to_owned(), Rc::new(class.clone())) {
                    Some(_) => Err(format!("the field class alias `{name}` is declared twice")),
                    None => Ok(()),
                }
            }
            "trace-class" => self.trace(object),
            "clock-class" => self.clock(object),
            "data-stream-class" => self.stream(object),
            "event-record-class" => self.event(object),
            other => Err(format!("fragments of type `{other}` are not supported")),
        }
    }

    fn trace(&mut self, object: &Object) -> Result<(), String> {
        if std::mem::replace(&mut self.has_trace, true) {
            return Err("the trace class is declared twice".into());
        }
        if let Some(environment) = object.get("environment").and_then(Value::as_object) {
            for (key, value) in environment {
                let text = || value.as_str().map(|text| EnvValue::Text(text.to_owned()));
                let value = integer(value).and_then(EnvValue::of_number).or_else(text);
                let what = || format!("`{key}` of the environment must be a text, or an integer of 64 bits");
                self.metadata.env.push((key.clone(), value.ok_or_else(what)?));
            }
        }
        self.metadata.packet_header =
            self.part(object, "packet-header-field-class", Origin::PacketHeader, [None; 6], false)?;
        let Some(header) = self.metadata.packet_header else { return Ok(()) };
        self.roles.check_magic(&self.builder.classes, header)?;
        if let Some(role) = self.uuid_role {
            if let ClassKind::Struct { members } = &self.builder.classes[header as usize].kind {
                self.metadata.uuid_member = members.iter().position(|member| member.class == role);
            }
        }
        Ok(())
    }

    fn clock(&mut self, object: &Object) -> Result<(), String> {
        let id = text(object, "id")?.to_owned();
        rules::origin(object.get("origin"))?;
        let offset = object.get("offset-from-origin").and_then(Value::as_object);
        offset.map_or(Ok(()), |offset| Shape::Offset.check(offset))?;
        let part = |name: &str| offset.and_then(|offset| offset.get(name)).and_then(Value::as_i64).unwrap_or(0);
        let clock = Clock {
            name: object.get("name").and_then(Value::as_str).unwrap_or(&id).to_owned(),
            uuid: object.get("uid").and_then(Value::as_str).and_then(super::uuid::parse_uuid),
            description: object.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
            frequency_hz: number(object, "frequency")?.filter(|&hz| hz > 0).ok_or("`frequency` is missing or 0")?,
            offset_s: part("seconds"),
            offset_cycles: part("cycles"),
            precision_cycles: number(object, "precision")?.unwrap_or(0),
            absolute: object.get("origin").and_then(Value::as_str) == Some("unix-epoch"),
            correction: None,
        };
        rules::offset(clock.offset_cycles, clock.frequency_hz)?;
        if self.clocks.insert(id.clone(), self.metadata.clocks.len()).is_some() {
            return Err(format!("the clock class `{id}` is declared twice"));
        }
        self.metadata.clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self, object: &Object) -> Result<(), String> {
        let mut class = StreamClass { id: number(object, "id")?.unwrap_or(0), ..StreamClass::default() };
        let clock = object.get("default-clock-class-id").and_then(Value::as_str);
        if let Some(id) = clock {
            class.clock = *self.clocks.get(id).ok_or_else(|| format!("the clock class `{id}` is not declared"))?;
        }
        let mut roots = [None; 6];
        roots[Origin::PacketHeader as usize] = self.metadata.packet_header;
        for (key, origin) in [
            ("packet-context-field-class", Origin::PacketContext),
            ("event-record-header-field-class", Origin::EventHeader),
            ("event-record-common-context-field-class", Origin::CommonContext),
        ] {
            roots[origin as usize] = self.part(object, key, origin, roots, clock.is_some())?;
        }
        class.packet_context = roots[Origin::PacketContext as usize];
        class.event_header = roots[Origin::EventHeader as usize];
        class.common_context = roots[Origin::CommonContext as usize];
        // The role has one name for both; in the packet context it is the begin.
        self.builder.for_ints(class.packet_context, true, |_, int| {
            if int.role == Some(Role::Time) {
                int.role = Some(Role::Begin);
            }
        });
        if self.streams.insert(class.id, self.metadata.streams.len()).is_some() {
            return Err(format!("data stream class {} is declared twice", class.id));
        }
        self.metadata.streams.push(class);
        Ok(())
    }

    fn event(&mut self, object: &Object) -> Result<(), String> {
        let id = number(object, "id")?.unwrap_or(0);
        let stream = number(object, "data-stream-class-id")?.unwrap_or(0);
        let index = *self.streams.get(&stream).ok_or_else(|| format!("data stream class {stream} is not declared"))?;
        let class = &self.metadata.streams[index];
        let mut roots = [None; 6];
        roots[Origin::PacketHeader as usize] = self.metadata.packet_header;
        roots[Origin::PacketContext as usize] = class.packet_context;
        roots[Origin::EventHeader as usize] = class.event_header;
        roots[Origin::CommonContext as usize] = class.common_context;
        let context = self.part(object, "specific-context-field-class", Origin::SpecificContext, roots, false)?;
        roots[Origin::SpecificContext as usize] = context;
        let payload = self.part(object, "payload-field-class", Origin::Payload, roots, false)?;
        let position = self.metadata.events.len() as u32;
        self.builder.charge_event(self.metadata.streams[index].common_context)?;
        if !self.metadata.streams[index].events.insert(id, position, &mut self.builder.table_room) {
            return Err(format!("event record class {id} of data stream class {stream} is declared twice"));
        }
        let name = object.get("name").and_then(Value::as_str);
        let name = name.map_or_else(|| format!("event {id}"), str::to_owned);
        self.metadata.events.push(EventClass { id, name, loglevel: None, stream: index, context, payload });
        Ok(())
    }

    fn part(
        &mut self,
        object: &Object,
        key: &str,
        origin: Origin,
        roots: [Option<ClassId>; 6],
        has_clock: bool,
    ) -> Result<Option<ClassId>, String> {
        let Some(class) = object.get(key) else { return Ok(None) };
        self.builder.begin(origin, roots);
        let has_uuid = self.metadata.uuid.is_some();
        self.roles.part = Some(Part { origin, has_clock, has_uuid });
        let class = self.class(class);
        self.roles.part = None;
        let class = class?;
        match self.builder.classes[class as usize].kind {
            ClassKind::Struct { .. } => Ok(Some(class)),
            _ => Err(format!("`{key}` must be a structure")),
        }
    }

    fn class(&mut self, class: &Value) -> Result<ClassId, String> {
        self.builder.enter()?;
        let id = match class {
            Value::String(name) => {
                let class = self.aliases.get(name).map(Rc::clone);
                let class = class.ok_or_else(|| format!("the field class alias `{name}` is not declared"))?;
                // It was looked at where it was declared.
                match self.stand_in {
                    Some(stand_in) => stand_in,
                    None => self.class(&class)?,
                }
            }
            Value::Object(object) => self.object(object)?,
            _ => return Err("a field class must be an object or the name of an alias".into()),
        };
        self.builder.leave();
        Ok(id)
    }

    fn object(&mut self, object: &Object) -> Result<ClassId, String> {
        let kind = text(object, "type")?;
        Shape::Class(kind).check(object)?;
        match kind {
            "fixed-length-unsigned-integer" | "fixed-length-bit-array" => self.int(object, false, View::Number),
            "fixed-length-bit-map" => {
                rules::flags(object)?;
                self.int(object, false, View::Number)
            }
            "fixed-length-signed-integer" => self.int(object, true, View::Number),
            "fixed-length-boolean" => self.int(object, false, View::Bool),
            "variable-length-unsigned-integer" | "variable-length-signed-integer" => {
                self.int(object, kind.contains("-signed"), View::Number)
            }
            "fixed-length-floating-point-number" => self.float(object),
            "null-terminated-string" => self.builder.push(8, ClassKind::NulText(encoding(object)?)),
            "static-length-string" | "dynamic-length-string" => {
                let (len, encoding) = (self.len(object)?, encoding(object)?);
                if let (Len::Fixed(bytes), Encoding::Wide { bytes: unit, .. }) = (&len, encoding) {
                    if bytes % u64::from(unit) != 0 {
                        return Err(format!("a text of {bytes} bytes in units of {unit} bytes ends inside of one"));
                    }
                }
                let kind = ClassKind::Text { len, encoding };
                self.builder.push(8, kind)
            }
            "static-length-blob" | "dynamic-length-blob" => {
                let len = self.len(object)?;
                let is_uuid = self.roles.blob(object, len == Len::Fixed(16))?;
                let class = self.builder.push(8, ClassKind::Bytes { len })?;
                self.uuid_role = if is_uuid { Some(class) } else { self.uuid_role };
                Ok(class)
            }
            "static-length-array" | "dynamic-length-array" => self.array(object),
            "structure" => self.structure(object),
            "variant" => self.variant(object),
            "optional" => self.optional(object),
            other => Err(match shape::is_of_drafts(other) {
                true => format!("field classes of type `{other}` are of {DRAFTS}"),
                false => format!("field classes of type `{other}` are not supported"),
            }),
        }
    }

    fn int(&mut self, object: &Object, signed: bool, view: View) -> Result<ClassId, String> {
        let variable = text(object, "type")?.starts_with("variable");
        let bits = match (variable, number(object, "length")?) {
            (true, _) => 0,
            (false, Some(bits @ 1..)) if bits <= u64::from(WIDE_BITS_MAX) => bits as u32,
            (false, Some(bits)) => {
                return Err(format!("integers have 1 to {WIDE_BITS_MAX} bits; {bits} are not supported"));
            }
            (false, None) => return Err("`length` is missing".into()),
        };
        let base = base(object)?;
        let order = if variable { Order::Little } else { order(object)? };
        let labels = object.get("mappings").and_then(Value::as_object).map(|of| self.labels(of, signed)).transpose()?;
        let align = if variable { 8 } else { alignment(object, "alignment")? };
        let role = self.roles.integer(object, &mut self.remarks)?;
        if bits > 64 {
            if role.is_some() {
                return Err(format!("an integer of {bits} bits has a role: the reader takes 64 for {TAKEN_FOR}"));
            }
            return self.builder.push(align, ClassKind::Wide(WideClass { bits, signed, order, base, view, labels }));
        }
        let bits = bits as u8;
        let int = Int { bits, signed, order, base, view, save: None, role, labels, encoding: None, clock: None };
        self.builder.push(align, ClassKind::Int(int))
    }

    fn labels(&mut self, mappings: &Object, signed: bool) -> Result<Arc<Labels>, String> {
        let mut list = Vec::new();
        for (label, value) in mappings {
            let ranges = ranges(value)?;
            if ranges.is_empty() {
                return Err(format!("the mapping `{label}` needs a range at least"));
            }
            if !signed && ranges.iter().any(|(low, _)| *low < 0) {
                return Err(format!("the mapping `{label}` of an integer without a sign has a value below 0"));
            }
            list.extend(ranges.into_iter().map(|(low, high)| (label.as_str().into(), low, high)));
        }
        self.builder.charge(list.len())?;
        Ok(Arc::new(Labels::new(list)))
    }

    fn float(&mut self, object: &Object) -> Result<ClassId, String> {
        let (order, align) = (order(object)?, alignment(object, "alignment")?);
        let kind = match number(object, "length")? {
            Some(bits @ (16 | 32 | 64)) => ClassKind::Float { bits: bits as u8, order },
            Some(bits) => {
                let bits = u32::try_from(bits).ok().filter(|&bits| exponent_bits(bits).is_some()).ok_or_else(|| {
                    format!("floating point numbers have 16, 32, 64, 128 bits, or more in steps of 32; {bits} are none")
                })?;
                let what = format!("floats of {bits} bits are shown as the nearest one of 64 bits");
                if !self.remarks.contains(&what) {
                    self.remarks.push(what);
                }
                ClassKind::WideFloat { bits, order }
            }
            None => return Err("`length` is missing".into()),
        };
        self.builder.push(align, kind)
    }

    fn array(&mut self, object: &Object) -> Result<ClassId, String> {
        let len = self.len(object)?;
        let element = self.class(object.get("element-field-class").ok_or("`element-field-class` is missing")?)?;
        let align = self.builder.classes[element as usize].align.max(alignment(object, "minimum-alignment")?);
        let byte = self.builder.int(element);
        let is_dense = self.builder.classes[element as usize].align <= 8;
        let is_plain = |order: Order| matches!(order, Order::Little | Order::Big);
        // As in CTF 1.8, where bytes have no other form: both formats show the same thing.
        let bytes = matches!(byte, Some(Int { bits: 8, signed: false, base: Base::Hexadecimal, labels: None, order, .. })
            if is_dense && is_plain(*order));
        let kind = match len {
            Len::Saved(_) if bytes && align >= 8 => ClassKind::Bytes { len },
            _ => ClassKind::Array { len, element },
        };
        self.builder.push(align, kind)
    }

    fn structure(&mut self, object: &Object) -> Result<ClassId, String> {
        self.builder.open_struct();
        let none = Vec::new();
        for member in object.get("member-classes").and_then(Value::as_array).unwrap_or(&none) {
            let member = member.as_object().ok_or("a member must be an object")?;
            Shape::Member.check(member)?;
            let name = text(member, "name")?;
            self.builder.begin_member(name);
            let class = self.class(member.get("field-class").ok_or("`field-class` of a member is missing")?)?;
            self.builder.member(name, name, class)?;
        }
        self.builder.close_struct(alignment(object, "minimum-alignment")?)
    }
}

/// An extension may change what anything means, so a reader that does not know it must not go on.
fn no_extensions(preamble: &Object) -> Result<(), String> {
    let spaces = preamble.get("extensions").and_then(Value::as_object);
    let named =
        spaces.into_iter().flatten().filter(|(_, space)| space.as_object().is_none_or(|space| !space.is_empty()));
    let names: Vec<&str> = named.map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(format!("the trace needs extensions of {}, which this reader does not have", names.join(", ")))
}

fn text<'v>(object: &'v Object, key: &str) -> Result<&'v str, String> {
    object.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is missing or not a text"))
}

fn number(object: &Object, key: &str) -> Result<Option<u64>, String> {
    match object.get(key) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("`{key}` must be a number from 0 to 2^64 - 1")),
    }
}

fn order(object: &Object) -> Result<Order, String> {
    let is_little = match text(object, "byte-order")? {
        "little-endian" => true,
        "big-endian" => false,
        other => return Err(format!("the byte order `{other}` does not exist")),
    };
    match (is_little, object.get("bit-order").and_then(Value::as_str)) {
        (true, None | Some("first-to-last")) => Ok(Order::Little),
        (true, Some("last-to-first")) => Ok(Order::LittleReversed),
        (false, None | Some("last-to-first")) => Ok(Order::Big),
        (false, Some("first-to-last")) => Ok(Order::BigReversed),
        (_, Some(other)) => Err(format!("the bit order `{other}` does not exist")),
    }
}

fn base(object: &Object) -> Result<Base, String> {
    match number(object, "preferred-display-base")? {
        Some(2) => Ok(Base::Binary),
        Some(8) => Ok(Base::Octal),
        Some(16) => Ok(Base::Hexadecimal),
        None | Some(10) => Ok(Base::Decimal),
        Some(other) => Err(format!("`preferred-display-base` is 2, 8, 10 or 16, not {other}")),
    }
}

fn alignment(object: &Object, key: &str) -> Result<u32, String> {
    match number(object, key)?.unwrap_or(1) {
        bits if bits.is_power_of_two() && bits <= 1 << 20 => Ok(bits as u32),
        bits => Err(format!("`{key}` is a power of two, in bits; {bits} is none")),
    }
}

fn encoding(object: &Object) -> Result<Encoding, String> {
    match object.get("encoding").and_then(Value::as_str).unwrap_or("utf-8") {
        "utf-8" => Ok(Encoding::Utf8),
        "utf-16le" => Ok(Encoding::Wide { bytes: 2, order: Order::Little }),
        "utf-16be" => Ok(Encoding::Wide { bytes: 2, order: Order::Big }),
        "utf-32le" => Ok(Encoding::Wide { bytes: 4, order: Order::Little }),
        "utf-32be" => Ok(Encoding::Wide { bytes: 4, order: Order::Big }),
        other => Err(format!("the encoding `{other}` is not supported")),
    }
}

fn uuid(value: &Value) -> Option<[u8; 16]> {
    let bytes: Option<Vec<u8>> = value.as_array()?.iter().map(|b| u8::try_from(b.as_u64()?).ok()).collect();
    bytes?.try_into().ok()
}
