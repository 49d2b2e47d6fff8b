// SPDX-License-Identifier: MIT OR Apache-2.0
//! A time of a trace on the command line.

/// What a time may be, for messages.
pub const FORMS: &str = "+1.5s, +200ms, +30us from the begin of the trace, -1.5s from its end, or a number of ns";

/// A time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// ns from the begin of the trace.
    Behind(i64),
    /// ns before its end.
    Before(i64),
    /// ns of the trace's clock.
    At(i64),
}

impl When {
    /// In a trace with these first and last records.
    pub fn at(self, first: i64, last: i64) -> i64 {
        match self {
            When::Behind(ns) => first.saturating_add(ns),
            When::Before(ns) => last.saturating_sub(ns),
            When::At(ns) => ns,
        }
    }

    /// The same, for an option that takes a moment of the trace.
    ///
    /// # Errors
    /// It is none.
    pub fn within(self, option: &str, first: i64, last: i64) -> anyhow::Result<i64> {
        let at = self.at(first, last);
        let span = last.abs_diff(first);
        anyhow::ensure!(
            (first..=last).contains(&at),
            "{option} lies outside of the trace, which goes from {first} to {last} (+{span} ns)"
        );
        Ok(at)
    }
}

/// `+1.5s`, `+200us`, `+7` (ns), `-1s`, or a number of ns.
pub fn parse(text: &str) -> Result<When, String> {
    let number = |text| distance(text).ok_or_else(|| format!("a time is {FORMS}"));
    match text.as_bytes().first() {
        Some(b'+') => number(&text[1..]).map(When::Behind),
        Some(b'-') => number(&text[1..]).map(When::Before),
        _ => text.parse().map(When::At).map_err(|_| format!("a time is {FORMS}")),
    }
}

/// ns.
fn distance(text: &str) -> Option<i64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let scale = match unit {
        "" | "ns" => 1e0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 6e10,
        "h" => 3.6e12,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * scale;
    (ns.is_finite() && ns >= 0.0).then_some(ns.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expect) in [
            ("+1.5s", Some(When::Behind(1_500_000_000))),
            ("+20us", Some(When::Behind(20_000))),
            ("+7", Some(When::Behind(7))),
            ("-2ms", Some(When::Before(2_000_000))),
            ("1795266753576742857", Some(When::At(1_795_266_753_576_742_857))),
            ("+-1s", None),
            ("+1parsec", None),
            ("-", None),
            ("12:00", None),
        ] {
            assert_eq!(parse(text).ok(), expect, "{text}");
        }
    }

    #[test]
    fn times_of_a_trace() {
        let at = |text| parse(text).unwrap().at(1000, 5000);
        assert_eq!((at("+1us"), at("-1us"), at("77")), (2000, 4000, 77));
        let within = |text| parse(text).unwrap().within("--at", 1000, 5000);
        assert_eq!((within("+0").unwrap(), within("-0").unwrap()), (1000, 5000));
        for text in ["+4001", "-4001", "77", "5001"] {
            let expect = "--at lies outside of the trace, which goes from 1000 to 5000 (+4000 ns)";
            assert_eq!(within(text).unwrap_err().to_string(), expect, "{text}");
        }
    }
}
