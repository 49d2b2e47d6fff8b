// SPDX-License-Identifier: MIT OR Apache-2.0
//! `wakeup()`: from the wake-up of a thread to the moment at which it runs [spec/filter.md 5.1], by the scheduler's
//! events under the kernel's names or LTTng's.

use crate::ast::{Context, Expr, ExprKind, FieldRef};
use crate::pair::{Leaving, Opening, Pair, Planner};
use crate::plan::{Cond, OperandSource};
use crate::schema::Event;

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A wake-up begins.
    Waking,
    /// The thread can run; says it again behind `Waking`.
    Wakeup,
    /// A thread can run for the first time.
    New,
    /// A CPU changes from one thread to another.
    Switch,
}

/// The role of an event, if it has one and the fields for it.
pub(crate) fn role(event: &Event) -> Option<Role> {
    let role = match event.name.strip_prefix("sched:").unwrap_or(&event.name) {
        "sched_waking" => Role::Waking,
        "sched_wakeup" => Role::Wakeup,
        "sched_wakeup_new" => Role::New,
        "sched_switch" => Role::Switch,
        _ => return None,
    };
    let names = if role == Role::Switch { NEXT } else { WOKEN };
    field(event, names).map(|_| role)
}

/// LTTng's name and the kernel's of the thread that was woken, the one that runs next, and the one that ran before.
const WOKEN: [&str; 2] = ["tid", "pid"];
const NEXT: [&str; 2] = ["next_tid", "next_pid"];
const BEFORE: [&str; 2] = ["prev_tid", "prev_pid"];

/// The pair. Events without the fields are left out; that some have them is checked before.
pub(crate) fn pair(when: Option<&Expr>, events: &[Event], plan: &mut Planner<'_>) -> Pair {
    let has_waking = events.iter().any(|event| role(event) == Some(Role::Waking));
    let mut pair = Pair { opens: Vec::new(), closes: Vec::new(), is_of_thread: false, leaves: Vec::new() };
    for event in events {
        let role = role(event);
        let is_switch = role == Some(Role::Switch);
        let woken = field(event, WOKEN).filter(|_| role.is_some() && !is_switch);
        pair.opens.push(woken.map(|(name, source)| Opening {
            keys: vec![source],
            when: when.map_or(Cond::Const(true), |when| plan(&of_woken(when, name), event)),
            replaces: role != Some(Role::Wakeup) || !has_waking,
        }));
        pair.closes.push(field(event, NEXT).filter(|_| is_switch).map(|(_, source)| vec![source]));
        let before = field(event, BEFORE).zip(field(event, ["prev_state"; 2])).filter(|_| is_switch);
        pair.leaves.push(before.map(|((_, thread), (_, state))| Leaving { thread, state }));
    }
    pair
}

fn field(event: &Event, names: [&'static str; 2]) -> Option<(&'static str, OperandSource)> {
    names.into_iter().find_map(|name| Some((name, OperandSource::Place(event.resolve(name, &[])?.0))))
}

/// The condition with `$tid` and `$proc` as those of the thread that is woken, which are fields of the event.
fn of_woken(expr: &Expr, tid: &str) -> Expr {
    let again = |expr: &Expr| of_woken(expr, tid);
    let boxed = |expr: &Expr| Box::new(of_woken(expr, tid));
    let list = |exprs: &[Expr]| exprs.iter().map(again).collect();
    let name = |name: &str| ExprKind::Field(FieldRef { event: None, name: name.to_owned(), steps: Vec::new() });
    let kind = match &expr.kind {
        ExprKind::Context(Context::Tid) => name(tid),
        ExprKind::Context(Context::Proc) => name("comm"),
        ExprKind::Not(of) => ExprKind::Not(boxed(of)),
        ExprKind::Neg(of) => ExprKind::Neg(boxed(of)),
        ExprKind::Binary(op, left, right) => ExprKind::Binary(*op, boxed(left), boxed(right)),
        ExprKind::Compare(op, left, right) => ExprKind::Compare(*op, boxed(left), boxed(right)),
        ExprKind::In(value, values) => ExprKind::In(boxed(value), list(values)),
        ExprKind::And(parts) => ExprKind::And(list(parts)),
        ExprKind::Or(parts) => ExprKind::Or(list(parts)),
        kind => kind.clone(),
    };
    Expr { kind, span: expr.span }
}
