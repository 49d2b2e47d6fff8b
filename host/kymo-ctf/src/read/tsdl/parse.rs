// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSDL tokens to the tree, by recursive descent. Nesting is bounded, so that no text can exhaust the stack.

use std::collections::HashSet;
use std::rc::Rc;

use super::ast::{Attr, BlockKind, Decl, Dim, Entry, Expr, Item, Label, Spec, Type};
use super::fault::{Fault, Pos};
use super::lex::Token;
use crate::read::build::DEPTH_MAX;

/// Words that name nothing.
const KEYWORDS: [&str; 28] = [
    "align",
    "callsite",
    "char",
    "clock",
    "const",
    "double",
    "enum",
    "env",
    "event",
    "float",
    "floating_point",
    "int",
    "integer",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// Those of them that names of types of C consist of.
const OF_TYPES: [&str; 16] = [
    "char",
    "const",
    "double",
    "enum",
    "float",
    "int",
    "long",
    "short",
    "signed",
    "struct",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// With what a path begins that names a field from the root of a part.
const PARTS: [&[&str]; 6] = [
    &["trace", "packet", "header"],
    &["stream", "packet", "context"],
    &["stream", "event", "header"],
    &["stream", "event", "context"],
    &["event", "context"],
    &["event", "fields"],
];

fn no_keyword(name: &str, pos: Pos) -> Result<&str, Fault> {
    match KEYWORDS.contains(&name) {
        true => Err(pos.fault(format!("`{name}` is a keyword and no name; tracers put a `_` in front of such a name"))),
        false => Ok(name),
    }
}

/// Each name is given once.
fn once<'n>(names: impl Iterator<Item = (&'n str, Pos)>) -> Result<(), Fault> {
    let mut given = HashSet::new();
    for (name, pos) in names {
        if !given.insert(name) {
            return Err(pos.fault(format!("`{name}` is given twice")));
        }
    }
    Ok(())
}

struct Parser<'t, 'a> {
    tokens: &'t [(Token<'a>, Pos)],
    at: usize,
    depth: usize,
}

/// The whole file. `tokens` ends with [`Token::End`].
pub(super) fn document(tokens: &[(Token<'_>, Pos)]) -> Result<Vec<Item>, Fault> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let mut items = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(items),
            Token::Punct(";") => parser.at += 1,
            _ => parser.item(&mut items)?,
        }
    }
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> &Token<'a> {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn peek_after(&self) -> &Token<'a> {
        self.tokens.get(self.at + 1).map_or(&Token::End, |(token, _)| token)
    }

    fn pos(&self) -> Pos {
        let last = self.tokens.len().saturating_sub(1);
        self.tokens.get(self.at.min(last)).map_or(Pos { line: 1, column: 1 }, |&(_, pos)| pos)
    }

    fn expected<T>(&self, what: &str) -> Result<T, Fault> {
        let torn = *self.peek() == Token::End;
        Err(Fault { torn, ..self.pos().fault(format!("expected {what}, found {}", self.peek().shown())) })
    }

    fn take(&mut self, punct: &str) -> bool {
        let found = matches!(self.peek(), Token::Punct(p) if *p == punct);
        self.at += usize::from(found);
        found
    }

    fn need(&mut self, punct: &str) -> Result<(), Fault> {
        if self.take(punct) { Ok(()) } else { self.expected(&format!("`{punct}`")) }
    }

    fn take_word(&mut self) -> Option<&'a str> {
        let Token::Word(word) = *self.peek() else { return None };
        self.at += 1;
        Some(word)
    }

    fn need_word(&mut self, what: &str) -> Result<&'a str, Fault> {
        match self.take_word() {
            Some(word) => Ok(word),
            None => self.expected(what),
        }
    }

    /// A name that the text gives to something.
    fn need_name(&mut self, what: &str) -> Result<&'a str, Fault> {
        let pos = self.pos();
        let name = self.need_word(what)?;
        no_keyword(name, pos)
    }

    /// The name of a type that has one.
    fn take_name(&mut self) -> Result<Option<String>, Fault> {
        let pos = self.pos();
        self.take_word().map(|name| no_keyword(name, pos).map(str::to_owned)).transpose()
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Result<(), Fault> {
        let pos = self.pos();
        let kind = match (self.peek(), self.peek_after()) {
            (Token::Word("trace"), Token::Punct("{")) => BlockKind::Trace,
            (Token::Word("env"), Token::Punct("{")) => BlockKind::Env,
            (Token::Word("clock"), Token::Punct("{")) => BlockKind::Clock,
            (Token::Word("stream"), Token::Punct("{")) => BlockKind::Stream,
            (Token::Word("event"), Token::Punct("{")) => BlockKind::Event,
            (Token::Word("callsite"), Token::Punct("{")) => BlockKind::Callsite,
            _ => {
                let mut decls = Vec::new();
                self.decl(&mut decls)?;
                items.extend(decls.into_iter().map(Item::Decl));
                return Ok(());
            }
        };
        self.at += 2;
        let mut entries = Vec::new();
        while !self.take("}") {
            if !self.take(";") {
                self.entry(&mut entries)?;
            }
        }
        // The names of an environment are the tracer's.
        if !matches!(kind, BlockKind::Env | BlockKind::Callsite) {
            once(entries.iter().filter_map(|entry| match entry {
                Entry::Attr(attr) => Some((attr.name.as_str(), attr.pos)),
                Entry::Part { name, pos, .. } => Some((name.as_str(), *pos)),
                Entry::Decl(_) => None,
            }))?;
        }
        items.push(Item::Block { kind, entries, pos });
        Ok(())
    }

    fn entry(&mut self, entries: &mut Vec<Entry>) -> Result<(), Fault> {
        let pos = self.pos();
        let start = self.at;
        if let Some(name) = self.dotted() {
            if self.take("=") {
                let value = self.expr()?;
                self.need(";")?;
                entries.push(Entry::Attr(Attr { name, value, pos }));
                return Ok(());
            }
            if self.take(":=") {
                let ty = Rc::new(self.ty()?);
                self.need(";")?;
                entries.push(Entry::Part { name, ty, pos });
                return Ok(());
            }
        }
        self.at = start;
        let mut decls = Vec::new();
        self.decl(&mut decls)?;
        entries.extend(decls.into_iter().map(Entry::Decl));
        Ok(())
    }

    /// `a.b.c` as one name.
    fn dotted(&mut self) -> Option<String> {
        let mut name = self.take_word()?.to_owned();
        while self.take(".") {
            name.push('.');
            name.push_str(self.take_word()?);
        }
        Some(name)
    }

    fn path(&mut self) -> Result<Vec<String>, Fault> {
        let mut path = vec![self.need_word("a field name")?.to_owned()];
        while self.take(".") || self.take("->") {
            path.push(self.need_word("a field name")?.to_owned());
        }
        Ok(path)
    }

    /// The path to a length or a tag: keywords only name the part at which it begins.
    fn field_path(&mut self) -> Result<Vec<String>, Fault> {
        let start = self.at;
        let path = self.path()?;
        let is_part = |part: &&&[&str]| path.len() > part.len() && path.iter().zip(part.iter()).all(|(a, b)| a == b);
        let part = PARTS.iter().find(is_part).map_or(0, |part| part.len());
        for (index, name) in path.iter().enumerate().skip(part) {
            // Between two words there is one `.` or `->`.
            let pos = self.tokens.get(start + 2 * index).map_or(self.pos(), |&(_, pos)| pos);
            no_keyword(name, pos)?;
        }
        Ok(path)
    }

    fn int(&mut self) -> Result<i128, Fault> {
        let minus = self.take("-");
        if !minus {
            self.take("+");
        }
        let Token::Int(value) = *self.peek() else { return self.expected("a number") };
        self.at += 1;
        Ok(if minus { -value } else { value })
    }

    fn expr(&mut self) -> Result<Expr, Fault> {
        match self.peek() {
            Token::Text(text) => {
                let mut text = text.clone();
                self.at += 1;
                while let Token::Text(more) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Ok(Expr::Text(text))
            }
            Token::Word(_) => self.path().map(Expr::Path),
            Token::Int(_) | Token::Punct("-" | "+") => self.int().map(Expr::Int),
            _ => self.expected("a value"),
        }
    }

    /// `{ name = value; ... }` of an integer, floating point number or string.
    fn attrs(&mut self) -> Result<Vec<Attr>, Fault> {
        let mut attrs = Vec::new();
        self.need("{")?;
        while !self.take("}") {
            let pos = self.pos();
            let Some(name) = self.dotted() else { return self.expected("an attribute or `}`") };
            self.need("=")?;
            let value = self.expr()?;
            attrs.push(Attr { name, value, pos });
            if !matches!(self.peek(), Token::Punct("}")) {
                self.need(";")?;
            }
        }
        once(attrs.iter().map(|attr| (attr.name.as_str(), attr.pos)))?;
        Ok(attrs)
    }

    /// Declarations up to and with their `;`.
    fn decl(&mut self, decls: &mut Vec<Decl>) -> Result<(), Fault> {
        let pos = self.pos();
        match self.peek() {
            Token::Word("typealias") => {
                self.at += 1;
                let ty = Rc::new(self.ty()?);
                let dims = self.abstract_declarator()?;
                self.need(":=")?;
                let name = self.alias_name()?;
                decls.push(Decl::Alias { ty, name, dims });
            }
            Token::Word("typedef") => {
                self.at += 1;
                self.declarators(pos, decls, |ty, name, dims, _| Decl::Alias { ty, name, dims })?;
            }
            _ => self.declarators(pos, decls, |ty, name, dims, pos| Decl::Field { ty, name, dims, pos })?,
        }
        self.need(";")
    }

    fn declarators(
        &mut self,
        pos: Pos,
        decls: &mut Vec<Decl>,
        make: fn(Rc<Type>, String, Vec<Dim>, Pos) -> Decl,
    ) -> Result<(), Fault> {
        let (ty, mut name) = self.type_and_name()?;
        let ty = Rc::new(ty);
        if name.is_none() && matches!(self.peek(), Token::Punct(";")) {
            decls.push(Decl::Bare(ty));
            return Ok(());
        }
        loop {
            // Pointers have no meaning in a trace.
            while self.take("*") {}
            let name_pos = self.pos();
            let name = match name.take() {
                Some(name) => name,
                None => self.need_name("a name")?.to_owned(),
            };
            let dims = self.dims()?;
            decls.push(make(Rc::clone(&ty), name, dims, if decls.is_empty() { pos } else { name_pos }));
            if !self.take(",") {
                return Ok(());
            }
        }
    }

    fn dims(&mut self) -> Result<Vec<Dim>, Fault> {
        let mut dims = Vec::new();
        while self.take("[") {
            let pos = self.pos();
            dims.push(match self.peek() {
                Token::Word(_) => Dim::Field(self.field_path()?),
                _ => Dim::Fixed(
                    u64::try_from(self.int()?).map_err(|_| pos.fault("an array cannot have a negative length"))?,
                ),
            });
            self.need("]")?;
        }
        Ok(dims)
    }

    /// What may stand between the type and `:=` of an alias: pointers have no meaning in a trace and are passed over.
    fn abstract_declarator(&mut self) -> Result<Vec<Dim>, Fault> {
        while self.take("*") {}
        self.dims()
    }

    fn alias_name(&mut self) -> Result<String, Fault> {
        let is_of_type = |word: &str| OF_TYPES.contains(&word);
        let pos = self.pos();
        let word = self.need_word("the new name")?;
        let mut name = if is_of_type(word) { word } else { no_keyword(word, pos)? }.to_owned();
        loop {
            let pos = self.pos();
            if let Some(word) = self.take_word() {
                name.push(' ');
                name.push_str(if is_of_type(word) { word } else { no_keyword(word, pos)? });
            } else if self.take("*") {
                name.push_str(" *");
            } else {
                return Ok(name);
            }
        }
    }

    /// A type where no name follows.
    fn ty(&mut self) -> Result<Type, Fault> {
        let pos = self.pos();
        if let Some(spec) = self.keyword_type()? {
            return Ok(Type { spec, pos });
        }
        let mut words = self.need_word("a type")?.to_owned();
        while let Some(word) = self.take_word() {
            words.push(' ');
            words.push_str(word);
        }
        while self.take("*") {
            words.push_str(" *");
        }
        Ok(Type { spec: Spec::Named(words), pos })
    }

    /// A type and the name behind it. Of a row of words the last one is the name.
    fn type_and_name(&mut self) -> Result<(Type, Option<String>), Fault> {
        let pos = self.pos();
        if let Some(spec) = self.keyword_type()? {
            return Ok((Type { spec, pos }, None));
        }
        let mut words = vec![self.need_word("a type, a block or a field")?];
        let mut stars = 0;
        let mut last = pos;
        loop {
            let at = self.pos();
            if let Some(word) = self.take_word() {
                last = at;
                words.push(word);
            } else if self.take("*") {
                stars += 1;
            } else {
                break;
            }
        }
        if words.len() < 2 {
            return self.expected("a name");
        }
        let name = words.pop().map(|name| no_keyword(name, last).map(str::to_owned)).transpose()?;
        Ok((Type { spec: Spec::Named(words.join(" ") + &" *".repeat(stars)), pos }, name))
    }

    /// A type that begins with a keyword and may have a body.
    fn keyword_type(&mut self) -> Result<Option<Spec>, Fault> {
        while matches!(self.peek(), Token::Word("const")) {
            self.at += 1;
        }
        let Token::Word(word) = *self.peek() else { return Ok(None) };
        if !matches!(word, "integer" | "floating_point" | "string" | "enum" | "struct" | "variant") {
            return Ok(None);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.pos().fault(format!("types are nested more than {DEPTH_MAX} deep")));
        }
        self.at += 1;
        let spec = match word {
            "integer" => Spec::Integer(self.attrs()?),
            "floating_point" => Spec::Float(self.attrs()?),
            "string" if matches!(self.peek(), Token::Punct("{")) => Spec::Text(self.attrs()?),
            "string" => Spec::Text(Vec::new()),
            "enum" => self.enumeration()?,
            "struct" => self.structure()?,
            _ => self.variant()?,
        };
        self.depth -= 1;
        Ok(Some(spec))
    }

    fn enumeration(&mut self) -> Result<Spec, Fault> {
        let name = self.take_name()?;
        let container = if self.take(":") { Some(Rc::new(self.ty()?)) } else { None };
        if !self.take("{") {
            return if name.is_some() && container.is_none() {
                Ok(Spec::Enum { name, container, labels: None })
            } else {
                self.expected("`{`")
            };
        }
        let mut labels = Vec::new();
        while !self.take("}") {
            let pos = self.pos();
            let name = match self.expr()? {
                Expr::Text(text) => text,
                Expr::Path(path) if path.len() == 1 => no_keyword(&path[0], pos)?.to_owned(),
                _ => return Err(pos.fault("a label must be a word or a string")),
            };
            let range = if self.take("=") {
                let low = self.int()?;
                let high = if self.take("...") { self.int()? } else { low };
                Some((low, high))
            } else {
                None
            };
            labels.push(Label { name, range, pos });
            if !self.take(",") && !matches!(self.peek(), Token::Punct("}")) {
                return self.expected("`,` or `}`");
            }
        }
        Ok(Spec::Enum { name, container, labels: Some(labels) })
    }

    fn body(&mut self) -> Result<Option<Vec<Decl>>, Fault> {
        if !self.take("{") {
            return Ok(None);
        }
        let mut decls = Vec::new();
        while !self.take("}") {
            if !self.take(";") {
                self.decl(&mut decls)?;
            }
        }
        Ok(Some(decls))
    }

    fn structure(&mut self) -> Result<Spec, Fault> {
        // `struct align(8) {}` is not TSDL: the word after `struct` is always the name.
        let name = self.take_name()?;
        let body = self.body()?;
        if body.is_none() && name.is_none() {
            return self.expected("a name or `{`");
        }
        let mut align = 1;
        if body.is_some() && matches!((self.peek(), self.peek_after()), (Token::Word("align"), Token::Punct("("))) {
            self.at += 2;
            let pos = self.pos();
            align = u64::try_from(self.int()?).map_err(|_| pos.fault("an alignment cannot be negative"))?;
            self.need(")")?;
        }
        Ok(Spec::Struct { name, body, align })
    }

    fn variant(&mut self) -> Result<Spec, Fault> {
        let name = self.take_name()?;
        let tag = if self.take("<") {
            let path = self.field_path()?;
            self.need(">")?;
            Some(path)
        } else {
            None
        };
        let body = self.body()?;
        if body.is_none() && name.is_none() {
            return self.expected("a name or `{`");
        }
        Ok(Spec::Variant { name, tag, body })
    }
}
