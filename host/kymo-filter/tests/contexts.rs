// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts of other tracers: `$NAME` of a trace is whatever its records have, and kymo's own names stay what they are.

use kymo_filter::probe::events;
use kymo_filter::{Event, ExprKind, Field, ValueType, context_field, parse, parse_of_trace};

/// Events of which one has the context `ppid`.
fn of_other_tracer() -> Vec<Event> {
    let mut events = events();
    events[1].fields.push(Field { name: context_field("ppid"), kind: ValueType::Int { signed: true, bits: 32 } });
    events
}

#[test]
fn a_trace_may_have_any() {
    let events = of_other_tracer();
    for text in
        ["$ppid == 3", "req:*: $ppid in (1, 2)", "has($ppid) && $tid == 7", "latency(req:begin, req:end, by=id) > 5"]
    {
        let checked = parse_of_trace(text).and_then(|filter| filter.check(&events));
        assert!(checked.is_ok(), "{text}: {}", checked.unwrap_err());
    }
    // What kymo records is told apart from what it does not know while it records.
    assert!(parse("$ppid == 3").unwrap_err().to_string().contains("there is no context `$ppid`"));
    assert!(parse("$prio == 3").is_ok());
}

#[test]
fn one_that_no_record_has_is_refused_with_those_that_are_near() {
    let refused = |text: &str| parse_of_trace(text).unwrap().check(&of_other_tracer()).unwrap_err().to_string();
    let error = refused("$ppidd == 3");
    assert!(error.contains("there is no context `$ppidd`") && error.contains("did you mean `$ppid`?"), "{error}");
    assert!(error.contains("these records also have `ppid`"), "{error}");
    assert!(refused("$tidd == 3").contains("did you mean `$tid`?"));
    // One that kymo could have recorded.
    assert!(refused("$cgroup == 3").contains("kymo record --context cgroup"));
    // The event that is meant does not have it.
    assert!(refused("motor:step: $ppid == 3").contains("there is no context `$ppid`"));
}

#[test]
fn other_names_of_known_contexts_are_these() {
    for (text, name) in
        [("$vtid", "tid"), ("$vpid", "pid"), ("$procname", "proc"), ("$cpu_id", "cpu"), ("$comm", "proc")]
    {
        let filter = parse_of_trace(&format!("{text} == {text}")).unwrap();
        let ExprKind::Compare(_, left, _) = &filter.expr.kind else { panic!("{text}") };
        assert!(matches!(&left.kind, ExprKind::Context(context) if context.name() == name), "{text}");
    }
}
