// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts, sizes, paths and process ids as people read them.

use std::path::Path;

/// `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.2 M`: three digits or so.
pub fn short(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{:.2} G", value / 1e9),
        _ if value >= 1e6 => format!("{:.2} M", value / 1e6),
        _ if value >= 1e4 => format!("{:.1} k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

/// `4 MiB`, `1.5 GiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len() - 1).find(|unit| value < 1 << (10 * (unit + 1))).unwrap_or(UNITS.len() - 1);
    let scaled = value as f64 / (1u64 << (10 * unit)) as f64;
    let digits = if scaled.fract() == 0.0 || scaled >= 100.0 { 0 } else { 1 };
    format!("{scaled:.digits$} {}", UNITS[unit])
}

/// `4M`, `64K`: as options take it.
pub fn size(value: u64) -> String {
    let unit = [(30, "G"), (20, "M"), (10, "K")].into_iter().find(|(shift, _)| value > 0 && value % (1 << shift) == 0);
    unit.map_or_else(|| value.to_string(), |(shift, letter)| format!("{}{letter}", value >> shift))
}

/// `1 program`, `2 programs`, `2 processes`.
pub fn plural(value: u64, noun: &str) -> String {
    let ending = if noun.ends_with('s') { "es" } else { "s" };
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { ending })
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-+=:@,".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A process id, and the one by which the process knows itself where that differs: 0 is one that is not seen from here.
pub fn ids(pid: u64, vpid: u64) -> String {
    match pid {
        0 => format!("{vpid} inside"),
        _ if pid == vpid => pid.to_string(),
        _ => format!("{pid}, {vpid} inside"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(["0", "4095", "4K", "64M", "1G"], [0, 4095, 4096, 64 << 20, 1 << 30].map(size)[..]);
        assert_eq!(bytes(4 << 20), "4 MiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
        assert_eq!(plural(2, "process"), "2 processes");
        assert_eq!(quoted(Path::new("a b")), "'a b'");
    }
}
