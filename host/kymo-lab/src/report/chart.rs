// SPDX-License-Identifier: MIT OR Apache-2.0
//! The charts: histogram, tail, worst samples over time. Each is a drawing of [`SIZE`].
//!
//! A chart says in itself what it cannot show: samples beyond a tool's histogram have a bar at the right edge, lost
//! ones a line below.

use super::svg::{Anchor, Drawing, colour};
use super::units::{count, counted, short, time};
use crate::stats::Distribution;
use crate::{Bucket, Worst};

/// Width and height of a chart.
pub const SIZE: (f64, f64) = (760.0, 330.0);
/// The field within: left, top, right, bottom.
const FIELD: (f64, f64, f64, f64) = (64.0, 34.0, 690.0, 262.0);
/// Columns of a histogram.
const COLUMNS: usize = 240;
/// Characters of a title that have room, and of the name of a curve.
const TITLE_MAX: usize = 44;
/// The latter.
const LABEL_MAX: usize = 24;
/// Curves that are named below a chart.
const NAMED: usize = 8;
/// Curves that are drawn thinner from this many on.
const MANY: usize = 4;

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is of.
    pub label: String,
    /// Curves of one number have one colour, and are named once.
    pub colour: usize,
    /// Its samples.
    pub samples: Distribution,
    /// Its largest samples, with their number among all of their series, and the length of the run in seconds, if both
    /// are known.
    pub worst: Vec<Spike>,
}

/// One of the worst samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spike {
    /// Nanoseconds.
    pub value_ns: u64,
    /// From the begin of the run.
    pub at_s: f64,
}

impl Spike {
    /// `None` where the record does not say when it was. Samples are taken as evenly spread over the run.
    pub fn new(worst: &Worst, samples: u64, duration_s: Option<f64>) -> Option<Spike> {
        let share = worst.sample? as f64 / samples.max(1) as f64;
        Some(Spike { value_ns: worst.value_ns, at_s: share.min(1.0) * duration_s? })
    }
}

/// A scale from a value to a place; logarithmic or linear.
#[derive(Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    is_log: bool,
}

impl Scale {
    fn log(from: f64, to: f64, start: f64, end: f64) -> Scale {
        let to = if to > from * 1.01 { to } else { from * 10.0 };
        Scale { from, to, start, end, is_log: true }
    }

    fn linear(from: f64, to: f64, start: f64, end: f64) -> Scale {
        Scale { from, to: if to > from { to } else { from + 1.0 }, start, end, is_log: false }
    }

    fn at(self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Round values within: of a logarithmic scale powers of ten, and their double and fivefold where there is room.
    fn ticks(self) -> Vec<f64> {
        if !self.is_log {
            let step = round_step((self.to - self.from) / 6.0);
            return (0..=12)
                .map(|n| (self.from / step).ceil() * step + f64::from(n) * step)
                .filter(|t| *t <= self.to)
                .collect();
        }
        let decades = (self.to / self.from).log10();
        let of_decade: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.from.log10().floor() as i32;
        let powers = (first..first + decades as i32 + 3).map(|power| 10f64.powi(power));
        let all = powers.flat_map(|power| of_decade.iter().map(move |factor| factor * power));
        all.filter(|tick| (self.from..=self.to).contains(tick)).collect()
    }
}

/// 1, 2 or 5 times a power of ten, no less than `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|round| *round >= step).unwrap_or(step)
}

/// Counts of samples by value, both logarithmic.
pub fn histogram(title: &str, curves: &[Curve]) -> Drawing {
    let (left, top, right, bottom) = FIELD;
    let (from, to) = range(curves);
    let x = Scale::log(from, to, left, right);
    let columns: Vec<Vec<f64>> = curves.iter().map(|curve| columns(curve, x)).collect();
    let beyond = curves.iter().map(|curve| curve.samples.overflow as f64);
    let highest = columns.iter().flatten().copied().chain(beyond).fold(1.0, f64::max);
    let y = Scale::log(0.7, highest * 1.3, bottom, top);
    let mut chart = frame(title, x, y, &|value| short(value as u64), "latency", "samples in a column");
    for (curve, columns) in curves.iter().zip(&columns) {
        chart.curve(&outline(columns, x, y), &class(curve, curves.len()), &legend(curve));
    }
    edge(&mut chart, curves, y);
    notes(&mut chart, curves);
    chart
}

/// Smallest and largest value of all, as ends of a logarithmic scale.
fn range(curves: &[Curve]) -> (f64, f64) {
    let all = |of: fn(&Distribution) -> Option<u64>| curves.iter().filter_map(move |curve| of(&curve.samples));
    let low = all(|samples| samples.histogram.buckets().next().map(|bucket| bucket.low)).min().unwrap_or(1);
    let last = |samples: &Distribution| {
        let high = samples.histogram.buckets().next_back().map(|bucket| bucket.high);
        high.max(samples.beyond_ns).max(samples.max)
    };
    let high = all(last).max().unwrap_or(10);
    ((low.max(1) as f64) * 0.95, high.max(2) as f64 * 1.02)
}

/// Samples by columns of equal width. A bucket that reaches over several is spread over them.
fn columns(curve: &Curve, x: Scale) -> Vec<f64> {
    let place = |value: f64| (x.at(value) - x.start) / (x.end - x.start) * COLUMNS as f64;
    let mut columns = vec![0.0; COLUMNS];
    for Bucket { low, high, count } in curve.samples.histogram.buckets() {
        let high = high.saturating_add(curve.samples.bucket_ns) as f64;
        let (first, last) = (place(low as f64), place((high + 1.0).min(x.to)));
        let (first, last) = (first.min(COLUMNS as f64 - 0.01), last.min(COLUMNS as f64 - 0.01));
        let width = (last.floor() - first.floor()) as usize + 1;
        for column in 0..width {
            columns[(first as usize + column).min(COLUMNS - 1)] += count as f64 / width as f64;
        }
    }
    columns
}

/// Steps, with a point only where the height changes.
fn outline(columns: &[f64], x: Scale, y: Scale) -> Vec<(f64, f64)> {
    let width = (x.end - x.start) / columns.len() as f64;
    let mut points = Vec::new();
    let mut left = x.start;
    for same in columns.chunk_by(|one, other| one == other) {
        let right = left + same.len() as f64 * width;
        points.extend([(left, y.at(same[0])), (right, y.at(same[0]))]);
        left = right;
    }
    points
}

/// Bars at the right edge for what lies beyond the histograms.
fn edge(chart: &mut Drawing, curves: &[Curve], y: Scale) {
    let beyond: Vec<&Curve> = curves.iter().filter(|curve| curve.samples.overflow > 0).collect();
    let (_, _, right, bottom) = FIELD;
    let width = (SIZE.0 - right - 24.0) / beyond.len().max(1) as f64;
    for (at, curve) in beyond.iter().enumerate() {
        let samples = &curve.samples;
        let top = y.at(samples.overflow as f64);
        let end = samples.beyond_ns.map_or(String::new(), |ns| format!(" above {}", time(ns as f64)));
        let title = format!("{}: {}{end}", curve.label, counted(samples.overflow, "sample"));
        let class = format!("beyond {}", colour(curve.colour));
        chart.bar((right + 10.0 + at as f64 * width, top), ((width * 0.8).max(0.5), bottom - top), &class, &title);
    }
    if !beyond.is_empty() {
        chart.text((SIZE.0 - 4.0, bottom + 16.0), Anchor::End, "faint", "beyond");
    }
}

/// Share of samples above each value, both logarithmic: the tail as a line.
pub fn tail(title: &str, curves: &[Curve]) -> Drawing {
    let (left, top, right, bottom) = FIELD;
    let (from, to) = range(curves);
    let x = Scale::log(from, to, left, right);
    let most = curves.iter().map(|curve| curve.samples.count()).max().unwrap_or(1).max(10);
    let y = Scale::log(0.5 / most as f64, 1.0, bottom, top);
    let share = |value: f64| if value > 0.011 { format!("{value}") } else { format!("1e{:.0}", value.log10()) };
    let mut chart = frame(title, x, y, &share, "latency", "share of samples above");
    for curve in curves {
        let total = (curve.samples.count() - curve.samples.lost).max(1) as f64;
        let mut left_over = total;
        let mut points = vec![(x.at(from), y.at(1.0))];
        for bucket in curve.samples.histogram.buckets() {
            let at = x.at((bucket.high as f64).min(curve.samples.max.unwrap_or(u64::MAX) as f64));
            points.push((at, y.at(left_over / total)));
            left_over -= bucket.count as f64;
            points.push((at, y.at((left_over / total).max(y.from))));
        }
        // What is beyond the histogram is somewhere to the right.
        if left_over >= 1.0 {
            points.push((right, y.at(left_over / total)));
        }
        chart.curve(&points, &class(curve, curves.len()), &legend(curve));
    }
    notes(&mut chart, curves);
    chart
}

/// What the time of worst samples is, where it is that of their run.
pub const IN_THE_RUN: &str = "time in the run, by the number of the sample";

/// The worst samples of each curve over a time, which `x_name` names; `None` where no record says when they were.
pub fn spikes(title: &str, curves: &[Curve], x_name: &str) -> Option<Drawing> {
    let all = || curves.iter().flat_map(|curve| &curve.worst);
    let (left, top, right, bottom) = FIELD;
    let low = all().map(|spike| spike.value_ns).min()?.max(1) as f64;
    let high = all().map(|spike| spike.value_ns).max()? as f64;
    let end = all().map(|spike| spike.at_s).fold(0.0, f64::max);
    let x = Scale::linear(0.0, end * 1.02, left, right);
    let y = Scale::log(low * 0.8, high * 1.2, bottom, top);
    let mut chart = frame(title, x, y, &|value| time(value), x_name, "worst samples");
    for curve in curves {
        for spike in &curve.worst {
            let (at, of) = (x.at(spike.at_s), y.at(spike.value_ns as f64));
            let title = format!("{}: {} after {}", curve.label, time(spike.value_ns as f64), time(spike.at_s * 1e9));
            let colour = colour(curve.colour);
            chart.line((at, bottom), (at, of), &format!("thin {colour}"));
            chart.dot((at, of), &colour, &title);
        }
    }
    names(&mut chart, curves);
    Some(chart)
}

/// Title, axes and grid.
fn frame(title: &str, x: Scale, y: Scale, of_y: &dyn Fn(f64) -> String, x_name: &str, y_name: &str) -> Drawing {
    let (left, top, right, bottom) = FIELD;
    let mut chart = Drawing::default();
    let title: String = title.chars().take(TITLE_MAX).collect();
    chart.text((left, 18.0), Anchor::Start, "head", &title);
    chart.text((right, 18.0), Anchor::End, "faint", &format!("{y_name}; {x_name}"));
    for tick in y.ticks() {
        let at = y.at(tick);
        chart.line((left, at), (right, at), "grid");
        chart.text((left - 6.0, at + 4.0), Anchor::End, "faint", &of_y(tick));
    }
    for tick in x.ticks() {
        let at = x.at(tick);
        chart.line((at, top), (at, bottom), "grid");
        let label = if x.is_log { time(tick) } else { time(tick * 1e9) };
        chart.text((at, bottom + 16.0), Anchor::Middle, "faint", &label);
    }
    chart.line((left, bottom), (right, bottom), "axis");
    chart.line((left, top), (left, bottom), "axis");
    chart
}

/// Below a chart: names of curves, and what was lost.
fn notes(chart: &mut Drawing, curves: &[Curve]) {
    names(chart, curves);
    let sum = |of: fn(&Distribution) -> u64| curves.iter().map(|curve| of(&curve.samples)).sum::<u64>();
    let (lost, beyond) = (sum(|samples| samples.lost), sum(|samples| samples.overflow));
    let mut text = format!("{} in all", counted(sum(Distribution::count), "sample"));
    if beyond > 0 {
        text += &format!("; {} beyond the tool's histogram", count(beyond));
    }
    if lost > 0 {
        text += &format!("; {} LOST, which are nowhere in this picture", count(lost));
    }
    chart.text((FIELD.0, SIZE.1 - 8.0), Anchor::Start, "faint", &text);
}

/// Names of colours, in their order.
fn names(chart: &mut Drawing, curves: &[Curve]) {
    let mut named: Vec<usize> = Vec::new();
    let mut x = FIELD.0;
    for curve in curves {
        if named.contains(&curve.colour) {
            continue;
        }
        let label: String = curve.label.chars().take(LABEL_MAX).collect();
        let end = x + 14.0 + 7.0 * label.chars().count() as f64;
        if named.len() == NAMED || end > SIZE.0 - 30.0 {
            chart.text((x, SIZE.1 - 28.0), Anchor::Start, "faint", "...");
            break;
        }
        named.push(curve.colour);
        chart.text((x, SIZE.1 - 28.0), Anchor::Start, &colour(curve.colour), &label);
        x = end;
    }
}

fn class(curve: &Curve, of: usize) -> String {
    format!("curve{} {}", if of >= MANY { " thin" } else { "" }, colour(curve.colour))
}

fn legend(curve: &Curve) -> String {
    let max = curve.samples.max.map_or(String::new(), |max| format!(", max {}", time(max as f64)));
    format!("{}: {}{max}", curve.label, counted(curve.samples.count(), "sample"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::log(0.7, 1500.0, 0.0, 1.0).ticks(), vec![1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Scale::log(900.0, 6000.0, 0.0, 1.0).ticks(), vec![1000.0, 2000.0, 5000.0]);
        assert_eq!(Scale::linear(0.0, 21.0, 0.0, 1.0).ticks(), vec![0.0, 5.0, 10.0, 15.0, 20.0]);
    }

    #[test]
    fn columns_hold_every_sample() {
        let mut samples = Distribution::default();
        (0..1000u64).for_each(|value| samples.histogram.record(value * value));
        let curve = Curve { label: String::new(), colour: 0, samples, worst: Vec::new() };
        let (from, to) = range(std::slice::from_ref(&curve));
        let sum: f64 = columns(&curve, Scale::log(from, to, 0.0, 100.0)).iter().sum();
        assert!((sum - 1000.0).abs() < 1e-6, "{sum}");
    }
}
