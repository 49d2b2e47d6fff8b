// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--shift DIR=TIME`: clocks whose relation is known.

use anyhow::{Context as _, bail};
use kymo_ctf::read::{Correction, Trace};

use super::group::Group;

/// Shifts the times of traces.
pub fn apply(traces: &mut [Trace], groups: &[Group], shifts: &[String]) -> anyhow::Result<()> {
    let mut shifted = Vec::new();
    for text in shifts {
        let (dir, time) = text.rsplit_once('=').with_context(|| {
            format!("--shift {text:?}: write it as DIR=TIME, as in {}=+1.5ms", groups[groups.len() - 1].name())
        })?;
        let offset_ns = nanoseconds(time).with_context(|| {
            format!("--shift {text:?}: {time:?} is no time; write it as +1.5ms or -20us (ns, us, ms, s, min, h)")
        })?;
        let index = find(groups, dir).with_context(|| format!("--shift {text:?}"))?;
        if shifted.contains(&index) {
            bail!("--shift {text:?}: {dir} is shifted already");
        }
        shifted.push(index);
        let correction = Correction { at_ns: 0, offset_ns, drift_ppt: 0 };
        traces[groups[index].traces.clone()].iter_mut().for_each(|trace| trace.correct(correction));
    }
    Ok(())
}

/// The directory that is meant: as it was given, or by the last part of its path.
fn find(groups: &[Group], dir: &str) -> anyhow::Result<usize> {
    let wanted = std::path::Path::new(dir);
    if let Some(index) = groups.iter().position(|group| group.dir == wanted) {
        return Ok(index);
    }
    let is_last = |group: &Group| group.dir.file_name().is_some_and(|name| name == wanted.as_os_str());
    let found: Vec<usize> = (0..groups.len()).filter(|&index| is_last(&groups[index])).collect();
    match found[..] {
        [index] => Ok(index),
        [] => {
            let all: Vec<String> = groups.iter().map(Group::name).collect();
            bail!("{dir} is none of the traces; they are {}", all.join(", "))
        }
        _ => bail!("several of the traces are called {dir}: write the whole path"),
    }
}

/// A time with its unit, to the nanosecond.
fn nanoseconds(text: &str) -> Option<i64> {
    const UNITS: [(&str, u64); 6] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (is_negative, size) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (number, unit) = UNITS.iter().find_map(|(unit, ns)| Some((size.strip_suffix(unit)?, i128::from(*ns))))?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) || number.ends_with('.') {
        return None;
    }
    let mut ns = whole.parse::<i128>().ok()? * unit;
    if !part.is_empty() {
        let scaled = part.parse::<i128>().ok()? * unit;
        let scale = 10i128.pow(part.len() as u32);
        if scaled % scale != 0 {
            return None;
        }
        ns += scaled / scale;
    }
    i64::try_from(if is_negative { -ns } else { ns }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expect) in [
            ("+1.5ms", Some(1_500_000)),
            ("-20us", Some(-20_000)),
            ("7ns", Some(7)),
            ("2min", Some(120_000_000_000)),
            ("-0.000000001s", Some(-1)),
            ("1h", Some(3_600_000_000_000)),
            ("1.5ns", None),
            ("1", None),
            ("ms", None),
            (".5ms", None),
            ("5.ms", None),
            ("+-5ms", None),
            ("--5ms", None),
            ("1e3ms", None),
            ("999999999999999999h", None),
            ("", None),
        ] {
            assert_eq!(nanoseconds(text), expect, "{text}");
        }
    }

    #[test]
    fn directories_are_found_as_given_and_by_their_last_part() {
        let group = |dir: &str| Group { dir: dir.into(), traces: 0..0 };
        let groups = [group("a/one"), group("b/one"), group("/x/two")];
        for (dir, expect) in [("a/one", Some(0)), ("b/one", Some(1)), ("two", Some(2)), ("one", None), ("three", None)]
        {
            assert_eq!(find(&groups, dir).ok(), expect, "{dir}");
        }
    }
}
