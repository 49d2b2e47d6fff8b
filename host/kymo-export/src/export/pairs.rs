// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events begin something and which end it, by their names [spec/exchange.md 2], and which of their records are
//! nested.

use std::collections::HashMap;

use kymo_ctf::read::{Record, Trace};

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

/// Words in front of the rest of a name.
const STARTS: [(&str, &str); 2] = [("syscall_entry_", "syscall_exit_"), ("syscalls:sys_enter_", "syscalls:sys_exit_")];

/// Calls that one thread or CPU may be in at a time; what is deeper is shown as instants.
const DEPTH_MAX: usize = 10_000;

/// What an event is to a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    pair: u32,
    begins: bool,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Begins a slice of its track.
    Begin,
    /// Ends the innermost slice of its track.
    End,
    /// Neither.
    Instant,
}

/// What slices are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Track {
    /// A CPU of a kernel: interrupts.
    Cpu(u32),
    /// A thread: process and thread.
    Thread(u32, u32),
}

/// The pairs of traces, and what is open.
pub struct Pairs {
    /// By trace and event.
    roles: Vec<Vec<Option<Role>>>,
    /// By pair.
    names: Vec<String>,
    open: HashMap<(usize, Track), Vec<u32>>,
    /// Ends that were no end of their track's innermost slice.
    pub unmatched: u64,
}

impl Pairs {
    pub fn new(traces: &[Trace]) -> Pairs {
        let mut pairs = Pairs { roles: Vec::new(), names: Vec::new(), open: HashMap::new(), unmatched: 0 };
        for trace in traces {
            let names: Vec<&str> = trace.metadata.events.iter().map(|event| event.name.as_str()).collect();
            let roles = pairs.find(&names);
            pairs.roles.push(roles);
        }
        pairs
    }

    fn find(&mut self, names: &[&str]) -> Vec<Option<Role>> {
        let mut roles = vec![None; names.len()];
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
            let pair = self.names.len() as u32;
            self.names.push(stem);
            roles[at] = Some(Role { pair, begins: true });
            roles[end] = Some(Role { pair, begins: false });
        }
        roles
    }

    /// The name of the slice that an event begins or ends.
    pub fn name(&self, record: &Record<'_>) -> Option<&str> {
        self.role(record).map(|role| self.names[role.pair as usize].as_str())
    }

    fn role(&self, record: &Record<'_>) -> Option<Role> {
        self.roles[record.trace][record.event_position]
    }

    /// What a record is on its track; records come in the order of time.
    pub fn phase(&mut self, record: &Record<'_>, track: Track) -> Phase {
        let Some(role) = self.role(record) else { return Phase::Instant };
        let open = self.open.entry((record.trace, track)).or_default();
        if role.begins && open.len() < DEPTH_MAX {
            open.push(role.pair);
            return Phase::Begin;
        }
        if !role.begins && open.last() == Some(&role.pair) {
            open.pop();
            return Phase::End;
        }
        self.unmatched += 1;
        Phase::Instant
    }

    /// Slices that are open.
    pub fn open_count(&self) -> u64 {
        self.open.values().map(|open| open.len() as u64).sum()
    }
}

/// Names that an event's end may have, each with what the pair is called.
fn ends_of(name: &str) -> Vec<(String, String)> {
    for (begin, end) in STARTS {
        if let Some(rest) = name.strip_prefix(begin) {
            return vec![(format!("{end}{rest}"), rest.to_owned())];
        }
    }
    let at = name.rfind(['_', ':', '.']).map_or(0, |at| at + 1);
    let (stem, word) = name.split_at(at);
    if stem.is_empty() {
        return Vec::new();
    }
    let words = WORDS.iter().filter(|(begin, _)| *begin == word);
    words.map(|(_, end)| (format!("{stem}{end}"), stem.trim_end_matches(['_', ':', '.']).to_owned())).collect()
}

/// The track of a record: interrupts are on their CPU, as are the idle threads; all else on its thread.
pub fn track_of(record: &Record<'_>, is_kernel: bool) -> Track {
    let name = record.event.name.as_str();
    let name = name.rsplit(':').next().unwrap_or(name);
    let is_interrupt = || {
        let starts = ["irq_", "softirq_", "tasklet_", "x86_irq_vectors_", "timer_hrtimer_expire", "hrtimer_expire"];
        starts.iter().any(|start| name.starts_with(start))
            || name.starts_with("timer_expire")
            || name.starts_with("local_timer")
    };
    let tid = record.vtid.or(record.vpid);
    match (record.cpu, tid) {
        (Some(cpu), Some(0)) if is_kernel => Track::Cpu(cpu),
        (Some(cpu), _) if is_kernel && is_interrupt() => Track::Cpu(cpu),
        (_, Some(tid)) => Track::Thread(record.vpid.unwrap_or(tid), tid),
        (Some(cpu), None) if is_kernel => Track::Cpu(cpu),
        (_, None) => Track::Thread(0, u32::MAX),
    }
}
