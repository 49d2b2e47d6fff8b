// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo view --lake` [spec/view.md 11.5]: `kymo-sql` answers, as a child process, and traces are opened that it finds.

mod process;

use std::path::PathBuf;
use std::sync::Arc;

use kymo_query::Stop;
use kymo_serve::{LakeAnswer, LakeError, LakeSource, LakeTrace};
use serde_json::Value;

use super::opening;
use process::AskedProcess;

/// A lake, and the traces of it that are on this machine.
pub struct LakeView {
    process: Arc<AskedProcess>,
}

impl LakeView {
    /// Starts the process that answers.
    ///
    /// # Errors
    /// `kymo-sql` is not there; the place is no lake, or cannot be read.
    pub fn start(url: &str) -> anyhow::Result<LakeView> {
        Ok(LakeView { process: Arc::new(AskedProcess::start(url)?) })
    }
}

impl LakeSource for LakeView {
    fn ask(
        &self,
        question: &str,
        parameters: Vec<(String, String)>,
        json: bool,
        stop: &Stop,
    ) -> Result<LakeAnswer, LakeError> {
        // What the server alone may know is no question of a page.
        if question == "locate" {
            return Err(LakeError::new("question", "there is no question \"locate\""));
        }
        self.process.ask(question, parameters, json, stop)
    }

    fn open(&self, trace: &str, stop: &Stop) -> Result<LakeTrace, LakeError> {
        let answer = self.process.ask("locate", vec![("trace".to_owned(), trace.to_owned())], true, stop)?;
        let found: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
        let path = PathBuf::from(found["path"].as_str().unwrap_or_default());
        let opened = opening::one(&path)
            .map_err(|error| LakeError::new("here", &format!("{} cannot be opened: {error:#}", path.display())))?;
        Ok(LakeTrace { opened, notes: opening::note_places(&[path]) })
    }
}
