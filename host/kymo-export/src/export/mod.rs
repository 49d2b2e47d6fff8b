//! Records in other tools' formats [spec/exchange.md 2]. Each format is an [`Exporter`]: it is given records and
//! losses in the
//! order of time, and tells at the end what it could not hold.

mod chrome;
mod csv;
mod output;
mod pairs;
mod parquet;
mod perfetto;
mod speedscope;
pub mod stacks;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use kymo_ctf::read::{EventClass, Item, Loss, Record, Trace};
use kymo_ctf::write::EnvValue;

use crate::Error;
pub(crate) use output::NewDirectory;
pub use stacks::Symbols;

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Perfetto's protobuf.
    Perfetto,
    /// Chrome's JSON, the object form.
    Chrome,
    /// RFC 4180.
    Csv,
    /// One table for each event, partitioned by host and day.
    Parquet,
    /// speedscope's JSON.
    Speedscope,
    /// A line for each stack, as flame graph tools read them.
    Collapsed,
}

/// One format, being written.
pub trait Exporter {
    /// Takes a record. Its thread is the one that is to be shown.
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error>;

    /// Takes a loss.
    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error>;

    /// Writes what is left, and makes the output appear under its name.
    fn finish(self: Box<Self>) -> Result<Done, Error>;

    /// Takes what the reader gives.
    fn item(&mut self, item: &Item<'_>) -> Result<(), Error> {
        match item {
            Item::Record(record) => self.record(record),
            Item::Loss(loss) => self.loss(loss),
        }
    }
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Files.
    pub files: u64,
    /// What the format does not hold, with how often that was met.
    pub left_out: BTreeMap<String, u64>,
    /// What is in the output otherwise than in the trace, with how often that was met.
    pub changed: BTreeMap<String, u64>,
}

impl Done {
    pub(crate) fn leave_out(&mut self, what: &str, count: u64) {
        count_in(&mut self.left_out, what, count);
    }

    pub(crate) fn change(&mut self, what: &str, count: u64) {
        count_in(&mut self.changed, what, count);
    }
}

fn count_in(counts: &mut BTreeMap<String, u64>, what: &str, count: u64) {
    if count > 0 {
        *counts.entry(what.to_owned()).or_default() += count;
    }
}

/// Begins with an export of records of `traces` to `path`; `-` is standard output where the format is one text.
///
/// # Errors
/// The output is there already, or cannot be made.
pub fn begin<'t>(
    format: Format,
    traces: &'t [Trace],
    path: &Path,
    symbols: Symbols,
) -> Result<Box<dyn Exporter + 't>, Error> {
    Ok(match format {
        Format::Csv => csv::begin(traces, path)?,
        Format::Parquet => Box::new(parquet::Tables::new(traces, path)?),
        Format::Chrome => Box::new(chrome::Chrome::new(traces, path)?),
        Format::Perfetto => Box::new(perfetto::Perfetto::new(traces, path)?),
        Format::Speedscope => Box::new(speedscope::Speedscope::new(traces, path, symbols)?),
        Format::Collapsed => Box::new(stacks::Collapsed::new(traces, path, symbols)?),
    })
}

/// A text of the environment.
fn env_text<'t>(trace: &'t Trace, key: &str) -> Option<&'t str> {
    trace.metadata.env.iter().find(|(known, _)| known == key).and_then(|(_, value)| match value {
        EnvValue::Text(text) => Some(text.as_str()),
        EnvValue::Int(_) => None,
    })
}

/// Whether all times are since 1970.
fn is_absolute(traces: &[Trace]) -> bool {
    traces.iter().flat_map(|trace| &trace.metadata.clocks).all(|clock| clock.absolute)
}

/// Whether records of a class were written by a kernel: its stream has a tid, or no process.
fn is_kernel(record: &Record<'_>) -> bool {
    let has = |name| record.packet_context.get(name).is_some() || record.common_context.get(name).is_some();
    !has("vpid") && !has("vtid")
}

/// Whether an event is one of a state dump.
fn is_state(event: &EventClass) -> bool {
    event.name.starts_with("lttng_statedump_") || event.name.starts_with("kymo_statedump_")
}

/// Fields of a payload, and behind them the contexts that are not shown elsewhere, as `$NAME`.
fn all_fields<'a>(
    record: &Record<'a>,
    names: &'a ContextNames,
) -> impl Iterator<Item = (&'a str, kymo_ctf::read::Value<'a>)> {
    let contexts = record.common_context.iter().filter_map(|(name, value)| names.get(name).map(|name| (name, value)));
    record.payload.iter().chain(contexts)
}

/// Event classes, each by the first of all traces that is the same: chunks of one session have theirs in common.
struct Classes(Vec<Vec<(usize, usize)>>);

impl Classes {
    fn new(traces: &[Trace]) -> Classes {
        let mut classes: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut by_name: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (trace, opened) in traces.iter().enumerate() {
            let metadata = &opened.metadata;
            let mut own = Vec::new();
            for (event, class) in metadata.events.iter().enumerate() {
                let known = by_name.entry(&class.name).or_default();
                let is_same = |&&(other, position): &&(usize, usize)| {
                    let other = &traces[other].metadata;
                    other.fields(&other.events[position]) == metadata.fields(class)
                        && other.contexts(position) == metadata.contexts(event)
                };
                let first = known.iter().find(is_same).copied().unwrap_or((trace, event));
                if first == (trace, event) {
                    known.push(first);
                }
                own.push(first);
            }
            classes.push(own);
        }
        Classes(classes)
    }

    fn of(&self, record: &Record<'_>) -> (usize, usize) {
        self.0[record.trace][record.event_position]
    }
}

/// Contexts of traces with `$` in front, made once.
struct ContextNames(HashMap<String, String>);

impl ContextNames {
    fn new(traces: &[Trace]) -> ContextNames {
        let infos = traces
            .iter()
            .flat_map(|trace| (0..trace.metadata.events.len()).flat_map(|event| trace.metadata.contexts(event)));
        let named = infos.filter(|info| !info.is_length && !crate::columns::is_known_context(info.name));
        ContextNames(named.map(|info| (info.name.to_owned(), format!("${}", info.name))).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
