// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events begin something and which end it, by their names [spec/exchange.md 2]. What is made of their records is
//! the work of `slices`.

use std::collections::HashMap;

use kymo_analyze::syscall::{self, CallEvent, CallName};
use kymo_ctf::read::Trace;

/// Last words of pairs.
const WORDS: [(&str, &str); 9] = [
    ("begin", "end"),
    ("start", "stop"),
    ("start", "end"),
    ("start", "done"),
    ("enter", "exit"),
    ("enter", "leave"),
    ("entry", "exit"),
    ("lock", "unlock"),
    ("off", "on"),
];

/// Last part of the name of a probe at the return of a function; the probe at its entry has the name without it.
const RETURN: &str = "_return";

/// What an event is to slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of a pair.
    Pair { title: u32, begins: bool, is_probe: bool },
    /// A system call's entry or return. `title` is none where the record has the call's number.
    Call { title: Option<u32>, is_entry: bool, returns: bool },
    /// A thread ends: `sched_process_exit`.
    ThreadEnds,
    /// A thread has another program from now on: `sched_process_exec`.
    ProgramStarts,
}

/// The names of slices, each with its number.
#[derive(Debug, Default)]
pub struct Titles {
    names: Vec<String>,
    by_key: HashMap<String, u32>,
}

impl Titles {
    /// The number of slices called `name`, which `key` tells from others of that name.
    fn number(&mut self, key: &str, name: &str) -> u32 {
        if let Some(number) = self.by_key.get(key) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.by_key.insert(key.to_owned(), number);
        number
    }

    /// The number of a system call.
    pub fn call(&mut self, name: &str) -> u32 {
        // No event has a name with a slash in front.
        self.number(&format!("/{name}"), name)
    }

    /// The name.
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }
}

/// The roles of all events.
#[derive(Debug, Default)]
pub struct Roles {
    /// By trace and event.
    by_event: Vec<Vec<Option<Role>>>,
    pub titles: Titles,
}

impl Roles {
    pub fn new(traces: &[Trace]) -> Roles {
        let names = |trace: &'_ Trace| trace.metadata.events.iter().map(|event| event.name.clone()).collect();
        Roles::of_names(&traces.iter().map(names).collect::<Vec<Vec<String>>>())
    }

    /// By the names of the events of each trace.
    pub fn of_names(names: &[Vec<String>]) -> Roles {
        let mut roles = Roles::default();
        for names in names {
            let of_trace = find(&names.iter().map(String::as_str).collect::<Vec<_>>(), &mut roles.titles);
            roles.by_event.push(of_trace);
        }
        roles
    }

    /// What an event is.
    pub fn of(&self, trace: usize, event: usize) -> Option<Role> {
        self.by_event[trace][event]
    }
}

fn find(names: &[&str], titles: &mut Titles) -> Vec<Option<Role>> {
    let mut roles: Vec<Option<Role>> = names.iter().map(|name| of_kernel(name, titles)).collect();
    let by_name: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    for (at, name) in names.iter().enumerate() {
        let ends = ends_of(name);
        let Some((end, stem)) = ends.into_iter().find(|(end, _)| by_name.contains_key(end.as_str())) else {
            continue;
        };
        let end = by_name[end.as_str()];
        if roles[at].is_some() || roles[end].is_some() {
            continue;
        }
        let is_probe = names[end].strip_suffix(RETURN) == Some(*name);
        let title = titles.number(name, &stem);
        roles[at] = Some(Role::Pair { title, begins: true, is_probe });
        roles[end] = Some(Role::Pair { title, begins: false, is_probe });
    }
    roles
}

/// The pairs among these names of events: what each is called, and the positions of its begin and its end. As in
/// [spec/exchange.md 2].
pub fn named_pairs(names: &[&str]) -> Vec<(String, usize, usize)> {
    let mut titles = Titles::default();
    let roles = find(names, &mut titles);
    let of_pair = |role: &Option<Role>, is_begin: bool| match role {
        Some(Role::Pair { title, begins, .. }) if *begins == is_begin => Some(*title),
        _ => None,
    };
    let begins = roles.iter().enumerate().filter_map(|(at, role)| Some((of_pair(role, true)?, at)));
    let pair = |(title, begin): (u32, usize)| {
        let end = roles.iter().position(|role| of_pair(role, false) == Some(title))?;
        Some((titles.name(title).to_owned(), begin, end))
    };
    begins.filter_map(pair).collect()
}

/// What the kernel's own events are.
fn of_kernel(name: &str, titles: &mut Titles) -> Option<Role> {
    if let Some(event) = CallEvent::of(name) {
        let (title, returns) = match event.call {
            CallName::Named(call) => (Some(titles.call(call)), syscall::returns(call)),
            CallName::ByNumber => (None, true),
        };
        return Some(Role::Call { title, is_entry: event.is_entry, returns });
    }
    match name {
        "sched_process_exit" | "sched:sched_process_exit" => Some(Role::ThreadEnds),
        "sched_process_exec" | "sched:sched_process_exec" => Some(Role::ProgramStarts),
        _ => None,
    }
}

/// Names that an event's end may have, each with what the pair is called.
fn ends_of(name: &str) -> Vec<(String, String)> {
    let at = name.rfind(['_', ':', '.']).map_or(0, |at| at + 1);
    let (stem, word) = name.split_at(at);
    let words = WORDS.iter().filter(|(begin, _)| !stem.is_empty() && *begin == word);
    let by_words = words.map(|(_, end)| (format!("{stem}{end}"), stem.trim_end_matches(['_', ':', '.']).to_owned()));
    by_words.chain([(format!("{name}{RETURN}"), name.to_owned())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_roles() {
        let names = [
            "a:begin",
            "a:end",
            "alone",
            "work",
            "work_return",
            "syscall_entry_read",
            "syscall_exit_read",
            "syscalls:sys_enter_exit_group",
            "raw_syscalls:sys_enter",
            "sched_process_exit",
        ];
        let roles = Roles::of_names(&[names.map(str::to_owned).to_vec()]);
        let role = |name: &str| roles.of(0, names.iter().position(|known| *known == name).unwrap());
        let title = |name: &str| match role(name) {
            Some(Role::Pair { title, .. }) | Some(Role::Call { title: Some(title), .. }) => roles.titles.name(title),
            _ => "",
        };
        assert!(matches!(role("a:begin"), Some(Role::Pair { begins: true, is_probe: false, .. })));
        assert!(matches!(role("work_return"), Some(Role::Pair { begins: false, is_probe: true, .. })));
        assert_eq!((title("a:end"), title("work"), title("alone")), ("a", "work", ""));
        // A call's slice has the call's name, whoever recorded it.
        assert_eq!((title("syscall_entry_read"), title("syscall_exit_read")), ("read", "read"));
        assert_eq!(role("alone"), None);
        assert!(matches!(role("syscalls:sys_enter_exit_group"), Some(Role::Call { returns: false, .. })));
        assert!(matches!(role("raw_syscalls:sys_enter"), Some(Role::Call { title: None, is_entry: true, .. })));
        assert_eq!(role("sched_process_exit"), Some(Role::ThreadEnds));
    }
}
