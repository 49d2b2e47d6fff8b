// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that is served: what is asked is about it, and bookmarks are in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;
use kymo_query::{Opened, QUESTIONS};
use serde_json::{Value, json};

use crate::bookmarks::Notebook;
use crate::live::Current;
use crate::route::QuestionRequest;

/// Answers that are the same each time, and take a pass over the trace.
const KEPT: [&str; 3] = ["summary", "places", "overview"];
/// How many of them are kept, and how large they may be.
const KEPT_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 1 << 20;

/// An answer as it is sent, with its kind.
pub type Sent = (Bytes, &'static str);

/// How other traces belong to the first one [spec/view.md 8].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Each has its own axis: they are compared.
    Beside,
    /// They are of the same time on other hosts.
    Hosts,
}

/// Traces that are shown with the first one.
pub struct Others {
    /// How they belong to it.
    pub relation: Relation,
    /// What all are called, the first one first.
    pub names: Vec<String>,
    /// Those behind the first one.
    pub opened: Vec<Arc<Opened>>,
}

/// A trace, with what belongs to it.
pub struct Site {
    pub current: Arc<Current>,
    pub others: Option<Others>,
    pub notes: Arc<Notebook>,
    kept: Mutex<HashMap<String, Sent>>,
}

/// What is asked, and of which trace.
pub struct Asking {
    pub opened: Arc<Opened>,
    /// Under which the answer is kept, where it is.
    key: Option<String>,
}

impl Site {
    /// Of a trace alone.
    pub fn new(opened: Opened, is_growing: bool) -> Site {
        let current = Arc::new(Current::new(opened, is_growing));
        Site { current, others: None, notes: Arc::default(), kept: Mutex::default() }
    }

    /// With others.
    pub fn with_others(self, others: Option<Others>) -> Site {
        Site { others, ..self }
    }

    /// With bookmarks.
    pub fn with_notes(self, notes: Notebook) -> Site {
        Site { notes: Arc::new(notes), ..self }
    }

    /// Which questions there are, and which traces.
    pub fn questions(&self) -> Value {
        let others = self.others.as_ref();
        let one =
            |of: &kymo_query::Question| json!({ "name": of.name, "about": of.about, "parameters": of.parameters });
        let questions: Vec<Value> = QUESTIONS.iter().map(one).collect();
        let relation = others.map(|others| match others.relation {
            Relation::Beside => "beside",
            Relation::Hosts => "hosts",
        });
        let names = others.map_or(&[][..], |others| &others.names);
        json!({ "version": kymo_query::VERSION, "relation": relation, "names": names, "questions": questions })
    }

    /// Of which trace a question is; none if it is of one that is not there.
    pub fn asking(&self, asked: &QuestionRequest) -> Option<Asking> {
        let (number, opened) = match asked.of.checked_sub(1) {
            None => self.current.opened(),
            Some(position) => (0, Arc::clone(self.others.as_ref()?.opened.get(position)?)),
        };
        let is_kept = KEPT.contains(&asked.question.as_str()) && !opened.is_growing();
        let key = is_kept.then(|| format!("{number} {asked:?}"));
        Some(Asking { opened, key })
    }

    /// The answer, if it is kept.
    pub fn kept(&self, asking: &Asking) -> Option<Sent> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        asking.key.as_ref().and_then(|key| kept.get(key).cloned())
    }

    /// Keeps an answer, where there is room.
    pub fn keep(&self, asking: Asking, sent: &Sent) {
        let Some(key) = asking.key.filter(|_| sent.0.len() <= KEPT_BYTES_MAX) else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.insert(key, sent.clone());
        }
    }
}
