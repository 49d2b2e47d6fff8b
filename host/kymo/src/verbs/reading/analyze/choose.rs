// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--filter` of the verbs that analyse: which records are asked for is for kymo-query; what it has to say goes to
//! standard error.

use kymo_analyze::State;
use kymo_ctf::read::{Loss, Record, Trace};
use kymo_feed::Choose;

use crate::verbs::read::filter::say;

/// Those for which filters hold.
pub struct Chosen(kymo_query::Chosen);

impl Chosen {
    /// By the texts of `--filter`: all must hold.
    pub fn new(traces: &[Trace], texts: &[String]) -> anyhow::Result<Self> {
        let chosen = kymo_query::Chosen::new(traces, texts)?;
        say(&chosen.notes());
        Ok(Self(chosen))
    }

    /// Says on standard error what filters did not find.
    pub fn conclude(&self) {
        say(&self.0.conclude());
    }
}

impl Choose for Chosen {
    fn begin(&mut self, state: &State) {
        self.0.begin(state);
    }

    fn selects<'a>(&'a mut self, record: &mut Record<'a>) -> bool {
        self.0.selects(record)
    }

    fn lost(&mut self, loss: &Loss<'_>) {
        self.0.lost(loss);
    }

    fn is_all(&self) -> bool {
        self.0.is_all()
    }
}
