// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lake: its rows are those of the traces, and an addition is there whole or not at all, whenever a run ends
//! [spec/lake.md].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kymo_sql::lake::add::{Order, Outcome, add};
use kymo_sql::lake::manifest::{Adding, Manifest, Owner};
use kymo_sql::lake::place::Place;
use kymo_tables::{OpenOptions, Source};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::small;
use crate::lakes::{DAYS, Dying, add_one, assert_clean, order, outside, snapshot, try_add, write};
use crate::queries::{Sql, runtime};
use crate::support::{self, random};

/// A directory with a lake, and room for traces beside it.
struct Beside {
    root: TempDir,
    place: Place,
}

impl Beside {
    fn new() -> Beside {
        let root = tempfile::tempdir().unwrap();
        let place = Place::create(root.path().join("lake").to_str().unwrap()).unwrap();
        Beside { root, place }
    }

    fn dir(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(name)
    }

    fn lake(&self) -> Sql {
        Sql::lake(&self.place).unwrap()
    }
}

fn sorted(rows: Vec<Value>) -> Vec<String> {
    let mut texts: Vec<String> = rows.iter().map(Value::to_string).collect();
    texts.sort();
    texts
}

const EVERYTHING: [&str; 1] = ["*"];

#[test]
fn the_rows_of_the_lake_are_those_of_the_trace() {
    let beside = Beside::new();
    write(&random(5, 4000), &beside.dir("t"), "rt-1", 20_000);
    let added = add_one(&beside.place, &beside.dir("t"), &order(&[], &EVERYTHING));
    assert_eq!(added.outcome, Outcome::Added);
    assert_clean(&beside.place);
    let (trace, lake) = (Sql::trace(&beside.dir("t")), beside.lake());
    let mut compared = 0;
    for (table, columns) in trace.tables() {
        let own: Vec<String> = columns.iter().filter(|name| *name != "trace").map(|name| format!("{name:?}")).collect();
        let query = format!("SELECT {} FROM {table:?}", own.join(", "));
        let expect = sorted(trace.rows(&query));
        if expect.is_empty() {
            // A table without rows can be asked all the same.
            assert_eq!(lake.rows(&query), [] as [Value; 0], "{table}");
            continue;
        }
        support::assert_same(&sorted(lake.rows(&query)), &expect, &table);
        compared += 1;
        // Each row names its trace, and is in the directory of its day.
        let place = beside.dir("t").canonicalize().unwrap();
        let query = format!("SELECT DISTINCT trace FROM {table:?}");
        assert_eq!(json!(lake.rows(&query)), json!([{ "trace": place.to_str().unwrap() }]), "{table}");
        if columns.iter().any(|name| name == "time") {
            let query = format!("SELECT count(*) AS n FROM {table:?} WHERE CAST(time AS DATE) <> day");
            assert_eq!(lake.rows(&query), [json!({ "n": 0 })], "{table}");
        }
    }
    assert!(compared > 15, "{compared} tables were compared");
    // A stretch over midnight is in the day in which it begins.
    let over = "SELECT count(*) AS n FROM thread_state WHERE CAST(time AS DATE) < CAST(end_time AS DATE)";
    let days = lake.rows("SELECT DISTINCT day FROM thread_state ORDER BY day");
    assert_eq!(json!(days), json!([{ "day": DAYS[0] }, { "day": DAYS[1] }]));
    assert!(lake.rows(over)[0]["n"].as_u64().unwrap() > 0);
}

#[test]
fn adding_twice_changes_nothing_and_other_labels_replace() {
    let beside = Beside::new();
    write(&small(), &beside.dir("t"), "rt-1", 1500);
    add_one(&beside.place, &beside.dir("t"), &order(&[("kernel", "6.12-rt")], &[]));
    let before = snapshot(&beside.dir("lake"));
    let rows = beside.lake().rows("SELECT count(*) AS n FROM wakeups");
    // A copy is the same trace.
    write(&small(), &beside.dir("copy"), "rt-1", 1500);
    for dir in ["t", "copy"] {
        let again = add_one(&beside.place, &beside.dir(dir), &order(&[("kernel", "6.12-rt")], &[]));
        assert_eq!(again.outcome, Outcome::Already);
        assert_eq!(snapshot(&beside.dir("lake")), before, "{dir}");
    }
    // What is odd stays as it is.
    let odd = "6.12 \"rt\"/ü=%41\n'";
    let other = order(&[("kernel", odd), ("board", "a")], &[]);
    assert_eq!(add_one(&beside.place, &beside.dir("t"), &other).outcome, Outcome::Replaced);
    assert_clean(&beside.place);
    let lake = beside.lake();
    assert_eq!(lake.rows("SELECT count(*) AS n FROM wakeups"), rows);
    let labels = lake.rows("SELECT DISTINCT label_kernel, label_board FROM wakeups");
    assert_eq!(json!(labels), json!([{ "label_kernel": odd, "label_board": "a" }]));
    assert!(
        snapshot(&beside.dir("lake")).keys().all(|path| before.contains_key(path) == path.ends_with("lake.json")
            || path.to_str().unwrap().contains("additions"))
    );
    // Another choice of tables, too.
    let fewer = order(&[("kernel", odd), ("board", "a")], &["wakeups"]);
    assert_eq!(add_one(&beside.place, &beside.dir("t"), &fewer).outcome, Outcome::Replaced);
    assert_clean(&beside.place);
    assert_eq!(beside.lake().tables().keys().collect::<Vec<_>>(), ["losses", "wakeups"]);
    assert_eq!(beside.lake().rows("SELECT sum(records) AS n FROM losses"), [json!({ "n": null })]);
}

/// What a query of both traces finds: before, and with the second trace.
fn found(place: &Place) -> (Value, Value) {
    let lake = Sql::lake(place).unwrap();
    let query = "SELECT host, count(*) AS n, sum(axis) AS s FROM \"motor:step\" GROUP BY host ORDER BY host";
    (json!(lake.rows(query)), json!(lake.rows("SELECT DISTINCT host, label_try FROM wakeups ORDER BY host")))
}

/// A store, and whether files are staged in it.
type MadeStore = (Arc<dyn ObjectStore>, bool);

/// Every moment at which a run can end: the lake reads as before, or with the whole addition; the next run completes
/// it, and nothing is left.
fn at_every_moment(make: &dyn Fn(&Path) -> MadeStore, replaces: bool) {
    let root = tempfile::tempdir().unwrap();
    let dirs = [root.path().join("a"), root.path().join("b")];
    write(&small(), &dirs[0], "a", 1500);
    write(&random(3, 60), &dirs[1], "b", 1500);
    let of = |text: &str| order(&[("try", text)], &["motor:step", "wakeups"]);
    let (mut moments, mut kinds, mut reads) = (0, [0; 2], None);
    loop {
        let lake = root.path().join(format!("lake{moments}"));
        std::fs::create_dir(&lake).unwrap();
        let (inner, is_directory) = make(&lake);
        let through = |store: Arc<dyn ObjectStore>| match is_directory {
            true => Place::of_directory_through(&lake, |_| store).unwrap(),
            false => Place::of_store("memory", store),
        };
        let whole = through(Arc::clone(&inner));
        add_one(&whole, &dirs[0], &of("1"));
        if replaces {
            add_one(&whole, &dirs[1], &of("0"));
        }
        // Each time it is the same.
        let before: (Value, Value) = reads.get_or_insert_with(|| found(&whole)).clone();
        let (dying, left) = Dying::after(Arc::clone(&inner), moments);
        let outcome = try_add(&through(dying), &dirs[1], &of("1"));
        let after = found(&whole);
        // The owner of what is left is this process, which lives: as if it was another one.
        runtime().block_on(async {
            for adding in Adding::all(&whole).await.unwrap() {
                let owner = Owner { started: 1, ..adding.owner.clone() };
                Adding { owner, ..adding }.put(&whole).await.unwrap();
            }
        });
        add_one(&whole, &dirs[1], &of("1"));
        let done = found(&whole);
        assert_ne!(before, done);
        assert!(after == before || after == done, "after {moments} requests: {after:?}");
        kinds[usize::from(after == done)] += 1;
        assert_clean(&whole);
        std::fs::remove_dir_all(&lake).unwrap();
        moments += 1;
        if left.load(Ordering::Relaxed) > 0 {
            assert!(outcome.is_ok());
            break;
        }
        assert!(moments < 500, "it does not end");
    }
    assert!(moments > 20 && kinds.iter().all(|count| *count > 1), "{moments} moments: {kinds:?}");
}

fn directory(dir: &Path) -> (Arc<dyn ObjectStore>, bool) {
    let store = object_store::local::LocalFileSystem::new_with_prefix(dir).unwrap().with_automatic_cleanup(true);
    (Arc::new(store), true)
}

#[test]
fn a_run_that_ends_at_any_moment_leaves_a_directory_sound() {
    at_every_moment(&directory, false);
}

#[test]
fn a_run_that_ends_at_any_moment_leaves_an_object_store_sound() {
    at_every_moment(&|_| (Arc::new(InMemory::new()), false), false);
}

#[test]
fn a_run_that_replaces_and_ends_at_any_moment_leaves_it_sound() {
    at_every_moment(&directory, true);
    at_every_moment(&|_| (Arc::new(InMemory::new()), false), true);
}

/// What decisions/0013 counts with, and bench/lake: of an object store, some for each file and some for the addition.
#[test]
fn requests_of_an_addition() {
    let root = tempfile::tempdir().unwrap();
    let dirs = [root.path().join("a"), root.path().join("b")];
    write(&small(), &dirs[0], "a", 1500);
    write(&random(3, 60), &dirs[1], "b", 1500);
    let mut counts = Vec::new();
    for wanted in [&["wakeups"][..], &["wakeups", "motor:step", "thread_state"], &[]] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        add_one(&Place::of_store("memory", Arc::clone(&store)), &dirs[0], &order(&[], wanted));
        let (counting, left) = Dying::after(store, 10_000);
        let added = add_one(&Place::of_store("memory", counting), &dirs[1], &order(&[], wanted));
        let requests = 10_000 - left.load(Ordering::Relaxed);
        assert_eq!(requests, 3 * added.manifest.files.len() + 14, "{} files", added.manifest.files.len());
        counts.push(added.manifest.files.len());
    }
    assert!(counts.is_sorted() && counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
}

/// How often it may go on.
static STEPS: AtomicUsize = AtomicUsize::new(0);

fn goes_on() -> bool {
    STEPS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let beside = Beside::new();
    write(&small(), &beside.dir("a"), "a", 1500);
    write(&random(3, 500), &beside.dir("b"), "b", 1500);
    add_one(&beside.place, &beside.dir("a"), &order(&[], &[]));
    let before = snapshot(&beside.dir("lake"));
    for steps in [0, 1, 3, 10, 20, 30] {
        STEPS.store(steps, Ordering::Relaxed);
        let outside = kymo_sql::lake::add::Outside { goes_on, ..outside() };
        let order = order(&[], &[]);
        let error = runtime().block_on(add(&beside.place, &beside.dir("b"), &order, &outside)).unwrap_err();
        assert!(error.to_string().contains("interrupted") || error.to_string().contains("cancelled"), "{error:#}");
        assert_eq!(snapshot(&beside.dir("lake")), before, "{steps} steps");
    }
    STEPS.store(usize::MAX, Ordering::Relaxed);
}

#[test]
fn a_trace_that_is_being_added_is_left_to_who_does_it() {
    let beside = Beside::new();
    write(&small(), &beside.dir("t"), "a", 1500);
    let of = order(&[], &["wakeups"]);
    let trace = add_one(&beside.place, &beside.dir("t"), &of).manifest.trace;
    let other = order(&[("x", "y")], &["wakeups"]);
    let put = |owner: Owner| {
        let adding = Adding { trace: trace.clone(), token: "1234abcd".to_owned(), owner, ..Adding::default() };
        runtime().block_on(adding.put(&beside.place)).unwrap();
    };
    for owner in [Owner::this(), Owner { host: "elsewhere".to_owned(), ..Owner::this() }] {
        put(owner);
        let error = try_add(&beside.place, &beside.dir("t"), &other).unwrap_err().to_string();
        assert!(error.contains("is being added") && error.contains("wait for its end"), "{error}");
    }
    // A process of that number which started at another time is another one.
    put(Owner { started: 1, ..Owner::this() });
    assert_eq!(add_one(&beside.place, &beside.dir("t"), &other).outcome, Outcome::Replaced);
    assert_clean(&beside.place);
}

#[test]
fn hosts_days_and_labels_choose_files() {
    let beside = Beside::new();
    for (host, board, seed) in [("rt-1", "a", 1), ("büro/2 %", "b", 2)] {
        let dir = beside.dir(&format!("t{seed}"));
        write(&random(seed, 3000), &dir, host, 15_000);
        add_one(&beside.place, &dir, &order(&[("board", board)], &["wakeups", "motor"]));
    }
    let lake = beside.lake();
    let all = lake.rows("SELECT host, day, label_board, time FROM motor.step");
    let hosts = lake.rows("SELECT DISTINCT host, label_board FROM motor.step ORDER BY host");
    assert_eq!(
        json!(hosts),
        json!([{ "host": "büro/2 %", "label_board": "b" }, { "host": "rt-1", "label_board": "a" }])
    );
    for (condition, files, is_pushed) in [
        ("host = 'rt-1'", "files=2 of 4", true),
        ("host LIKE 'b%' AND day = '2026-11-28'", "files=1 of 4", true),
        ("label_board IN ('b', 'c') OR day < '2026-11-28'", "files=3 of 4", true),
        ("host = 'nobody'", "files=0 of 4", true),
        ("time >= '2026-11-28T00:00:00'", "files=2 of 4", false),
        ("day = '2026-11-27' AND time < '2026-11-27T23:59:59.99999'", "files=2 of 4", false),
        ("host = 'rt-1' AND axis > 5", "files=2 of 4", false),
    ] {
        let query = format!("SELECT host, day, label_board, time FROM motor.step s WHERE {condition}");
        let plan = lake.explain(&query);
        assert!(plan.contains(files), "{condition}: {plan}");
        assert_eq!(plan.contains("FilterExec"), !is_pushed, "{condition}: {plan}");
        // The same by a condition that chooses no files: with a column that is in them.
        let other = query.replace("WHERE ", "WHERE cpu * 0 + CASE WHEN ") + " THEN 1 ELSE 0 END = 1";
        assert!(lake.explain(&other).contains("files=4 of 4"), "{condition}: {}", lake.explain(&other));
        assert_eq!(sorted(lake.rows(&query)), sorted(lake.rows(&other)), "{condition}");
    }
    let counted = lake.explain("SELECT count(*) FROM motor.step");
    assert!(!counted.contains("LakeScan"), "{counted}");
    assert_eq!(lake.rows("SELECT count(*) AS n FROM motor.step"), [json!({ "n": all.len() })]);
    assert_eq!(lake.rows("SELECT time FROM motor.step LIMIT 5 OFFSET 3").len(), 5);
    assert_eq!(lake.rows("SELECT time FROM motor.step WHERE axis = 2 LIMIT 5 OFFSET 3").len(), 5);
    let error = lake.try_rows("SELECT * FROM wakeup").unwrap_err().to_string();
    assert!(error.contains("did you mean \"wakeups\""), "{error}");
    // The paths are as Hive has them.
    let names = snapshot(&beside.dir("lake"));
    let odd = beside.dir("lake/motor%3Astep/host=büro%2F2%20%25/day=2026-11-28");
    assert!(names.keys().any(|path| path.starts_with(&odd)), "{:?}", names.keys());
}

#[test]
fn bad_traces_among_good_ones_are_losses() {
    let beside = Beside::new();
    for (name, seed) in [("good", 1), ("cut", 2), ("bad", 3)] {
        write(&random(seed, 3000), &beside.dir(name), name, 15_000);
    }
    let stream = beside.dir("cut/kernel_1");
    let bytes = std::fs::read(&stream).unwrap();
    std::fs::write(&stream, &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(beside.dir("bad/metadata"), "/* CTF 1.8 */\nthis is none").unwrap();
    let of = order(&[], &["records"]);
    let unreadable: Vec<bool> =
        ["good", "cut", "bad"].map(|name| add_one(&beside.place, &beside.dir(name), &of).unreadable.is_some()).to_vec();
    assert_eq!(unreadable, [false, false, true]);
    assert_clean(&beside.place);
    let lake = beside.lake();
    let records = |name: &str| {
        let query = format!("SELECT count(*) AS n FROM records WHERE host = '{name}'");
        (lake.rows(&query), Sql::trace(&beside.dir(name)).rows("SELECT count(*) AS n FROM records"))
    };
    for name in ["good", "cut"] {
        let (found, expect) = records(name);
        assert_eq!(found, expect, "{name}");
    }
    let kinds = lake.rows("SELECT host, day, kind FROM losses ORDER BY kind");
    let expect = json!([
        { "host": "cut", "day": DAYS[0], "kind": "damage" },
        { "host": null, "day": null, "kind": "unreadable" },
    ]);
    assert_eq!(json!(kinds), expect);
    let manifests = runtime().block_on(Manifest::all(&beside.place)).unwrap();
    assert_eq!(manifests.iter().map(|manifest| manifest.lost.damaged).sum::<u64>(), 2);
    // The trace of the row that has none is named all the same.
    let bad = beside.dir("bad").canonicalize().unwrap();
    let of_bad = lake.rows("SELECT trace FROM losses WHERE kind = 'unreadable'");
    assert_eq!(json!(of_bad), json!([{ "trace": bad.to_str().unwrap() }]));
}

#[test]
fn a_copied_trace_is_the_same_trace() {
    let beside = Beside::new();
    write(&small(), &beside.dir("my trace"), "a", 1500);
    let of = Order { with_trace: true, ..order(&[], &["wakeups"]) };
    let added = add_one(&beside.place, &beside.dir("my trace"), &of);
    assert_clean(&beside.place);
    let rows = beside.lake().rows("SELECT DISTINCT trace FROM wakeups");
    let copy = rows[0]["trace"].as_str().unwrap().to_owned();
    assert!(Path::new(&copy).starts_with(beside.dir("lake").canonicalize().unwrap()), "{copy}");
    let count = |dir: &Path| {
        let source = Source::open(&[dir.to_owned()], &OpenOptions::default()).unwrap();
        source
            .scan("records", &kymo_tables::Scan::default())
            .unwrap()
            .map(|batch| batch.unwrap().num_rows())
            .sum::<usize>()
    };
    assert_eq!(count(Path::new(&copy)), count(&beside.dir("my trace")));
    // It can be added like the first one: to the lake it is the same.
    let again = add_one(&beside.place, Path::new(&copy), &of);
    assert_eq!((again.outcome, again.manifest), (Outcome::Already, added.manifest));
}

#[test]
fn a_clock_without_a_date_has_no_day() {
    let beside = Beside::new();
    std::fs::create_dir(beside.dir("t")).unwrap();
    small().write(&beside.dir("t"));
    let added = add_one(&beside.place, &beside.dir("t"), &order(&[], &["motor:step"]));
    assert!(!added.manifest.has_wall_clock);
    let rows = beside.lake().rows("SELECT day, position FROM motor.step ORDER BY time LIMIT 1");
    assert_eq!(json!(rows), json!([{ "day": null, "position": 1.5 }]));
}

#[test]
fn what_needs_a_trace_says_so() {
    let beside = Beside::new();
    write(&small(), &beside.dir("t"), "a", 1500);
    add_one(&beside.place, &beside.dir("t"), &order(&[], &["wakeups"]));
    let lake = beside.lake();
    for query in [
        "SELECT * FROM wakeups WHERE time > at('+1s')",
        "SELECT * FROM span('a', 'b')",
        "SELECT * FROM critical_path(1, '+1s', '+2s')",
    ] {
        let error = lake.try_rows(query).unwrap_err().to_string();
        assert!(error.contains("needs a trace") && error.contains("2026-11-27T10:00:00"), "{query}: {error}");
    }
    assert_eq!(lake.rows("SELECT ns('1us') AS n, quantile(duration_ns, 1.0) AS q FROM wakeups LIMIT 1").len(), 1);
}

#[test]
fn a_damaged_or_newer_lake_is_not_read() {
    let beside = Beside::new();
    let none = Sql::lake(&beside.place).err().map(|error| error.to_string()).unwrap();
    assert!(none.contains("is no lake") && none.contains("kymo lake add"), "{none}");
    write(&small(), &beside.dir("t"), "a", 1500);
    let trace = add_one(&beside.place, &beside.dir("t"), &order(&[], &["wakeups"])).manifest.trace;
    let manifest = beside.dir("lake").join(Manifest::path(&trace));
    let good = std::fs::read_to_string(&manifest).unwrap();
    for (text, part) in [
        (good.replace("\"kymo_lake\": 1", "\"kymo_lake\": 2"), "use a newer one"),
        (good[..good.len() / 2].to_owned(), "is damaged"),
    ] {
        std::fs::write(&manifest, text).unwrap();
        let error = Sql::lake(&beside.place).err().map(|error| error.to_string()).unwrap();
        assert!(error.contains(part), "{error}");
    }
    std::fs::write(&manifest, good).unwrap();
    // Files that are gone are no empty table.
    let lake = beside.lake();
    std::fs::remove_dir_all(beside.dir("lake/wakeups")).unwrap();
    let error = lake.try_rows("SELECT tid FROM wakeups").unwrap_err().to_string();
    assert!(error.contains("added anew meanwhile"), "{error}");
}
