// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo stats`: counts, rates, and statistics of fields, by any sequence of event, process, thread, CPU and fields.

mod args;
mod by;
mod json;
mod report;
mod text;
mod values;

use std::process::ExitCode;

use anyhow::Context as _;
use kymo_analyze::{Class, Level, Sink, State, Stats};
use kymo_ctf::read::Reader;

use kymo_feed::Choose as _;
use kymo_index::{Indexes, range};
use kymo_query::{EventCounts, event_counts};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input, Payload, ReadRange, Seen, Totals, Visit, absolute, each};
use super::analyze::when::When;
pub use args::StatsArgs;
use report::StatsReport;
use values::FieldValues;

/// Counts on the way.
struct StatsPass {
    stats: Stats,
    /// By class.
    is_wanted: Vec<bool>,
    needs_writer: bool,
    /// More is asked for than an index knows.
    needs_records: bool,
    values: FieldValues,
}

impl Sink for StatsPass {}

impl Visit for StatsPass {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        if seen.is_selected && self.is_wanted[seen.class] {
            let mut writer = if self.needs_writer { seen.writer(state) } else { Default::default() };
            self.values.of(seen, &mut writer);
            let extent = (seen.head.time, seen.record.bits);
            self.stats.add(seen.class, extent, &writer, &Payload(seen.record.payload));
        }
    }
}

impl StatsPass {
    /// Counts the records of a stretch, or all.
    fn of_records(
        &mut self,
        indexes: &Indexes,
        classes: &Classes,
        input: &Input,
        stretch: Option<ReadRange>,
        chosen: &mut Chosen,
    ) -> (Totals, ExitCode) {
        let (from, to) = (stretch.map(|stretch| stretch.from), stretch.map(|stretch| stretch.to));
        let (mut reader, mut walker) = range::begin(&input.traces, classes, indexes, from, to);
        walker.go(&mut reader, chosen, self);
        chosen.conclude();
        (walker.totals, super::analyze::damage(input, &reader))
    }

    /// Takes the counts of an index that has all that is asked for.
    fn of_index(
        &mut self,
        indexes: &Indexes,
        classes: &Classes,
        input: &Input,
        stretch: Option<ReadRange>,
    ) -> Option<Totals> {
        if self.needs_writer || self.needs_records || stretch.is_some() {
            return None;
        }
        let span = indexes.bounds(&input.traces)?;
        let is_wanted = |class: usize| self.is_wanted[class];
        let EventCounts { records, lost } = event_counts(&input.traces, indexes, classes, is_wanted, &mut self.stats)?;
        Some(Totals { records, selected: records, lost, span: Some(span), ..Totals::default() })
    }
}

/// Runs the verb.
pub fn run(args: StatsArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let hosts = Input::by_kernel(&args.traces, &args.hosts)?;
    args.events.check(hosts.iter().flat_map(|host| &host.input.traces))?;
    let times = absolute(&hosts, [args.range.from, args.range.to])?;
    let (text, code) =
        each(&hosts, ("kymo-stats-hosts-1", args.output.json()), &mut |host| of_host(&host.input, times, &args))?;
    args.output.print(&text)?;
    Ok(code)
}

/// What is counted of the traces of one kernel.
fn of_host(input: &Input, [from, to]: [Option<When>; 2], args: &StatsArgs) -> anyhow::Result<(String, ExitCode)> {
    let classes = Classes::new(&input.traces);
    let mut chosen = Chosen::new(&input.traces, &args.scope.expressions())?;
    let levels: Vec<Level> = args.by.iter().map(|by| by.level()).collect();
    let matches = |class: &Class| args.events.wants(&class.name);
    let values = FieldValues::new(&args.by, &classes.list, &input.traces)?;
    let needs_fields = args.values || args.sizes || args.sum.is_some() || levels.contains(&Level::Other);
    let mut pass = StatsPass {
        stats: stats_of(args, &levels, &classes.list)?,
        is_wanted: classes.list.iter().map(matches).collect(),
        needs_writer: values.need_writer() || levels.iter().any(|level| !matches!(level, Level::Event | Level::Other)),
        needs_records: needs_fields || !chosen.is_all(),
        values,
    };
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, from, to)?;
    let (totals, code) = match pass.of_index(&indexes, &classes, input, stretch) {
        Some(totals) => (totals, super::analyze::damage(input, &Reader::new(&[]))),
        None => pass.of_records(&indexes, &classes, input, stretch, &mut chosen),
    };
    pass.values.reasons().iter().for_each(|why| eprintln!("kymo: {why}"));
    let made = StatsReport { stats: &pass.stats, args, classes: &classes.list, values: &pass.values };
    let text = match args.output.json() {
        true => json::document(&made, &totals, &input.told) + "\n",
        false => text::report(&made, &totals),
    };
    Ok((text, code))
}

/// Nothing counted yet.
fn stats_of(args: &StatsArgs, levels: &[Level], classes: &[Class]) -> anyhow::Result<Stats> {
    let stats = Stats::new(levels, args.values, classes);
    match &args.sum {
        None => Ok(stats),
        Some(field) => stats.with_sum(field, classes).with_context(|| {
            format!(
                "--sum: no event of the trace has a field {field:?} that is a number; kymo stats --values lists them"
            )
        }),
    }
}
