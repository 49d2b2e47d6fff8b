// SPDX-License-Identifier: MIT OR Apache-2.0
//! Days and moments as texts, in UTC.

/// A day, ns.
pub const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// `YYYY-MM-DD` of days since 1970, by the rule that holds for all years (Gregorian, also before it was).
pub fn day_text(days: i128) -> String {
    // Years are counted from March, so that the leap day is the last one of its year; 400 years have 146097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970 of `YYYY-MM-DD`; none of another text.
pub fn day_number(text: &str) -> Option<i64> {
    // A year has 365.2425 days: the day is near, and its text tells which it is.
    let mut parts = text.rsplitn(3, '-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let (day, month, year): (i64, i64, i64) = (day.parse().ok()?, month.parse().ok()?, year.parse().ok()?);
    let near = year.checked_sub(1970)?.checked_mul(146_097)?.div_euclid(400) + (month - 1) * 30 + day;
    (near - 5..near + 10).find(|days| day_text(i128::from(*days)) == text)
}

/// `YYYY-MM-DDTHH:MM:SSZ` of seconds since 1970.
pub fn moment_text(seconds: i64) -> String {
    let of_day = seconds.rem_euclid(86_400);
    let day = day_text(i128::from(seconds.div_euclid(86_400)));
    format!("{day}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::{day_number, day_text, moment_text};

    #[test]
    fn days_have_their_names() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (20_778, "2026-11-21"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(day_text(days), text, "{days}");
        }
        for days in (-800_000..800_000).step_by(7) {
            assert_eq!(day_number(&day_text(days.into())), Some(days), "{days}");
        }
        for text in ["2026-11", "2026-02-30", "x-01-01", "", "2026-11-27 "] {
            assert_eq!(day_number(text), None, "{text}");
        }
        assert_eq!(moment_text(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(moment_text(-1), "1969-12-31T23:59:59Z");
    }
}
