// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is behind an event's name, as fields: by `key=value`, and for the texts that have none by what the kernel or
//! trace-cmd prints
//! for the event.

/// The kind of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportedType {
    Decimal,
    Hex,
    Text,
}

/// Fields of an event at most.
const FIELDS_MAX: usize = 64;

/// The kind that has both.
pub fn widest(one: ImportedType, other: ImportedType) -> ImportedType {
    one.max(other)
}

/// The kind of one value.
pub fn kind_of(value: &str) -> ImportedType {
    if hex(value).is_some() {
        ImportedType::Hex
    } else if value.parse::<i64>().is_ok() && !value.starts_with('+') {
        ImportedType::Decimal
    } else {
        ImportedType::Text
    }
}

/// A hexadecimal number: `0x...`, or 8 or 16 digits, which is how the kernel prints addresses.
pub fn hex(value: &str) -> Option<u64> {
    let digits = match value.strip_prefix("0x") {
        Some(digits) => digits,
        None if value.len() == 16 || (value.len() == 8 && value.contains(|c: char| c.is_ascii_alphabetic())) => value,
        None => return None,
    };
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

/// Names and values.
pub fn of<'l>(event: &str, body: &'l str) -> Vec<(String, &'l str)> {
    let own = match event {
        "sched_switch" => switch(body),
        "sched_wakeup" | "sched_waking" | "sched_wakeup_new" => wakeup(body),
        "sys_enter" => numbered(body, '('),
        "sys_exit" => numbered(body, '='),
        "function" => body.split_once(" <-").map(|(ip, parent)| named(&[("ip", ip), ("parent_ip", parent)])),
        "funcgraph_entry" | "funcgraph_exit" => Some(named(&[("func", body)])),
        "print" | "tracing_mark_write" | "bprint" => Some(named(&[("buf", body)])),
        _ if event.starts_with("sys_") => call(body),
        _ => None,
    };
    if let Some(fields) = own {
        return fields;
    }
    let keyed = keyed(body);
    if !keyed.is_empty() || body.is_empty() { keyed } else { named(&[("text", body)]) }
}

fn named<'l>(fields: &[(&str, &'l str)]) -> Vec<(String, &'l str)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// `key=value key=a value [key=value]`; nothing where text stands in front of the first key.
fn keyed(body: &str) -> Vec<(String, &str)> {
    let bytes = body.as_bytes();
    let mut keys: Vec<(usize, usize)> = Vec::new();
    for (at, _) in body.match_indices('=') {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = bytes[..at].iter().rev().take_while(|byte| is_word(byte)).count();
        let from = at - length;
        let before = from.checked_sub(1).map(|before| bytes[before]);
        let is_key =
            length > 0 && !bytes[from].is_ascii_digit() && matches!(before, None | Some(b' ' | b'[' | b'(' | b','));
        if is_key && keys.len() < FIELDS_MAX {
            keys.push((from, at));
        }
    }
    if keys.first().is_none_or(|(from, _)| *from > 1) {
        return Vec::new();
    }
    let ends = keys.iter().skip(1).map(|(from, _)| *from).chain([body.len()]);
    let fields = keys.iter().zip(ends).map(|(&(from, at), end)| {
        let value = body[at + 1..end].trim_end_matches("==> ").trim_end_matches([' ', '[', '(']).trim_end_matches(',');
        let is_inner = from > 0 && matches!(bytes[from - 1], b'[' | b'(');
        let value = if is_inner { value.trim_end_matches([']', ')']) } else { value };
        // `runtime=12 [ns]`: the unit is not a part of the number.
        let number = value
            .split_once(" [")
            .filter(|(number, unit)| kind_of(number) != ImportedType::Text && unit.ends_with(']'));
        (body[from..at].to_owned(), number.map_or(value, |(number, _)| number).trim())
    });
    fields.collect()
}

/// `bash:12 [120] S ==> sleep:13 [120]`, as trace-cmd and perf print it; keys as the kernel does.
fn switch(body: &str) -> Option<Vec<(String, &str)>> {
    let (before, next) = body.split_once(" ==> ")?;
    if let Some(rest) = before.strip_prefix("prev_comm=") {
        // Names may hold what looks like a key.
        let (comm, rest) = rest.rsplit_once(" prev_pid=")?;
        let (pid, rest) = rest.split_once(" prev_prio=")?;
        let (prio, state) = rest.split_once(" prev_state=")?;
        let (next_comm, rest) = next.strip_prefix("next_comm=")?.rsplit_once(" next_pid=")?;
        let (next_pid, next_prio) = rest.split_once(" next_prio=")?;
        let mut fields = named(&[("prev_comm", comm), ("prev_pid", pid), ("prev_prio", prio), ("prev_state", state)]);
        fields.extend(named(&[("next_comm", next_comm), ("next_pid", next_pid), ("next_prio", next_prio)]));
        return Some(fields);
    }
    let (thread, state) = before.rsplit_once("] ")?;
    let (comm, pid, prio) = thread_of(thread)?;
    let (next_comm, next_pid, next_prio) = thread_of(next.trim_end().strip_suffix(']')?)?;
    let mut fields = named(&[("prev_comm", comm), ("prev_pid", pid), ("prev_prio", prio), ("prev_state", state)]);
    fields.extend(named(&[("next_comm", next_comm), ("next_pid", next_pid), ("next_prio", next_prio)]));
    Some(fields)
}

/// `bash:12 [120`.
fn thread_of(text: &str) -> Option<(&str, &str, &str)> {
    let (thread, prio) = text.rsplit_once(" [")?;
    let (comm, pid) = thread.rsplit_once(':')?;
    Some((comm, pid, prio))
}

/// `bash:12 [120] success=1 CPU:001`, `bash:12 [120]<CPU:001>`; else keys.
fn wakeup(body: &str) -> Option<Vec<(String, &str)>> {
    if body.starts_with("comm=") {
        let (comm, rest) = body.strip_prefix("comm=")?.rsplit_once(" pid=")?;
        let (pid, rest) = rest.split_once(" prio=").unwrap_or((rest, ""));
        let (prio, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut fields = named(&[("comm", comm), ("pid", pid), ("prio", prio)]);
        fields.extend(keyed(rest));
        return Some(fields);
    }
    let (thread, rest) = body.split_once(']')?;
    let (comm, pid, prio) = thread_of(thread)?;
    let mut fields = named(&[("comm", comm), ("pid", pid), ("prio", prio)]);
    let cpu = rest.split_once("CPU:").map(|(_, cpu)| cpu.trim_end_matches('>').trim());
    fields.extend(cpu.map(|cpu| ("target_cpu".to_owned(), cpu)));
    Some(fields)
}

/// `NR 257 (ffffff9c, 7ffe, ...)`, `NR 257 = 3`.
fn numbered(body: &str, divider: char) -> Option<Vec<(String, &str)>> {
    let (id, rest) = body.strip_prefix("NR ")?.split_once(divider)?;
    let name = if divider == '(' { "args" } else { "ret" };
    Some(named(&[("id", id.trim()), (name, rest.trim().trim_end_matches(')'))]))
}

/// `sys_openat(dfd: ffffff9c, filename: 7ffe)`, `sys_openat -> 0x3`; of perf only what is in the brackets, or only
/// the result.
fn call(body: &str) -> Option<Vec<(String, &str)>> {
    if let Some((_, result)) = body.split_once(" -> ") {
        return Some(named(&[("ret", result.trim())]));
    }
    let arguments = match body.split_once('(') {
        Some((_, arguments)) => arguments.trim_end().trim_end_matches(')'),
        None if body.starts_with("0x") => return Some(named(&[("ret", body)])),
        None => body,
    };
    let pairs = arguments.split(", ").filter_map(|pair| pair.split_once(": "));
    Some(pairs.take(FIELDS_MAX).map(|(name, value)| (name.trim().to_owned(), value.trim())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(event: &str, body: &str) -> String {
        of(event, body).iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn texts_become_fields() {
        let switch = "prev_comm=a b|prev_pid=1|prev_prio=120|prev_state=S|next_comm=c|next_pid=2|next_prio=98";
        for (event, body, expect) in [
            (
                "sched_switch",
                "prev_comm=a b prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=c next_pid=2 next_prio=98",
                switch,
            ),
            ("sched_switch", "a b:1 [120] S ==> c:2 [98]", switch),
            (
                "sched_wakeup",
                "comm=a pid=b=2 pid=7 prio=120 target_cpu=001",
                "comm=a pid=b=2|pid=7|prio=120|target_cpu=001",
            ),
            ("sched_wakeup", "a b:7 [120]<CPU:001>", "comm=a b|pid=7|prio=120|target_cpu=001"),
            ("softirq_raise", "vec=9 [action=RCU]", "vec=9|action=RCU"),
            ("sched_stat_runtime", "comm=sleep pid=3 runtime=12 [ns]", "comm=sleep|pid=3|runtime=12"),
            ("sys_enter", "NR 257 (ffffff9c, 7ffe)", "id=257|args=ffffff9c, 7ffe"),
            ("sys_exit", "NR 257 = -2", "id=257|ret=-2"),
            ("sys_openat", "sys_openat(dfd: ffffff9c, filename: 7f)", "dfd=ffffff9c|filename=7f"),
            ("sys_openat", "sys_openat -> 0x3", "ret=0x3"),
            ("other", "some text, x=1", "text=some text, x=1"),
            ("other", "", ""),
        ] {
            assert_eq!(said(event, body), expect, "{event} {body}");
        }
    }

    #[test]
    fn values_have_kinds() {
        for (value, kind) in [
            ("12", ImportedType::Decimal),
            ("-1", ImportedType::Decimal),
            ("000", ImportedType::Decimal),
            ("0x1f", ImportedType::Hex),
            ("0000000012345678", ImportedType::Hex),
            ("00000000abcdef12", ImportedType::Hex),
            ("18446744073709551615", ImportedType::Text),
            ("abc", ImportedType::Text),
            ("", ImportedType::Text),
            ("1 2", ImportedType::Text),
        ] {
            assert_eq!(kind_of(value), kind, "{value}");
        }
    }
}
