//! Where functions and lines come from: this machine's files for programs, /proc/kallsyms or a given file for the kernel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use kymo_ctf::read::{Fields, Trace, Value};
use kymo_symbols::{Files, Kernel, Mapping, Missing};

/// Bytes of a program's file, or of the kernel's text, that are read at most.
const FILE_MAX: u64 = 1 << 30;
/// Mappings of processes that are kept at most.
const MAPPINGS_MAX: usize = 1 << 20;
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
pub struct Known {
    programs: kymo_symbols::Symbols<Disk>,
    kernel: Option<Kernel>,
    /// By process, as the state dump has them.
    mappings: BTreeMap<i32, Vec<Mapping>>,
    count: usize,
    /// Why some could not be found: each reason once.
    reasons: std::cell::RefCell<Vec<String>>,
}

impl Known {
    /// With the kernel's functions from `file`, else from this machine where it is the one that was traced.
    pub fn new(file: Option<&Path>, traces: &[Trace]) -> anyhow::Result<Known> {
        let mut reasons = Vec::new();
        let kernel = match file {
            Some(path) => Some(from_file(path)?),
            None => match running(traces) {
                Ok(kernel) => Some(kernel),
                Err(why) => {
                    reasons.push(format!("functions of the kernel are not named: {why}"));
                    None
                }
            },
        };
        let programs = kymo_symbols::Symbols::new(Disk);
        Ok(Known { programs, kernel, mappings: BTreeMap::new(), count: 0, reasons: reasons.into() })
    }

    /// A text that is an address of the kernel as its function, where that is known; any other as it is.
    pub fn named(&self, text: &str) -> String {
        let address = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let name = address.and_then(|address| self.kernel.as_ref()?.find(address));
        name.unwrap_or_else(|| text.to_owned())
    }

    /// Takes a mapping of the state dump.
    pub fn map(&mut self, payload: Fields<'_>) {
        let number = |name: &str| match payload.get(name)? {
            Value::Int(number, _) => u64::try_from(i128::from(number)).ok(),
            _ => None,
        };
        let (Some(pid), Some(start), Some(end)) = (number("pid"), number("start"), number("end")) else { return };
        let (Ok(pid), Some(Value::Text(path))) = (i32::try_from(pid), payload.get("path")) else { return };
        let build_id = match payload.get("build_id") {
            Some(Value::Bytes(bytes)) => bytes.to_vec(),
            _ => Vec::new(),
        };
        if self.count < MAPPINGS_MAX {
            self.count += 1;
            let offset = number("pgoff").unwrap_or(0);
            let mapping = Mapping { start, end, offset, path: path.into_owned(), build_id };
            let known = self.mappings.entry(pid).or_default();
            // The dump at the end of a session has most of them again.
            known.retain(|other| other.start != mapping.start);
            known.push(mapping);
        }
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

    fn program(&self, process: i32, address: u64) -> Result<String, Missing> {
        let mappings = self.mappings.get(&process).map_or(&[][..], Vec::as_slice);
        let mapping = mappings.iter().find(|mapping| mapping.start <= address && address < mapping.end);
        let frames = self.programs.find(mapping.ok_or(Missing::NotMapped)?, address, true)?;
        let frames: Vec<String> = frames.iter().map(kymo_symbols::Frame::to_string).collect();
        Ok(frames.join(", inlined into "))
    }
}

impl kymo_analyze::explain::Symbols for Known {
    fn kernel(&self, address: u64) -> Option<String> {
        self.kernel.as_ref()?.find(address)
    }

    fn kernel_offset(&self, offset: i64) -> Option<String> {
        let kernel = self.kernel.as_ref()?;
        kernel.find(kernel.text_begin()?.checked_add_signed(offset)?)
    }

    fn user(&self, process: i32, address: u64, _: i64) -> Option<String> {
        match self.program(process, address) {
            Ok(text) => Some(text),
            Err(Missing::NotMapped) if !self.mappings.contains_key(&process) => {
                self.missing(format!(
                    "the trace does not have the memory of process {process}: addresses of it stay numbers (the state \
                     dump has that of programs that run when recording begins or ends, by --state full)"
                ));
                None
            }
            Err(why) => {
                self.missing(why.to_string());
                None
            }
        }
    }
}

/// A System.map, or a copy of /proc/kallsyms.
pub fn from_file(path: &Path) -> anyhow::Result<Kernel> {
    let bytes = Disk.read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Kernel::parse(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())
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
