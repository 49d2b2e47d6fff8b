// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where functions and lines come from: this machine's files for programs, and for the kernel a given file, `.kallsyms`
//! beside the trace, or /proc/kallsyms [spec/analyze.md 12]. What is mapped where in a process: [`memory`]. Which
//! fields are addresses: [`fields`].

pub mod fields;
mod memory;
mod place;
mod process;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use kymo_ctf::read::{Metadata, Record, Trace};
use kymo_export::export::stacks::{Naming, Space};
use kymo_symbols::{Files, Kernel, Missing};

use fields::Meaning;
use memory::Memory;
pub use place::{AddressPlace, time_of};
pub use process::{Phase, Program, program_of};

/// Bytes of a program's file, or of the kernel's text, that are read at most.
const FILE_MAX: u64 = 1 << 30;
/// Reasons that are told one by one, and that are counted.
const REASONS_SHOWN: usize = 5;
const REASONS_MAX: usize = 1000;
/// Names that are remembered.
const NAMED_MAX: usize = 1 << 20;
/// Above it is the kernel, in all of Linux' 64-bit address spaces that kymo records.
const KERNEL_BEGIN: u64 = 0xffff_8000_0000_0000;

/// This machine's files.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        // Only regular files: to open a device can do something.
        let about = std::fs::metadata(path).ok()?;
        if !about.is_file() || about.len() > FILE_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// All functions that can be known.
pub struct Symbolizer {
    programs: kymo_symbols::Symbols<Disk>,
    /// Or why there are none.
    kernel: Result<Arc<Kernel>, String>,
    memory: Memory,
    /// By trace and event: fields of the payload that can be addresses.
    fields: Vec<Vec<Vec<(usize, String, Meaning)>>>,
    /// Names that were asked for, and whether it was where a call returns to.
    named: RefCell<HashMap<(AddressPlace, bool), Option<String>>>,
    /// Why some could not be found: each reason once.
    reasons: RefCell<Vec<String>>,
}

impl Symbolizer {
    /// With the kernel's functions from `file`, else from beside a trace, else from this machine where it is the one
    /// that was traced.
    pub fn new(file: Option<&Path>, traces: &[Trace]) -> anyhow::Result<Symbolizer> {
        let kernel = match file {
            Some(path) => Ok(Arc::new(from_file(path)?)),
            None => Self::kernel_of(traces),
        };
        Self::with_kernel(kernel, traces)
    }

    /// The functions of the kernel of these traces, or why they are not known; for several that share them.
    pub fn kernel_of(traces: &[Trace]) -> Result<Arc<Kernel>, String> {
        beside(traces).map_or_else(|| running(traces), Ok).map(Arc::new)
    }

    /// With these functions of the kernel.
    pub fn with_kernel(kernel: Result<Arc<Kernel>, String>, traces: &[Trace]) -> anyhow::Result<Symbolizer> {
        let programs = kymo_symbols::Symbols::new(Disk);
        let mut memory = Memory::default();
        memory.learn_dumps(traces)?;
        let fields = traces.iter().map(|trace| fields_of(&trace.metadata)).collect();
        let (named, reasons) = Default::default();
        Ok(Symbolizer { programs, kernel, memory, fields, named, reasons })
    }

    /// A text that is an address of the kernel as its function, where that is known; any other as it is.
    pub fn named(&self, text: &str) -> String {
        let address = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let name = address.and_then(|address| self.of_kernel(address));
        name.unwrap_or_else(|| text.to_owned())
    }

    /// Takes what a record says of the memory of a process.
    pub fn learn(&mut self, record: &Record<'_>) {
        self.memory.learn(record);
    }

    /// All that traces say of that, before their records are shown.
    pub fn learn_all(&mut self, traces: &[Trace]) -> anyhow::Result<()> {
        self.memory.learn_all(traces)
    }

    /// What the traces say of a program, in the order of time.
    pub fn programs(&self, trace: usize, process: u32) -> &[Program] {
        self.memory.programs(trace, process)
    }

    /// Whether a program that began then is a copy of another one, by `fork`.
    pub fn is_copy(&self, trace: usize, child: u32, parent: u32, begin: i64) -> bool {
        self.memory.is_copy(trace, child, parent, begin)
    }

    /// The file of a place, as the process saw it, and the byte of it.
    pub fn file_of(&self, place: AddressPlace) -> Option<(&str, u64)> {
        let AddressPlace::Mapped { mapping, address } = place else { return None };
        let mapping = self.memory.mapping(mapping)?;
        Some((&mapping.path, address.checked_sub(mapping.start)?.checked_add(mapping.offset)?))
    }

    /// Between two times with the same number an address of a process is in one place.
    pub fn epoch(&self, trace: usize, process: u32, time: i64) -> usize {
        self.memory.epoch(trace, process, time)
    }

    /// Why some functions could not be found: each reason once.
    pub fn reasons(&self) -> Vec<String> {
        let reasons = self.reasons.borrow();
        let mut shown: Vec<String> = reasons.iter().take(REASONS_SHOWN).cloned().collect();
        let beyond = reasons.len() - shown.len();
        if beyond > 0 {
            shown.push(format!("{beyond} more reasons why addresses stay numbers are not listed"));
        }
        shown
    }

    fn missing(&self, why: String) {
        let mut reasons = self.reasons.borrow_mut();
        if reasons.len() < REASONS_MAX && !reasons.contains(&why) {
            reasons.push(why);
        }
    }

    /// The function of the kernel at an address.
    pub fn of_kernel(&self, address: u64) -> Option<String> {
        match &self.kernel {
            Ok(kernel) => kernel.find(address),
            Err(why) => {
                self.missing(format!("functions of the kernel are not named: {why}"));
                None
            }
        }
    }

    /// Where an address of a process lay then; `None` as a time: at any.
    pub fn locate(&self, trace: usize, process: u32, time: Option<i64>, address: u64) -> AddressPlace {
        self.memory.find(Some(trace), process, time, address)
    }

    /// Function and line at a place, with what is inlined there. `is_return`: where a call returns to.
    pub fn name_at(&self, place: AddressPlace, is_return: bool) -> Option<String> {
        if let Some(known) = self.named.borrow().get(&(place, is_return)) {
            return known.clone();
        }
        let name = self.found(place, is_return);
        let mut named = self.named.borrow_mut();
        if named.len() < NAMED_MAX {
            named.insert((place, is_return), name.clone());
        }
        name
    }

    fn found(&self, place: AddressPlace, is_return: bool) -> Option<String> {
        let text = |frames: Vec<kymo_symbols::Frame>| {
            let frames: Vec<String> = frames.iter().map(kymo_symbols::Frame::to_string).collect();
            frames.join(", inlined into ")
        };
        self.told(place, self.frames(place, is_return).map(text))
    }

    /// The function alone, with the offset in it.
    pub fn function(&self, place: AddressPlace) -> Option<String> {
        self.told(place, self.symbol(place).map(|frame| frame.to_string()))
    }

    /// The function that a call returns to, without the offset: what frames of flame graphs are called.
    pub fn caller(&self, place: AddressPlace) -> Option<String> {
        let back = |address: u64| address.saturating_sub(1);
        let before = match place {
            AddressPlace::Mapped { mapping, address } => AddressPlace::Mapped { mapping, address: back(address) },
            AddressPlace::Module { module, address } => AddressPlace::Module { module, address: back(address) },
            nowhere => nowhere,
        };
        self.told(place, self.symbol(before).map(|frame| frame.function))
    }

    /// The function at an address of a field, of the kernel or of a process at that time. Nothing is missing where the
    /// value may be a mere number.
    pub fn of_address(
        &self,
        trace: usize,
        process: Option<u32>,
        time: i64,
        address: u64,
        meaning: Meaning,
    ) -> Option<String> {
        match (address >= KERNEL_BEGIN, meaning) {
            (true, Meaning::Maybe) => return None,
            (true, _) => return self.of_kernel(address),
            (false, _) => {}
        }
        let Some(process) = process else {
            if meaning != Meaning::Maybe {
                self.missing(
                    "of some records the trace does not tell the process: their addresses stay numbers".into(),
                );
            }
            return None;
        };
        match (self.locate(trace, process, Some(time), address), meaning) {
            (place, Meaning::Return | Meaning::Code) => self.name_at(place, meaning == Meaning::Return),
            (place @ AddressPlace::Mapped { .. }, Meaning::Maybe) => self.name_at(place, false),
            (_, Meaning::Maybe) => None,
        }
    }

    fn frames(&self, place: AddressPlace, is_return: bool) -> Result<Vec<kymo_symbols::Frame>, Missing> {
        match place {
            AddressPlace::Mapped { mapping, address } => {
                let mapping = self.memory.mapping(mapping).ok_or(Missing::NotMapped)?;
                self.programs.find(mapping, address, is_return)
            }
            other => Ok(vec![self.symbol(other)?]),
        }
    }

    /// By the symbol table.
    fn symbol(&self, place: AddressPlace) -> Result<kymo_symbols::Frame, Missing> {
        match place {
            AddressPlace::Mapped { mapping, address } => {
                let mapping = self.memory.mapping(mapping).ok_or(Missing::NotMapped)?;
                self.programs.function(mapping, address)
            }
            AddressPlace::Module { module, address } => {
                let path = self.memory.module(module).ok_or(Missing::NotMapped)?;
                self.programs.function_of_file(path, address)
            }
            AddressPlace::Nowhere { is_remapped: true, .. } => Err(Missing::Remapped),
            AddressPlace::Nowhere { .. } => Err(Missing::NotMapped),
        }
    }

    fn told(&self, place: AddressPlace, named: Result<String, Missing>) -> Option<String> {
        let why = match (named, place) {
            (Ok(name), _) => return Some(name),
            (Err(Missing::NotMapped), AddressPlace::Nowhere { process, .. }) if !self.memory.has(process) => format!(
                "the trace does not have the memory of process {process}: addresses of it stay numbers (it is recorded of \
                 programs whose events have addresses, and by --state-dump full of those that run when recording begins or ends)"
            ),
            (Err(why), _) => why.to_string(),
        };
        self.missing(why);
        None
    }
}

impl kymo_analyze::explain::Symbols for Symbolizer {
    fn kernel(&self, address: u64) -> Option<String> {
        self.of_kernel(address)
    }

    fn kernel_offset(&self, offset: i64) -> Option<String> {
        let kernel = self.kernel.as_ref().ok()?;
        kernel.find(kernel.text_begin()?.checked_add_signed(offset)?)
    }

    fn user(&self, process: i32, address: u64, time: i64) -> Option<String> {
        let place = self.memory.find(None, u32::try_from(process).ok()?, Some(time), address);
        self.name_at(place, true)
    }
}

impl kymo_query::Symbolize for Symbolizer {
    fn learn(&mut self, record: &Record<'_>) {
        self.memory.learn(record);
    }

    fn learns_of(&self, event: &str) -> bool {
        Memory::learns_of(event)
    }

    fn address_in_kernel(&self, name: &str) -> Option<u64> {
        self.kernel.as_ref().ok()?.address_of(name)
    }

    fn groups(&self) -> Vec<(i32, String)> {
        self.memory.groups().map(|(tid, group)| (tid, group.to_owned())).collect()
    }

    fn reasons(&self) -> Vec<String> {
        Symbolizer::reasons(self)
    }
}

impl Naming for Symbolizer {
    fn learn(&mut self, record: &Record<'_>) {
        self.memory.learn(record);
    }

    fn name(&mut self, space: Space, address: u64) -> Option<String> {
        match space {
            Space::Kernel => self.of_kernel(address),
            Space::Process(trace, process) => self.function(self.locate(trace, process, None, address)),
        }
    }

    fn of_fields(&mut self, record: &Record<'_>) -> Vec<(String, String)> {
        let fields = self.fields.get(record.trace).and_then(|events| events.get(record.event_position));
        let process = record.vpid.or(record.vtid);
        let named = |(position, name, meaning): &(usize, String, Meaning)| {
            let address = fields::address(&record.payload.at(*position)?).filter(|address| *address != 0)?;
            let function = self.of_address(record.trace, process, time_of(record), address, *meaning)?;
            Some((format!("{name}.function"), function))
        };
        fields.into_iter().flatten().filter_map(named).collect()
    }
}

/// By event: fields of the payload that can be addresses.
fn fields_of(metadata: &Metadata) -> Vec<Vec<(usize, String, Meaning)>> {
    let of_event = |event| {
        let fields = metadata.fields(event).into_iter().filter(|field| !field.is_length);
        let named = fields.filter_map(|field| {
            Some((field.position, field.name.to_owned(), fields::meaning(field.name, &field.kind)?))
        });
        named.collect()
    };
    metadata.events.iter().map(of_event).collect()
}

/// A System.map, or a copy of /proc/kallsyms.
pub fn from_file(path: &Path) -> anyhow::Result<Kernel> {
    let bytes = Disk.read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Kernel::parse(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())
}

/// What an import has put beside its trace.
fn beside(traces: &[Trace]) -> Option<Kernel> {
    let texts = traces.iter().map(|trace| Disk.read(&Path::new(&trace.label).join(".kallsyms")));
    texts.flatten().find_map(|text| Kernel::parse(&String::from_utf8_lossy(&text)).ok())
}

/// The functions of the kernel that runs here, if it is the one that was traced: the same boot.
fn running(traces: &[Trace]) -> Result<Kernel, String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = boot.trim().replace('-', "");
    let hex = |uuid: [u8; 16]| uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let clocks = traces.iter().flat_map(|trace| &trace.metadata.clocks);
    let is_here = clocks.filter_map(|clock| clock.uuid).any(|uuid| hex(uuid) == boot);
    if !is_here {
        return Err(
            "the trace is not of this boot of this machine; give its System.map or kallsyms by --symbols".to_owned()
        );
    }
    let mut text = String::new();
    let file = File::open("/proc/kallsyms").map_err(|error| format!("/proc/kallsyms: {error}"))?;
    file.take(FILE_MAX).read_to_string(&mut text).map_err(|error| format!("/proc/kallsyms: {error}"))?;
    Kernel::parse(&text).map_err(|why| why.to_string())
}
