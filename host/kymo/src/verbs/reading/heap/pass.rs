// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records to calls of an allocator, and whose heap each is about.

use std::collections::HashMap;

use kymo_analyze::heap::{Call, End, Heap, Operation};
use kymo_analyze::{Class, Record as _, Sink, State};
use kymo_ctf::read::Record;

use super::stacks::{Stacks, Where};
use crate::verbs::analyze::feed::{Input, Payload, Seen, Visit};
use crate::verbs::symbols::{Phase, Program, Symbolizer, program_of};

/// Events that let blocks go.
pub const ENDS: [&str; 2] = ["libc:free", "libc:realloc"];

/// What a record of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeapEvent {
    Allocate,
    Resize,
    Free,
}

/// An event of the allocator: positions of its fields.
#[derive(Clone, Copy, Debug)]
pub struct HeapPlan {
    kind: HeapEvent,
    pointer: usize,
    size: Option<usize>,
    /// How many of `size`.
    count: Option<usize>,
    /// What is resized.
    before: Option<usize>,
    caller: Option<usize>,
}

/// By class: what its records are, where they are calls of the allocator.
pub fn plans(classes: &[Class]) -> Vec<Option<HeapPlan>> {
    classes.iter().map(plan).collect()
}

fn plan(class: &Class) -> Option<HeapPlan> {
    let kind = match class.name.as_str() {
        "libc:malloc" | "libc:calloc" | "libc:memalign" => HeapEvent::Allocate,
        "libc:realloc" => HeapEvent::Resize,
        "libc:free" => HeapEvent::Free,
        _ => return None,
    };
    let position = |name: &str| class.field(&[name]).map(|field| field.position);
    let plan = HeapPlan {
        kind,
        pointer: position("ptr")?,
        size: position("size"),
        count: position("count"),
        before: position("in_ptr"),
        caller: position("caller"),
    };
    // Somebody else's event of that name.
    let is_whole = match kind {
        HeapEvent::Allocate => plan.size.is_some(),
        HeapEvent::Resize => plan.size.is_some() && plan.before.is_some(),
        HeapEvent::Free => true,
    };
    is_whole.then_some(plan)
}

/// A program in a process.
pub struct ProgramOf {
    /// Number of the process, as it sees itself.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// It made records before it was seen itself.
    is_early: bool,
}

/// All that is collected on the way through the records.
pub struct HeapPass {
    pub heap: Heap,
    pub symbols: Symbolizer,
    pub stacks: Stacks,
    /// By the heap's number.
    pub programs: Vec<ProgramOf>,
    /// The program that a process is now, by directory and number.
    now: HashMap<(usize, u32), usize>,
    plans: Vec<Option<HeapPlan>>,
    /// By trace: the directory that it is a part of.
    dirs: Vec<usize>,
}

impl HeapPass {
    /// Nothing yet.
    pub fn new(input: &Input, plans: Vec<Option<HeapPlan>>, range: (i64, i64), steps: u32) -> anyhow::Result<HeapPass> {
        let parts = input.named.iter().map(|named| named.parts.len()).enumerate();
        let mut symbols = Symbolizer::new(None, &input.traces)?;
        symbols.learn_all(&input.traces)?;
        Ok(HeapPass {
            heap: Heap::new(range, steps),
            symbols,
            stacks: Stacks::default(),
            programs: Vec::new(),
            now: HashMap::new(),
            plans,
            dirs: parts.flat_map(|(dir, parts)| std::iter::repeat_n(dir, parts)).collect(),
        })
    }

    fn dir(&self, trace: usize) -> usize {
        self.dirs.get(trace).copied().unwrap_or(usize::MAX)
    }

    /// A program begins or ends.
    fn program(&mut self, trace: usize, pid: u32, program: &Program) {
        let key = (self.dir(trace), pid);
        match program.phase {
            Phase::Begin { parent } => {
                let known = self.now.get(&key).copied();
                let is_early = known.is_some_and(|known| std::mem::take(&mut self.programs[known].is_early));
                let is_copy = parent != 0 && self.symbols.is_copy(trace, pid, parent, program.time);
                // The child whose first records were among its parent's.
                if is_early && is_copy {
                    return;
                }
                self.end(key, program.time, End::Exec);
                if !is_early && is_copy {
                    self.child(trace, pid, parent);
                }
            }
            Phase::End => self.end(key, program.time, End::Exit),
            Phase::Look { .. } => {}
        }
    }

    fn end(&mut self, key: (usize, u32), time: i64, end: End) {
        if let Some(known) = self.now.remove(&key) {
            self.heap.end(known, time, end);
            self.stacks.forget(known);
        }
    }

    /// The heap of a process that was made by `fork`; an empty one where its parent is not known.
    fn child(&mut self, trace: usize, pid: u32, parent: u32) -> usize {
        let dir = self.dir(trace);
        let of_parent = self.now.get(&(dir, parent)).copied().filter(|_| parent != 0);
        let child = match of_parent {
            Some(of_parent) => self.heap.fork(of_parent),
            None => self.heap.process(),
        };
        let name = of_parent.map_or_else(String::new, |of_parent| self.programs[of_parent].name.clone());
        self.programs.push(ProgramOf { pid, name, is_early: false });
        self.now.insert((dir, pid), child);
        child
    }

    /// Number of the heap that a record is about, and of the process whose memory its addresses are in.
    fn whose(&mut self, record: &Record<'_>, time: i64) -> (usize, u32) {
        let pid = record.vpid.or(record.vtid).unwrap_or(0);
        // A forked child writes into its parent's rings until it has its own: its only thread has its number.
        let child = record.vtid.filter(|tid| *tid != pid && self.maker(record.trace, *tid, time) == Some(pid));
        let number = child.unwrap_or(pid);
        let found = match self.now.get(&(self.dir(record.trace), number)) {
            Some(&known) => known,
            None => self.first(record.trace, number, time),
        };
        if child.is_none() && !record.procname.is_empty() && self.programs[found].name != record.procname {
            record.procname.clone_into(&mut self.programs[found].name);
        }
        // Until a forked child is seen itself it is a copy of its parent.
        let of_memory = if self.programs[found].is_early { self.maker(record.trace, number, time) } else { None };
        (found, of_memory.unwrap_or(number))
    }

    /// By whom a process was made that is seen itself only later.
    fn maker(&self, trace: usize, process: u32, time: i64) -> Option<u32> {
        let mut programs = self.symbols.programs(trace, process).iter();
        match programs.find(|program| program.time > time)?.phase {
            Phase::Begin { parent } if parent != 0 => Some(parent),
            _ => None,
        }
    }

    /// The heap of a process of which nothing was known.
    fn first(&mut self, trace: usize, number: u32, time: i64) -> usize {
        let is_begun = self.symbols.programs(trace, number).iter().any(|program| program.time <= time);
        match self.maker(trace, number, time).filter(|_| !is_begun) {
            Some(parent) => {
                let child = self.child(trace, number, parent);
                self.programs[child].is_early = true;
                child
            }
            None => self.child(trace, number, 0),
        }
    }

    fn call(&mut self, seen: &Seen<'_, '_>, plan: &HeapPlan) {
        let (record, payload) = (seen.record, Payload(seen.record.payload));
        let number = |position: Option<usize>| Some(payload.integer(position?)? as u64);
        let Some(pointer) = number(Some(plan.pointer)) else { return };
        let time = seen.head.time;
        let (process, pid) = self.whose(record, time);
        let bytes = number(plan.size).unwrap_or(0).saturating_mul(number(plan.count).unwrap_or(1));
        let before = number(plan.before).unwrap_or(0);
        let operation = match plan.kind {
            HeapEvent::Allocate => Operation::Allocate { address: pointer, bytes },
            HeapEvent::Resize => Operation::Resize { from: before, to: pointer, bytes },
            HeapEvent::Free => Operation::Free { address: pointer },
        };
        let is_new = plan.kind != HeapEvent::Free && pointer != 0;
        let stack = match (seen.is_selected, is_new) {
            (false, _) => None,
            (true, false) => Some(Stacks::UNKNOWN),
            (true, true) => {
                let place = Where { trace: record.trace, process, pid, time };
                Some(self.stacks.of(record, number(plan.caller), &place, &self.symbols))
            }
        };
        let call = Call { time, process, thread: record.vtid.unwrap_or(0), stack };
        // realloc to 0 bytes lets the block go; any other call without memory has changed nothing.
        let has_failed =
            pointer == 0 && plan.kind != HeapEvent::Free && !(plan.kind == HeapEvent::Resize && bytes == 0);
        match has_failed {
            true => self.heap.failed(&call),
            false => self.heap.call(&call, operation),
        }
    }
}

impl Sink for HeapPass {}

impl Visit for HeapPass {
    fn record(&mut self, seen: &Seen<'_, '_>, _: &State) {
        if let Some(plan) = self.plans.get(seen.class).copied().flatten() {
            self.call(seen, &plan);
        } else if let Some((pid, program)) = program_of(seen.record) {
            self.program(seen.record.trace, pid, &program);
        }
    }
}

#[cfg(test)]
mod tests {
    use kymo_analyze::{Field, ValueKind as FieldKind};

    use super::*;

    fn class(name: &str, fields: &[&str]) -> Class {
        let field =
            |(position, name): (usize, &&str)| Field { name: (*name).into(), kind: FieldKind::Integer, position };
        Class { name: name.into(), fields: fields.iter().enumerate().map(field).collect() }
    }

    #[test]
    fn events_of_the_allocator() {
        let check = |name: &str, fields: &[&str], expect: Option<HeapEvent>| {
            assert_eq!(plan(&class(name, fields)).map(|plan| plan.kind), expect, "{name} {fields:?}");
        };
        check("libc:malloc", &["size", "ptr", "caller"], Some(HeapEvent::Allocate));
        check("libc:calloc", &["count", "size", "ptr", "caller"], Some(HeapEvent::Allocate));
        check("libc:memalign", &["alignment", "size", "ptr"], Some(HeapEvent::Allocate));
        check("libc:realloc", &["in_ptr", "size", "ptr"], Some(HeapEvent::Resize));
        check("libc:free", &["ptr"], Some(HeapEvent::Free));
        check("libc:malloc", &["bytes"], None);
        check("libc:realloc", &["size", "ptr"], None);
        check("my:malloc", &["size", "ptr"], None);
    }
}
