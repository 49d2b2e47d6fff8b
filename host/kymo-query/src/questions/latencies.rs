// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies [spec/view.md 4.10, 4.11]: those of `kymo latency`, from the same sink, over time and as they are
//! distributed.

use std::collections::{BTreeMap, HashMap};

use kymo_analyze::{
    By, CallSpan, CpuSpan, Event, Head, InterruptSpan, Key, Latency, OffSpan, Options, Sample, Series, Sink, State,
    Thread, ThreadSpan, Threads, Unmatched, What,
};
use kymo_feed::{LossAt, Seen, Visit, recorders};

use super::begun::{begin, doubt_bits};
use super::only::{Only, kind};
use crate::columns::{Answer, Table};
use crate::doing::{By as Waker, by_waker};
use crate::error::Error;
use crate::names::{NameTable, device_of};
use crate::opened::{Functions, Opened};
use crate::pairs;
use crate::parameters::Parameters;
use crate::people::People;
use crate::pixels::Pixels;
use crate::span::Spans;
use crate::walk::{Gather, Stop, Walk, Walked};

/// Cells of density for each power of two: the shift that leaves so many bits below the highest.
const CELL_BITS: u32 = 3;

/// What is asked for.
pub(super) struct LatencyRequest {
    /// The kinds.
    pub what: Vec<What>,
    /// Texts of spans.
    pub spans: Vec<String>,
    /// What is kept apart.
    pub by: By,
    /// Points at most.
    pub limit: usize,
    /// Length from which every sample is a point, ns.
    pub past: Option<u64>,
    /// Where density is wanted.
    pub bins: Option<Pixels>,
    /// Only samples that end then are points.
    pub ending: Option<i64>,
}

/// One pass.
pub(super) struct LatencyPass<'v> {
    pub latency: Latency,
    pub spans: Spans<'v>,
    bins: Option<Pixels>,
    /// By kind, bin, and cell.
    density: HashMap<(What, u32, u64), u64>,
    points: Points,
    people: People,
    devices: BTreeMap<u64, String>,
    device_class: Option<usize>,
    only: Only<'v>,
    /// What is open ends with no record: whether it counts.
    takes_all: bool,
}

/// The longest samples.
struct Points {
    limit: usize,
    past: Option<u64>,
    ending: Option<i64>,
    list: Vec<(Key, Sample)>,
    /// As many are longer, or as long and earlier, ns.
    least_ns: Option<u64>,
    samples: u64,
    past_count: u64,
}

impl Points {
    fn take(&mut self, key: Key, sample: Sample) {
        if self.ending.is_some_and(|ending| sample.to != ending) {
            return;
        }
        self.samples += 1;
        self.past_count += u64::from(self.past.is_some_and(|past| sample.value_ns >= past));
        if self.least_ns.is_some_and(|least| sample.value_ns <= least) {
            return;
        }
        self.list.push((key, sample));
        if self.list.len() >= 2 * self.limit.max(512) {
            self.cut();
        }
    }

    /// The longest first; of equal ones the earliest, as in a series.
    fn cut(&mut self) {
        self.list.sort_by_key(|(_, sample)| std::cmp::Reverse(sample.value_ns));
        self.list.truncate(self.limit);
        let is_full = self.list.len() >= self.limit;
        self.least_ns = self.list.last().filter(|_| is_full).map(|(_, sample)| sample.value_ns);
    }

    /// Those past the limit that are not listed.
    fn left_out(&self) -> u64 {
        let past = self.past.unwrap_or(u64::MAX);
        let listed = self.list.iter().filter(|(_, sample)| sample.value_ns >= past).count() as u64;
        self.past_count.saturating_sub(listed)
    }
}

/// A cell of the density: its lowest and its highest value.
fn cell(value: u64) -> (u64, u64) {
    let shift = (64 - value.leading_zeros()).saturating_sub(CELL_BITS + 1);
    let low = value >> shift << shift;
    (low, low + ((1 << shift) - 1))
}

impl LatencyPass<'_> {
    /// The longest samples, the longest first.
    pub fn longest(&self) -> &[(Key, Sample)] {
        &self.points.list
    }

    /// Names of block devices, by the kernel's number.
    pub fn devices(&self) -> BTreeMap<u64, String> {
        self.devices.clone()
    }

    fn drain(&mut self) {
        for (key, sample) in self.latency.samples() {
            if !self.only.takes(&key, &sample, &self.devices) {
                continue;
            }
            if let Some(bins) = &self.bins {
                let place = (key.what, bins.of(sample.to), cell(sample.value_ns).0);
                *self.density.entry(place).or_default() += 1;
            }
            self.points.take(key, sample);
        }
    }

    fn learn_device(&mut self, seen: &Seen<'_, '_>) {
        self.devices.extend(device_of(seen.record));
    }
}

impl Visit for LatencyPass<'_> {
    /// What is a record of no span, and names no device, is told as what it does to threads and CPUs.
    fn looks_at(&self, class: usize) -> bool {
        self.spans.classes().get(class) == Some(&true) || self.device_class == Some(class)
    }

    fn record(&mut self, seen: &Seen<'_, '_>, state: &State) {
        self.drain();
        let latency = &mut self.latency;
        latency.take(seen.is_selected);
        self.spans.record(seen, state, &mut |number, key, sample| latency.span(number, key, sample));
        if self.device_class == Some(seen.class) {
            self.learn_device(seen);
        }
    }

    fn loss(&mut self, loss: &LossAt) {
        self.latency.lost_of_programs(loss.to);
    }
}

impl Sink for LatencyPass<'_> {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        self.drain();
        self.latency.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.people.see(span.from, thread);
        self.latency.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.latency.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.latency.interrupt(span, threads);
    }

    fn call(&mut self, span: &CallSpan, thread: &Thread) {
        self.latency.call(span, thread);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.latency.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.latency.lost(cpu, from, to);
    }

    fn unmatched(&mut self, of: Unmatched) {
        self.latency.unmatched(of);
    }
}

impl Gather for LatencyPass<'_> {
    fn open(&mut self, _: &State, _: i64) {
        self.latency.take(self.takes_all);
    }
}

/// Goes through the records of a window.
pub(super) fn pass<'o>(
    of: &'o Opened,
    walk: Walk<'o>,
    asked: &LatencyRequest,
    only: Only<'o>,
    stop: &Stop,
) -> Result<(LatencyPass<'o>, Walked), Error> {
    // Of the worst of a series only their names matter here: points are kept beside it.
    let (what, recorders) = (asked.what.clone(), recorders(&of.traces));
    let mut latency = Latency::new(Options { what, by: asked.by, worst_max: 2, recorders, ..Options::default() });
    latency.keep_samples();
    let (limit, past, ending) = (asked.limit, asked.past, asked.ending);
    let mut pass = LatencyPass {
        latency,
        spans: Spans::new(&asked.spans, &of.traces, &of.classes.vocabulary)?,
        bins: asked.bins,
        density: HashMap::new(),
        points: Points { limit, past, ending, list: Vec::new(), least_ns: None, samples: 0, past_count: 0 },
        people: People::default(),
        devices: BTreeMap::new(),
        device_class: of.classes.list.iter().position(|class| class.name == "lttng_statedump_block_device"),
        only,
        takes_all: walk.is_all(),
    };
    pass.latency.take(pass.takes_all);
    let walked = walk.until_last_record().run(&mut pass, stop)?;
    pass.drain();
    pass.points.cut();
    pass.people.finish(&walked.state);
    pass.latency.finish(&walked.state);
    pass.latency.name_processes(&walked.state);
    Ok((pass, walked))
}

fn kinds(parameters: &mut Parameters) -> Result<Vec<What>, Error> {
    let words = parameters.words("what")?;
    let names = || What::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let kinds: Option<Vec<What>> = words.iter().map(|word| kind(word)).collect();
    let kinds = kinds.ok_or_else(|| Error::parameter("what", format!("some of {}", names())))?;
    Ok(if kinds.is_empty() { What::ALL.iter().map(|(what, _)| *what).collect() } else { kinds })
}

fn grouping(parameters: &mut Parameters) -> Result<By, Error> {
    let mut by = By::default();
    for word in parameters.words("by")? {
        match word.as_str() {
            "process" => by.process = true,
            "thread" => by.thread = true,
            "prio" => by.prio = true,
            "cpu" => by.cpu = true,
            _ => return Err(Error::parameter("by", "some of process, thread, prio, cpu")),
        }
    }
    Ok(by)
}

/// Answers `latencies`.
///
/// # Errors
/// Parameters; a span or a filter that is none.
pub fn latencies(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let LatencyAnswer { mut answer, walked, .. } = find(of, parameters, stop, true)?;
    walked.tell(&mut answer);
    Ok(answer)
}

/// An answer on its way: series and points are in it.
pub(super) struct LatencyAnswer<'o> {
    pub answer: Answer,
    pub pass: LatencyPass<'o>,
    pub spans: Vec<String>,
    pub walked: Walked,
}

/// Finds what is asked for. `with_density`: `latencies`, else `worst`.
pub(super) fn find<'o>(
    of: &'o Opened,
    parameters: &mut Parameters,
    stop: &Stop,
    with_density: bool,
) -> Result<LatencyAnswer<'o>, Error> {
    let window = parameters.window(of)?;
    let bins = if with_density { Some(Pixels::new(window, parameters.bins()?)) } else { None };
    let own = parameters.texts("span");
    let what = kinds(parameters)?;
    let spans = if own.is_empty() && what.contains(&What::Span) { pairs::spans(of) } else { own };
    let asked = LatencyRequest {
        what,
        spans,
        by: grouping(parameters)?,
        limit: parameters.limit(if with_density { 1000 } else { 20 })?,
        past: parameters.number("past", 0..=u64::MAX)?,
        bins,
        ending: None,
    };
    let only = Only::asked(of, parameters, &asked.spans)?;
    let walk = Walk::new(of, window).filtered(parameters)?;
    let (pass, walked) = pass(of, walk, &asked, only, stop)?;
    let mut answer = begin(if with_density { "latencies" } else { "worst" }, of, window);
    answer.set("samples", pass.points.samples);
    answer.set("points_left_out", pass.points.left_out());
    answer.set("spans", asked.spans.clone());
    let lost = walked.losses.sum();
    let missing = if lost.packets > 0 { u64::MAX } else { lost.records };
    let names = NameTable {
        vocabulary: &of.classes.vocabulary,
        devices: pass.devices(),
        spans: &asked.spans,
        keys: pass.spans.keys(),
        functions: &Functions::of(of),
    };
    let series = pass.latency.series();
    let table = series_table(&mut answer, &series, &pass.latency, &names, missing);
    answer.push(table);
    if with_density {
        answer.push(histogram_table(&series));
        let table = density_table(&mut answer, &pass.density);
        answer.push(table);
    }
    let table = point_table(&mut answer, &pass, &series);
    answer.push(table);
    Ok(LatencyAnswer { answer, pass, spans: asked.spans, walked })
}

fn series_table(
    answer: &mut Answer,
    series: &[(&Key, &Series)],
    latency: &Latency,
    names: &NameTable<'_>,
    missing: u64,
) -> Table {
    let (mut kinds, mut of, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for (key, _) in series {
        kinds.push(answer.texts.text(key.what.name()));
        of.push(answer.texts.name(&names.of(key.of)));
        let thread = key.tid.map(|tid| latency.thread_name(tid));
        let name = thread.or(key.process.map(|process| latency.process_name(process))).unwrap_or_default();
        own.push(answer.texts.name(name.as_str()));
    }
    let quantiles: Vec<_> = series.iter().map(|(_, series)| series.quantiles(missing)).collect();
    let mut table = Table::new("series")
        .column("what", kinds)
        .column("of", of)
        .column("process", series.iter().map(|(key, _)| key.process))
        .column("tid", series.iter().map(|(key, _)| key.tid))
        .column("prio", series.iter().map(|(key, _)| key.prio.map(i32::from)))
        .column("cpu", series.iter().map(|(key, _)| key.cpu))
        .column("name", own)
        .column("count", series.iter().map(|(_, series)| series.count()))
        .column("doubtful", series.iter().map(|(_, series)| series.doubtful))
        .column("idle", series.iter().map(|(_, series)| series.idle));
    let known = |value: fn(&Series) -> u64| {
        series.iter().map(move |(_, series)| (series.count() > 0).then(|| value(series))).collect::<Vec<_>>()
    };
    table = table
        .column("min_ns", known(|series| series.min_ns))
        .column("max_ns", known(|series| series.max_ns))
        .column("mean_ns", known(Series::mean_ns));
    for (name, q) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999), ("p9999_ns", 0.9999)] {
        let values = quantiles.iter().map(|all| all.iter().find(|of| of.q == q).map(|of| of.high_ns));
        table = table.column(name, values);
    }
    table
}

fn histogram_table(series: &[(&Key, &Series)]) -> Table {
    let mut buckets = Vec::new();
    for (row, (_, series)) in series.iter().enumerate() {
        buckets.extend(series.histogram.buckets().map(|bucket| (row as u32, bucket)));
    }
    Table::new("histogram")
        .column("series", buckets.iter().map(|(row, _)| *row))
        .column("low_ns", buckets.iter().map(|(_, bucket)| bucket.low))
        .column("high_ns", buckets.iter().map(|(_, bucket)| bucket.high))
        .column("count", buckets.iter().map(|(_, bucket)| bucket.count))
}

fn density_table(answer: &mut Answer, density: &HashMap<(What, u32, u64), u64>) -> Table {
    let mut cells: Vec<_> = density.iter().map(|(place, count)| (*place, *count)).collect();
    cells.sort_unstable();
    let kinds: Vec<_> = cells.iter().map(|((what, ..), _)| answer.texts.text(what.name())).collect();
    Table::new("density")
        .column("what", kinds)
        .column("bin", cells.iter().map(|((_, bin, _), _)| *bin))
        .column("low_ns", cells.iter().map(|((.., low), _)| *low))
        .column("high_ns", cells.iter().map(|((.., low), _)| cell(*low).1))
        .column("count", cells.iter().map(|(_, count)| *count))
}

fn point_table(answer: &mut Answer, pass: &LatencyPass<'_>, series: &[(&Key, &Series)]) -> Table {
    let rows: HashMap<Key, u32> = series.iter().enumerate().map(|(row, (key, _))| (**key, row as u32)).collect();
    let list = &pass.points.list;
    let (mut names, mut wakers) = (Vec::new(), Vec::new());
    let by = |sample: &Sample| sample.waker.and_then(|waker| by_waker(&waker));
    for (_, sample) in list {
        names.push(answer.texts.name(sample.name.as_str()));
        let waker = match by(sample) {
            Some(Waker::Thread(tid)) => pass.people.name(tid, sample.from).to_string(),
            Some(other) => other.other().unwrap_or_default(),
            None => String::new(),
        };
        wakers.push(answer.texts.name(&waker));
    }
    Table::new("points")
        .column("series", list.iter().map(|(key, _)| rows.get(key).copied()))
        .column("value_ns", list.iter().map(|(_, sample)| sample.value_ns))
        .column("from", list.iter().map(|(_, sample)| answer.time(sample.from)))
        .column("to", list.iter().map(|(_, sample)| answer.time(sample.to)))
        .column("tid", list.iter().map(|(_, sample)| sample.tid))
        .column("name", names)
        .column("process", list.iter().map(|(_, sample)| sample.process))
        .column("prio", list.iter().map(|(_, sample)| sample.prio.map(i32::from)))
        .column("cpu", list.iter().map(|(_, sample)| sample.cpu))
        .column("waker", list.iter().map(|(_, sample)| by(sample).and_then(Waker::tid)))
        .column("waker_name", wakers)
        .column("owner", list.iter().map(|(_, sample)| sample.owner))
        .column("doubt", list.iter().map(|(_, sample)| doubt_bits(sample.doubt)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_density_follow_each_other() {
        let mut value = 0u64;
        while value < 1 << 20 {
            let (low, high) = cell(value);
            assert!(low == value && high >= low && cell(high) == (low, high), "{value}: {low} to {high}");
            assert!(high - low <= low / 8);
            value = high + 1;
        }
        assert_eq!((cell(u64::MAX).1, cell(7), cell(16), cell(17)), (u64::MAX, (7, 7), (16, 17), (16, 17)));
    }
}
