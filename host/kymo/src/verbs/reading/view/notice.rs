// SPDX-License-Identifier: MIT OR Apache-2.0
//! How `kymo view` learns soon of what a session writes [spec/view.md 7]: it asks the session to write sooner while a
//! page is open, and waits for changes of files (inotify) instead of looking again and again.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kymo_collect::{Remote, Request, remotes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use serde_json::Value;

/// Without being asked, a collector writes what is in a ring, a program's or the kernel's, within 120 ms; that takes a
/// moment.
pub const DELAY: Duration = Duration::from_millis(150);
/// For writing, on top of what a session promises.
const MARGIN: Duration = Duration::from_millis(20);
/// A request has effect for 2 s. It is renewed this often, so one that is late does no harm.
const RENEWAL: Duration = Duration::from_millis(500);
/// An answer takes this long at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at files that cannot be watched.
const BLIND_PAUSE: Duration = Duration::from_millis(10);

/// Changes of the files of directories.
pub struct Changes {
    queue: Option<OwnedFd>,
}

impl Changes {
    /// Of no directory yet. Where the kernel gives no queue, time passes instead.
    pub fn new() -> Changes {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Changes { queue: inotify::init(flags).ok() }
    }

    /// Of this one, too.
    pub fn watch(&mut self, dir: &Path) {
        let Some(queue) = &self.queue else { return };
        let of = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::DELETE_SELF;
        // Too many are watched, or it is gone: the looks say so.
        if inotify::add_watch(queue, dir, of).is_err() {
            self.queue = None;
        }
    }

    /// Returns when something has changed since the last time, or after `most`.
    pub fn wait(&mut self, most: Duration) {
        let Some(queue) = &self.queue else { return thread::sleep(most.min(BLIND_PAUSE)) };
        let timeout = Timespec::try_from(most).ok();
        let mut of = [PollFd::new(queue, PollFlags::IN)];
        if matches!(poll(&mut of, timeout.as_ref()), Ok(1..)) {
            let mut events = [0u8; 4096];
            while matches!(rustix::io::read(queue, &mut events), Ok(1..)) {}
        }
    }
}

/// What a session has promised.
#[derive(Clone, Copy, Debug)]
struct Promise {
    since: Instant,
    until: Instant,
    within: Duration,
}

impl Promise {
    /// How old a record is when everything of its age is in the files.
    fn delay(&self, now: Instant) -> Duration {
        // What was published before it was asked for may still take the usual time.
        let holds = now >= self.since + DELAY && now < self.until;
        if holds { (self.within + MARGIN).min(DELAY) } else { DELAY }
    }

    /// The one that follows: it holds since the first of those that follow each other without a gap.
    fn renewed(before: Option<Promise>, asked_at: Instant, answered_at: Instant, answer: &Value) -> Option<Promise> {
        let ms = |name: &str| answer[name].as_u64().map(Duration::from_millis);
        let (within, until) = (ms("within_ms")?, asked_at + ms("for_ms")?);
        let goes_on = before.filter(|before| before.until > answered_at && before.within >= within);
        Some(Promise { since: goes_on.map_or(answered_at, |before| before.since), until, within })
    }
}

/// Asks a session again and again to write soon, as long as a page is open. In a thread of its own: a session that is
/// busy keeps nobody waiting.
pub struct SoonWriter {
    promise: Arc<Mutex<Option<Promise>>>,
    is_shown: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SoonWriter {
    /// Of the session whose collector is this process. A recording without a name cannot be asked.
    pub fn start(pid: Option<u64>) -> io::Result<SoonWriter> {
        let (promise, is_shown, is_over) = (Arc::<Mutex<_>>::default(), Arc::default(), Arc::default());
        let mut of = SoonWriter { promise, is_shown, is_over, thread: None };
        let [shown, over] = [&of.is_shown, &of.is_over].map(Arc::clone);
        let promise = Arc::clone(&of.promise);
        let ask = move || {
            let Some(remote) = pid.and_then(remote_of) else { return };
            while !over.load(Ordering::Relaxed) {
                if shown.load(Ordering::Relaxed) && !renew(&remote, &promise) {
                    return;
                }
                thread::park_timeout(RENEWAL);
            }
        };
        of.thread = Some(thread::Builder::new().name("kymo-watch".to_owned()).spawn(ask)?);
        Ok(of)
    }

    /// Whether a page is open.
    pub fn shown(&self, is: bool) {
        let was = self.is_shown.swap(is, Ordering::Relaxed);
        if let Some(thread) = self.thread.as_ref().filter(|_| is && !was) {
            thread.thread().unpark();
        }
    }

    /// How old a record is when everything of its age is in the files.
    pub fn delay(&self) -> Duration {
        let promise = *self.promise.lock().unwrap_or_else(PoisonError::into_inner);
        promise.map_or(DELAY, |promise| promise.delay(Instant::now()))
    }
}

impl Drop for SoonWriter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panicked: that was reported, and records are shown later.
            let _ = thread.join();
        }
    }
}

fn remote_of(pid: u64) -> Option<Remote> {
    remotes().ok()?.into_iter().find(|remote| u64::from(remote.pid()) == pid)
}

/// False: it will never answer.
fn renew(remote: &Remote, promise: &Mutex<Option<Promise>>) -> bool {
    let asked_at = Instant::now();
    match remote.ask(&Request::Watch, PATIENCE) {
        Ok(answer) => {
            let mut promise = promise.lock().unwrap_or_else(PoisonError::into_inner);
            let next = Promise::renewed(*promise, asked_at, Instant::now(), &answer);
            *promise = next;
            next.is_some()
        }
        Err(kymo_collect::AskError::Silent(_)) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_file_that_grows_ends_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel_0_0");
        fs::write(&path, b"a").unwrap();
        let mut changes = Changes::new();
        changes.watch(dir.path());
        assert!(changes.queue.is_some());
        // What was before does not count; without an end by the change this takes ten minutes.
        thread::scope(|scope| {
            let waits = scope.spawn(|| changes.wait(600_000 * MS));
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            while !waits.is_finished() {
                io::Write::write_all(&mut file, b"b").unwrap();
                thread::yield_now();
            }
        });
        // What was written while it returned is taken, too: then nothing is new.
        changes.wait(Duration::ZERO);
        let begin = Instant::now();
        changes.wait(20 * MS);
        assert!(begin.elapsed() >= 20 * MS);
    }

    #[test]
    fn a_promise_holds_from_when_all_before_it_is_written_until_it_ends() {
        let (begin, answer) = (Instant::now(), json!({ "within_ms": 40, "for_ms": 2000 }));
        let first = Promise::renewed(None, begin, begin + MS, &answer).unwrap();
        let delay = |promise: &Promise, ms: u32| promise.delay(begin + ms * MS);
        assert_eq!([0, 150, 151, 1999, 2000].map(|ms| delay(&first, ms).as_millis()), [150, 150, 60, 60, 150]);
        // Renewed in time it goes on; too late it begins anew.
        let second = Promise::renewed(Some(first), begin + 1500 * MS, begin + 1501 * MS, &answer).unwrap();
        assert_eq!([1600, 2001, 3499, 3500].map(|ms| delay(&second, ms).as_millis()), [60, 60, 60, 150]);
        let late = Promise::renewed(Some(first), begin + 2500 * MS, begin + 2501 * MS, &answer).unwrap();
        assert_eq!([2600, 2651].map(|ms| delay(&late, ms).as_millis()), [150, 60]);
        // A slower promise is believed, too, and never beyond what holds without one.
        let slow = Promise::renewed(Some(first), begin, begin + MS, &json!({ "within_ms": 400, "for_ms": 2000 }));
        assert_eq!(delay(&slow.unwrap(), 1000), DELAY);
        assert!(Promise::renewed(None, begin, begin, &json!({})).is_none());
    }
}
