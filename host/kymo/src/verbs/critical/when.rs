//! A time of a trace on the command line.

/// A time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// ns from the begin of the trace.
    Behind(i64),
    /// ns of the trace's clock.
    At(i64),
}

impl When {
    /// In a trace that begins then.
    pub fn from(self, first: i64) -> i64 {
        match self {
            When::Behind(ns) => first.saturating_add(ns),
            When::At(ns) => ns,
        }
    }
}

/// `+1.5s`, `+200us`, `+7` (ns), or a number of ns.
pub fn parse(text: &str) -> Result<When, String> {
    let wrong = || "a time is +1.5s, +200ms, +30us from the begin of the trace, or a number of ns".to_owned();
    let Some(behind) = text.strip_prefix('+') else {
        return text.parse().map(When::At).map_err(|_| wrong());
    };
    let unit = behind.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(behind.len());
    let (number, unit) = behind.split_at(unit);
    let scale = match unit {
        "" | "ns" => 1e0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 6e10,
        "h" => 3.6e12,
        _ => return Err(wrong()),
    };
    let ns = number.parse::<f64>().map_err(|_| wrong())? * scale;
    if ns.is_finite() && ns >= 0.0 { Ok(When::Behind(ns.round() as i64)) } else { Err(wrong()) }
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
            ("1795266753576742857", Some(When::At(1_795_266_753_576_742_857))),
            ("+-1s", None),
            ("+1parsec", None),
            ("12:00", None),
        ] {
            assert_eq!(parse(text).ok(), expect, "{text}");
        }
    }
}
