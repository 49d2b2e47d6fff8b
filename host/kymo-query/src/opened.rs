// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as questions need them: opened by somebody else, with what is known of them before the first question.

use std::cell::OnceCell;
use std::sync::Arc;

use kymo_analyze::explain::NoSymbols;
use kymo_ctf::read::{Trace, Watch};
use kymo_feed::Classes;
use kymo_index::{GrowingIndex, Indexes, range};

use crate::columns::Answer;
use crate::kept::{KeepSpans, KeptList};
use crate::names::FunctionNames;
use crate::symbolize::Symbolize;

/// Makes what names functions for one question: it may learn from records while that is answered.
pub type MakeSymbols = Box<dyn Fn(&[Trace]) -> Box<dyn Symbolize> + Send + Sync>;

/// Traces that were opened.
pub struct Opened {
    /// The traces, of one kernel at most.
    pub traces: Vec<Trace>,
    /// Their indexes, as far as they hold.
    pub indexes: Indexes,
    /// All their classes.
    pub classes: Classes,
    /// What people call them.
    pub name: String,
    /// What was wrong with them when they were opened.
    pub caveats: Vec<String>,
    /// Times of the first record and of the last, ns; none where there is no record.
    pub bounds: Option<(i64, i64)>,
    /// Who names functions; none: they stay addresses.
    symbols: Option<MakeSymbols>,
    /// Spans that somebody chose.
    pub(crate) kept: KeptList,
    /// Results of the laboratory, as the question `results` answers them.
    pub results: Option<Answer>,
    /// Only chosen processes were recorded: who ran on a CPU before its first record is not known.
    pub is_restricted: bool,
}

/// Readers of questions tell nobody how far they are.
struct Silent;

impl Watch for Silent {
    fn begin(&self, _: Option<u64>) {}

    fn passed(&self, _: u64) {}

    fn end(&self) {}
}

impl Opened {
    /// Of these traces. Reads all records for the times of the first and the last where an index is missing.
    pub fn new(mut traces: Vec<Trace>, indexes: Indexes, name: String, caveats: Vec<String>) -> Opened {
        let bounds = range::bounds(&traces, &indexes);
        traces.iter_mut().for_each(|trace| trace.watch(Arc::new(Silent)));
        let classes = Classes::new(&traces);
        let (symbols, kept, results, is_restricted) = (None, KeptList::default(), None, false);
        Opened { traces, indexes, classes, name, caveats, bounds, symbols, kept, results, is_restricted }
    }

    /// The same with names of functions.
    #[must_use]
    pub fn with_symbols(self, make: MakeSymbols) -> Opened {
        Opened { symbols: Some(make), ..self }
    }

    /// The same, with a place for spans that somebody chooses.
    #[must_use]
    pub fn keeping(self, how: KeepSpans) -> Opened {
        Opened { kept: KeptList::new(how), ..self }
    }

    /// The same without: for who asks each question once.
    #[must_use]
    pub fn not_keeping(self) -> Opened {
        Opened { kept: KeptList::default(), ..self }
    }

    /// Whether answers asked for spans that [`crate::keep_spans`] would keep.
    pub fn wants_spans(&self) -> bool {
        self.kept.wants()
    }

    /// What names functions for one question.
    pub(crate) fn symbols(&self) -> Box<dyn Symbolize> {
        self.symbols.as_ref().map_or_else(|| Box::new(NoSymbols) as Box<dyn Symbolize>, |make| make(&self.traces))
    }

    /// Of a trace that is being written, as far as it was written when it was opened, and not newer than `until`, ns.
    /// Reads what is new for `index`, which is kept for the next time.
    pub fn growing(
        mut traces: Vec<Trace>,
        index: &mut GrowingIndex,
        until: i64,
        name: String,
        caveats: Vec<String>,
    ) -> Opened {
        traces.iter_mut().for_each(|trace| trace.watch(Arc::new(Silent)));
        let classes = Classes::new(&traces);
        index.advance(&traces, &classes, until);
        let indexes = Indexes::of_growing(Arc::new(index.clone()));
        let (symbols, kept, results, is_restricted) = (None, KeptList::default(), None, false);
        Opened { traces, indexes, classes, name, caveats, bounds: index.span(), symbols, kept, results, is_restricted }
    }

    /// Whether more may be written: records behind the bounds are not asked for yet.
    pub fn is_growing(&self) -> bool {
        self.indexes.growing().is_some_and(|index| !index.is_over())
    }

    /// What times of answers are after: the first record, ns.
    pub fn base(&self) -> i64 {
        self.bounds.map_or(0, |(first, _)| first)
    }

    /// [first record, behind the last record), ns.
    pub fn whole(&self) -> (i64, i64) {
        self.bounds.map_or((0, 0), |(first, last)| (first, last.saturating_add(1)))
    }

    /// Whether it is known who ran.
    pub fn has_switches(&self) -> bool {
        self.classes.vocabulary.facts().switches
    }
}

/// Functions of the kernel, which are looked up only if an answer has one.
pub(crate) struct Functions<'o> {
    of: &'o Opened,
    symbols: OnceCell<Box<dyn Symbolize>>,
}

impl<'o> Functions<'o> {
    /// Of these traces.
    pub fn of(of: &'o Opened) -> Functions<'o> {
        Functions { of, symbols: OnceCell::new() }
    }
}

impl FunctionNames for Functions<'_> {
    fn name(&self, address: u64) -> String {
        let symbols = self.symbols.get_or_init(|| self.of.symbols());
        symbols.kernel(address).unwrap_or_else(|| format!("{address:#x}"))
    }
}
