// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line: who, where, when, which event, and what it says.
//!
//! ftrace:      `  comm-PID  (TGID) [CPU] flags TIME: event: body`, and without TGID or flags; `trace-cmd report` has
//! no flags
//! function:    `  comm-PID  [CPU] flags TIME: function <-caller`
//! latency:     `  comm-PID  CPUflags  TIMEus+: event: body`
//! perf script: `comm PID[/TID] [CPU] TIME: [PERIOD] event: body`, with any of the columns missing but the time and
//! the event

/// A line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line<'l> {
    pub comm: &'l str,
    pub tid: i32,
    pub cpu: Option<u32>,
    /// As the kernel has them: 1 interrupts off, 4 needs a switch, 8 in an interrupt, 16 in a softirq.
    pub flags: u8,
    pub preempt_count: u8,
    /// ns.
    pub time: u64,
    pub system: Option<&'l str>,
    pub event: &'l str,
    pub body: &'l str,
    pub period: Option<u64>,
    pub is_perf: bool,
}

/// What a line says; none where it is no record.
pub fn parse(text: &str) -> Option<Line<'_>> {
    let (left, time, right) = time(text)?;
    let mut line = Line { time, ..Line::default() };
    who(left, &mut line)?;
    what(right, &mut line)?;
    Some(line)
}

/// What is before the time, the time in ns, and what is behind.
fn time(text: &str) -> Option<(&str, u64, &str)> {
    let mut from = 0;
    while let Some(colon) = text[from..].find(':').map(|at| from + at) {
        // White space may have several bytes.
        let word = text[..colon].rsplit(char::is_whitespace).next().unwrap_or("");
        let begin = colon - word.len();
        if let Some(ns) = seconds(word) {
            return Some((&text[..begin], ns, text[colon + 1..].trim_start()));
        }
        // `4us+:` and `4us :`, of latency tracers.
        let word = if word.is_empty() { text[..colon].trim_end().rsplit(' ').next().unwrap_or("") } else { word };
        let digits = word.trim_end_matches(['+', '!', '#', '*', '@', '$']).strip_suffix("us");
        if let Some(us) = digits.and_then(|digits| digits.parse::<u64>().ok()) {
            let begin = text[..colon].rfind(word)?;
            return Some((&text[..begin], us.checked_mul(1000)?, text[colon + 1..].trim_start()));
        }
        from = colon + 1;
    }
    None
}

/// `123.456789` in ns; any number of digits behind the point.
pub fn seconds_of(word: &str) -> Option<u64> {
    seconds(word)
}

fn seconds(word: &str) -> Option<u64> {
    let (whole, part) = word.split_once('.')?;
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(part) || part.len() < 3 || part.len() > 9 {
        return None;
    }
    let ns = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// What stands in front of the time.
fn who<'l>(left: &'l str, line: &mut Line<'l>) -> Option<()> {
    let mut left = left.trim();
    let flags_at = last_word(left).filter(|(before, word)| {
        let has_cpu = before.ends_with(']') || word.starts_with(|c: char| c.is_ascii_digit());
        !word.ends_with(']') && is_flags(word) && has_cpu
    });
    if let Some((before, word)) = flags_at {
        let cpu = word.bytes().take_while(u8::is_ascii_digit).count();
        // Latency tracers have the CPU in front of the flags.
        if !before.ends_with(']') {
            line.cpu = word[..cpu].parse().ok();
            flags(&word[cpu..], line);
        } else {
            flags(word, line);
        }
        left = before;
    }
    if let Some((before, cpu)) = last_word(left).and_then(|(before, word)| Some((before, cpu_of(word)?))) {
        (line.cpu, left) = (Some(cpu), before);
    }
    // `(1234)`, `( 1234)` or `(-----)`.
    if let Some(open) = left.rfind('(').filter(|_| left.ends_with(')')) {
        let is_tgid = left[open + 1..left.len() - 1].trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        left = if is_tgid { left[..open].trim_end() } else { left };
    }
    let word = left.rsplit(char::is_whitespace).next().unwrap_or("");
    let tid = word.rsplit('/').next().and_then(|tid| tid.parse::<i32>().ok());
    if let Some(tid) = tid.filter(|_| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/' || byte == b'-')) {
        (line.is_perf, line.tid, line.comm) = (true, tid, left[..left.len() - word.len()].trim());
        return Some(());
    }
    if let Some((comm, tid)) = comm_and_tid(left) {
        (line.tid, line.comm) = (tid, comm.trim());
        return Some(());
    }
    // `perf script -F comm,time,event`.
    (line.is_perf, line.tid, line.comm) = (true, -1, left);
    (!left.is_empty() && left.len() <= 16).then_some(())
}

/// `[003]`
fn cpu_of(word: &str) -> Option<u32> {
    word.strip_prefix('[')?.strip_suffix(']')?.trim().parse().ok()
}

/// `COMM-TID`
pub fn comm_and_tid(text: &str) -> Option<(&str, i32)> {
    let (comm, tid) = text.rsplit_once('-')?;
    Some((comm, tid.trim().parse().ok()?))
}

fn last_word(text: &str) -> Option<(&str, &str)> {
    let (before, word) = text.rsplit_once(char::is_whitespace)?;
    Some((before.trim_end(), word))
}

/// `d..2.`, `dNh1`, `0d..2`: flags and preempt count, each one letter.
fn is_flags(word: &str) -> bool {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let letters = |c: char| {
        c.is_ascii_hexdigit()
            || matches!(c, '.' | '-' | 'N' | 'n' | 'p' | 'L' | 'l' | 'B' | 'h' | 's' | 'H' | 'z' | 'Z' | 'X' | 'D')
    };
    (4..=7).contains(&rest.len()) && rest.chars().all(letters) && !rest.bytes().all(|byte| byte.is_ascii_digit())
        || (word.len() <= 6 && (4..=6).contains(&word.len()) && word.chars().all(letters) && word.contains('.'))
}

fn flags(word: &str, line: &mut Line<'_>) {
    let at = |position: usize| word.as_bytes().get(position).copied().unwrap_or(b'.');
    let off = u8::from(matches!(at(0), b'd' | b'D' | b'b'));
    let resched = if matches!(at(1), b'N' | b'n' | b'B') { 4 } else { 0 };
    let context = match at(2) {
        b'h' | b'z' => 8,
        b's' => 16,
        b'H' | b'Z' => 24,
        _ => 0,
    };
    line.flags = off | resched | context;
    line.preempt_count = (at(3) as char).to_digit(16).unwrap_or(0) as u8;
}

/// Period, event, and what the event says.
fn what<'l>(right: &'l str, line: &mut Line<'l>) -> Option<()> {
    let mut right = right;
    let first = right.split_once(char::is_whitespace);
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((period, rest)) = first.filter(|(word, _)| is_number(word)) {
        (line.period, line.is_perf) = (period.parse().ok(), true);
        right = rest.trim_start();
    }
    if let Some((function, caller)) = right.split_once(" <-") {
        if !function.contains(' ') {
            (line.system, line.event, line.body) = (Some("ftrace"), "function", right);
            return (!caller.is_empty()).then_some(());
        }
    }
    // Names have colons within (`sched:sched_switch`, `cpu-clock:pppH`); the last one is followed by a space, or the
    // end.
    let end = right
        .match_indices(':')
        .map(|(at, _)| at)
        .find(|at| right[at + 1..].is_empty() || right[at + 1..].starts_with([' ', '\t']));
    let (name, body) = match end {
        Some(end) => (&right[..end], right[end + 1..].trim()),
        // `sys_openat(dfd: 3, ...)` and `sys_openat -> 0x3`.
        None if right.starts_with("sys_") => (right.split(['(', ' ']).next()?, right),
        None => return None,
    };
    if name.starts_with("sys_") && (name.contains('(') || name.contains(" -> ")) {
        let call = name.split(['(', ' ']).next()?;
        (line.system, line.event, line.body) = (Some("syscalls"), call, right);
        return Some(());
    }
    if name.is_empty() || name.contains(char::is_whitespace) || name.len() > 200 {
        return None;
    }
    line.body = body;
    match name.split_once(':') {
        Some((system, event)) if !event.is_empty() && !is_modifier(event) => {
            (line.system, line.event) = (Some(system), event);
        }
        Some((event, _)) => line.event = event,
        None if right.starts_with("sys_") && body == right => (line.system, line.event) = (Some("syscalls"), name),
        None => line.event = name,
    }
    Some(())
}

/// Letters that perf has behind the name of a counter: `u`, `pppH`.
fn is_modifier(text: &str) -> bool {
    text.len() <= 8
        && text
            .chars()
            .all(|c| matches!(c, 'u' | 'k' | 'h' | 'H' | 'G' | 'I' | 'p' | 'P' | 'S' | 'D' | 'W' | 'e' | 'b'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// comm|tid|cpu|flags|preempt|time|system|event|body, and `perf` where it is one of perf.
    fn said(text: &str) -> String {
        let Some(line) = parse(text) else { return "-".to_owned() };
        let cpu = line.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        let head = format!("{}|{}|{cpu}|{}|{}|{}", line.comm, line.tid, line.flags, line.preempt_count, line.time);
        let perf = if line.is_perf { "|perf" } else { "" };
        format!("{head}|{}|{}|{}{perf}", line.system.unwrap_or("-"), line.event, line.body)
    }

    /// Of inputs that fuzzing has found.
    #[test]
    fn white_space_of_several_bytes() {
        for text in [
            "4us\0\u{a0}:",
            "0: 2us\u{fffd}\u{fffd}\u{85}\u{0}0: 0u 0\u{2}s :: ::\0:: : ",
            "\u{2003}1.500000: foo: ",
            "a\u{2003}b 1.5000: x: ",
        ] {
            let _ = said(text);
        }
        assert_eq!(time("x [000]\u{a0}1.500000: foo:").map(|(_, ns, _)| ns), Some(1_500_000_000));
    }

    #[test]
    fn lines_of_all_forms() {
        for (text, expect) in [
            (
                "            bash-1977    [000] d..2.  4217.566785: sched_wakeup: comm=a b pid=7 prio=120 target_cpu=001",
                "bash|1977|0|1|2|4217566785000|-|sched_wakeup|comm=a b pid=7 prio=120 target_cpu=001",
            ),
            (
                "  <idle>-0     [003] dNh1 10.000001: irq_handler_entry: irq=1 name=x",
                "<idle>|0|3|13|1|10000001000|-|irq_handler_entry|irq=1 name=x",
            ),
            ("  kworker/0:1-12  (   12) [001] .... 1.5000: foo: ", "kworker/0:1|12|1|0|0|1500000000|-|foo|"),
            (
                "  a-b-9  (-----) [001] 1.500000: tracing_mark_write: hello: there",
                "a-b|9|1|0|0|1500000000|-|tracing_mark_write|hello: there",
            ),
            (
                "   bash-7   [000] ....  1.000002: do_fork <-sys_fork",
                "bash|7|0|0|0|1000002000|ftrace|function|do_fork <-sys_fork",
            ),
            ("    bash-7     0d..2    4us+: sched_switch: prev_comm=a", "bash|7|0|1|2|4000|-|sched_switch|prev_comm=a"),
            (
                "  <idle>-0       1dNh3.   12us : __raise_softirq <-x",
                "<idle>|0|1|13|3|12000|ftrace|function|__raise_softirq <-x",
            ),
            (
                "opt cgu.03-24720 [000] 35685.229724: softirq_raise:        vec=9 [action=RCU]",
                "opt cgu.03|24720|0|0|0|35685229724000|-|softirq_raise|vec=9 [action=RCU]",
            ),
            (
                "bash 1234 [001] 99.123456789:     250000 cpu-clock:pppH: ",
                "bash|1234|1|0|0|99123456789|-|cpu-clock||perf",
            ),
            (
                "a b 12/13 99.123456: sched:sched_switch: prev_comm=x",
                "a b|13|-|0|0|99123456000|sched|sched_switch|prev_comm=x|perf",
            ),
            (
                "swapper     0 [000]  5.000001:          1 cycles:  ffffffff81 native_halt+0xa ([kernel])",
                "swapper|0|0|0|0|5000001000|-|cycles|ffffffff81 native_halt+0xa ([kernel])|perf",
            ),
            (
                "  cat-5  [000] .... 1.000001: sys_openat(dfd: ffffff9c, filename: 7f)",
                "cat|5|0|0|0|1000001000|syscalls|sys_openat|sys_openat(dfd: ffffff9c, filename: 7f)",
            ),
            (
                "  cat-5  [000] .... 1.000001: sys_openat -> 0x3",
                "cat|5|0|0|0|1000001000|syscalls|sys_openat|sys_openat -> 0x3",
            ),
            ("hello world", "-"),
            ("", "-"),
            (":", "-"),
            ("1.000:", "-"),
        ] {
            assert_eq!(said(text), expect, "{text}");
        }
    }
}
