// SPDX-License-Identifier: MIT OR Apache-2.0
//! XML of rteval (summary.xml): statistics and histogram of each core, as cyclictest or timerlat measured it, and the
//! system.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::json;

use crate::{Record, Severity};

use super::build::{Draft, caveat, check_series, finish, interrupted};
use super::format::Fault;

/// Elements within each other that are followed.
const DEPTH_MAX: usize = 64;
/// Bytes of an element's text that are kept.
const TEXT_MAX: usize = 64 << 10;

pub(super) fn is_rteval(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|part| part == b"<rteval")
}

#[derive(Default)]
struct RtevalXml {
    path: Vec<String>,
    text: String,
    /// Name of the measurement that we are in.
    name: &'static str,
    cores: Vec<Draft>,
    systems: Vec<Draft>,
    unit_ns: u64,
}

pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let mut record = Record::new("rteval", "eval");
    record.method = "rteval ran loads, and beside them cyclictest or rtla timerlat".to_owned();
    let mut found = RtevalXml { unit_ns: 1_000, ..RtevalXml::default() };
    let mut xml = Reader::from_reader(bytes);
    let (mut seen, mut line) = (0, 1);
    let is_cut = loop {
        let end = usize::try_from(xml.buffer_position()).unwrap_or(seen).clamp(seen, bytes.len());
        line += newlines(&bytes[seen..end]);
        seen = end;
        match xml.read_event() {
            Ok(Event::Eof) => break !found.path.is_empty(),
            Ok(event) => found.event(&mut record, event, line)?,
            // A tag or comment without end can only be the last.
            Err(quick_xml::Error::Syntax(_)) => break true,
            Err(error) => return Err(Fault::new(line, error.to_string())),
        }
    };
    let lines = newlines(bytes) + 1;
    if is_cut {
        interrupted(&mut record, lines, "the end of its elements");
    }
    let drafts = if found.cores.iter().any(|core| !core.is_empty()) { found.cores } else { found.systems };
    finish(record, drafts, lines)
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

impl RtevalXml {
    fn event(&mut self, record: &mut Record, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::Start(tag) => self.start(record, &tag, line)?,
            Event::Empty(tag) => {
                self.start(record, &tag, line)?;
                self.end(record);
            }
            Event::Text(text) if self.text.len() < TEXT_MAX => {
                let kept = &text[..text.len().min(TEXT_MAX - self.text.len())];
                self.text.push_str(String::from_utf8_lossy(kept).trim());
            }
            Event::End(_) => self.end(record),
            _ => (),
        }
        Ok(())
    }

    fn start(&mut self, record: &mut Record, tag: &BytesStart<'_>, line: usize) -> Result<(), Fault> {
        if self.path.len() >= DEPTH_MAX {
            return Err(Fault::new(line, format!("more than {DEPTH_MAX} elements within each other")));
        }
        let name = String::from_utf8_lossy(tag.name().as_ref()).into_owned();
        self.text.clear();
        let value = |key: &str| attribute(tag, key);
        match name.as_str() {
            "rteval" => record.version = value("version").unwrap_or_default(),
            "run_info" => record.duration_s = duration(tag),
            "kernel" => {
                let is_rt = value("is_RT").map(|text| !matches!(text.as_str(), "0" | "" | "False"));
                record.environment.extend(is_rt.map(|is_rt| ("kernel.realtime".to_owned(), json!(is_rt))));
            }
            "cyclictest" | "timerlat" if self.parent() == Some("Measurements") => {
                self.measurement(record, &name, value("command_line"))
            }
            "core" => self.open(line, value("id").and_then(|id| id.parse().ok()), false)?,
            "system" if self.is_measured() => self.open(line, None, true)?,
            "minimum" if value("unit").as_deref() == Some("ns") => self.unit_ns = 1,
            "bucket" => self.bucket(value("index"), value("value")),
            "abort_report" => {
                let text = format!("rteval stopped: {}", value("reason").unwrap_or_default());
                caveat(
                    record,
                    "stopped-at-threshold",
                    Severity::Info,
                    &text,
                    "for the worst case run it without a threshold",
                );
            }
            _ => (),
        }
        self.path.push(name);
        Ok(())
    }

    fn parent(&self) -> Option<&str> {
        self.path.last().map(String::as_str)
    }

    fn is_measured(&self) -> bool {
        self.path.iter().any(|name| name == "Measurements")
    }

    fn measurement(&mut self, record: &mut Record, name: &str, command: Option<String>) {
        self.name = if name == "timerlat" { "timerlat" } else { "wakeup" };
        if let Some(command) = command {
            record.options.insert(format!("{name}_command_line"), json!(command));
        }
        if name == "timerlat" {
            let text = "rteval counts a CPU's latencies of interrupt, thread and return to user space in one histogram: its mean and quantiles are of a mixture";
            caveat(
                record,
                "mixed-samples",
                Severity::High,
                text,
                "compare it with other runs of rteval timerlat only, or run rtla timerlat hist",
            );
        }
    }

    fn open(&mut self, line: usize, cpu: Option<u32>, is_system: bool) -> Result<(), Fault> {
        check_series(self.cores.len() + self.systems.len() + 1, line)?;
        let mut draft = Draft::new(if self.name.is_empty() { "wakeup" } else { self.name }, self.unit_ns);
        draft.series.cpu = cpu;
        if is_system {
            self.systems.push(draft)
        } else {
            self.cores.push(draft)
        }
        Ok(())
    }

    /// The series of the element that we are in.
    fn current(&mut self) -> Option<&mut Draft> {
        match self.path.iter().rev().find(|name| matches!(name.as_str(), "core" | "system"))?.as_str() {
            "core" => self.cores.last_mut(),
            _ => self.systems.last_mut(),
        }
    }

    fn bucket(&mut self, index: Option<String>, value: Option<String>) {
        let unit_ns = self.unit_ns;
        let parse = |text: Option<String>| text.and_then(|text| text.trim().parse::<u64>().ok());
        if let (Some(index), Some(count), Some(draft)) = (parse(index), parse(value), self.current()) {
            draft.bucket(index.saturating_mul(unit_ns), count);
        }
    }

    fn end(&mut self, record: &mut Record) {
        let unit_ns = self.unit_ns;
        let text = std::mem::take(&mut self.text);
        let Some(name) = self.path.last().cloned() else { return };
        let ns = text
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite() && *value >= 0.0)
            .map(|value| value * unit_ns as f64);
        if self.path.iter().any(|name| name == "statistics") {
            if let Some(draft) = self.current() {
                statistic(draft, &name, &text, ns);
            }
        } else if let Some(key) = environment_key(&name, self.path.iter().rev().nth(1).map(String::as_str)) {
            record.environment.insert(key.to_owned(), json!(text));
        }
        self.path.pop();
    }
}

/// Our name [spec/lab.md 9] of an element, by its own and its parent's.
fn environment_key(name: &str, parent: Option<&str>) -> Option<&'static str> {
    match (parent?, name) {
        ("uname", "kernel") => Some("kernel.release"),
        ("uname", "arch") => Some("machine"),
        ("uname", "node") => Some("host"),
        ("cmdlineInfo", "cmdline") => Some("kernel.command_line"),
        _ => None,
    }
}

fn statistic(draft: &mut Draft, name: &str, text: &str, ns: Option<f64>) {
    let series = &mut draft.series;
    match name {
        "samples" => draft.taken = text.parse().ok(),
        "minimum" => series.min = ns.map(|ns| ns as u64),
        "maximum" => series.max = ns.map(|ns| ns as u64),
        "mean" => series.mean = ns,
        "standard_deviation" => series.std = ns,
        _ => (),
    }
}

fn attribute(tag: &BytesStart<'_>, key: &str) -> Option<String> {
    let attribute = tag.try_get_attribute(key).ok()??;
    let raw = String::from_utf8_lossy(&attribute.value).into_owned();
    Some(quick_xml::escape::unescape(&raw).map_or_else(|_| raw.clone(), |text| text.into_owned()))
}

fn duration(tag: &BytesStart<'_>) -> Option<f64> {
    let part = |key: &str| attribute(tag, key).and_then(|text| text.parse::<f64>().ok());
    Some(part("days")? * 86_400.0 + part("hours")? * 3_600.0 + part("minutes")? * 60.0 + part("seconds")?)
}
