// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report told: a sentence, the largest gaps, the lines that matter with their flags in words.

use super::content::{Line, Measures, Report, Woken};
use super::findings::{Findings, Gap};
use super::flags::in_words;

/// Gaps that are listed.
const GAPS_SHOWN: usize = 3;
/// Frames of the last stack that are shown.
const FRAMES_SHOWN: usize = 12;
/// Characters of what happened on a line.
const TEXT_SHOWN: usize = 100;

impl Report {
    /// The screenful: at most `lines_max` lines of the report. `name` knows better names of places, if any.
    pub fn text(&self, found: &Findings, lines_max: usize, name: &dyn Fn(&str) -> String) -> String {
        let mut text = format!("{}\n{}\n", self.headline(found, name), self.origin());
        for (head, part) in [
            ("the largest gaps on one CPU", self.gaps_text(found, name)),
            ("what happened", self.lines_text(found, lines_max, name)),
            ("how it came there", self.stack_text(name)),
            ("doubtful", list(&found.artefacts)),
            ("not in the report", list(&found.blind)),
        ] {
            if !part.is_empty() {
                text += &format!("\n{head}:\n{part}");
            }
        }
        text
    }

    /// What was measured, how long, of whom, from where to where.
    pub fn headline(&self, found: &Findings, name: &dyn Fn(&str) -> String) -> String {
        let long = us(i64::try_from(found.length_ns).unwrap_or(i64::MAX));
        let on = self.cpu.map_or(String::new(), |cpu| format!(" on cpu {cpu}"));
        let who = self.task.as_ref().map_or_else(
            || self.lines.first().map_or(String::new(), Line::who),
            |task| {
                let comm = if task.comm.is_empty() { "thread " } else { &task.comm };
                format!("{comm}[{}] ({})", task.pid, task.priority())
            },
        );
        let what = match self.measures {
            Measures::Irqs => format!("interrupts were off for {long}{on} under {who}"),
            Measures::Preemption => format!("preemption was off for {long}{on} under {who}"),
            Measures::Either => format!("interrupts or preemption were off for {long}{on} under {who}"),
            Measures::Wakeup => format!("{who} ran {long} after it was woken{on}"),
            Measures::Unsaid => {
                format!("{long}{on} under {who} (interrupts off, preemption off or a wake-up: the report does not say)")
            }
        };
        let place = match (self.started.is_empty(), self.ended.is_empty()) {
            (false, false) => format!(", from {} to {}", name(&self.started), name(&self.ended)),
            _ => String::new(),
        };
        let gap = found.gaps.first().filter(|gap| gap.ns.unsigned_abs() * 5 > found.length_ns);
        let most = gap.map_or(String::new(), |gap| {
            let behind = self.lines.get(gap.before).map_or(String::new(), |line| name(&line.what()));
            format!("; {} of it right after {behind}", us(gap.ns))
        });
        format!("{what}{place}{most}.")
    }

    fn origin(&self) -> String {
        let mut parts = vec![format!("{} report", self.tracer)];
        if !self.kernel.is_empty() {
            parts.push(format!("kernel {}", self.kernel));
        }
        if !self.model.is_empty() {
            parts.push(format!("preemption model {}", self.model));
        }
        parts.extend(self.cpus.map(|cpus| format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })));
        parts.extend(self.entries.map(|(shown, all)| format!("{shown} of {all} entries")));
        parts.join(", ")
    }

    fn gaps_text(&self, found: &Findings, name: &dyn Fn(&str) -> String) -> String {
        let share = |gap: &Gap| 100.0 * gap.ns as f64 / (found.length_ns.max(1)) as f64;
        let line = |gap: &Gap| {
            let (before, behind) = (&self.lines[gap.before], &self.lines[gap.behind]);
            let mark = before.mark.map_or(String::new(), |mark| format!(", marked {mark}: {}", self.mark(mark)));
            format!(
                "  {:>10} {:>5.1} %  {} -> {}  (lines {} and {}{mark})\n",
                us(gap.ns),
                share(gap),
                name(&before.what()),
                name(&behind.what()),
                before.number,
                behind.number
            )
        };
        found.gaps.iter().take(GAPS_SHOWN).map(line).collect()
    }

    /// What the kernel's mark for a gap says.
    fn mark(&self, mark: char) -> &'static str {
        match (mark, self.is_old) {
            ('+', true) => "above 1 us",
            ('+', false) => "above 10 us",
            ('!', _) => "above 100 us",
            ('#', _) => "above 1 ms",
            ('*', _) => "above 10 ms",
            ('@', _) => "above 100 ms",
            _ => "above 1 s",
        }
    }

    fn lines_text(&self, found: &Findings, lines_max: usize, name: &dyn Fn(&str) -> String) -> String {
        let shown = self.chosen(found, lines_max);
        let first = self.lines.first().map_or(0, |line| line.time);
        let widest = shown.iter().filter_map(|&at| self.lines.get(at)).map(|line| line.who().chars().count()).max();
        let mut text = String::new();
        let mut next = shown.first().copied().unwrap_or(0);
        for at in shown {
            let line = &self.lines[at];
            if at > next {
                text += &format!("  {:>10}    ({} more)\n", "", at - next);
            }
            next = at + 1;
            text += &self.line_text(line, first, widest.unwrap_or(0), name);
            let gap = found.gaps.first().filter(|gap| gap.before == at);
            if let Some(gap) = gap {
                text += &format!("  {:>10}    >>> {} without a line on this CPU <<<\n", "", us(gap.ns));
            }
        }
        text
    }

    fn line_text(&self, line: &Line, first: i64, widest: usize, name: &dyn Fn(&str) -> String) -> String {
        let cpu = line.cpu.map_or(String::new(), |cpu| cpu.to_string());
        let caller = if line.caller.is_empty() { String::new() } else { format!(" from {}", name(&line.caller)) };
        let took = line.took.map_or(String::new(), |took| format!(", {:.3} us", took as f64 / 1000.0));
        let what = format!("{}{caller}{took}", name(&line.what()));
        let what: String = what.chars().take(TEXT_SHOWN).collect();
        let at = us(line.time.saturating_sub(first));
        let flags = in_words(&self.columns, &line.flags);
        format!("  {:>10} {cpu:>2} {:<widest$}  {what}  [{flags}]\n", format!("+{at}"), line.who())
    }

    /// The lines that matter: those at gaps, the first and the last ones.
    fn chosen(&self, found: &Findings, lines_max: usize) -> Vec<usize> {
        let (from, up_to) = found.window;
        let gaps = found.gaps.iter().flat_map(|gap| [gap.before, gap.behind]);
        let ends = (0..self.lines.len()).flat_map(|step| [from + step, up_to.saturating_sub(step + 1)]);
        let first_and_last = [from, up_to.saturating_sub(1)];
        let woken = (from..up_to).filter(|&at| self.lines[at].woken.is_some());
        let mut chosen: Vec<usize> = Vec::new();
        for at in first_and_last.into_iter().chain(woken).chain(gaps).chain(ends) {
            if chosen.len() >= lines_max {
                break;
            }
            if at >= from && at < up_to && !chosen.contains(&at) {
                chosen.push(at);
            }
        }
        chosen.sort_unstable();
        chosen
    }

    /// The stack that was printed last: how the code came to the end of what was measured.
    fn stack_text(&self, name: &dyn Fn(&str) -> String) -> String {
        let Some(line) = self.lines.iter().rev().find(|line| !line.stack.is_empty()) else { return String::new() };
        let shown: String = line.stack.iter().take(FRAMES_SHOWN).map(|frame| format!("  {}\n", name(frame))).collect();
        let rest = line.stack.len().saturating_sub(FRAMES_SHOWN);
        if rest > 0 { shown + &format!("  ({rest} more)\n") } else { shown }
    }
}

impl Line {
    /// What happened, with wake-ups and switches in words.
    pub fn what(&self) -> String {
        match (&self.woken, self.function.is_empty()) {
            (Some(woken), _) => woken.text(),
            (None, false) => self.function.clone(),
            (None, true) => self.text.clone(),
        }
    }

    fn who(&self) -> String {
        match self.pid {
            Some(0) => "idle".to_owned(),
            Some(pid) => format!("{}[{pid}]", self.comm),
            None => self.comm.clone(),
        }
    }
}

impl Woken {
    fn text(&self) -> String {
        let other = format!("{}[{}] ({})", self.comm, self.to.0, priority(self.to.1));
        let own = format!("{} ({})", self.from.0, priority(self.from.1));
        match self.is_switch {
            true => format!("switch from {own}, which {}, to {other}", state(self.state)),
            false => format!("{own} wakes {other}"),
        }
    }
}

/// The kernel's letter of a thread that leaves.
fn state(letter: char) -> &'static str {
    match letter {
        'R' => "could go on",
        'D' => "sleeps uninterruptibly",
        'T' | 't' => "is stopped",
        'X' | 'Z' => "ends",
        _ => "sleeps",
    }
}

fn priority(prio: i16) -> String {
    match prio {
        ..0 => "deadline".to_owned(),
        0..100 => format!("rt {}", 99 - prio),
        _ => format!("nice {}", i32::from(prio) - 120),
    }
}

fn us(ns: i64) -> String {
    format!("{} us", ns / 1000)
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}\n")).collect()
}
