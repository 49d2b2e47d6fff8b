// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters against events: every name is found or refused, every comparison is of things that compare. `names` finds
//! what no event has; `alone` looks at a filter before there are events; `typed` makes the plan of one event,
//! of `conditions`.

mod alone;
mod conditions;
mod names;
mod typed;

use kymo_names::event_matches;

use crate::ast::{Expr, ExprKind, Filter};
use crate::error::Error;
use crate::pair::{Pair, Planner};
use crate::parse::pair::parse_pair;
use crate::plan::{Cond, Record};
use crate::schema::{Event, Schema};
use crate::{latency, wakeup};

/// A filter that was held against the events of a trace or program.
#[derive(Clone, Debug)]
pub struct Checked {
    pub(crate) text: String,
    pub(crate) events: Vec<Event>,
    pub(crate) plans: Vec<Cond>,
    pub(crate) pairs: Vec<Pair>,
    notes: Vec<Error>,
}

impl Filter {
    /// Holds the filter against events.
    ///
    /// Refused are names that no event has and comparisons that make sense for no event. A comparison that makes sense
    /// for some events leaves the others out, with a note.
    pub fn check(&self, schema: &(impl Schema + ?Sized)) -> Result<Checked, Error> {
        let events: Vec<Event> = (0..schema.count()).map(|event| schema.event(event).clone()).collect();
        let text = if self.text.0.is_empty() { self.to_string() } else { self.text.0.clone() };
        names::check(self, &text, &events)?;
        let latencies = collect(&self.expr);
        let mut found = typed::Findings::default();
        let mut condition = |when: &Expr, event: &Event| typed::plan(when, event, &events, &text, &[], &mut found);
        let pairs = latencies
            .iter()
            .map(|latency| pair_of(latency, &events, &text, &mut condition))
            .collect::<Result<_, _>>()?;
        let mut plans = Vec::with_capacity(events.len());
        for event in &events {
            let selected = self.selector.as_ref().is_none_or(|selector| event_matches(&selector.glob, &event.name));
            plans.push(match selected {
                true => typed::plan(&self.expr, event, &events, &text, &latencies, &mut found),
                false => Cond::Const(false),
            });
        }
        let notes = found.conclude()?;
        Ok(Checked { text, events, plans, pairs, notes })
    }
}

/// A pair by its arguments alone, held against events.
pub(crate) fn pair_alone(text: &str, schema: &(impl Schema + ?Sized)) -> Result<Pair, Error> {
    let filter = parse_pair(text)?;
    let events: Vec<Event> = (0..schema.count()).map(|event| schema.event(event).clone()).collect();
    names::check(&filter, text, &events)?;
    let mut found = typed::Findings::default();
    let mut condition = |when: &Expr, event: &Event| typed::plan(when, event, &events, text, &[], &mut found);
    let pair = pair_of(&filter.expr.kind, &events, text, &mut condition)?;
    found.conclude()?;
    Ok(pair)
}

impl Checked {
    /// What was accepted, and is probably not what was meant.
    pub fn notes(&self) -> &[Error] {
        &self.notes
    }

    /// The filter as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether no record of the event can be selected. An event may still open a pair.
    pub fn is_never(&self, event: usize) -> bool {
        matches!(self.plans.get(event), None | Some(Cond::Const(false)))
    }

    /// Whether fields of the event's payload decide.
    pub fn reads_payload(&self, event: usize) -> bool {
        self.plans.get(event).is_some_and(Cond::reads_payload)
    }

    /// Whether records before the one to be decided matter: then a [`crate::Matcher`] is needed.
    pub fn has_latency(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Whether a record of the event at position `event` is selected. Allocates nothing; latencies are not known.
    #[inline]
    pub fn matches<R: Record>(&self, event: usize, record: &R) -> bool {
        self.plans.get(event).is_some_and(|plan| plan.holds(record, &[]))
    }
}

/// The different pairs of an expression.
fn collect(expr: &Expr) -> Vec<&ExprKind> {
    let mut found: Vec<&ExprKind> = Vec::new();
    expr.walk(&mut |expr| match &expr.kind {
        pair @ (ExprKind::Latency(_) | ExprKind::Wakeup(_)) if !found.contains(&pair) => found.push(pair),
        _ => {}
    });
    found
}

/// The pair of `latency(...)` or `wakeup(...)`.
fn pair_of(kind: &ExprKind, events: &[Event], text: &str, plan: &mut Planner<'_>) -> Result<Pair, Error> {
    match kind {
        ExprKind::Latency(latency) => latency::pair(latency, events, text, plan),
        ExprKind::Wakeup(when) => Ok(wakeup::pair(when.as_deref(), events, plan)),
        _ => Ok(Pair { opens: Vec::new(), closes: Vec::new(), is_of_thread: false, leaves: Vec::new() }),
    }
}
