// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's log, as `dmesg` prints it [spec/exchange.md 3]: each line is a record `printk_console`, with the time
//! since boot that it has. Does not read the times of day of `dmesg --ctime`: they have no fractions of a second.

use kymo_ctf::write::{EnvValue, EventClass, Field, FieldClass};
use serde_json::json;

use super::format::{Format, Task};
use super::imported::{Imported, WATCH_RECORDS, look};
use super::trace::{Clock, TraceWriter, push_head, tracer_env};
use crate::Error;

pub const FORMAT: Format = Format {
    name: "kernel log",
    about: "dmesg, dmesg --raw",
    is_marked: false,
    is: |bytes| lines(bytes).find(|text| !text.trim().is_empty()).is_some_and(|text| parse(&text).is_some()),
    import,
    probe: |bytes| {
        lines(bytes).filter(|text| parse(text).is_some()).count();
    },
};

/// Id of the only event.
const CONSOLE: u16 = 1;

/// A line of the log.
#[derive(Debug, PartialEq)]
struct KlogLine<'t> {
    /// Nanoseconds since boot.
    time: u64,
    /// Who printed it, where the kernel tells (CONFIG_PRINTK_CALLER).
    tid: Option<i32>,
    cpu: Option<u32>,
    message: &'t str,
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)))
}

/// `<6>[   12.345678][  T123] message`; the level and the caller may be missing.
fn parse(text: &str) -> Option<KlogLine<'_>> {
    let unleveled = match text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((level, rest)) if level.parse::<u16>().is_ok() => rest,
        _ => text,
    };
    let (time, mut rest) = unleveled.strip_prefix('[')?.split_once(']')?;
    let (seconds, micros) = time.trim_start().split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    let time = ns.checked_add(micros.parse::<u64>().ok()? * 1_000)?;
    let (mut tid, mut cpu) = (None, None);
    if let Some((caller, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let caller = caller.trim_start();
        tid = caller.strip_prefix('T').and_then(|number| number.parse().ok());
        cpu = caller.strip_prefix('C').and_then(|number| number.parse().ok());
        if tid.is_some() || cpu.is_some() {
            rest = behind;
        }
    }
    Some(KlogLine { time, tid, cpu, message: rest.strip_prefix(' ').unwrap_or(rest) })
}

fn import(task: &Task<'_>) -> Result<Imported, Error> {
    let mut imported = Imported::default();
    let mut writer = TraceWriter::create(task.dir, &task.bytes[..task.bytes.len().min(1 << 16)])?;
    let texts: Vec<_> = lines(task.bytes).filter(|text| !text.trim().is_empty()).collect();
    let mut parsed: Vec<KlogLine<'_>> = texts.iter().filter_map(|text| parse(text)).collect();
    imported.leave_out("lines without a time", (texts.len() - parsed.len()) as u64);
    // CPUs take their time before they write their line: the order of the log is not always that of time.
    parsed.sort_by_key(|line| line.time);
    let mut record = Vec::new();
    let lines = parsed.len() as f64;
    for (at, line) in parsed.into_iter().enumerate() {
        if writer.records % WATCH_RECORDS == 0 {
            look(task.goes_on, writer.records, at as f64 / lines)?;
        }
        record.clear();
        push_head(&mut record, CONSOLE, line.time, line.tid.unwrap_or(-1), 0, 0);
        record.extend(line.message.bytes().filter(|byte| *byte != 0));
        record.push(0);
        writer.records((0, line.cpu.unwrap_or(u32::MAX)), &record, 1, line.time, line.time)?;
    }
    if writer.records == 0 {
        return Err(Error::Nothing("no line of the log has a time".to_owned()));
    }
    let msg = Field { name: "msg".to_owned(), class: FieldClass::CString };
    let name = "printk_console".to_owned();
    writer.events.push(EventClass { id: CONSOLE, name, file: String::new(), line: 0, fields: vec![msg] });
    (imported.records, imported.lost) = (writer.records, writer.lost);
    let mut env = vec![("domain".to_owned(), EnvValue::Text("kernel".to_owned()))];
    env.extend(tracer_env());
    let clock = Clock { name: "boot".to_owned(), frequency_hz: 1_000_000_000, offset_ns: 0, absolute: false };
    writer.finish(&clock, env, &json!({ "source": task.source, "format": task.format }))?;
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_level_and_caller() {
        let line = |time, tid, cpu, message| Some(KlogLine { time, tid, cpu, message });
        for (text, expect) in [
            ("[    0.000000] Linux version 6.1", line(0, None, None, "Linux version 6.1")),
            ("<6>[   12.345678] usb 1-1: new", line(12_345_678_000, None, None, "usb 1-1: new")),
            ("[    1.000002][  T123] a [b] c", line(1_000_002_000, Some(123), None, "a [b] c")),
            ("[    1.000002][    C1] late", line(1_000_002_000, None, Some(1), "late")),
            ("[    1.000002] [drm] ready", line(1_000_002_000, None, None, "[drm] ready")),
            ("[Mon Nov 23 10:00:00 2026] x", None),
            ("[    1.00000] x", None),
            ("[99999999999999999999.000000] x", None),
            ("[18446744073.999999] x", None),
            ("    indented", None),
        ] {
            assert_eq!(parse(text), expect, "{text}");
        }
    }
}
