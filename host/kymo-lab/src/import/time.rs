// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dates of mail headers, as rt-tests writes them.

/// `Sat, 21 Nov 2026 12:31:55 +0000` in nanoseconds since 1970. `None` for what is no such date.
pub(super) fn mail_date_ns(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    if text.contains(',') {
        words.next();
    }
    let day: i64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = month(words.next()?)?;
    let year: i64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock =
        words.next()?.split(':').map(|part| part.parse::<i64>().ok().filter(|part| (0..=60).contains(part)));
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next().unwrap_or(Some(0))?);
    let zone = zone_seconds(words.next().unwrap_or("+0000"))?;
    let total = days_since_1970(year, month, day) * 86_400 + hours * 3600 + minutes * 60 + seconds - zone;
    u64::try_from(total).ok()?.checked_mul(1_000_000_000)
}

fn month(name: &str) -> Option<i64> {
    const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    NAMES.iter().position(|month| *month == name).map(|index| index as i64 + 1)
}

/// `+0130` in seconds.
fn zone_seconds(text: &str) -> Option<i64> {
    if matches!(text, "GMT" | "UTC" | "Z") {
        return Some(0);
    }
    let number: i64 = text.parse().ok().filter(|number: &i64| number.abs() <= 1400)?;
    Some(number / 100 * 3600 + number % 100 * 60)
}

/// Days from 1970-01-01 in the Gregorian calendar; a year begins in March here, so that a leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::mail_date_ns;

    #[test]
    fn dates() {
        let seconds = |text| mail_date_ns(text).map(|ns| ns / 1_000_000_000);
        assert_eq!(seconds("Sat, 21 Nov 2026 12:31:55 +0000"), Some(1_795_264_315));
        assert_eq!(seconds("Thu, 01 Jan 1970 01:30:00 +0130"), Some(0));
        assert_eq!(seconds("29 Feb 2024 00:00:00 -0500"), Some(1_709_182_800));
        for wrong in
            ["", "Sat", "Sat, 99 Nov 2026 12:00:00", "Sat, 1 Nov 99999999999999 1:1:1", "1 Jan 1970 00:00:00 +9999"]
        {
            assert_eq!(seconds(wrong), None, "{wrong:?}");
        }
    }
}
