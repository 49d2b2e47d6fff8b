// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that no event has: fields, members, events.

use kymo_names::event_matches;

use crate::ast::{Compare, Context, Expr, ExprKind, FieldRef, Filter, Key, Latency, Pattern};
use crate::error::{Error, Span, either, near, some_of, written};
use crate::parse::no_context;
use crate::schema::Event;
use crate::wakeup;

struct CheckedNames<'a> {
    text: &'a str,
    events: &'a [Event],
    /// Events that the selector leaves.
    scope: Vec<&'a Event>,
}

/// Refuses names that mean nothing.
pub(super) fn check(filter: &Filter, text: &str, events: &[Event]) -> Result<(), Error> {
    let mut names = CheckedNames { text, events, scope: events.iter().collect() };
    if let Some(selector) = &filter.selector {
        names.scope = names.matching(selector)?;
    }
    names.expr(&filter.expr)
}

impl<'a> CheckedNames<'a> {
    fn error(&self, span: Span, message: String, help: String) -> Error {
        Error::new(self.text, span, message, help)
    }

    /// The events that a pattern names; at least one.
    fn matching(&self, pattern: &Pattern) -> Result<Vec<&'a Event>, Error> {
        let found: Vec<&Event> = self.events.iter().filter(|event| event_matches(&pattern.glob, &event.name)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let known = || self.events.iter().map(|event| event.name.as_str());
        let near = near(&pattern.glob, known());
        let help = match (near.is_empty(), self.events.is_empty()) {
            (false, _) => format!("did you mean {}?", either(&near)),
            (true, true) => "there are no events at all".into(),
            (true, false) => format!("events are {}", some_of(known())),
        };
        Err(self.error(pattern.span, format!("no event is called `{}`", pattern.glob), help))
    }

    fn expr(&self, expr: &Expr) -> Result<(), Error> {
        match &expr.kind {
            ExprKind::Field(field) | ExprKind::Has(field) | ExprKind::Len(field) => self.field(field, expr.span),
            ExprKind::Latency(latency) => self.latency(latency),
            ExprKind::Wakeup(when) => self.wakeup(when.as_deref(), expr.span),
            ExprKind::Not(of) | ExprKind::Neg(of) => self.expr(of),
            ExprKind::Binary(_, left, right) => [left, right].iter().try_for_each(|side| self.expr(side)),
            ExprKind::Compare(op, left, right) => self.sides(*op, left, right),
            ExprKind::In(value, list) => {
                // The value once, whatever the length of the list: lists within lists would multiply.
                self.expr(value)?;
                let is_label = |item: &Expr| is_bare(item) && self.is_known(value);
                list.iter().filter(|item| !is_label(item)).try_for_each(|item| self.expr(item))
            }
            ExprKind::And(parts) | ExprKind::Or(parts) => parts.iter().try_for_each(|part| self.expr(part)),
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Text(_) | ExprKind::Context(_) => {
                Ok(())
            }
        }
    }

    /// A bare name beside a field may be a label; kinds decide that later.
    fn sides(&self, op: Compare, left: &Expr, right: &Expr) -> Result<(), Error> {
        let labels = !matches!(op, Compare::Match | Compare::NoMatch);
        let may_be_label = |one: &Expr, other: &Expr| labels && is_bare(one) && self.is_known(other);
        if !may_be_label(left, right) {
            self.expr(left)?;
        }
        if !labels && is_bare(right) && !self.is_known(right) {
            let glob = written(self.text, right.span);
            let help = format!("globs stand between quotes: \"{glob}\"");
            return Err(self.error(right.span, format!("no event has a field `{glob}`"), help));
        }
        if may_be_label(right, left) { Ok(()) } else { self.expr(right) }
    }

    fn is_known(&self, expr: &Expr) -> bool {
        matches!(&expr.kind, ExprKind::Field(field) if self.field(field, expr.span).is_ok())
    }

    fn latency(&self, latency: &Latency) -> Result<(), Error> {
        for (pattern, is_opening) in [(&latency.from, true), (&latency.to, false)] {
            let scope = self.matching(pattern)?;
            let names = CheckedNames { text: self.text, events: self.events, scope };
            let side = |key: &Key| names.expr(if is_opening { &key.from } else { &key.to });
            latency.by.iter().try_for_each(side)?;
            latency.when.iter().filter(|_| is_opening).try_for_each(|when| names.expr(when))?;
        }
        Ok(())
    }

    /// The scheduler's events must be there, and those of wake-ups must have what the condition names.
    fn wakeup(&self, when: Option<&Expr>, span: Span) -> Result<(), Error> {
        let of = |is_wanted: fn(wakeup::Role) -> bool| {
            let is_one = |event: &&Event| wakeup::role(event).is_some_and(is_wanted);
            self.events.iter().filter(is_one).collect::<Vec<_>>()
        };
        let scope = of(|role| role != wakeup::Role::Switch);
        if scope.is_empty() || of(|role| role == wakeup::Role::Switch).is_empty() {
            let message = "there are no events of wake-ups and switches".to_owned();
            let help = "record sched_switch and sched_waking of the kernel: -k sched".to_owned();
            return Err(self.error(span, message, help));
        }
        let names = CheckedNames { text: self.text, events: self.events, scope };
        when.map_or(Ok(()), |when| names.expr(when))
    }

    fn field(&self, field: &FieldRef, span: Span) -> Result<(), Error> {
        let scope = match &field.event {
            Some(pattern) => {
                let events = self.matching(pattern)?;
                events.into_iter().filter(|event| self.scope.iter().any(|other| std::ptr::eq(*other, *event))).collect()
            }
            None => self.scope.clone(),
        };
        if scope.iter().any(|event| event.resolve(&field.name, &field.steps).is_some()) {
            return Ok(());
        }
        let has_field = scope.iter().any(|event| event.resolve(&field.name, &[]).is_some());
        if field.is_context() && !has_field {
            let member = field.name.trim_start_matches('$');
            let how = match member.strip_prefix("perf_") {
                Some(counter) => format!("perf:{}", counter.replace('_', "-")),
                None => member.to_owned(),
            };
            let message = format!("no record has the context `{}`", field.name);
            return Err(self.error(span, message, format!("record it: `kymo record --context {how}`")));
        }
        if let Some(name) = field.name.strip_prefix('$').filter(|_| !has_field) {
            let fields = scope.iter().flat_map(|event| &event.fields);
            let mut others: Vec<&str> = fields.filter_map(|field| field.name.strip_prefix('$')).collect();
            others.sort_unstable();
            others.dedup();
            return Err(no_context(self.text, span, name, &others));
        }
        let (message, help) = match has_field {
            true => (format!("`{}` does not have this inside", field.name), self.inside(&scope, &field.name)),
            false => (format!("no event has a field `{}`", field.name), self.instead(&scope, field)),
        };
        Err(self.error(span, message, help))
    }

    /// What to write for a field that does not exist.
    fn instead(&self, scope: &[&Event], field: &FieldRef) -> String {
        let fields = || scope.iter().flat_map(|event| event.fields.iter().map(|field| field.name.as_str()));
        if self.events.iter().any(|event| event.name == field.name) {
            return format!("`{0}` is an event: write `{0}: CONDITION`", field.name);
        }
        if let Some(context) = Context::by_name(&field.name) {
            return format!("did you mean the context `${}`?", context.name());
        }
        let elsewhere = self.events.iter().find(|event| event.resolve(&field.name, &[]).is_some());
        let near = near(&field.name, fields());
        match (near.is_empty(), elsewhere) {
            (false, _) => format!("did you mean {}?", either(&near)),
            (true, Some(event)) => format!("`{}` has it, but that event is not meant here", event.name),
            (true, None) if fields().next().is_none() => "these events have no fields; contexts begin with `$`".into(),
            (true, None) => format!("fields are {}; contexts begin with `$`", some_of(fields())),
        }
    }

    /// What a field has inside.
    fn inside(&self, scope: &[&Event], name: &str) -> String {
        use crate::schema::ValueType;
        let kinds = scope.iter().filter_map(|event| event.resolve(name, &[])).map(|(_, kind)| kind);
        for kind in kinds {
            match kind {
                ValueType::Struct(members) => {
                    return format!("`{name}` has {}", some_of(members.iter().map(|member| member.name.as_str())));
                }
                ValueType::Array { count: Some(count), .. } => {
                    return format!("`{name}` has {count} elements, counted from 0");
                }
                _ => {}
            }
        }
        format!("write `{name}` alone")
    }
}

/// A single word.
pub(super) fn is_bare(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Field(FieldRef { event: None, steps, .. }) if steps.is_empty())
}
