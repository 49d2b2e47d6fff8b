// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of function_graph: ` 0)  1.234 us  |  function();`, `{` and `}`, with or without absolute time and thread.
//! Without absolute
//! times the durations are summed up.

use std::collections::HashMap;

use super::line::Line;
use crate::Error;

/// Calls that a CPU may be in at a time, in the text.
const DEPTH_MAX: usize = 4096;

/// What is open, by CPU.
#[derive(Default)]
pub struct Graph {
    cpus: HashMap<u32, Cpu>,
    /// Times are sums.
    pub is_summed: bool,
}

#[derive(Default)]
struct Cpu {
    time: u64,
    open: Vec<(String, u64)>,
}

/// Parts of a line.
struct Parts<'l> {
    time: Option<u64>,
    cpu: u32,
    thread: Option<(&'l str, i32)>,
    duration: Option<u64>,
    code: &'l str,
}

/// Whether a line is one of function_graph.
pub fn is_line(text: &str) -> bool {
    parts(text).is_some()
}

fn parts(text: &str) -> Option<Parts<'_>> {
    let mut rest = text.trim_start();
    let mut time = None;
    let begin = rest.split_once('|');
    if let Some((ns, behind)) = begin.and_then(|(first, behind)| Some((super::line::seconds_of(first.trim())?, behind)))
    {
        (time, rest) = (Some(ns), behind.trim_start());
    }
    let (cpu, behind) = rest.split_once(')')?;
    let cpu = cpu.trim().parse().ok().filter(|_| cpu.len() <= 5)?;
    let at = behind.rfind('|')?;
    let (columns, code) = (&behind[..at], behind[at + 1..].trim());
    let mut thread = None;
    let mut duration = None;
    for column in columns.split('|') {
        let column = column.trim();
        let number = column.trim_start_matches(['+', '!', '#', '*', '@', '$', ' ']).strip_suffix("us").map(str::trim);
        if let Some(ns) = number.and_then(us) {
            duration = Some(ns);
        } else if let Some((comm, tid)) = super::line::comm_and_tid(column) {
            thread = Some((comm, tid));
        }
    }
    let is_code = code.ends_with("();") || code.ends_with('{') || code.starts_with('}') || code.starts_with("/*");
    is_code.then_some(Parts { time, cpu, thread, duration, code })
}

/// `1.234` us in ns.
fn us(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let part = format!("{part:0<3}");
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part.get(..3)?.parse().ok()?)
}

impl Graph {
    /// Gives the entries and exits that a line says.
    pub fn line(&mut self, text: &str, take: &mut dyn FnMut(Line<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let Some(parts) = parts(text) else { return Ok(()) };
        self.is_summed |= parts.time.is_none();
        let cpu = self.cpus.entry(parts.cpu).or_default();
        cpu.time = parts.time.unwrap_or(cpu.time).max(cpu.time);
        let (comm, tid) = parts.thread.unwrap_or(("", -1));
        let base = Line { comm, tid, cpu: Some(parts.cpu), system: Some("ftrace"), ..Line::default() };
        let enter = |time, body| Line { time, event: "funcgraph_entry", body, ..base };
        let leave = |time, body| Line { time, event: "funcgraph_exit", body, ..base };
        if let Some(function) = parts.code.strip_suffix("();") {
            take(enter(cpu.time, function))?;
            cpu.time = cpu.time.saturating_add(parts.duration.unwrap_or(0));
            return take(leave(cpu.time, function));
        }
        if let Some(function) = parts.code.strip_suffix("() {") {
            if cpu.open.len() < DEPTH_MAX {
                cpu.open.push((function.to_owned(), cpu.time));
            }
            return take(enter(cpu.time, function));
        }
        if parts.code.starts_with('}') {
            let named =
                parts.code.trim_start_matches(['}', ' ']).trim_start_matches("/*").trim_end_matches("*/").trim();
            let (function, from) = cpu.open.pop().unwrap_or((named.to_owned(), cpu.time));
            // The absolute time of an exit is that of its entry in the oldest kernels; the duration says more.
            let until = parts.duration.map_or(cpu.time, |ns| from.saturating_add(ns));
            cpu.time = if parts.time.is_some() { cpu.time } else { until.max(cpu.time) };
            return take(leave(cpu.time, &function));
        }
        // `/* comment */`: an event or a mark, without a name of its own.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Vec<String> {
        let (mut graph, mut said) = (Graph::default(), Vec::new());
        for line in lines {
            let mut take = |line: Line<'_>| {
                said.push(format!("{} {} {} {}", line.cpu.unwrap_or(9), line.time, &line.event[10..], line.body));
                Ok(())
            };
            graph.line(line, &mut take).unwrap();
        }
        said
    }

    #[test]
    fn durations_become_times() {
        let lines = [" 0)               |  a() {", " 0)   1.250 us    |    b();", " 0) + 12.000 us   |  }"];
        assert_eq!(said(&lines), ["0 0 entry a", "0 0 entry b", "0 1250 exit b", "0 12000 exit a"]);
        let lines = [
            "  10.000001 |   1)  bash-7  |               |  a() {",
            "  10.000009 |   1)  bash-7  | ! 8.000 us | } /* a */",
        ];
        assert_eq!(said(&lines), ["1 10000001000 entry a", "1 10000009000 exit a"]);
    }

    #[test]
    fn other_lines_are_none() {
        for line in ["", "0)", "a) | b();", " 0) | x", "bash-1 [000] 1.000: a: b)"] {
            assert!(!is_line(line), "{line}");
        }
    }
}
