// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comparisons say of runs whose truth is known: drawn from mixtures as latency has them.

use super::*;
use crate::stats::Random;
use crate::{Ended, Overflow, Series};

/// Where the samples of a run come from.
#[derive(Clone, Copy)]
struct Source {
    samples: u32,
    /// Nanoseconds, of the log-normal body.
    median: f64,
    sigma: f64,
    /// Share of samples that are a spike, and how many times the median it is, on an average.
    spikes: (f64, f64),
    /// Correlation of a sample with the one before it.
    memory: f64,
    /// Spread of the runs' levels, as a logarithm, and how much of it a run takes over from the one before.
    level: (f64, f64),
    /// Width of the source's buckets, nanoseconds.
    bucket_ns: u64,
}

const QUIET: Source = Source {
    samples: 12_000,
    median: 5_000.0,
    sigma: 0.25,
    spikes: (2e-4, 12.0),
    memory: 0.0,
    level: (0.02, 0.0),
    bucket_ns: 1,
};

/// A run that began as the `number`th, at a level (a factor of its values).
fn run(source: Source, number: u64, level: f64, random: &mut Random) -> Record {
    let mut series = Series::new("wakeup");
    let (mut sum, mut squares, mut state) = (0.0, 0.0, random.normal());
    for _ in 0..source.samples {
        state = source.memory * state + (1.0 - source.memory.powi(2)).sqrt() * random.normal();
        let body = source.median * (level + source.sigma * state).exp();
        let spike = random.uniform() < source.spikes.0;
        let value = if spike { body + source.median * source.spikes.1 * random.exponential() } else { body };
        let value = value as u64 / source.bucket_ns * source.bucket_ns;
        series.histogram.record(value);
        series.min = Some(series.min.map_or(value, |min| min.min(value)));
        series.max = Some(series.max.map_or(value, |max| max.max(value)));
        (sum, squares) = (sum + value as f64, squares + (value as f64).powi(2));
    }
    let n = f64::from(source.samples);
    (series.count, series.mean) = (source.samples.into(), Some(sum / n));
    series.std = Some(((squares - sum * sum / n).max(0.0) / (n - 1.0)).sqrt());
    let mut record = Record::new("kymo", "wakeup");
    (record.started_ns, record.ended) = (Some(1 << 60 | number), Ended::Count);
    record.series.push(series);
    record
}

/// Runs of two sources in the order A B B A ...
fn runs(a: Source, b: Source, side: u64, random: &mut Random) -> [Vec<Record>; 2] {
    let mut groups = [Vec::new(), Vec::new()];
    let mut level = random.normal();
    for number in 0..2 * side {
        let which = usize::from(number % 4 == 1 || number % 4 == 2);
        let source = [a, b][which];
        level = source.level.1 * level + (1.0 - source.level.1.powi(2)).sqrt() * random.normal();
        groups[which].push(run(source, number, source.level.0 * level, random));
    }
    groups
}

fn outcome(a: Source, b: Source, side: u64, random: &mut Random) -> Comparison {
    let [a, b] = runs(a, b, side, random);
    compare(&a, &b, CompareOptions { deadline_ns: Some(60_000), ..CompareOptions::default() })
}

fn metric(of: &Comparison, metric: Metric) -> &MetricCompared {
    of.series[0].metrics.iter().find(|one| one.metric == metric).expect("it was compared")
}

#[test]
fn the_same_compared_with_itself_is_no_difference_in_95_of_100() {
    let cases = [
        ("quiet", QUIET),
        ("dependence within a run", Source { memory: 0.95, ..QUIET }),
        ("levels of runs differ", Source { level: (0.3, 0.0), ..QUIET }),
        ("the level drifts from run to run", Source { level: (0.3, 0.9), memory: 0.5, ..QUIET }),
        ("heavy spikes", Source { spikes: (1e-3, 100.0), ..QUIET }),
        ("quantised to 1 us", Source { bucket_ns: 1000, ..QUIET }),
    ];
    // 100 comparisons of each case; 6 of 100 differences are within chance for a true rate of 5 %, the mean over all
    // is not.
    let mut all = 0;
    for (seed, (name, source)) in cases.into_iter().enumerate() {
        let mut random = Random::new(seed as u64 + 100);
        let wrong = (0..100)
            .filter(|_| {
                outcome(source, source, if seed % 2 == 0 { 8 } else { 5 }, &mut random).outcome != Outcome::NoDifference
            })
            .count();
        println!("{name}: {wrong} of 100");
        assert!(wrong <= 9, "{name}: {wrong} of 100 comparisons found a difference");
        all += wrong;
    }
    assert!(all <= 5 * cases.len(), "{all} of {} comparisons found a difference", 100 * cases.len());
}

#[test]
fn a_shift_of_20_percent_is_found_with_8_runs_a_side() {
    let mut random = Random::new(7);
    let slower = Source { median: QUIET.median * 1.2, ..QUIET };
    let found = (0..20).filter(|_| {
        let compared = outcome(QUIET, slower, 8, &mut random);
        let median = metric(&compared, Metric::Quantile(500_000));
        compared.outcome == Outcome::Worse
            && median.outcome == Outcome::Worse
            && (0.15..0.25).contains(&median.relative.unwrap())
    });
    assert!(found.count() >= 19);
    // And with five, and the other way round.
    assert_eq!(outcome(slower, QUIET, 5, &mut random).outcome, Outcome::Better);
}

#[test]
fn a_rare_spike_is_found_with_8_runs_a_side() {
    let mut random = Random::new(8);
    let smooth = Source { samples: 100_000, spikes: (0.0, 0.0), ..QUIET };
    let spiky = Source { spikes: (1e-4, 10.0), ..smooth };
    let found = (0..10).filter(|_| {
        let compared = outcome(smooth, spiky, 8, &mut random);
        assert_ne!(metric(&compared, Metric::Quantile(500_000)).outcome, Outcome::Better);
        metric(&compared, Metric::Max).outcome == Outcome::Worse
    });
    assert!(found.count() >= 9);
}

#[test]
fn what_would_have_been_seen_is_seen_in_4_of_5() {
    let mut random = Random::new(9);
    let source = Source { level: (0.05, 0.0), samples: 2_000, ..QUIET };
    let sizes: Vec<f64> = (0..20)
        .map(|_| {
            let same = outcome(source, source, 8, &mut random);
            let median = metric(&same, Metric::Quantile(500_000));
            median.would_have_seen.unwrap() / median.a.unwrap().median
        })
        .collect();
    let size = sizes.iter().sum::<f64>() / 20.0;
    let moved = Source { median: source.median * (1.0 + size), ..source };
    let seen = (0..60)
        .filter(|_| {
            metric(&outcome(source, moved, 8, &mut random), Metric::Quantile(500_000)).outcome == Outcome::Worse
        })
        .count();
    assert!((38..=58).contains(&seen), "{seen} of 60 with a shift of {size}");
}

#[test]
fn a_deadline_is_looked_at_first() {
    let mut random = Random::new(10);
    let late = Source { spikes: (2e-3, 50.0), ..QUIET };
    let compared = outcome(Source { spikes: (0.0, 0.0), ..QUIET }, late, 5, &mut random);
    let misses = &compared.series[0].metrics[0];
    assert_eq!((misses.metric, misses.outcome), (Metric::Misses, Outcome::Worse));
    assert_eq!(misses.a.unwrap().high, 0.0);
    assert!((800.0..2000.0).contains(&misses.b.unwrap().median), "{misses:?}");
}

#[test]
fn too_few_runs_are_not_enough() {
    let mut random = Random::new(11);
    for side in [1, 4] {
        let compared = outcome(QUIET, Source { median: 50_000.0, ..QUIET }, side, &mut random);
        assert_eq!(compared.outcome, Outcome::NotEnoughData);
        let median = metric(&compared, Metric::Quantile(500_000));
        assert!(median.why.as_ref().unwrap().contains("it takes 5"), "{median:?}");
        assert!(median.shift.unwrap().value > 40_000.0, "what there is is shown: {median:?}");
    }
    let [a, _] = runs(QUIET, QUIET, 6, &mut random);
    assert_eq!(compare(&a, &[], CompareOptions::default()).outcome, Outcome::NotEnoughData);
}

#[test]
fn a_drift_is_not_taken_for_a_difference_where_groups_follow_each_other() {
    let mut random = Random::new(12);
    let drifting: Vec<Record> = (0..16).map(|number| run(QUIET, number, 0.1 * number as f64, &mut random)).collect();
    let (a, b) = drifting.split_at(8);
    let compared = compare(a, b, CompareOptions::default());
    assert_eq!(metric(&compared, Metric::Quantile(500_000)).outcome, Outcome::NotEnoughData);
    let ids: Vec<&str> = compared.caveats.iter().map(|merged| merged.caveat.id.as_str()).collect();
    assert!(ids.contains(&"drift") && ids.contains(&"not-interleaved"), "{ids:?}");
}

#[test]
fn p90_and_p95_are_compared() {
    let mut random = Random::new(16);
    let compared = outcome(QUIET, Source { median: QUIET.median * 2.0, ..QUIET }, 6, &mut random);
    let names: Vec<String> = compared.series[0].metrics.iter().map(|metric| metric.metric.name()).collect();
    let at = names.iter().position(|name| name == "p99").expect("p99");
    assert_eq!(names[at..at + 4], ["p99", "p95", "p90", "median"], "{names:?}");
    for of in [Metric::Quantile(950_000), Metric::Quantile(900_000)] {
        let found = metric(&compared, of);
        assert!(found.outcome == Outcome::Worse && found.b.unwrap().pooled.is_some(), "{found:?}");
    }
}

#[test]
fn overflow_and_loss_take_quantiles_away_and_say_so() {
    let mut random = Random::new(13);
    let [mut a, b] = runs(QUIET, QUIET, 5, &mut random);
    for run in &mut a {
        run.series[0].overflow = Some(Overflow { count: 100, beyond_ns: 400_000, computed: true });
        run.series[0].count += 100;
    }
    let compared = compare(&a, &b, CompareOptions::default());
    let p999 = metric(&compared, Metric::Quantile(999_000));
    assert_eq!(p999.outcome, Outcome::NotEnoughData);
    assert!(p999.why.as_ref().unwrap().contains("beyond the tool's histogram"), "{p999:?}");
    assert_eq!(metric(&compared, Metric::Tail).outcome, Outcome::Better, "what is beyond is in the tail of A");
    assert_eq!(compared.series[0].unseen, [500, 0]);
}

#[test]
fn what_differs_beside_the_numbers_is_said() {
    let mut random = Random::new(14);
    let [mut a, mut b] = runs(QUIET, QUIET, 5, &mut random);
    for (side, governor) in [(&mut a, "powersave"), (&mut b, "performance")] {
        for (at, run) in side.iter_mut().enumerate() {
            run.environment.insert("cpu".to_owned(), serde_json::json!({ "governor": governor, "count": 2 }));
            run.environment.insert(
                "load".to_owned(),
                serde_json::json!(at as f64 + if governor == "powersave" { 0.5 } else { 0.0 }),
            );
            run.environment.insert("average".to_owned(), serde_json::json!(format!("{governor} {at}")));
            run.options.insert("priority".to_owned(), serde_json::json!(if governor == "powersave" { 80 } else { 90 }));
        }
    }
    b[0].caveats.push(caveat("tracing-on", Severity::High, "tracing".to_owned(), "stop it"));
    let compared = compare(&a, &b, CompareOptions::default());
    assert_eq!(compared.environment.len(), 1, "{:?}", compared.environment);
    assert_eq!(compared.environment[0].key, "cpu.governor");
    let of = |id: &str| compared.caveats.iter().find(|merged| merged.caveat.id == id);
    assert_eq!(of("tracing-on").map(|merged| (merged.a, merged.b)), Some((0, 1)));
    assert!(of("options-differ").unwrap().caveat.text.contains("80 in A, 90 in B"));
    // The same run twice does not count twice.
    let mut twice = a.clone();
    twice.push(a[0].clone());
    assert_eq!(compare(&twice, &b, CompareOptions::default()).runs, [5, 5]);
}

#[test]
fn series_are_matched_by_name_and_cpu() {
    let mut random = Random::new(15);
    let [mut a, mut b] = runs(QUIET, QUIET, 5, &mut random);
    for run in a.iter_mut().chain(&mut b) {
        run.series[0].cpu = Some(0);
        let mut other = run.series[0].clone();
        other.cpu = Some(1);
        run.series.push(other);
    }
    b[2].series.pop();
    let pooled = compare(&a, &b, CompareOptions::default());
    assert_eq!((pooled.series.len(), pooled.series[0].cpu), (1, None));
    let apart = compare(&a, &b, CompareOptions { per_cpu: true, ..CompareOptions::default() });
    assert_eq!((apart.series.len(), apart.unmatched.len()), (1, 1));
    assert_eq!((apart.unmatched[0].cpu, apart.unmatched[0].runs), (Some(1), [5, 4]));
}
