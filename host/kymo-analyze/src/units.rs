// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations and priorities as people read them.

/// Priorities below are those of real-time classes.
pub(crate) const REAL_TIME: i16 = 100;

/// A duration: `0ns`, `999ns`, `12.3us`, `1.23ms`, `4.56s`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}us", digits(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{}ms", digits(value / 1e6)),
        _ => format!("{}s", digits(value / 1e9)),
    }
}

fn digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A duration with a sign, which may have parts of a nanosecond, to the nanosecond: `+1.500012ms`.
pub fn signed_duration(ns: f64) -> String {
    let sign = if ns < 0.0 { '-' } else { '+' };
    let size = ns.abs();
    let (value, places, unit) = match size {
        ..1e3 => (size, 0, "ns"),
        1e3..1e6 => (size / 1e3, 3, "us"),
        1e6..1e9 => (size / 1e6, 6, "ms"),
        _ => (size / 1e9, 9, "s"),
    };
    format!("{sign}{value:.places$}{unit}")
}

/// A priority as people set it: `rt 50`, `nice 0`, `deadline`.
pub fn priority(prio: i16) -> String {
    match prio {
        ..0 => "deadline".to_owned(),
        0..100 => format!("rt {}", 99 - prio),
        _ => format!("nice {}", prio - 120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        for (ns, expect) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00us"),
            (12_345, "12.3us"),
            (123_456, "123us"),
            (9_999_999, "10.0ms"),
            (4_560_000_000, "4.56s"),
            (1_234_000_000_000, "1234s"),
        ] {
            assert_eq!(duration(ns), expect);
        }
    }

    #[test]
    fn signed_durations_are_exact_to_the_nanosecond() {
        for (ns, expect) in [
            (0.0, "+0ns"),
            (-999.0, "-999ns"),
            (1_500.0, "+1.500us"),
            (-20_000_001.0, "-20.000001ms"),
            (4_560_000_000.0, "+4.560000000s"),
        ] {
            assert_eq!(signed_duration(ns), expect);
        }
    }

    #[test]
    fn priorities_are_those_that_people_set() {
        for (prio, expect) in [(-1, "deadline"), (0, "rt 99"), (98, "rt 1"), (120, "nice 0"), (100, "nice -20")] {
            assert_eq!(priority(prio), expect);
        }
    }
}
