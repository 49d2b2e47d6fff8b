// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of one event: what each side of a comparison is, and what the comparison then means.

use kymo_names::{event_matches, glob_matches};

use super::conditions::{among_labels, fold, gather, pair, test};
use super::names::is_bare;
use crate::ast::{Arith, Compare, Context, Expr, ExprKind, FieldRef};
use crate::error::{Error, Span, either, near, some_of, written};
use crate::plan::{Cond, Number, Operand, OperandSource, TestKind, TextMatch};
use crate::schema::{Event, FieldPath, Label, ValueType};

/// What went wrong for some events, and where the same went right for others.
#[derive(Default)]
pub(super) struct Findings {
    /// The place of the comparison, and the error.
    errors: Vec<(Span, Error)>,
    right: Vec<Span>,
    notes: Vec<Error>,
}

impl Findings {
    /// The first error of a comparison that is right for no event; otherwise notes.
    pub fn conclude(self) -> Result<Vec<Error>, Error> {
        let mut notes = self.notes;
        for (span, error) in self.errors {
            if !self.right.contains(&span) {
                return Err(error);
            }
            notes.push(error);
        }
        Ok(notes)
    }

    fn note(&mut self, note: Error) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// One side of a comparison.
enum Typed<'a> {
    /// This event does not have it.
    Missing,
    /// A number that is known now.
    Const(Number),
    /// A number. Of a float it is known that it is one.
    Number(Operand),
    Enum(FieldPath, Option<&'a [Label]>),
    Bool(FieldPath),
    BoolConst(bool),
    Text(OperandSource),
    TextConst(String),
    /// A word that is no field of this event.
    Name(String),
    /// A field whose kind shows in the record.
    Any(FieldPath),
    /// What does not compare.
    Whole(ValueType),
    /// `$event`, which is known here and is not written text.
    EventName,
}

impl Typed<'_> {
    fn shown(&self) -> String {
        match self {
            Self::Missing | Self::Any(_) => "not known".into(),
            Self::Const(_) | Self::Number(_) => "a number".into(),
            Self::Enum(..) => "an enumeration".into(),
            Self::Bool(_) | Self::BoolConst(_) => "true or false".into(),
            Self::Text(_) | Self::TextConst(_) | Self::EventName => "text".into(),
            Self::Name(name) => format!("a word, `{name}`"),
            Self::Whole(kind) => kind.to_string(),
        }
    }
}

/// A comparison, as it was written.
#[derive(Clone, Copy)]
struct Comparison<'e> {
    op: Compare,
    left: &'e Expr,
    right: &'e Expr,
    span: Span,
}

/// Both sides as numbers, where both may be and one of them is known to be.
fn numbers(one: &Typed<'_>, other: &Typed<'_>) -> Option<(Operand, Operand)> {
    let number = |side: &Typed<'_>| match side {
        Typed::Const(number) => Some(Operand::Const(*number)),
        Typed::Number(operand) => Some(operand.clone()),
        Typed::Enum(place, _) | Typed::Any(place) => Some(Operand::Source(OperandSource::Place(place.clone()))),
        _ => None,
    };
    match (one, other) {
        (Typed::Any(_), Typed::Any(_)) => None,
        _ => Some((number(one)?, number(other)?)),
    }
}

/// The plan of `expr` for `event`; an error goes to `found`, and the event is left out.
pub(super) fn plan(
    expr: &Expr,
    event: &Event,
    events: &[Event],
    text: &str,
    latencies: &[&ExprKind],
    found: &mut Findings,
) -> Cond {
    let mut typer = Typer { event, events, text, latencies, found, leaf: expr.span };
    match typer.condition(expr, false) {
        Ok(cond) => cond,
        Err(error) => {
            let leaf = typer.leaf;
            let known = found.errors.iter().any(|(span, known)| *span == leaf && known.message == error.message);
            if !known {
                found.errors.push((leaf, error));
            }
            Cond::Const(false)
        }
    }
}

struct Typer<'a, 'f> {
    event: &'a Event,
    events: &'a [Event],
    text: &'a str,
    latencies: &'a [&'a ExprKind],
    found: &'f mut Findings,
    /// The comparison that is looked at.
    leaf: Span,
}

impl<'a> Typer<'a, '_> {
    fn error(&self, span: Span, message: impl Into<String>, help: impl Into<String>) -> Error {
        Error::new(self.text, span, message, help)
    }

    /// A condition; with `negate` its opposite. What is not known is false both times.
    fn condition(&mut self, expr: &Expr, negate: bool) -> Result<Cond, Error> {
        match &expr.kind {
            ExprKind::Not(of) => self.condition(of, !negate),
            ExprKind::And(parts) => self.list(parts, !negate, negate),
            ExprKind::Or(parts) => self.list(parts, negate, negate),
            ExprKind::Compare(op, left, right) => {
                self.leaf = expr.span;
                self.compare(*op, left, right, expr.span, negate)
            }
            ExprKind::In(value, list) => {
                self.leaf = expr.span;
                self.among(value, list, expr.span, negate)
            }
            ExprKind::Has(field) => {
                let has = self.event.resolve(&field.name, &field.steps).filter(|_| self.is_of_event(field));
                Ok(match has {
                    Some((place, _)) => test(TestKind::Has(place), negate, expr.span),
                    None => Cond::Const(negate),
                })
            }
            _ => {
                self.leaf = expr.span;
                self.truth(expr, negate)
            }
        }
    }

    fn list(&mut self, parts: &[Expr], all: bool, negate: bool) -> Result<Cond, Error> {
        let parts = parts.iter().map(|part| self.condition(part, negate)).collect::<Result<_, _>>()?;
        Ok(Cond::join(parts, all))
    }

    /// A value that stands where a condition is wanted.
    fn truth(&mut self, expr: &Expr, negate: bool) -> Result<Cond, Error> {
        let typed = self.typed(expr)?;
        let text = written(self.text, expr.span);
        let help = match &typed {
            Typed::Missing => return Ok(Cond::Const(false)),
            Typed::BoolConst(value) => return Ok(Cond::Const(*value != negate)),
            Typed::Bool(place) | Typed::Any(place) => {
                self.found.right.push(expr.span);
                return Ok(test(TestKind::Truth(place.clone()), negate, expr.span));
            }
            // The event has no such field; others have.
            Typed::Name(_) => return Ok(Cond::Const(false)),
            Typed::Number(_) | Typed::Const(_) | Typed::Enum(..) => match negate {
                true => "`!` negates a condition: write `!(... == 0)`".to_owned(),
                false => format!("compare it: `{text} != 0`"),
            },
            Typed::Text(_) | Typed::TextConst(_) | Typed::EventName => format!("compare it: `{text} == \"...\"`"),
            Typed::Whole(_) => format!("ask `has({text})` or compare `len({text})`"),
        };
        Err(self.error(expr.span, format!("a condition is wanted, and this is {}", typed.shown()), help))
    }

    fn among(&mut self, value: &Expr, list: &[Expr], span: Span, negate: bool) -> Result<Cond, Error> {
        let mut parts = Vec::with_capacity(list.len());
        for item in list {
            parts.push(self.compare(Compare::Eq, value, item, span, negate)?);
        }
        Ok(gather(Cond::join(parts, negate), negate, span))
    }

    /// Whether the field is one of this event, by the event named in front of it.
    fn is_of_event(&self, field: &FieldRef) -> bool {
        field.event.as_ref().is_none_or(|pattern| event_matches(&pattern.glob, &self.event.name))
    }

    fn typed(&mut self, expr: &Expr) -> Result<Typed<'a>, Error> {
        Ok(match &expr.kind {
            ExprKind::Int(value) => Typed::Const(Number::Int((*value).into())),
            ExprKind::Float(value) => Typed::Const(Number::Float(*value)),
            ExprKind::Bool(value) => Typed::BoolConst(*value),
            ExprKind::Text(text) => Typed::TextConst(text.clone()),
            ExprKind::Field(field) => self.field(field),
            ExprKind::Context(Context::Event) => Typed::EventName,
            ExprKind::Context(context) if context.is_text() => Typed::Text(OperandSource::Context(*context)),
            ExprKind::Context(context) => Typed::Number(Operand::Source(OperandSource::Context(*context))),
            ExprKind::Len(field) => self.len(field, expr.span)?,
            ExprKind::Latency(_) | ExprKind::Wakeup(_) => {
                // All pairs of the expression were collected before.
                let pair = self.latencies.iter().position(|known| **known == expr.kind).unwrap_or_default();
                Typed::Number(Operand::Latency(pair))
            }
            ExprKind::Neg(of) => match self.number(of)? {
                None => Typed::Missing,
                Some(Operand::Const(number)) => number.negated().map_or(Typed::Missing, Typed::Const),
                Some(operand) => Typed::Number(Operand::Neg(operand.into())),
            },
            ExprKind::Binary(op, left, right) => self.arith(*op, left, right, expr.span)?,
            ExprKind::Not(of) => {
                let help = format!("`!` goes before operators: write `!({} ...)`", written(self.text, of.span));
                return Err(self.error(expr.span, "a condition is not a value", help));
            }
            _ => {
                let help = "conditions are joined with `&&` and `||`, and stand alone: `a > 1`, `!(a > 1)`";
                return Err(self.error(expr.span, "a condition is not a value", help));
            }
        })
    }

    fn field(&self, field: &FieldRef) -> Typed<'a> {
        if !self.is_of_event(field) {
            return Typed::Missing;
        }
        let event: &'a Event = self.event;
        let Some((place, kind)) = event.resolve(&field.name, &field.steps) else {
            let bare = field.event.is_none() && field.steps.is_empty();
            return if bare { Typed::Name(field.name.clone()) } else { Typed::Missing };
        };
        match kind {
            ValueType::Int { .. } | ValueType::Float { .. } => {
                Typed::Number(Operand::Source(OperandSource::Place(place)))
            }
            ValueType::Enum { .. } => {
                let labels = self.labels(&place);
                Typed::Enum(place, labels)
            }
            ValueType::Bool => Typed::Bool(place),
            ValueType::Text => Typed::Text(OperandSource::Place(place)),
            ValueType::Any => Typed::Any(place),
            kind @ (ValueType::Wide { .. } | ValueType::Bytes | ValueType::Array { .. } | ValueType::Struct(_)) => {
                Typed::Whole(kind)
            }
        }
    }

    /// Labels of the enumeration at a place, where the schema tells them.
    fn labels(&self, place: &FieldPath) -> Option<&'a [Label]> {
        let mut kind = &self.event.fields.get(place.field)?.kind;
        for step in &place.steps {
            kind = match (kind, step) {
                (ValueType::Struct(members), crate::ast::PathStep::Member(name)) => {
                    &members.iter().find(|member| member.name == *name)?.kind
                }
                (ValueType::Array { element, .. }, crate::ast::PathStep::Element(_)) => element,
                _ => return None,
            };
        }
        match kind {
            ValueType::Enum { labels, .. } => labels.as_deref(),
            _ => None,
        }
    }

    fn len(&self, field: &FieldRef, span: Span) -> Result<Typed<'a>, Error> {
        if !self.is_of_event(field) {
            return Ok(Typed::Missing);
        }
        match self.event.resolve(&field.name, &field.steps) {
            None => Ok(Typed::Missing),
            Some((_, ValueType::Array { count: Some(count), .. })) => Ok(Typed::Const(Number::Int(count.into()))),
            Some((place, ValueType::Text | ValueType::Bytes | ValueType::Array { .. } | ValueType::Any)) => {
                Ok(Typed::Number(Operand::Len(place)))
            }
            Some((_, kind)) => {
                let help = "text and bytes have a length in bytes, arrays a number of elements";
                Err(self.error(span, format!("`{}` is {kind}, which has no length", field.name), help))
            }
        }
    }

    /// A number, for arithmetic; `None` where this event does not have it.
    fn number(&mut self, expr: &Expr) -> Result<Option<Operand>, Error> {
        let typed = self.typed(expr)?;
        Ok(Some(match typed {
            Typed::Missing | Typed::Name(_) => return Ok(None),
            Typed::Const(number) => Operand::Const(number),
            Typed::Number(operand) => operand,
            Typed::Enum(place, _) | Typed::Any(place) => Operand::Source(OperandSource::Place(place)),
            other => {
                let message = format!("a number is wanted, and this is {}", other.shown());
                return Err(self.error(expr.span, message, "arithmetic is of numbers"));
            }
        }))
    }

    fn arith(&mut self, op: Arith, left: &Expr, right: &Expr, span: Span) -> Result<Typed<'a>, Error> {
        let (one, other) = (self.number(left)?, self.number(right)?);
        for (operand, expr) in [(&one, left), (&other, right)] {
            let is_float = operand.as_ref().is_some_and(|operand| self.is_float(operand));
            if op.is_bitwise() && is_float {
                let message = format!("`{}` takes integers, and this is a float", op.entry().0);
                return Err(self.error(expr.span, message, "floats have + - * / %"));
            }
        }
        if let (Arith::Div | Arith::Rem, Some(Operand::Const(Number::Int(0)))) = (op, &other) {
            return Err(self.error(right.span, "this divides by zero", "divide by another number"));
        }
        match (one, other) {
            (Some(Operand::Const(one)), Some(Operand::Const(other))) => match Number::arith(op, one, other) {
                Some(number) => Ok(Typed::Const(number)),
                None => Err(self.error(span, "this has no result within 128 bits", "use smaller numbers")),
            },
            (Some(one), Some(other)) => Ok(Typed::Number(Operand::Arith(op, one.into(), other.into()))),
            _ => Ok(Typed::Missing),
        }
    }

    fn is_float(&self, operand: &Operand) -> bool {
        match operand {
            Operand::Const(number) => matches!(number, Number::Float(_)),
            Operand::Source(OperandSource::Place(place)) => {
                let kind = self.event.resolve(&place.name, &place.steps);
                matches!(kind, Some((_, ValueType::Float { .. })))
            }
            Operand::Neg(of) => self.is_float(of),
            Operand::Arith(_, left, right) => self.is_float(left) || self.is_float(right),
            _ => false,
        }
    }

    fn compare(&mut self, op: Compare, left: &Expr, right: &Expr, span: Span, negate: bool) -> Result<Cond, Error> {
        let (one, other) = (self.typed(left)?, self.typed(right)?);
        let (op, negate) = match op {
            Compare::Ne => (Compare::Eq, !negate),
            Compare::NoMatch => (Compare::Match, !negate),
            op => (op, negate),
        };
        let cond = match self.sides(Comparison { op, left, right, span }, one, other)? {
            None => return Ok(Cond::Const(false)),
            Some(cond) => cond,
        };
        self.found.right.push(span);
        Ok(if negate { cond.negated() } else { cond })
    }

    /// What a comparison means; `None` where this event has not got what it takes.
    fn sides(&mut self, whole: Comparison<'_>, one: Typed<'a>, other: Typed<'a>) -> Result<Option<Cond>, Error> {
        let Comparison { op, left, right, span } = whole;
        // What is constant stands on the right.
        let is_const = |typed: &Typed<'_>| {
            matches!(typed, Typed::Const(_) | Typed::BoolConst(_) | Typed::TextConst(_) | Typed::Name(_))
        };
        if is_const(&one) && !is_const(&other) && op != Compare::Match {
            let exchanged = Comparison { op: op.exchanged(), left: right, right: left, span };
            return self.sides(exchanged, other, one);
        }
        if op == Compare::Match {
            return self.glob(whole, one, other);
        }
        if let Some((left, right)) = numbers(&one, &other) {
            let cond = test(TestKind::Number { left, op, right }, false, span);
            return Ok(Some(if is_const(&one) { fold(cond) } else { cond }));
        }
        Ok(match (one, other) {
            (Typed::Missing, _) | (_, Typed::Missing) | (Typed::Name(_), _) => None,
            (Typed::Enum(place, labels), Typed::Name(word) | Typed::TextConst(word)) => {
                self.label(whole, place, labels, &word)?
            }
            (Typed::Any(place), Typed::Any(other)) => {
                let (left, right) = (OperandSource::Place(place), OperandSource::Place(other));
                Some(test(TestKind::Pair { left, op, right }, false, span))
            }
            (_, Typed::Name(word)) if self.is_field(&word) => None,
            (Typed::Any(place), Typed::Name(word)) if op == Compare::Eq => Some(test(
                TestKind::Text { source: OperandSource::Place(place), wanted: TextMatch::Equal(word) },
                false,
                span,
            )),
            (one, other @ Typed::Name(_)) => return Err(self.mismatch(&one, &other, left, right)),
            (one, other) if op != Compare::Eq => return Err(self.no_order(&one, &other, op, span)),
            (Typed::Text(source), Typed::TextConst(wanted)) => Some(self.equal_text(source, wanted, right, span)),
            (Typed::Any(place), Typed::TextConst(wanted)) => {
                Some(self.equal_text(OperandSource::Place(place), wanted, right, span))
            }
            (Typed::Text(one), Typed::Text(other)) => Some(pair(one, other, span)),
            (Typed::Text(one), Typed::Any(other)) | (Typed::Any(other), Typed::Text(one)) => {
                Some(pair(one, OperandSource::Place(other), span))
            }
            (Typed::Bool(one), Typed::Bool(other) | Typed::Any(other)) | (Typed::Any(other), Typed::Bool(one)) => {
                Some(pair(OperandSource::Place(one), OperandSource::Place(other), span))
            }
            (Typed::Bool(place) | Typed::Any(place), Typed::BoolConst(value)) => {
                Some(test(TestKind::Truth(place), !value, span))
            }
            (Typed::BoolConst(one), Typed::BoolConst(other)) => Some(Cond::Const(one == other)),
            (Typed::TextConst(one), Typed::TextConst(other)) => Some(Cond::Const(one == other)),
            (Typed::EventName, Typed::TextConst(name)) => {
                self.glob_note(&name, right);
                Some(Cond::Const(name == self.event.name))
            }
            (one, other) => return Err(self.mismatch(&one, &other, left, right)),
        })
    }

    /// Whether any event has a field of this name, so that it is no label.
    fn is_field(&self, name: &str) -> bool {
        self.events.iter().any(|event| event.resolve(name, &[]).is_some())
    }

    fn glob(&mut self, whole: Comparison<'_>, one: Typed<'a>, other: Typed<'a>) -> Result<Option<Cond>, Error> {
        let Comparison { left, right, span, .. } = whole;
        let glob = match other {
            Typed::TextConst(glob) => glob,
            Typed::Missing => return Ok(None),
            other => {
                let help = match is_bare(right) {
                    true => format!("globs stand between quotes: \"{}\"", written(self.text, right.span)),
                    false => "write `~ \"ab*\"`".into(),
                };
                return Err(self.error(right.span, format!("a glob is wanted, and this is {}", other.shown()), help));
            }
        };
        let source = match one {
            Typed::Missing | Typed::Name(_) => return Ok(None),
            Typed::EventName => return Ok(Some(Cond::Const(glob_matches(&glob, &self.event.name)))),
            Typed::TextConst(text) => return Ok(Some(Cond::Const(glob_matches(&glob, &text)))),
            Typed::Enum(place, Some(labels)) => {
                let labels: Vec<&Label> = labels.iter().filter(|label| glob_matches(&glob, &label.name)).collect();
                return Ok(Some(among_labels(&place, &labels, span)));
            }
            Typed::Enum(place, None) | Typed::Any(place) => OperandSource::Place(place),
            Typed::Text(source) => source,
            other => {
                let message = format!("`~` matches text, and this is {}", other.shown());
                return Err(self.error(left.span, message, "`==` compares numbers"));
            }
        };
        Ok(Some(test(TestKind::Text { source, wanted: TextMatch::Glob(glob) }, false, span)))
    }

    fn equal_text(&mut self, source: OperandSource, wanted: String, at: &Expr, span: Span) -> Cond {
        self.glob_note(&wanted, at);
        test(TestKind::Text { source, wanted: TextMatch::Equal(wanted) }, false, span)
    }

    fn glob_note(&mut self, wanted: &str, at: &Expr) {
        if wanted.contains('*') {
            let help = format!("`~` matches globs: `~ {}`", written(self.text, at.span));
            let note = self.error(at.span, "`==` takes `*` as it is", help);
            self.found.note(note);
        }
    }

    /// An enumeration beside a word.
    fn label(
        &self,
        whole: Comparison<'_>,
        place: FieldPath,
        labels: Option<&[Label]>,
        word: &str,
    ) -> Result<Option<Cond>, Error> {
        let Comparison { op, left, right, span } = whole;
        let Some(labels) = labels else {
            return match op {
                // No label is known before there is a record, and none has an order.
                Compare::Eq => {
                    let wanted = TextMatch::Equal(word.to_owned());
                    Ok(Some(test(TestKind::Text { source: OperandSource::Place(place), wanted }, false, span)))
                }
                _ => Err(self.error(span, "values of labels are not known here", "compare with the number")),
            };
        };
        let found: Vec<&Label> = labels.iter().filter(|label| label.name == word).collect();
        if let Some(first) = found.first() {
            return match op {
                Compare::Eq => Ok(Some(among_labels(&place, &found, span))),
                _ if found.len() == 1 && first.low == first.high => {
                    let (left, right) =
                        (Operand::Source(OperandSource::Place(place)), Operand::Const(Number::Int(first.low)));
                    Ok(Some(test(TestKind::Number { left, op, right }, false, span)))
                }
                _ => Err(self.error(span, format!("`{word}` is several values, which have no order"), "use `==`")),
            };
        }
        if is_bare(right) && self.is_field(word) {
            return Ok(None);
        }
        let at = if matches!(&left.kind, ExprKind::Field(field) if field.name == word) { left } else { right };
        let names = || labels.iter().map(|label| label.name.as_str());
        let near = near(word, names());
        let help = match near.is_empty() {
            true => format!("labels are {}", some_of(names())),
            false => format!("did you mean {}?", either(&near)),
        };
        Err(self.error(at.span, format!("`{}` has no label `{word}`", place.name), help))
    }

    fn no_order(&self, one: &Typed<'_>, other: &Typed<'_>, op: Compare, span: Span) -> Error {
        let kind = match (one, other) {
            (Typed::Number(_) | Typed::Const(_) | Typed::Enum(..) | Typed::Any(_), other) => other.shown(),
            (one, _) => one.shown(),
        };
        let message = format!("`{}` compares numbers, and one side is {kind}", op.sign());
        self.error(span, message, "text has `==` and `~`; true and false have `==`")
    }

    fn mismatch(&self, one: &Typed<'_>, other: &Typed<'_>, left: &Expr, right: &Expr) -> Error {
        let (word, word_at) = match (one, other) {
            (_, Typed::Name(word)) => (Some(word), if is_word(right, word) { right } else { left }),
            _ => (None, right),
        };
        let span = left.span.to(right.span);
        match (one, word) {
            (Typed::Text(_) | Typed::EventName, Some(word)) => {
                let help = format!("text stands between quotes: \"{word}\"");
                self.error(word_at.span, format!("no event has a field `{word}`"), help)
            }
            (_, Some(word)) => {
                let fields = || self.event.fields.iter().map(|field| field.name.as_str());
                let near = near(word, fields());
                let help = match near.is_empty() {
                    true => format!("fields are {}", some_of(fields())),
                    false => format!("did you mean {}?", either(&near)),
                };
                self.error(word_at.span, format!("no event has a field `{word}`"), help)
            }
            (Typed::Bool(_), None) => {
                let text = written(self.text, left.span);
                let message = format!("one side is true or false, the other {}", other.shown());
                self.error(span, message, format!("write `{text}` or `!{text}`"))
            }
            (Typed::Whole(kind), None) => {
                let text = written(self.text, left.span);
                let help = format!("compare an element, as in `{text}[0]`, or `len({text})`");
                self.error(left.span, format!("{kind} cannot be compared"), help)
            }
            _ => {
                let message = format!("one side is {}, the other {}", one.shown(), other.shown());
                let written = written(self.text, right.span);
                let help = match (one, other) {
                    (Typed::Number(_), Typed::TextConst(text)) => format!("numbers stand without quotes: `{text}`"),
                    (Typed::Text(_) | Typed::EventName, Typed::Const(_)) => {
                        format!("text stands between quotes: \"{written}\"")
                    }
                    _ => "compare values of one kind".into(),
                };
                self.error(span, message, help)
            }
        }
    }
}

fn is_word(expr: &Expr, word: &str) -> bool {
    matches!(&expr.kind, ExprKind::Field(field) if field.name == word)
}
