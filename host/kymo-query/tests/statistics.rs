// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of a window: of a trace of which every record is known, and of random windows of random traces what the
//! verbs would add up, which read from the trace's begin on.

use crate::common;
use crate::random_trace;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Made, NICE, ask, column, rows, small, try_ask};
use kymo_analyze::usage::{Told, Usage, UsageScope};
use kymo_analyze::{CallSpan, CpuSpan, Event, Head, InterruptSpan, Sink, State, Thread, ThreadSpan, Threads};
use kymo_ctf::read::{Reader, Trace};
use kymo_feed::{Classes, Payload, Seen, Visit, Walker, is_by_writer};
use kymo_index::{How, Indexes, Named, Spacing, build, range};
use kymo_query::Opened;
use random_trace::{Plan, Random, write};
use serde_json::{Value, json};

#[track_caller]
fn expect_rows(found: &Value, names: &[&str], expect: Value) {
    assert_eq!(Value::from_iter(rows(found, "rows", names)), expect, "{found}");
}

fn sum(found: &Value, table: &str, name: &str) -> u64 {
    column(found, table, name).iter().filter_map(Value::as_u64).sum()
}

#[test]
fn events_have_counts_and_rates_of_the_window() {
    let of = small().open();
    let found = ask(&of, "statistics", "");
    let names = ["name", "is_kernel", "records", "first", "last", "busy_ns"];
    let expect = json!([
        ["sched_switch", 1, 8, 0, 1000, null],
        ["motor:step", 0, 3, 430, 700, null],
        ["sched_waking", 1, 2, 300, 750, null],
        ["irq_handler_entry", 1, 1, 200, 200, null],
        ["irq_handler_exit", 1, 1, 250, 250, null],
        ["syscall_entry_futex", 1, 1, 150, 150, null],
        ["syscall_exit_futex", 1, 1, 850, 850, null],
        ["axis:begin", 0, 1, 420, 420, null],
        ["axis:end", 0, 1, 480, 480, null],
    ]);
    expect_rows(&found, &names, expect);
    // 1000 ns from the first record to the last.
    assert_eq!(rows(&found, "rows", &["per_s"])[0], [json!(8e6)]);
    assert_eq!((&found["info"]["records"], &found["info"]["total"]), (&json!(19), &json!(9)));
    let part = ask(&of, "statistics", "from=@420&to=@481&sort=name");
    expect_rows(&part, &["name", "records"], json!([["axis:begin", 1], ["axis:end", 1], ["motor:step", 1]]));
    assert_eq!((&part["info"]["first"], &part["info"]["last"]), (&json!(420), &json!(480)));
    assert_eq!(column(&part, "rows", "per_s")[0], json!(1.0 / (60.0 / 1e9)));
    let one = ask(&of, "statistics", "from=@430&to=@431");
    assert_eq!(column(&one, "rows", "per_s"), &[Value::Null], "one record has no rate");
}

#[test]
fn threads_have_records_and_time() {
    let of = small().open();
    let found = ask(&of, "statistics", "by=thread");
    let names = ["tid", "name", "records", "busy_ns", "interrupt_ns", "runs", "longest_ns"];
    let expect = json!([
        [10, "a", 7, 800, 50, 2, 400],
        [20, "rt", 5, 200, 0, 1, 200],
        [30, "b", 4, 160, 0, 2, 100],
        [null, null, 3, null, null, null, null],
    ]);
    // Three switches were written when nobody ran, or by the first record of a CPU.
    expect_rows(&found, &names, expect);
    let part = ask(&of, "statistics", "by=thread&from=@350&to=@610");
    expect_rows(&part, &["tid", "busy_ns", "runs"], json!([[20, 200, 1], [10, 60, 2]]));
    let by_records = ask(&of, "statistics", "by=thread&sort=records&limit=2");
    expect_rows(&by_records, &["tid", "records"], json!([[10, 7], [20, 5]]));
}

#[test]
fn cpus_have_parts_that_sum_up_to_the_window() {
    let of = small().open();
    let found = ask(&of, "statistics", "by=cpu&from=@0&to=@900");
    let names = ["cpu", "records", "busy_ns", "interrupt_ns", "idle_ns", "unknown_ns", "runs", "longest_ns"];
    expect_rows(&found, &names, json!([[0, 12, 900, 50, 0, 0, 3, null], [1, 5, 160, 0, 740, 0, 2, null]]));
    assert_eq!(found["info"]["idle_ns"], 740);
}

#[test]
fn a_filter_counts_what_matches_and_what_ends_with_it() {
    let of = small().open();
    let found = ask(&of, "statistics", "filter=position > 0.0");
    expect_rows(&found, &["name", "records"], json!([["motor:step", 2]]));
    assert_eq!((&found["info"]["records"], &found["info"]["selected"]), (&json!(19), &json!(2)));
    // The run that ends with the switch at 600.
    let found = ask(&of, "statistics", "by=thread&filter=prev_tid == 20");
    expect_rows(&found, &["tid", "records", "busy_ns"], json!([[20, 1, 200]]));
    assert!(matches!(try_ask(&of, "statistics", "sort=time"), Err(error) if error.to_string().contains("no time")));
}

#[test]
fn what_is_beyond_the_limit_is_one_row() {
    let of = small().open();
    for by in ["event", "thread", "process", "cpu"] {
        let whole = ask(&of, "statistics", &format!("by={by}"));
        let total = column(&whole, "rows", "records").len();
        assert!(column(&whole, "others", "records").is_empty(), "{by}");
        for limit in 1..total {
            let part = ask(&of, "statistics", &format!("by={by}&limit={limit}"));
            assert_eq!((column(&part, "rows", "records").len(), &part["info"]["total"]), (limit, &json!(total)));
            assert_eq!(column(&part, "others", "rows"), &[json!(total - limit)]);
            for name in ["records", "busy_ns", "runs", "idle_ns"] {
                let both = sum(&part, "rows", name) + sum(&part, "others", name);
                assert_eq!(both, sum(&whole, "rows", name), "{name} by {by}");
            }
        }
    }
}

#[test]
fn losses_of_the_window_are_said() {
    let mut made = Made::default();
    made.switch(0, 1000, (0, 0), (10, "a", NICE)).switch(0, 1100, (10, 1), (11, "b", NICE));
    made.lose(0, 7).switch(0, 1500, (10, 1), (0, "swapper/0", NICE)).step(0, 1900, 1.0);
    let of = made.open();
    let found = ask(&of, "statistics", "by=thread");
    assert_eq!((&found["lost"]["records"], &found["lost"]["places"]), (&json!(7), &json!(1)));
    assert_eq!(column(&found, "losses", "records"), &[json!(7)]);
    // From 1100 on it is not known who ran, until the switch at 1500.
    expect_rows(&found, &["tid", "busy_ns", "doubtful_ns"], json!([[10, 100, 0], [null, null, null]]));
    assert!(found["notes"].to_string().contains("times are lower bounds"), "{}", found["notes"]);
    let before = ask(&of, "statistics", "by=cpu&to=@90");
    assert_eq!((&before["lost"]["records"], column(&before, "losses", "records").len()), (&json!(0), 0));
    expect_rows(&before, &["cpu", "busy_ns", "unknown_ns"], json!([[0, 90, 0]]));
    let behind = ask(&of, "statistics", "by=cpu&from=@600&to=@800");
    assert_eq!(behind["lost"]["records"], 7, "it reaches into the window");
    expect_rows(&behind, &["cpu", "idle_ns", "unknown_ns"], json!([[0, 200, 0]]));
    let within = ask(&of, "statistics", "by=cpu&from=@200&to=@400");
    expect_rows(&within, &["cpu", "busy_ns", "unknown_ns"], json!([[0, null, 200]]));
    // Behind the kernel's last event nothing is known.
    let end = ask(&of, "statistics", "by=cpu&from=@600");
    expect_rows(&end, &["cpu", "idle_ns", "unknown_ns"], json!([[0, null, null]]));
    assert_eq!((&end["info"]["has_times"], &end["info"]["times_to"]), (&json!(false), &Value::Null));
}

#[test]
fn without_switches_times_are_unknown_and_not_zero() {
    let mut made = Made::default();
    made.step(0, 1000, 1.0).step(1, 1500, 2.0).axis(0, 2000, true);
    let nobody = small().open_without_switches();
    // The trace has none at all, or could have had some and has none.
    for (of, records, hint) in
        [(made.open(), 3, "the window has no sched events"), (nobody, 19, "record with -k sched")]
    {
        for by in ["thread", "process", "cpu"] {
            let found = ask(&of, "statistics", &format!("by={by}"));
            assert_eq!(sum(&found, "rows", "records"), records);
            for name in ["busy_ns", "runs", "idle_ns"] {
                assert!(column(&found, "rows", name).iter().all(Value::is_null), "{name} by {by}");
            }
            assert_eq!(found["info"]["has_times"], false);
            assert!(found["notes"].to_string().contains(hint), "{}", found["notes"]);
        }
    }
}

/// What `kymo top` adds up.
struct Top {
    usage: Usage,
    told: Told,
    records: BTreeMap<u32, u64>,
    from: i64,
}

impl Visit for Top {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.told.record(seen.class, &seen.head, &Payload(seen.record.payload), state, &mut self.usage);
        if is_by_writer(seen.record.stream) {
            self.usage.check(&seen.head, state);
        }
        if seen.head.time >= self.from {
            *self.records.entry(seen.record.cpu.unwrap_or(u32::MAX)).or_default() += 1;
        }
    }
}

impl Sink for Top {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.usage.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.usage.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.usage.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.usage.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.usage.call(span, thread);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.usage.lost(cpu, from, to);
    }
}

/// From the trace's begin on, as the verb reads it.
fn top(traces: &[Trace], (from, to): (i64, i64), last: i64) -> Top {
    let classes = Classes::new(traces);
    let usage = Usage::new(UsageScope { from, to, ..UsageScope::default() }, &classes.vocabulary);
    let mut top = Top { usage, told: Told::new(&classes.list), records: BTreeMap::new(), from };
    let (mut walker, indexes) = (Walker::new(&classes), Indexes::default());
    let mut before: Reader<'_> = range::reader(traces, &indexes, None, Some(from.into()));
    walker.go(&mut before, &mut (), &mut top);
    walker.begin_range(from);
    let mut reader = range::reader(traces, &indexes, Some(from.into()), Some(to.into()));
    walker.go(&mut reader, &mut (), &mut top);
    walker.state.finish((to <= last).then_some(to), &mut top);
    top.usage.finish(&walker.state);
    top
}

fn same_as_top(of: &Opened, traces: &[Trace], window: (i64, i64), last: i64) {
    let expect = top(traces, window, last);
    // The program goes on behind the kernel's last event.
    let is_timed = expect.usage.stretch().is_some_and(|(from, to)| from < to);
    let query = format!("from={}&to={}&limit=10000", window.0, window.1);
    let found = ask(of, "statistics", &format!("by=cpu&{query}"));
    let cpus: BTreeMap<u64, Vec<Value>> =
        rows(&found, "rows", &["cpu", "busy_ns", "interrupt_ns", "other_ns", "idle_ns", "unknown_ns", "runs"])
            .into_iter()
            .filter_map(|mut row| Some((row.remove(0).as_u64()?, row)))
            .collect();
    let of_top: BTreeMap<u64, Vec<Value>> = expect
        .usage
        .cpus()
        .map(|(number, used)| {
            let parts = [used.busy_ns(), used.interrupt_ns, used.other_ns, used.idle_ns, used.unknown_ns, used.runs];
            (number.into(), parts.map(Value::from).to_vec())
        })
        .collect();
    assert!(cpus == of_top || !is_timed, "{query}: {cpus:?}, {of_top:?}");
    let counts = rows(&found, "rows", &["cpu", "records"]);
    for row in counts.iter().filter(|row| !row[0].is_null()) {
        let cpu = row[0].as_u64().unwrap() as u32;
        assert_eq!(row[1].as_u64(), Some(expect.records.get(&cpu).copied().unwrap_or(0)), "{query}");
    }
    let found = ask(of, "statistics", &format!("by=thread&{query}"));
    let mut threads: BTreeMap<i64, [u64; 5]> = BTreeMap::new();
    for row in rows(&found, "rows", &["tid", "busy_ns", "interrupt_ns", "runs", "longest_ns", "doubtful_ns"]) {
        if let Some(tid) = row[0].as_i64().filter(|_| row[3].as_u64().is_some_and(|runs| runs > 0)) {
            threads.insert(tid, [1, 2, 3, 4, 5].map(|at| row[at].as_u64().unwrap()));
        }
    }
    let mut of_top: BTreeMap<i64, [u64; 5]> = BTreeMap::new();
    for (actor, used) in expect.usage.threads().filter(|(_, used)| used.cpu.runs > 0) {
        let (sums, cpu) = (of_top.entry(actor.tid.into()).or_default(), used.cpu);
        let own = [cpu.ns, cpu.interrupted_ns, cpu.runs, 0, cpu.doubtful_ns];
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        sums[3] = sums[3].max(cpu.longest_ns);
    }
    assert_eq!(threads, of_top, "{query}");
    let by_event = ask(of, "statistics", &query);
    assert_eq!(sum(&by_event, "rows", "records"), expect.records.values().sum::<u64>(), "{query}");
}

/// Counts of a whole trace come from the index, and are those of the records; losses are listed.
fn same_from_index(with: &Opened, without: &Opened) {
    let [found, expect] = [with, without].map(|of| ask(of, "statistics", "limit=5"));
    assert_eq!((&found["info"]["source"], &expect["info"]["source"]), (&json!("index"), &json!("records")));
    for part in ["tables", "lost", "notes"] {
        assert_eq!(found[part], expect[part], "{part}");
    }
    for name in ["records", "selected", "first", "last", "total"] {
        assert_eq!(found["info"][name], expect["info"][name], "{name}");
    }
}

fn open(dir: &Path, with_index: bool) -> Opened {
    let traces = vec![Trace::open(dir).unwrap().value];
    let named = Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] };
    let indexes = if with_index { Indexes::open(&[named], &traces) } else { Indexes::default() };
    Opened::new(traces, indexes, String::new(), Vec::new())
}

#[test]
fn windows_have_the_numbers_of_the_verbs() {
    let mut random = Random::new("statistics", 5);
    let plan = Plan { records: 700, ..Plan::default() };
    let plans =
        [plan, Plan { lossy: 4, packet: 50, ..plan }, Plan { cpus: 8, threads: 60, records: 150, lossy: 9, ..plan }];
    for plan in plans {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &Plan { seed: random.word(), ..plan }).unwrap();
        let named = Named { dir: dir.path().to_owned(), parts: vec![dir.path().to_owned()] };
        let traces = [Trace::open(dir.path()).unwrap().value];
        let how = How {
            anew: true,
            in_cache: false,
            spacing: Spacing { records: 20, share: 0 },
            spans: Some(kymo_query::named_spans),
        };
        build(&named, &traces, how, &kymo_index::Stop::new(), &|_| panic!("nobody else builds")).unwrap();
        let (with, without) = (open(dir.path(), true), open(dir.path(), false));
        same_from_index(&with, &without);
        let (first, last) = without.bounds.unwrap();
        // All CPUs have written by then. After a loss a window does not tell of a CPU that has not: whether what was
        // lost was its own.
        let begun = first + 2000;
        for round in 0..20 {
            let at = |random: &mut Random| begun + random.below(last.abs_diff(begun) + 1) as i64;
            let (a, b) = (at(&mut random), at(&mut random));
            let window = match round {
                0 => (first, last + 1),
                1 => (a, last + 1),
                _ => (a.min(b), a.max(b) + 1),
            };
            same_as_top(if round % 2 == 0 { &with } else { &without }, &traces, window, last);
        }
    }
}
