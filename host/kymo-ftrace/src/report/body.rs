// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of a body.

use super::content::{Form, Line, Report, Woken};

/// Lines of a body that are kept.
const LINES_MAX: usize = 1 << 20;

/// Frames of a stack that are kept.
const FRAMES_MAX: usize = 128;

pub(super) fn read(text: &str, report: &mut Report) {
    for (index, line) in text.lines().enumerate() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with('#') || bare.starts_with("vim:") {
            continue;
        }
        if let Some(frame) = bare.strip_prefix("=> ") {
            push_frame(report, frame);
            continue;
        }
        if report.lines.len() >= LINES_MAX {
            report.is_cut = true;
            return;
        }
        let found = match report.form {
            Form::Graph => graph(bare).or_else(|| latency(bare)),
            Form::Absolute => absolute(bare).or_else(|| latency(bare)),
            Form::Latency => latency(bare),
        };
        match found {
            Some(found) if found.text == "<stack trace>" && !report.lines.is_empty() => {
                report.lines.last_mut().into_iter().for_each(|last| last.stack_time = Some(found.time));
            }
            Some(found) => report.lines.push(Line { number: index + 1, ..found }),
            // Old heads have no `#`.
            None => report.odd += u64::from(!report.lines.is_empty()),
        }
    }
}

fn push_frame(report: &mut Report, frame: &str) {
    if let Some(last) = report.lines.last_mut().filter(|last| last.stack.len() < FRAMES_MAX) {
        last.stack.push(frame.trim().to_owned());
    }
}

/// `irq_test-114       1d.... 20078us+: function <-caller`.
fn latency(line: &str) -> Option<Line> {
    let (at, mark, text) = time_of(line)?;
    let before = line[..at].trim_end();
    let (before, digits) = before.rsplit_once(char::is_whitespace)?;
    let (task, place) = before.trim_end().rsplit_once(char::is_whitespace)?;
    let split = place.find(|c: char| !c.is_ascii_digit()).unwrap_or(place.len());
    let (comm, pid) = task_of(task)?;
    let found = Line {
        comm,
        pid,
        cpu: Some(place[..split].parse().ok()?),
        flags: place[split..].chars().take(16).collect(),
        time: digits.parse::<i64>().ok()?.checked_mul(1000)?,
        mark,
        ..Line::default()
    };
    Some(told(found, text))
}

/// Where the unit of the time begins, the mark behind it, and the rest of the line.
fn time_of(line: &str) -> Option<(usize, Option<char>, &str)> {
    for (at, _) in line.match_indices("us") {
        let is_number = line[..at].ends_with(|c: char| c.is_ascii_digit());
        let rest = &line[at + 2..];
        let mark = rest.chars().next().filter(|c| "+!#*@$ ".contains(*c));
        let rest = mark.map_or(rest, |mark| &rest[mark.len_utf8()..]);
        if let (true, Some(text)) = (is_number, rest.strip_prefix(':')) {
            return Some((at, mark.filter(|mark| *mark != ' '), text.trim()));
        }
    }
    None
}

/// `hackbench-79      [001] d..1.    44.922973: function <-caller`.
fn absolute(line: &str) -> Option<Line> {
    let (task, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once(']')?;
    let (head, text) = rest.split_once(": ")?;
    let mut words = head.split_whitespace();
    let (first, second) = (words.next()?, words.next());
    let (flags, time) = second.map_or(("", first), |time| (first, time));
    let (comm, pid) = task_of(task)?;
    let flags = flags.chars().take(16).collect();
    let found = Line { comm, pid, cpu: cpu.parse().ok(), flags, time: seconds(time)?, ..Line::default() };
    Some(told(found, text.trim()))
}

/// `44.922973` in ns.
fn seconds(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.')?;
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part: i64 = format!("{part:0<9}").parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

/// `0 us |   0)   bash-1507    |  d..1 |   0.378 us    |    function();`.
fn graph(line: &str) -> Option<Line> {
    let parts: Vec<&str> = line.splitn(6, '|').map(str::trim).collect();
    let (time, rest) = parts.split_first()?;
    let time = time.strip_suffix("us")?.trim().parse::<i64>().ok()?.checked_mul(1000)?;
    let (place, rest) = rest.split_first()?;
    let (cpu, task) = place.split_once(')')?;
    let (comm, pid) = task_of(task.trim()).unwrap_or_default();
    let (text, columns) = rest.split_last()?;
    let flags = columns.iter().find(|part| is_flags(part)).map_or(String::new(), |part| (*part).to_owned());
    let took = columns.iter().find_map(|part| microseconds(part));
    let found = Line { comm, pid, cpu: cpu.trim().parse().ok(), flags, time, took, ..Line::default() };
    let name = text.trim_end_matches([';', '{', ' ']).trim_end_matches("()");
    let function = if name.starts_with('}') { String::new() } else { name.trim().to_owned() };
    Some(Line { function, text: (*text).to_owned(), ..found })
}

fn is_flags(part: &str) -> bool {
    (4..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
}

/// `! 412.520 us` in ns.
fn microseconds(part: &str) -> Option<i64> {
    let number = part.strip_suffix("us")?.trim().trim_start_matches(['+', '!', '#', '*', '@', '$', ' ']);
    let value: f64 = number.parse().ok()?;
    (value.is_finite() && value.abs() < 1e12).then(|| (value * 1000.0).round() as i64)
}

/// `bash-186`, `<idle>-0`, `<...>-7`, names with blanks and dashes.
fn task_of(task: &str) -> Option<(String, Option<i32>)> {
    let (comm, pid) = task.trim().rsplit_once('-')?;
    let pid = pid.trim().parse().ok()?;
    Some((comm.trim().chars().take(32).collect(), Some(pid)))
}

/// What the text says: a call, a wake-up, or just itself.
fn told(line: Line, text: &str) -> Line {
    let (function, caller) = match text.split_once(" <-") {
        Some((function, caller)) => (function, caller),
        None => text.split_once(" (").map_or((text, ""), |(function, rest)| (function, rest.trim_end_matches(')'))),
    };
    let is_call = !function.is_empty() && !function.contains(' ') && !function.ends_with(':');
    let (function, caller) = if is_call { (function, caller) } else { ("", "") };
    Line {
        text: text.to_owned(),
        function: function.trim().to_owned(),
        // Old kernels print data there; a caller is one word.
        caller: if caller.contains(' ') { String::new() } else { caller.trim().to_owned() },
        woken: woken(text),
        ..line
    }
}

fn woken(text: &str) -> Option<Woken> {
    let (before, after) = text.split_once('[')?;
    let (before, is_switch) = match (before.trim_end().strip_suffix("==>"), before.trim_end().strip_suffix('+')) {
        (Some(before), _) => (before, true),
        (None, Some(before)) => (before, false),
        (None, None) => return None,
    };
    let after = after.split_once(']')?.1;
    let (from, state, _) = thread(before)?;
    let (to, _, comm) = thread(after)?;
    Some(Woken { from, to, comm, is_switch, state })
}

/// `196: 19:R cyclictest`.
fn thread(text: &str) -> Option<((i32, i16), char, String)> {
    let mut parts = text.trim().splitn(3, ':');
    let pid = parts.next()?.trim().parse().ok()?;
    let prio = parts.next()?.trim().parse().ok()?;
    let rest = parts.next()?.trim();
    let state = rest.chars().next()?;
    Some(((pid, prio), state, rest[state.len_utf8()..].trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_forms() {
        let line =
            latency("softirq-timer/0-7       0D.h1   20us+: hrtimer_interrupt+0x164/0x350 ( 1115 1af0)").unwrap();
        assert_eq!((line.comm.as_str(), line.pid, line.cpu), ("softirq-timer/0", Some(7), Some(0)));
        assert_eq!((line.flags.as_str(), line.time, line.mark), ("D.h1", 20_000, Some('+')));
        assert_eq!((line.function.as_str(), line.caller.as_str()), ("hrtimer_interrupt+0x164/0x350", ""));
        let line = latency("a b-c-12  13dNh2.5 7us : f <-g").unwrap();
        assert_eq!((line.comm.as_str(), line.pid, line.cpu, line.mark), ("a b-c", Some(12), Some(13), None));
        assert_eq!((line.function.as_str(), line.caller.as_str()), ("f", "g"));
        let line = absolute("hackbench-79      [001] d..1.    44.922973: irqentry_enter").unwrap();
        assert_eq!((line.cpu, line.time, line.function.as_str()), (Some(1), 44_922_973_000, "irqentry_enter"));
        let line =
            graph("3750 us |   0)   bash-1507    |  d..1 | ! 412.516 us    |      do_raw_spin_unlock();").unwrap();
        assert_eq!((line.time, line.took, line.pid), (3_750_000, Some(412_516), Some(1507)));
        assert_eq!((line.flags.as_str(), line.function.as_str()), ("d..1", "do_raw_spin_unlock"));
        let woken =
            latency("bash-186  0dNh4.  212us#:      186:120:R   + [000]     196: 19:R cyclictest").unwrap().woken;
        let expect = Woken { from: (186, 120), to: (196, 19), comm: "cyclictest".into(), is_switch: false, state: 'R' };
        assert_eq!(woken, Some(expect));
        for text in ["", "us:", "1us:", "a-b 0d.. 1us: x", "| task: us:", "x-1 0d.. 99999999999999999999us: f"] {
            assert_eq!(latency(text), None, "{text}");
        }
    }
}
