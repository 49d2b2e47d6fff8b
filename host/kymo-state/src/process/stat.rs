// SPDX-License-Identifier: MIT OR Apache-2.0
//! /proc/PID/task/TID/stat and cgroup as values.

use crate::text::{lines, number, words};

/// `flags`: a thread of the kernel, a worker of a workqueue.
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_WQ_WORKER: u64 = 0x0000_0020;

/// LTTng's status of a thread that waits for a CPU, or runs.
pub(super) const STATUS_WAIT_CPU: i32 = 2;

/// What of `stat` goes into a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat<'a> {
    pub name: &'a [u8],
    pub state: u8,
    pub ppid: i32,
    pub flags: u64,
    /// The kernel's priority minus 100.
    pub prio: i32,
    pub nice: i32,
    /// Clock ticks since boot.
    pub start_time: u64,
    pub cpu: u32,
    pub rt_priority: u32,
    pub policy: u32,
}

impl<'a> Stat<'a> {
    /// `None` where a field is absent or not a number.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Stat<'a>> {
        // The name may hold parentheses and blanks; behind it are only numbers, so the last parenthesis is its end.
        let open = text.iter().position(|&b| b == b'(')?;
        let close = text.iter().rposition(|&b| b == b')')?;
        let name = text.get(open + 1..close)?;
        let mut fields = [&b""[..]; 39];
        let mut count = 0;
        for (slot, word) in fields.iter_mut().zip(words(text.get(close + 1..)?)) {
            *slot = word;
            count += 1;
        }
        // Field 3 of proc(5) is the first here; the last one needed is 41.
        if count < fields.len() {
            return None;
        }
        let field = |number_of_field: usize| fields[number_of_field - 3];
        Some(Stat {
            name,
            state: *field(3).first()?,
            ppid: number(field(4))?,
            flags: number(field(9))?,
            prio: number(field(18))?,
            nice: number(field(19))?,
            start_time: number(field(22))?,
            cpu: number(field(39))?,
            rt_priority: number(field(40))?,
            policy: number(field(41))?,
        })
    }

    pub(super) fn is_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// LTTng's status: 2 waits for a CPU (or runs: /proc cannot tell), 4 zombie, 5 waits, 7 dead, 0 not known.
    pub(super) fn status(&self) -> i32 {
        match self.state {
            b'R' => STATUS_WAIT_CPU,
            b'S' | b'D' | b'I' | b'T' | b't' | b'P' | b'K' | b'W' => 5,
            b'Z' => 4,
            b'X' | b'x' => 7,
            _ => 0,
        }
    }

    /// The name as sched events have it. /proc appends to a worker's name what it works on (`kworker/0:1-events`).
    pub(super) fn comm(&self) -> &'a [u8] {
        let is_rescuer = self.name.starts_with(b"kworker/R-");
        if self.flags & PF_WQ_WORKER == 0 || is_rescuer {
            return self.name;
        }
        let end = self.name.iter().position(|&b| b == b'-' || b == b'+');
        &self.name[..end.unwrap_or(self.name.len())]
    }
}

/// The control group that /proc/PID/cgroup tells: the path in the v2 hierarchy; where that one says nothing, in the
/// hierarchy of the v1 CPU controller.
pub fn cgroup_in(text: &[u8]) -> &[u8] {
    let (mut unified, mut cpu) = (None, None);
    for line in lines(text) {
        let mut parts = line.splitn(3, |&b| b == b':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if controllers.is_empty() {
            unified = Some(path);
        } else if controllers.split(|&b| b == b',').any(|controller| controller == b"cpu") {
            cpu = Some(path);
        }
    }
    // On machines with both, all threads may stand at the root of v2 while v1 divides the CPU among them.
    match (unified, cpu) {
        (Some(b"/") | None, Some(cpu)) => cpu,
        (Some(unified), _) => unified,
        (None, None) => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of stat with this name, these flags and this state.
    fn line(name: &str, state: char, flags: u64) -> String {
        format!(
            "77 ({name}) {state} 5 77 77 0 -1 {flags} 1 2 3 4 5 6 7 8 -51 0 1 0 9876 4096 1 18446744073709551615 0 0 0 0 0 0 0 0 0 \
             0 0 0 17 3 50 1 0 0 0\n"
        )
    }

    #[test]
    fn names_of_any_kind() {
        for name in ["a", "", "a b", "a) R 1 2 3", "((", "))", "a\nb", "\u{fc}"] {
            let text = line(name, 'S', 0);
            let stat = Stat::parse(text.as_bytes()).expect(name);
            assert_eq!(stat.name, name.as_bytes());
            assert_eq!(
                (stat.state, stat.ppid, stat.prio, stat.nice, stat.start_time),
                (b'S', 5, -51, 0, 9876),
                "{name:?}"
            );
            assert_eq!((stat.cpu, stat.rt_priority, stat.policy), (3, 50, 1), "{name:?}");
        }
    }

    #[test]
    fn what_is_not_a_stat() {
        let whole = line("x", 'R', 0);
        let policy_end = whole.len() - "1 0 0 0\n".len();
        for end in 0..policy_end {
            assert_eq!(Stat::parse(&whole.as_bytes()[..end]), None, "{end}");
        }
        assert_eq!(Stat::parse(b")("), None);
        assert_eq!(Stat::parse(whole.replace(" 50 ", " fifty ").as_bytes()), None);
    }

    #[test]
    fn workers_are_named_as_in_sched_events() {
        let check = |name: &str, flags: u64, expect: &str| {
            assert_eq!(Stat::parse(line(name, 'I', flags).as_bytes()).expect(name).comm(), expect.as_bytes());
        };
        let worker = PF_KTHREAD | PF_WQ_WORKER;
        check("kworker/0:1-events", worker, "kworker/0:1");
        check("kworker/u8:2+flush-8:0", worker, "kworker/u8:2");
        check("kworker/R-mm_percpu_wq", worker, "kworker/R-mm_percpu_wq");
        check("kworker/0:0H", worker, "kworker/0:0H");
        check("my-program", 0, "my-program");
    }

    #[test]
    fn states() {
        for (state, expect) in
            [('R', 2), ('S', 5), ('D', 5), ('I', 5), ('T', 5), ('t', 5), ('Z', 4), ('X', 7), ('?', 0)]
        {
            assert_eq!(Stat::parse(line("x", state, 0).as_bytes()).expect("is one").status(), expect, "{state}");
        }
    }

    #[test]
    fn cgroups() {
        let check = |text: &str, expect: &str| assert_eq!(cgroup_in(text.as_bytes()), expect.as_bytes(), "{text:?}");
        check("0::/a/b.slice\n", "/a/b.slice");
        check("0::/a:b\n", "/a:b");
        check("2:cpu,cpuacct:/x\n0::/\n", "/x");
        check("2:cpu,cpuacct:/x\n0::/y\n", "/y");
        check("3:cpuset:/x\n", "");
        check("2:cpu:/\n0::/\n", "/");
        check("", "");
        check("::\n:\nx\n", "");
    }
}
