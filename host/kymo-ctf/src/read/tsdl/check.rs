// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types that are declared: whether they make sense, whether or not they are used. What a length or a tag refers to
//! depends on the place of use, and is looked for there.

use std::collections::HashSet;
use std::rc::Rc;

use super::ast::{Decl, Label, Spec, Type};
use super::fault::{Fault, Pos};
use super::resolve::{Resolver, TsdlInt, alignment, label_set};
use crate::read::build::DEPTH_MAX;
use crate::read::labels::Labels;

impl Resolver {
    /// A type at its declaration. Names that it declares within itself are known to what follows in it.
    pub fn check(&mut self, ty: &Rc<Type>) -> Result<(), Fault> {
        match &ty.spec {
            Spec::Integer(attrs) => self.int(attrs, ty.pos).map(drop),
            Spec::Float(attrs) => self.float(attrs, ty.pos).map(drop),
            Spec::Text(attrs) => self.text(attrs).map(drop),
            Spec::Enum { labels: None, name: Some(name), .. } => self.known(&format!("enum {name}"), ty.pos),
            Spec::Enum { .. } => self.labels_once(ty).map(drop),
            Spec::Struct { body: Some(body), align, .. } => {
                alignment((*align).into(), ty.pos)?;
                self.charge(body.len(), ty.pos)?;
                self.check_body(body, "structure")
            }
            Spec::Struct { name, .. } => self.known(&format!("struct {}", name.as_deref().unwrap_or_default()), ty.pos),
            Spec::Variant { body: Some(body), .. } if body.is_empty() => Err(ty.pos.fault("a variant without options")),
            Spec::Variant { body: Some(body), .. } => {
                self.charge(body.len(), ty.pos)?;
                self.check_body(body, "variant")
            }
            Spec::Variant { name, .. } => {
                self.known(&format!("variant {}", name.as_deref().unwrap_or_default()), ty.pos)
            }
            Spec::Named(name) => self.known(name, ty.pos),
        }
    }

    fn check_body(&mut self, body: &[Decl], what: &str) -> Result<(), Fault> {
        self.open_scope();
        let mut names = HashSet::new();
        for decl in body {
            let Decl::Field { ty, name, pos, .. } = decl else {
                self.declare(decl)?;
                continue;
            };
            self.check(ty)?;
            self.declare_name(ty)?;
            if !names.insert(name) {
                return Err(pos.fault(format!("the {what} has two members `{name}`")));
            }
        }
        self.close_scope();
        Ok(())
    }

    fn known(&self, name: &str, pos: Pos) -> Result<(), Fault> {
        self.lookup(name, pos).map(drop)
    }

    /// The labels of an enumeration that has a body: they must be values of its integer.
    pub fn labels_of(&mut self, ty: &Rc<Type>) -> Result<Labels, Fault> {
        let pos = ty.pos;
        let Spec::Enum { container, labels: Some(labels), .. } = &ty.spec else {
            return Err(pos.fault("not an enumeration"));
        };
        let int = match container {
            Some(container) => self.integer_of(container, 0)?,
            // The specification's default.
            None => {
                let int = self.lookup("int", pos);
                let int = int.map_err(|_| pos.fault("an enumeration without a type needs the type `int`"))?;
                self.integer_of(&int.ty, 0)?
            }
        };
        let int = int.ok_or_else(|| pos.fault("the type of an enumeration must be an integer"))?;
        in_range(labels, &int, pos)?;
        label_set(labels)
    }

    /// The integer that a type stands for.
    fn integer_of(&self, ty: &Type, depth: usize) -> Result<Option<TsdlInt>, Fault> {
        match &ty.spec {
            Spec::Integer(attrs) => self.int(attrs, ty.pos).map(Some),
            Spec::Named(name) if depth < DEPTH_MAX => {
                let alias = self.lookup(name, ty.pos)?;
                match alias.dims.is_empty() {
                    true => self.integer_of(&alias.ty, depth + 1),
                    false => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }
}

/// Each label has values that the integer can have. Those without a value follow the one before.
fn in_range(labels: &[Label], of: &TsdlInt, pos: Pos) -> Result<(), Fault> {
    if labels.is_empty() {
        return Err(pos.fault("an enumeration without labels"));
    }
    let (int, bits) = (&of.int, of.bits);
    // Numbers of the text have 65 bits at most, sign included.
    let bits_of_text = bits.min(66);
    let (least, most) = match int.signed {
        true => (-(1i128 << (bits_of_text - 1)), (1i128 << (bits_of_text - 1)) - 1),
        false => (0, (1i128 << bits_of_text) - 1),
    };
    let mut next = 0;
    for label in labels {
        let (low, high) = label.range.unwrap_or((next, next));
        if low < least || high > most {
            let kind = if int.signed { "a signed" } else { "an unsigned" };
            let range = if low == high { format!("{low}") } else { format!("{low} ... {high}") };
            let what = format!("label `{}` is {range}, which {kind} integer of {bits} bits cannot be", label.name);
            return Err(label.pos.fault(what));
        }
        next = high + 1;
    }
    Ok(())
}
