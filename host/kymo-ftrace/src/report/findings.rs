// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a report says, and where it cannot be right [D5 of the tuner's rules].

use super::content::{Form, Line, Measures, Report};

/// Places in which a processor idles with interrupts off: it wakes by an interrupt all the same.
const IDLE_PLACES: [&str; 14] = [
    "wait_irqoff",
    "cpu_idle",
    "default_idle",
    "mwait_idle",
    "intel_idle",
    "acpi_idle",
    "poll_idle",
    "cpuidle_enter",
    "do_idle",
    "rcu_idle",
    "arch_cpu_idle",
    "cpu_do_idle",
    "acpi_processor_ffh",
    "sched_clock_idle",
];
/// Ranges in which a gap is looked for beyond what the kernel measured: the clock goes on while it writes, ns.
const SLACK_NS: i64 = 20_000;

/// Why nothing was written for long, where the report has next to no lines.
const NOT_TRACED: &str =
    "functions were not traced; with options/function-trace (or display-graph) on, the report tells what ran";
/// The same where it has many.
const SILENT: &str =
    "a function without calls, an NMI or firmware (SMI), the host of a virtual machine, or the tracer itself";

/// A gap between two lines of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Position of the line before it.
    pub before: usize,
    /// Position of the line behind it.
    pub behind: usize,
    /// ns.
    pub ns: i64,
}

/// What a report says.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// ns: what the kernel measured, or the length of the body where it does not say.
    pub length_ns: u64,
    /// ns from the first line of the body to the last one within what was measured.
    pub body_ns: i64,
    /// Positions of the lines within what was measured: from, up to.
    pub window: (usize, usize),
    /// The largest gaps in it, the largest first.
    pub gaps: Vec<Gap>,
    /// What makes it doubtful, in sentences.
    pub artefacts: Vec<String>,
    /// What the report cannot show, in sentences.
    pub blind: Vec<String>,
}

impl Report {
    /// Looks at what was parsed.
    pub fn findings(&self) -> Findings {
        let window = self.window();
        let body_ns = self.body_ns(window);
        let length_ns = self.latency_us.map_or(body_ns.max(0).unsigned_abs(), |us| us.saturating_mul(1000));
        let gaps = self.gaps(window);
        let artefacts = self.artefacts(window, body_ns);
        let blind = self.blind(&gaps, length_ns);
        Findings { length_ns, body_ns, window, gaps, artefacts, blind }
    }

    /// The lines within what was measured: behind it the tracer writes how it came to its end.
    fn window(&self) -> (usize, usize) {
        let last = self.lines.len();
        let (Some(first), Some(us)) = (self.lines.first(), self.latency_us) else { return (0, last) };
        let us = i64::try_from(us).unwrap_or(i64::MAX);
        let end = first.time.saturating_add(us.saturating_mul(1000)).saturating_add(SLACK_NS);
        let own = |line: &Line| line.function.starts_with("tracer_") || line.function.starts_with("trace_hardirqs_on");
        let inside = |line: &Line| line.time <= end && !(own(line) && line.time > first.time);
        let up_to = self.lines.iter().rposition(inside).map_or(last, |at| at + 1);
        (0, up_to.max(1))
    }

    fn body_ns(&self, (from, up_to): (usize, usize)) -> i64 {
        let times = || self.lines[from..up_to].iter().map(|line| line.time);
        times().max().unwrap_or(0).saturating_sub(times().min().unwrap_or(0))
    }

    /// Between one line and the next of the same CPU: the kernel's own marks compare lines of any CPUs.
    fn gaps(&self, (from, up_to): (usize, usize)) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut last: std::collections::HashMap<Option<u32>, usize> = std::collections::HashMap::new();
        for behind in from..up_to {
            if let Some(before) = last.insert(self.lines[behind].cpu, behind) {
                let ns = self.lines[behind].time.saturating_sub(self.lines[before].time);
                gaps.push(Gap { before, behind, ns });
            }
        }
        gaps.retain(|gap| gap.ns > 0);
        gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.ns), gap.before));
        gaps.truncate(5);
        gaps
    }

    fn artefacts(&self, window: (usize, usize), body_ns: i64) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(self.idle());
        found.extend(self.clock());
        found.extend(self.stacks(window));
        let latency_ns = self.latency_us.and_then(|us| i64::try_from(us).ok()).map(|us| us.saturating_mul(1000));
        if let Some(latency_ns) = latency_ns.filter(|_| self.lines.len() > 1) {
            let apart = latency_ns.abs_diff(body_ns);
            if apart > latency_ns.unsigned_abs() / 10 && apart > 50_000 {
                found.push(format!(
                    "the head says {} us, its lines span {} us: a clock that rolled over, a report that was cut, or \
                     lines written late",
                    latency_ns / 1000,
                    body_ns / 1000
                ));
            }
        }
        if let Some((shown, all)) = self.entries.filter(|(shown, all)| shown < all) {
            found.push(format!("{} of {all} entries were overwritten before the report was read", all - shown));
        }
        if self.form != Form::Absolute && self.entries.is_some_and(|(shown, _)| shown > self.entry_count() + self.odd) {
            found.push("the report has fewer lines than its head says: it was cut".to_owned());
        }
        if self.odd > 0 {
            found.push(format!("{} lines were not understood", self.odd));
        }
        if self.is_cut {
            found.push("the report is longer than is looked at: its end is missing".to_owned());
        }
        let late = self.lines.len() - window.1;
        if late > 2 && self.lines.len() > 8 && self.measures != Measures::Wakeup {
            found.push(format!("{late} lines at its end lie behind what was measured, and are left out"));
        }
        found
    }

    /// Lines and stacks: each is an entry.
    fn entry_count(&self) -> u64 {
        self.lines.iter().map(|line| 1 + u64::from(!line.stack.is_empty())).sum()
    }

    fn idle(&self) -> Option<String> {
        if self.measures == Measures::Wakeup {
            return None;
        }
        let place =
            [&self.started, &self.ended].into_iter().find(|place| IDLE_PLACES.iter().any(|idle| place.contains(idle)));
        let is_idle = self.task.as_ref().is_some_and(|task| task.pid == 0);
        match (place, is_idle) {
            (Some(place), _) => Some(format!(
                "{place} is where the processor idles: it wakes by an interrupt even with interrupts off, so this is \
                 no latency"
            )),
            (None, true) => Some(
                "the idle thread was current: time in which the processor sleeps is no latency; see whether the gap \
                 lies in the idle loop"
                    .to_owned(),
            ),
            (None, false) => None,
        }
    }

    /// To take a stack takes time: within what was measured it is part of it.
    fn stacks(&self, (from, up_to): (usize, usize)) -> Option<String> {
        let took = |line: &Line| line.stack_time.map_or(0, |time| time.saturating_sub(line.time).max(0));
        let worst = self.lines[from..up_to].iter().max_by_key(|line| took(line))?;
        let all: i64 = self.lines[from..up_to].iter().map(took).fold(0, i64::saturating_add);
        let length = self.latency_us.map_or(0, |us| us.saturating_mul(1000));
        (all > 50_000 && all.unsigned_abs() > length / 10).then(|| {
            format!(
                "the tracer itself took {} us to write stacks, {} us of it at line {}: that is counted in what it \
                 measured (options/stacktrace off avoids it)",
                all / 1000,
                took(worst) / 1000,
                worst.number
            )
        })
    }

    fn clock(&self) -> Option<String> {
        let mut newest: std::collections::HashMap<Option<u32>, i64> = std::collections::HashMap::new();
        for line in &self.lines {
            let last = newest.entry(line.cpu).or_insert(line.time);
            if line.time < *last {
                return Some(format!(
                    "time goes back by {} us at line {}: a counter that rolled over, or clocks of two CPUs that differ",
                    (*last - line.time) / 1000,
                    line.number
                ));
            }
            *last = line.time;
        }
        None
    }

    fn blind(&self, gaps: &[Gap], length_ns: u64) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(gap) = gaps.first().filter(|gap| gap.ns.unsigned_abs() > length_ns / 2 && self.form != Form::Graph)
        {
            let few = self.lines.len() < 8;
            found.push(format!(
                "nothing was written for {} us: {}",
                gap.ns / 1000,
                if few { NOT_TRACED } else { SILENT }
            ));
        }
        if self.lines.iter().any(|line| line.function.starts_with("0x")) || self.started.starts_with("0x") {
            found.push("addresses without names: code of a module that was gone; --symbols FILE names them".to_owned());
        }
        found
    }
}
