// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that is being written: one thread looks at it whenever a page waits for news and something was written, and
//! now and then in any case. Where the trace comes from is not known here [spec/view.md 7].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kymo_query::Opened;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Between two looks at least; as long as the look took, if that is longer: who is watched needs the CPUs, too.
const PAUSE: Duration = Duration::from_millis(5);
/// While no page waits for news, a look takes place this often, so that the next page has little to wait for.
const IDLE_PAUSE: Duration = Duration::from_millis(250);
/// A page that asked so long ago is gone.
const GONE: Duration = Duration::from_secs(2);
/// A page that waits is answered after this time at the latest, so that it sees that the server lives.
pub(crate) const HOLD: Duration = Duration::from_secs(20);

/// What a look at a trace has found.
pub enum Look {
    /// Nothing new.
    Same,
    /// More of it.
    Grown(Opened),
    /// All of it: nothing more is written.
    Ended(Opened),
    /// It cannot be read now; what was read stays.
    Failed(String),
}

/// A trace that is being written, as its owner looks at it.
pub trait Source: Send {
    /// What is there now. Is called by one thread, again and again.
    fn look(&mut self) -> Look;

    /// Returns when a look may find something, at the latest after `most`. A page waits for that.
    fn wait(&mut self, most: Duration) {
        std::thread::sleep(most.min(Duration::from_millis(10)));
    }

    /// Is told before a look whether some page shows the trace.
    fn shown(&mut self, _is: bool) {}
}

/// Whether somebody wants to know what is new.
#[derive(Debug, Default)]
struct WaitingPages {
    /// Pages that wait.
    waiting: usize,
    /// When the last of them came or left.
    at: Option<Instant>,
    is_over: bool,
}

/// What pages are told.
#[derive(Clone, Debug)]
pub(crate) struct News {
    /// Counts what is new.
    pub number: u64,
    /// The rest, as JSON.
    body: Value,
    /// When the newest record was written, ns since 1970, as far as there is one.
    edge: Option<i64>,
}

impl News {
    /// As a page gets it, with the time by which it can tell how old the newest record is.
    pub fn json(&self) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let now = now.and_then(|now| i64::try_from(now.as_nanos()).ok());
        let behind = now.zip(self.edge).map(|(now, edge)| now.saturating_sub(edge));
        let mut body = self.body.clone();
        body["number"] = json!(self.number);
        body["behind_ns"] = json!(behind);
        body
    }
}

/// The trace as it is now.
pub(crate) struct Current {
    opened: RwLock<(u64, Arc<Opened>)>,
    news: watch::Sender<News>,
    wanted: Mutex<WaitingPages>,
    changed: Condvar,
}

/// A page that waits for news.
pub(crate) struct Waiting<'c> {
    of: &'c Current,
    /// What comes.
    pub news: watch::Receiver<News>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut wanted = self.of.wanted();
        (wanted.waiting, wanted.at) = (wanted.waiting.saturating_sub(1), Some(Instant::now()));
    }
}

impl Current {
    /// Of a trace that is whole, or where the first look is still to come.
    pub fn new(opened: Opened, is_growing: bool) -> Current {
        let state = if is_growing { "live" } else { "whole" };
        let news = News { number: 0, body: body(&opened, state, None), edge: edge(&opened) };
        let opened = RwLock::new((0, Arc::new(opened)));
        Current { opened, news: watch::Sender::new(news), wanted: Mutex::default(), changed: Condvar::new() }
    }

    /// The trace, and the number of what is new in it.
    pub fn opened(&self) -> (u64, Arc<Opened>) {
        let now = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        (now.0, Arc::clone(&now.1))
    }

    /// A page waits for what comes: the trace is looked at now.
    pub fn wait(&self) -> Waiting<'_> {
        let mut wanted = self.wanted();
        (wanted.waiting, wanted.at) = (wanted.waiting + 1, Some(Instant::now()));
        self.changed.notify_all();
        drop(wanted);
        Waiting { of: self, news: self.news.subscribe() }
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, WaitingPages> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a page waits, for `most` at most, and `least` in any case. Whether one does.
    fn until_wanted(&self, least: Duration, most: Duration) -> bool {
        let begin = Instant::now();
        let mut wanted = self.wanted();
        while !wanted.is_over {
            let until = if wanted.waiting > 0 { least } else { most };
            let rest = until.saturating_sub(begin.elapsed());
            if rest.is_zero() {
                break;
            }
            wanted = self.changed.wait_timeout(wanted, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        wanted.waiting > 0
    }

    /// Whether a page shows it: it asks again and again.
    fn is_shown(&self) -> bool {
        let wanted = self.wanted();
        wanted.waiting > 0 || wanted.at.is_some_and(|at| at.elapsed() < GONE)
    }

    fn end(&self) {
        self.wanted().is_over = true;
        self.changed.notify_all();
    }

    fn renew(&self, opened: Opened, state: &str) {
        let (body, edge) = (body(&opened, state, None), edge(&opened));
        let mut now = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        *now = (now.0 + 1, Arc::new(opened));
        let number = now.0;
        drop(now);
        self.news.send_replace(News { number, body, edge });
    }

    /// The trace stays what it was.
    fn fail(&self, problem: &str) {
        let (_, opened) = self.opened();
        let body = body(&opened, "live", Some(problem));
        let mut now = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        now.0 += 1;
        let number = now.0;
        drop(now);
        self.news.send_replace(News { number, body, edge: edge(&opened) });
    }
}

fn edge(opened: &Opened) -> Option<i64> {
    opened.bounds.map(|(_, last)| last)
}

fn body(opened: &Opened, state: &str, problem: Option<&str>) -> Value {
    let (first, end) = opened.whole();
    let index = opened.indexes.growing();
    let lost = index.map(|index| index.lost());
    let lost = lost.map(|lost| json!({ "records": lost.records, "packets": lost.packets, "places": lost.places }));
    json!({
        "state": state,
        "base": opened.base().to_string(),
        "to": end.saturating_sub(first),
        "records": index.map(|index| index.records()),
        "lost": lost,
        "problem": problem,
    })
}

/// The thread that looks.
pub(crate) struct Looking {
    is_over: Arc<AtomicBool>,
    current: Arc<Current>,
    thread: Option<JoinHandle<()>>,
}

impl Looking {
    /// Looks until the trace ends, or this is dropped.
    pub fn start(mut source: Box<dyn Source>, current: Arc<Current>) -> std::io::Result<Looking> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, of) = (Arc::clone(&is_over), Arc::clone(&current));
        let look = move || {
            let mut problem = String::new();
            while !ends.load(Ordering::Relaxed) {
                let begin = Instant::now();
                source.shown(of.is_shown());
                let found = source.look();
                let is_same = matches!(found, Look::Same);
                match found {
                    Look::Same => {}
                    Look::Grown(opened) => {
                        problem.clear();
                        of.renew(opened, "live");
                    }
                    Look::Ended(opened) => return of.renew(opened, "ended"),
                    Look::Failed(why) if why == problem => {}
                    Look::Failed(why) => {
                        of.fail(&why);
                        problem = why;
                    }
                }
                let is_wanted = of.until_wanted(PAUSE.max(begin.elapsed()), IDLE_PAUSE);
                if is_wanted && is_same {
                    source.wait(IDLE_PAUSE);
                }
            }
        };
        let thread = std::thread::Builder::new().name("kymo-look".to_owned()).spawn(look)?;
        Ok(Looking { is_over, current, thread: Some(thread) })
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.current.end();
        if let Some(thread) = self.thread.take() {
            // It panicked: the trace stays what it was, and the panic was reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use kymo_index::Indexes;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn current() -> Current {
        Current::new(Opened::new(Vec::new(), Indexes::default(), "t".into(), Vec::new()), true)
    }

    #[test]
    fn a_page_that_waits_is_not_left_until_the_next_interval() {
        let current = current();
        assert!(!current.is_shown());
        thread::scope(|scope| {
            // Only a page that waits ends the long pause: otherwise this does not end.
            let looker = scope.spawn(|| current.until_wanted(Duration::ZERO, LONG));
            let waiting = current.wait();
            assert!(looker.join().unwrap());
            assert!(current.is_shown());
            drop(waiting);
        });
        // It draws, and will ask again.
        assert!(current.is_shown());
        assert!(!current.until_wanted(Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn the_end_waits_for_nobody() {
        let current = current();
        let waiting = current.wait();
        current.end();
        assert!(current.until_wanted(LONG, LONG));
        drop(waiting);
    }
}
