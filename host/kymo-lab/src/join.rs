// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several runs of one test, one after the other, as one: the slots of a run that was interrupted on purpose.

use crate::{Caveat, Ended, Record, Series, WORST_MAX};

/// The runs as one record: series of the same name and CPU become one, in the order of the runs. `None` of no run.
///
/// Options, environment and floor are the first run's; a caveat that several runs have is there once, as the gravest
/// says it.
pub fn join(runs: &[Record]) -> Option<Record> {
    let (first, rest) = runs.split_first()?;
    let mut whole = first.clone();
    for run in rest {
        for series in &run.series {
            match whole.series.iter_mut().find(|known| known.name == series.name && known.cpu == series.cpu) {
                Some(known) => add(known, series),
                None => whole.series.push(series.clone()),
            }
        }
        for (name, count) in &run.counts {
            let known = whole.counts.entry(name.clone()).or_default();
            *known = known.saturating_add(*count);
        }
        whole.duration_s = whole.duration_s.zip(run.duration_s).map(|(known, more)| known + more);
        if run.ended == Ended::Signal {
            whole.ended = Ended::Signal;
        }
        run.caveats.iter().for_each(|caveat| take_caveat(&mut whole.caveats, caveat));
    }
    Some(whole)
}

fn take_caveat(known: &mut Vec<Caveat>, caveat: &Caveat) {
    match known.iter_mut().find(|one| one.id == caveat.id) {
        Some(one) if one.severity < caveat.severity => one.clone_from(caveat),
        Some(_) => {}
        None => known.push(caveat.clone()),
    }
}

/// Adds the samples of `more`, which were taken behind those of `known`.
fn add(known: &mut Series, more: &Series) {
    let counts = (known.histogram.count() as f64, more.histogram.count() as f64);
    let moments = known.mean.zip(known.std).zip(more.mean.zip(more.std));
    (known.mean, known.std) = match moments {
        Some(((mean, std), (more_mean, more_std))) if counts.0 > 0.0 && counts.1 > 0.0 => {
            let all = counts.0 + counts.1;
            let apart = more_mean - mean;
            let squares = counts.0 * std * std + counts.1 * more_std * more_std;
            let variance = (squares + apart * apart * counts.0 * counts.1 / all) / all;
            (Some(mean + apart * counts.1 / all), Some(variance.sqrt()))
        }
        // Without samples there is no mean.
        _ if counts.0 == 0.0 => (more.mean, more.std),
        _ if counts.1 == 0.0 => (known.mean, known.std),
        _ => (None, None),
    };
    known.min = if counts.0 == 0.0 { more.min } else { known.min.into_iter().chain(more.min).min() };
    known.max = known.max.into_iter().chain(more.max).max();
    let numbered = known.count;
    known.worst.extend(more.worst.iter().map(|worst| {
        let mut worst = worst.clone();
        worst.sample = worst.sample.map(|sample| sample.saturating_add(numbered));
        worst
    }));
    known.worst.sort_by_key(|worst| std::cmp::Reverse(worst.value_ns));
    known.worst.truncate(WORST_MAX);
    known.count = known.count.saturating_add(more.count);
    known.lost = known.lost.saturating_add(more.lost);
    known.histogram.merge(&more.histogram);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, Worst, caveat};

    fn run(values: &[u64]) -> Record {
        let mut series = Series::new("wakeup");
        values.iter().for_each(|value| series.histogram.record(*value));
        let count = values.len() as f64;
        let mean = values.iter().sum::<u64>() as f64 / count;
        let variance = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / count;
        (series.count, series.mean, series.std) = (values.len() as u64, Some(mean), Some(variance.sqrt()));
        (series.min, series.max) = (values.iter().min().copied(), values.iter().max().copied());
        let worst = |(at, value): (usize, &u64)| Worst {
            value_ns: *value,
            cycles: None,
            sample: Some(at as u64),
            tid: None,
            budget: None,
        };
        series.worst = values.iter().enumerate().map(worst).collect();
        let mut record = Record::new("kymo", "wakeup");
        record.series.push(series);
        record.duration_s = Some(1.0);
        record.counts.insert("out_of_order".to_owned(), 2);
        record
    }

    #[test]
    fn slots_become_the_run_that_they_are() {
        let (parts, all) = ([&[5, 9][..], &[1, 100, 4], &[7]], [5, 9, 1, 100, 4, 7]);
        let mut runs: Vec<Record> = parts.iter().map(|part| run(part)).collect();
        runs[2].ended = Ended::Signal;
        runs[1].caveats.push(caveat("not-locked", "x"));
        let (joined, expected) = (join(&runs).unwrap(), run(&all));
        let (series, whole) = (&joined.series[0], &expected.series[0]);
        assert_eq!((series.count, series.min, series.max), (6, Some(1), Some(100)));
        assert_eq!((series.mean, &series.histogram), (whole.mean, &whole.histogram));
        assert!((series.std.unwrap() - whole.std.unwrap()).abs() < 1e-9);
        assert_eq!((series.worst[0].value_ns, series.worst[0].sample), (100, Some(3)));
        assert_eq!((joined.ended, joined.duration_s, joined.counts["out_of_order"]), (Ended::Signal, Some(3.0), 6));
        assert_eq!((joined.caveats.len(), joined.caveats[0].severity), (1, Severity::High));
        assert_eq!(join(&[]), None);
    }
}
