// SPDX-License-Identifier: MIT OR Apache-2.0
//! The questions [spec/view.md 4], each in its file, and what they share.

mod arrows;
mod begun;
mod cpus;
mod critical;
mod deeper;
mod explain;
mod flame;
mod framed;
mod latencies;
mod overview;
mod places;
mod records;
mod results;
mod schema;
mod slices;
mod states;
mod statistics;
mod summary;
mod threads;
mod told;
mod values;
mod worst;

pub use slices::keep::keep_spans;

use crate::columns::Answer;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::walk::Stop;

/// How a question is answered.
type Ask = fn(&Opened, &mut Parameters, &Stop) -> Result<Answer, Error>;

/// A question.
#[derive(Clone, Copy)]
pub struct Question {
    /// Its name in addresses.
    pub name: &'static str,
    /// What it tells.
    pub about: &'static str,
    /// The names of its parameters.
    pub parameters: &'static [&'static str],
    ask: Ask,
}

macro_rules! questions {
    ($($name:literal $about:literal [$($parameter:literal)*] $ask:expr;)*) => {
        /// All questions.
        pub const QUESTIONS: &[Question] = &[
            $(Question { name: $name, about: $about, parameters: &[$($parameter),*], ask: $ask }),*
        ];
    };
}

// A section of spec/view.md 4 each.
questions! {
    "summary" "what is in the trace, and what was lost" ["limit"] summary::summary;
    "places" "the three most telling places" ["from" "to" "span" "spans"] places::places;
    "overview" "records and losses over time" ["from" "to" "bins" "filter"] overview::overview;
    "cpus" "what each CPU did" ["from" "to" "pixels" "grid" "cpus"] cpus::cpus;
    "threads" "the threads of a window" ["from" "to" "by" "limit" "offset" "match"] threads::threads;
    "states" "what threads did, and why they waited"
        ["tids" "from" "to" "pixels" "grid" "calls" "late"] states::states;
    "slices" "spans between two events" ["span" "rows" "from" "to" "pixels" "grid" "tids" "filter" "lead" "most"] slices::slices;
    "arrows" "wake-ups" ["from" "to" "tids" "limit"] arrows::arrows;
    "values" "a numeric field over time" ["field" "from" "to" "bins" "grid" "filter"] values::values;
    "latencies" "latencies: quantiles, histogram, density, points"
        ["what" "span" "by" "from" "to" "filter" "bins" "grid" "limit" "past"
         "kind" "of" "process" "tid" "prio" "cpu" "low" "high"] latencies::latencies;
    "worst" "the worst latencies, and their causes"
        ["what" "span" "by" "from" "to" "filter" "limit" "causes" "lead" "past"
         "kind" "of" "process" "tid" "prio" "cpu" "low" "high"] worst::worst;
    "records" "a page of records" ["at" "row" "from" "to" "limit" "filter"] records::records;
    "search" "the next or previous record of a filter" ["filter" "at" "direction"] records::search;
    "count" "how many rows records has" ["from" "to" "filter"] records::count;
    "explain" "why a latency, a thread or a CPU took so long"
        ["what" "span" "tid" "cpu" "from" "to" "at" "limit" "lead"] explain::explain;
    "critical" "what a thread waited for, across threads and CPUs" ["tid" "from" "to" "limit" "lead"] critical::critical;
    "flame" "spans within the same ones, summed up" ["span" "from" "to" "tids" "filter" "lead"] flame::flame;
    "statistics" "counts, rates and times by event, process, thread or CPU"
        ["by" "from" "to" "filter" "sort" "limit"] statistics::statistics;
    "results" "results of the laboratory" [] results::results;
    "schema" "names of events and fields" [] schema::schema;
}

/// Answers a question.
///
/// # Errors
/// There is no such question, a parameter is wrong, the trace cannot answer it, or nobody wants the answer any more.
pub fn answer(of: &Opened, name: &str, mut parameters: Parameters, stop: &Stop) -> Result<Answer, Error> {
    let question = QUESTIONS.iter().find(|question| question.name == name);
    let question = question.ok_or_else(|| Error::Question(name.to_owned()))?;
    parameters.check_names(question.parameters)?;
    stop.check()?;
    (question.ask)(of, &mut parameters, stop)
}
