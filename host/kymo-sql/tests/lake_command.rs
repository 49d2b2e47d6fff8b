// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo lake` as people run it: exit status, messages, a process that is killed, a disk that is full.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kymo_sql::lake::place::Place;
use kymo_testing::{Random, setting, skip_this};
use serde_json::{Value, json};

use crate::common::small;
use crate::lakes::{assert_clean, snapshot, write};
use crate::queries::Sql;
use crate::support::random;

fn lake(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-sql"));
    command.arg("lake").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(words: &[&str]) -> Output {
    lake(words).output().unwrap()
}

#[track_caller]
fn good(words: &[&str]) -> String {
    let done = run(words);
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Names of paths in a directory.
struct Paths(tempfile::TempDir);

impl Paths {
    fn new() -> Paths {
        Paths(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn what_was_added_is_listed() {
    let paths = Paths::new();
    write(&small(), &paths.path("traces/a"), "rt-1", 1500);
    write(random(1, 300).lose(0, 7).step(0, 90_000, 1.0), &paths.path("traces/b"), "rt-2", 1500);
    let to = paths.text("made/here/lake");
    let added = good(&["add", &paths.text("traces"), "--to", &to, "--label", "board=x y", "--json"]);
    let added: Value = serde_json::from_str(&added).unwrap();
    let outcomes: Vec<&Value> = added["traces"].as_array().unwrap().iter().map(|trace| &trace["outcome"]).collect();
    assert_eq!(outcomes, ["added", "added"]);
    let listed: Value = serde_json::from_str(&good(&["list", &to, "--json"])).unwrap();
    let additions = listed["additions"].as_array().unwrap();
    assert_eq!(json!(additions.iter().map(|one| &one["hosts"]).collect::<Vec<_>>()), json!([["rt-1"], ["rt-2"]]));
    assert_eq!(additions[1]["labels"], json!({ "board": "x y" }));
    assert_eq!((&additions[0]["lost_records"], &additions[1]["lost_records"]), (&json!(0), &json!(7)));
    assert_eq!(additions[0]["rows"], added["traces"][0]["rows"]);
    let shown = good(&["list", &to]);
    for part in ["rt-1, 2026-11-27 to 2026-11-28", "board=x y", "lost: 7 records", "2 traces"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let again = good(&["add", &paths.text("traces"), "--to", &to, "--label", "board=x y"]);
    assert!(again.contains("already there"), "{again}");
    let sql = Command::new(env!("CARGO_BIN_EXE_kymo-sql"))
        .args(["sql", "--lake", &to, "SELECT count(*) AS n FROM losses", "--json"])
        .output()
        .unwrap();
    assert_eq!(text(&sql.stdout).trim(), "[{\"n\":1}]");
    assert!(text(&sql.stderr).contains("7 records or packets are missing"), "{}", text(&sql.stderr));
}

#[test]
fn what_is_wrong_has_status_2_and_writes_nothing() {
    let paths = Paths::new();
    write(&small(), &paths.path("t"), "a", 1500);
    std::fs::create_dir(paths.path("empty")).unwrap();
    let (trace, empty, none) = (paths.text("t"), paths.text("empty"), paths.text("none"));
    let to = paths.text("lake");
    for (words, part) in [
        (&["add", &trace, &empty, "--to", &to][..], "is no trace"),
        (&["add", &none, "--to", &to], "no such trace"),
        (&["add", &trace, "--to", &to, "--label", "a b=c"], "letters, digits"),
        (&["add", &trace, "--to", "ftp://host/lake"], "not ftp://"),
        (&["add", &trace, "--to", &format!("{trace}/metadata")], "is a file"),
        (&["list", &none], "no such directory"),
        (&["list", &empty], "is no lake"),
    ] {
        let failed = run(words);
        assert_eq!(failed.status.code(), Some(2), "{words:?}");
        assert!(text(&failed.stderr).contains(part), "{words:?}: {}", text(&failed.stderr));
        assert!(!paths.path("lake").exists(), "{words:?}");
    }
    // A name that no trace has is said, and all else is added.
    let failed = run(&["add", &trace, "--to", &to, "--table", "wakeup"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("no trace has a table wakeup"), "{}", text(&failed.stderr));
    // A trace that cannot be opened is in the lake: as a loss.
    std::fs::create_dir(paths.path("bad")).unwrap();
    std::fs::write(paths.path("bad/metadata"), "none").unwrap();
    let short = run(&["add", &paths.text("bad"), "--to", &to]);
    assert_eq!(short.status.code(), Some(3), "{}", text(&short.stderr));
}

/// What a query finds.
fn found(place: &Place) -> Vec<Value> {
    let lake = Sql::lake(place).unwrap();
    let count = |table: &str| {
        let query = format!("SELECT {table:?} AS t, host, count(*) AS n FROM {table:?} GROUP BY host ORDER BY host");
        lake.rows(&query.replacen(&format!("{table:?}"), &format!("'{table}'"), 1))
    };
    ["motor:step", "wakeups", "thread_state", "slices"].into_iter().flat_map(count).collect()
}

/// How a lake reads before and after a trace is added: tried with a copy.
fn reads(trace: &str, place: &Place, paths: &Paths) -> (Vec<Value>, Vec<Value>) {
    let copy = paths.text("tried");
    let done = Command::new("cp").args(["-r", place.text(), &copy]).status().unwrap();
    assert!(done.success());
    good(&["add", trace, "--to", &copy, "--table", "*"]);
    (found(place), found(&Place::open(&copy).unwrap()))
}

/// How long a run takes that is not ended.
fn duration(trace: &str, root: &Path) -> Duration {
    let begun = Instant::now();
    good(&["add", trace, "--to", root.join("measured").to_str().unwrap(), "--table", "*"]);
    begun.elapsed()
}

#[test]
fn a_killed_run_leaves_a_lake_that_reads_and_the_next_one_completes_it() {
    let paths = Paths::new();
    write(&small(), &paths.path("a"), "a", 1500);
    write(&random(3, 8000), &paths.path("b"), "b", 40_000);
    let (first, second) = (paths.text("a"), paths.text("b"));
    let took = duration(&second, paths.0.path());
    let mut numbers = Random::new("killed lake", 20);
    let (mut kinds, mut both) = ([0; 2], None);
    for round in 0..setting("KYMO_ROUNDS", 20) {
        let to = paths.text(&format!("lake{round}"));
        good(&["add", &first, "--to", &to, "--table", "*"]);
        let place = Place::open(&to).unwrap();
        let (before, done) = both.get_or_insert_with(|| reads(&second, &place, &paths)).clone();
        let mut child = lake(&["add", &second, "--to", &to, "--table", "*"]).spawn().unwrap();
        // Moments of the whole run are what is tested; nothing is waited for.
        std::thread::sleep(Duration::from_micros(numbers.below(took.as_micros() as u64 * 5 / 4)));
        child.kill().unwrap();
        child.wait().unwrap();
        let after = found(&place);
        good(&["list", &to]);
        good(&["add", &second, "--to", &to, "--table", "*"]);
        assert_eq!(found(&place), done, "round {round}");
        assert!(before != done && (after == before || after == done), "round {round}: {after:?}");
        kinds[usize::from(after == done)] += 1;
        assert_clean(&place);
        std::fs::remove_dir_all(&to).unwrap();
    }
    kymo_testing::tell(&format!("killed lake: {} as before, {} with the addition", kinds[0], kinds[1]));
}

/// A file system of a size, unmounted at the end.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf, size: &str) -> Option<Disk> {
        std::fs::create_dir(&at).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(&at).output();
        done.is_ok_and(|done| done.status.success()).then_some(Disk(at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_lake_as_it_was() {
    let paths = Paths::new();
    let Some(disk) = Disk::mount(paths.path("disk"), "512k") else {
        return skip_this("cannot mount a small file system (not root?)");
    };
    write(&small(), &paths.path("a"), "a", 1500);
    write(&random(3, 40_000), &paths.path("b"), "b", 100_000);
    let to = disk.0.join("lake").to_str().unwrap().to_owned();
    good(&["add", &paths.text("a"), "--to", &to, "--table", "wakeups"]);
    let before = snapshot(&disk.0);
    let failed = run(&["add", &paths.text("b"), "--to", &to, "--table", "*"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("No space left on device"), "{}", text(&failed.stderr));
    assert_eq!(snapshot(&disk.0), before);
    assert_clean(&Place::open(&to).unwrap());
}

#[test]
fn ctrl_c_leaves_the_lake_as_it_was() {
    let paths = Paths::new();
    write(&small(), &paths.path("a"), "a", 1500);
    write(&random(3, 60_000), &paths.path("b"), "b", 100_000);
    let to = paths.text("lake");
    good(&["add", &paths.text("a"), "--to", &to]);
    let before = snapshot(&paths.path("lake"));
    let child = lake(&["add", &paths.text("b"), "--to", &to, "--table", "*"]).spawn().unwrap();
    // It is on its way as soon as it tells of itself.
    while !paths.path("lake/_kymo/adding").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("nothing was added"), "{}", text(&ended.stderr));
    assert_eq!(snapshot(&paths.path("lake")), before);
}
