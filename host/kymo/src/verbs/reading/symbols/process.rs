// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of one process over time. A mapping is known from the moment at which somebody looked; a program may load
//! one library after the other to one address, and become another program by `exec`.

use kymo_ctf::read::Record;
use kymo_symbols::Mapping;

use super::place::{AddressPlace, time_of, unsigned};

/// The event that tells of programs [spec/trace.md 8.3].
pub const PROGRAM: &str = "kymo_statedump_program";
/// How much earlier than it says a look may have been: it is timed by another clock than records, ns.
const SLACK_NS: i64 = 1_000_000;

/// What a trace says of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// When, ns.
    pub time: i64,
    /// What.
    pub phase: Phase,
}

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It begins; by which process it was made, 0 where that is not known.
    Begin {
        /// The number of that process.
        parent: u32,
    },
    /// It was looked at; the look before was so long ago, ns.
    Look {
        /// How long.
        since_ns: i64,
    },
    /// It has ended.
    End,
}

/// What a record says of a program, and the number of its process.
pub fn program_of(record: &Record<'_>) -> Option<(u32, Program)> {
    if record.event.name != PROGRAM {
        return None;
    }
    let number = |name: &str| unsigned(record.payload, name);
    let phase = match number("phase")? {
        0 => Phase::Begin { parent: number("ppid").and_then(|ppid| u32::try_from(ppid).ok()).unwrap_or(0) },
        1 => Phase::Look { since_ns: number("since_ns").and_then(|ns| i64::try_from(ns).ok()).unwrap_or(i64::MAX) },
        2 => Phase::End,
        _ => return None,
    };
    Some((u32::try_from(number("pid")?).ok()?, Program { time: time_of(record), phase }))
}

/// A mapping for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    start: u64,
    end: u64,
    /// Position among all mappings.
    mapping: u32,
    /// When it was told.
    told: i64,
    /// [from, until): when an address in it is certainly of this file.
    from: i64,
    until: i64,
}

struct Module {
    base: u64,
    position: u32,
}

/// One process.
#[derive(Default)]
pub struct Process {
    placed: Vec<Placed>,
    /// By base.
    modules: Vec<Module>,
    programs: Vec<Program>,
    /// What is told now was not there at this time.
    since: Option<i64>,
    /// When an address may have come to be in another file, sorted.
    cuts: Vec<i64>,
}

impl Process {
    /// Takes what became of its program.
    pub fn program(&mut self, program: Program) {
        self.programs.push(program);
        match program.phase {
            Phase::Begin { .. } => {
                let has_past = !self.placed.is_empty();
                self.placed.iter_mut().for_each(|placed| placed.until = placed.until.min(program.time));
                self.since = has_past.then_some(program.time);
                if has_past {
                    self.cut(program.time);
                }
            }
            Phase::Look { since_ns } => {
                self.since = Some(program.time.saturating_sub(since_ns).saturating_sub(SLACK_NS));
            }
            Phase::End => {}
        }
    }

    /// Takes a mapping that was told then, by a look at this process alone or by a dump of all. Returns whether it is
    /// one more.
    pub fn map(&mut self, (start, end): (u64, u64), mapping: u32, all: &[Mapping], told: i64, is_look: bool) -> bool {
        let is_there = |placed: &Placed| placed.until == i64::MAX;
        let overlaps = |placed: &Placed| is_there(placed) && placed.start < end && start < placed.end;
        if self.placed.iter().any(|placed| is_there(placed) && *placed == Placed { start, end, mapping, ..*placed }) {
            return false;
        }
        let since = self.since.filter(|_| is_look);
        let mut new = Placed { start, end, mapping, told, from: since.unwrap_or(i64::MIN), until: i64::MAX };
        // A part of the same file that became longer or shorter.
        let same = self.placed.iter().position(|old| overlaps(old) && is_same(old, &new, all));
        if let Some(same) = same {
            new.from = self.placed.remove(same).from;
            self.placed.push(new);
            return false;
        }
        let mut cuts = Vec::new();
        for old in self.placed.iter_mut().filter(|old| overlaps(old)) {
            // Between the two looks either may have been there.
            old.until = since.unwrap_or(i64::MIN).max(old.told);
            new.from = told;
            cuts.extend([old.until, told]);
        }
        cuts.into_iter().for_each(|time| self.cut(time));
        self.placed.push(new);
        true
    }

    fn cut(&mut self, time: i64) {
        let at = self.cuts.partition_point(|cut| *cut < time);
        self.cuts.insert(at, time);
    }

    /// Takes a file whose addresses begin there. Returns whether it is one more.
    pub fn module(&mut self, base: u64, position: u32) -> bool {
        if self.modules.iter().any(|module| module.base == base) {
            return false;
        }
        self.modules.push(Module { base, position });
        self.modules.sort_by_key(|module| module.base);
        true
    }

    /// Whether any file is known.
    pub fn has_files(&self) -> bool {
        !self.placed.is_empty() || !self.modules.is_empty()
    }

    /// What became of its programs.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// What was mapped when a program began, as the first look at it told: first address and mapping.
    pub fn at_begin(&self, begin: i64) -> impl Iterator<Item = (u64, u32)> {
        let next = self.programs.iter().map(|program| program.time).find(|time| *time > begin).unwrap_or(i64::MAX);
        let of_look = self.placed.iter().filter(move |placed| begin <= placed.told && placed.told < next);
        of_look.map(|placed| (placed.start, placed.mapping))
    }

    /// Whether a mapping was there at any time.
    pub fn had(&self, start: u64, mapping: u32) -> bool {
        self.placed.iter().any(|placed| (placed.start, placed.mapping) == (start, mapping))
    }

    /// How many times an address may have come to be in another file until then.
    pub fn epoch(&self, time: i64) -> usize {
        self.cuts.partition_point(|cut| *cut <= time)
    }

    /// Where an address lies then, or at any time. An error where that is not known; `true`: there were two files.
    pub fn find(&self, all: &[Mapping], time: Option<i64>, address: u64) -> Result<AddressPlace, bool> {
        let holds = |placed: &&Placed| placed.start <= address && address < placed.end;
        let mut candidates = self.placed.iter().filter(holds);
        let valid = |placed: &Placed| time.is_none_or(|time| placed.from <= time && time < placed.until);
        let Some(found) = candidates.clone().find(|placed| valid(placed)) else {
            return match candidates.nth(1) {
                Some(_) => Err(true),
                None if self.placed.iter().any(|placed| holds(&placed)) => Err(false),
                None => self.in_module(address).ok_or(false),
            };
        };
        if time.is_none() && candidates.any(|other| !is_same(other, found, all)) {
            return Err(true);
        }
        let first = all.get(found.mapping as usize).map_or(found.start, |mapping| mapping.start);
        Ok(AddressPlace::Mapped { mapping: found.mapping, address: first + (address - found.start) })
    }

    fn in_module(&self, address: u64) -> Option<AddressPlace> {
        // A base may be that of an executable that is not moved: 0.
        let behind = self.modules.partition_point(|module| module.base <= address);
        let module = self.modules[..behind].last()?;
        Some(AddressPlace::Module { module: module.position, address: address - module.base })
    }
}

/// Whether two mappings give every address the same place of the same file.
fn is_same(one: &Placed, other: &Placed, all: &[Mapping]) -> bool {
    let of = |placed: &Placed| all.get(placed.mapping as usize);
    let (Some(a), Some(b)) = (of(one), of(other)) else { return false };
    let begin = |placed: &Placed, mapping: &Mapping| placed.start.wrapping_sub(mapping.offset);
    a.path == b.path && a.build_id == b.build_id && begin(one, a) == begin(other, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Mapping {
        Mapping { start: 0x1000, end: 0x2000, offset: 0, path: path.into(), build_id: vec![1] }
    }

    /// Which mapping an address is in then.
    fn at(process: &Process, all: &[Mapping], time: Option<i64>) -> Result<u32, bool> {
        process.find(all, time, 0x1800).map(|place| match place {
            AddressPlace::Mapped { mapping, .. } => mapping,
            other => panic!("{other:?}"),
        })
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn a_library_in_the_place_of_another_one() {
        let all = [file("/a"), file("/b")];
        let mut process = Process::default();
        process.program(Program { time: 0, phase: Phase::Begin { parent: 0 } });
        assert!(process.map((0x1000, 0x2000), 0, &all, 1, true));
        assert!(!process.map((0x1000, 0x2000), 0, &all, 2, true), "told twice");
        process.program(Program { time: 1000 * MS, phase: Phase::Look { since_ns: 500 * MS } });
        assert!(process.map((0x1000, 0x2000), 1, &all, 1000 * MS, true));
        assert_eq!(at(&process, &all, Some(498 * MS)), Ok(0));
        assert_eq!(at(&process, &all, Some(700 * MS)), Err(true), "either may have been there");
        assert_eq!(at(&process, &all, Some(1000 * MS)), Ok(1));
        assert_eq!(at(&process, &all, None), Err(true));
        assert_eq!([0, 600 * MS, 2000 * MS].map(|time| process.epoch(time)), [0, 1, 2]);
    }

    #[test]
    fn another_program_in_the_same_process() {
        let all = [file("/a"), file("/b")];
        let mut process = Process::default();
        process.program(Program { time: 10, phase: Phase::Begin { parent: 0 } });
        process.map((0x1000, 0x2000), 0, &all, 11, true);
        assert_eq!(at(&process, &all, Some(5)), Ok(0), "a program that ran before it was found");
        process.program(Program { time: 50, phase: Phase::Begin { parent: 0 } });
        process.map((0x1000, 0x2000), 1, &all, 51, true);
        assert_eq!([49, 50, 60].map(|time| at(&process, &all, Some(time))), [Ok(0), Ok(1), Ok(1)]);
    }

    #[test]
    fn what_was_not_there_at_the_look_before() {
        let all = [file("/a")];
        let mut process = Process::default();
        process.program(Program { time: 0, phase: Phase::Begin { parent: 0 } });
        process.program(Program { time: 1000 * MS, phase: Phase::Look { since_ns: 500 * MS } });
        process.map((0x1000, 0x2000), 0, &all, 1000 * MS, true);
        assert_eq!(at(&process, &all, Some(600 * MS)), Ok(0));
        assert_eq!(at(&process, &all, Some(100 * MS)), Err(false));
        // By a dump nothing is known of before.
        let mut dumped = Process::default();
        dumped.map((0x1000, 0x2000), 0, &all, 1000 * MS, false);
        assert_eq!(at(&dumped, &all, Some(100 * MS)), Ok(0));
    }

    #[test]
    fn a_file_whose_mapping_became_longer() {
        let longer = Mapping { end: 0x3000, ..file("/a") };
        let all = [file("/a"), longer];
        let mut process = Process::default();
        process.map((0x1000, 0x2000), 0, &all, 1, false);
        assert!(!process.map((0x1000, 0x3000), 1, &all, 2, false));
        assert_eq!(at(&process, &all, None), Ok(1));
    }
}
