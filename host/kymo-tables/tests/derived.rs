// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that follow from the state have what the questions of the viewer and the verbs answer, from the same engine;
//! and what is pushed down chooses the same rows.

#[path = "../../kymo-query/tests/common/mod.rs"]
mod common;
mod support;

use std::collections::BTreeMap;

use kymo_analyze::cause::{Cause, Evidence, Machine};
use kymo_analyze::{Doing, Sink};
use kymo_ctf::read::Reader;
use kymo_feed::{Classes, Visit, walk};
use kymo_query::Opened;
use kymo_tables::{Scan, Source, TableFunction};
use kymo_testing::Random;
use serde_json::{Value, json};

use common::{Made, NICE, REAL_TIME, ask, small};
use support::{assert_same, open, open_indexed, random, rows, rows_of};

const DERIVED: [&str; 6] = ["thread_state", "cpu_state", "wakeups", "latencies", "locks", "slices"];

fn both(made: &Made) -> (Source, Opened, tempfile::TempDir) {
    let (source, dir) = open(made);
    (source, made.open(), dir)
}

fn all(source: &Source, table: &str) -> Vec<Value> {
    rows(source, table, &Scan::default())
}

/// Sums of a column by what some others have.
fn sums(rows: &[Value], by: &[&str], of: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for row in rows {
        let key = by.iter().map(|name| row[*name].to_string()).collect::<Vec<_>>().join(" ");
        *sums.entry(key).or_default() += if of.is_empty() { 1 } else { row[of].as_u64().unwrap() };
    }
    sums
}

#[test]
fn thread_states_are_the_times_of_the_question_threads() {
    // A question's window ends behind the last record: here that is one of the scheduler, which ends what is open too.
    let mut many = random(3, 4000);
    many.waking(0, 60_000, (10, "t10", NICE), 0);
    for made in [small(), many] {
        let (source, of, _dir) = both(&made);
        let found = sums(&all(&source, "thread_state"), &["tid", "state"], "duration_ns");
        let answer = ask(&of, "threads", "limit=1000");
        let mut compared = 0;
        for state in ["running", "preempted", "woken", "lock", "waiting", "uninterruptible", "page_fault"] {
            for row in common::rows(&answer, "threads", &["tid", &format!("{state}_ns")]) {
                let found = found.get(&format!("{} \"{state}\"", row[0])).copied().unwrap_or(0);
                // A question's window ends 1 ns behind the last record: what is open then is so much longer.
                let expect = row[1].as_u64().unwrap();
                assert!(expect.abs_diff(found) <= 1, "thread {} {state}: {found}, expected {expect}", row[0]);
                compared += found.min(1);
            }
        }
        assert!(compared > 3);
    }
}

#[test]
fn cpu_states_are_stretches_without_gaps() {
    let (source, _of, _dir) = both(&random(5, 3000));
    let mut by_cpu: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for row in all(&source, "cpu_state") {
        by_cpu.entry(row["cpu"].as_u64().unwrap()).or_default().push(row);
    }
    assert_eq!(by_cpu.len(), 3);
    for rows in by_cpu.values() {
        assert!(rows.windows(2).all(|pair| pair[0]["end_time"] == pair[1]["time"]), "{rows:?}");
        assert!(rows.iter().any(|row| row["state"] == "idle") && rows.iter().any(|row| row["state"] == "thread"));
    }
    let (source, ..) = both(&small());
    let irq = all(&source, "cpu_state").into_iter().find(|row| row["state"] == "interrupt").unwrap();
    assert_eq!((&irq["time"], &irq["duration_ns"], &irq["tid"]), (&json!(1200), &json!(50), &json!(10)));
}

#[test]
fn wakeups_are_the_arrows_of_the_viewer() {
    for made in [small(), random(11, 4000)] {
        let (source, of, _dir) = both(&made);
        let answer = ask(&of, "arrows", "limit=10000");
        let names = ["at", "tid", "from_tid", "from_cpu", "cpu", "wait_ns"];
        let base = of.base();
        let expect = common::rows(&answer, "arrows", &names).into_iter().map(|mut row| {
            row[0] = json!(row[0].as_i64().unwrap() + base);
            json!(row).to_string()
        });
        // What is open at the end is so long as the window in the viewer, and as the trace here.
        let runs = |row: &String| !row.contains(",null,");
        let mut expect: Vec<String> = expect.filter(runs).collect();
        let own = ["time", "tid", "by_tid", "by_cpu", "cpu", "duration_ns"];
        let found = all(&source, "wakeups");
        let found = found.iter().map(|row| json!(own.map(|name| row[name].clone())).to_string());
        let mut found: Vec<String> = found.filter(runs).collect();
        expect.sort();
        found.sort();
        assert!(found.len() > 1);
        assert_same(&found, &expect, "wakeups");
    }
}

/// The engine of `kymo explain`, with a whole trace.
struct Whole(Evidence);

impl Sink for Whole {
    fn event(&mut self, head: &kymo_analyze::Head, event: &kymo_analyze::Event, state: &kymo_analyze::State) {
        Sink::event(&mut self.0, head, event, state);
    }

    fn thread(&mut self, span: &kymo_analyze::ThreadSpan, thread: &kymo_analyze::Thread) {
        Sink::thread(&mut self.0, span, thread);
    }

    fn cpu(&mut self, span: &kymo_analyze::CpuSpan) {
        Sink::cpu(&mut self.0, span);
    }

    fn interrupt(&mut self, span: &kymo_analyze::InterruptSpan, threads: kymo_analyze::Threads<'_>) {
        Sink::interrupt(&mut self.0, span, threads);
    }
}

impl Visit for Whole {}

impl Whole {
    fn of(made: &Made) -> Whole {
        let traces = [made.trace()];
        let classes = Classes::new(&traces);
        let mut whole = Whole(Evidence::new(i64::MIN, i64::MAX, usize::MAX, Machine::default()));
        walk(&mut Reader::new(&traces), &classes, &mut whole);
        whole
    }

    /// What the CPU did while a thread waited, as the engine divides a stretch of a CPU: ns by the table's columns.
    fn of_cpu(&self, tid: i32, ran_on: Option<u32>, (from, to): (i64, i64)) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for span in self.0.history().thread(tid).iter().filter(|span| span.from < to && span.to > from) {
            let Doing::Runnable { cpu, .. } = span.doing else { panic!("{span:?}") };
            let cpu = cpu.or(ran_on).filter(|_| span.to > span.from);
            for piece in cpu.map_or(vec![], |cpu| self.0.segments_of_cpu(cpu, span.from, span.to)) {
                let name = match piece.cause {
                    Cause::Ran { tid: of } if of == tid => "leaving",
                    Cause::Ran { .. } | Cause::IrqsOff { .. } | Cause::PreemptionOff { .. } => "thread",
                    Cause::Idle => "idle",
                    Cause::Interrupt(_) => "interrupt",
                    _ => continue,
                };
                *sums.entry(name).or_insert(0) += piece.ns();
            }
        }
        sums
    }
}

/// The words of causes that a thread may wait for. The table must not use them: why a thread waited is decided by the
/// rules of the engine, from more than what its CPU did.
const CAUSES: [&str; 9] = [
    "preempted",
    "higher_priority",
    "run_queue",
    "throttled",
    "idle_exit",
    "switching",
    "irqs_off",
    "preemption_off",
    "irq",
];

#[test]
fn wakeups_have_what_the_engine_says_of_their_cpu_and_no_causes() {
    let mut throttled = Made::default();
    // While the woken real-time thread waits for 900 ns, its CPU is idle at first, and then at one of a normal class:
    // to the engine that is real-time throttling. To call it preempted, or coming out of idle, is wrong.
    throttled.switch(0, 1000, (0, 0), (10, "rt", REAL_TIME)).switch(0, 1100, (10, 1), (0, "swapper/0", NICE));
    throttled.waking(1, 1200, (10, "rt", REAL_TIME), 0).switch(0, 1300, (0, 0), (20, "normal", NICE));
    throttled.switch(0, 2100, (20, 0), (10, "rt", REAL_TIME)).switch(0, 2200, (10, 1), (0, "swapper/0", NICE));
    let mut mostly = BTreeMap::new();
    for made in [throttled, small(), random(1, 4000)] {
        let whole = Whole::of(&made);
        let (source, _dir) = open(&made);
        for row in all(&source, "wakeups") {
            let of = |name: &str| row[name].as_i64().unwrap();
            let ran_on = row["cpu"].as_u64().map(|cpu| cpu as u32);
            let expect = whole.of_cpu(of("tid") as i32, ran_on, (of("time"), of("end_time")));
            let parts = ["thread", "interrupt", "idle", "leaving"];
            let found = parts.map(|part| of(&format!("cpu_{part}_ns")));
            assert_eq!(found.map(|ns| ns as u64), parts.map(|part| expect.get(part).copied().unwrap_or(0)), "{row}");
            assert_eq!(found.iter().sum::<i64>() + of("unknown_ns"), of("duration_ns"), "{row}");
            let most = found.into_iter().chain([of("unknown_ns")]).max();
            let called = row["cpu_mostly"].as_str().unwrap();
            let its = if called == "unknown" { "unknown_ns".to_owned() } else { format!("cpu_{called}_ns") };
            assert_eq!(Some(of(&its)), most, "{row}");
            let names: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
            let is_cause = |word: &&str| CAUSES.contains(&word.trim_end_matches("_ns")) || word.contains("cause");
            assert!(!names.iter().any(is_cause) && !is_cause(&called), "{row}");
            *mostly.entry(called.to_owned()).or_insert(0) += 1;
        }
    }
    assert!(mostly.len() > 1, "{mostly:?}");
}

#[test]
fn latencies_are_those_of_the_question() {
    let mut made = small();
    made.irq(1, 2100, 2130);
    for made in [made, random(17, 4000)] {
        let (source, of, _dir) = both(&made);
        let answer = ask(&of, "latencies", "limit=1");
        let text = |value: &Value| value.as_u64().map_or(value.clone(), |at| answer["texts"][at as usize].clone());
        let series = common::rows(&answer, "series", &["what", "count", "max_ns"]);
        let (mut counts, mut longest): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
        for row in series {
            let what = text(&row[0]).to_string();
            *counts.entry(what.clone()).or_default() += row[1].as_u64().unwrap();
            let longest = longest.entry(what).or_default();
            *longest = row[2].as_u64().unwrap_or(0).max(*longest);
        }
        counts.retain(|_, count| *count > 0);
        longest.retain(|what, _| counts.contains_key(what));
        let found = all(&source, "latencies");
        assert_eq!(sums(&found, &["kind"], ""), counts);
        let mut own: BTreeMap<String, u64> = BTreeMap::new();
        for row in &found {
            let longest = own.entry(row["kind"].to_string()).or_default();
            *longest = row["duration_ns"].as_u64().unwrap().max(*longest);
        }
        assert_eq!(own, longest);
        assert!(counts.len() >= 3, "{counts:?}");
    }
}

#[test]
fn slices_are_spans_calls_and_interrupts() {
    let (source, _dir) = open(&small());
    let found = all(&source, "slices");
    let short = |row: &Value| json!([row["kind"], row["of"], row["time"], row["duration_ns"], row["tid"]]);
    let short: Vec<Value> = found.iter().map(short).collect();
    assert_eq!(
        json!(short),
        json!([
            ["irq", "irq 24 eth0", 1200, 50, 10],
            ["span", "axis:begin, axis:end", 1420, 60, 20],
            ["syscall", "futex", 1150, 700, 30],
        ])
    );
    let locks = all(&source, "locks");
    assert_eq!(locks.len(), 1);
    assert_eq!((&locks[0]["address"], &locks[0]["is_blocked"]), (&json!(0xF00), &json!(true)));
}

#[test]
fn what_a_loss_touches_is_doubtful() {
    let mut made = Made::default();
    made.switch(0, 1000, (0, 0), (10, "a", NICE)).axis(0, 1050, true).axis(0, 1060, false).axis(0, 1100, true);
    made.lose(0, 5);
    made.switch(0, 1250, (0, 0), (10, "a", NICE)).axis(0, 1300, false);
    made.switch(0, 1600, (10, 1), (0, "swapper/0", NICE));
    let (source, _dir) = open(&made);
    let spans = |rows: Vec<Value>| {
        let spans = rows.into_iter().filter(|row| row["kind"] == "span");
        json!(spans.map(|row| json!([row["time"], row["end_time"], row["doubt"]])).collect::<Vec<_>>())
    };
    let expect = json!([[1050, 1060, null], [1100, 1300, "lost"]]);
    assert_eq!(spans(all(&source, "latencies")), expect);
    assert_eq!(spans(all(&source, "slices")), expect);
    let span = TableFunction::Span { begin: "axis:begin".into(), end: "axis:end".into(), by: Some("n".into()) };
    assert_eq!(spans(rows_of(source.scan_function(&span, &Scan::default()).unwrap())), expect);
}

#[test]
fn derived_tables_can_be_divided() {
    for round in 0..3 {
        let mut made = random(round, 1500);
        made.waking(0, 40_000, (10, "t10", REAL_TIME), 0).switch(0, 41_000, (0, 0), (10, "t10", NICE));
        let (source, _dir) = open_indexed(&made);
        assert_eq!(source.partitions("wakeups", 5).unwrap().len(), 5);
        for table in DERIVED {
            let whole = all(&source, table);
            for wanted in [2, 5] {
                let mut parts = Vec::new();
                for partition in source.partitions(table, wanted).unwrap() {
                    parts.extend(rows(&source, table, &Scan { partition: Some(partition), ..Scan::default() }));
                }
                assert_same(&parts, &whole, &format!("{table} in {wanted}"));
            }
            assert!(!whole.is_empty() || table == "locks", "{table}");
        }
    }
}

/// A checkpoint is of one trace by itself. Where a kernel's trace and a program's are read together there is none to
/// begin from, and each part would read all that lies before it.
#[test]
fn tables_of_states_are_one_part_without_checkpoints() {
    let root = tempfile::tempdir().unwrap();
    let mut program = Made::default();
    for at in 0..400u64 {
        program.step(0, 1000 + 50 * at, 1.0);
    }
    for (name, made) in [("kernel", &random(4, 1500)), ("program", &program)] {
        let dir = root.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        made.write(&dir);
        let metadata = std::fs::read_to_string(dir.join("metadata")).unwrap();
        // One machine. A program's trace has no scheduler's events.
        let metadata = metadata.replace("clock {", "env { hostname = \"board\"; };\nclock {");
        let metadata = if name == "program" { metadata.replace("sched_switch", "motor:none") } else { metadata };
        std::fs::write(dir.join("metadata"), metadata).unwrap();
        support::index(&dir);
    }
    let source = Source::open(&[root.path().to_owned()], &Default::default()).unwrap();
    assert!(source.is_indexed());
    assert_eq!(all(&source, "hosts").len(), 1);
    for (table, parts) in
        [("thread_state", 1), ("cpu_state", 1), ("wakeups", 1), ("locks", 1), ("latencies", 1), ("records", 5)]
    {
        assert_eq!(source.partitions(table, 5).unwrap().len(), parts, "{table}");
    }
    // By itself the kernel's trace is divided.
    let kernel = Source::open(&[root.path().join("kernel")], &Default::default()).unwrap();
    assert_eq!(kernel.partitions("wakeups", 5).unwrap().len(), 5);
}

/// Step by step what `kymo critical` and the viewer have.
#[test]
fn critical_paths_are_those_of_the_question() {
    let mut steps = 0;
    for (made, tids) in [(small(), vec![10, 20, 30]), (random(6, 4000), vec![10, 20, 110, 120, 210])] {
        let (source, of, _dir) = both(&made);
        let base = of.base();
        let (first, last) = source.bounds().unwrap();
        for tid in tids {
            for (from, to) in [(first, last), (first + (last - first) / 3, first + (last - first) / 2)] {
                let answer = ask(&of, "critical", &format!("tid={tid}&from=@{}&to=@{}", from - base, to - base));
                let columns = ["from", "to", "tid", "depth", "act", "name"];
                let expect: Vec<Value> = common::rows(&answer, "steps", &columns)
                    .into_iter()
                    .map(|row| {
                        let at = |column: usize| row[column].as_i64().unwrap() + base;
                        json!([at(0), at(1), row[2], row[3], row[4], row[5]])
                    })
                    .collect();
                let path = TableFunction::CriticalPath { tid, from, to };
                let found = rows_of(source.scan_function(&path, &Scan::default()).unwrap());
                let columns = ["time", "end_time", "tid", "depth", "act", "name"];
                let found: Vec<Value> = found.iter().map(|row| json!(columns.map(|name| row[name].clone()))).collect();
                assert_same(&found, &expect, &format!("thread {tid} from {from} to {to}"));
                steps += found.len();
            }
        }
    }
    assert!(steps > 50, "{steps}");
}

#[test]
fn conditions_choose_the_same_rows_of_derived_tables() {
    let mut numbers = Random::new("derived", 9);
    for round in 0..4 {
        let (source, _dir) = open(&random(round, 1500));
        for table in DERIVED {
            let whole = all(&source, table);
            for _ in 0..6 {
                let at = |numbers: &mut Random| Some(1000 + numbers.below(20_000) as i64).filter(|at| at % 3 > 0);
                let scan = Scan {
                    from: at(&mut numbers),
                    to: at(&mut numbers),
                    end_from: at(&mut numbers).filter(|at| at % 2 == 0),
                    end_to: at(&mut numbers).filter(|at| at % 2 == 0),
                    ..Scan::default()
                };
                let within = |at: &Value, from: Option<i64>, to: Option<i64>| {
                    let at = at.as_i64().unwrap();
                    from.is_none_or(|from| at >= from) && to.is_none_or(|to| at < to)
                };
                let keeps = |row: &&Value| {
                    within(&row["time"], scan.from, scan.to) && within(&row["end_time"], scan.end_from, scan.end_to)
                };
                let expect: Vec<Value> = whole.iter().filter(keeps).cloned().collect();
                assert_same(&rows(&source, table, &scan), &expect, &format!("{table} {scan:?}"));
            }
        }
    }
}

#[test]
fn hosts_and_lab_results() {
    let (source, dir) = open(&small());
    let hosts = all(&source, "hosts");
    assert_eq!(hosts.len(), 1);
    assert_eq!((&hosts[0]["records"], &hosts[0]["has_kernel"]), (&json!(19), &json!(true)));
    assert_eq!((&hosts[0]["time"], &hosts[0]["end_time"]), (&json!(1000), &json!(2000)));
    assert!(all(&source, "lab_results").is_empty());
    let result = json!({ "schema": "kymo-lab-1", "test": "wakeup", "tool": "kymo", "started_ns": 17, "duration_s": 1.5,
        "ended": "count", "series": [{ "name": "wakeup", "cpu": 1, "count": 9, "lost": 0, "min": 3, "max": 8, "mean": 4.5,
        "std": 1.0 }] });
    std::fs::write(dir.path().join("a.json"), result.to_string()).unwrap();
    std::fs::write(dir.path().join("b.json"), "{}").unwrap();
    let source = Source::open(&[dir.path().to_owned()], &Default::default()).unwrap();
    let found = all(&source, "lab_results");
    assert_eq!(found.len(), 1);
    let row = &found[0];
    assert_eq!(json!([row["test"], row["samples"], row["max_ns"], row["mean_ns"]]), json!(["wakeup", 9, 8, 4.5]));
}
