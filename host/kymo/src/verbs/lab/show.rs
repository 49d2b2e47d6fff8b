//! A result as people read it.

use kymo_lab::{Ended, Record, Series};

/// Quantiles that are shown: name, and the share of samples that lies below.
const QUANTILES: [(&str, u64, u64); 3] = [("p50", 50, 100), ("p99", 99, 100), ("p99.9", 999, 1000)];
/// Worst samples of each series that are shown.
const WORST_SHOWN: usize = 3;

/// The lines of a result.
pub fn text(record: &Record) -> Vec<String> {
    let mut lines = vec![head(record)];
    lines.push(format!(
        "{:14} {:>4} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8}",
        "", "cpu", "samples", "min", "mean", "p50", "p99", "p99.9", "max", "lost"
    ));
    lines.extend(record.series.iter().map(row));
    for series in &record.series {
        lines.extend(worst(series));
    }
    for (name, count) in &record.counts {
        lines.push(format!("{}: {count}", name.replace('_', " ")));
    }
    if let Some(floor) = &record.floor {
        lines.push(format!(
            "the tool itself: {:.1} ns to read the clock, {:.1} ns for an empty measurement",
            floor.clock_read_ns, floor.loop_ns
        ));
    }
    for caveat in &record.caveats {
        let severity = format!("{:?}", caveat.severity).to_lowercase();
        lines.push(format!("{severity}: {} ({}): {}", caveat.text, caveat.id, caveat.next));
    }
    lines
}

fn head(record: &Record) -> String {
    let seconds = record.duration_s.map_or(String::new(), |seconds| format!(" in {seconds:.1} s"));
    let ended = if record.ended == Ended::Signal { ", interrupted" } else { "" };
    format!("{}{seconds}{ended}: {}", record.test, record.method)
}

fn row(series: &Series) -> String {
    let cpu = series.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), time);
    let quantiles = QUANTILES.map(|(_, numerator, of)| shown(quantile(series, numerator, of)));
    let [p50, p99, p999] = quantiles;
    format!(
        "{:14} {cpu:>4} {:>11} {:>9} {:>9} {p50:>9} {p99:>9} {p999:>9} {:>10} {:>8}",
        series.name,
        series.count - series.lost,
        shown(series.min),
        shown(series.mean.map(|mean| mean as u64)),
        shown(series.max),
        series.lost
    )
}

/// The upper bound of the bucket; none where there are too few samples to speak of it.
fn quantile(series: &Series, numerator: u64, of: u64) -> Option<u64> {
    const ABOVE_AT_LEAST: u64 = 5;
    let count = series.histogram.count();
    let rank = (u128::from(count) * u128::from(numerator)).div_ceil(u128::from(of)) as u64;
    if count.saturating_sub(rank) < ABOVE_AT_LEAST {
        return None;
    }
    let bucket = series.histogram.at_rank(rank.saturating_sub(1))?;
    Some(bucket.high.min(series.max.unwrap_or(bucket.high)))
}

fn worst(series: &Series) -> Option<String> {
    let list: Vec<String> = series
        .worst
        .iter()
        .take(WORST_SHOWN)
        .map(|worst| {
            let number = worst.sample.map_or(String::new(), |sample| format!(" (sample {sample})"));
            format!("{}{number}", time(worst.value_ns))
        })
        .collect();
    let cpu = series.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    (!list.is_empty()).then(|| format!("worst of {}{cpu}: {}", series.name, list.join(", ")))
}

/// `830 ns`, `17.6 us`, `2.11 ms`.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", digits(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", digits(ns as f64 / 1e6)),
        _ => format!("{} s", digits(ns as f64 / 1e9)),
    }
}

/// Three digits that count.
fn digits(value: f64) -> String {
    let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let check = |ns: u64, expect: &str| assert_eq!(time(ns), expect);
        check(0, "0 ns");
        check(999, "999 ns");
        check(1_000, "1.00 us");
        check(17_640, "17.6 us");
        check(2_110_000, "2.11 ms");
        check(123_456_789, "123 ms");
        check(12_345_678_901, "12.3 s");
    }

    #[test]
    fn quantiles_need_samples_beyond_them() {
        let mut series = Series::new("a");
        (0..1000u64).for_each(|value| series.histogram.record(value));
        series.max = Some(999);
        assert_eq!(quantile(&series, 50, 100), Some(501));
        assert!(quantile(&series, 99, 100).is_some());
        assert_eq!(quantile(&series, 999, 1000), None);
    }
}
