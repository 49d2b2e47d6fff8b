// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of the machine that end with what made them [spec/lab.md 10]: what was before is on disk before anything is
//! changed.
//!
//! A file of lines in the runtime directory. Its maker holds a lock on it for as long as it lives; a file without a
//! lock belongs to a process that was killed, and anybody who may can take its changes back.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::Cpus;
use crate::threads::{set_affinity, threads};

/// Bytes of a file that are read.
const FILE_MAX: u64 = 64 << 20;
/// How long a child may take until it executes its program.
const CHILD_TIME: Duration = Duration::from_secs(2);
/// Places where a value may be put back: an undo file names no others.
const PLACES: [&str; 4] = ["/proc/sys/", "/proc/irq/", "/sys/", "/cgroup/"];

/// One change, as it is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoStep {
    /// Write the old value.
    Write {
        /// A file of /proc or /sys.
        path: PathBuf,
        /// What it held.
        old: String,
    },
    /// Give a thread its CPUs again. Threads that it or its process started meanwhile follow it.
    Affinity {
        /// Its id.
        tid: u32,
        /// When it started, in ticks since boot: ids are used again.
        start: u64,
        /// CPUs that it had.
        old: String,
        /// CPUs that it was given.
        new: String,
    },
    /// Move all processes of a control group to the group above, and remove it.
    Group {
        /// Its directory.
        path: PathBuf,
    },
}

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct UndoHead {
    /// What made the changes: `shield`, `prove`.
    purpose: String,
    pid: u32,
    /// Settings do not outlive a boot, nor do the changes.
    boot: String,
    /// When it began, ticks since boot.
    since: u64,
}

/// Changes that are being made.
#[derive(Debug)]
pub struct Undo {
    path: PathBuf,
    file: File,
    steps: Vec<UndoStep>,
    since: u64,
}

/// What came of a file that its maker had left.
#[derive(Debug)]
pub struct Restored {
    /// What made the changes.
    pub purpose: String,
    /// Who made them.
    pub pid: u32,
    /// How many were taken back.
    pub steps: usize,
    /// What could not be taken back, and why.
    pub failures: Vec<String>,
}

impl Undo {
    /// Begins a file in `dir`, which is made (0700) where it is not there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(dir: &Path, purpose: &str) -> io::Result<Undo> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let pid = std::process::id();
        let path = dir.join(format!("undo-{purpose}-{pid}"));
        let file = File::options().append(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut undo = Undo { path, file, steps: Vec::new(), since: ticks() };
        undo.line(&UndoHead { purpose: purpose.to_owned(), pid, boot: boot_id(), since: undo.since })?;
        undo.file.sync_all()?;
        File::open(dir)?.sync_all()?;
        Ok(undo)
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }

    /// Notes what is about to be changed; on disk when this returns.
    ///
    /// # Errors
    /// It cannot be written: change nothing.
    pub fn note(&mut self, steps: Vec<UndoStep>) -> io::Result<()> {
        for step in &steps {
            self.line(step)?;
        }
        self.file.sync_data()?;
        self.steps.extend(steps);
        Ok(())
    }

    /// Notes the value of a file, and writes another one. Nothing is done where it is there already.
    ///
    /// # Errors
    /// It cannot be read or written, or the kernel refuses the value.
    pub fn write(&mut self, path: &Path, new: &str) -> io::Result<()> {
        let old = chosen(&std::fs::read_to_string(path)?);
        if old == new {
            return Ok(());
        }
        self.note(vec![UndoStep::Write { path: path.to_owned(), old }])?;
        put(path, new)
    }

    /// Takes all changes back, the last one first, and removes the file. Returns what could not be taken back; its file
    /// stays then.
    pub fn restore(mut self) -> Vec<String> {
        let failures = take_back(&std::mem::take(&mut self.steps), self.since);
        if failures.is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
        failures
    }
}

/// Takes back what killed processes left in `dir`. Those that live are left alone.
///
/// # Errors
/// The directory cannot be read.
pub fn restore_left(dir: &Path) -> io::Result<Vec<Restored>> {
    let mut restored = Vec::new();
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(restored),
        entries => entries?,
    };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("undo-")) {
        restored.extend(restore_file(&entry.path())?);
    }
    Ok(restored)
}

/// `None` where its maker lives, or where it is not ours.
fn restore_file(path: &Path) -> io::Result<Option<Restored>> {
    use std::io::Read as _;
    let file = File::options().read(true).custom_flags(libc_nofollow()).open(path)?;
    if file.metadata()?.uid() != rustix::process::geteuid().as_raw() || !take_lock(path, &file) {
        return Ok(None);
    }
    let mut text = String::new();
    (&file).take(FILE_MAX).read_to_string(&mut text)?;
    // A line that was not finished belongs to a change that was not made.
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let Some(Ok(head)) = lines.next().map(serde_json::from_str::<UndoHead>) else {
        std::fs::remove_file(path)?;
        return Ok(None);
    };
    let (mut steps, mut failures) = (Vec::new(), Vec::new());
    for line in lines {
        match serde_json::from_str::<UndoStep>(line) {
            Ok(step) => steps.push(step),
            Err(error) => failures.push(format!("{}: {error}", path.display())),
        }
    }
    if head.boot == boot_id() {
        failures.extend(take_back(&steps, head.since));
    }
    if failures.is_empty() {
        std::fs::remove_file(path)?;
    }
    Ok(Some(Restored { purpose: head.purpose, pid: head.pid, steps: steps.len(), failures }))
}

/// The lock of a file whose maker is dead. A child that the maker was starting when it was killed holds the lock until
/// it executes its program, so that is waited for.
fn take_lock(path: &Path, file: &File) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let maker: Option<u32> = name.rsplit('-').next().and_then(|pid| pid.parse().ok());
    let deadline = Instant::now() + CHILD_TIME;
    loop {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if maker.is_none_or(is_alive) || Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there and has not ended.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

fn libc_nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Time since boot in the ticks of /proc, 100 a second.
fn ticks() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: Option<f64> = uptime.split_whitespace().next().and_then(|word| word.parse().ok());
    seconds.map_or(u64::MAX, |seconds| (seconds * 100.0) as u64)
}

/// The value of a setting: of `always [madvise] never` the one in brackets.
fn chosen(text: &str) -> String {
    let text = text.trim();
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(value, _)| value);
    bracketed.unwrap_or(text).to_owned()
}

fn put(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

fn take_back(steps: &[UndoStep], since: u64) -> Vec<String> {
    let mut failures = Vec::new();
    for step in steps.iter().rev() {
        let done = match step {
            UndoStep::Write { path, old } => put_back(path, old),
            UndoStep::Group { path } => remove_group(path),
            // All at once, below: threads of today are to be matched with those of then.
            UndoStep::Affinity { .. } => continue,
        };
        if let Err(error) = done {
            failures.push(format!("{step:?}: {error}"));
        }
    }
    free_threads(steps, since);
    failures
}

fn put_back(path: &Path, old: &str) -> io::Result<()> {
    let text = path.to_string_lossy();
    if !PLACES.iter().any(|place| text.contains(place)) || text.contains("..") {
        return Err(io::Error::other("no place of a setting"));
    }
    match put(path, old) {
        // An interrupt or a device that is gone has no setting any more.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // What the kernel refused to change is as it was. A controller that others use by now stays on.
        Err(_) if std::fs::read_to_string(path).is_ok_and(|now| chosen(&now) == old) => Ok(()),
        Err(_) if path.ends_with("cgroup.subtree_control") => Ok(()),
        done => done,
    }
}

fn remove_group(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (true, Some(above)) = (name.starts_with("kymo-"), path.parent()) else {
        return Err(io::Error::other("no group of kymo"));
    };
    // What a program forks while it is moved is caught in the next turn.
    for _ in 0..100 {
        match std::fs::read_to_string(path.join("cgroup.procs")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(pids) => pids.lines().for_each(|pid| drop(put(&above.join("cgroup.procs"), pid))),
        }
        match std::fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                std::thread::yield_now()
            }
            done => return done,
        }
    }
    Err(io::Error::other("processes come faster than they can be moved"))
}

/// Gives threads their CPUs again: those that are noted, and those that were started by them meanwhile and have what
/// these were given.
fn free_threads(steps: &[UndoStep], since: u64) {
    let mut noted = std::collections::BTreeMap::new();
    let mut given = std::collections::BTreeMap::new();
    for step in steps {
        if let UndoStep::Affinity { tid, start, old, new } = step {
            noted.insert((*tid, *start), (old, new));
            // Of several, what most threads had: on nearly every machine that is all CPUs.
            *given
                .entry(new)
                .or_insert_with(std::collections::BTreeMap::<&String, u32>::new)
                .entry(old)
                .or_default() += 1;
        }
    }
    if noted.is_empty() {
        return;
    }
    for thread in threads() {
        let old = match noted.get(&(thread.tid, thread.start)) {
            Some((old, new)) => (thread.cpus.to_string() == **new).then_some(*old),
            // One that was there before has these CPUs by itself.
            None if thread.start < since => None,
            None => given
                .get(&thread.cpus.to_string())
                .and_then(|olds| olds.iter().max_by_key(|(_, count)| **count))
                .map(|(old, _)| *old),
        };
        if let Some(cpus) = old.and_then(|old| Cpus::from_list(old)) {
            let _ = set_affinity(thread.tid, &cpus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if a process had made it that has ended.
    fn belongs_to_a_dead_one(undo: &Undo) {
        let mut maker = std::process::Command::new("true").spawn().unwrap();
        maker.wait().unwrap();
        std::fs::rename(&undo.path, undo.path.with_file_name(format!("undo-test-{}", maker.id()))).unwrap();
    }

    #[test]
    fn what_a_living_process_changes_is_left_alone_and_what_a_dead_one_left_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let setting = dir.path().join("sys");
        std::fs::create_dir(&setting).unwrap();
        let setting = setting.join("value");
        std::fs::write(&setting, "always [madvise] never\n").unwrap();
        let runtime = dir.path().join("run");
        let mut undo = Undo::begin(&runtime, "test").unwrap();
        undo.write(&setting, "never").unwrap();
        assert_eq!(std::fs::read_to_string(&setting).unwrap(), "nevers [madvise] never\n");
        assert!(restore_left(&runtime).unwrap().is_empty(), "it lives");
        // As SIGKILL does: the lock is gone, the file is not.
        undo.file.write_all(b"{\"write\": {\"pa").unwrap();
        belongs_to_a_dead_one(&undo);
        drop(undo);
        let restored = restore_left(&runtime).unwrap();
        assert_eq!((restored.len(), restored[0].steps, &*restored[0].purpose), (1, 1, "test"));
        assert!(restored[0].failures.is_empty(), "{:?}", restored[0].failures);
        assert!(std::fs::read_to_string(&setting).unwrap().starts_with("madvise"));
        assert!(restore_left(&runtime).unwrap().is_empty(), "once");
    }

    #[test]
    fn a_child_that_still_holds_the_lock_of_a_dead_maker_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let setting = dir.path().join("sys");
        std::fs::create_dir(&setting).unwrap();
        let setting = setting.join("value");
        std::fs::write(&setting, "1\n").unwrap();
        let runtime = dir.path().join("run");
        let mut undo = Undo::begin(&runtime, "test").unwrap();
        undo.write(&setting, "2").unwrap();
        belongs_to_a_dead_one(&undo);
        let child = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(undo);
        });
        assert_eq!(restore_left(&runtime).unwrap().len(), 1);
        child.join().unwrap();
        assert!(std::fs::read_to_string(&setting).unwrap().starts_with('1'));
    }

    #[test]
    fn nothing_else_than_settings_is_written() {
        for path in ["/etc/passwd", "/sys/../etc/passwd"] {
            assert!(put_back(Path::new(path), "x").is_err(), "{path}");
        }
        assert!(remove_group(Path::new("/tmp/other")).is_err());
    }
}
