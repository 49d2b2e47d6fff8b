// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace says of the memory of processes: maps of the state dump, and modules that programs told of themselves.
//!
//! | event | who |
//! |---|---|
//! | `lttng_statedump_vm_map` | kymo's state dump, and its looks at programs: path, build id, addresses, place in the file |
//! | `function:module` | programs with `--with functions`: path, and what is added to the file's addresses |
//! | `lttng_ust_statedump:bin_info`, `lttng_ust_lib:load` | LTTng-UST: the same, and how long it is |

use std::collections::HashMap;
use std::path::Path;

use kymo_ctf::read::{Content, Directory, Error, Fields, Files, Item, Reader, Record, Trace, Value};
use kymo_symbols::{Mapping, Missing};

/// Mappings and modules that are kept at most, of all processes.
const KEPT_MAX: usize = 1 << 20;

const MAP: &str = "lttng_statedump_vm_map";
const MODULE: &str = "function:module";
const LTTNG: [&str; 2] = ["lttng_ust_statedump:bin_info", "lttng_ust_lib:load"];
/// The state dump's streams [spec/trace.md].
const STATE: &str = "state_";

/// By trace and process.
#[derive(Default)]
pub struct Memory {
    processes: HashMap<(usize, u32), Process>,
    kept: usize,
}

#[derive(Default)]
struct Process {
    /// None overlaps another one.
    mappings: Vec<Mapping>,
    /// By base.
    modules: Vec<Module>,
}

struct Module {
    base: u64,
    path: String,
}

/// Where an address lies.
pub enum AddressOrigin<'a> {
    /// In this mapping.
    Mapped(&'a Mapping),
    /// In a file, at this address as the file counts them.
    Module {
        /// As the process saw it.
        path: &'a str,
        /// Virtual, in the file.
        address: u64,
    },
}

impl Memory {
    /// Takes what a record says.
    pub fn learn(&mut self, record: &Record<'_>) {
        match record.event.name.as_str() {
            MAP => self.map(record.trace, record.payload),
            MODULE => self.module(record, "base"),
            name if LTTNG.contains(&name) => self.module(record, "baddr"),
            _ => {}
        }
    }

    /// Takes all that traces say: of those of kymo the state dump is read, of others everything.
    pub fn learn_all(&mut self, traces: &[Trace]) -> anyhow::Result<()> {
        for (position, trace) in traces.iter().enumerate() {
            let has = |name: &str| trace.metadata.events.iter().any(|event| event.name == name);
            let dump = trace.streams().any(|(name, _)| name.starts_with(STATE));
            let only_dump = dump && !has(MODULE) && !LTTNG.iter().any(|name| has(name));
            if only_dump {
                let dump = [Trace::from_files(&Dump(Directory(Path::new(&trace.label))))?.value];
                self.learn_trace(&dump, position);
            } else if has(MAP) || has(MODULE) || LTTNG.iter().any(|name| has(name)) {
                self.learn_trace(std::slice::from_ref(trace), position);
            }
        }
        Ok(())
    }

    fn learn_trace(&mut self, trace: &[Trace], position: usize) {
        let mut reader = Reader::new(trace);
        while let Some(item) = reader.next() {
            if let Item::Record(mut record) = item {
                record.trace = position;
                self.learn(&record);
            }
        }
    }

    fn map(&mut self, trace: usize, payload: Fields<'_>) {
        let number = |name: &str| unsigned(payload, name);
        let (Some(pid), Some(start), Some(end)) = (number("pid"), number("start"), number("end")) else { return };
        let (Ok(pid), Some(Value::Text(path))) = (u32::try_from(pid), payload.get("path")) else { return };
        let build_id = match payload.get("build_id") {
            Some(Value::Bytes(bytes)) => bytes.to_vec(),
            _ => Vec::new(),
        };
        let offset = number("pgoff").unwrap_or(0);
        let mapping = Mapping { start, end, offset, path: path.into_owned(), build_id };
        let known = &mut self.processes.entry((trace, pid)).or_default().mappings;
        if known.contains(&mapping) || self.kept >= KEPT_MAX {
            return;
        }
        // What is there now is what was mapped last: the process may have become another program.
        let before = known.len();
        known.retain(|other| other.end <= start || end <= other.start);
        self.kept = self.kept + 1 + known.len() - before;
        known.push(mapping);
    }

    fn module(&mut self, record: &Record<'_>, base: &str) {
        let (Some(base), Some(Value::Text(path))) = (unsigned(record.payload, base), record.payload.get("path")) else {
            return;
        };
        let process = record.vpid.or(record.vtid).unwrap_or(0);
        let modules = &mut self.processes.entry((record.trace, process)).or_default().modules;
        if self.kept < KEPT_MAX && !modules.iter().any(|module| module.base == base) {
            self.kept += 1;
            modules.push(Module { base, path: path.into_owned() });
            modules.sort_by_key(|module| module.base);
        }
    }

    /// Whether anything is known of a process.
    pub fn has(&self, process: u32) -> bool {
        self.processes.keys().any(|(_, known)| *known == process)
    }

    /// Where an address lies in a process of one trace, or of any.
    pub fn find(&self, trace: Option<usize>, process: u32, address: u64) -> Result<AddressOrigin<'_>, Missing> {
        let is_it = |key: &(usize, u32)| key.1 == process && trace.is_none_or(|trace| trace == key.0);
        let mut processes: Vec<_> = match trace {
            Some(trace) => self.processes.get_key_value(&(trace, process)).into_iter().collect(),
            None => self.processes.iter().filter(|(key, _)| is_it(key)).collect(),
        };
        processes.sort_by_key(|(key, _)| **key);
        let places = || processes.iter().map(|(_, process)| process);
        let mapped = places().flat_map(|process| &process.mappings);
        let mapped = mapped.into_iter().find(|mapping| mapping.start <= address && address < mapping.end);
        let module = || {
            places().find_map(|process| {
                // A base may be that of an executable that is not moved: 0.
                let behind = process.modules.partition_point(|module| module.base <= address);
                process.modules[..behind].last()
            })
        };
        let in_module = |module: &'_ Module| address - module.base;
        mapped
            .map(AddressOrigin::Mapped)
            .or_else(|| module().map(|found| AddressOrigin::Module { address: in_module(found), path: &found.path }))
            .ok_or(Missing::NotMapped)
    }
}

fn unsigned(payload: Fields<'_>, name: &str) -> Option<u64> {
    match payload.get(name)? {
        Value::Int(number, _) => u64::try_from(i128::from(number)).ok(),
        _ => None,
    }
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
