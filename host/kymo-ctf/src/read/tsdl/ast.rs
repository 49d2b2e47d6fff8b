// SPDX-License-Identifier: MIT OR Apache-2.0
//! What TSDL text says, before anyone asks what it means.

use std::rc::Rc;

use super::fault::Pos;

/// A value on the right of `=`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Int(i128),
    Text(String),
    /// `a`, or `clock.tsc.value`.
    Path(Vec<String>),
}

/// `name = value;`, where the name may have dots.
#[derive(Clone, Debug)]
pub(super) struct Attr {
    pub name: String,
    pub value: Expr,
    pub pos: Pos,
}

/// A type as written.
#[derive(Debug)]
pub(super) struct Type {
    pub spec: Spec,
    pub pos: Pos,
}

#[derive(Debug)]
pub(super) enum Spec {
    Integer(Vec<Attr>),
    Float(Vec<Attr>),
    Text(Vec<Attr>),
    Enum {
        name: Option<String>,
        container: Option<Rc<Type>>,
        labels: Option<Vec<Label>>,
    },
    Struct {
        name: Option<String>,
        body: Option<Vec<Decl>>,
        align: u64,
    },
    Variant {
        name: Option<String>,
        tag: Option<Vec<String>>,
        body: Option<Vec<Decl>>,
    },
    /// Words of an alias, joined by spaces.
    Named(String),
}

/// `label`, `label = low`, `label = low ... high`.
#[derive(Debug)]
pub(super) struct Label {
    pub name: String,
    pub range: Option<(i128, i128)>,
    pub pos: Pos,
}

/// `[8]` or `[length]`.
#[derive(Clone, Debug)]
pub(super) enum Dim {
    Fixed(u64),
    Field(Vec<String>),
}

#[derive(Debug)]
pub(super) enum Decl {
    /// A member.
    Field { ty: Rc<Type>, name: String, dims: Vec<Dim>, pos: Pos },
    /// `typealias` or `typedef`.
    Alias { ty: Rc<Type>, name: String, dims: Vec<Dim> },
    /// `struct x { ... };`, which only declares a name.
    Bare(Rc<Type>),
}

#[derive(Debug)]
pub(super) enum Entry {
    Attr(Attr),
    /// `packet.header := struct { ... };`
    Part {
        name: String,
        ty: Rc<Type>,
        pos: Pos,
    },
    Decl(Decl),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Trace,
    Env,
    Clock,
    Stream,
    Event,
    Callsite,
}

#[derive(Debug)]
pub(super) enum Item {
    Block { kind: BlockKind, entries: Vec<Entry>, pos: Pos },
    Decl(Decl),
}
