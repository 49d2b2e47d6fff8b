// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a question has no answer [spec/view.md 5], and why a filter or a span is refused.

use std::fmt;

/// An expression that is none, or names what the traces do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The option that verbs have for it: `filter`, `span`.
    pub option: &'static str,
    /// What is wrong; where it is of several lines, with the place.
    pub message: String,
}

impl Refused {
    /// A filter.
    pub(crate) fn filter(error: kymo_filter::Error) -> Refused {
        Refused { option: "filter", message: format!("\n{error}") }
    }

    /// A span.
    pub(crate) fn span(message: String) -> Refused {
        Refused { option: "span", message }
    }
}

/// As verbs say it.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.strip_prefix('\n') {
            Some(lines) => write!(f, "--{}:\n{lines}", self.option),
            None => write!(f, "--{} {}", self.option, self.message),
        }
    }
}

impl std::error::Error for Refused {}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A parameter is unknown, missing, repeated, or has no such value.
    #[error("{parameter}: {message}")]
    Parameter {
        /// Which.
        parameter: String,
        /// What is wrong, and what it may be.
        message: String,
    },
    /// An expression or a span.
    #[error("{}", .0.message.trim_start_matches('\n'))]
    Refused(#[from] Refused),
    /// There is no such question.
    #[error("there is no question {0:?}")]
    Question(String),
    /// The trace cannot answer it.
    #[error("{message}")]
    Trace {
        /// What it lacks.
        message: String,
        /// How to record it.
        hint: String,
    },
    /// Nobody wants the answer any more.
    #[error("nobody waits for the answer")]
    Stopped,
}

impl Error {
    /// Of a parameter.
    pub(crate) fn parameter(parameter: &str, message: impl Into<String>) -> Error {
        Error::Parameter { parameter: parameter.to_owned(), message: message.into() }
    }

    /// Who ran is known from switches only.
    pub(crate) fn no_switches() -> Error {
        Error::Trace {
            message: "the trace has no sched_switch, so it does not tell who ran".to_owned(),
            hint: "kymo record -k sched,irq,syscalls".to_owned(),
        }
    }

    /// Its word in answers.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Parameter { .. } => "parameter",
            Error::Refused(_) => "filter",
            Error::Question(_) => "question",
            Error::Trace { .. } => "trace",
            Error::Stopped => "stopped",
        }
    }

    /// As the object of an answer.
    pub fn json(&self) -> serde_json::Value {
        let parameter = match self {
            Error::Parameter { parameter, .. } => Some(parameter.as_str()),
            Error::Refused(refused) => Some(refused.option),
            _ => None,
        };
        let hint = match self {
            Error::Trace { hint, .. } => Some(hint.as_str()),
            _ => None,
        };
        let error = serde_json::json!({
            "kind": self.kind(), "message": self.to_string(), "parameter": parameter, "hint": hint,
        });
        serde_json::json!({ "error": error })
    }
}
