// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of kymo-query, read cell by cell, and why a call of the Trace Server Protocol has none.

use kymo_query::{Error, Opened, Parameters, Stop};
use serde_json::{Map, Value};

/// Why a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Status, and what is wrong.
    Status(u16, String),
    /// The question has no answer.
    Question(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Question(error)
    }
}

impl Failure {
    /// A parameter of the body that is none.
    pub fn wrong(what: &str) -> Failure {
        Failure::Status(400, what.to_owned())
    }

    /// There is no such thing.
    pub fn missing(what: &str) -> Failure {
        Failure::Status(404, what.to_owned())
    }

    /// The status; a client takes what is above 501 for a server that is down.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Status(status, _) => *status,
            Failure::Question(Error::Question(_)) => 404,
            Failure::Question(Error::Stopped) => 500,
            Failure::Question(_) => 400,
        }
    }

    /// What is wrong.
    pub fn message(&self) -> String {
        match self {
            Failure::Status(_, message) => message.clone(),
            Failure::Question(error) => error.to_string(),
        }
    }
}

/// What is asked, and who still waits.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The traces.
    pub of: &'a Opened,
    /// Set when nobody wants the answer any more.
    pub stop: &'a Stop,
}

impl Asker<'_> {
    /// Asks a question of spec/view.md 4.
    pub fn ask(&self, question: &str, parameters: &[(&str, String)]) -> Result<Reply, Error> {
        let pairs = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let answer = kymo_query::answer(self.of, question, Parameters::new(pairs), self.stop)?;
        Ok(Reply { base: self.of.base(), json: answer.json() })
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    base: i64,
    json: Value,
}

impl Reply {
    /// The window that was answered, ns since 1970.
    pub fn window(&self) -> (i64, i64) {
        let time = |name: &str| self.base.saturating_add(self.json[name].as_i64().unwrap_or(0));
        (time("from"), time("to"))
    }

    /// A value of `info`.
    pub fn info(&self, name: &str) -> &Value {
        &self.json["info"][name]
    }

    /// A table; one without rows where there is none.
    pub fn table(&self, name: &str) -> Table<'_> {
        Table { base: self.base, columns: self.json["tables"][name].as_object() }
    }

    /// Of each row of `mixed` its shares, by state: of threads they are in `shares`, of CPUs in columns.
    pub fn shares(&self) -> Vec<Vec<f64>> {
        let (mixed, shares) = (self.table("mixed"), self.table("shares"));
        let names = self.info("states").as_array().map(Vec::as_slice).unwrap_or_default();
        let mut next = 0..shares.rows();
        let mut share = |row: usize, (state, name): (usize, &Value)| match mixed.number("states", row) {
            Some(states) if states >> state.min(63) & 1 == 0 => None,
            Some(_) => shares.float("share", next.next()?),
            None => mixed.float(name.as_str()?, row),
        };
        let mut of_row = |row| names.iter().enumerate().map(|state| share(row, state).unwrap_or(0.0)).collect();
        (0..mixed.rows()).map(&mut of_row).collect()
    }

    /// The names of the marks that are set in a value of `doubt`.
    pub fn doubts(&self, bits: i64) -> String {
        let names = self.info("doubts").as_array().map(Vec::as_slice).unwrap_or_default();
        let set = names.iter().enumerate().filter(|(bit, _)| *bit < 63 && (bits >> bit) & 1 == 1);
        set.filter_map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// A table of an answer.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    base: i64,
    columns: Option<&'a Map<String, Value>>,
}

impl<'a> Table<'a> {
    /// Rows.
    pub fn rows(&self) -> usize {
        let first = self.columns.and_then(|columns| columns.values().next());
        first.and_then(Value::as_array).map_or(0, Vec::len)
    }

    fn cell(&self, column: &str, row: usize) -> Option<&'a Value> {
        self.columns?.get(column)?.get(row).filter(|cell| !cell.is_null())
    }

    /// An integer.
    pub fn number(&self, column: &str, row: usize) -> Option<i64> {
        let cell = self.cell(column, row)?;
        cell.as_i64().or_else(|| cell.as_u64().map(|_| i64::MAX))
    }

    /// A number with a fraction.
    pub fn float(&self, column: &str, row: usize) -> Option<f64> {
        self.cell(column, row)?.as_f64()
    }

    /// A time, ns since 1970.
    pub fn time(&self, column: &str, row: usize) -> Option<i64> {
        self.number(column, row).map(|ns| self.base.saturating_add(ns))
    }

    /// A text.
    pub fn text(&self, column: &str, row: usize) -> Option<&'a str> {
        self.cell(column, row)?.as_str()
    }
}
