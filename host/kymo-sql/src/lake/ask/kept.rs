// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples that were read, for the questions that need the same ones: a distribution, its trend, other quantiles.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use super::cells::{Cells, Groups, cells, groups, unreadable};
use super::choice::Choice;
use super::error::AskError;
use crate::sql::session::Session;

/// Choices whose samples are kept.
const KEPT_MAX: usize = 2;

/// The samples of a choice.
pub struct ReadSamples {
    pub groups: Groups,
    pub cells: Cells,
    /// Traces that could not be opened.
    pub unreadable: u64,
}

/// What was read, or is being read.
type Reading = Arc<OnceCell<Arc<ReadSamples>>>;

/// Of one moment of a lake: later ones have other samples.
#[derive(Default)]
pub struct KeptSamples(Mutex<Vec<(String, Reading)>>);

impl KeptSamples {
    /// The samples of a choice. Who asks for those that are being read waits for them.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn read(&self, session: &Session, choice: &Choice) -> Result<Arc<ReadSamples>, AskError> {
        let reading = self.reading(choice.samples_key());
        let read = || async {
            let groups = groups(session, choice).await?;
            let cells = cells(session, choice, &groups).await?;
            let unreadable = unreadable(session, choice).await?;
            Ok(Arc::new(ReadSamples { groups, cells, unreadable }))
        };
        reading.get_or_try_init(read).await.cloned()
    }

    fn reading(&self, key: String) -> Reading {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|(of, _)| *of == key).map(|place| kept.remove(place).1);
        let reading = known.unwrap_or_default();
        kept.push((key, Arc::clone(&reading)));
        let more = kept.len().saturating_sub(KEPT_MAX);
        kept.drain(..more);
        reading
    }
}
