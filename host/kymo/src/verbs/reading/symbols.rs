// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where functions and lines come from: this machine's files for programs, and for the kernel a given file, `.kallsyms`
//! beside the trace, or /proc/kallsyms [spec/analyze.md 12]. What is mapped where in a process: [`memory`].

mod memory;

use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use kymo_ctf::read::{Record, Trace};
use kymo_export::export::stacks::{Naming, Space};
use kymo_symbols::{Files, Kernel, Missing};

use memory::{AddressOrigin, Memory};

/// Bytes of a program's file, or of the kernel's text, that are read at most.
const FILE_MAX: u64 = 1 << 30;
/// Reasons that are told at most.
const REASONS_MAX: usize = 5;

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
    kernel: Result<Kernel, String>,
    memory: Memory,
    /// Why some could not be found: each reason once.
    reasons: RefCell<Vec<String>>,
}

impl Symbolizer {
    /// With the kernel's functions from `file`, else from beside a trace, else from this machine where it is the one
    /// that was traced.
    pub fn new(file: Option<&Path>, traces: &[Trace]) -> anyhow::Result<Symbolizer> {
        let kernel = match file {
            Some(path) => Ok(from_file(path)?),
            None => beside(traces).map_or_else(|| running(traces), Ok),
        };
        let programs = kymo_symbols::Symbols::new(Disk);
        Ok(Symbolizer { programs, kernel, memory: Memory::default(), reasons: RefCell::default() })
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

    /// Why some functions could not be found.
    pub fn reasons(&self) -> Vec<String> {
        self.reasons.borrow().clone()
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

    /// Function and line at an address of a process of one trace (`None`: of whichever knows the process).
    /// `is_return`: where a call returns to.
    pub fn of_program(&self, trace: Option<usize>, process: u32, address: u64, is_return: bool) -> Option<String> {
        let named = self.memory.find(trace, process, address).and_then(|place| match place {
            AddressOrigin::Mapped(mapping) => {
                let frames = self.programs.find(mapping, address, is_return)?;
                let frames: Vec<String> = frames.iter().map(kymo_symbols::Frame::to_string).collect();
                Ok(frames.join(", inlined into "))
            }
            AddressOrigin::Module { path, address } => Ok(self.programs.function_of_file(path, address)?.to_string()),
        });
        self.told(process, named)
    }

    /// The function alone, with the offset in it.
    fn function(&self, trace: usize, process: u32, address: u64) -> Option<String> {
        let named = self.memory.find(Some(trace), process, address).and_then(|place| match place {
            AddressOrigin::Mapped(mapping) => self.programs.function(mapping, address),
            AddressOrigin::Module { path, address } => self.programs.function_of_file(path, address),
        });
        self.told(process, named.map(|frame| frame.to_string()))
    }

    fn told(&self, process: u32, named: Result<String, Missing>) -> Option<String> {
        let why = match named {
            Ok(name) => return Some(name),
            Err(Missing::NotMapped) if !self.memory.has(process) => format!(
                "the trace does not have the memory of process {process}: addresses of it stay numbers (it is recorded of \
                 programs with kymo's tracepoints, and by --state full of those that run when recording begins or ends)"
            ),
            Err(why) => why.to_string(),
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

    fn user(&self, process: i32, address: u64, _: i64) -> Option<String> {
        self.of_program(None, u32::try_from(process).ok()?, address, true)
    }
}

impl Naming for Symbolizer {
    fn learn(&mut self, record: &Record<'_>) {
        self.memory.learn(record);
    }

    fn name(&mut self, space: Space, address: u64) -> Option<String> {
        match space {
            Space::Kernel => self.of_kernel(address),
            Space::Process(trace, process) => self.function(trace, process, address),
        }
    }
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
