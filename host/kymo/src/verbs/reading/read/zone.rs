// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nanoseconds since 1970 to a time of day. The zone is asked once a second of trace time, because asking is slow.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// Turns times into text.
pub struct Zone {
    zone: TimeZone,
    date: bool,
    /// The second since 1970 for which `shown` holds.
    second: i64,
    /// Date and time of day up to the second, as shown in front of the fraction.
    shown: String,
    /// Where that second begins, ns, if there is one.
    from_ns: i64,
}

impl Zone {
    /// The zone of `$TZ` or of the system; `utc` for UTC.
    pub fn new(utc: bool, date: bool) -> Self {
        let zone = if utc { TimeZone::UTC } else { TimeZone::system() };
        Self { zone, date, second: i64::MIN, shown: String::new(), from_ns: i64::MIN }
    }

    /// The time of day up to the second, and the nanoseconds behind it, where that second was asked for last.
    #[inline]
    pub fn same_second(&self, ns: i128) -> Option<(&[u8], u32)> {
        let ns = i64::try_from(ns).ok().filter(|_| !self.shown.is_empty())?;
        let part = ns.checked_sub(self.from_ns).filter(|part| (0..1_000_000_000).contains(part))?;
        Some((self.shown.as_bytes(), part as u32))
    }

    /// Appends a time of day with nine digits behind the point.
    pub fn push(&mut self, out: &mut Vec<u8>, ns: i128) {
        // Years 1678 to 2261; what lies beyond is shown as a number.
        let Ok(ns) = i64::try_from(ns) else {
            out.extend_from_slice(ns.to_string().as_bytes());
            return;
        };
        let (second, fraction) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        if second != self.second {
            self.second = second;
            self.shown = self.describe(second);
            self.from_ns = second.saturating_mul(1_000_000_000);
        }
        out.extend_from_slice(self.shown.as_bytes());
        kymo_export::digits::push_nine(out, fraction as u32);
    }

    fn describe(&self, second: i64) -> String {
        let Ok(time) = Timestamp::from_second(second) else { return String::new() };
        // Offsets with seconds ended long before tracers began; they are rounded to minutes.
        let offset = self.zone.to_offset(time).seconds() / 60 * 60;
        let local = Offset::from_seconds(offset).unwrap_or(Offset::UTC).to_datetime(time);
        let day = format!("{:02}:{:02}:{:02}.", local.hour(), local.minute(), second.rem_euclid(60));
        if self.date { format!("{:04}-{:02}-{:02} {day}", local.year(), local.month(), local.day()) } else { day }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day() {
        let check = |zone: TimeZone, date, ns, expect: &str| {
            let mut zone = Zone { zone, date, second: i64::MIN, shown: String::new(), from_ns: i64::MIN };
            let mut out = Vec::new();
            zone.push(&mut out, ns);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        let east = TimeZone::fixed(Offset::from_seconds(5 * 3600 + 1800).unwrap());
        check(TimeZone::UTC, false, 0, "00:00:00.000000000");
        check(TimeZone::UTC, true, -1, "1969-12-31 23:59:59.999999999");
        check(TimeZone::UTC, true, 1_700_000_059_000_000_001, "2023-11-14 22:14:19.000000001");
        check(east, true, 1_700_000_059_000_000_001, "2023-11-15 03:44:19.000000001");
        check(TimeZone::UTC, true, i128::MAX, &i128::MAX.to_string());
    }
}
