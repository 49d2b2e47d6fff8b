// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that somebody chose, and those that are asked for in other rows: who asks for them once asks again. So they
//! are kept while a trace is open [spec/view.md 6.1].

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kymo_index::{IndexedSpans, KeepHow};

use crate::slice_row::SliceRow;

/// So many choices are kept, or known not to be.
const CHOICES_MAX: usize = 8;

/// Where chosen spans are kept, and of which traces.
pub struct KeepSpans {
    /// Makes an empty file that only we have, and that is gone with us.
    pub file: Box<dyn Fn() -> io::Result<File> + Send + Sync>,
    /// Traces with fewer records are as soon read.
    pub records_min: u64,
    /// How they are kept.
    pub how: KeepHow,
}

/// Which spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpanChoice {
    /// As `kymo latency --span` has them.
    pub texts: Vec<String>,
    /// By number: whether it has rows of keys.
    pub is_by_key: Vec<bool>,
}

/// Spans in parts, and what their rows are.
pub(crate) struct KeptSpans {
    pub spans: IndexedSpans,
    /// By number; none where rows are those of threads.
    pub rows: Option<Vec<SliceRow>>,
    /// By number.
    pub keys: Vec<String>,
}

/// How far one choice is.
#[derive(Clone)]
pub(crate) enum Keeping {
    Asked,
    Made,
    Kept(Arc<KeptSpans>),
    /// Why not.
    Not(String),
}

/// All choices, the one that was asked for last at the end.
#[derive(Default)]
pub(crate) struct KeptList {
    pub how: Option<KeepSpans>,
    list: Mutex<Vec<(SpanChoice, Keeping)>>,
}

impl KeptList {
    /// Kept from now on.
    pub fn new(how: KeepSpans) -> KeptList {
        KeptList { how: Some(how), list: Mutex::default() }
    }

    fn list(&self) -> MutexGuard<'_, Vec<(SpanChoice, Keeping)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody asked for some that nobody makes.
    pub fn wants(&self) -> bool {
        let list = self.list();
        let is_made = list.iter().any(|(_, keeping)| matches!(keeping, Keeping::Made));
        !is_made && list.iter().any(|(_, keeping)| matches!(keeping, Keeping::Asked))
    }

    /// How far a choice is; from now on somebody asks for it.
    pub fn ask(&self, choice: &SpanChoice) -> Keeping {
        let mut list = self.list();
        let old = list.iter().position(|(own, _)| own == choice).map(|at| list.remove(at));
        let (own, keeping) = old.unwrap_or_else(|| (choice.clone(), Keeping::Asked));
        list.push((own, keeping.clone()));
        if list.len() > CHOICES_MAX {
            if let Some(oldest) = list.iter().position(|(_, keeping)| !matches!(keeping, Keeping::Made)) {
                list.remove(oldest);
            }
        }
        keeping
    }

    /// What somebody asked for and is not kept yet, unless another choice is being made.
    pub fn next(&self) -> Option<SpanChoice> {
        let mut list = self.list();
        if list.iter().any(|(_, keeping)| matches!(keeping, Keeping::Made)) {
            return None;
        }
        let (choice, keeping) = list.iter_mut().rev().find(|(_, keeping)| matches!(keeping, Keeping::Asked))?;
        *keeping = Keeping::Made;
        Some(choice.clone())
    }

    /// This came of it; `None`: nothing, and it may be asked for again.
    pub fn put(&self, choice: &SpanChoice, made: Option<Keeping>) {
        let mut list = self.list();
        let Some(at) = list.iter().position(|(own, _)| own == choice) else { return };
        match made {
            Some(made) => list[at].1 = made,
            None => drop(list.remove(at)),
        }
    }
}
