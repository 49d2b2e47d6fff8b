// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the latencies of parts of what ended in them, on a thread of its own [spec/index.md 5.3].

use kymo_analyze::{Begun, Of, Request, Sample, SampleGroup};
use kymo_histogram::{NUMBERS, bucket_of, low_of};

use crate::latencies::part::{CELLS, DensityCell, LatencyPart, LatencySeries, Listed, PastSample, cell_of};
use crate::latencies::who::{Who, WhoTable};
use crate::pictures::part::SHIFT_MAX;

/// Parts of a level that are one of the next, of what the kernel tells.
pub(crate) const LATENCY_FAN_OUT: usize = 8;
/// Columns of a part at least, where it is as long: at most twice as many, and one more.
const COLUMNS_MIN: u64 = 32;
/// The same of the lowest level: most cells are there.
const LOWEST_COLUMNS_MIN: u64 = 16;
/// Of parts of the lowest level: there are most of them, and of a short window all kinds are asked for together.
const LOWEST_LISTED: Listed = Listed { of_series: 12, of_all: 256 };
/// Of longer parts.
const LONGER_LISTED: Listed = Listed { of_series: 64, of_all: 1024 };
/// Columns that cells lie apart at most in one part; more are none that a trace has whose times follow each other.
const COLUMNS_MAX: u64 = 1 << 20;
/// Columns of a series that are counted in a table.
const TABLE_COLUMNS: u64 = 96;

/// A sample, as far as sums need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub value_ns: u64,
    pub to: i64,
    /// By number.
    pub series: u32,
    pub is_doubtful: bool,
    pub is_idle: bool,
}

/// The longest of a series in a part.
#[derive(Debug)]
pub(crate) struct LongestOf {
    pub series: u32,
    pub list: Vec<Sample>,
    pub is_cut: bool,
}

/// What ended in a part of the lowest level.
#[derive(Debug, Default)]
pub(crate) struct EndedSamples {
    /// Time of its first item, ns; `None` before there is one.
    pub from: Option<i64>,
    /// Newest time, ns.
    pub to: i64,
    /// Series that are new, by the numbers that follow those before.
    pub new: Vec<(SampleGroup, Of)>,
    pub tokens: Vec<Token>,
    pub longest: Vec<LongestOf>,
    pub lost_to: Option<i64>,
    pub past: Vec<PastSample>,
    pub begun: Vec<(Request, Begun)>,
    pub ended: Vec<Request>,
    pub devices: Vec<(u64, String)>,
    /// There is too much.
    pub is_over: bool,
}

/// Latencies of a part of a level, in the order of time.
pub(crate) struct MadeLatencies {
    pub level: usize,
    /// Bytes of sums, cells and the longest, and the length of columns; `None`: there was too much.
    pub bytes: Option<([Vec<u8>; 3], u32)>,
    /// Threads of samples whose numbers follow those before.
    pub who: Vec<Who>,
}

/// Makes parts.
pub(crate) struct LatencyMaker {
    keys: Vec<(SampleGroup, Of)>,
    /// By number of the series.
    tokens: Vec<Vec<Token>>,
    /// By number of the bucket.
    buckets: Vec<u32>,
    /// By column and cell.
    cells: Vec<u32>,
    who: WhoTable,
    /// Parts of a level that are one of the next.
    fan_out: usize,
    /// By level: parts that are not one of the next yet.
    levels: Vec<Vec<Option<LatencyPart>>>,
}

/// The length of columns of a part.
fn shift_of(from: i64, to: i64, columns_min: u64) -> u32 {
    (to.abs_diff(from) / columns_min).max(1).ilog2().min(SHIFT_MAX)
}

impl LatencyMaker {
    pub fn new(fan_out: usize) -> LatencyMaker {
        let (buckets, cells) = (vec![0; NUMBERS.into()], vec![0; (TABLE_COLUMNS * CELLS) as usize]);
        let (keys, tokens, who, levels) = (Vec::new(), Vec::new(), WhoTable::default(), Vec::new());
        LatencyMaker { keys, tokens, buckets, cells, who, fan_out, levels }
    }

    /// Takes what ended in the next part of the lowest level. `done` takes what is made of it, and says whether it
    /// takes more.
    pub fn take(&mut self, ended: EndedSamples, mut done: impl FnMut(MadeLatencies) -> bool) {
        let mut part = self.part(ended);
        for level in 0.. {
            let listed = if level == 0 { LOWEST_LISTED } else { LONGER_LISTED };
            let bytes = part.as_ref().map(|part| (part.encode(listed, &mut self.who), part.shift));
            if !done(MadeLatencies { level, bytes, who: self.who.new_ones() }) {
                return;
            }
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let parts = &mut self.levels[level];
            parts.push(part);
            if parts.len() < self.fan_out {
                return;
            }
            let parts: Option<Vec<LatencyPart>> = std::mem::take(parts).into_iter().collect();
            part = parts.and_then(|parts| merged(&parts));
        }
    }

    fn part(&mut self, ended: EndedSamples) -> Option<LatencyPart> {
        self.keys.extend(&ended.new);
        self.tokens.resize(self.keys.len(), Vec::new());
        self.tokens.iter_mut().for_each(Vec::clear);
        let from = ended.from.filter(|_| !ended.is_over)?;
        for token in &ended.tokens {
            self.tokens[token.series as usize].push(*token);
        }
        let EndedSamples { to, lost_to, past, begun, ended: over, devices, longest, .. } = ended;
        let shift = shift_of(from, to, LOWEST_COLUMNS_MIN);
        let mut part = LatencyPart { from, to, shift, lost_to, series: Vec::new(), past, begun, ended: over, devices };
        let mut by_series: Vec<Option<LongestOf>> = self.keys.iter().map(|_| None).collect();
        for of in longest {
            let number = of.series as usize;
            by_series[number] = Some(of);
        }
        for (number, longest) in by_series.into_iter().enumerate() {
            let tokens = std::mem::take(&mut self.tokens[number]);
            if !tokens.is_empty() {
                let (group, of) = self.keys[number];
                let mut series = self.series(LatencySeries::new(group, of), &tokens, shift)?;
                if let Some(longest) = longest {
                    (series.longest, series.is_cut) = (longest.list, longest.is_cut);
                }
                part.series.push(series);
            }
            self.tokens[number] = tokens;
        }
        part.finish();
        part.fits().then_some(part)
    }

    /// Counts samples of one series. `None`: they lie too far apart.
    fn series(&mut self, mut of: LatencySeries, tokens: &[Token], shift: u32) -> Option<LatencySeries> {
        of.sums.idle = tokens.iter().filter(|token| token.is_idle).count() as u64;
        let counted = || tokens.iter().filter(|token| !token.is_idle);
        let Some(first) = counted().map(|token| token.to >> shift).min() else { return Some(of) };
        let last = counted().map(|token| token.to >> shift).max().unwrap_or(first);
        let columns = last.abs_diff(first) + 1;
        if columns > COLUMNS_MAX {
            return None;
        }
        for token in counted() {
            let value = token.value_ns;
            of.sums.sum_ns += u128::from(value);
            of.sums.min_ns = of.sums.min_ns.min(value);
            of.sums.max_ns = of.sums.max_ns.max(value);
            of.sums.doubtful += u64::from(token.is_doubtful);
            self.buckets[usize::from(bucket_of(value))] += 1;
        }
        let range = bucket_of(of.sums.min_ns)..=bucket_of(of.sums.max_ns);
        for bucket in range {
            let count = std::mem::take(&mut self.buckets[usize::from(bucket)]);
            if count > 0 {
                debug_assert!(low_of(bucket) <= of.sums.max_ns);
                of.sums.buckets.push((bucket, count.into()));
            }
        }
        if columns > TABLE_COLUMNS {
            let cell =
                |token: &Token| DensityCell { column: token.to >> shift, cell: cell_of(token.value_ns), count: 1 };
            of.cells = counted().map(cell).collect();
            return Some(of);
        }
        for token in counted() {
            let column = (token.to >> shift).abs_diff(first);
            self.cells[(column * CELLS) as usize + usize::from(cell_of(token.value_ns))] += 1;
        }
        let range = cell_of(of.sums.min_ns)..=cell_of(of.sums.max_ns);
        for column in 0..columns {
            for cell in range.clone() {
                let count = std::mem::take(&mut self.cells[(column * CELLS) as usize + usize::from(cell)]);
                if count > 0 {
                    of.cells.push(DensityCell { column: first + column as i64, cell, count: count.into() });
                }
            }
        }
        Some(of)
    }
}

fn merged(parts: &[LatencyPart]) -> Option<LatencyPart> {
    let (from, to) = (parts.first()?.from, parts.iter().map(|part| part.to).max()?);
    let longest = parts.iter().map(|part| part.shift).max()?;
    LatencyPart::of(parts, shift_of(from, to, COLUMNS_MIN).max(longest))
}
