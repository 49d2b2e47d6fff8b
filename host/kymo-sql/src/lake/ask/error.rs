// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a question about a lake has no answer [spec/view.md 11.1].

use serde_json::{Value, json};

use crate::lake::scan::GONE;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The question.
    #[error("{0}")]
    Question(#[from] kymo_query::Error),
    /// An addition was replaced meanwhile.
    #[error("{0}")]
    Gone(String),
    /// The trace cannot be opened on this machine.
    #[error("{0}")]
    Here(String),
    /// The lake cannot be read.
    #[error("{0}")]
    Lake(String),
}

impl AskError {
    /// Of a parameter.
    pub fn parameter(name: &str, message: impl Into<String>) -> AskError {
        AskError::Question(kymo_query::Error::Parameter { parameter: name.to_owned(), message: message.into() })
    }

    /// As the object of an answer.
    pub fn json(&self) -> Value {
        let kind = match self {
            AskError::Question(error) => return error.json(),
            AskError::Gone(_) => "gone",
            AskError::Here(_) => "here",
            AskError::Lake(_) => "lake",
        };
        json!({ "error": { "kind": kind, "message": self.to_string(), "parameter": null, "hint": null } })
    }
}

impl From<anyhow::Error> for AskError {
    fn from(error: anyhow::Error) -> AskError {
        let text = kymo_command::process::message(&error);
        if text.contains(GONE) { AskError::Gone(text) } else { AskError::Lake(text) }
    }
}

impl From<datafusion::error::DataFusionError> for AskError {
    fn from(error: datafusion::error::DataFusionError) -> AskError {
        AskError::from(anyhow::anyhow!(crate::sql::session::message(&error)))
    }
}
