// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of ftrace and of `perf script` [spec/exchange.md 3]: `line` reads one line, `graph` those of function_graph,
//! `fields` what is
//! behind the event's name, `classes` puts records together. The text is gone through twice: first for the kinds of
//! fields.

mod classes;
mod fields;
mod graph;
mod line;

use std::cell::Cell;

use kymo_ctf::write::EnvValue;
use serde_json::json;

use self::classes::{Classes, Sample};
use self::graph::Graph;
use self::line::Line;
use super::format::{Format, Task};
use super::imported::{Imported, WATCH_RECORDS, look};
use super::trace::{Clock, TraceWriter, tracer_env};
use crate::Error;

/// Lines in which a format is looked for.
const LOOKED_MAX: usize = 400;

/// Bytes of a line; what is longer is not one.
const LINE_BYTES_MAX: usize = 1 << 20;

/// An address on the line of the sample itself has at least so many digits: other text begins with short words.
const INLINE_DIGITS: usize = 4;

/// Frames of a call chain.
const FRAMES_MAX: usize = 4096;

/// Text of ftrace, or of `trace-cmd report`.
pub const FTRACE: Format = Format {
    name: "ftrace text",
    about: "trace, trace_pipe, trace-cmd report",
    is_marked: false,
    is: |bytes| is_perf(bytes) == Some(false),
    import,
    probe,
};

/// Text of `perf script`.
pub const PERF_SCRIPT: Format = Format {
    name: "perf script",
    about: "text",
    is_marked: false,
    is: |bytes| is_perf(bytes) == Some(true),
    import,
    // The same parser: once is enough.
    probe: |_| {},
};

/// Which of both texts it is, by the first line that is one of theirs.
fn is_perf(bytes: &[u8]) -> Option<bool> {
    let mut lines = lines(bytes).take(LOOKED_MAX);
    lines.find_map(|text| {
        if text.starts_with("# tracer:") || graph::is_line(&text) {
            return Some(false);
        }
        line::parse(&text).map(|line| line.is_perf)
    })
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    bytes.split(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        String::from_utf8_lossy(if line.len() > LINE_BYTES_MAX { &[] } else { line })
    })
}

/// Makes a trace of the text.
fn import(task: &Task<'_>) -> Result<Imported, Error> {
    let about = json!({ "source": task.source, "format": task.format });
    let env = vec![("domain".to_owned(), EnvValue::Text("kernel".to_owned()))];
    write(task, task.bytes, Imported::default(), Origin { env, about })
}

/// What a trace says of where it came from.
pub struct Origin {
    pub env: Vec<(String, EnvValue)>,
    pub about: serde_json::Value,
}

/// Makes the trace of a task of lines of text.
pub fn write(task: &Task<'_>, text: &[u8], mut imported: Imported, origin: Origin) -> Result<Imported, Error> {
    let mut classes = Classes::default();
    // It is read twice: first for the classes.
    let share = |pass: f64, at: usize| (pass + at as f64 / text.len().max(1) as f64) / 2.0;
    let mut seen = 0;
    walk(text, &mut Imported::default(), &mut |sample| {
        classes.learn(&sample);
        seen += 1;
        if seen % WATCH_RECORDS == 0 { look(task.goes_on, 0, share(0.0, sample.at)) } else { Ok(()) }
    })?;
    let mut writer = TraceWriter::create(task.dir, &text[..text.len().min(1 << 16)])?;
    let mut record = Vec::new();
    let mut names = std::collections::BTreeMap::new();
    walk(text, &mut imported, &mut |sample| {
        let key = (0, sample.line.cpu.unwrap_or(u32::MAX));
        if sample.lost > 0 {
            return writer.lost(key, sample.lost, sample.line.time);
        }
        if writer.records % WATCH_RECORDS == 0 {
            look(task.goes_on, writer.records, share(1.0, sample.at))?;
        }
        record.clear();
        classes.record(&sample, &mut record);
        if sample.line.comm != "<...>" && !sample.line.comm.is_empty() && sample.line.tid > 0 {
            names.entry(sample.line.tid as u32).or_insert_with(|| sample.line.comm.to_owned());
        }
        writer.records(key, &record, 1, sample.line.time, sample.line.time)
    })?;
    writer.events = classes.events();
    writer.thread_names(names.iter().map(|(tid, name)| (*tid, name.as_str())))?;
    if writer.records == 0 {
        return Err(Error::Nothing("no line of the text is a record that kymo can read".to_owned()));
    }
    (imported.records, imported.lost) = (writer.records, writer.lost);
    let mut env = origin.env;
    env.extend(tracer_env());
    let clock = Clock { name: "text".to_owned(), frequency_hz: 1_000_000_000, offset_ns: 0, absolute: false };
    writer.finish(&clock, env, &origin.about)?;
    Ok(imported)
}

/// Gives each record of the text to `take`, in the order of the text; tells of what was none.
fn walk(
    bytes: &[u8],
    imported: &mut Imported,
    take: &mut dyn FnMut(Sample<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut graph = Graph::default();
    let at = Cell::new(0);
    let mut lines = lines(bytes).inspect(|line| at.set(at.get() + line.len() + 1)).peekable();
    let (mut lost, mut other) = (0, 0u64);
    let mut chain: Vec<(u64, String)> = Vec::new();
    while let Some(text) = lines.next() {
        if is_silent(&text) {
            continue;
        }
        if let Some(count) = lost_count(&text) {
            lost += count;
            continue;
        }
        if let Some(line) = line::parse(&text) {
            chain.clear();
            while let Some(frame) = lines.next_if(|next| line.is_perf && is_frame(next)) {
                if let (true, Some(frame)) = (chain.len() < FRAMES_MAX, frame_of(&frame, 1)) {
                    chain.push(frame);
                }
            }
            if line.is_perf && chain.is_empty() {
                chain.extend(frame_of(line.body, INLINE_DIGITS).filter(|_| !line.body.is_empty()));
            }
            if lost > 0 {
                take(Sample {
                    line: Line { body: "", event: "", ..line },
                    chain: &[],
                    lost: std::mem::take(&mut lost),
                    at: at.get(),
                })?;
            }
            take(Sample { line, chain: &chain, lost: 0, at: at.get() })?;
        } else if graph::is_line(&text) {
            graph.line(&text, &mut |line| take(Sample { line, chain: &[], lost: 0, at: at.get() }))?;
        } else {
            if other == 0 {
                imported
                    .note(format!("the first line that is no record: {:?}", text.chars().take(80).collect::<String>()));
            }
            other += 1;
        }
    }
    if graph.is_summed {
        imported.note("function_graph without absolute times: times are sums of durations, each CPU from 0");
    }
    imported.leave_out("lines that are no records", other);
    Ok(())
}

/// Lines that say nothing of what happened.
fn is_silent(text: &str) -> bool {
    let text = text.trim();
    text.is_empty()
        || text.starts_with('#')
        || text.starts_with("cpus=")
        || text == "-------------------"
        || text.starts_with("version = ")
}

/// `CPU:1 [LOST 123 EVENTS]`.
fn lost_count(text: &str) -> Option<u64> {
    let rest = text.trim_start().strip_prefix("CPU:")?.split_once("[LOST ")?.1;
    Some(rest.split_once(' ').and_then(|(count, _)| count.parse().ok()).unwrap_or(1))
}

/// A line of a call chain: indented, an address, a symbol.
fn is_frame(text: &str) -> bool {
    text.starts_with([' ', '\t']) && frame_of(text, 1).is_some()
}

/// An address of at least so many digits, its symbol, its module in brackets.
fn frame_of(text: &str, digits: usize) -> Option<(u64, String)> {
    let (address, rest) = text.trim().split_once(' ')?;
    let is_address = address.len() >= digits && rest.contains(" (") && rest.ends_with(')');
    let address = u64::from_str_radix(address, 16).ok().filter(|_| is_address)?;
    Some((address, rest.trim().replace(';', ":")))
}

/// Both parsers over any bytes, without a file: for fuzzing and its bounded twin.
fn probe(bytes: &[u8]) {
    let mut classes = Classes::default();
    let mut imported = Imported::default();
    let mut record = Vec::new();
    // No sample is refused here.
    let _ = walk(bytes, &mut imported, &mut |sample| {
        classes.learn(&sample);
        Ok(())
    });
    let _ = walk(bytes, &mut imported, &mut |sample| {
        record.clear();
        if sample.lost == 0 {
            classes.record(&sample, &mut record);
        }
        Ok(())
    });
    let _ = classes.events();
}
