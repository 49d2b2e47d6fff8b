// SPDX-License-Identifier: MIT OR Apache-2.0
//! The canonical form: units applied, one blank around operators, brackets only where they are needed.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::ast::{Arith, Expr, ExprKind, FieldRef, Filter, Key, Latency, PathStep, Pattern, is_recorded_context};
use crate::token::is_word;

/// Words that a field's name must be told from.
const RESERVED: [&str; 3] = ["true", "false", "in"];
/// Strength of the bindings that are not arithmetic.
const OR: u8 = 1;
const AND: u8 = 2;
const COMPARE: u8 = 3;
const UNARY: u8 = 10;

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(selector) = &self.selector {
            let glob = selector.glob.as_str();
            match is_glob(glob) && !glob.ends_with(':') {
                true => write!(f, "{glob}: ")?,
                false => write!(f, "{}: ", Quoted(glob))?,
            }
        }
        self.expr.fmt(f)
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Int(value) => write!(f, "{value}"),
            ExprKind::Float(value) => write!(f, "{value:?}"),
            ExprKind::Bool(value) => write!(f, "{value}"),
            ExprKind::Text(text) => Quoted(text).fmt(f),
            ExprKind::Field(field) => field.fmt(f),
            ExprKind::Context(context) => write!(f, "${}", context.name()),
            ExprKind::Has(field) => write!(f, "has({field})"),
            ExprKind::Len(field) => write!(f, "len({field})"),
            ExprKind::Latency(latency) => latency.fmt(f),
            ExprKind::Wakeup(None) => f.write_str("wakeup()"),
            ExprKind::Wakeup(Some(when)) => write!(f, "wakeup({when})"),
            ExprKind::Not(of) => write!(f, "!{}", Within(of, UNARY)),
            ExprKind::Neg(of) => write!(f, "-{}", Within(of, UNARY)),
            ExprKind::Binary(op, left, right) => {
                let (sign, strength) = Arith::entry(*op);
                write!(f, "{} {sign} {}", Within(left, strength), Within(right, strength + 1))
            }
            ExprKind::Compare(op, left, right) => {
                write!(f, "{} {} {}", Within(left, COMPARE + 1), op.sign(), Within(right, COMPARE + 1))
            }
            ExprKind::In(value, list) => {
                write!(f, "{} in (", Within(value, COMPARE + 1))?;
                separated(f, list.iter().map(|item| Within(item, COMPARE + 1)), ", ")?;
                f.write_char(')')
            }
            ExprKind::And(parts) => separated(f, parts.iter().map(|part| Within(part, AND + 1)), " && "),
            ExprKind::Or(parts) => separated(f, parts.iter().map(|part| Within(part, OR + 1)), " || "),
        }
    }
}

/// An expression where only bindings of at least this strength go without brackets.
struct Within<'a>(&'a Expr, u8);

impl Display for Within<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let strength = match &self.0.kind {
            ExprKind::Or(_) => OR,
            ExprKind::And(_) => AND,
            ExprKind::Compare(..) | ExprKind::In(..) => COMPARE,
            ExprKind::Binary(op, ..) => op.entry().1,
            _ => UNARY,
        };
        if strength < self.1 { write!(f, "({})", self.0) } else { self.0.fmt(f) }
    }
}

fn separated<T: Display>(f: &mut Formatter<'_>, parts: impl Iterator<Item = T>, between: &str) -> fmt::Result {
    for (i, part) in parts.enumerate() {
        f.write_str(if i == 0 { "" } else { between })?;
        part.fmt(f)?;
    }
    Ok(())
}

impl Display for FieldRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(event) = &self.event {
            match is_glob(&event.glob) && !event.glob.ends_with(':') && event.is_told_from_a_word() {
                true => write!(f, "{}.", event.glob)?,
                false => write!(f, "{}.", Quoted(&event.glob))?,
            }
        }
        name(f, &self.name)?;
        self.steps.iter().try_for_each(|step| step.fmt(f))
    }
}

impl Display for PathStep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(member) => {
                f.write_char('.')?;
                name(f, member)
            }
            Self::Element(index) => write!(f, "[{index}]"),
        }
    }
}

impl Display for Latency {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "latency({}, {}", self.from, self.to)?;
        if !self.by.is_empty() {
            f.write_str(", by=")?;
            separated(f, self.by.iter(), ", ")?;
        }
        if self.of_any {
            f.write_str(", by=*")?;
        }
        if let Some(when) = &self.when {
            write!(f, ", where={when}")?;
        }
        f.write_char(')')
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.from == self.to {
            return self.from.fmt(f);
        }
        // A colon behind a name would belong to the name of an event, where what follows is not a name too.
        match (plain(&self.from), plain(&self.to)) {
            (Some(from), Some(to)) => write!(f, "{from}:{to}"),
            _ => write!(f, "{} : {}", self.from, self.to),
        }
    }
}

/// The name of a field that needs neither quotes nor steps.
fn plain(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Field(FieldRef { event: None, name, steps }) if steps.is_empty() => {
            (is_name(name) && !RESERVED.contains(&name.as_str())).then_some(name)
        }
        _ => None,
    }
}

impl Display for Pattern {
    /// As an argument.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_name = is_name(&self.glob);
        match is_name || is_glob(&self.glob) && !self.glob.ends_with(':') && self.is_told_from_a_word() {
            true => f.write_str(&self.glob),
            false => Quoted(&self.glob).fmt(f),
        }
    }
}

impl Pattern {
    /// Whether the lexer sees a pattern wherever it stands.
    fn is_told_from_a_word(&self) -> bool {
        self.glob.contains(':') || self.glob.starts_with(['*', '?'])
    }
}

fn is_glob(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '*' | '?'))
        && text.chars().all(|c| is_word(c) || matches!(c, '*' | '?' | ':'))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_word)
}

fn name(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    let is_context = name.strip_prefix('$').is_some_and(|of| is_name(of) && is_recorded_context(of));
    if is_context || is_name(name) && !RESERVED.contains(&name) { f.write_str(name) } else { write!(f, "`{name}`") }
}

/// Text between quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}
