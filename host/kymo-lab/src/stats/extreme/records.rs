// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extremes of records: the largest samples of each series with their numbers, declustered; the maxima of runs as
//! blocks.

use serde::{Serialize, Serializer};

use super::estimate::{BEYOND_MAX, Estimate, Peak, REPLICATES, Refusal, declustered, maxima, peaks};
use crate::{Record, Series};

/// Large samples within so many samples of each other are of one disturbance.
const CLUSTER: u64 = 10;
/// Samples that are asked about, as multiples of those measured.
const TIMES: f64 = 10.0;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// What may still come in a series of some runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beyond {
    /// Runs.
    pub runs: usize,
    /// Samples of all runs.
    pub samples: u64,
    /// Samples of a day at the rate of these runs, where it is known and no more than 100 times those measured.
    pub samples_per_day: Option<f64>,
    /// By peaks over a threshold.
    #[serde(serialize_with = "answer")]
    pub peaks: Result<Estimate, Refusal>,
    /// By maxima, each run being a block.
    #[serde(serialize_with = "answer")]
    pub maxima: Result<Estimate, Refusal>,
}

/// An estimate, or the object `refused` with its reason.
fn answer<S: Serializer>(found: &Result<Estimate, Refusal>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Refused<'a> {
        refused: &'a Refusal,
        text: String,
    }
    match found {
        Ok(estimate) => estimate.serialize(to),
        Err(refused) => Refused { refused, text: refused.to_string() }.serialize(to),
    }
}

/// Of the series for which `has` holds, of all runs together.
pub fn beyond(runs: &[&Record], has: impl Fn(&Series) -> bool) -> Beyond {
    let series: Vec<Vec<&Series>> = runs.iter().map(|run| run.series.iter().filter(|one| has(one)).collect()).collect();
    let samples: u64 = series.iter().flatten().map(|one| one.count).sum();
    let seconds: Option<f64> = runs.iter().map(|run| run.duration_s).sum();
    let day = seconds.filter(|seconds| *seconds > 0.0).map(|seconds| samples as f64 / seconds * DAY_S);
    let samples_per_day = day.filter(|day| *day <= BEYOND_MAX * samples as f64);
    let asked: Vec<f64> = [Some(TIMES * samples as f64), samples_per_day].into_iter().flatten().collect();
    let all: Vec<&Series> = series.iter().flatten().copied().collect();
    Beyond {
        runs: runs.len(),
        samples,
        samples_per_day,
        peaks: of_peaks(&all, samples, &asked),
        maxima: of_maxima(&series, samples, &asked),
    }
}

fn of_peaks(all: &[&Series], samples: u64, asked: &[f64]) -> Result<Estimate, Refusal> {
    // A list that does not have all samples is complete above its smallest.
    let smallest = |one: &&Series| one.worst.iter().map(|worst| worst.value_ns).min().unwrap_or(0);
    let threshold = all.iter().filter(|one| (one.worst.len() as u64) < one.count).map(smallest).max().unwrap_or(0);
    if all.iter().any(|one| one.worst.is_empty() && one.count > 0) {
        return Err(Refusal::NoOrder);
    }
    let mut values = Vec::new();
    for one in all {
        let above = one.worst.iter().filter(|worst| worst.value_ns > threshold);
        let found: Option<Vec<Peak>> =
            above.map(|worst| Some(Peak { value_ns: worst.value_ns as f64, sample: worst.sample? })).collect();
        values.extend(declustered(&found.ok_or(Refusal::NoOrder)?, CLUSTER).into_iter().map(|peak| peak.value_ns));
    }
    unseen(all, values.len())?;
    peaks(&values, threshold as f64, samples as f64, asked, REPLICATES)
}

fn of_maxima(runs: &[Vec<&Series>], samples: u64, asked: &[f64]) -> Result<Estimate, Refusal> {
    let max = |run: &Vec<&Series>| run.iter().filter_map(|one| one.max).max();
    let values: Vec<f64> = runs.iter().filter_map(max).map(|max| max as f64).collect();
    let all: Vec<&Series> = runs.iter().flatten().copied().collect();
    unseen(&all, values.len())?;
    maxima(&values, samples as f64 / values.len().max(1) as f64, asked, REPLICATES)
}

/// A few lost samples among many peaks do not change a law; more may be the tail itself.
fn unseen(all: &[&Series], values: usize) -> Result<(), Refusal> {
    let unseen: u64 = all
        .iter()
        .map(|one| one.lost + if one.max.is_some() { 0 } else { one.overflow.map_or(0, |overflow| overflow.count) })
        .sum();
    if unseen > values as u64 / 10 { Err(Refusal::Unseen { unseen }) } else { Ok(()) }
}
