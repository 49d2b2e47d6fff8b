// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server over a lake [spec/view.md 11]: who answers, and the traces that are open. Where a trace is, is not known
//! here: it is asked for by its identity.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_query::{Opened, Stop};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::bookmarks::Notebook;
use crate::route::QuestionRequest;
use crate::site::Site;

/// Traces that are kept open.
const OPEN_MAX: usize = 4;

/// An answer about a lake.
pub struct LakeAnswer {
    /// JSON, or a frame.
    pub is_json: bool,
    /// As they are sent.
    pub bytes: Vec<u8>,
}

/// Why there is none.
#[derive(Clone, Debug)]
pub struct LakeError {
    /// Its word in answers.
    pub kind: String,
    /// The object `error` of an answer, with its kind.
    pub error: Value,
}

impl LakeError {
    /// Of a kind, with a sentence.
    pub fn new(kind: &str, message: &str) -> LakeError {
        let error = json!({ "kind": kind, "message": message, "parameter": null, "hint": null });
        LakeError { kind: kind.to_owned(), error }
    }

    /// The status of its response.
    pub fn status(&self) -> u16 {
        match self.kind.as_str() {
            "parameter" | "filter" => 400,
            "question" => 404,
            "gone" => 409,
            "trace" | "here" => 422,
            "stopped" => 503,
            _ => 502,
        }
    }
}

/// A trace of the lake.
pub struct LakeTrace {
    /// It.
    pub opened: Opened,
    /// Files for its bookmarks, as [`crate::Server::with_notes`] takes them.
    pub notes: Vec<PathBuf>,
}

/// Who answers questions about a lake.
pub trait LakeSource: Send + Sync {
    /// Answers, until `stop` says that nobody waits.
    ///
    /// # Errors
    /// There is no answer.
    fn ask(
        &self,
        question: &str,
        parameters: Vec<(String, String)>,
        json: bool,
        stop: &Stop,
    ) -> Result<LakeAnswer, LakeError>;

    /// Opens the trace with this identity.
    ///
    /// # Errors
    /// No addition has it; it is not on this machine; it cannot be opened.
    fn open(&self, trace: &str, stop: &Stop) -> Result<LakeTrace, LakeError>;
}

/// A trace that is open, or is being opened.
type Opening = Arc<OnceCell<Arc<Site>>>;

/// The lake of a server.
pub struct LakeSite {
    source: Arc<dyn LakeSource>,
    /// The last one was used last.
    open: Mutex<Vec<(String, Opening)>>,
}

impl LakeSite {
    pub fn new(source: Arc<dyn LakeSource>) -> LakeSite {
        LakeSite { source, open: Mutex::default() }
    }

    pub fn source(&self) -> Arc<dyn LakeSource> {
        Arc::clone(&self.source)
    }

    /// Where a trace is, or comes; the one that was not used for the longest time makes room.
    pub fn opening(&self, trace: &str) -> Opening {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(of, _)| of == trace).map(|place| open.remove(place).1);
        let opening = known.unwrap_or_default();
        open.push((trace.to_owned(), Arc::clone(&opening)));
        let more = open.len().saturating_sub(OPEN_MAX);
        open.drain(..more);
        opening
    }
}

/// Opens a trace.
pub fn open(source: &dyn LakeSource, trace: &str, stop: &Stop) -> Result<Arc<Site>, LakeError> {
    let LakeTrace { opened, notes } = source.open(trace, stop)?;
    Ok(Arc::new(Site::new(opened, false).with_notes(Notebook::new(notes))))
}

/// Answers a question.
pub fn ask(source: &dyn LakeSource, asked: QuestionRequest, stop: &Stop) -> Result<LakeAnswer, LakeError> {
    source.ask(&asked.question, asked.parameters, asked.json, stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl LakeSource for Nobody {
        fn ask(&self, _: &str, _: Vec<(String, String)>, _: bool, _: &Stop) -> Result<LakeAnswer, LakeError> {
            Err(LakeError::new("lake", "nobody"))
        }

        fn open(&self, _: &str, _: &Stop) -> Result<LakeTrace, LakeError> {
            Err(LakeError::new("here", "nobody"))
        }
    }

    #[test]
    fn the_traces_that_were_used_last_stay_open() {
        let lake = LakeSite::new(Arc::new(Nobody));
        let first: Vec<Opening> = ["a", "b", "c", "d"].iter().map(|trace| lake.opening(trace)).collect();
        assert!(Arc::ptr_eq(&first[0], &lake.opening("a")));
        drop(lake.opening("e"));
        assert!(Arc::ptr_eq(&first[0], &lake.opening("a")), "it was used");
        assert!(!Arc::ptr_eq(&first[1], &lake.opening("b")), "it made room");
    }

    #[test]
    fn errors_have_their_status() {
        for (kind, status) in [("parameter", 400), ("here", 422), ("gone", 409), ("lake", 502), ("odd", 502)] {
            assert_eq!(LakeError::new(kind, "").status(), status, "{kind}");
        }
    }
}
