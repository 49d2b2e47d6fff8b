// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ships a session: each chunk and snapshot becomes an addition of a lake when it is closed [spec/lake.md 8]. What
//! cannot be written now waits on the disk and is tried again.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::add::{Added, Order, Outcome, Outside, add};
use super::place::Place;

/// The summary of a session, a chunk or a snapshot.
const SUMMARY: &str = ".kymo.json";

/// What was shipped, beside what is shipped.
const LEDGER: &str = ".kymo-lake.json";

/// A session that was never cut is one part: its directory.
const WHOLE: &str = ".";

const CHUNK: &str = "chunk-";
const SNAPSHOT: &str = "snapshot-";

/// Looks at the directory that lie between the last two attempts at what fails again and again.
const LOOKS_MAX: u32 = 60;

/// How long the wish to end may go unseen.
const SLICE: Duration = Duration::from_millis(50);

/// What is shipped, and how.
pub struct Shipping {
    /// The session's directory.
    pub dir: PathBuf,
    /// What each addition has.
    pub order: Order,
    /// A part whose copy is in the lake is removed.
    pub remove: bool,
    /// The process that records.
    pub recorder: Option<u32>,
    /// Between two looks at the directory.
    pub look: Duration,
    /// Whether it goes on.
    pub goes_on: fn() -> bool,
}

/// What became of the parts of a session.
#[derive(Debug, Default)]
pub struct Shipped {
    /// In the lake, by this run.
    pub added: Vec<Added>,
    /// Removed before they were in the lake, by this run or an earlier one.
    pub missing: Vec<String>,
    /// Closed, and not in the lake: it was interrupted.
    pub waiting: Vec<String>,
    /// Never closed: the recorder died.
    pub unclosed: Vec<String>,
}

/// What is told meanwhile.
pub enum ShipNews<'t> {
    /// A part is in the lake.
    Added(&'t Added),
    /// It is tried again after this time.
    Failed(&'t str, &'t anyhow::Error, Duration),
    /// These were removed before they were in the lake.
    Missing(&'t [String]),
}

/// What earlier runs did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Ledger {
    lake: String,
    shipped: BTreeSet<String>,
    missing: BTreeSet<String>,
    /// Missing parts that no addition tells of yet.
    untold: BTreeSet<String>,
}

/// The directory of a session, at one time.
#[derive(Debug, Default)]
struct Parts {
    /// Closed, the oldest first.
    closed: Vec<String>,
    /// Being written, or left by a recorder that died.
    open: Vec<String>,
}

impl Ledger {
    fn read(dir: &Path, lake: &str) -> anyhow::Result<Ledger> {
        let path = dir.join(LEDGER);
        let fresh = Ledger { lake: lake.to_owned(), ..Ledger::default() };
        match fs::read(&path) {
            Ok(bytes) => {
                // One that is not whole, or of another lake: additions that are there already are not written again.
                let known: Ledger = serde_json::from_slice(&bytes).unwrap_or_default();
                Ok(if known.lake == lake { known } else { fresh })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(fresh),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let (path, new) = (dir.join(LEDGER), dir.join(format!("{LEDGER}.new")));
        let written = serde_json::to_vec_pretty(self)
            .map_err(std::io::Error::from)
            .and_then(|text| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &path));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

fn number_of(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

fn summary(dir: &Path) -> Value {
    fs::read(dir.join(SUMMARY)).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn is_closed(dir: &Path) -> bool {
    summary(dir)["complete"] == true
}

/// Whether there are files of records.
fn has_streams(dir: &Path) -> bool {
    let is_stream = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let is_other = name == "metadata" || name.as_encoded_bytes().first() == Some(&b'.');
        !is_other && entry.metadata().is_ok_and(|about| about.is_file() && about.len() > 0)
    };
    fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(is_stream))
}

impl Shipping {
    /// Nothing more will be closed.
    fn is_over(&self) -> bool {
        let summary = summary(&self.dir);
        let is_gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        summary["complete"] == true || summary["ended"] == true || self.recorder.is_some_and(is_gone)
    }

    fn path(&self, part: &str) -> PathBuf {
        if part == WHOLE { self.dir.clone() } else { self.dir.join(part) }
    }

    fn parts(&self) -> anyhow::Result<Parts> {
        let failed = || format!("cannot read {}", self.dir.display());
        let mut found: Vec<(u8, u64, String)> = Vec::new();
        for entry in fs::read_dir(&self.dir).with_context(failed)? {
            let name = entry.with_context(failed)?.file_name().to_string_lossy().into_owned();
            let chunk = number_of(&name, CHUNK).map(|number| (0, number));
            let place = chunk.or_else(|| number_of(&name, SNAPSHOT).map(|number| (1, number)));
            let Some((kind, number)) = place else { continue };
            if self.path(&name).join("metadata").is_file() {
                found.push((kind, number, name));
            }
        }
        found.sort();
        if self.is_whole() {
            found.push((2, 0, WHOLE.to_owned()));
        }
        let names = found.into_iter().map(|(.., name)| name);
        let (closed, open) = names.partition(|name| is_closed(&self.path(name)));
        Ok(Parts { closed, open })
    }

    /// The directory itself is a trace: of a flight recorder if there were rare events.
    fn is_whole(&self) -> bool {
        self.dir.join("metadata").is_file() && (summary(&self.dir)["flight"].is_null() || has_streams(&self.dir))
    }

    /// Chunks that came before one that is known, and are neither there nor in the lake. The newest is never removed.
    fn missing(&self, parts: &Parts, ledger: &Ledger) -> Vec<String> {
        let there = || parts.closed.iter().chain(&parts.open);
        let newest = there().chain(&ledger.shipped).filter_map(|name| number_of(name, CHUNK)).max().unwrap_or(0);
        let names = (1..newest).map(|number| format!("{CHUNK}{number:04}"));
        let is_known = |name: &String| {
            ledger.shipped.contains(name) || ledger.missing.contains(name) || there().any(|there| there == name)
        };
        names.filter(|name| !is_known(name)).collect()
    }

    /// Removes a part of which the lake has a copy, renamed first so that nobody finds half of it.
    fn take_away(&self, part: &str) -> anyhow::Result<()> {
        if part == WHOLE {
            return Ok(());
        }
        let (path, hidden) = (self.path(part), self.dir.join(format!(".shipped-{part}")));
        match fs::rename(&path, &hidden).and_then(|()| fs::remove_dir_all(&hidden)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} is in the lake, but cannot be removed", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Waits; false: it is to end.
    async fn pause(&self, time: Duration) -> bool {
        let mut left = time;
        while !left.is_zero() && (self.goes_on)() {
            let slice = left.min(SLICE);
            tokio::time::sleep(slice).await;
            left -= slice;
        }
        (self.goes_on)()
    }
}

/// A session on its way.
struct Run<'a> {
    place: &'a Place,
    of: &'a Shipping,
    ledger: Ledger,
    shipped: Shipped,
    /// Attempts that failed since the last success.
    failures: u32,
    /// Names of this run's additions that ended without one: what they left is not on its way any more.
    ended: Vec<String>,
}

/// Ships what a session closes until it has ended. `outside`: the surroundings of one addition, for the part's name.
///
/// # Errors
/// The directory is none of a session, or cannot be read; what was done cannot be noted there.
pub async fn ship(
    place: &Place,
    of: &Shipping,
    outside: &dyn Fn(&str) -> Outside,
    tell: &mut dyn FnMut(ShipNews<'_>),
) -> anyhow::Result<Shipped> {
    let (ledger, shipped) = (Ledger::read(&of.dir, place.text())?, Shipped::default());
    let mut run = Run { place, of, ledger, shipped, failures: 0, ended: Vec::new() };
    let unclosed = loop {
        // In this order: what is closed between the two is seen.
        let is_over = of.is_over();
        let parts = of.parts()?;
        let is_session = is_over || !parts.closed.is_empty() || !parts.open.is_empty() || of.dir.join(SUMMARY).exists();
        ensure!(is_session, "{} is no trace of a session: it has no chunk, and no summary", of.dir.display());
        run.count_missing(&parts, tell)?;
        let mut waiting: Vec<&String> =
            parts.closed.iter().filter(|part| !run.ledger.shipped.contains(*part)).collect();
        if let Some(first) = (run.failures as usize).checked_rem(waiting.len()) {
            // One that cannot be added does not keep the others waiting.
            waiting.rotate_left(first);
        }
        let has_failed = !run.round(&waiting, outside, tell).await?;
        if !(of.goes_on)() {
            let is_left = |part: &&String| !run.ledger.shipped.contains(*part);
            run.shipped.waiting = parts.closed.iter().filter(is_left).cloned().collect();
            break Vec::new();
        }
        if is_over && !has_failed {
            break parts.open;
        }
        of.pause(if has_failed { run.wait() } else { of.look }).await;
    };
    run.shipped.unclosed = unclosed;
    run.shipped.missing = run.ledger.missing.into_iter().collect();
    Ok(run.shipped)
}

impl Run<'_> {
    fn count_missing(&mut self, parts: &Parts, tell: &mut dyn FnMut(ShipNews<'_>)) -> anyhow::Result<()> {
        let missing = self.of.missing(parts, &self.ledger);
        if missing.is_empty() {
            return Ok(());
        }
        tell(ShipNews::Missing(&missing));
        self.ledger.untold.extend(missing.iter().cloned());
        self.ledger.missing.extend(missing);
        self.ledger.write(&self.of.dir)
    }

    /// Until the next attempt: a look, then twice as long each time.
    fn wait(&self) -> Duration {
        self.of.look * (1 << self.failures.saturating_sub(1).min(10)).min(LOOKS_MAX)
    }

    /// Adds what waits. False: not all of it was added, and there is another look.
    async fn round(
        &mut self,
        waiting: &[&String],
        outside: &dyn Fn(&str) -> Outside,
        tell: &mut dyn FnMut(ShipNews<'_>),
    ) -> anyhow::Result<bool> {
        let mut is_whole = true;
        for part in waiting {
            if !(self.of.goes_on)() {
                return Ok(false);
            }
            let missing_before = self.ledger.untold.iter().cloned().collect();
            let order = Order { missing_before, ..self.of.order.clone() };
            let outside = Outside { ended: self.ended.clone(), ..outside(part) };
            match add(self.place, &self.of.path(part), &order, &outside).await {
                Ok(added) => {
                    self.failures = 0;
                    self.ledger.shipped.insert((*part).clone());
                    // The manifest of what was there already is as it was.
                    if added.outcome != Outcome::Already {
                        self.ledger.untold.clear();
                    }
                    self.ledger.write(&self.of.dir)?;
                    tell(ShipNews::Added(&added));
                    self.shipped.added.push(added);
                    if self.of.remove {
                        self.of.take_away(part)?;
                    }
                }
                // It was removed meanwhile: another look counts it.
                Err(_) if !self.of.path(part).exists() => {
                    self.ended.push(outside.token);
                    is_whole = false;
                }
                Err(error) => {
                    self.ended.push(outside.token);
                    self.failures += 1;
                    if (self.of.goes_on)() {
                        tell(ShipNews::Failed(part, &error, self.wait()));
                    }
                    return Ok(false);
                }
            }
        }
        Ok(is_whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipping(dir: &Path) -> Shipping {
        let order = Order::default();
        Shipping {
            dir: dir.to_owned(),
            order,
            remove: false,
            recorder: None,
            look: Duration::from_secs(1),
            goes_on: || true,
        }
    }

    fn part(dir: &Path, name: &str, summary: &str) {
        fs::create_dir_all(dir.join(name)).unwrap();
        fs::write(dir.join(name).join("metadata"), "").unwrap();
        fs::write(dir.join(name).join(SUMMARY), summary).unwrap();
    }

    #[test]
    fn what_is_closed_is_in_the_order_of_its_numbers() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        for name in ["chunk-10000", "chunk-0009", "snapshot-0002", "chunk-x", ".shipped-chunk-0001"] {
            part(dir, name, r#"{"complete": true}"#);
        }
        part(dir, "chunk-10001", "{}");
        let parts = shipping(dir).parts().unwrap();
        assert_eq!(parts.closed, ["chunk-0009", "chunk-10000", "snapshot-0002"]);
        assert_eq!(parts.open, ["chunk-10001"]);
        assert!(!shipping(dir).is_over());
        // The directory of a session that was not cut is its trace; that of a flight recorder is one of rare events.
        part(dir, ".", r#"{"complete": true, "flight": null}"#);
        assert!(shipping(dir).parts().unwrap().closed.contains(&WHOLE.to_owned()) && shipping(dir).is_over());
        part(dir, ".", r#"{"complete": true, "flight": {"snapshots": []}}"#);
        fs::write(dir.join("user_0_0"), "").unwrap();
        assert!(!shipping(dir).parts().unwrap().closed.contains(&WHOLE.to_owned()));
        fs::write(dir.join("user_0_0"), "records").unwrap();
        assert_eq!(shipping(dir).parts().unwrap().closed.last().unwrap(), WHOLE);
        part(dir, ".", r#"{"flight": {"snapshots": []}}"#);
        assert_eq!(shipping(dir).parts().unwrap().open.last().unwrap(), WHOLE);
    }

    #[test]
    fn what_was_removed_unshipped_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let missing = |closed: &[&str], shipped: &[&str], missing: &[&str]| {
            let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let ledger = Ledger {
                shipped: texts(shipped).into_iter().collect(),
                missing: texts(missing).into_iter().collect(),
                ..Ledger::default()
            };
            let parts = Parts { closed: texts(closed), open: Vec::new() };
            shipping(root.path()).missing(&parts, &ledger)
        };
        assert_eq!(missing(&["chunk-0001", "chunk-0002"], &[], &[]), [""; 0]);
        assert_eq!(missing(&["chunk-0004"], &["chunk-0002"], &[]), ["chunk-0001", "chunk-0003"]);
        assert_eq!(missing(&["chunk-0004"], &["chunk-0002"], &["chunk-0001"]), ["chunk-0003"]);
        assert_eq!(missing(&[], &["chunk-0003"], &[]), ["chunk-0001", "chunk-0002"]);
        assert_eq!(missing(&["snapshot-0007"], &[], &[]), [""; 0], "snapshots go where somebody wants them");
    }

    #[test]
    fn attempts_become_rarer() {
        let root = tempfile::tempdir().unwrap();
        let (place, of) = (Place::create(root.path().to_str().unwrap()).unwrap(), shipping(root.path()));
        let wait = |failures| {
            let (ledger, shipped, ended) = (Ledger::default(), Shipped::default(), Vec::new());
            Run { place: &place, of: &of, ledger, shipped, failures, ended }.wait().as_secs()
        };
        assert_eq!([1, 2, 3, 6, 7, 40].map(wait), [1, 2, 4, 32, 60, 60]);
    }
}
