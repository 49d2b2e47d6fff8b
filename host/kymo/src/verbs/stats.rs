//! `kymo stats`: counts, rates, and statistics of fields, by any sequence of event, process, thread and CPU.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use kymo_analyze::{Class, Distribution, Level, Number, Row, Sink, State, Stats};
use kymo_ctf::read::Reader;
use serde_json::{Value, json};

use kymo_index::{Indexes, range};

use super::analyze::feed::{Classes, Input, Payload, Seen, Stretch, Totals, Visit, walk};
use super::analyze::show::table;
use super::analyze::when::{self, When};

/// Count the records of a trace, and look at their fields
///
/// Rows by any sequence of event, process, thread and cpu; records of a kernel belong to the thread that ran on their CPU.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo stats t                               records and rates by event\n  \
    kymo stats t --by process,event --top 20   what each process wrote, the busiest first\n  \
    kymo stats t --event 'motor:*' --fields    min, mean, max, deviation and quantiles of each field\n\n\
    Exit status: 0 fine, 1 the trace was damaged (what could be read was counted), 2 it cannot be opened.")]
pub struct Args {
    /// Trace directories; several are merged by time
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Rows by: event, process, thread, cpu
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "event")]
    by: Vec<By>,
    /// Only events whose name matches, such as `motor:*` (may be given several times)
    #[arg(long, value_name = "GLOB")]
    event: Vec<String>,
    /// Also statistics of each field that is a number
    #[arg(long)]
    fields: bool,
    /// Only records from this time on: +1.5s from the begin of the trace, -1s from its end, or ns since 1970
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    from: Option<When>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    to: Option<When>,
    /// Only the N rows with most records, the most first [default: all, by name]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// One level of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// The event
    Event,
    /// The process
    Process,
    /// The thread
    Thread,
    /// The CPU
    Cpu,
}

impl By {
    fn level(self) -> Level {
        match self {
            By::Event => Level::Event,
            By::Process => Level::Process,
            By::Thread => Level::Thread,
            By::Cpu => Level::Cpu,
        }
    }
}

/// Counts on the way.
struct Pass {
    stats: Stats,
    /// By class.
    is_wanted: Vec<bool>,
    needs_writer: bool,
    has_fields: bool,
}

impl Sink for Pass {}

impl Visit for Pass {
    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        if self.is_wanted[seen.class] {
            let writer = if self.needs_writer { seen.writer(state) } else { Default::default() };
            self.stats.add(seen.class, seen.head.time, &writer, &Payload(seen.record.payload));
        }
    }
}

impl Pass {
    /// Counts the records of a stretch, or all.
    fn of_records(
        &mut self,
        indexes: &Indexes,
        classes: &Classes,
        input: &Input,
        stretch: Option<Stretch>,
    ) -> (Totals, ExitCode) {
        let Some(Stretch { from, to, .. }) = stretch else {
            let mut reader = Reader::new(&input.traces);
            let (_, totals) = walk(&mut reader, classes, self);
            return (totals, super::analyze::damage(input, &reader));
        };
        let (mut reader, mut walker) = range::begin(&input.traces, classes, indexes, Some(from), Some(to));
        walker.go(&mut reader, &mut (), self);
        (walker.totals, super::analyze::damage(input, &reader))
    }

    /// Takes the counts of an index that has all that is asked for.
    fn of_index(
        &mut self,
        indexes: &Indexes,
        classes: &Classes,
        input: &Input,
        stretch: Option<Stretch>,
    ) -> Option<Totals> {
        if self.needs_writer || self.has_fields || stretch.is_some() {
            return None;
        }
        let (whole, span) = (indexes.whole()?, indexes.bounds(&input.traces)?);
        let mut totals = Totals { span: Some(span), ..Totals::default() };
        for (trace, index) in whole.into_iter().enumerate() {
            let clock = input.traces[trace].metadata.clocks.first()?;
            for stream in &index.streams {
                totals.records = totals.records.saturating_add(stream.records());
                totals.lost = (totals.lost.0.saturating_add(stream.lost[0]), totals.lost.1 + stream.lost[2]);
                for of in &stream.events {
                    let class = classes.at(trace, of.event)?;
                    let ns = |cycles| i64::try_from(clock.nanoseconds(cycles)).ok();
                    if self.is_wanted[class] {
                        self.stats.add_counted(class, of.records, (ns(of.first)?, ns(of.last)?));
                    }
                }
            }
        }
        Some(totals)
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let input = Input::open(&args.dirs)?;
    let classes = Classes::new(&input.traces);
    let levels: Vec<Level> = args.by.iter().map(|by| by.level()).collect();
    let matches = |class: &Class| {
        args.event.is_empty() || args.event.iter().any(|glob| kymo_filter::glob_matches(glob, &class.name))
    };
    let mut pass = Pass {
        stats: Stats::new(&levels, args.fields, &classes.list),
        is_wanted: classes.list.iter().map(matches).collect(),
        has_fields: args.fields,
        needs_writer: levels.iter().any(|level| *level != Level::Event),
    };
    for glob in &args.event {
        if !classes.list.iter().any(|class| kymo_filter::glob_matches(glob, &class.name)) {
            eprintln!("kymo: no event of the trace matches {glob:?}");
        }
    }
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, args.from, args.to)?;
    let (totals, code) = match pass.of_index(&indexes, &classes, &input, stretch) {
        Some(totals) => (totals, super::analyze::damage(&input, &Reader::new(&[]))),
        None => pass.of_records(&indexes, &classes, &input, stretch),
    };
    let text = match args.json {
        true => document(&pass.stats, &args, &classes.list, &totals) + "\n",
        false => report(&pass.stats, &args, &classes.list, &totals),
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(code)
}

/// The rows that are shown, each with its place for [`Stats::fields`].
fn chosen<'s>(stats: &'s Stats, args: &Args, classes: &[Class]) -> Vec<(usize, &'s Row)> {
    let mut rows = stats.rows();
    match args.top {
        Some(top) => {
            rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.count));
            rows.truncate(top);
        }
        None => rows.sort_by_cached_key(|(_, row)| parts(row, args, classes)),
    }
    rows
}

/// The parts of a row's key; numbers so that they sort as numbers.
fn parts(row: &Row, args: &Args, classes: &[Class]) -> Vec<(i64, String)> {
    let part = |(by, part): (&By, &Option<i64>)| match (by, part) {
        (By::Event, Some(class)) => (0, classes[*class as usize].name.clone()),
        (_, Some(number)) => (*number, number.to_string()),
        (_, None) => (-1, "-".to_owned()),
    };
    args.by.iter().zip(&row.key).map(part).collect()
}

fn label(row: &Row, args: &Args, classes: &[Class]) -> Vec<String> {
    let shown = |(by, (_, part)): (&By, (i64, String))| match by {
        By::Process | By::Thread if !row.name.is_empty() && part != "-" => format!("{}[{part}]", row.name),
        By::Cpu => format!("cpu {part}"),
        _ => part,
    };
    args.by.iter().zip(parts(row, args, classes)).map(shown).collect()
}

fn report(stats: &Stats, args: &Args, classes: &[Class], totals: &Totals) -> String {
    let seconds = totals.seconds();
    let rate = |count: u64| if seconds > 0.0 { format!("{:.1}", count as f64 / seconds) } else { "-".to_owned() };
    let title = args.by.iter().map(|by| format!("{by:?}").to_lowercase()).collect::<Vec<_>>().join(" / ");
    let head = [title, "records".to_owned(), "per s".to_owned()].to_vec();
    let mut lines = vec![head];
    let rows = chosen(stats, args, classes);
    for (_, row) in &rows {
        lines.push(vec![label(row, args, classes).join(" / "), row.count.to_string(), rate(row.count)]);
    }
    let mut text = table(&lines);
    if args.fields {
        text += &fields(stats, args, classes, &rows);
    }
    text += &format!("\n{} records in {seconds:.3} s", totals.records);
    if totals.lost.1 > 0 {
        text += &format!("; {} lost in {} places", totals.lost.0, totals.lost.1);
    }
    if stats.rows_left_out() + stats.fields_left_out() > 0 {
        let (rows, fields) = (stats.rows_left_out(), stats.fields_left_out());
        text += &format!("; rows were too many: {rows} records and {fields} values are in none");
    }
    text + "\n"
}

fn fields(stats: &Stats, args: &Args, classes: &[Class], rows: &[(usize, &Row)]) -> String {
    let head = ["field", "values", "min", "mean", "p50", "p99", "max", "deviation"];
    let mut text = String::new();
    for (index, row) in rows {
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (class, field, values) in stats.fields(*index) {
            let class = &classes[class];
            let field = &class.fields[field].name;
            let name = if args.by.contains(&By::Event) { field.clone() } else { format!("{}.{field}", class.name) };
            lines.push(line(name, values));
        }
        if lines.len() > 1 {
            text += &format!("\n{}\n{}", label(row, args, classes).join(" / "), table(&lines));
        }
    }
    text
}

fn line(name: String, values: &Distribution) -> Vec<String> {
    let exact = |number: Option<Number>| match number {
        Some(Number::Integer(value)) => value.to_string(),
        Some(Number::Float(value)) => short(value),
        None => "-".to_owned(),
    };
    let float = |value: Option<f64>| value.map_or("-".to_owned(), short);
    vec![
        name,
        values.count().to_string(),
        exact(values.min()),
        float(values.mean()),
        float(values.quantile(0.5)),
        float(values.quantile(0.99)),
        exact(values.max()),
        float(values.deviation()),
    ]
}

/// Five digits, without what says nothing.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        1e5..1e15 => format!("{value:.0}"),
        1e-3..1e5 if value.fract() == 0.0 => format!("{value:.0}"),
        1e-3..1e5 => format!("{value:.3}"),
        _ => format!("{value:.4e}"),
    }
}

fn document(stats: &Stats, args: &Args, classes: &[Class], totals: &Totals) -> String {
    let rows: Vec<Value> =
        chosen(stats, args, classes).into_iter().map(|row| json_row(stats, args, classes, row)).collect();
    let document = json!({
        "schema": "kymo-stats-1",
        "records": totals.records,
        "lost": { "records": totals.lost.0, "places": totals.lost.1 },
        "from": totals.span.map(|span| span.0),
        "to": totals.span.map(|span| span.1),
        "rows_left_out": stats.rows_left_out(),
        "values_left_out": stats.fields_left_out(),
        "rows": rows,
    });
    document.to_string()
}

fn json_row(stats: &Stats, args: &Args, classes: &[Class], (index, row): (usize, &Row)) -> Value {
    let mut object = serde_json::Map::new();
    for (by, part) in args.by.iter().zip(&row.key) {
        let value = match (by, part) {
            (By::Event, Some(class)) => classes[*class as usize].name.clone().into(),
            (_, part) => (*part).into(),
        };
        object.insert(format!("{by:?}").to_lowercase(), value);
    }
    object.insert("name".to_owned(), row.name.as_str().into());
    object.insert("records".to_owned(), row.count.into());
    object.insert("first".to_owned(), row.first.into());
    object.insert("last".to_owned(), row.last.into());
    if args.fields {
        let fields = stats.fields(index).map(|(class, field, values)| json_field(&classes[class], field, values));
        object.insert("fields".to_owned(), fields.collect());
    }
    object.into()
}

fn json_field(class: &Class, field: usize, values: &Distribution) -> Value {
    let exact = |number: Option<Number>| match number {
        // JSON's integers end at 64 bits.
        Some(Number::Integer(value)) => i64::try_from(value)
            .map(Value::from)
            .or_else(|_| u64::try_from(value).map(Value::from))
            .unwrap_or(Value::Null),
        Some(Number::Float(value)) => value.into(),
        None => Value::Null,
    };
    json!({
        "event": class.name,
        "field": class.fields[field].name,
        "values": values.count(),
        "not_numbers": values.not_numbers(),
        "min": exact(values.min()),
        "max": exact(values.max()),
        "mean": values.mean(),
        "deviation": values.deviation(),
        "p50": values.quantile(0.5),
        "p90": values.quantile(0.9),
        "p99": values.quantile(0.99),
        "p99.9": values.quantile(0.999),
    })
}
