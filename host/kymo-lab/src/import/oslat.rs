// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of oslat. Bucket `N (us)` counts gaps from N - 1 to N microseconds; the last one also counts everything beyond.

use serde_json::json;

use crate::{Histogram, Record, Severity};

use super::build::{Draft, caveat, check_series, finish, interrupted};
use super::format::Fault;
use super::text::{Lines, first, scaled};

pub(super) const US: u64 = 1_000;
pub(super) const METHOD: &str =
    "a loop reads the TSC without end; a sample is the gap between two readings, rounded up to whole microseconds";

pub(super) fn is_mark(line: &str) -> bool {
    line.starts_with("oslat V ") || line.trim_start().starts_with("Core:") && line.contains('\t')
}

#[derive(Default)]
struct OslatText {
    cores: Vec<Draft>,
    /// Of each core: its last bucket and the samples in it.
    last: Vec<Option<(u64, u64)>>,
    has_end: bool,
}

pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let mut record = Record::new("oslat", "loop");
    record.method = METHOD.to_owned();
    let mut found = OslatText::default();
    let mut lines = 0;
    for (number, line) in Lines::new(bytes) {
        lines = number;
        found.line(&mut record, number, &line)?;
    }
    if !found.has_end {
        interrupted(&mut record, lines, "the line \"Duration:\"");
    }
    let mut folded = 0u64;
    let cores = found.cores.into_iter().zip(found.last).map(|(core, last)| {
        let (core, count) = fold(core, last);
        folded = folded.saturating_add(count);
        core
    });
    let cores = cores.collect();
    say_folded(&mut record, folded, true);
    finish(record, cores, lines)
}

impl OslatText {
    fn line(&mut self, record: &mut Record, number: usize, line: &str) -> Result<(), Fault> {
        if let Some(version) = line.strip_prefix("oslat V ") {
            record.version = version.trim().to_owned();
            return Ok(());
        }
        let Some((label, values)) = line.split_once(':') else { return Ok(()) };
        let words: Vec<&str> = values.split_whitespace().filter(|word| !word.starts_with(['(', 'o'])).collect();
        match label.trim() {
            "Core" => return self.start(number, &words),
            "Thread priority" | "Workload" | "CPU list" => {
                record.options.insert(label.trim().to_lowercase().replace(' ', "_"), json!(values.trim()));
            }
            "Minimum" => self.each(&words, |core, value| core.series.min = scaled(value, US)),
            "Average" => self.each(&words, |core, value| core.series.mean = Some(value * US as f64)),
            "Maximum" => self.each(&words, |core, value| core.series.max = scaled(value, US)),
            "Duration" => {
                record.duration_s = words.first().and_then(|word| word.parse().ok());
                self.has_end = true;
            }
            label if label.ends_with("(us)") => return self.row(number, label, &words),
            _ => (),
        }
        Ok(())
    }

    fn start(&mut self, number: usize, words: &[&str]) -> Result<(), Fault> {
        check_series(words.len(), number)?;
        self.cores = words.iter().map(|_| Draft::new("loop", US)).collect();
        self.last = vec![None; words.len()];
        for (core, word) in self.cores.iter_mut().zip(words) {
            core.series.cpu = Some(word.parse().map_err(|_| Fault::new(number, format!("{word:?} is no CPU")))?);
        }
        Ok(())
    }

    /// Gives each core its number; what is no number, or too many, is left out.
    fn each(&mut self, words: &[&str], mut set: impl FnMut(&mut Draft, f64)) {
        for (core, word) in self.cores.iter_mut().zip(words) {
            if let Some(value) = word.parse().ok().filter(|value: &f64| value.is_finite()) {
                set(core, value);
            }
        }
    }

    /// `    032 (us): 275 (including overflows)`
    fn row(&mut self, number: usize, label: &str, words: &[&str]) -> Result<(), Fault> {
        let upper: u64 = first(label).ok_or_else(|| Fault::new(number, "a bucket without a number"))?;
        if words.len() != self.cores.len() {
            return Err(Fault::new(number, format!("{} counts for {} cores", words.len(), self.cores.len())));
        }
        for ((core, last), word) in self.cores.iter_mut().zip(&mut self.last).zip(words) {
            let count = word.parse().map_err(|_| Fault::new(number, format!("{word:?} is no count")))?;
            core.bucket(upper.saturating_sub(1).saturating_mul(US), count);
            *last = Some((upper, count));
        }
        Ok(())
    }
}

/// Moves the last bucket (`last`: its name and samples) out of the histogram where the maximum lies beyond it: how far
/// its samples lie is not known. Returns the samples.
pub(super) fn fold(mut draft: Draft, last: Option<(u64, u64)>) -> (Draft, u64) {
    let Some((upper, count)) = last else { return (draft, 0) };
    let upper_ns = upper.saturating_mul(US);
    if count == 0 || draft.series.max.is_none_or(|max| max <= upper_ns) {
        return (draft, 0);
    }
    let low_ns = upper_ns.saturating_sub(US);
    let mut kept = Histogram::new();
    for bucket in draft.series.histogram.buckets() {
        let moved = if (bucket.low..=bucket.high).contains(&low_ns) { count } else { 0 };
        kept.add(bucket.low, bucket.count.saturating_sub(moved));
    }
    draft.series.histogram = kept;
    draft.overflow = Some(count);
    draft.beyond_ns = low_ns;
    (draft, count)
}

/// Says what [`fold`] found; `is_marked` where the file says so, too.
pub(super) fn say_folded(record: &mut Record, count: u64, is_marked: bool) {
    if count > 0 {
        let how = if is_marked { "" } else { ", unmarked" };
        let text = format!(
            "the last bucket holds {count} samples that lie in it or beyond it{how}; only the maximum of those is known"
        );
        caveat(
            record,
            "overflow-hidden",
            Severity::Medium,
            &text,
            "run oslat with more buckets (-b), or kymo npt, whose histogram has no end",
        );
    }
}
