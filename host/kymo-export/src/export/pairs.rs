// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events begin something and which end it, by their names [spec/exchange.md 2], and slices made of their
//! records. Which begin is of which end is kymo-filter's answer, as for `kymo latency --span` [spec/analyze.md 5.1].

use std::collections::HashMap;

use kymo_ctf::read::{Record, Trace};
use kymo_ctf::write::EnvValue;
use kymo_filter::Open;

use super::exporter::Done;

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

/// Last part of the name of a probe at the return of a function; the probe at its entry has the name without it.
const RETURN: &str = "_return";

/// Calls that one thread or CPU may be in at a time; what is deeper is shown as instants.
const DEPTH_MAX: usize = 10_000;

/// Slices that the end of one around them may divide; an end inside of more is an instant.
const DIVIDED_MAX: usize = 64;

/// What an event is to a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    pair: u32,
    begins: bool,
    is_probe: bool,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Begins a slice of its track.
    Begin,
    /// Ends a slice of its track. The slices in it, given by their pairs, the innermost first, go on behind its end:
    /// none where it is the innermost. Viewers want slices nested, so these are shown in two parts.
    End(Vec<u32>),
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

/// The names of a pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PairNames {
    /// Of its slices.
    slice: String,
    /// Of the event that begins it.
    begin: String,
}

/// The pairs of traces, and what is open.
pub struct Pairs {
    /// By trace and event.
    roles: Vec<Vec<Option<Role>>>,
    /// By pair.
    names: Vec<PairNames>,
    /// By trace: the first one of the same machine. A slice may begin in one part of a trace and end in the next.
    machines: Vec<usize>,
    /// Numbers of slices.
    open: Open<(usize, Track, u32), u64>,
    /// By track: the slices that are shown as open, the innermost last: pair and number.
    shown: HashMap<(usize, Track), Vec<(u32, u64)>>,
    next: u64,
    counts: Counts,
}

/// What was met beside slices that nest.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    unmatched: u64,
    without_thread: u64,
    too_deep: u64,
    divided: u64,
}

impl Pairs {
    pub fn new(traces: &[Trace]) -> Pairs {
        let names = traces.iter().map(|trace| trace.metadata.events.iter().map(|event| event.name.as_str()).collect());
        let names: Vec<Vec<&str>> = names.collect();
        let machines: Vec<_> = traces.iter().map(machine).collect();
        let first = |of: &Machine| machines.iter().position(|machine| machine == of).unwrap_or_default();
        Pairs::of_names(&names, machines.iter().map(first).collect())
    }

    /// By the names of the events of each trace.
    fn of_names(names: &[Vec<&str>], machines: Vec<usize>) -> Pairs {
        let mut pairs = Pairs {
            roles: Vec::new(),
            names: Vec::new(),
            machines,
            open: Open::default(),
            shown: HashMap::new(),
            next: 0,
            counts: Counts::default(),
        };
        for names in names {
            let roles = pairs.find(names);
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
            let is_probe = names[end].strip_suffix(RETURN) == Some(*name);
            let pair = self.pair(PairNames { slice: stem, begin: (*name).to_owned() });
            roles[at] = Some(Role { pair, begins: true, is_probe });
            roles[end] = Some(Role { pair, begins: false, is_probe });
        }
        roles
    }

    /// The number of a pair: one in all traces.
    fn pair(&mut self, names: PairNames) -> u32 {
        let known = self.names.iter().position(|known| *known == names);
        let number = known.unwrap_or(self.names.len());
        if known.is_none() {
            self.names.push(names);
        }
        number as u32
    }

    /// The name of the slice that an event begins or ends.
    pub fn name(&self, record: &Record<'_>) -> Option<&str> {
        self.role(record).map(|role| self.slice_name(role.pair))
    }

    /// The name of the slices of a pair.
    pub fn slice_name(&self, pair: u32) -> &str {
        &self.names[pair as usize].slice
    }

    /// The name of the event that begins a pair.
    pub fn begin_name(&self, pair: u32) -> &str {
        &self.names[pair as usize].begin
    }

    /// Whether an event is a probe at the entry or the return of a function, of which there are both.
    pub fn is_probe(&self, record: &Record<'_>) -> bool {
        self.role(record).is_some_and(|role| role.is_probe)
    }

    fn role(&self, record: &Record<'_>) -> Option<Role> {
        self.roles[record.trace][record.event_position]
    }

    /// What a record is on its track; records come in the order of time.
    pub fn phase(&mut self, record: &Record<'_>, track: Track) -> Phase {
        let Some(role) = self.role(record) else { return Phase::Instant };
        let is_of_cpu = matches!(track, Track::Cpu(_)) && is_interrupt(&record.event.name);
        if record.vtid.is_none() && !is_of_cpu {
            self.counts.without_thread += 1;
            return Phase::Instant;
        }
        self.take(role, (self.machines[record.trace], track))
    }

    fn take(&mut self, role: Role, place: (usize, Track)) -> Phase {
        let shown = self.shown.entry(place).or_default();
        let key = (place.0, place.1, role.pair);
        if role.begins {
            if shown.len() >= DEPTH_MAX {
                self.counts.too_deep += 1;
                return Phase::Instant;
            }
            shown.push((role.pair, self.next));
            self.open.push(key, self.next);
            self.next += 1;
            return Phase::Begin;
        }
        let number = self.open.pop(&key);
        let at = number.and_then(|number| shown.iter().rposition(|(_, shown)| *shown == number));
        let Some(at) = at.filter(|at| shown.len() - at <= DIVIDED_MAX) else {
            self.counts.unmatched += 1;
            return Phase::Instant;
        };
        shown.remove(at);
        let inner: Vec<u32> = shown[at..].iter().rev().map(|(pair, _)| *pair).collect();
        self.counts.divided += inner.len() as u64;
        Phase::End(inner)
    }

    /// Tells what is shown otherwise than nested slices.
    pub fn finish(&self, done: &mut Done) {
        let open = self.shown.values().map(|shown| shown.len() as u64).sum();
        done.change("ends without a begin in their thread, shown as instants", self.counts.unmatched);
        done.change("begins and ends of unknown threads, shown as instants", self.counts.without_thread);
        done.change("begins inside of too many others, shown as instants", self.counts.too_deep);
        done.change("slices that begin in another one and end behind it, shown in parts", self.counts.divided);
        done.change("begins without end, shown up to the end of the file", open);
    }
}

/// The pairs among these names of events: what each is called, and the positions of its begin and its end. As in
/// [spec/exchange.md 2].
pub fn named_pairs(names: &[&str]) -> Vec<(String, usize, usize)> {
    let mut pairs = Pairs::of_names(&[], Vec::new());
    let roles = pairs.find(names);
    let position = |number: usize, begins: bool| {
        let is_it =
            |role: &Option<Role>| role.is_some_and(|role| role.pair as usize == number && role.begins == begins);
        roles.iter().position(is_it)
    };
    let of = |(number, known): (usize, &PairNames)| {
        Some((known.slice.clone(), position(number, true)?, position(number, false)?))
    };
    pairs.names.iter().enumerate().filter_map(of).collect()
}

/// A boot or a name.
type Machine = (Option<[u8; 16]>, Option<String>);

/// What tells the machine of a trace: the boot that its clock names, else its name.
fn machine(trace: &Trace) -> Machine {
    let boot = trace.metadata.clocks.iter().find_map(|clock| clock.uuid);
    let name = trace.metadata.env.iter().find_map(|(key, value)| match value {
        EnvValue::Text(name) if key == "hostname" => Some(name.clone()),
        _ => None,
    });
    let name = name.unwrap_or_else(|| trace.label.clone());
    (boot, boot.is_none().then_some(name))
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
    let words = WORDS.iter().filter(|(begin, _)| !stem.is_empty() && *begin == word);
    let by_words = words.map(|(_, end)| (format!("{stem}{end}"), stem.trim_end_matches(['_', ':', '.']).to_owned()));
    by_words.chain([(format!("{name}{RETURN}"), name.to_owned())]).collect()
}

/// Beginnings of the names of events of interrupts, softirqs and timers.
const INTERRUPTS: [&str; 8] = [
    "irq_",
    "softirq_",
    "tasklet_",
    "x86_irq_vectors_",
    "timer_hrtimer_expire",
    "hrtimer_expire",
    "timer_expire",
    "local_timer",
];

fn is_interrupt(event: &str) -> bool {
    let name = event.rsplit(':').next().unwrap_or(event);
    INTERRUPTS.iter().any(|start| name.starts_with(start))
}

/// The track of a record: interrupts are on their CPU, as are the idle threads; all else on its thread.
pub fn track_of(record: &Record<'_>, is_kernel: bool) -> Track {
    let tid = record.vtid.or(record.vpid);
    match (record.cpu, tid) {
        (Some(cpu), Some(0)) if is_kernel => Track::Cpu(cpu),
        (Some(cpu), _) if is_kernel && is_interrupt(&record.event.name) => Track::Cpu(cpu),
        (_, Some(tid)) => Track::Thread(record.vpid.unwrap_or(tid), tid),
        (Some(cpu), None) if is_kernel => Track::Cpu(cpu),
        (_, None) => Track::Thread(0, u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: Track = Track::Thread(7, 8);

    /// What the events of a track are, each `x` with `b` in front as a begin of it, with `e` as its end.
    fn phases(of: &[(&str, Track)]) -> (Vec<Phase>, Done) {
        let names = ["a:begin", "a:end", "b:begin", "b:end", "work", "work_return", "alone"];
        let mut pairs = Pairs::of_names(&[names.to_vec()], vec![0]);
        let phase = |(name, track): &(&str, Track)| {
            let event = names.iter().position(|known| known == name).unwrap();
            pairs.roles[0][event].map_or(Phase::Instant, |role| pairs.take(role, (0, *track)))
        };
        let found = of.iter().map(phase).collect();
        let mut done = Done::default();
        pairs.finish(&mut done);
        (found, done)
    }

    fn of_thread(names: &[&'static str]) -> (Vec<Phase>, Done) {
        phases(&names.iter().map(|name| (*name, THREAD)).collect::<Vec<_>>())
    }

    fn count(done: &Done, part: &str) -> u64 {
        done.changed.iter().find(|(what, _)| what.contains(part)).map_or(0, |(_, count)| *count)
    }

    #[test]
    fn slices_nest_in_their_thread() {
        let end = || Phase::End(Vec::new());
        let (found, done) = of_thread(&["a:begin", "a:begin", "work", "work_return", "a:end", "a:end", "alone"]);
        assert_eq!(found[..3], [Phase::Begin, Phase::Begin, Phase::Begin]);
        assert_eq!(found[3..], [end(), end(), end(), Phase::Instant]);
        assert_eq!(done, Done::default());
        // The end of another thread is none of this one's.
        let other = Track::Thread(7, 9);
        let (found, done) = phases(&[("a:begin", THREAD), ("a:end", other), ("a:begin", other), ("a:end", other)]);
        assert_eq!(found, [Phase::Begin, Phase::Instant, Phase::Begin, end()]);
        assert_eq!((count(&done, "ends without"), count(&done, "begins without end")), (1, 1));
    }

    #[test]
    fn what_ends_behind_its_outer_one_is_shown_in_parts() {
        let (found, done) = of_thread(&["a:begin", "b:begin", "work", "a:end", "work_return", "b:end"]);
        assert_eq!(found[3], Phase::End(vec![2, 1]), "of the innermost first: {found:?}");
        assert_eq!(found[4..], [Phase::End(Vec::new()), Phase::End(Vec::new())]);
        assert_eq!((count(&done, "in parts"), done.changed.len()), (2, 1));
        // Where that would be too many parts the end is an instant.
        let names = [&["a:begin"][..], &["b:begin"; DIVIDED_MAX], &["a:end"]].concat();
        let (found, done) = of_thread(&names);
        assert_eq!(found.last(), Some(&Phase::Instant));
        assert_eq!(count(&done, "begins without end"), 1 + DIVIDED_MAX as u64);
    }

    #[test]
    fn a_slice_goes_on_in_the_next_part_of_a_trace() {
        let (first, second) = (vec!["a:begin", "a:end"], vec!["other", "a:begin", "a:end"]);
        let mut pairs = Pairs::of_names(&[first, second], vec![0, 0]);
        let (begin, end) = (pairs.roles[0][0].unwrap(), pairs.roles[1][2].unwrap());
        assert_eq!((pairs.take(begin, (0, THREAD)), pairs.take(end, (0, THREAD))), (Phase::Begin, Phase::End(vec![])));
    }
}
