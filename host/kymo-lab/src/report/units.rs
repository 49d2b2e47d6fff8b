// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers as people read them, with their units; texts from files, made harmless.

use crate::stats::{Distribution, Quantile};

/// `830 ns`, `17.6 us`, `2.11 ms`: three digits that count. Negative times too.
pub fn time(ns: f64) -> String {
    let size = ns.abs();
    // Where rounding would give 1000 of a unit, the next one is used.
    match size {
        _ if size < 0.5 => "0 ns".to_owned(),
        _ if size < 999.5 => format!("{ns:.0} ns"),
        _ if size < 999.5e3 => format!("{} us", digits(ns / 1e3)),
        _ if size < 999.5e6 => format!("{} ms", digits(ns / 1e6)),
        _ => format!("{} s", digits(ns / 1e9)),
    }
}

/// Three digits that count, at most.
fn digits(value: f64) -> String {
    let size = value.abs();
    let places = if size < 9.995 { 2 } else { usize::from(size < 99.95) };
    format!("{value:.places$}")
}

/// A quantile of the samples that are not lost; where some are, with its bounds. A dash where there is none.
pub fn quantile(of: &Distribution, q: f64) -> String {
    match of.quantile_of_known(q) {
        Err(_) => "-".to_owned(),
        Ok(found) if of.lost == 0 => time(found.value),
        Ok(found) => format!("{} ({})", time(found.value), bounds(&found)),
    }
}

/// `1.20 ms..4.70 ms`: the bounds of a quantile; `?` where nothing bounds it.
pub fn bounds(of: &Quantile) -> String {
    let high = of.high.map_or_else(|| "?".to_owned(), |high| time(high as f64));
    format!("{}..{high}", time(of.low as f64))
}

/// `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A round number where there is little room: `100,000`, `10M`, `2G`.
pub fn short(number: u64) -> String {
    match number {
        0..1_000_000 => count(number),
        1_000_000..1_000_000_000 => format!("{}M", count(number / 1_000_000)),
        _ => format!("{}G", count(number / 1_000_000_000)),
    }
}

/// A noun with its number: `1 run`, `5 runs`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A text from a file, for a terminal: no control characters, which could move its cursor, and not endless.
pub fn plain(text: &str) -> String {
    const LONGEST: usize = 400;
    let mut plain: String = text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        plain.push_str("...");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let check = |ns: f64, expect: &str| assert_eq!(time(ns), expect);
        check(0.0, "0 ns");
        check(999.0, "999 ns");
        check(999.7, "1.00 us");
        check(-17_640.0, "-17.6 us");
        check(999_600.0, "1.00 ms");
        check(2_110_000.0, "2.11 ms");
        check(123_456_789.0, "123 ms");
        check(12_345_678_901.0, "12.3 s");
    }

    #[test]
    fn counts_and_texts() {
        assert_eq!((count(1), count(1_234), count(1_234_567)), ("1".into(), "1,234".into(), "1,234,567".into()));
        assert_eq!([100_000, 10_000_000, 2_000_000_000].map(short), ["100,000", "10M", "2G"]);
        assert_eq!((counted(1, "run"), counted(2_000, "run")), ("1 run".into(), "2,000 runs".into()));
        assert_eq!(plain("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(plain(&"x".repeat(500)).len(), 403);
    }
}
