// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes and times as people write them.

use std::time::Duration;

/// `4M` and the like, in bytes; K, M, G and T are powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.trim().trim_end_matches(['B', 'b']).trim_end_matches(['i']) {
        text if text.ends_with(['K', 'k']) => (&text[..text.len() - 1], 1 << 10),
        text if text.ends_with(['M', 'm']) => (&text[..text.len() - 1], 1 << 20),
        text if text.ends_with(['G', 'g']) => (&text[..text.len() - 1], 1 << 30),
        text if text.ends_with(['T', 't']) => (&text[..text.len() - 1], 1 << 40),
        text => (text, 1),
    };
    let number: u64 = digits.trim().parse().map_err(|_| "give a number with K, M or G, such as 4M".to_owned())?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(|| "out of range".to_owned())
}

/// `10s`, `500ms`, `2m`, `1h`, `1.5s`; a number alone is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let seconds = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("give a time such as 500ms, 10s, 2m or 1h".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "give a time such as 500ms, 10s, 2m or 1h".to_owned())?;
    Duration::try_from_secs_f64(number * seconds)
        .ok()
        .filter(|time| !time.is_zero() && *time < Duration::from_secs(10 * 365 * 86_400))
        .ok_or_else(|| "out of range".to_owned())
}

/// CPUs as in `0-3,6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(pub Vec<u32>);

/// Reads a list of CPUs; ascending, each once.
pub fn cpus(text: &str) -> Result<Cpus, String> {
    let bad = || "give CPUs such as 0-3,6".to_owned();
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if first > last || last >= 1 << 16 {
            return Err(bad());
        }
        list.extend(first..=last);
    }
    list.sort_unstable();
    list.dedup();
    Ok(Cpus(list))
}

/// 1 GiB, or a quarter of the machine's memory if that is less.
pub fn default_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_ascii_whitespace().next()?.parse::<u64>().ok());
    total.map_or(1 << 30, |kib| (kib * 1024 / 4).min(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpus("3,0-2,1"), Ok(Cpus(vec![0, 1, 2, 3])));
        for bad in ["", "x", "3-1", "1-", "0-999999999", "1,,2"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        let check = |text, expect| assert_eq!(bytes(text).ok(), expect, "{text}");
        check("4M", Some(4 << 20));
        check("64k", Some(64 << 10));
        check("1GiB", Some(1 << 30));
        check("4096", Some(4096));
        check("0", None);
        check("", None);
        check("x", None);
        check("-1", None);
        check("99999999999999999999G", None);
        check("18446744073709551615K", None);
    }

    #[test]
    fn times() {
        let check =
            |text, expect: Option<u64>| assert_eq!(duration(text).ok(), expect.map(Duration::from_millis), "{text}");
        check("10s", Some(10_000));
        check("500ms", Some(500));
        check("2m", Some(120_000));
        check("1.5", Some(1500));
        check("1h", Some(3_600_000));
        check("0s", None);
        check("s", None);
        check("1e9h", None);
        check("9999999999999h", None);
        check("5 parsecs", None);
    }
}
