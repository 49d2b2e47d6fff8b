// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units behind numbers: durations are nanoseconds, sizes are bytes. Exact, or refused.

/// For messages.
pub(crate) const LIST: &str = "ns, us, ms, s, min, h of time, B, KiB (K), MiB (M), GiB (G), TiB (T) of size";

/// Unit and factor. The short forms of sizes are binary, as in `kymo record --ring 4M`.
const UNITS: [(&str, u64); 15] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("B", 1),
    ("KiB", 1 << 10),
    ("K", 1 << 10),
    ("MiB", 1 << 20),
    ("M", 1 << 20),
    ("GiB", 1 << 30),
    ("G", 1 << 30),
    ("TiB", 1 << 40),
    ("T", 1 << 40),
];

/// Why a number with a unit is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inexact {
    /// Above 64 bits.
    Large,
    /// Not a whole number of the base unit.
    Fraction,
}

/// Base units in one `unit`.
pub(crate) fn factor(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, factor)| factor)
}

/// All units.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    UNITS.iter().map(|&(name, _)| name)
}

/// The plural of what `unit` is counted in.
pub(crate) fn base(unit: &str) -> &'static str {
    if unit.starts_with(|c: char| c.is_ascii_uppercase()) { "bytes" } else { "nanoseconds" }
}

/// `decimal` (digits, point, exponent) times `factor`.
pub(crate) fn exact(decimal: &str, factor: u64) -> Result<u64, Inexact> {
    let (mantissa, exponent) = match decimal.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| Inexact::Large)?),
        None => (decimal, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{}", part.trim_end_matches('0'));
    let mut shift = exponent.saturating_sub(part.trim_end_matches('0').len() as i64);
    let mut value: u128 = digits.trim_start_matches('0').parse().or_else(|_| match digits.trim_start_matches('0') {
        "" => Ok(0),
        _ => Err(Inexact::Large),
    })?;
    value = value.checked_mul(factor.into()).ok_or(Inexact::Large)?;
    while shift > 0 && value > 0 {
        value = value.checked_mul(10).filter(|&value| value <= u64::MAX.into()).ok_or(Inexact::Large)?;
        shift -= 1;
    }
    while shift < 0 && value > 0 {
        if value % 10 != 0 {
            return Err(Inexact::Fraction);
        }
        value /= 10;
        shift += 1;
    }
    u64::try_from(value).map_err(|_| Inexact::Large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_or_refused() {
        for (decimal, factor, expect) in [
            ("1.5", 1_000, Ok(1_500)),
            ("0.25", 1 << 10, Ok(256)),
            ("1.50", 10, Ok(15)),
            ("0.3", 1, Err(Inexact::Fraction)),
            ("1e-9", 1_000_000_000, Ok(1)),
            ("1e-10", 1_000_000_000, Err(Inexact::Fraction)),
            ("1e999999999999", 1, Err(Inexact::Large)),
            ("0e999999999", 1, Ok(0)),
            ("1e99999999999999999999", 1, Err(Inexact::Large)),
            ("18446744073709551616", 1, Err(Inexact::Large)),
            ("99999999999999999999999999999999999999999999", 1, Err(Inexact::Large)),
        ] {
            assert_eq!(exact(decimal, factor), expect, "{decimal}");
        }
    }
}
