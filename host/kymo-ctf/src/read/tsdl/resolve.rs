// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSDL types to field classes: aliases and their scopes, attributes, references.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Attr, Decl, Dim, Expr, Label, Spec, Type};
use super::fault::{Fault, Pos};
use crate::read::build::{Builder, Origin};
use crate::read::class::{Base, Choice, ClassId, ClassKind, Encoding, Int, Labels, Len, Order, View, WideClass};
use crate::read::wide::{WIDE_BITS_MAX, exponent_bits};

/// Steps that a declaration costs: a name is copied and looked up.
const DECLARATION_STEPS: usize = 16;

/// A name of a type, and what it stands for.
#[derive(Clone)]
pub(super) struct Alias {
    pub ty: Rc<Type>,
    pub dims: Vec<Dim>,
}

pub(super) struct Resolver {
    pub builder: Builder,
    pub native: Order,
    /// Positions of the clocks by name.
    pub clocks: HashMap<String, usize>,
    scopes: Vec<HashMap<String, Alias>>,
    /// What was passed over, by line and column: a type is made anew for each use.
    pub remarks: RefCell<BTreeMap<(u32, u32), Fault>>,
    /// Labels by the address of their type, which the document keeps alive: an enumeration may be used often.
    labels: HashMap<*const Type, Arc<Labels>>,
}

impl Resolver {
    pub fn new(builder: Builder, native: Order) -> Self {
        let (clocks, scopes) = (HashMap::new(), vec![HashMap::new()]);
        Self { builder, native, clocks, scopes, remarks: RefCell::default(), labels: HashMap::new() }
    }

    /// Enters a block, whose names end with it.
    pub fn open_scope(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub fn close_scope(&mut self) {
        self.scopes.pop();
    }

    /// A declaration outside of structures, where only names of types make sense.
    pub fn declare(&mut self, decl: &Decl) -> Result<(), Fault> {
        match decl {
            Decl::Alias { ty, name, dims } => {
                self.charge(DECLARATION_STEPS + dims.len(), ty.pos)?;
                self.check(ty)?;
                self.declare_name(ty)?;
                self.define(name.clone(), ty, dims)
            }
            Decl::Bare(ty) => {
                self.charge(DECLARATION_STEPS, ty.pos)?;
                self.check(ty)?;
                self.declare_name(ty)
            }
            Decl::Field { name, pos, .. } => Err(pos.fault(format!("the field `{name}` is not inside a structure"))),
        }
    }

    /// Counts steps of work: what is declared within a type is declared anew for each use of it.
    pub fn charge(&mut self, steps: usize, pos: Pos) -> Result<(), Fault> {
        self.builder.charge(steps).map_err(|what| pos.fault(what))
    }

    fn define(&mut self, name: String, ty: &Rc<Type>, dims: &[Dim]) -> Result<(), Fault> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        match scope.entry(name) {
            // A type is made anew for each use, and names itself each time.
            Entry::Occupied(known) if !Rc::ptr_eq(&known.get().ty, ty) => {
                Err(ty.pos.fault(format!("the type `{}` is declared twice", known.key())))
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(free) => {
                free.insert(Alias { ty: Rc::clone(ty), dims: dims.to_vec() });
                Ok(())
            }
        }
    }

    /// `struct x { ... }` makes `struct x` known from there on.
    pub fn declare_name(&mut self, ty: &Rc<Type>) -> Result<(), Fault> {
        let name = match &ty.spec {
            Spec::Enum { name: Some(name), labels: Some(_), .. } => format!("enum {name}"),
            Spec::Struct { name: Some(name), body: Some(_), .. } => format!("struct {name}"),
            Spec::Variant { name: Some(name), body: Some(_), .. } => format!("variant {name}"),
            _ => return Ok(()),
        };
        self.define(name, ty, &[])
    }

    pub fn lookup(&self, name: &str, pos: Pos) -> Result<Alias, Fault> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.cloned().ok_or_else(|| pos.fault(format!("the type `{name}` is not declared")))
    }

    /// The class of `ty`, made anew for each use: what it refers to depends on the place.
    pub fn class(&mut self, ty: &Rc<Type>) -> Result<ClassId, Fault> {
        let at = |what: String| ty.pos.fault(what);
        self.builder.enter().map_err(at)?;
        let class = match &ty.spec {
            Spec::Integer(attrs) => {
                let TsdlInt { int, bits, align } = self.int(attrs, ty.pos)?;
                self.builder.push(align, int_kind(int, bits)).map_err(at)?
            }
            Spec::Float(attrs) => {
                let (kind, align) = self.float(attrs, ty.pos)?;
                self.builder.push(align, kind).map_err(at)?
            }
            Spec::Text(attrs) => {
                let encoding = self.text(attrs)?;
                self.builder.push(8, ClassKind::NulText(encoding)).map_err(at)?
            }
            Spec::Enum { .. } => self.enumeration(ty)?,
            Spec::Struct { name: Some(name), body: None, .. } => self.named(&format!("struct {name}"), ty.pos)?,
            Spec::Struct { body, align, .. } => self.structure(body.as_deref().unwrap_or_default(), *align, ty.pos)?,
            Spec::Variant { tag, .. } => self.variant(ty, tag.as_deref())?,
            Spec::Named(name) => self.named(name, ty.pos)?,
        };
        self.builder.leave();
        Ok(class)
    }

    fn named(&mut self, name: &str, pos: Pos) -> Result<ClassId, Fault> {
        let alias = self.lookup(name, pos)?;
        self.with_dims(&alias.ty, &alias.dims, pos)
    }

    fn with_dims(&mut self, ty: &Rc<Type>, dims: &[Dim], pos: Pos) -> Result<ClassId, Fault> {
        let mut class = self.class(ty)?;
        for dim in dims.iter().rev() {
            class = self.array(class, dim, pos)?;
        }
        Ok(class)
    }

    fn array(&mut self, element: ClassId, dim: &Dim, pos: Pos) -> Result<ClassId, Fault> {
        let at = |what: String| pos.fault(what);
        let len = match dim {
            Dim::Fixed(count) => Len::Fixed(*count),
            Dim::Field(path) => {
                let target = self.reference(path).map_err(at)?;
                Len::Saved(self.builder.length(target, path).map_err(at)?)
            }
        };
        let align = self.builder.classes[element as usize].align;
        let byte = self.builder.int(element).filter(|int| int.bits == 8 && align == 8 && int.labels.is_none());
        let kind = match byte {
            Some(Int { encoding: Some(encoding), .. }) => ClassKind::Text { len, encoding: *encoding },
            Some(Int { signed: false, base: Base::Hexadecimal, .. }) if matches!(len, Len::Saved(_)) => {
                ClassKind::Bytes { len }
            }
            _ => ClassKind::Array { len, element },
        };
        self.builder.push(align, kind).map_err(at)
    }

    /// `stream.event.header.id` and the like begin at a part; other paths at the nearest member of their first name.
    fn reference(&mut self, path: &[String]) -> Result<ClassId, String> {
        const PARTS: [(&[&str], Origin); 6] = [
            (&["trace", "packet", "header"], Origin::PacketHeader),
            (&["stream", "packet", "context"], Origin::PacketContext),
            (&["stream", "event", "header"], Origin::EventHeader),
            (&["stream", "event", "context"], Origin::CommonContext),
            (&["event", "context"], Origin::SpecificContext),
            (&["event", "fields"], Origin::Payload),
        ];
        for (prefix, origin) in PARTS {
            if path.len() > prefix.len() && path.iter().zip(prefix).all(|(a, b)| a == b) {
                return self.builder.find(Some(origin), &path[prefix.len()..]);
            }
        }
        self.builder.find(None, path)
    }

    fn structure(&mut self, body: &[Decl], align: u64, pos: Pos) -> Result<ClassId, Fault> {
        let align = alignment(i128::from(align), pos)?;
        self.open_scope();
        self.builder.open_struct();
        for decl in body {
            match decl {
                Decl::Field { ty, name, dims, pos } => {
                    // The elements of an array have no path.
                    if dims.is_empty() {
                        self.builder.begin_member(name);
                    }
                    let class = self.with_dims(ty, dims, *pos)?;
                    self.declare_name(ty)?;
                    self.builder.member(name, stripped(name), class).map_err(|what| pos.fault(what))?;
                }
                other => self.declare(other)?,
            }
        }
        self.close_scope();
        self.builder.close_struct(align).map_err(|what| pos.fault(what))
    }

    fn variant(&mut self, ty: &Rc<Type>, tag: Option<&[String]>) -> Result<ClassId, Fault> {
        let pos = ty.pos;
        let at = |what: String| pos.fault(what);
        let Some(tag) = tag else { return Err(pos.fault("a variant needs a tag, `variant <field>`")) };
        let mut body = Rc::clone(ty);
        if let Spec::Variant { name: Some(name), body: None, .. } = &ty.spec {
            body = self.lookup(&format!("variant {name}"), pos)?.ty;
        }
        let Spec::Variant { body: Some(decls), .. } = &body.spec else {
            return Err(pos.fault("a variant without options"));
        };
        if decls.is_empty() {
            return Err(pos.fault("a variant without options"));
        }
        let target = self.reference(tag).map_err(at)?;
        let labels = self.builder.labels(target);
        let labels = labels.ok_or_else(|| pos.fault(format!("the tag `{}` is not an enumeration", tag.join("."))))?;
        let slot = self.builder.slot(target, tag).map_err(at)?;
        self.open_scope();
        let mut names = HashSet::new();
        let mut order: Vec<&str> = Vec::new();
        let mut options = Vec::with_capacity(decls.len());
        for decl in decls {
            match decl {
                Decl::Field { ty, name, dims, pos } => {
                    let class = self.with_dims(ty, dims, *pos)?;
                    self.declare_name(ty)?;
                    if !names.insert(name) {
                        return Err(pos.fault(format!("the variant has two members `{name}`")));
                    }
                    order.push(name);
                    let of_label = labels.ranges(name).or_else(|| labels.ranges(stripped(name)));
                    let none = || pos.fault(format!("the tag's enumeration has no label `{name}`"));
                    options.push(Choice { ranges: of_label.ok_or_else(none)?, class });
                }
                other => self.declare(other)?,
            }
        }
        self.close_scope();
        let kind = match self.is_optional(tag, &order, &options) {
            true => {
                let some = options.swap_remove(1);
                ClassKind::Optional { slot, ranges: some.ranges, element: some.class, clears: Vec::new() }
            }
            false => ClassKind::Variant { slot, options, clears: Vec::new() },
        };
        self.builder.push(1, kind).map_err(at)
    }

    /// Whether a variant is how our export writes an optional field, which CTF 1.8 does not have: by a tag
    /// `__NAME_option`, an empty structure `none`, or `some`.
    fn is_optional(&self, tag: &[String], names: &[&str], options: &[Choice]) -> bool {
        let is_ours = |tag: &String| tag.starts_with("__") && tag.ends_with("_option");
        let is_empty = |option: &Choice| match &self.builder.classes[option.class as usize].kind {
            ClassKind::Struct { members } => members.is_empty(),
            _ => false,
        };
        tag.last().is_some_and(is_ours) && names == ["none", "some"] && options.first().is_some_and(is_empty)
    }

    fn enumeration(&mut self, ty: &Rc<Type>) -> Result<ClassId, Fault> {
        let pos = ty.pos;
        let Spec::Enum { name, container, labels } = &ty.spec else { return Err(pos.fault("not an enumeration")) };
        if labels.is_none() {
            return self.named(&format!("enum {}", name.as_deref().unwrap_or_default()), pos);
        }
        let container = match container {
            Some(container) => self.class(container)?,
            // The specification's default.
            None => {
                self.named("int", pos).map_err(|_| pos.fault("an enumeration without a type needs the type `int`"))?
            }
        };
        let set = Some(self.labels_once(ty)?);
        match &mut self.builder.classes[container as usize].kind {
            ClassKind::Int(int) => {
                int.labels = set;
                if name.as_deref() == Some("kymo_bool") {
                    int.view = View::StrictBool;
                }
            }
            ClassKind::Wide(wide) => wide.labels = set,
            _ => return Err(pos.fault("the type of an enumeration must be an integer")),
        }
        Ok(container)
    }

    /// The labels of an enumeration that has a body, made at its first use.
    pub fn labels_once(&mut self, ty: &Rc<Type>) -> Result<Arc<Labels>, Fault> {
        if let Some(set) = self.labels.get(&Rc::as_ptr(ty)) {
            return Ok(Arc::clone(set));
        }
        let set = Arc::new(self.labels_of(ty)?);
        self.labels.insert(Rc::as_ptr(ty), Arc::clone(&set));
        Ok(set)
    }

    /// An attribute that the specification does not have: it cannot change what bits mean.
    fn pass_over(&self, attr: &Attr, owner: &str) {
        let what = format!("{owner} has no attribute `{}`; it was passed over", attr.name);
        self.remarks.borrow_mut().insert((attr.pos.line, attr.pos.column), attr.pos.fault(what));
    }

    /// The encoding of a `string`.
    pub fn text(&self, attrs: &[Attr]) -> Result<Encoding, Fault> {
        let mut encoding = Encoding::Utf8;
        for attr in attrs {
            match attr.name.as_str() {
                "encoding" => encoding = text_encoding(attr)?.unwrap_or(Encoding::Utf8),
                _ => self.pass_over(attr, "a string"),
            }
        }
        Ok(encoding)
    }

    /// An `integer`, and its alignment.
    pub fn int(&self, attrs: &[Attr], pos: Pos) -> Result<TsdlInt, Fault> {
        let mut int = Int {
            bits: 0,
            signed: false,
            order: self.native,
            base: Base::Decimal,
            view: View::Number,
            save: None,
            role: None,
            labels: None,
            encoding: None,
            clock: None,
        };
        let (mut align, mut bits) = (None, 0);
        for attr in attrs {
            match attr.name.as_str() {
                "size" => bits = int_size(attr)?,
                "align" => align = Some(alignment(number(attr)?, attr.pos)?),
                "signed" => int.signed = boolean(attr)?,
                "byte_order" => int.order = self.order(attr)?,
                "base" => int.base = base(attr)?,
                "encoding" => int.encoding = text_encoding(attr)?,
                "map" => int.clock = Some(self.clock(attr)?),
                _ => self.pass_over(attr, "an integer"),
            }
        }
        if bits == 0 {
            return Err(pos.fault("an integer needs its `size`"));
        }
        if bits > 64 && int.clock.is_some() {
            return Err(
                pos.fault(format!("an integer of {bits} bits is no time of a clock: the reader takes 64 for it"))
            );
        }
        int.bits = bits.min(64) as u8;
        let natural = if bits % 8 == 0 { 8 } else { 1 };
        Ok(TsdlInt { int, bits, align: align.unwrap_or(natural) })
    }

    /// A `floating_point`, and its alignment.
    pub fn float(&self, attrs: &[Attr], pos: Pos) -> Result<(ClassKind, u32), Fault> {
        let (mut exponent, mut mantissa, mut order, mut align) = (0, 0, self.native, 8);
        for attr in attrs {
            match attr.name.as_str() {
                "exp_dig" => exponent = number(attr)?,
                "mant_dig" => mantissa = number(attr)?,
                "byte_order" => order = self.order(attr)?,
                "align" => align = alignment(number(attr)?, attr.pos)?,
                _ => self.pass_over(attr, "a floating point number"),
            }
        }
        let bits = match (exponent, mantissa) {
            (5, 11) => 16,
            (8, 24) => 32,
            (11, 53) => 64,
            _ => return Ok((self.wide_float(exponent, mantissa, order, pos)?, align)),
        };
        Ok((ClassKind::Float { bits, order }, align))
    }

    /// One of 128 bits or more, which are exponent and mantissa: the sign takes the place of the mantissa's first bit.
    fn wide_float(&self, exponent: i128, mantissa: i128, order: Order, pos: Pos) -> Result<ClassKind, Fault> {
        let bits = exponent.checked_add(mantissa).and_then(|bits| u32::try_from(bits).ok());
        let bits = bits.filter(|&bits| exponent_bits(bits).map(i128::from) == Some(exponent)).ok_or_else(|| {
            pos.fault(format!(
                "floating point numbers of exp_dig {exponent} and mant_dig {mantissa} are not of IEEE 754: 5 and 11, 8 and 24, 11 and \
                 53, 15 and 113 are"
            ))
        })?;
        let what = format!("floats of {bits} bits are shown as the nearest one of 64 bits");
        self.remarks.borrow_mut().insert((pos.line, pos.column), pos.fault(what));
        Ok(ClassKind::WideFloat { bits, order })
    }

    /// Value of a `byte_order` attribute.
    pub fn order(&self, attr: &Attr) -> Result<Order, Fault> {
        match keyword(attr).as_deref() {
            Some("le") => Ok(Order::Little),
            Some("be" | "network") => Ok(Order::Big),
            Some("native") => Ok(self.native),
            _ => Err(attr.pos.fault("a byte order is `le`, `be`, `network` or `native`")),
        }
    }

    fn clock(&self, attr: &Attr) -> Result<usize, Fault> {
        let Expr::Path(path) = &attr.value else { return Err(attr.pos.fault("`map` takes `clock.NAME.value`")) };
        match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["clock", name, "value"] | ["clock", name] => {
                let found = self.clocks.get(name).copied();
                found.ok_or_else(|| attr.pos.fault(format!("the clock `{name}` is not declared")))
            }
            _ => Err(attr.pos.fault("`map` takes `clock.NAME.value`")),
        }
    }
}

/// One `_` in front is there only to keep a name from meeting a keyword.
fn stripped(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

pub(super) fn label_set(labels: &[Label]) -> Result<Labels, Fault> {
    let mut next = 0;
    let mut list = Vec::with_capacity(labels.len());
    for label in labels {
        let (low, high) = label.range.unwrap_or((next, next));
        if high < low {
            return Err(label.pos.fault(format!("the range of label `{}` ends before it begins", label.name)));
        }
        list.push((label.name.as_str().into(), low, high));
        next = high + 1;
    }
    Ok(Labels::new(list))
}

/// The text of a word or string value.
pub(super) fn word(attr: &Attr) -> Option<String> {
    match &attr.value {
        Expr::Text(text) => Some(text.clone()),
        Expr::Path(path) => Some(path.join(".")),
        Expr::Int(_) => None,
    }
}

/// A word that stands without quotes.
pub(super) fn keyword(attr: &Attr) -> Option<String> {
    match &attr.value {
        Expr::Path(path) => Some(path.join(".")),
        Expr::Text(_) | Expr::Int(_) => None,
    }
}

pub(super) fn number(attr: &Attr) -> Result<i128, Fault> {
    match attr.value {
        Expr::Int(value) => Ok(value),
        _ => Err(attr.pos.fault(format!("`{}` takes a number", attr.name))),
    }
}

pub(super) fn boolean(attr: &Attr) -> Result<bool, Fault> {
    match (&attr.value, keyword(attr).as_deref()) {
        (Expr::Int(value @ (0 | 1)), _) => Ok(*value == 1),
        (_, Some("true" | "TRUE")) => Ok(true),
        (_, Some("false" | "FALSE")) => Ok(false),
        _ => Err(attr.pos.fault(format!("`{}` takes `true` or `false`", attr.name))),
    }
}

/// An `integer`: what it is, if it has 64 bits at most, its bits, and its alignment.
pub(super) struct TsdlInt {
    pub int: Int,
    pub bits: u32,
    align: u32,
}

fn int_kind(int: Int, bits: u32) -> ClassKind {
    let Int { signed, order, base, view, .. } = int;
    match bits {
        0..=64 => ClassKind::Int(int),
        _ => ClassKind::Wide(WideClass { bits, signed, order, base, view, labels: None }),
    }
}

fn int_size(attr: &Attr) -> Result<u32, Fault> {
    let bits = number(attr)?;
    let size = u32::try_from(bits).ok().filter(|size| (1..=WIDE_BITS_MAX).contains(size));
    size.ok_or_else(|| attr.pos.fault(format!("integers have 1 to {WIDE_BITS_MAX} bits; {bits} are not supported")))
}

pub(super) fn alignment(bits: i128, pos: Pos) -> Result<u32, Fault> {
    match u32::try_from(bits) {
        Ok(bits) if bits.is_power_of_two() && bits <= 1 << 20 => Ok(bits),
        _ => Err(pos.fault(format!("an alignment is a power of two, in bits; {bits} is none"))),
    }
}

fn base(attr: &Attr) -> Result<Base, Fault> {
    if let Expr::Int(value) = attr.value {
        match value {
            2 => return Ok(Base::Binary),
            8 => return Ok(Base::Octal),
            10 => return Ok(Base::Decimal),
            16 => return Ok(Base::Hexadecimal),
            _ => {}
        }
    }
    match keyword(attr).as_deref() {
        Some("decimal" | "dec" | "d" | "i" | "u") => Ok(Base::Decimal),
        Some("hexadecimal" | "hex" | "x" | "X" | "p") => Ok(Base::Hexadecimal),
        Some("octal" | "oct" | "o") => Ok(Base::Octal),
        Some("binary" | "b") => Ok(Base::Binary),
        _ => Err(attr.pos.fault("a base is 2, 8, 10 or 16")),
    }
}

fn text_encoding(attr: &Attr) -> Result<Option<Encoding>, Fault> {
    match keyword(attr).as_deref() {
        Some("none") => Ok(None),
        Some("UTF8" | "utf8" | "UTF-8" | "utf-8" | "ASCII" | "ascii") => Ok(Some(Encoding::Utf8)),
        _ => Err(attr.pos.fault("an encoding is UTF8, ASCII or none")),
    }
}
