// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--filter` of the verbs that analyse, and filters of questions: which records are asked for, among all that move a
//! state.

use kymo_analyze::State;
use kymo_ctf::read::{Loss, Record, Trace};
use kymo_feed::Choose;

use crate::error::Refused;
use crate::filter::Filters;
use crate::learn::Learn;

/// Those for which filters hold.
pub struct Chosen {
    filters: Filters,
    /// Names and processes of a kernel's threads, where filters ask for them.
    learn: Option<Learn>,
}

impl Chosen {
    /// By the texts of `--filter`: all must hold.
    pub fn new(traces: &[Trace], texts: &[String]) -> Result<Self, Refused> {
        let filters = Filters::new(traces, texts)?;
        let learn = if filters.have_threads() { Learn::new(traces) } else { None };
        Ok(Self { filters, learn })
    }

    /// What is odd about the expressions themselves, for the user.
    pub fn notes(&self) -> Vec<String> {
        self.filters.notes()
    }

    /// What filters did not find, for the user.
    pub fn conclude(&self) -> Vec<String> {
        self.filters.conclude()
    }
}

impl Choose for Chosen {
    fn begin(&mut self, state: &State) {
        self.filters.begin(state);
    }

    fn selects<'a>(&'a mut self, record: &mut Record<'a>) -> bool {
        if self.filters.is_empty() {
            return true;
        }
        // What is learnt is for the filters; the state of the machine knows threads by itself.
        let own = (record.vpid, record.vtid, record.procname);
        if let Some(learn) = &mut self.learn {
            learn.record(record);
        }
        let is_selected = self.filters.matches(record, true);
        (record.vpid, record.vtid, record.procname) = own;
        is_selected
    }

    fn lost(&mut self, loss: &Loss<'_>) {
        self.filters.lost(loss);
        self.learn.iter_mut().for_each(|learn| learn.loss(loss));
    }

    fn is_all(&self) -> bool {
        self.filters.is_empty()
    }
}
