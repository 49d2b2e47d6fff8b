// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that is being written: one thread looks at it again and again, and pages that wait are told of what is new.
//! Where the trace comes from is not known here [spec/view.md 7].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kymo_query::Opened;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Between two looks at least; twice as long as the look took, if that is longer: who is watched needs the CPUs, too.
const PAUSE: Duration = Duration::from_millis(20);
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
}

impl Current {
    /// Of a trace that is whole, or where the first look is still to come.
    pub fn new(opened: Opened, is_growing: bool) -> Current {
        let state = if is_growing { "live" } else { "whole" };
        let news = News { number: 0, body: body(&opened, state, None), edge: edge(&opened) };
        Current { opened: RwLock::new((0, Arc::new(opened))), news: watch::Sender::new(news) }
    }

    /// The trace, and the number of what is new in it.
    pub fn opened(&self) -> (u64, Arc<Opened>) {
        let now = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        (now.0, Arc::clone(&now.1))
    }

    /// Tells of what comes.
    pub fn subscribe(&self) -> watch::Receiver<News> {
        self.news.subscribe()
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
    thread: Option<JoinHandle<()>>,
}

impl Looking {
    /// Looks until the trace ends, or this is dropped.
    pub fn start(mut source: Box<dyn Source>, current: Arc<Current>) -> std::io::Result<Looking> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let mut problem = String::new();
        let look = move || {
            while !ends.load(Ordering::Relaxed) {
                let begin = Instant::now();
                match source.look() {
                    Look::Same => {}
                    Look::Grown(opened) => {
                        problem.clear();
                        current.renew(opened, "live");
                    }
                    Look::Ended(opened) => return current.renew(opened, "ended"),
                    Look::Failed(why) if why == problem => {}
                    Look::Failed(why) => {
                        current.fail(&why);
                        problem = why;
                    }
                }
                thread::sleep(PAUSE.max(2 * begin.elapsed()));
            }
        };
        let thread = thread::Builder::new().name("kymo-look".to_owned()).spawn(look)?;
        Ok(Looking { is_over, thread: Some(thread) })
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It panicked: the trace stays what it was, and the panic was reported.
            let _ = thread.join();
        }
    }
}
