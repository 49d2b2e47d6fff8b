// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session is shipped part by part, once each, whatever fails meanwhile [spec/lake.md 8].

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kymo_sql::lake::add::{Order, Outcome};
use kymo_sql::lake::place::Place;
use kymo_sql::lake::ship::{ShipNews, Shipped, Shipping, ship};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::small;
use crate::lakes::{Dying, add_one, assert_clean, order, outside, snapshot, write};
use crate::queries::{Sql, runtime};

/// A session's directory, and a lake beside it.
struct Session {
    root: TempDir,
}

/// Closed, as a summary says it.
const CLOSED: &str = r#"{"complete": true}"#;

impl Session {
    fn new() -> Session {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("s")).unwrap();
        Session { root }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("s")
    }

    /// Writes a part that nobody would take for another one.
    fn part(&self, name: &str, number: i64) {
        let dir = self.dir().join(name);
        write(&small(), &dir, "rt-1", 1500 + number);
        fs::write(dir.join(".kymo.json"), CLOSED).unwrap();
    }

    fn end(&self) {
        fs::write(self.dir().join(".kymo.json"), CLOSED).unwrap();
    }

    fn place(&self) -> Place {
        Place::create(self.root.path().join("lake").to_str().unwrap()).unwrap()
    }

    fn shipping(&self) -> Shipping {
        Shipping {
            dir: self.dir(),
            order: order(&[("board", "a")], &["wakeups"]),
            remove: false,
            recorder: None,
            look: Duration::from_millis(1),
            goes_on: || true,
        }
    }
}

/// Ships, and gives what was told.
fn run(place: &Place, of: &Shipping, mut meanwhile: impl FnMut(&str)) -> (anyhow::Result<Shipped>, Vec<String>) {
    let mut lines = Vec::new();
    let mut tell = |told: ShipNews<'_>| {
        let line = match told {
            ShipNews::Added(added) => format!("added {}", name(&added.manifest.place)),
            ShipNews::Failed(part, _, wait) => format!("failed {part}, {} ms", wait.as_millis()),
            ShipNews::Missing(parts) => format!("missing {}", parts.join(" ")),
        };
        meanwhile(&line);
        lines.push(line);
    };
    let shipped = runtime().block_on(ship(place, of, &|_| outside(), &mut tell));
    (shipped, lines)
}

fn name(place: &str) -> String {
    Path::new(place).file_name().unwrap().to_string_lossy().into_owned()
}

/// Rows by trace.
fn rows(place: &Place) -> Value {
    let rows = Sql::lake(place).unwrap().rows("SELECT trace, count(*) AS n FROM wakeups GROUP BY trace ORDER BY trace");
    json!(rows.iter().map(|row| json!([name(row["trace"].as_str().unwrap()), row["n"]])).collect::<Vec<_>>())
}

#[test]
fn parts_are_shipped_when_they_are_closed_and_once() {
    let session = Session::new();
    let place = session.place();
    session.part("chunk-0001", 1);
    session.part("snapshot-0001", 9);
    // It is written while the first is shipped, and closed behind it.
    session.part("chunk-0002", 2);
    fs::remove_file(session.dir().join("chunk-0002/.kymo.json")).unwrap();
    let (shipped, lines) = run(&place, &session.shipping(), |line| {
        if line == "added snapshot-0001" {
            fs::write(session.dir().join("chunk-0002/.kymo.json"), CLOSED).unwrap();
            session.end();
        }
    });
    let shipped = shipped.unwrap();
    assert_eq!(lines, ["added chunk-0001", "added snapshot-0001", "added chunk-0002"]);
    assert_eq!((shipped.missing.len(), shipped.waiting.len(), shipped.unclosed.len()), (0, 0, 0));
    assert_clean(&place);
    let found = rows(&place);
    assert_eq!(found.as_array().unwrap().len(), 3, "{found}");
    // Again: nothing is written. Without the ledger, too.
    let before = snapshot(&session.root.path().join("lake"));
    assert_eq!(run(&place, &session.shipping(), |_| {}).1, [""; 0]);
    fs::remove_file(session.dir().join(".kymo-lake.json")).unwrap();
    let again = run(&place, &session.shipping(), |_| {}).0.unwrap();
    assert!(again.added.len() == 3 && again.added.iter().all(|added| added.outcome == Outcome::Already));
    assert_eq!(snapshot(&session.root.path().join("lake")), before);
}

/// A flight recorder's rare events are in its own directory, beside the snapshots.
#[test]
fn rare_events_of_a_flight_recorder_are_shipped_at_its_end() {
    let session = Session::new();
    let place = session.place();
    session.part("snapshot-0001", 1);
    session.part("snapshot-0002", 2);
    let rare = |summary: &str| {
        write(&small(), &session.dir(), "rt-1", 1500);
        fs::write(session.dir().join(".kymo.json"), summary).unwrap();
    };
    rare(r#"{"flight": {"snapshots": []}}"#);
    let of =
        Shipping { order: Order { with_trace: true, ..session.shipping().order }, remove: true, ..session.shipping() };
    let (shipped, lines) = run(&place, &of, |line| {
        if line.contains("snapshot-0002") {
            rare(r#"{"complete": true, "flight": {"snapshots": []}}"#);
        }
    });
    let shipped = shipped.unwrap();
    assert_eq!(lines, ["added snapshot-0001", "added snapshot-0002", "added s"]);
    assert_eq!((shipped.missing.len(), shipped.unclosed.len()), (0, 0));
    assert_clean(&place);
    assert_eq!(rows(&place).as_array().unwrap().len(), 3, "{}", rows(&place));
    // Snapshots are none of its files: they were removed, and it is the same trace, also where one is there.
    session.part("snapshot-0003", 3);
    assert_eq!(add_one(&place, &session.dir(), &of.order).outcome, Outcome::Already);
}

/// The lake is away after each number of requests in turn, comes back, and the session is there as if it had never been
/// away.
#[test]
fn a_lake_that_goes_away_gets_all_of_it_later() {
    let session = Session::new();
    ["chunk-0001", "chunk-0002"].iter().zip(1..).for_each(|(name, number)| session.part(name, number));
    session.end();
    let whole = {
        let place = session.place();
        run(&place, &session.shipping(), |_| {}).0.unwrap();
        rows(&place)
    };
    assert_eq!(whole.as_array().unwrap().len(), 2);
    let mut has_ended = false;
    for requests in 0.. {
        fs::remove_dir_all(session.root.path().join("lake")).unwrap();
        fs::remove_file(session.dir().join(".kymo-lake.json")).unwrap();
        fs::create_dir(session.root.path().join("lake")).unwrap();
        let mut left = None;
        let place = Place::of_directory_through(&session.root.path().join("lake"), |store| {
            let (dying, requests_left) = Dying::after(store, requests);
            left = Some(requests_left);
            dying
        });
        let (place, left) = (place.unwrap(), left.unwrap());
        let mut attempts = 0;
        let (shipped, lines) = run(&place, &session.shipping(), |line| {
            if line.starts_with("failed") {
                attempts += 1;
                // Away for several attempts.
                if attempts == 3 {
                    left.store(usize::MAX, Ordering::Relaxed);
                }
            }
        });
        let shipped = shipped.unwrap();
        assert_clean(&session.place());
        assert_eq!(rows(&session.place()), whole, "{requests} {lines:?}");
        assert!(shipped.missing.is_empty() && shipped.waiting.is_empty(), "{requests} {shipped:?}");
        if attempts == 0 {
            has_ended = true;
            break;
        }
    }
    assert!(has_ended);
}

#[test]
fn one_that_cannot_be_added_does_not_stop_the_others() {
    let session = Session::new();
    session.part("chunk-0001", 1);
    session.part("chunk-0002", 2);
    session.end();
    // Its files are a directory without an end, and cannot be read.
    let loops = session.dir().join("chunk-0001/stream");
    std::os::unix::net::UnixListener::bind(session.dir().join("chunk-0001/socket")).unwrap();
    fs::write(&loops, "").unwrap();
    fs::remove_file(&loops).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", &loops).unwrap();
    let place = session.place();
    let (shipped, lines) = run(&place, &session.shipping(), |line| {
        if line == "added chunk-0002" {
            fs::remove_file(&loops).unwrap();
        }
    });
    assert_eq!(lines, ["failed chunk-0001, 1 ms", "added chunk-0002", "added chunk-0001"], "{shipped:?}");
}

#[test]
fn what_the_session_removed_first_is_in_the_lake_as_missing() {
    let session = Session::new();
    session.part("chunk-0004", 4);
    session.part("chunk-0002", 2);
    session.end();
    let place = session.place();
    let (shipped, lines) = run(&place, &session.shipping(), |_| {});
    assert_eq!(lines, ["missing chunk-0001 chunk-0003", "added chunk-0002", "added chunk-0004"]);
    let shipped = shipped.unwrap();
    assert_eq!(shipped.missing, ["chunk-0001", "chunk-0003"]);
    // The next addition says so, and no other one.
    let told: Vec<_> = shipped.added.iter().map(|added| added.manifest.missing_before.len()).collect();
    assert_eq!(told, [2, 0]);
    assert_eq!(run(&place, &session.shipping(), |_| {}).0.unwrap().missing, shipped.missing, "a later run knows it");
}

#[test]
fn what_was_in_the_lake_already_does_not_tell_what_is_missing() {
    let session = Session::new();
    session.part("chunk-0002", 2);
    session.part("chunk-0003", 3);
    session.end();
    let (place, of) = (session.place(), session.shipping());
    add_one(&place, &session.dir().join("chunk-0002"), &of.order);
    let shipped = run(&place, &of, |_| {}).0.unwrap();
    let told: Vec<_> = shipped.added.iter().map(|added| (added.outcome, &added.manifest.missing_before[..])).collect();
    assert_eq!(told, [(Outcome::Already, &[][..]), (Outcome::Added, &["chunk-0001".to_owned()])]);
}

/// `--keep` takes a chunk away while it is being added, and the session ends.
#[test]
fn what_is_removed_while_it_is_shipped_is_missing_too() {
    let session = Session::new();
    (1..=3).for_each(|number| session.part(&format!("chunk-000{number}"), number));
    session.end();
    let (shipped, lines) = run(&session.place(), &session.shipping(), |line| {
        if line == "added chunk-0001" {
            fs::remove_dir_all(session.dir().join("chunk-0002")).unwrap();
        }
    });
    assert_eq!(lines, ["added chunk-0001", "added chunk-0003", "missing chunk-0002"]);
    assert_eq!(shipped.unwrap().missing, ["chunk-0002"]);
}

#[test]
fn a_part_is_removed_when_its_copy_is_in_the_lake() {
    let session = Session::new();
    session.part("chunk-0001", 1);
    session.part("chunk-0002", 2);
    session.end();
    let place = session.place();
    let of_trace = Order { with_trace: true, ..order(&[], &["wakeups"]) };
    let of = Shipping { remove: true, order: of_trace, ..session.shipping() };
    let shipped = run(&place, &of, |_| {}).0.unwrap();
    let left: Vec<_> = fs::read_dir(session.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with(".kymo")), "{left:?}");
    assert!(shipped.added.iter().all(|added| Path::new(&added.manifest.place).join("metadata").is_file()));
    // What was shipped and removed is not missing.
    let again = run(&place, &of, |_| {}).0.unwrap();
    assert!(again.added.is_empty() && again.missing.is_empty());
}

#[test]
fn a_recorder_that_died_leaves_a_part_that_is_named() {
    let session = Session::new();
    session.part("chunk-0001", 1);
    session.part("chunk-0002", 2);
    fs::remove_file(session.dir().join("chunk-0002/.kymo.json")).unwrap();
    // No process has this number.
    let of = Shipping { recorder: Some(u32::MAX), ..session.shipping() };
    let shipped = run(&session.place(), &of, |_| {}).0.unwrap();
    assert_eq!((shipped.added.len(), shipped.unclosed), (1, vec!["chunk-0002".to_owned()]));
}

static ENDS: AtomicBool = AtomicBool::new(false);

#[test]
fn who_interrupts_it_learns_what_waits_and_the_next_run_goes_on() {
    let session = Session::new();
    (1..=3).for_each(|number| session.part(&format!("chunk-000{number}"), number));
    session.end();
    let place = session.place();
    let of = Shipping { goes_on: || !ENDS.load(Ordering::Relaxed), ..session.shipping() };
    let shipped = run(&place, &of, |_| ENDS.store(true, Ordering::Relaxed)).0.unwrap();
    assert_eq!((shipped.added.len(), &shipped.waiting[..]), (1, &["chunk-0002", "chunk-0003"].map(str::to_owned)[..]));
    assert_clean(&place);
    assert_eq!(run(&place, &session.shipping(), |_| {}).1, ["added chunk-0002", "added chunk-0003"]);
}

#[test]
fn a_directory_that_is_no_session_is_refused() {
    let session = Session::new();
    let error = run(&session.place(), &session.shipping(), |_| {}).0.unwrap_err().to_string();
    assert!(error.contains("no trace of a session"), "{error}");
}
