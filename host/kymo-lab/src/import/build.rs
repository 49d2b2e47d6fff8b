// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a file says of its samples to series that add up, and what is doubtful about them.

use crate::{Caveat, Overflow, Record, Series, Severity, WORST_MAX, Worst};

use super::format::{Fault, SERIES_MAX};

/// One series as a file tells it.
pub(super) struct Draft {
    /// Name, CPU, smallest, largest, ... and the histogram so far.
    pub(super) series: Series,
    /// Samples that were taken, where the file says so.
    pub(super) taken: Option<u64>,
    /// Samples without a bucket, where the file says so.
    pub(super) overflow: Option<u64>,
    /// The first value that has no bucket, nanoseconds.
    pub(super) beyond_ns: u64,
}

impl Draft {
    /// An empty one, its buckets `bucket_ns` wide.
    pub(super) fn new(name: &str, bucket_ns: u64) -> Draft {
        let mut series = Series::new(name);
        series.bucket_ns = (bucket_ns > 1).then_some(bucket_ns);
        Draft { series, taken: None, overflow: None, beyond_ns: 0 }
    }

    /// `times` samples of the bucket that begins at `low_ns`. A bucket without samples still tells how far the
    /// histogram goes.
    pub(super) fn bucket(&mut self, low_ns: u64, times: u64) {
        self.series.histogram.add(low_ns, times);
        let width = self.series.bucket_ns.unwrap_or(1);
        self.beyond_ns = self.beyond_ns.max(low_ns.saturating_add(width));
    }

    /// One sample with its number, exact to the unit of the file.
    pub(super) fn sample(&mut self, value_ns: u64, number: u64) {
        self.bucket(value_ns, 1);
        let series = &mut self.series;
        series.min = Some(series.min.map_or(value_ns, |min| min.min(value_ns)));
        series.max = Some(series.max.map_or(value_ns, |max| max.max(value_ns)));
        let place = series.worst.partition_point(|worst| worst.value_ns >= value_ns);
        if place < WORST_MAX {
            series.worst.insert(place, Worst { value_ns, cycles: None, sample: Some(number), tid: None, budget: None });
            series.worst.truncate(WORST_MAX);
        }
    }

    /// Whether the file said anything of it.
    pub(super) fn is_empty(&self) -> bool {
        self.series.histogram.count() == 0 && self.taken.unwrap_or(0) == 0 && self.overflow.unwrap_or(0) == 0
    }

    /// The series, every sample accounted for.
    fn settle(self, doubts: &mut Doubts) -> Series {
        let Draft { mut series, taken, overflow, beyond_ns } = self;
        let in_buckets = series.histogram.count();
        let known = in_buckets.saturating_add(overflow.unwrap_or(0));
        let rest = taken.unwrap_or(known).saturating_sub(known);
        doubts.surplus = doubts.surplus.saturating_add(known.saturating_sub(taken.unwrap_or(known)));
        let is_beyond = in_buckets > 0 && series.max.is_none_or(|max| max >= beyond_ns);
        if let Some(count) = overflow.filter(|count| *count > 0) {
            series.overflow = Some(Overflow { count, beyond_ns, computed: false });
            series.lost = rest;
        } else if overflow.is_none() && rest > 0 && is_beyond {
            series.overflow = Some(Overflow { count: rest, beyond_ns, computed: true });
            doubts.hidden = doubts.hidden.saturating_add(rest);
        } else {
            series.lost = rest;
        }
        if in_buckets == 0 && series.overflow.is_none() {
            doubts.without_buckets = doubts.without_buckets.saturating_add(series.lost);
        } else {
            doubts.lost = doubts.lost.saturating_add(series.lost);
        }
        series.count = series.accounted();
        series
    }
}

/// What of all series does not add up, in samples.
#[derive(Default)]
struct Doubts {
    hidden: u64,
    lost: u64,
    without_buckets: u64,
    surplus: u64,
}

/// Puts the series that are not empty into the record, and says what is doubtful. `line` is where reading ended.
///
/// # Errors
/// No series has a sample.
pub(super) fn finish(mut record: Record, drafts: Vec<Draft>, line: usize) -> Result<Record, Fault> {
    let mut doubts = Doubts::default();
    let filled = drafts.into_iter().filter(|draft| !draft.is_empty());
    record.series = filled.map(|draft| draft.settle(&mut doubts)).collect();
    if record.series.is_empty() {
        return Err(Fault::new(line, "there is no sample in it; was the test run, and its output kept whole?"));
    }
    let mut say = |samples: u64, id: &str, severity: Severity, text: &str, next: &str| {
        if samples > 0 {
            caveat(&mut record, id, severity, &format!("{samples} samples {text}"), next);
        }
    };
    let (hidden, lost, without) = (doubts.hidden, doubts.lost, doubts.without_buckets);
    say(
        hidden,
        "overflow-hidden",
        Severity::Medium,
        "are in no bucket, and the file does not say so (found from its sums)",
        WIDER,
    );
    say(
        lost,
        "lost-samples",
        Severity::Medium,
        "were taken and are in no bucket, though the histogram reaches that far",
        WHOLE,
    );
    say(without, "no-histogram", Severity::Medium, "have no histogram; only the summary is known", WIDER);
    say(doubts.surplus, "inconsistent", Severity::High, "more are in the buckets than the file says were taken", WHOLE);
    Ok(record)
}

const WIDER: &str =
    "run the tool again with a histogram that reaches beyond the maximum, or kymo wakeup, whose histogram has no end";
const WHOLE: &str = "take the file from the tool once more";

/// Adds a caveat.
pub(super) fn caveat(record: &mut Record, id: &str, severity: Severity, text: &str, next: &str) {
    record.caveats.push(Caveat { id: id.to_owned(), severity, text: text.to_owned(), next: next.to_owned() });
}

/// Says that the file ends too early.
pub(super) fn interrupted(record: &mut Record, line: usize, missing: &str) {
    record.ended = crate::Ended::Signal;
    let text = format!("the file ends after line {line}, without {missing}: the run or the copy was interrupted");
    caveat(
        record,
        "interrupted",
        Severity::High,
        &text,
        "what is there was kept; take the numbers as those of a shorter run",
    );
}

/// Refuses more series than memory is kept for.
pub(super) fn check_series(count: usize, line: usize) -> Result<(), Fault> {
    if count > SERIES_MAX {
        return Err(Fault::new(line, format!("{count} columns; at most {SERIES_MAX} series are read from a file")));
    }
    Ok(())
}
