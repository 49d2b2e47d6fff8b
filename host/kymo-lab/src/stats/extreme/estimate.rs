// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates by a fitted law, from peaks over a threshold or from maxima of blocks, and why one is refused.

use serde::Serialize;

use super::law::{Law, Maxima, Pareto};
use crate::stats::distribution::LEVEL;
use crate::stats::random::Random;

/// Values that a fit must have.
pub const VALUES_MIN: usize = 30;
/// Levels are given for so many times the samples that were measured, no more.
pub const BEYOND_MAX: f64 = 100.0;
/// Heavier tails have no variance, and levels that say nothing.
const SHAPE_MAX: f64 = 0.5;
/// Share of values that may be equal to another one.
const TIES_MAX: f64 = 0.05;
/// Probability at which the goodness of fit is refused.
const FIT_LEVEL: f64 = 0.05;
/// Probability at which each of the other checks refuses a law that holds.
const CHECK_LEVEL: f64 = 0.01;
/// Seed of the bootstrap.
const SEED: u64 = 0x6578_7472;
/// Samples drawn from the fitted law.
pub const REPLICATES: usize = 400;

/// A level, and how well it is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// How: `peaks` over a threshold, `maxima` of blocks.
    pub method: &'static str,
    /// Values that the law was fitted to.
    pub values: usize,
    /// The threshold, or the law's location, nanoseconds.
    pub location_ns: f64,
    /// Nanoseconds.
    pub scale_ns: f64,
    /// Above 0: no bound. Below 0: nothing is larger than location - scale / shape.
    pub shape: f64,
    /// Of the goodness of fit.
    pub p: f64,
    /// In the order of the samples that were asked for.
    pub levels: Vec<Level>,
}

/// A value that is exceeded once in so many samples, on an average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Samples.
    pub samples: f64,
    /// Nanoseconds.
    pub value_ns: f64,
    /// Ends of the 95 % interval.
    pub low_ns: f64,
    /// The upper one; `None` where the values do not bound it.
    pub high_ns: Option<f64>,
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Refusal {
    /// Too few values.
    #[error("{have} values; it takes {VALUES_MIN}: run it longer, or more often")]
    TooFew {
        /// Values there are.
        have: usize,
    },
    /// Too many values are equal: the source is too coarse.
    #[error("only {distinct} of {of} values differ: the source's clock or histogram is too coarse for an estimate")]
    Quantised {
        /// Different values.
        distinct: usize,
        /// All.
        of: usize,
    },
    /// The tail is too heavy.
    #[error("the tail is too heavy (shape {shape:.2}, above 0.5): a level would have no bound that says anything")]
    Heavy {
        /// Of the fitted law.
        shape: f64,
    },
    /// Some values lie apart from the others.
    #[error("values above {above_ns:.0} ns lie apart from the others: two causes are mixed; measure them one by one")]
    Mixture {
        /// Begin of the gap, nanoseconds.
        above_ns: f64,
    },
    /// The law does not describe the values.
    #[error("no law of extremes fits the values (p = {p:.3}): they are not of one kind, or the load changed")]
    BadFit {
        /// Of Anderson and Darling's test.
        p: f64,
    },
    /// Two ways to fit find different laws.
    #[error("two fits disagree (shapes {likelihood:.2} and {moments:.2})")]
    Disagree {
        /// Shape by maximum likelihood.
        likelihood: f64,
        /// Shape by probability-weighted moments.
        moments: f64,
    },
    /// The shape is another one for a higher threshold.
    #[error("the shape is not stable: {all:.2} over all values, {upper:.2} over the upper half")]
    Unstable {
        /// Over all values.
        all: f64,
        /// Over the upper half.
        upper: f64,
    },
    /// No parameters make the values likely.
    #[error("no law of extremes could be fitted")]
    NoFit,
    /// Values that follow each other cannot be recognised.
    #[error("the records do not say when their largest samples were, so those of one disturbance count as many")]
    NoOrder,
    /// Samples are missing.
    #[error("{unseen} samples are lost or beyond the tool's histogram: the largest may be among them")]
    Unseen {
        /// How many.
        unseen: u64,
    },
}

/// A large sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Nanoseconds.
    pub value_ns: f64,
    /// Its number among the samples of its series.
    pub sample: u64,
}

/// The largest of each cluster: of samples that follow each other within `gap` samples. In the order of time.
pub fn declustered(peaks: &[Peak], gap: u64) -> Vec<Peak> {
    let mut peaks = peaks.to_vec();
    peaks.sort_by_key(|peak| peak.sample);
    let mut clusters: Vec<Peak> = Vec::new();
    let mut last = 0;
    for peak in peaks {
        match clusters.last_mut() {
            Some(top) if peak.sample - last <= gap => {
                if peak.value_ns > top.value_ns {
                    *top = peak;
                }
            }
            _ => clusters.push(peak),
        }
        last = peak.sample;
    }
    clusters
}

/// Levels by peaks over a threshold. `values`: all that exceed `threshold` among `samples`, one of each cluster.
///
/// The lowest threshold is taken at which the law fits: that of the caller, or one above a quarter or a half of the
/// values.
pub fn peaks(
    values: &[f64],
    threshold: f64,
    samples: f64,
    asked: &[f64],
    replicates: usize,
) -> Result<Estimate, Refusal> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| *value > threshold).collect();
    sorted.sort_by(f64::total_cmp);
    let mut first = None;
    for skipped in [0, sorted.len() / 4, sorted.len() / 2] {
        let threshold = if skipped == 0 { threshold } else { sorted[skipped - 1] };
        let excesses: Vec<f64> =
            sorted[skipped..].iter().map(|value| value - threshold).filter(|excess| *excess > 0.0).collect();
        let rate = excesses.len() as f64 / samples;
        // So many excesses are expected where the level is to be exceeded once.
        let levels: Vec<f64> = asked.iter().map(|asked| asked * rate).collect();
        match estimate::<Pareto>(&excesses, threshold, &levels, replicates) {
            Ok((law, p, levels)) => {
                let estimate = Estimate {
                    method: "peaks",
                    values: excesses.len(),
                    location_ns: threshold,
                    scale_ns: law.scale,
                    shape: law.shape,
                    p,
                    levels: levels
                        .into_iter()
                        .zip(asked)
                        .map(|(level, asked)| Level { samples: *asked, ..level })
                        .collect(),
                };
                return Ok(estimate);
            }
            // The reason of the lowest threshold says most.
            Err(refusal) => first = first.or(Some(refusal)),
        }
        if !matches!(first, Some(Refusal::BadFit { .. } | Refusal::Unstable { .. })) {
            break;
        }
    }
    Err(first.unwrap_or(Refusal::NoFit))
}

/// Levels by maxima of blocks of `block` samples each.
pub fn maxima(maxima: &[f64], block: f64, asked: &[f64], replicates: usize) -> Result<Estimate, Refusal> {
    let mut sorted = maxima.to_vec();
    sorted.sort_by(f64::total_cmp);
    let levels: Vec<f64> = asked.iter().map(|asked| (asked / block).max(2.0)).collect();
    let (law, p, levels) = estimate::<Maxima>(&sorted, 0.0, &levels, replicates)?;
    Ok(Estimate {
        method: "maxima",
        values: maxima.len(),
        location_ns: law.location,
        scale_ns: law.scale,
        shape: law.shape,
        p,
        levels: levels.into_iter().zip(asked).map(|(level, asked)| Level { samples: *asked, ..level }).collect(),
    })
}

/// A law for a sample (ascending), if all its conditions hold; and the values that are exceeded once in `levels` of its
/// values, each above `offset`.
pub(super) fn estimate<L: Law>(
    sorted: &[f64],
    offset: f64,
    levels: &[f64],
    replicates: usize,
) -> Result<(L, f64, Vec<Level>), Refusal> {
    if sorted.len() < VALUES_MIN {
        return Err(Refusal::TooFew { have: sorted.len() });
    }
    let distinct = sorted.chunk_by(|one, other| one == other).count();
    if ((sorted.len() - distinct) as f64) > TIES_MAX * sorted.len() as f64 {
        return Err(Refusal::Quantised { distinct, of: sorted.len() });
    }
    let found = FittedLaw::<L>::at(sorted, levels, None).ok_or(Refusal::NoFit)?;
    let mut random = Random::new(SEED);
    let drawn: Vec<FittedLaw<L>> = (0..replicates)
        .filter_map(|_| FittedLaw::<L>::at(&found.law.sample(sorted.len(), &mut random), levels, Some(&found.levels)))
        .collect();
    if drawn.len() * 2 < replicates {
        return Err(Refusal::NoFit);
    }
    // The share of samples of the law in which a number is as large.
    let rare = |of: fn(&FittedLaw<L>) -> f64| {
        let as_large = drawn.iter().filter(|look| of(look) >= of(&found)).count();
        (as_large + 1) as f64 / (drawn.len() + 1) as f64
    };
    if rare(|look| look.spacing) < CHECK_LEVEL {
        return Err(Refusal::Mixture { above_ns: offset + found.gap_from });
    }
    if found.law.shape() > SHAPE_MAX {
        return Err(Refusal::Heavy { shape: found.law.shape() });
    }
    let p = rare(|look| look.misfit);
    if p < FIT_LEVEL {
        return Err(Refusal::BadFit { p });
    }
    if rare(|look| (look.law.shape() - look.moments).abs()) < CHECK_LEVEL {
        return Err(Refusal::Disagree { likelihood: found.law.shape(), moments: found.moments });
    }
    if rare(|look| (look.law.shape() - look.upper).abs()) < CHECK_LEVEL {
        return Err(Refusal::Unstable { all: found.law.shape(), upper: found.upper });
    }
    let levels = (0..levels.len()).map(|at| level(sorted, &found, &drawn, (levels[at], at), offset)).collect();
    Ok((found.law, p, levels))
}

/// The interval holds the levels whose best law is not much less likely than the best of all: no more so than the true
/// law is in 95 of 100 samples drawn from it. (Percentiles of the drawn samples' own levels held the truth in 83 of 100
/// only.)
fn level<L: Law>(
    sorted: &[f64],
    found: &FittedLaw<L>,
    drawn: &[FittedLaw<L>],
    (values, at): (f64, usize),
    offset: f64,
) -> Level {
    let mut all: Vec<f64> = drawn.iter().map(|look| look.deviances[at]).collect();
    all.sort_by(f64::total_cmp);
    let critical = all[((all.len() - 1) as f64 * LEVEL).round() as usize];
    let (best, value) = (found.law.likelihood(sorted), found.levels[at]);
    let is_within = |level: f64| 2.0 * (best - found.law.constrained(sorted, values, level)) <= critical;
    // Between a value that is within and one that is not.
    let border = |mut within: f64, mut beyond: f64| {
        for _ in 0..24 {
            let middle = (within + beyond) / 2.0;
            if is_within(middle) { within = middle } else { beyond = middle }
        }
        within
    };
    let reach = (value - sorted[0]).max(value.abs() * 1e-3);
    let mut far = (0..12).map(|doubled| value + reach * f64::from(1 << doubled) * 0.25);
    let high = far.find(|level| !is_within(*level)).map(|beyond| offset + border(value, beyond));
    Level {
        samples: 0.0,
        value_ns: offset + value,
        low_ns: offset + border(value, sorted[0].min(value)),
        high_ns: high,
    }
}

/// Everything that is looked at in one sample.
struct FittedLaw<L> {
    law: L,
    /// Shape by moments.
    moments: f64,
    /// Shape of the upper half; of maxima, of which half a sample says nothing, the shape of all.
    upper: f64,
    /// Anderson and Darling's A².
    misfit: f64,
    /// The largest gap between neighbours, as a multiple of what the law expects there; and where it begins.
    spacing: f64,
    gap_from: f64,
    levels: Vec<f64>,
    /// How much less likely (twice the logarithm) the sample is with the true levels than with the best ones.
    deviances: Vec<f64>,
}

impl<L: Law> FittedLaw<L> {
    fn at(sorted: &[f64], levels: &[f64], truth: Option<&[f64]>) -> Option<FittedLaw<L>> {
        let law = L::by_likelihood(sorted)?;
        let moments = L::by_moments(sorted)?.shape();
        let half = sorted.len() / 2;
        let above: Vec<f64> = sorted[half..].iter().map(|value| value - sorted[half - 1]).collect();
        let upper = Pareto::by_likelihood(&above)?.shape();
        let (spacing, gap_from) = largest_gap(law, sorted);
        let best = law.likelihood(sorted);
        let deviance = |(values, truth): (&f64, &f64)| 2.0 * (best - law.constrained(sorted, *values, *truth));
        let deviances = truth.map_or_else(Vec::new, |truth| levels.iter().zip(truth).map(deviance).collect());
        let levels = levels.iter().map(|values| law.quantile(1.0 - 1.0 / values.max(1.0 + 1e-9))).collect();
        Some(FittedLaw {
            law,
            moments,
            upper,
            misfit: anderson_darling(law, sorted),
            spacing,
            gap_from,
            levels,
            deviances,
        })
    }
}

/// Anderson and Darling's A² of a sample and a law.
fn anderson_darling<L: Law>(law: L, sorted: &[f64]) -> f64 {
    const EDGE: f64 = 1e-12;
    let n = sorted.len();
    let of: Vec<f64> = sorted.iter().map(|value| law.cdf(*value).clamp(EDGE, 1.0 - EDGE)).collect();
    let term = |i: usize| (2 * i + 1) as f64 * (of[i].ln() + (-of[n - 1 - i]).ln_1p());
    -(n as f64) - (0..n).map(term).sum::<f64>() / n as f64
}

/// On the law's own scale neighbours are exponential distances apart, the larger the fewer are above.
fn largest_gap<L: Law>(law: L, sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    let place = |value: f64| -(-law.cdf(value).min(1.0 - 1e-12)).ln_1p();
    let gap = |i: usize| ((n - i) as f64 * (place(sorted[i]) - place(sorted[i - 1])), sorted[i - 1]);
    (1..n).map(gap).max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, 0.0))
}
