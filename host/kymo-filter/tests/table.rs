// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expression and record to outcome; where a program can say it, the program agrees.

use crate::support;

use kymo_filter::probe::events;
use kymo_filter::{Context, FieldPath, KeyPart, Matcher, PairLatency, Record, Value, compile, parse};
use support::*;

/// What each expression says of `step()`, which is record of event 0.
const OF_STEP: &[(&str, bool)] = &[
    ("axis == 2 && position > 0.5", true),
    ("axis == 2 && position > 0.8", false),
    ("motor:step.duration > 200us", true),
    ("motor:step.duration > 0.25ms", false),
    ("motor:step.duration >= 0.25ms", true),
    ("motor:*: axis == 2 && position > 0.5", true),
    ("\"m[o]tor:*\": axis == 2 && position > 0.5", true),
    ("\"[!m]*:*\": $tid == 7", false),
    ("motor: axis == 2 && position > 0.5", true),
    ("req:*: id == 2", false),
    ("$tid == 7 && $cpu != 0", true),
    ("$pid == 7", false),
    ("!($pid == 7)", false),
    ("$pid == 7 || true", true),
    ("size & 0xff == 3", true),
    ("size & 0x103 > 0x102", true),
    ("size & 4 != 0", false),
    ("1 | 2 == 3", true),
    ("has(axis)", true),
    ("has(id)", false),
    ("!has(id)", true),
    ("id == 1", false),
    ("id != 1", false),
    ("!(id == 1)", false),
    ("id == 1 || axis == 2", true),
    ("!(id == 1 || axis == 2)", false),
    ("!(id == 1 && axis == 3)", true),
    ("state == moving", true),
    ("moving == state", true),
    ("state == 1", true),
    ("state == \"moving\"", true),
    ("state != fault", true),
    ("state in (idle, moving)", true),
    ("state in (idle, fault)", false),
    ("!(state in (idle, fault))", true),
    ("state ~ \"mo*\"", true),
    ("state ~ \"*z\"", false),
    ("state !~ \"*z\"", true),
    ("state > idle", true),
    ("ok", true),
    ("!ok", false),
    ("ok == true", true),
    ("ok == false", false),
    ("ok != false", true),
    ("axis in (1, 2, 3, 4, 5)", true),
    ("axis in (1, 3, 4, 5, 6)", false),
    ("!(axis in (1, 3, 4, 5, 6))", true),
    ("position in (0.5, 0.75)", true),
    ("vec[0] == -1 && vec[2] == 300", true),
    ("vec[0] < 0", true),
    ("len(vec) == 3", true),
    ("len(note) == 3 && len(data) == 4 && len(list) == 2", true),
    ("list[1] == -6", true),
    ("list[2] == 0", false),
    ("list[2] != 0", false),
    ("has(list[1]) && !has(list[2])", true),
    ("note == \"abc\"", true),
    ("note ~ \"a*c\"", true),
    ("note ~ \"ab*bc\"", false),
    ("note ~ \"?b?\"", true),
    ("note ~ \"abcd*\"", false),
    ("note in ('x', 'abc')", true),
    ("$proc == 'prog' && $proc ~ 'p*'", true),
    ("$event == 'motor:step'", true),
    ("$event ~ 'req:*'", false),
    ("$event !~ 'req:*'", true),
    ("delta == -3 && delta < 0 && delta >= -3", true),
    ("-delta == 3", true),
    ("delta * -1 > 2.5", true),
    ("duration / 1000 % 100 == 50", true),
    ("axis + 1 == 3 && axis - 3 < 0", true),
    ("1 << 4 >> 2 == 4", true),
    ("axis == 2.0", true),
    ("axis > 1.5 && axis < 2.5 && axis != 1.5", true),
    ("axis == 5_000_000_000", false),
    ("axis < 5_000_000_000", true),
    ("axis >= -1", true),
    ("duration / axis > 100us", true),
    ("duration / (axis - 2) > 0 || true", true),
    ("duration / (axis - 2) > 0", false),
    ("gain == 0.5", true),
    ("position == gain", false),
    ("position > gain", true),
    ("`axis` == 2", true),
    ("2 == axis && 1 < axis", true),
    ("true", true),
    ("false || !true", false),
    ("name == \"x\"", false),
    ("motor:step.axis == 2 || req:begin.id == 1", true),
    ("\"motor:step\".axis == 2", true),
    ("$time == 1us", true),
];

#[test]
fn outcomes() {
    let record = step();
    let payload = pack(&events()[0], &record);
    let mut programs = 0;
    for &(text, expect) in OF_STEP {
        let checked = parse(text).and_then(|filter| filter.check(&events())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checked.matches(0, &record), expect, "{text}");
        if let Ok(program) = compile(&checked, 0) {
            assert_eq!(program.check(), Ok(()), "{text}");
            assert_eq!(program.run(&payload), expect, "program of {text}");
            programs += 1;
        }
    }
    assert!(programs > OF_STEP.len() / 2, "{programs} programs");
}

#[test]
fn kernel_events() {
    for (text, expect) in [
        ("prev_state in (1, 2)", true),
        ("sched_switch: prev_state == 2 && $tid == 7", true),
        ("name == \"ab*\"", true),
        ("name == \"abc\"", false),
        ("name ~ \"ab*\"", true),
        ("$proc == \"\"", true),
        ("\"sched*\": has(prev_state)", true),
    ] {
        let checked = parse(text).and_then(|filter| filter.check(&events())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checked.matches(3, &switch()), expect, "{text}");
    }
}

#[test]
fn kinds_that_only_records_tell() {
    let record = |thing| Rec { fields: vec![thing, V::Struct(vec![("x", V::Int(4))])], ..Rec::default() };
    for (text, thing, expect) in [
        ("thing == 3", V::Int(3), true),
        ("thing == 3", V::Text("3".into()), false),
        ("thing != 3", V::Text("3".into()), false),
        ("thing == 'a'", V::Text("a".into()), true),
        ("thing == moving", V::Label(1, Some("moving")), true),
        ("thing != moving", V::Label(2, None), true),
        ("thing", V::Bool(true), true),
        ("thing == false", V::Bool(true), false),
        ("thing.a[1] == 2", V::Struct(vec![("a", V::Array(vec![V::Int(1), V::Int(2)]))]), true),
        ("pos.x == 4", V::Int(0), true),
        ("pos.x == thing", V::Int(4), true),
    ] {
        let checked = parse(text).and_then(|filter| filter.check(&events())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checked.matches(4, &record(thing)), expect, "{text}");
    }
}

#[test]
fn notes_of_what_is_accepted() {
    let notes = |text: &str| {
        let checked = parse(text).and_then(|filter| filter.check(&events())).unwrap_or_else(|e| panic!("{e}"));
        checked.notes().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expect = "name == \"ab*\"\n        ^^^^^ `==` takes `*` as it is\nhelp: `~` matches globs: `~ \"ab*\"`";
    assert_eq!(notes("name == \"ab*\""), [expect]);
    assert!(notes("name == \"ab\" && name ~ \"ab*\"").is_empty());
}

#[test]
fn a_comparison_that_fits_some_events_leaves_the_others_out() {
    let mut events = events();
    events[1].fields[0].name = "name".into();
    let checked = parse("name == \"ab*\"").unwrap().check(&events).unwrap();
    assert!(checked.is_never(1) && !checked.is_never(3));
    assert_eq!(checked.notes().len(), 2, "{:?}", checked.notes());
}

/// Records of `req:begin` (1) and `req:end` (2): event, id, time.
fn latencies(text: &str, open_max: usize, records: &[(usize, i128, i128)]) -> (Vec<i128>, Matcher) {
    let checked = parse(text).and_then(|filter| filter.check(&events())).unwrap_or_else(|e| panic!("{e}"));
    assert!(checked.has_latency());
    let mut matcher = Matcher::new(checked, open_max);
    let mut times = Vec::new();
    for &(event, id, time) in records {
        let record = Rec { fields: vec![V::Int(id), V::Int(0)], time, tid: Some(7), ..Rec::default() };
        if matcher.matches(event, &record) {
            times.push(time);
        }
    }
    (times, matcher)
}

#[test]
fn pairs() {
    const MS: i128 = 1_000_000;
    let records =
        [(1, 1, 0), (1, 2, MS), (2, 1, 6 * MS), (2, 2, 6 * MS), (2, 3, 7 * MS), (1, 1, 8 * MS), (1, 1, 9 * MS)];
    let (times, matcher) = latencies("latency(req:begin, req:end, by=id) > 5ms", 16, &records);
    assert_eq!(times, [6 * MS]);
    let counts = matcher.pairs()[0].counts();
    assert_eq!((counts.closed, counts.unopened, counts.nested, counts.dropped), (2, 1, 0, 0));
    // The second one of id 1 nests in the first, and neither ended.
    assert_eq!((matcher.pairs()[0].open(), matcher.pairs()[0].repeated()), (2, 1));
    let (times, _) = latencies("latency(req:begin, req:end, by=id) >= 5ms && status == 0", 16, &records);
    assert_eq!(times.len(), 2);
    let (times, _) = latencies("latency(req:begin, req:end) < 1us || id == 3", 16, &records);
    assert_eq!(times, [7 * MS]);
    let (times, _) = latencies("latency(\"req:b*\", req:begin, by=id) == 1ms", 16, &records);
    assert_eq!(times, [9 * MS]);
}

#[test]
fn the_oldest_opening_is_dropped_and_counted() {
    let records: Vec<_> = (0..10).map(|id| (1, id, id)).chain((0..10).map(|id| (2, id, 100))).collect();
    let (times, matcher) = latencies("latency(req:begin, req:end, by=id) > 0", 4, &records);
    assert_eq!(times.len(), 4);
    assert_eq!((matcher.pairs()[0].counts().dropped, matcher.pairs()[0].counts().unopened), (6, 6));
    let records: Vec<_> = (0..100_000).map(|at| (1 + at % 2, 1, at as i128)).collect();
    let (times, matcher) = latencies("latency(req:begin, req:end, by=id) == 1", 4, &records);
    assert_eq!((times.len(), matcher.pairs()[0].open()), (50_000, 0));
}

#[test]
fn keys_of_two_names_and_openings_on_a_condition() {
    let records = [(1, 7, 0), (2, 7, 10), (1, 3, 20), (2, 3, 30), (1, 7, 40), (1, 7, 50), (2, 7, 60)];
    let times = |text: &str| latencies(text, 16, &records).0;
    assert_eq!(times("latency(req:begin, req:end, by=id:id) == 10"), [10, 30, 60]);
    assert_eq!(times("latency(req:begin, req:end, by=id : id, where=id > 5) == 10"), [10, 60]);
    // The names of two fields that never agree: `status` is 0.
    assert_eq!(times("latency(req:begin, req:end, by=id:status) > 0"), [0i128; 0]);
    assert_eq!(times("latency(req:begin, req:end, where=id == 3) > 0"), [30]);
    // What begins without the condition has its end, too.
    let records = [(1, 3, 0), (1, 7, 10), (2, 7, 20)];
    assert_eq!(latencies("latency(req:begin, req:end, where=id == 3) > 0", 16, &records).0, [0i128; 0]);
}

/// A record: event, thread, process, CPU, time.
type PairRecord = (usize, Option<u32>, Option<i128>, u32, i128);

/// ns and whether it is an outer one, for each end in records of `req:begin` (1) and `req:end` (2): event, thread,
/// process, CPU, time.
fn closed(pair: &str, records: &[PairRecord]) -> (Vec<(i128, bool)>, PairLatency) {
    let mut pair = PairLatency::parse(pair, &events(), 16).unwrap_or_else(|e| panic!("{e}"));
    let mut found = Vec::new();
    for &(event, tid, pid, cpu, time) in records {
        let fields = vec![V::Int(1), V::Int(0)];
        let record = OfProcess(Rec { fields, time, tid, cpu: Some(cpu), ..Rec::default() }, pid);
        found.extend(pair.feed(event, &record).map(|closed| (closed.ns, closed.is_outer)));
    }
    (found, pair)
}

/// A record that tells its process, or does not.
struct OfProcess(Rec, Option<i128>);

impl Record for OfProcess {
    fn field(&self, place: &FieldPath) -> Value<'_> {
        self.0.field(place)
    }

    fn context(&self, context: Context) -> Value<'_> {
        match context {
            Context::Pid => self.1.map_or(Value::Absent, Value::Int),
            _ => self.0.context(context),
        }
    }
}

#[test]
fn a_pair_is_of_one_thread_unless_keys_are_given() {
    let of = |event, tid, time| (event, Some(tid), None, 0, time);
    // Two threads, one in the other's time.
    let records = [of(1, 7, 0), of(1, 8, 10), of(2, 8, 15), of(1, 8, 20), of(2, 7, 50), of(2, 8, 26)];
    let lengths = |pair: &str| closed(pair, &records).0.iter().map(|(ns, _)| *ns).collect::<Vec<_>>();
    assert_eq!(lengths("req:begin, req:end"), [5, 50, 6]);
    assert_eq!(lengths("req:begin, req:end, by=$tid"), [5, 50, 6]);
    assert_eq!(lengths("req:begin, req:end, by=$vtid"), [5, 50, 6]);
    assert_eq!(lengths("req:begin,req:end,by=*"), [5, 30, 26]);
    assert_eq!(lengths("req:begin, req:end, by=id"), [5, 30, 26]);
    assert_eq!(lengths("\"req:b*\", req:end, by=$tid, id"), [5, 50, 6]);
}

#[test]
fn threads_of_one_number_are_told_apart_by_process_and_cpu() {
    let records = [(1, Some(1), Some(1), 0, 0), (1, Some(1), Some(2), 0, 10), (2, Some(1), Some(1), 0, 30)];
    let (found, pair) = closed("req:begin, req:end", &records);
    assert_eq!((found, pair.open(), pair.repeated()), (vec![(30, false)], 1, 0));
    // A record that does not tell its process may be of any.
    let records = [(1, Some(1), Some(1), 0, 0), (2, Some(1), None, 0, 30)];
    assert_eq!(closed("req:begin, req:end", &records).0, [(30, false)]);
    // Idle threads have the number 0 on all CPUs.
    let records =
        [(1, Some(0), None, 0, 0), (1, Some(0), None, 1, 10), (2, Some(0), None, 0, 20), (2, Some(0), None, 1, 50)];
    assert_eq!(closed("req:begin, req:end", &records).0, [(20, false), (40, false)]);
    // Without a thread there is no pair.
    let (found, pair) = closed("req:begin, req:end", &[(1, None, None, 0, 0), (2, None, None, 0, 9)]);
    assert_eq!((found, pair.counts().without_key), (vec![], 2));
}

#[test]
fn nested_and_repeated_begins_are_counted() {
    let of = |event, time| (event, Some(7), None, 0, time);
    let records = [of(2, 1), of(1, 10), of(1, 20), of(2, 25), of(1, 30), of(2, 37), of(2, 50), of(1, 60), of(1, 70)];
    let (found, pair) = closed("req:begin, req:end", &records);
    assert_eq!(found, [(5, false), (7, false), (40, true)]);
    let counts = pair.counts();
    assert_eq!((counts.closed, counts.nested, counts.unopened, pair.open(), pair.repeated()), (3, 2, 1, 2, 1));
    assert_eq!(pair.key(), "7");
}

#[test]
fn arguments_of_a_pair_alone() {
    for (text, part) in [
        ("req:begin", "expected `,`"),
        ("req:begin, req:end, id", "expected `by=`, found `id`"),
        ("req:begin, req:end, by=tid", "did you mean the context `$tid`"),
        ("req:begin, req:end, by=$procnam", "there is no context `$procnam`"),
        ("req:begin, req:end, by=ids", "did you mean `id`?"),
        ("req:begin, req-end", "no event is called `req-end`"),
        ("req:begin, req:end) > 5", "that this closes"),
        ("", ""),
    ] {
        let error = PairLatency::parse(text, &events(), 16).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let key = |text: &str, fields: Vec<V>| {
        let mut pair = PairLatency::parse(text, &events(), 16).unwrap_or_else(|e| panic!("{e}"));
        pair.feed(1, &Rec { fields, tid: Some(3), proc: "a".into(), ..Rec::default() });
        pair.key()
    };
    assert_eq!(key("req:begin, req:end, by=id, $proc, $tid", vec![V::Int(-2)]), "-2, \"a\", 3");
    // What the parts are of: of the event that ends it.
    let pair = PairLatency::parse("req:begin, req:end, by=id, $tid", &events(), 16).unwrap_or_else(|e| panic!("{e}"));
    let named = |part: &KeyPart<'_>| match part {
        KeyPart::Field(place) => place.name.clone(),
        KeyPart::Context(context) => format!("{context:?}"),
    };
    assert_eq!(pair.key_parts(2).iter().map(named).collect::<Vec<_>>(), ["id", "Tid"]);
    assert!(pair.key_parts(1).is_empty() && pair.key_parts(99).is_empty() && pair.key_values().next().is_none());
}
