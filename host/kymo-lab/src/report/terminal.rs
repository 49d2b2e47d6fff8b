// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram for a terminal: blocks, both scales logarithmic, what lies beyond at the right edge.

use super::units::{count, counted, time};
use crate::stats::Distribution;

/// Rows of a histogram.
const ROWS: usize = 6;
/// Width of the counts on the left.
const LABEL: usize = 8;
/// A row's fillings, from empty to full.
const BLOCKS: [char; 9] =
    [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

/// The lines of a histogram: the picture no wider than `width` (40 at least). None without samples in buckets.
pub fn histogram(of: &Distribution, width: usize) -> Vec<String> {
    let width = width.clamp(40, 400) - LABEL - 4;
    let (Some(first), Some(last)) = (of.histogram.buckets().next(), of.histogram.buckets().next_back()) else {
        return Vec::new();
    };
    let (from, to) = (first.low.max(1) as f64, (last.high as f64 + 1.0).max(first.low.max(1) as f64 * 1.1));
    let place = |value: f64| {
        let share = (value.max(from) / from).ln() / (to / from).ln();
        ((share * width as f64) as usize).min(width - 1)
    };
    let mut columns = vec![0u64; width];
    of.histogram.buckets().for_each(|bucket| columns[place(bucket.low as f64)] += bucket.count);
    let highest = columns.iter().copied().max().unwrap_or(1).max(of.overflow).max(2);
    let level = |count: u64| match count {
        0 => 0,
        // One sample is seen, the most fill all rows.
        count => 1 + ((count as f64).ln() / (highest as f64).ln() * (8 * ROWS - 1) as f64).round() as usize,
    };
    let mut lines: Vec<String> = (0..ROWS).rev().map(|row| line(row, highest, &columns, of.overflow, &level)).collect();
    lines.push(axis(width, of.overflow > 0));
    lines.push(labels(from, to, width, &place));
    lines.extend(unseen(of));
    lines
}

fn line(row: usize, highest: u64, columns: &[u64], overflow: u64, level: &dyn Fn(u64) -> usize) -> String {
    // The count whose column ends at the top of this row.
    let share = (8 * (row + 1) - 1) as f64 / (8 * ROWS - 1) as f64;
    let label = count((highest as f64).powf(share).round() as u64);
    let block = |number: &u64| BLOCKS[level(*number).saturating_sub(8 * row).min(8)];
    let mut line = format!("{label:>LABEL$} \u{2502}");
    line.extend(columns.iter().map(block));
    if overflow > 0 {
        line.push('\u{2506}');
        line.push(block(&overflow));
    }
    line.trim_end().to_owned()
}

fn axis(width: usize, has_edge: bool) -> String {
    let edge = if has_edge { "\u{2534}\u{2500}" } else { "" };
    format!("{:>LABEL$} \u{2514}{}{edge}", "", "\u{2500}".repeat(width))
}

/// Round values where they stand, as many as have room; powers of ten before others. Where no two have a place, both
/// ends.
fn labels(from: f64, to: f64, width: usize, place: &dyn Fn(f64) -> usize) -> String {
    let factors: &[f64] = if to / from < 30.0 { &[1.0, 2.0, 5.0, 1.5, 3.0, 7.0] } else { &[1.0, 2.0, 5.0] };
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let mut row = vec![' '; width];
    let mut put = |value: f64, at: usize| {
        let label = time(value);
        let end = at + label.chars().count();
        let is_free = end <= width && row[at.saturating_sub(2)..(end + 2).min(width)].iter().all(|c| *c == ' ');
        if is_free {
            row.splice(at..end, label.chars());
        }
        usize::from(is_free)
    };
    let round = factors.iter().flat_map(|factor| powers.clone().map(move |power| factor * 10f64.powi(power)));
    let placed: usize = round.filter(|value| (from..=to).contains(value)).map(|value| put(value, place(value))).sum();
    if placed < 2 {
        put(from, 0);
        put(to, width.saturating_sub(time(to).chars().count()));
    }
    format!("{:>LABEL$}  {}", "", row.into_iter().collect::<String>().trim_end())
}

/// What is not in the picture, or at its edge only.
fn unseen(of: &Distribution) -> Vec<String> {
    let mut lines = Vec::new();
    if of.overflow > 0 {
        let beyond = of.beyond_ns.map_or(String::new(), |ns| format!(", above {}", time(ns as f64)));
        lines.push(format!(
            "{:>LABEL$}  at the right edge: {} beyond the tool's histogram{beyond}",
            "",
            counted(of.overflow, "sample")
        ));
    }
    if of.lost > 0 {
        lines.push(format!("{:>LABEL$}  LOST {}: nowhere in this picture", "", counted(of.lost, "sample")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_one() {
        let mut of = Distribution::default();
        of.histogram.add(100, 1);
        of.histogram.add(1_000, 5_000);
        of.histogram.add(10_000, 20);
        (of.overflow, of.beyond_ns, of.lost) = (3, Some(20_000), 7);
        let lines = histogram(&of, 60);
        assert_eq!(lines.len(), ROWS + 4);
        assert!(lines[..ROWS + 2].iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
        let text = lines.join("\n");
        // The most samples fill their column, one is seen, and so is what lies beyond.
        assert_eq!(text.matches('\u{2588}').count(), 6 + 2, "{text}");
        assert!(text.contains("100 ns") && text.contains("1.00 us") && text.contains("LOST 7 samples"), "{text}");
        assert!(lines[0].trim_start().starts_with("5,000"), "{text}");
        assert!(histogram(&Distribution::default(), 60).is_empty());
    }

    #[test]
    fn a_narrow_one_has_its_ends() {
        let mut of = Distribution::default();
        of.histogram.add(104_000, 300);
        of.histogram.add(140_000, 1);
        let lines = histogram(&of, 80);
        let axis = lines.last().expect("lines").trim();
        assert!(axis.starts_with("104 us") && axis.ends_with("140 us"), "{lines:#?}");
    }
}
