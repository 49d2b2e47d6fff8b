// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace says of the memory of processes, and when: maps of the state dump, and modules that programs told of
//! themselves.
//!
//! | event | who |
//! |---|---|
//! | `lttng_statedump_vm_map` | kymo's state dump, and its looks at programs: path, build id, addresses, place in the file |
//! | `lttng_statedump_process_state` | the state dump: the control group of a thread |
//! | `kymo_statedump_program` | those looks: that a program begins or ends, and when it was looked at before |
//! | `function:module` | programs with `--with functions`: path, and what is added to the file's addresses |
//! | `lttng_ust_statedump:bin_info`, `lttng_ust_lib:load` | LTTng-UST: the same, and how long it is |

use std::collections::{HashMap, HashSet};
use std::path::Path;

use kymo_ctf::read::{Content, Directory, Error, Files, Item, Reader, Record, Trace, Value};
use kymo_symbols::Mapping;

use super::place::{AddressPlace, time_of, unsigned};
use super::process::{PROGRAM, Process, Program, program_of};

/// Mappings and modules that are kept at most, of all processes.
const KEPT_MAX: usize = 1 << 20;

const MAP: &str = "lttng_statedump_vm_map";
const THREAD: &str = "lttng_statedump_process_state";
const MODULE: &str = "function:module";
const LTTNG: [&str; 2] = ["lttng_ust_statedump:bin_info", "lttng_ust_lib:load"];
/// The state dump's streams, and those of looks at programs [spec/trace.md].
const STATE: &str = "state_";
const LOOKS: &str = "state_maps_";

/// By trace and process.
#[derive(Default)]
pub struct Memory {
    processes: HashMap<(usize, u32), Process>,
    /// Each stretch of a file once, as the first process had it.
    mappings: Vec<Mapping>,
    /// Where it is in `mappings`, by path, build id, place in the file and length.
    known: HashMap<(String, Vec<u8>, u64, u64), u32>,
    /// Paths of modules.
    modules: Vec<String>,
    /// Traces of which all is known.
    are_known: HashSet<usize>,
    kept: usize,
    /// Control groups of threads.
    groups: HashMap<i32, String>,
}

impl Memory {
    /// Takes what a record says, unless all that its trace says is known already.
    pub fn learn(&mut self, record: &Record<'_>) {
        if !self.are_known.contains(&record.trace) {
            self.take(record);
        }
    }

    /// Whether records of an event say something.
    pub fn learns_of(event: &str) -> bool {
        lesson(event).is_some()
    }

    fn take(&mut self, record: &Record<'_>) {
        if let Some(lesson) = lesson(&record.event.name) {
            lesson(self, record);
        }
    }

    fn group_of(&mut self, record: &Record<'_>) {
        let tid = unsigned(record.payload, "tid").and_then(|tid| i32::try_from(tid).ok());
        if let (Some(tid), Some(Value::Text(group))) = (tid, record.payload.get("cgroup")) {
            self.groups.insert(tid, group.into_owned());
        }
    }

    /// Control groups of threads, as state dumps have them.
    pub fn groups(&self) -> impl Iterator<Item = (i32, &str)> {
        self.groups.iter().map(|(tid, group)| (*tid, group.as_str()))
    }

    /// Takes all that those traces say of which the state dump has it all.
    pub fn learn_dumps(&mut self, traces: &[Trace]) -> anyhow::Result<()> {
        for (position, trace) in traces.iter().enumerate() {
            let has_modules = trace.metadata.events.iter().any(|event| is_of_modules(&event.name));
            if has_modules || !trace.streams().any(|(name, _)| name.starts_with(STATE)) {
                continue;
            }
            let mut dump = Trace::from_files(&Dump(Directory(Path::new(&trace.label))))?.value;
            if trace.ignores_uuid() {
                dump.ignore_uuid();
            }
            // Times as the trace has them that is asked about.
            dump.metadata.clocks.clone_from(&trace.metadata.clocks);
            self.take_trace(&[dump], position);
        }
        Ok(())
    }

    /// Takes all that traces say: the dumps, and of others everything is read.
    pub fn learn_all(&mut self, traces: &[Trace]) -> anyhow::Result<()> {
        self.learn_dumps(traces)?;
        for (position, trace) in traces.iter().enumerate() {
            let tells = |name: &str| name == MAP || is_of_modules(name);
            if !self.are_known.contains(&position) && trace.metadata.events.iter().any(|event| tells(&event.name)) {
                self.take_trace(std::slice::from_ref(trace), position);
            }
        }
        Ok(())
    }

    fn take_trace(&mut self, trace: &[Trace], position: usize) {
        if !self.are_known.insert(position) {
            return;
        }
        let mut reader = Reader::new(trace);
        while let Some(item) = reader.next() {
            if let Item::Record(mut record) = item {
                record.trace = position;
                self.take(&record);
            }
        }
    }

    fn program(&mut self, record: &Record<'_>) {
        let Some((pid, program)) = program_of(record) else { return };
        self.processes.entry((record.trace, pid)).or_default().program(program);
    }

    fn map(&mut self, record: &Record<'_>) {
        let number = |name: &str| unsigned(record.payload, name);
        let (Some(pid), Some(start), Some(end)) = (number("pid"), number("start"), number("end")) else { return };
        let (Ok(pid), Some(Value::Text(path))) = (u32::try_from(pid), record.payload.get("path")) else { return };
        if start >= end || self.kept >= KEPT_MAX {
            return;
        }
        let build_id = match record.payload.get("build_id") {
            Some(Value::Bytes(bytes)) => bytes.to_vec(),
            _ => Vec::new(),
        };
        let offset = number("pgoff").unwrap_or(0);
        let mapping = Mapping { start, end, offset, path: path.into_owned(), build_id };
        let key = (mapping.path.clone(), mapping.build_id.clone(), offset, end - start);
        let mappings = &mut self.mappings;
        let position = *self.known.entry(key).or_insert_with(|| {
            mappings.push(mapping);
            mappings.len() as u32 - 1
        });
        let process = self.processes.entry((record.trace, pid)).or_default();
        let is_look = record.stream.starts_with(LOOKS);
        self.kept += usize::from(process.map((start, end), position, &self.mappings, time_of(record), is_look));
    }

    fn module_of(&mut self, record: &Record<'_>, base: &str) {
        let (Some(base), Some(Value::Text(path))) = (unsigned(record.payload, base), record.payload.get("path")) else {
            return;
        };
        let number = record.vpid.or(record.vtid).unwrap_or(0);
        let process = self.processes.entry((record.trace, number)).or_default();
        if self.kept < KEPT_MAX && process.module(base, self.modules.len() as u32) {
            self.kept += 1;
            self.modules.push(path.into_owned());
        }
    }

    /// Whether anything is known of the memory of a process.
    pub fn has(&self, process: u32) -> bool {
        self.processes.iter().any(|((_, known), of)| *known == process && of.has_files())
    }

    /// The mapping of a place.
    pub fn mapping(&self, position: u32) -> Option<&Mapping> {
        self.mappings.get(position as usize)
    }

    /// The path of a place's module.
    pub fn module(&self, position: u32) -> Option<&str> {
        self.modules.get(position as usize).map(String::as_str)
    }

    /// What the trace says of a program, in the order of time.
    pub fn programs(&self, trace: usize, process: u32) -> &[Program] {
        self.processes.get(&(trace, process)).map_or(&[], |process| process.programs())
    }

    /// Whether a program began as a copy of another one, by `fork`: its files are mapped where those of the other one
    /// are. After an `exec` they are elsewhere, except where the kernel does not choose addresses at random.
    pub fn is_copy(&self, trace: usize, child: u32, parent: u32, begin: i64) -> bool {
        let of = |process: u32| self.processes.get(&(trace, process));
        let (Some(child), Some(parent)) = (of(child), of(parent)) else { return false };
        let (all, common) = child.at_begin(begin).fold((0, 0), |(all, common), (start, mapping)| {
            (all + 1, common + usize::from(parent.had(start, mapping)))
        });
        // An executable that is not moved is in its place after an `exec`, too.
        common * 2 > all
    }

    /// How often the memory of a process became another one until then: between two numbers that are the same, an
    /// address is in one place.
    pub fn epoch(&self, trace: usize, process: u32, time: i64) -> usize {
        self.processes.get(&(trace, process)).map_or(0, |process| process.epoch(time))
    }

    /// Where an address lies in a process of one trace, or of any; `time`: then, else at any time.
    pub fn find(&self, trace: Option<usize>, process: u32, time: Option<i64>, address: u64) -> AddressPlace {
        let mut found: Vec<_> = match trace {
            Some(trace) => self.processes.get_key_value(&(trace, process)).into_iter().collect(),
            None => self.processes.iter().filter(|(key, _)| key.1 == process).collect(),
        };
        found.sort_by_key(|(key, _)| **key);
        let places = found.iter().map(|(_, known)| known.find(&self.mappings, time, address));
        let best = places.min_by_key(|place| match place {
            Ok(AddressPlace::Mapped { .. }) => 0,
            Ok(_) => 1,
            Err(true) => 2,
            Err(false) => 3,
        });
        match best {
            Some(Ok(place)) => place,
            other => AddressPlace::Nowhere { process, address, is_remapped: matches!(other, Some(Err(true))) },
        }
    }
}

/// What is learned from records of an event.
fn lesson(event: &str) -> Option<fn(&mut Memory, &Record<'_>)> {
    match event {
        MAP => Some(Memory::map),
        PROGRAM => Some(Memory::program),
        MODULE => Some(|memory, record| memory.module_of(record, "base")),
        THREAD => Some(Memory::group_of),
        name if is_of_modules(name) => Some(|memory, record| memory.module_of(record, "baddr")),
        _ => None,
    }
}

/// Whether records of an event tell of modules.
fn is_of_modules(name: &str) -> bool {
    name == MODULE || LTTNG.contains(&name)
}

/// The state dump of a trace, as a trace of its own.
struct Dump<'a>(Directory<'a>);

impl Files for Dump<'_> {
    fn label(&self) -> String {
        self.0.label()
    }

    fn metadata(&self) -> Result<Content, Error> {
        self.0.metadata()
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        let mut names = self.0.streams()?;
        names.retain(|name| name.starts_with(STATE));
        Ok(names)
    }

    fn open(&self, name: &str) -> Result<Content, Error> {
        self.0.open(name)
    }
}
