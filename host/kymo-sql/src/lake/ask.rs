// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions of the page over a lake [spec/view.md 11]: fixed ones, with parameters that are checked. Plans are made of
//! expressions, and never of a text: a value is compared as a value, whatever characters it has.

mod cells;
pub mod changes;
mod choice;
mod contents;
mod distribution;
mod error;
mod kept;
mod locate;
mod rows;
mod trend;
mod worst;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context as _;
use kymo_query::{Answer, Parameters};

use super::catalog::Lake;
use super::list::Listing;
use super::place::Place;
use crate::sql::session::{Data, Session};
use choice::Choice;
pub use error::AskError;
use kept::KeptSamples;

/// Questions, and what they have for an answer.
pub const QUESTIONS: [(&str, &str); 5] = [
    ("contents", "What is in the lake"),
    ("kinds", "Kinds of latencies"),
    ("distribution", "The distribution of a latency by group"),
    ("trend", "A quantile of each day by group, with change points"),
    ("worst", "The longest samples"),
];

/// A lake as its manifests had it at one time.
struct Moment {
    lake: Arc<Lake>,
    session: Session,
    kept: KeptSamples,
}

/// Answers questions about one lake.
pub struct Desk {
    place: Place,
    threads: usize,
    memory_bytes: usize,
    now: RwLock<Arc<Moment>>,
}

impl Desk {
    /// Reads the manifests.
    ///
    /// # Errors
    /// The place is no lake, or cannot be read; a manifest is damaged.
    pub async fn open(place: Place, threads: usize, memory_bytes: usize) -> anyhow::Result<Desk> {
        let now = RwLock::new(Arc::new(Moment::read(&place, threads, memory_bytes).await?));
        Ok(Desk { place, threads, memory_bytes, now })
    }

    fn now(&self) -> Arc<Moment> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn renew(&self) -> anyhow::Result<()> {
        let moment = Arc::new(Moment::read(&self.place, self.threads, self.memory_bytes).await?);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = moment;
        Ok(())
    }

    /// Answers. If an addition was replaced meanwhile, the manifests are read again, once.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn answer(&self, question: &str, parameters: Vec<(String, String)>) -> Result<Answer, AskError> {
        match self.try_answer(question, Parameters::new(parameters.clone())).await {
            Err(AskError::Gone(_)) => {
                self.renew().await?;
                self.try_answer(question, Parameters::new(parameters)).await
            }
            done => done,
        }
    }

    async fn try_answer(&self, question: &str, parameters: Parameters) -> Result<Answer, AskError> {
        if question == "contents" {
            parameters.check_names(&[])?;
            self.renew().await?;
            let listing = Listing::read(&self.place).await?;
            return Ok(contents::answer(&listing));
        }
        let now = self.now();
        let Moment { lake, session, kept } = &*now;
        if !QUESTIONS.iter().any(|(name, _)| *name == question) {
            return Err(kymo_query::Error::Question(question.to_owned()).into());
        }
        let choice = Choice::take(parameters, lake, question)?;
        match question {
            "kinds" => return distribution::kinds(session, &choice).await,
            "worst" => return worst::answer(lake, session, &choice).await,
            _ => {}
        }
        let read = kept.read(session, &choice).await?;
        match question {
            "trend" => trend::answer(&read, &choice).await,
            _ => Ok(distribution::answer(&read)),
        }
    }

    /// The directory of a trace on this machine, after its identity was checked. Reads all of the trace.
    ///
    /// # Errors
    /// No addition has it; it is not on this machine, or another one is in its place.
    pub async fn locate(&self, trace: &str) -> Result<PathBuf, AskError> {
        let now = self.now();
        let manifest = now.lake.additions().iter().find(|addition| addition.trace == trace);
        let manifest =
            manifest.ok_or_else(|| AskError::Here(format!("no addition of this lake is the trace {trace}")))?;
        locate::locate(&self.place, manifest).await
    }
}

impl Moment {
    async fn read(place: &Place, threads: usize, memory_bytes: usize) -> anyhow::Result<Moment> {
        let lake = Arc::new(Lake::open(place.clone()).await?);
        let session = Session::of(Data::Lake(Arc::clone(&lake)), threads, memory_bytes);
        Ok(Moment { session: session.context("the query engine")?, lake, kept: KeptSamples::default() })
    }
}
