// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latency()`: the pair of two events with equal keys [spec/filter.md 5].

use kymo_names::event_matches;

use crate::ast::{Context, Expr, ExprKind, Latency, Pattern};
use crate::error::{Error, Span};
use crate::pair::{Opening, Pair, Planner};
use crate::plan::{Cond, OperandSource};
use crate::schema::{Event, ValueType};

/// The pair. Errors: a key that is neither integer, bool, nor text; two ends of which no event has all keys.
pub(crate) fn pair(latency: &Latency, events: &[Event], text: &str, plan: &mut Planner<'_>) -> Result<Pair, Error> {
    let from: Vec<&Expr> = latency.by.iter().map(|key| &key.from).collect();
    let to: Vec<&Expr> = latency.by.iter().map(|key| &key.to).collect();
    let mut opening = |(keys, event): (Option<Vec<OperandSource>>, &Event)| {
        let when = latency.when.as_deref().map_or(Cond::Const(true), |when| plan(when, event));
        keys.map(|keys| Opening { keys, when, replaces: true })
    };
    let is_of_thread = latency.is_of_thread();
    let thread = |mut sources: Vec<Option<Vec<OperandSource>>>| {
        let of_pair = sources.iter_mut().flatten().filter(|_| is_of_thread);
        of_pair.for_each(|keys| keys.push(OperandSource::Context(Context::Tid)));
        sources
    };
    let opens = thread(side(&latency.from, &from, events, text)?);
    let opens = opens.into_iter().zip(events).map(&mut opening).collect();
    let closes = thread(side(&latency.to, &to, events, text)?);
    Ok(Pair { opens, closes, is_of_thread, leaves: Vec::new() })
}

fn side(
    pattern: &Pattern,
    by: &[&Expr],
    events: &[Event],
    text: &str,
) -> Result<Vec<Option<Vec<OperandSource>>>, Error> {
    let keys_of = |event: &Event| -> Result<Option<Vec<OperandSource>>, Error> {
        if !event_matches(&pattern.glob, &event.name) {
            return Ok(None);
        }
        by.iter().map(|key| source(key, event, text)).collect::<Result<Option<Vec<_>>, _>>()
    };
    let sides: Vec<_> = events.iter().map(keys_of).collect::<Result<_, _>>()?;
    if sides.iter().all(Option::is_none) {
        let span = by.iter().fold(pattern.span, |span, key| span.to(key.span));
        let message = format!("no event `{}` has all of these keys", pattern.glob);
        return Err(Error::new(text, span, message, "name fields that both events have"));
    }
    Ok(sides)
}

fn source(key: &Expr, event: &Event, text: &str) -> Result<Option<OperandSource>, Error> {
    let refused = |span: Span, kind: &str| {
        Err(Error::new(text, span, format!("{kind} is no key"), "pair by integers, enumerations, bools or text"))
    };
    match &key.kind {
        ExprKind::Context(Context::Time) => refused(key.span, "the time"),
        ExprKind::Context(Context::Event) => refused(key.span, "the name of the event"),
        ExprKind::Context(context) => Ok(Some(OperandSource::Context(*context))),
        ExprKind::Field(field) => match event.resolve(&field.name, &field.steps) {
            None => Ok(None),
            Some((
                _,
                kind @ (ValueType::Float { .. }
                | ValueType::Wide { .. }
                | ValueType::Bytes
                | ValueType::Array { .. }
                | ValueType::Struct(_)),
            )) => refused(key.span, &kind.to_string()),
            Some((place, _)) => Ok(Some(OperandSource::Place(place))),
        },
        _ => refused(key.span, "this"),
    }
}
